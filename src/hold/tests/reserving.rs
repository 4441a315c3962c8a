//! For how long a lock is kept for who had it broken, once the hold is over (S33).

use std::time::Duration;

use super::overruling::{breaks, does, go_on, held, serves, waits};
use super::proving::of;
use super::rig::{ANN, BOB, CAT, Rig, is_granted, loss, millis, outage, revoked, secs, terms};
use super::table::failed;
use crate::hold::{Action, Granted, LossReason, Request, Terms};

/// A lease that has long to go when its holder lets go.
fn long(terms: Terms) -> Terms {
    Terms { lease_duration: secs(60), ..terms }
}

/// A holder that was told that its lease was broken for a caller elsewhere, which has gone since.
fn told(holder: Terms) -> (Rig, Rig, Granted) {
    let (mut old, mut new, grant) = held(long(of(1, holder)));
    new.arrive(BOB, long(waits(of(2, terms()))));
    assert_eq!(breaks((&mut old, &mut new), secs(75), does).len(), 1);
    go_on((&mut old, &mut new), secs(10), serves);
    assert!(revoked(&old.told(), ANN).is_some());
    new.leave(BOB);
    new.restart();
    (old, new, grant)
}

/// How long it takes until somebody of a smaller priority has the lock elsewhere.
fn granted_after((old, new): (&mut Rig, &mut Rig)) -> Duration {
    let begun = new.now;
    new.arrive(CAT, long(waits(of(1, terms()))));
    while !is_granted(&new.told(), CAT) {
        assert!(new.now < begun + secs(200), "it is kept without end");
        go_on((old, new), millis(200), serves);
    }
    new.now - begun
}

/// The poll cap, 5 s, and what it takes to see that.
const KEPT: Duration = secs(12);

#[test]
fn s33_a_lock_is_kept_from_the_release_on_where_the_stream_of_its_holder_broke() {
    let (mut old, mut new, grant) = told(terms());
    old.silent(ANN);
    old.release_of(ANN, &grant);
    old.serve();
    assert!(!old.is_leased());
    let after = granted_after((&mut old, &mut new));
    assert!(after >= secs(9) && after <= KEPT, "{after:?}");
}

#[test]
fn s33_s11_a_lock_is_kept_from_the_end_of_a_bound_on() {
    let (mut old, mut new, _) = told(Terms { max_hold: Some(secs(90)), ..terms() });
    let mut reason = None;
    while reason.is_none() {
        go_on((&mut old, &mut new), millis(200), serves);
        reason = loss(&old.told(), ANN);
    }
    assert_eq!(reason, Some(LossReason::MaxHoldReached));
    let after = granted_after((&mut old, &mut new));
    assert!(after >= secs(9) && after <= KEPT, "{after:?}");
}

#[test]
fn s33_s13_a_write_that_is_under_way_when_a_bound_ends_does_not_keep_the_lease() {
    let (mut old, mut new, _) = told(Terms { max_hold: Some(secs(90)), ..terms() });
    old.save(ANN, 1, "saved");
    while !old
        .sent
        .iter()
        .any(|action| matches!(action, Action::Store { what: Request::Write { .. }, .. }))
    {
        old.pass(millis(100));
    }
    let place = old
        .sent
        .iter()
        .position(|action| matches!(action, Action::Store { what: Request::Write { .. }, .. }));
    let write = old.sent.remove(place.unwrap()).unwrap();
    // It is done, and nobody here knows.
    old.do_in_store(&write);
    old.on(failed(&write, outage()).unwrap());
    let mut lost = false;
    for _ in 0..200 {
        old.pass(millis(100));
        old.sent.retain(|action| {
            !matches!(action, Action::Store { what: Request::Read | Request::Write { .. }, .. })
                || lost
        });
        old.serve();
        lost |= loss(&old.told(), ANN).is_some();
        if lost && !old.is_leased() {
            new.now = old.now;
            return assert!(granted_after((&mut old, &mut new)) < secs(60));
        }
    }
    panic!("the lease is kept");
}
