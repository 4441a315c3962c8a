//! From a caller to a grant: S2, S5, S6, S18.

use super::rig::{
    ANN, BOB, CAT, Rig, is_busy, is_granted, millis, one_try, outage, secs, store_failure, terms,
};
use crate::hold::{Action, Failure, Remark, Request, StoreFailure, StoreFailureKind, Terms};
use crate::lock::{FencingToken, LeaseId};

fn acquire(action: &Action) -> (LeaseId, bool, bool) {
    match action {
        Action::Store { what: Request::Acquire { lease_id, if_match, read, .. }, .. } => {
            (*lease_id, if_match.is_some(), *read)
        }
        other => panic!("not an acquire: {other:?}"),
    }
}

#[test]
fn s2_validity_counts_from_before_the_acquire_was_sent() {
    let mut rig = Rig::new();
    let before = rig.at();
    rig.arrive(ANN, terms());
    rig.pass(secs(1));
    rig.serve();
    let grant = rig.granted(ANN);
    assert_eq!(grant.valid_until - before, millis(14_200));
    assert_eq!(rig.hold.validity(ANN), Some(grant.valid_until));
}

#[test]
fn s2_an_answer_counts_from_its_own_request_not_the_newest() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass(millis(5_500));
    let first = rig.request();
    let sent = rig.at();
    let answer = rig.do_in_store(&first);
    rig.pass(secs(3));
    assert!(
        matches!(rig.request(), Action::Store { what: Request::Renew { .. }, .. }),
        "the first was cut off"
    );
    rig.on(answer);
    let valid_until = rig.hold.validity(ANN).unwrap();
    assert!(valid_until <= sent + millis(14_200), "it counts from a later request");
    assert!(valid_until > sent + millis(13_000));
}

#[test]
fn s2_a_lease_that_ran_out_meanwhile_is_not_granted() {
    let mut rig = Rig::new();
    rig.arrive(ANN, terms());
    let acquire = rig.request();
    rig.serve_one(&acquire);
    let write = rig.request();
    let answer = rig.do_in_store(&write);
    rig.pause(millis(14_200));
    rig.on(answer);
    assert!(!is_granted(&rig.told(), ANN));
    assert!(matches!(rig.request(), Action::Store { what: Request::Release { .. }, .. }));
}

#[test]
fn s5_the_token_is_stored_before_the_grant() {
    let mut rig = Rig::new();
    rig.arrive(ANN, terms());
    let acquire = rig.request();
    rig.serve_one(&acquire);
    assert!(!is_granted(&rig.told(), ANN));
    rig.serve();
    let grant = rig.granted(ANN);
    assert_eq!(rig.record().token, Some(grant.token));
    assert_eq!(rig.record().lease, Some(grant.lease_id.fingerprint()));
}

#[test]
fn s5_a_token_that_cannot_be_stored_is_not_granted() {
    let mut rig = Rig::new();
    rig.arrive(ANN, terms());
    let acquire = rig.request();
    rig.serve_one(&acquire);
    rig.pass_failing(secs(15));
    assert!(!is_granted(&rig.told(), ANN));
    rig.leave(ANN);
    rig.pass_served(secs(5));
    assert!(!rig.is_leased());
}

#[test]
fn s5_a_write_whose_answer_was_lost_is_recognized() {
    let mut rig = Rig::new();
    rig.arrive(ANN, terms());
    let acquire = rig.request();
    rig.serve_one(&acquire);
    let write = rig.request();
    rig.do_in_store(&write);
    let stored = rig.record().token.unwrap();
    rig.pass(secs(4));
    rig.serve();
    assert_eq!(rig.granted(ANN).token, stored, "the write was repeated");
}

#[test]
fn s5_a_store_that_fell_back_gets_no_grant() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.release(ANN);
    rig.serve();
    rig.told();
    // The store's clock goes back to before the grant, and the record with it.
    rig.hold.memory.highest = FencingToken::from_u64(grant.token.value() + (1 << 30));
    rig.arrive(BOB, terms());
    rig.serve();
    let told = rig.told();
    assert_eq!(store_failure(&told, BOB), Some(StoreFailureKind::TokenNotGrowing));
    assert!(
        told.iter().any(|action| matches!(action, Action::Report(Remark::TokenNotGrowing { .. })))
    );
    assert!(!rig.is_leased(), "its lease is released");
}

#[test]
fn s6_an_unknown_acquire_is_repeated_with_the_same_id() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.release(ANN);
    rig.serve();
    rig.arrive(BOB, terms());
    let (id, if_match, read) = acquire(&rig.request());
    assert!(if_match && !read, "the record is known");
    rig.pass(millis(4_000));
    let again = rig.request();
    assert_eq!(acquire(&again), (id, true, false));
    rig.serve_one(&again);
    rig.serve();
    assert_eq!(rig.granted(BOB).lease_id, id);
    rig.release(BOB);
    rig.serve();
    rig.arrive(CAT, terms());
    assert_ne!(acquire(&rig.request()).0, id, "an id is used once");
}

#[test]
fn s6_another_lease_duration_never_goes_out_under_an_id_of_unknown_outcome() {
    let mut rig = Rig::new();
    rig.arrive(ANN, terms());
    rig.arrive(BOB, Terms { lease_duration: secs(60), ..terms() });
    let (id, ..) = acquire(&rig.request());
    rig.leave(ANN);
    rig.pass(secs(5));
    assert!(
        matches!(rig.request(), Action::Store { what: Request::Release { lease_id, .. }, .. } if lease_id == id)
    );
    rig.pass_served(secs(10));
    assert_ne!(rig.granted(BOB).lease_id, id);
}

