//! A hold that was handed on is in the record once it has lasted: S10, S13, S16.

use super::rig::{
    ANN, BOB, CAT, Rig, is_granted, loss, millis, outage, refused, released, saved, secs, terms,
};
use crate::hold::{
    Action, CallerId, Failure, Granted, LossReason, Notice, Request, SaveOutcome, StoreFailure,
    StoreFailureKind, Terms,
};
use crate::record::{Labels, Record};

fn named(holder: &str) -> Terms {
    let record = Record { holder: holder.to_owned(), ..Record::default() };
    Terms { record, resumable: true, ..terms() }
}

/// Ann has handed the lock on to Bob just now: her grant, and his.
fn handed_on(rig: &mut Rig) -> (Granted, Granted) {
    let first = rig.grant(ANN, named("ann"));
    rig.arrive(BOB, named("bob"));
    rig.release_of(ANN, &first);
    assert!(rig.sent.is_empty(), "a hand-off asks nothing of the store");
    let second = rig.granted(BOB);
    (first, second)
}

/// The write that is under way.
fn write(rig: &mut Rig) -> Action {
    let action = rig.request();
    assert!(
        matches!(action, Action::Store { what: Request::Write { .. }, .. }) && rig.sent.is_empty(),
        "{action:?}"
    );
    action
}

#[test]
fn s10_a_hold_that_was_handed_on_is_in_the_record_after_a_second() {
    let (mut rig, _) = Rig::pair();
    let labels = Labels::new([("team".to_owned(), "billing".to_owned())].into()).unwrap();
    let first = rig.grant(ANN, named("ann"));
    rig.save(ANN, 1, "page 7");
    rig.serve();
    rig.table_mut().set("leasehold_schedule_plan", "1");
    // The change is known before the hand-off.
    rig.pass_served(secs(6));
    let mut bob = named("bob");
    bob.record.labels = labels.clone();
    rig.arrive(BOB, bob);
    rig.release_of(ANN, &first);
    let second = rig.granted(BOB);
    rig.pass(millis(999));
    assert!(rig.sent.is_empty(), "{:?}", rig.sent);
    rig.pass(millis(1));
    let action = write(&mut rig);
    rig.serve_one(&action);
    let record = rig.record();
    assert_eq!((record.token, record.holder.as_str()), (Some(second.token), "bob"));
    assert_eq!((record.labels, record.generation), (labels, second.generation));
    assert_eq!(record.acquired_at, Some(second.acquired_at));
    assert_eq!(record.lease, Some(first.lease_id.fingerprint()));
    assert_eq!(rig.checkpoint().unwrap().0, "page 7", "nothing is lost");
    assert!(rig.table().fields().contains_key("leasehold_schedule_plan"));
    // Once; and renewals go by the new version.
    rig.pass_served(secs(60));
    assert_eq!(rig.record().write, record.write);
    assert!(rig.hold.validity(BOB).is_some());
    assert_eq!(loss(&rig.told(), BOB), None);
}

#[test]
fn s10_a_chain_of_short_hand_offs_asks_nothing_of_the_store() {
    let mut rig = Rig::new();
    let mut holder = (ANN, rig.grant(ANN, named("ann")));
    for number in 10..15 {
        let next = CallerId(number);
        rig.arrive(next, named("next"));
        rig.pass(millis(900));
        rig.release_of(holder.0, &holder.1);
        holder = (next, rig.granted(next));
    }
    assert!(rig.sent.is_empty(), "{:?}", rig.sent);
    assert_eq!(holder.1.token.hand_offs(), 5);
}

#[test]
fn s10_a_save_brings_the_record_up_and_nothing_more_is_written() {
    let mut rig = Rig::new();
    let (_, second) = handed_on(&mut rig);
    rig.pass(millis(500));
    rig.save_of(BOB, 1, &second);
    rig.serve();
    assert!(matches!(saved(&rig.told(), 1), Some(SaveOutcome::Saved { .. })));
    assert_eq!(rig.record().token, Some(second.token));
    rig.pass(secs(4));
    assert!(rig.sent.is_empty(), "{:?}", rig.sent);
}

