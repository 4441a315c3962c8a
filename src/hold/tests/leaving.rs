//! Holds that have left, stale resumes, and suspicions that cross with grants: S3, S6, S11 to S16.

use super::rig::{
    ANN, BOB, CAT, Rig, is_granted, loss, millis, outage, released, saved, secs, store_failure,
    terms,
};
use crate::hold::{
    Action, Event, HolderCall, Notice, Request, SaveOutcome, StoreFailureKind, Terms, valid_until,
};
use crate::record::Record;

/// The stream is closed where the hold was; it goes on elsewhere.
#[test]
fn s13_s16_a_stream_that_closes_where_the_hold_has_left_is_no_loss() {
    let (mut former, mut rig) = Rig::pair();
    let grant = former.grant(ANN, Terms { resumable: true, ..terms() });
    rig.resume(BOB, &grant, terms(), secs(10));
    rig.serve();
    rig.granted(BOB);
    former.leave(ANN);
    former.serve();
    let told = former.told();
    assert_eq!(loss(&told, ANN), None, "it goes on: {told:?}");
    assert!(told.contains(&Action::Tell { caller: ANN, notice: Notice::Moved }), "{told:?}");
}

#[test]
fn s13_s16_a_hold_that_went_on_elsewhere_is_not_told_released() {
    let (mut former, mut rig) = Rig::pair();
    let grant = former.grant(ANN, Terms { resumable: true, ..terms() });
    rig.resume(BOB, &grant, terms(), secs(10));
    rig.serve();
    rig.granted(BOB);
    former.release(ANN);
    former.fail(outage());
    former.pass_served(secs(3));
    rig.pass_served(secs(3));
    assert!(rig.hold.validity(BOB).is_some(), "BOB has it");
    assert_eq!(released(&former.told(), ANN), None, "false RELEASED");
}

#[test]
fn s11_s12_a_stream_that_closes_after_its_release_does_not_make_others_wait() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.resume(BOB, &grant, Terms { min_hold: secs(2), resumable: true, ..terms() }, secs(9));
    rig.serve();
    let resumed = rig.granted(BOB);
    rig.arrive(CAT, terms());
    rig.release_of(BOB, &resumed);
    assert!(matches!(released(&rig.told(), BOB), Some(Some(_))));
    rig.leave(BOB);
    rig.pass_served(secs(4));
    let told = rig.told();
    assert!(is_granted(&told, CAT), "the rest was over after 2 s: {told:?}");
}

#[test]
fn s16_s26_a_stream_that_closes_after_its_release_leaves_the_last_save_alone() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.resume(BOB, &grant, Terms { resumable: true, ..terms() }, secs(9));
    rig.serve();
    let resumed = rig.granted(BOB);
    rig.save_of(BOB, 1, &resumed);
    rig.release_of(BOB, &resumed);
    rig.leave(BOB);
    rig.serve();
    let told = rig.told();
    assert!(matches!(saved(&told, 1), Some(SaveOutcome::Saved { .. })), "{told:?}");
    assert_eq!(released(&told, BOB), Some(None));
    assert!(!rig.is_leased(), "it was released with its generation");
}

/// A lease of our own is had when somebody resumes what is long gone.
#[test]
fn s6_a_stale_resume_does_not_throw_a_lease_away() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.now += millis(15_100);
    rig.arrive(CAT, terms());
    let acquire = rig.request();
    rig.serve_one(&acquire);
    assert!(
        matches!(rig.sent[0], Action::Store { what: Request::Write { .. }, .. }),
        "{:?}",
        rig.sent
    );
    rig.resume(BOB, &grant, terms(), secs(15));
    rig.pass_served(secs(2));
    let told = rig.told();
    assert_eq!(store_failure(&told, BOB), Some(StoreFailureKind::Unavailable), "it may ask again");
    assert!(is_granted(&told, CAT), "nobody else wants it: {told:?}");
}

/// As before, and the rest that CAT wants was stored before its lease is thrown away.
#[test]
fn s11_a_rest_of_a_grant_that_a_stale_resume_threw_away_does_not_stay() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.now += millis(15_100);
    rig.arrive(CAT, Terms { min_hold: secs(3_600), wait: secs(600), ..terms() });
    let acquire = rig.request();
    rig.serve_one(&acquire);
    // A call that was sent within the client's belief, and is late; from another kernel.
    rig.resume(BOB, &grant, terms(), secs(15));
    rig.pass_served(secs(300));
    let told = rig.told();
    assert!(is_granted(&told, CAT), "nobody was granted it, and it rests for an hour: {told:?}");
}