#[test]
fn s6_an_attempt_given_up_is_followed_by_a_release() {
    let mut rig = Rig::new();
    rig.arrive(ANN, terms());
    let (id, ..) = acquire(&rig.request());
    rig.leave(ANN);
    rig.pass(millis(2_500));
    assert!(
        matches!(rig.request(), Action::Store { what: Request::Release { lease_id, .. }, .. } if lease_id == id)
    );
}

#[test]
fn s6_an_acquire_that_succeeds_after_it_was_given_up_is_released() {
    let mut rig = Rig::new();
    rig.arrive(ANN, terms());
    let late = rig.request();
    rig.leave(ANN);
    rig.pass_served(secs(5));
    let answer = rig.do_in_store(&late);
    assert!(rig.is_leased());
    rig.on(answer);
    rig.serve();
    assert!(!rig.is_leased());
}

#[test]
fn s6_a_late_answer_does_not_release_a_lease_in_use() {
    let mut rig = Rig::new();
    rig.arrive(ANN, terms());
    let late = rig.request();
    let answer = rig.do_in_store(&late);
    rig.pass(secs(3));
    rig.on(answer);
    let releases = rig
        .sent
        .iter()
        .filter(|action| matches!(action, Action::Store { what: Request::Release { .. }, .. }));
    assert_eq!(releases.count(), 0);
    rig.pass_served(secs(2));
    rig.granted(ANN);
    assert!(rig.is_leased());
}

#[test]
fn s6_a_lease_lost_before_its_grant_is_not_asked_for_again_under_its_id() {
    let mut rig = Rig::new();
    rig.arrive(ANN, terms());
    let first = rig.request();
    let (id, ..) = acquire(&first);
    rig.serve_one(&first);
    rig.table_mut().break_now();
    rig.serve();
    rig.pass(secs(1));
    assert_ne!(acquire(&rig.request()).0, id);
}

#[test]
fn s18_refused_callers_are_told_at_once_and_the_lease_is_not_kept() {
    let mut rig = Rig::new();
    rig.arrive(ANN, terms());
    rig.arrive(BOB, terms());
    let denied = StoreFailure {
        kind: StoreFailureKind::Denied,
        message: "needs Storage Blob Data Contributor".to_owned(),
        retry_after: None,
    };
    let acquire = rig.request();
    rig.serve_one(&acquire);
    rig.fail(Failure::Refused(denied));
    let told = rig.told();
    assert_eq!(store_failure(&told, ANN), Some(StoreFailureKind::Denied));
    assert_eq!(store_failure(&told, BOB), Some(StoreFailureKind::Denied));
    rig.serve();
    assert!(!rig.is_leased());
    assert!(rig.hold.is_idle());
}

#[test]
fn s18_a_wait_that_ends_in_an_outage_says_so_and_one_in_contention_says_busy() {
    let mut rig = Rig::new();
    rig.arrive(ANN, Terms { wait: secs(10), ..terms() });
    rig.pass_failing(secs(11));
    assert_eq!(store_failure(&rig.told(), ANN), Some(StoreFailureKind::Unavailable));
    rig.pass_served(secs(20));
    // The outage is over: who waits for a holder is told busy, not of old troubles.
    rig.arrive(BOB, terms());
    rig.fail(outage());
    rig.pass_served(secs(2));
    rig.granted(BOB);
    rig.arrive(CAT, Terms { wait: secs(10), ..terms() });
    rig.pass_served(secs(11));
    assert!(is_busy(&rig.told(), CAT));
}

#[test]
fn s18_one_try_is_answered_also_while_a_lease_cannot_be_given_back() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.release(ANN);
    rig.fail(outage());
    rig.arrive(BOB, one_try());
    rig.pass_failing(secs(5));
    assert_eq!(store_failure(&rig.told(), BOB), Some(StoreFailureKind::Unavailable));
}

#[test]
fn a_collision_of_host_types_is_reported() {
    let mut keeper = terms();
    keeper.record.host_type = "Keeper-A".to_owned();
    let (mut rig, _) = Rig::with_holder(ANN, keeper);
    rig.release(ANN);
    rig.serve();
    let mut other = terms();
    other.record.host_type = "Shop".to_owned();
    rig.arrive(BOB, other);
    rig.serve();
    let told = rig.told();
    let collides = |action: &Action| matches!(action, Action::Report(Remark::Collision { .. }));
    assert!(told.iter().any(collides));
    // The same one again is none.
    let mut same = terms();
    same.record.host_type = "Shop".to_owned();
    rig.release(BOB);
    rig.serve();
    rig.arrive(CAT, same);
    rig.serve();
    assert!(!rig.told().iter().any(collides));
}

#[test]
fn s5_a_token_that_was_seen_already_is_not_granted_again() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.release(ANN);
    rig.serve();
    let time = super::table::Table::time(rig.now);
    rig.hold.memory.highest = FencingToken::after_acquisition(rig.record().token, time);
    rig.arrive(BOB, terms());
    rig.serve();
    assert_eq!(store_failure(&rig.told(), BOB), Some(StoreFailureKind::TokenNotGrowing));
}