#[test]
fn s16_who_has_handed_the_lock_on_resumes_nowhere() {
    let (mut rig, mut other) = Rig::pair();
    let (first, second) = handed_on(&mut rig);
    // Where it was handed on, from the first moment.
    rig.resume(CAT, &first, named("ann"), secs(13));
    assert_eq!(loss(&rig.told(), CAT), Some(LossReason::Taken));
    rig.pass_served(secs(1));
    // Elsewhere, once it is written.
    other.now = rig.now;
    other.resume(CAT, &first, named("ann"), secs(13));
    other.serve();
    assert_eq!(loss(&other.told(), CAT), Some(LossReason::Taken));
    rig.pass_served(secs(30));
    assert_eq!(loss(&rig.told(), BOB), None);
    assert_eq!(rig.record().token, Some(second.token));
}

#[test]
fn s16_who_resumes_just_after_it_has_handed_the_lock_on_ends_the_next_hold_within_a_second() {
    let (mut rig, mut other) = Rig::pair();
    let (first, _) = handed_on(&mut rig);
    other.now = rig.now;
    other.resume(CAT, &first, named("ann"), secs(13));
    other.serve();
    assert!(is_granted(&other.told(), CAT), "nothing in the store says otherwise yet");
    rig.pass_served(secs(1));
    let told = rig.told();
    assert_eq!(loss(&told, BOB), Some(LossReason::Taken), "it must not go on elsewhere: {told:?}");
}

#[test]
fn s16_who_was_handed_the_lock_just_before_goes_on_elsewhere() {
    let (mut rig, mut other) = Rig::pair();
    let (first, second) = handed_on(&mut rig);
    rig.silent(BOB);
    other.now = rig.now;
    other.resume(CAT, &second, named("bob"), secs(13));
    other.serve();
    assert_eq!(other.granted(CAT).token, second.token);
    let record = other.record();
    assert_eq!((record.token, record.holder.as_str()), (Some(second.token), "bob"));
    // The sidecar that it left writes nothing over that, and the holder before is refused.
    rig.pass_served(secs(1));
    assert!(rig.told().contains(&Action::Tell { caller: BOB, notice: Notice::Moved }));
    other.resume(ANN, &first, named("ann"), secs(13));
    assert_eq!(loss(&other.told(), ANN), Some(LossReason::Taken));
    assert_eq!(other.record().generation, 2);
}

#[test]
fn s16_a_resume_where_the_lock_was_handed_on_writes_the_grant_that_stands() {
    let mut rig = Rig::new();
    let (_, second) = handed_on(&mut rig);
    rig.silent(BOB);
    rig.resume(CAT, &second, named("bob"), secs(13));
    rig.serve();
    assert_eq!(rig.granted(CAT).token, second.token);
    let record = rig.record();
    assert_eq!((record.token, record.holder.as_str()), (Some(second.token), "bob"));
    assert_eq!(record.generation, 2);
}

#[test]
fn s13_s27_a_lock_whose_record_write_is_not_settled_is_not_handed_on() {
    let mut rig = Rig::new();
    let (_, second) = handed_on(&mut rig);
    rig.pass(secs(1));
    let lost = write(&mut rig);
    let answer = rig.do_in_store(&lost);
    drop(answer);
    rig.arrive(CAT, named("cat"));
    rig.release_of(BOB, &second);
    assert!(!is_granted(&rig.told(), CAT), "its outcome is unknown");
    rig.pass(secs(2));
    assert!(!is_granted(&rig.told(), CAT), "its outcome is unknown");
    rig.pass_served(secs(2));
    let told = rig.told();
    assert!(is_granted(&told, CAT), "a read has settled it: {told:?}");
    assert_eq!(released(&told, BOB), Some(None));
    assert_eq!(rig.record().token, Some(second.token));
}

