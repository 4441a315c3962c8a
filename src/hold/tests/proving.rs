//! A lease that is renewed before its first grant, because the former record's holder yields (S33).

use super::deciding::{Brings, brings, settled};
use super::rig::{
    ANN, Arrival, BOB, CAT, Rig, is_busy, is_granted, millis, one_try, outage, refused, secs,
    store_failure, terms,
};
use super::table::{Table, failed};
use crate::hold::{Action, Event, Failure, NoteSeen, Request, StoreFailureKind, Terms};
use crate::record::{Priority, Sharing};

/// The terms of a caller of this priority that yields.
pub(super) fn of(priority: u32, terms: Terms) -> Terms {
    let priority = Priority::new(priority).unwrap();
    let sharing = Sharing { priority, yields: true, share: None }.boxed();
    Terms { record: crate::record::Record { sharing, ..terms.record }, ..terms }
}

/// A lock that a holder that yields has released, and for whose break somebody elsewhere is about to ask.
fn left_by_one_that_yields() -> Rig {
    let (mut rig, grant) = Rig::with_holder(ANN, of(1, terms()));
    rig.release_of(ANN, &grant);
    rig.serve();
    rig.told();
    rig
}

/// `BOB` has the lease on these terms, and its token is about to be written.
fn leased(arrival: impl Into<Arrival>) -> (Rig, Action) {
    let mut rig = left_by_one_that_yields();
    rig.arrive(BOB, arrival);
    let acquire = rig.request();
    rig.serve_one(&acquire);
    let write = rig.request();
    assert!(matches!(write, Action::Store { what: Request::Write { .. }, .. }), "{write:?}");
    (rig, write)
}

/// The same, and the token is written: the request that follows.
pub(super) fn written(terms: Terms) -> (Rig, Action) {
    let (mut rig, write) = leased(terms);
    rig.serve_one(&write);
    let proof = rig.request();
    (rig, proof)
}

/// Somebody of greater priority has the former holder's lease broken: that is this one by now.
fn break_for_the_former(rig: &Rig) {
    let for_priority = Some((Priority::new(2).unwrap(), Table::time(rig.now)));
    let note = NoteSeen { token: None, runs_out: true, for_priority };
    rig.table_mut().break_softly(Some(note));
}

pub(super) const fn is_renewal(action: &Action) -> bool {
    matches!(action, Action::Store { what: Request::Renew { .. }, .. })
}

fn at_least(seconds: u64) -> Terms {
    Terms { min_hold: secs(seconds), ..terms() }
}

#[test]
fn s33_who_follows_a_holder_that_yields_is_granted_once_the_lease_was_renewed() {
    let (mut rig, proof) = written(terms());
    assert!(is_renewal(&proof), "{proof:?}");
    assert!(!is_granted(&rig.told(), BOB));
    let sent = rig.at();
    rig.pause(secs(1));
    rig.serve_one(&proof);
    let grant = rig.granted(BOB);
    assert!(grant.valid_until <= sent + secs(15), "S2: as of the acquire, at the latest");
}

#[test]
fn s33_who_follows_a_holder_that_does_not_yield_is_granted_at_once() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.release_of(ANN, &grant);
    rig.serve();
    rig.arrive(BOB, terms());
    let acquire = rig.request();
    rig.serve_one(&acquire);
    let write = rig.request();
    rig.serve_one(&write);
    rig.granted(BOB);
}

#[test]
fn s33_a_lease_that_was_broken_for_the_former_holder_goes_back_and_is_had_again() {
    let (mut rig, write) = leased(terms());
    break_for_the_former(&rig);
    rig.serve_one(&write);
    let proof = rig.request();
    rig.serve_one(&proof);
    assert!(!is_granted(&rig.told(), BOB));
    rig.serve();
    rig.granted(BOB);
    rig.pass_served(secs(20));
    assert!(rig.is_leased() && super::rig::loss(&rig.told(), BOB).is_none());
}

#[test]
fn s11_a_rest_does_not_stay_for_whom_a_broken_lease_was_not_granted() {
    let (mut rig, write) = leased(at_least(40));
    break_for_the_former(&rig);
    rig.serve();
    rig.serve_one(&write);
    rig.serve();
    rig.granted(BOB);
}

#[test]
fn s11_a_rest_does_not_stay_where_a_lease_cannot_be_renewed() {
    let (mut rig, proof) = written(at_least(40));
    rig.on(failed(&proof, refused(StoreFailureKind::StoreFailed)).unwrap());
    rig.serve();
    assert_eq!(store_failure(&rig.told(), BOB), Some(StoreFailureKind::StoreFailed));
    assert!(!rig.is_leased());
    rig.grant(CAT, one_try());
}

