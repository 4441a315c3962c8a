//! Holds that go on at a sidecar that did not grant them, or at the same one again: S16.

use super::rig::{ANN, BOB, CAT, Rig, is_granted, loss, millis, secs, terms};
use crate::hold::{Action, LossReason, Terms};
use crate::lock::{Labels, Record};

#[test]
fn s16_who_was_silent_goes_on_at_the_same_sidecar() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.pass_failing(secs(11));
    rig.told();
    rig.silent(ANN);
    rig.resume(BOB, &grant, terms(), secs(3));
    let again = rig.granted(BOB);
    assert_eq!((again.token, again.resumed), (grant.token, true));
    assert_eq!(again.valid_until, grant.valid_until, "its validity is not stretched");
    rig.pass_served(secs(60));
    assert!(rig.hold.validity(BOB).is_some());
    rig.leave(ANN);
    assert!(rig.hold.validity(BOB).is_some(), "the call it replaced has no say");
}

#[test]
fn s16_a_hold_goes_on_after_a_restart() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.now += secs(8);
    let resumed_at = rig.at();
    rig.resume(BOB, &grant, terms(), secs(6));
    assert!(
        matches!(rig.sent[0], Action::SendRenew { lease_id, .. } if lease_id == grant.lease_id)
    );
    rig.serve();
    let again = rig.granted(BOB);
    assert_eq!((again.token, again.resumed), (grant.token, true));
    assert_eq!(again.valid_until - resumed_at, millis(14_200));
    rig.pass_served(secs(60));
    assert!(rig.hold.validity(BOB).is_some());
}

#[test]
fn s16_what_a_client_does_not_bring_is_read_from_the_record() {
    let labels = Labels::new([("team".to_owned(), "billing".to_owned())].into()).unwrap();
    let record = Record {
        holder: "ann".to_owned(),
        function: "Invoices".to_owned(),
        scope: "eu".to_owned(),
        mode: "FUNCTION".to_owned(),
        labels,
        ..Record::default()
    };
    let brought = Record { holder: "ann".to_owned(), ..Record::default() };
    let (mut rig, grant) = Rig::with_holder(ANN, Terms { record: record.clone(), ..terms() });
    rig.restart();
    rig.resume(BOB, &grant, Terms { record: brought.clone(), ..terms() }, secs(9));
    rig.serve();
    assert_eq!(rig.hold.holding().unwrap().terms.record, record);

    // The same for who was handed the lock on, but for the labels, which are the first holder's.
    let (mut rig, _) = Rig::with_holder(ANN, Terms { record: record.clone(), ..terms() });
    rig.arrive(CAT, terms());
    rig.release(ANN);
    let handed_on = rig.granted(CAT);
    rig.restart();
    rig.resume(BOB, &handed_on, Terms { record: brought, ..terms() }, secs(9));
    rig.serve();
    let expected = Record { labels: Labels::default(), ..record };
    assert_eq!(rig.hold.holding().unwrap().terms.record, expected);
}

#[test]
fn s16_who_waits_after_a_restart_does_not_stand_in_the_way() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.arrive(CAT, terms());
    rig.pass_served(secs(1));
    rig.resume(BOB, &grant, terms(), secs(12));
    rig.serve();
    assert_eq!(rig.granted(BOB).token, grant.token);
    rig.release(BOB);
    rig.pass_served(secs(2));
    assert!(rig.granted(CAT).token > grant.token);
}

#[test]
fn s16_a_hold_that_another_had_since_is_lost() {
    let (mut rig, mut other) = Rig::pair();
    let grant = rig.grant(ANN, terms());
    rig.now += secs(16);
    other.now = rig.now;
    other.grant(CAT, terms());
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(3));
    rig.serve();
    assert_eq!(loss(&rig.told(), BOB), Some(LossReason::Taken));
}

#[test]
fn s16_a_token_of_another_epoch_is_lost_even_if_its_lease_can_be_renewed() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    let older = crate::lock::FencingToken::from_u64(grant.token.value() - 65_536).unwrap();
    rig.resume(BOB, &crate::hold::Granted { token: older, ..grant }, terms(), secs(9));
    rig.serve();
    assert_eq!(loss(&rig.told(), BOB), Some(LossReason::Taken));
}

#[test]
fn s16_a_resume_ends_with_the_clients_belief() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(4));
    rig.pass_failing(secs(4));
    assert_eq!(loss(&rig.told(), BOB), Some(LossReason::Expired));
    rig.pass_served(secs(20));
    assert!(!is_granted(&rig.told(), BOB));
}

#[test]
fn s16_a_former_sidecar_does_not_end_a_hold_that_went_on_elsewhere() {
    let (mut former, mut rig) = Rig::pair();
    let grant = former.grant(ANN, terms());
    former.arrive(CAT, terms());
    former.silent(ANN);
    rig.resume(BOB, &grant, terms(), secs(10));
    rig.serve();
    rig.granted(BOB);
    rig.pass_served(secs(14));
    former.pass_served(secs(14));
    former.pass_served(secs(4));
    rig.pass_served(secs(4));
    assert!(!is_granted(&former.told(), CAT));
    assert_eq!(loss(&rig.told(), BOB), None);
    assert!(rig.hold.validity(BOB).is_some());
}

#[test]
fn s16_a_hold_resumed_twice_is_not_ended_where_its_client_never_came() {
    let (mut rig, mut dangling) = Rig::pair();
    let grant = rig.grant(ANN, terms());
    rig.restart();
    // The client asked here first, its connection broke, and it went on there.
    dangling.resume(CAT, &grant, terms(), secs(13));
    rig.resume(BOB, &grant, terms(), secs(13));
    rig.serve();
    rig.granted(BOB);
    // The store's answers come late: this write is newer than the other sidecar's.
    dangling.pass_served(secs(1));
    dangling.granted(CAT);
    dangling.silent(CAT);
    rig.pass_served(secs(30));
    dangling.pass_served(secs(30));
    assert_eq!(loss(&dangling.told(), CAT), Some(LossReason::Expired));
    rig.pass_served(secs(6));
    assert_eq!(loss(&rig.told(), BOB), None);
    assert!(rig.is_leased());
}

#[test]
fn s16_a_resumed_hold_is_not_handed_on_here() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(9));
    rig.serve();
    rig.granted(BOB);
    rig.arrive(CAT, terms());
    rig.leave(BOB);
    assert!(!is_granted(&rig.told(), CAT));
    rig.serve();
    let next = rig.granted(CAT);
    assert!(next.token.epoch() > grant.token.epoch());
}

#[test]
fn s16_who_was_silent_here_may_have_gone_on_elsewhere_so_a_release_asks_the_store() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, terms());
    rig.silent(ANN);
    rig.release(ANN);
    assert!(!is_granted(&rig.told(), BOB));
    rig.serve();
    rig.granted(BOB);
}

#[test]
fn s16_a_repeated_resume_takes_the_place_of_the_first() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(9));
    rig.resume(CAT, &grant, terms(), secs(9));
    assert!(rig.told().contains(&Action::TellSuperseded { caller: BOB }));
    rig.serve();
    rig.granted(CAT);
    rig.leave(BOB);
    assert!(rig.hold.validity(CAT).is_some());
}

#[test]
fn s16_a_resume_given_up_leaves_the_lease_alone() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(9));
    rig.leave(BOB);
    rig.pass_served(secs(1));
    assert!(rig.is_leased());
    assert_eq!(rig.told(), []);
}