#[test]
fn s13_s27_what_stays_unknown_runs_out_with_the_lease() {
    let mut rig = Rig::new();
    let (_, second) = handed_on(&mut rig);
    rig.pass(secs(1));
    let _lost = write(&mut rig);
    rig.arrive(CAT, Terms { wait: secs(100), ..named("cat") });
    rig.release_of(BOB, &second);
    rig.pass_failing(secs(14));
    assert!(!is_granted(&rig.told(), CAT));
    // Nobody is wedged in for it.
    rig.pass_served(secs(20));
    assert!(is_granted(&rig.told(), CAT));
}

#[test]
fn s10_a_write_that_fails_ends_no_hold_and_holds_up_nobody() {
    for failure in [outage(), refused(StoreFailureKind::Denied)] {
        let mut rig = Rig::new();
        let (_, second) = handed_on(&mut rig);
        rig.pass(secs(1));
        rig.fail(failure);
        rig.pass_served(secs(3));
        assert_eq!(rig.record().token, Some(second.token), "it is repeated");
        assert_eq!(loss(&rig.told(), BOB), None);
    }
    // What was surely not done is dropped with the hold.
    let mut rig = Rig::new();
    let (_, second) = handed_on(&mut rig);
    rig.pass(secs(1));
    rig.fail(Failure::NotDone(StoreFailure {
        kind: StoreFailureKind::Throttled,
        message: "slower".to_owned(),
        retry_after: Some(secs(3)),
    }));
    rig.arrive(CAT, named("cat"));
    rig.release_of(BOB, &second);
    assert!(is_granted(&rig.told(), CAT));
}

#[test]
fn s10_a_record_that_was_changed_by_others_is_written_again_and_ends_no_hold() {
    let mut rig = Rig::new();
    let (_, second) = handed_on(&mut rig);
    rig.pass(millis(900));
    rig.table_mut().touch();
    rig.pass_served(secs(3));
    assert_eq!(rig.record().token, Some(second.token));
    assert!(rig.table().fields().contains_key("other"));
    assert_eq!(loss(&rig.told(), BOB), None);
}

#[test]
fn s8_a_write_that_finds_the_lease_gone_ends_the_hold() {
    let mut rig = Rig::new();
    handed_on(&mut rig);
    rig.pass(secs(1));
    rig.fail(Failure::Taken);
    assert_eq!(loss(&rig.told(), BOB), Some(LossReason::Taken));
}

#[test]
fn s10_the_write_waits_for_a_renewal_and_a_release_does_not_wait_for_it() {
    let mut rig = Rig::new();
    let first = rig.grant(ANN, named("ann"));
    rig.pass_served(millis(4_490));
    rig.arrive(BOB, named("bob"));
    rig.release_of(ANN, &first);
    let second = rig.granted(BOB);
    // The renewal comes first, and its answer is late.
    rig.pass(secs(2));
    let renewal = rig.request();
    assert!(
        matches!(renewal, Action::Store { what: Request::Renew { .. }, .. }) && rig.sent.is_empty(),
        "{renewal:?}"
    );
    rig.arrive(CAT, named("cat"));
    rig.release_of(BOB, &second);
    assert!(is_granted(&rig.told(), CAT), "nothing of it was sent");
}

#[test]
fn s16_a_release_that_finds_the_holder_before_resumed_is_no_release() {
    let (mut rig, mut other) = Rig::pair();
    let (first, second) = handed_on(&mut rig);
    other.now = rig.now;
    other.resume(CAT, &first, named("ann"), secs(13));
    other.serve();
    rig.release_of(BOB, &second);
    rig.serve();
    let told = rig.told();
    assert_eq!((released(&told, BOB), loss(&told, BOB)), (None, Some(LossReason::Taken)));
    assert!(other.is_leased(), "the release ends nothing that went on");
}
