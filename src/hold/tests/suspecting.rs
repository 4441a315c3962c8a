//! Pauses that no clock here counted: S3.

use super::rig::{ANN, Rig, loss, millis, secs, terms};
use crate::hold::{Action, Event};

fn warned(told: &[Action]) -> bool {
    told.iter().any(|action| matches!(action, Action::TellAtRisk { .. }))
}

#[test]
fn s3_a_suspicion_renews_soon_and_once() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass(secs(1));
    rig.on(Event::PauseSuspected);
    rig.pass(millis(500));
    assert_eq!(rig.sent.len(), 1, "within D/30");
    rig.serve();
    assert!(rig.sent.is_empty());
    rig.pass(millis(4_400));
    assert!(rig.sent.is_empty(), "it is decided: the next comes after D/3");
    rig.pass(millis(700));
    assert_eq!(rig.sent.len(), 1);
    rig.serve();
    assert_eq!(loss(&rig.told(), ANN), None);
}

#[test]
fn s3_a_renewal_that_was_sent_before_the_suspicion_does_not_decide() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass(millis(5_500));
    let before = rig.request();
    rig.on(Event::PauseSuspected);
    rig.serve_one(&before);
    rig.pass(millis(500));
    assert_eq!(rig.sent.len(), 1, "it is asked again");
    rig.serve();
    assert!(rig.sent.is_empty());
    rig.pass(millis(4_400));
    assert!(rig.sent.is_empty(), "once");
}

#[test]
fn s3_a_suspicion_that_is_not_decided_in_time_is_a_risk() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass(secs(1));
    rig.on(Event::PauseSuspected);
    rig.pass_failing(millis(2_400));
    assert!(!warned(&rig.told()), "a renewal has its time");
    rig.pass_failing(millis(1_400));
    assert!(warned(&rig.told()), "long before two thirds of the lease have passed");
}
