//! A lease that is kept between two holds (T19).

use super::parts::{Brings, brings, runs, settled};
use super::rig::{
    ANN, BOB, CAT, Rig, is_busy, is_granted, loss, millis, one_try, outage, released, secs, terms,
};
use crate::hold::{Action, CallerId, Event, Failure, Granted, Terms};

/// A sidecar that keeps the lease of a run that has ended.
fn keeping(keep: u64) -> (Rig, Granted) {
    let (mut rig, grant) = Rig::with_holder(ANN, brings(Brings::Run));
    rig.release_keeping(ANN, &grant, secs(keep));
    assert_eq!((rig.hold.state(), rig.sent.len()), ("kept", 0));
    assert_eq!(released(&rig.told(), ANN), Some(None), "its hold is over");
    (rig, grant)
}

#[test]
fn t19_a_kept_lease_is_nobodys_hold_and_goes_back_in_time() {
    let (mut rig, _) = keeping(10);
    assert!(rig.hold.holding().is_none() && !rig.hold.is_idle());
    assert_eq!(rig.hold.validity(ANN), None);
    rig.pass_served(millis(9_999));
    assert!(rig.is_leased(), "it is renewed meanwhile");
    rig.pass_served(millis(1));
    assert!(!rig.is_leased() && rig.hold.is_idle());
    let told = rig.told();
    let quiet = told.iter().all(|action| matches!(action, Action::ReportRenewal { .. }));
    assert!(quiet, "{told:?}");
}

#[test]
fn t19_who_comes_while_the_lease_is_kept_costs_one_request() {
    let (mut rig, first) = keeping(20);
    rig.pass_served(secs(12));
    rig.arrive(BOB, brings(Brings::Run));
    assert_eq!(rig.sent.len(), 1);
    rig.serve();
    let second = rig.granted(BOB);
    assert_eq!(second.lease_id, first.lease_id);
    assert!(second.token.epoch() > first.token.epoch(), "with a token of its own in the store");
    assert_eq!(runs(&rig), Some((2, second.token.value())));
    // A plain caller is served so too, and one try as well.
    rig.release_keeping(BOB, &second, secs(10));
    rig.told();
    rig.arrive(CAT, one_try());
    rig.serve();
    assert!(rig.granted(CAT).token.epoch() > second.token.epoch());
}

#[test]
fn t19_who_waits_already_is_served_at_once() {
    let (mut rig, grant) = Rig::with_holder(ANN, brings(Brings::Run));
    rig.arrive(BOB, brings(Brings::Run));
    rig.release_keeping(ANN, &grant, secs(10));
    assert!(rig.is_leased() && released(&rig.told(), ANN).is_some());
    rig.serve();
    assert_eq!(rig.granted(BOB).lease_id, grant.lease_id);
}

#[test]
fn t19_who_is_turned_away_ends_the_keeping() {
    let (mut rig, _) = keeping(10);
    rig.arrive(BOB, brings(Brings::Nothing));
    assert_eq!(settled(&rig.told(), BOB), Some(false));
    rig.serve();
    assert!(!rig.is_leased());
}

#[test]
fn t19_a_caller_with_another_lease_duration_waits_for_the_lease_to_go_back() {
    let (mut rig, grant) = keeping(10);
    rig.arrive(BOB, Terms { lease_duration: secs(30), ..terms() });
    assert!(matches!(rig.sent[0], Action::SendRelease { .. }), "{:?}", rig.sent);
    rig.serve();
    let next = rig.granted(BOB);
    assert!(next.lease_id != grant.lease_id && next.lease_duration == secs(30));
}

#[test]
fn t19_a_lease_is_kept_for_thirty_seconds_at_most_and_then_others_get_in() {
    let (mut rig, mut other) = Rig::pair();
    other.arrive(CAT, Terms { wait: secs(600), ..terms() });
    other.leave(CAT);
    let mut grant = rig.grant(ANN, brings(Brings::Run));
    let begun = rig.now;
    let mut caller = ANN;
    other.now = rig.now;
    other.arrive(CAT, Terms { wait: secs(600), ..terms() });
    for round in 0..30 {
        for _ in 0..10 {
            rig.pass_served(millis(100));
            other.pass_served(millis(100));
        }
        if is_granted(&other.told(), CAT) {
            assert!(rig.now - begun <= secs(45), "{:?}", rig.now - begun);
            return;
        }
        rig.release_keeping(caller, &grant, secs(20));
        for _ in 0..10 {
            rig.pass_served(millis(100));
            other.pass_served(millis(100));
        }
        caller = CallerId(100 + round);
        rig.told();
        rig.arrive(caller, brings(Brings::Run));
        for _ in 0..10 {
            rig.pass_served(millis(100));
            other.pass_served(millis(100));
        }
        if is_granted(&other.told(), CAT) {
            assert!(rig.now - begun <= secs(45), "{:?}", rig.now - begun);
            return;
        }
        grant = rig.granted(caller);
    }
    panic!("the other sidecar starves");
}

