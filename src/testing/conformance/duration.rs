//! How long leases last, and what the store's clock shows.

use std::time::Duration;

use super::bench::{
    Bench, acquire, fields, is_refused, lock, longest, new_id, read, run_out, shortest, state,
    write,
};
use crate::store::{LeaseState, LeaseStoreExt as _, MIN_LEASE_DURATION};

#[derive(Clone, Copy)]
enum By {
    Acquire,
    Renew,
}

/// Half a lease passes, it is restarted, more than the other half passes: it must be there still. Where real
/// time passes, a slow machine may let the whole lease go by; the store's clock tells, and the round does not
/// count.
async fn restarts<B: Bench>(bench: &B, by: By) {
    for round in 0..5 {
        let (path, a) = (lock(bench, &format!("host/restart-{round}/~/FUNCTION")), new_id());
        let first = acquire(bench, &path, shortest(a)).await;
        bench.pass(Duration::from_secs(8)).await;
        let again = match by {
            By::Acquire => acquire(bench, &path, shortest(a)).await.time,
            By::Renew => {
                bench.store().renew(&path, a, None).await.expect("half the lease is left").time
            }
        };
        bench.pass(Duration::from_secs(9)).await;
        let stored = read(bench, &path).await;
        assert!(stored.time.saturating_since(first.time) > MIN_LEASE_DURATION);
        if stored.time.saturating_since(again) < MIN_LEASE_DURATION - Duration::from_secs(2) {
            assert_eq!(stored.lease, LeaseState::Leased);
            run_out(bench, &path).await;
            return;
        }
    }
    panic!("the machine is too slow for a lease of {MIN_LEASE_DURATION:?}, five times over");
}

pub(super) async fn s6_acquire_under_the_same_id_restarts_the_duration<B: Bench>(bench: &B) {
    restarts(bench, By::Acquire).await;
}

pub(super) async fn s7_renew_restarts_the_duration<B: Bench>(bench: &B) {
    restarts(bench, By::Renew).await;
}

pub(super) async fn s16_a_renewal_of_another_record_restarts_nothing<B: Bench>(bench: &B) {
    let (path, a) = (lock(bench, "host/moved/~/FUNCTION"), new_id());
    acquire(bench, &path, shortest(a)).await;
    let before = write(bench, &path, a, fields([("leasehold_holder", "here")])).await.etag;
    let now = write(bench, &path, a, fields([("leasehold_holder", "there")])).await.etag;
    bench.store().renew(&path, a, Some(now)).await.expect("it is the record's own");
    bench.pass(Duration::from_secs(8)).await;
    let refused = bench.store().renew(&path, a, Some(before)).await;
    assert!(is_refused(&refused), "{refused:?}");
    bench.pass(Duration::from_secs(9)).await;
    assert_eq!(state(bench, &path).await, LeaseState::Expired);
}

pub(super) async fn a_lease_lasts_as_long_as_was_asked_for<B: Bench>(bench: &B) {
    let short = lock(bench, "host/short/~/FUNCTION");
    let long = lock(bench, "host/long/~/FUNCTION");
    acquire(bench, &short, shortest(new_id())).await;
    let granted = acquire(bench, &long, longest(new_id())).await.time;
    run_out(bench, &short).await;
    assert_eq!(state(bench, &short).await, LeaseState::Expired);
    let stored = read(bench, &long).await;
    assert!(stored.time.saturating_since(granted) < Duration::from_secs(58), "too slow a machine");
    assert_eq!(stored.lease, LeaseState::Leased);
}

pub(super) async fn s6_renew_proves_that_nobody_leased_since<B: Bench>(bench: &B) {
    let (path, a, b) = (lock(bench, "host/since/~/FUNCTION"), new_id(), new_id());
    let store = bench.store();
    acquire(bench, &path, shortest(a)).await;
    run_out(bench, &path).await;
    acquire(bench, &path, longest(b)).await;
    store.renew(&path, a, None).await.unwrap_err();
    store.release(&path, b, None).await.unwrap();
    store.renew(&path, a, None).await.unwrap_err();
    acquire(bench, &path, longest(a)).await;
    assert_eq!(state(bench, &path).await, LeaseState::Leased);
}

pub(super) async fn s6_renew_proves_that_nobody_wrote_since<B: Bench>(bench: &B) {
    let deviations = bench.deviations();
    if deviations.no_writes_from_outside.is_some() {
        return;
    }
    let (path, a) = (lock(bench, "host/written/~/FUNCTION"), new_id());
    acquire(bench, &path, shortest(a)).await;
    run_out(bench, &path).await;
    bench.write_without_lease(&path, fields([("other", "1")])).await;
    let renewed = bench.store().renew(&path, a, None).await;
    assert!(renewed.is_err() || deviations.renews_expired_after_write.is_some(), "{renewed:?}");
}

pub(super) async fn s5_the_stores_clock_goes_forward<B: Bench>(bench: &B) {
    let (path, a) = (lock(bench, "host/clock/~/FUNCTION"), new_id());
    let granted = acquire(bench, &path, longest(a)).await.time;
    bench.pass(Duration::from_secs(2)).await;
    let renewed = bench.store().renew(&path, a, None).await.unwrap().time;
    assert!(renewed.saturating_since(granted) >= Duration::from_secs(1));
    let written_at = {
        write(bench, &path, a, fields([("leasehold_holder", "a")])).await;
        read(bench, &path).await.written_at
    };
    bench.pass(Duration::from_secs(2)).await;
    bench.store().renew(&path, a, None).await.unwrap();
    let stored = read(bench, &path).await;
    assert_eq!(stored.written_at, written_at, "a renewal writes nothing");
    assert!(written_at.seconds() >= renewed.seconds());
    assert!(stored.time.seconds() > written_at.seconds());
}

pub(super) async fn s18_check_tells_the_stores_clock<B: Bench>(bench: &B) {
    let (store, container) = (bench.store(), bench.container());
    let empty = store.check(&container).await.expect("a container may be made on first use");
    bench.pass(Duration::from_secs(2)).await;
    acquire(bench, &lock(bench, "host/check/~/FUNCTION"), longest(new_id())).await;
    let used = store.check(&container).await.expect("the container is there");
    assert!(used.saturating_since(empty) >= Duration::from_secs(1));
}