#[test]
fn s3_a_lock_is_not_handed_on_while_a_pause_is_suspected() {
    let (mut rig, mut other) = Rig::pair();
    let grant = rig.grant(ANN, terms());
    rig.arrive(CAT, terms());
    // A pause that the boot clock did not count: for the store, and for others, 20 s have passed.
    other.now = rig.now + secs(20);
    other.grant(BOB, terms());
    rig.now += millis(1);
    rig.on(Event::PauseSuspected);
    rig.release_of(ANN, &grant);
    assert!(!is_granted(&rig.told(), CAT), "BOB has it");
}

#[test]
fn s3_a_pause_that_is_suspected_before_the_grant_is_told_is_asked_about() {
    let (mut rig, mut other) = Rig::pair();
    rig.arrive(ANN, terms());
    let acquire = rig.request();
    rig.serve_one(&acquire);
    let write = rig.request();
    let stored = rig.do_in_store(&write);
    other.now = rig.now + secs(20);
    other.grant(BOB, terms());
    // Its answer is read after the pause, which was noticed by then.
    rig.now += millis(1);
    rig.on(Event::PauseSuspected);
    rig.on(stored);
    let told = rig.told();
    assert!(!is_granted(&told, ANN), "BOB has it: {told:?}");
    let asked = rig
        .sent
        .iter()
        .any(|action| matches!(action, Action::Store { what: Request::Renew { .. }, .. }));
    assert!(asked, "{:?}", rig.sent);
    rig.serve();
    assert!(!is_granted(&rig.told(), ANN), "and it waits on");
}

/// The resume here was slow, its repeat was answered elsewhere, and a load balancer brings the release here.
#[test]
fn s13_s16_a_release_of_a_newer_generation_than_a_resume_that_hangs_is_not_told_released() {
    let (mut former, mut rig) = Rig::pair();
    let grant = former.grant(ANN, Terms { resumable: true, ..terms() });
    former.resume_as(CAT, &grant, "one");
    rig.resume_as(BOB, &grant, "one");
    rig.serve();
    let generation = Some(rig.granted(BOB).generation);
    former.told();
    former.on(Event::Call { caller: CAT, generation, call: HolderCall::Release });
    for _ in 0..20 {
        former.pass_served(secs(1));
        rig.pass_served(secs(1));
    }
    assert!(rig.hold.validity(BOB).is_some(), "the lease is had");
    assert_eq!(released(&former.told(), CAT), None, "false RELEASED");
}

/// As before, for a resume.
#[test]
fn s3_a_pause_that_is_suspected_before_a_resume_is_told_is_asked_about() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.resume(BOB, &grant, terms(), secs(9));
    let write = rig.request();
    let stored = rig.do_in_store(&write);
    rig.now += millis(1);
    rig.on(Event::PauseSuspected);
    rig.on(stored);
    assert!(!is_granted(&rig.told(), BOB), "its renewal is from before the suspicion");
    let asked = rig
        .sent
        .iter()
        .any(|action| matches!(action, Action::Store { what: Request::Renew { .. }, .. }));
    assert!(asked, "{:?}", rig.sent);
    let sent = rig.at();
    rig.serve();
    let resumed = rig.granted(BOB);
    assert_eq!((resumed.token, resumed.lease_id), (grant.token, grant.lease_id));
    assert!(resumed.generation > grant.generation);
    assert_eq!(resumed.valid_until, valid_until(sent, secs(15)), "S2: from that renewal on");
}

#[test]
fn s5_the_record_is_written_for_whom_it_is_granted_to() {
    let called = |holder: &str| {
        let record = Record { holder: holder.to_owned(), ..Record::default() };
        Terms { record, ..terms() }
    };
    let mut rig = Rig::new();
    rig.arrive(ANN, called("ann"));
    let acquire = rig.request();
    rig.serve_one(&acquire);
    rig.arrive(BOB, called("bob"));
    let write = rig.request();
    rig.leave(ANN);
    rig.serve_one(&write);
    rig.serve();
    let grant = rig.granted(BOB);
    assert_eq!((rig.record().holder.as_str(), rig.record().token), ("bob", Some(grant.token)));
}