#[test]
fn s6_a_lease_that_may_have_been_renewed_is_given_back_until_that_has_run_out() {
    let (mut rig, proof) = written(terms());
    let acquired = rig.now;
    rig.on(failed(&proof, outage()).unwrap());
    rig.pass_failing(secs(8));
    while rig.sent.is_empty() {
        rig.pass(millis(10));
    }
    // It is renewed, and nobody here knows.
    let proof = rig.request();
    assert!(is_renewal(&proof), "{proof:?}");
    rig.do_in_store(&proof);
    rig.on(failed(&proof, outage()).unwrap());
    rig.leave(BOB);
    rig.pass_failing(secs(10));
    assert!(rig.now > acquired + secs(16) && rig.is_leased());
    rig.pass_served(secs(2));
    assert!(!rig.is_leased(), "it is left over");
}

#[test]
fn s6_a_caller_that_leaves_before_its_lease_is_renewed_leaves_nothing() {
    let (mut rig, proof) = written(terms());
    rig.leave(BOB);
    rig.serve_one(&proof);
    rig.serve();
    assert!(!rig.is_leased() && rig.hold.is_idle());
}

#[test]
fn s11_a_caller_that_leaves_before_its_lease_is_renewed_leaves_no_rest() {
    for broken in [false, true] {
        let (mut rig, write) = leased(at_least(40));
        if broken {
            break_for_the_former(&rig);
        }
        rig.serve_one(&write);
        rig.leave(BOB);
        rig.serve();
        assert!(!rig.is_leased() && rig.hold.is_idle());
        rig.grant(CAT, one_try());
    }
}

#[test]
fn s15_a_drain_ends_a_lease_that_is_not_granted_yet() {
    for answered in [true, false] {
        let (mut rig, proof) = written(terms());
        rig.on(Event::DrainStarted { ends: rig.at() + secs(20) });
        assert_eq!(store_failure(&rig.told(), BOB), Some(StoreFailureKind::ShuttingDown));
        if answered {
            rig.serve_one(&proof);
        }
        rig.pass_served(secs(6));
        assert!(!rig.is_leased() && rig.hold.is_idle());
    }
}

#[test]
fn s4_a_renewal_that_comes_after_the_lease_has_run_out_is_given_back() {
    let (mut rig, proof) = written(terms());
    // Neither this nor what is asked after it is answered before the lease has run out.
    rig.pass_failing(secs(20));
    rig.leave(BOB);
    rig.pass_failing(secs(20));
    assert!(!rig.is_leased());
    let late = rig.do_in_store(&proof);
    rig.on(late);
    rig.serve();
    assert!(!rig.is_leased(), "it has it again, and nobody wants it");
}

#[test]
fn s2_a_renewal_that_is_answered_too_late_grants_nothing() {
    let (mut rig, proof) = written(terms());
    rig.pause(secs(14) + millis(300));
    let answer = rig.do_in_store(&proof);
    rig.on(answer);
    assert!(!is_granted(&rig.told(), BOB));
    rig.serve();
    rig.granted(BOB);
}

#[test]
fn s12_one_try_is_answered_when_its_lease_cannot_be_renewed() {
    let (mut rig, proof) = written(one_try());
    rig.on(failed(&proof, outage()).unwrap());
    assert_eq!(store_failure(&rig.told(), BOB), Some(StoreFailureKind::Unavailable));
    rig.serve();
    assert!(!rig.is_leased());
    // One whose lease was broken is tried for again, and one whose lease is another's is busy.
    let (mut rig, proof) = written(one_try());
    rig.on(failed(&proof, Failure::Taken).unwrap());
    assert!(is_busy(&rig.told(), BOB));
}

#[test]
fn t6_what_settles_a_caller_needs_no_renewed_lease() {
    let (mut rig, write) = leased(brings(Brings::Settle));
    break_for_the_former(&rig);
    rig.serve_one(&write);
    assert_eq!(settled(&rig.told(), BOB), Some(true), "it is granted nothing");
    rig.serve();
    assert!(!rig.is_leased());
}

#[test]
fn s33_who_comes_after_one_that_is_settled_is_granted_no_broken_lease() {
    let (mut rig, write) = leased(brings(Brings::Settle));
    break_for_the_former(&rig);
    rig.leave(BOB);
    rig.arrive(CAT, terms());
    rig.serve_one(&write);
    rig.serve();
    rig.granted(CAT);
    rig.pass_served(secs(20));
    assert!(rig.is_leased() && super::rig::loss(&rig.told(), CAT).is_none());
}

#[test]
fn s33_who_comes_after_one_that_has_left_is_granted_no_broken_lease() {
    let (mut rig, write) = leased(of(3, terms()));
    break_for_the_former(&rig);
    rig.serve_one(&write);
    rig.leave(BOB);
    rig.arrive(CAT, terms());
    rig.serve();
    rig.granted(CAT);
    rig.pass_served(secs(20));
    assert!(rig.is_leased() && super::rig::loss(&rig.told(), CAT).is_none());
}