#[test]
fn t19_asking_for_more_than_thirty_seconds_gives_thirty() {
    let (mut rig, _) = keeping(600);
    rig.pass_served(millis(29_999));
    assert_eq!(rig.hold.state(), "kept");
    rig.pass_served(millis(1));
    assert!(!rig.is_leased());
    // S10: and then it stands back.
    rig.arrive(BOB, terms());
    rig.pass_served(millis(300));
    assert!(!is_granted(&rig.told(), BOB));
    rig.pass_served(secs(6));
    rig.granted(BOB);
}

#[test]
fn t19_a_kept_lease_that_is_lost_is_nobodys_loss() {
    for failure in [Failure::Taken, Failure::Broken, Failure::Deleted] {
        let (mut rig, _) = keeping(20);
        rig.pass(secs(6));
        assert!(matches!(rig.sent[0], Action::SendRenew { .. }), "{:?}", rig.sent);
        rig.fail(failure);
        let told = rig.told();
        let quiet = told.iter().all(|action| matches!(action, Action::ReportRenewal { .. }));
        assert!(quiet && rig.hold.is_idle(), "{told:?}");
    }
}

#[test]
fn t19_a_kept_lease_whose_renewals_fail_serves_nobody() {
    let (mut rig, grant) = keeping(20);
    rig.pass_failing(secs(9));
    rig.arrive(BOB, terms());
    assert!(matches!(rig.sent[0], Action::SendRelease { .. }), "{:?}", rig.sent);
    rig.serve();
    assert_ne!(rig.granted(BOB).lease_id, grant.lease_id);
    let (mut rig, _) = keeping(20);
    rig.pass_failing(secs(15));
    rig.pass_served(secs(5));
    assert!(rig.told().iter().all(|action| matches!(action, Action::ReportRenewal { .. })));
    assert!(rig.hold.is_idle());
}

#[test]
fn t19_a_drain_and_a_hand_over_give_a_kept_lease_back() {
    let (mut rig, _) = keeping(20);
    let ends = rig.at() + secs(20);
    rig.on(Event::DrainStarted { ends });
    rig.serve();
    assert!(!rig.is_leased() && rig.hold.is_idle());
    let (mut rig, _) = keeping(20);
    let ends = rig.at() + secs(20);
    rig.on(Event::HandOverStarted { ends });
    rig.serve();
    assert!(!rig.is_leased());
    let told = rig.told();
    assert!(
        !told.iter().any(|action| matches!(action, Action::TellInterrupted { .. })),
        "{told:?}"
    );
    // Nor is one kept while the sidecar ends.
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    let ends = rig.at() + secs(20);
    rig.on(Event::DrainStarted { ends });
    rig.release_keeping(ANN, &grant, secs(20));
    rig.serve();
    assert!(!rig.is_leased());
}

#[test]
fn s17_a_break_ends_a_kept_lease_quietly() {
    for ends_now in [true, false] {
        let (mut rig, _) = keeping(20);
        rig.on(Event::LeaseBroken { ends_now });
        assert!(rig.hold.is_idle());
        assert_eq!(rig.told(), []);
    }
}

#[test]
fn t19_the_outcome_is_recorded_first_and_then_the_lease_is_kept() {
    let (mut rig, grant) = Rig::with_holder(ANN, brings(Brings::Run));
    rig.save(ANN, 1, "page 7");
    rig.release_keeping(ANN, &grant, secs(10));
    assert_eq!(rig.hold.state(), "saving");
    rig.serve();
    assert_eq!(rig.hold.state(), "kept");
    // Where the outcome stays unknown, nothing is kept (S13).
    let (mut rig, grant) = Rig::with_holder(ANN, brings(Brings::Run));
    rig.save(ANN, 1, "page 7");
    rig.release_keeping(ANN, &grant, secs(10));
    rig.fail(outage());
    rig.pass_failing(secs(15));
    assert_ne!(rig.hold.state(), "kept");
}

#[test]
fn s13_the_repeat_of_a_release_does_not_end_the_keeping_nor_a_later_hold() {
    let (mut rig, grant) = keeping(10);
    rig.release_of(ANN, &grant);
    rig.leave(ANN);
    rig.silent(ANN);
    assert_eq!(rig.hold.state(), "kept");
    rig.arrive(BOB, brings(Brings::Run));
    rig.serve();
    rig.granted(BOB);
    rig.release_of(ANN, &grant);
    assert_eq!(rig.hold.state(), "held");
}

#[test]
fn s16_a_hold_whose_lease_is_kept_is_not_resumed() {
    let (mut rig, grant) = keeping(10);
    rig.resume(BOB, &grant, terms(), secs(10));
    assert!(loss(&rig.told(), BOB).is_some());
    assert_eq!(rig.hold.state(), "kept");
}

#[test]
fn s11_a_rest_is_kept_rather_than_the_lease() {
    let resting = Terms { min_hold: secs(40), ..brings(Brings::Run) };
    let (mut rig, grant) = Rig::with_holder(ANN, resting);
    rig.release_keeping(ANN, &grant, secs(10));
    assert_eq!(rig.hold.state(), "resting");
    rig.arrive(BOB, one_try());
    assert!(is_busy(&rig.told(), BOB));
}