#[test]
fn s33_a_lease_is_renewed_again_for_who_follows_a_caller_that_yields_and_has_left() {
    let (mut rig, proof) = written(of(3, terms()));
    rig.leave(BOB);
    rig.arrive(CAT, terms());
    rig.serve_one(&proof);
    // For a moment the record was that of one that yields, and was broken for somebody.
    break_for_the_former(&rig);
    rig.serve();
    rig.granted(CAT);
    rig.pass_served(secs(20));
    assert!(rig.is_leased() && super::rig::loss(&rig.told(), CAT).is_none());
}

#[test]
fn s33_a_renewal_of_the_former_holder_that_is_answered_late_grants_nothing() {
    let (mut rig, grant) = Rig::with_holder(ANN, of(1, terms()));
    rig.pass(secs(6));
    let former = rig.request();
    assert!(is_renewal(&former), "{former:?}");
    let late = rig.do_in_store(&former);
    rig.release_of(ANN, &grant);
    rig.sent.retain(|action| matches!(action, Action::Store { what: Request::Release { .. }, .. }));
    rig.serve();
    rig.arrive(BOB, terms());
    for _ in ["acquire", "write"] {
        let action = rig.request();
        rig.serve_one(&action);
    }
    rig.told();
    rig.on(late);
    assert!(!is_granted(&rig.told(), BOB));
    rig.serve();
    rig.granted(BOB);
}

#[test]
fn s4_a_renewal_that_revives_a_lease_is_given_back_while_the_next_is_acquired() {
    let (mut rig, proof) = written(terms());
    rig.pass_failing(secs(18));
    assert!(!rig.is_leased());
    while !rig
        .sent
        .iter()
        .any(|action| matches!(action, Action::Store { what: Request::Acquire { .. }, .. }))
    {
        rig.sent.clear();
        rig.pass(millis(100));
    }
    let late = rig.do_in_store(&proof);
    assert!(rig.is_leased());
    rig.on(late);
    let release = rig
        .sent
        .iter()
        .any(|action| matches!(action, Action::Store { what: Request::Release { .. }, .. }));
    assert!(release, "{:?}", rig.sent);
}

#[test]
fn s33_a_lease_is_renewed_once_and_only_for_somebody() {
    let (mut rig, proof) = written(terms());
    rig.leave(BOB);
    rig.arrive(CAT, at_least(1));
    rig.serve_one(&proof);
    let write = rig.request();
    assert!(matches!(write, Action::Store { what: Request::Write { .. }, .. }), "{write:?}");
    rig.serve_one(&write);
    rig.granted(CAT);
    // Who leaves before the token is written needs none.
    let (mut rig, write) = leased(terms());
    rig.leave(BOB);
    rig.serve_one(&write);
    let next = rig.request();
    assert!(matches!(next, Action::Store { what: Request::Release { .. }, .. }), "{next:?}");
}

#[test]
fn s1_s17_a_break_from_here_that_ends_while_a_lease_is_proven_is_met_by_one_more_renewal() {
    let (mut rig, proof) = written(terms());
    let renewed = rig.do_in_store(&proof);
    rig.on(Event::BreakBegun);
    rig.table_mut().break_now();
    rig.pass(millis(10));
    rig.on(Event::BreakOver { may_arrive: false });
    rig.on(renewed);
    assert!(!is_granted(&rig.told(), BOB));
    let again = rig.request();
    assert!(is_renewal(&again), "{again:?}");
    rig.serve_one(&again);
    assert!(!is_granted(&rig.told(), BOB), "its lease is gone");
}

#[test]
fn s11_a_rest_that_the_store_refuses_to_take_back_is_left_to_end_by_itself() {
    let (mut rig, write) = leased(at_least(40));
    rig.serve_one(&write);
    rig.leave(BOB);
    let mut writes = 0;
    rig.run(secs(30), |rig| {
        while let Some(action) = rig.sent.pop_front() {
            if matches!(action, Action::Store { what: Request::Write { .. }, .. }) {
                writes += 1;
                rig.on(failed(&action, refused(StoreFailureKind::StoreFailed)).unwrap());
            } else {
                rig.serve_one(&action);
            }
        }
    });
    assert_eq!((writes, rig.is_leased(), rig.hold.is_idle()), (1, false, true));
}

#[test]
fn s11_a_rest_whose_taking_back_is_not_answered_is_taken_back_under_the_same_lease() {
    let (mut rig, write) = leased(at_least(40));
    rig.serve_one(&write);
    rig.leave(BOB);
    let is_write =
        |action: &Action| matches!(action, Action::Store { what: Request::Write { .. }, .. });
    while !rig.sent.front().is_some_and(is_write) {
        let action = rig.request();
        rig.serve_one(&action);
    }
    rig.fail(outage());
    assert!(rig.sent.is_empty(), "it is not given back yet: {:?}", rig.sent);
    rig.pass(secs(2));
    assert!(rig.sent.front().is_some_and(is_write), "{:?}", rig.sent);
    rig.serve();
    assert_eq!((rig.is_leased(), rig.record().resting_until), (false, None));
}
