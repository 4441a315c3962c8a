//! Ending a lease without its id, and what is noted of it (S17).

use std::time::Duration;

use super::bench::{Bench, acquire, lock, longest, new_id, note, run_out, shortest, state};
use crate::lock::FencingToken;
use crate::store::{BreakNote, BreakPeriod, LeaseEnd, LeaseState, MIN_LEASE_DURATION, StoreError};

pub(super) async fn s17_a_broken_lease_runs_out_before_another_gets_the_lock<B: Bench>(bench: &B) {
    let (path, store, a) = (lock(bench, "host/runs-out/~/FUNCTION"), bench.store(), new_id());
    acquire(bench, &path, shortest(a)).await;
    let broken = store.break_lease(&path, BreakPeriod::RunOut, note("first")).await.unwrap();
    assert!(broken.remaining > Duration::ZERO && broken.remaining <= MIN_LEASE_DURATION);
    let contended = store.acquire(&path, longest(new_id())).await;
    assert!(matches!(contended, Err(StoreError::Contended)), "{contended:?}");
    let lost = store.renew(&path, a, None).await;
    assert!(matches!(lost, Err(StoreError::LeaseLost { how: LeaseEnd::Broken })), "{lost:?}");
    bench.pass(Duration::from_secs(2)).await;
    let again = store.break_lease(&path, BreakPeriod::RunOut, note("again")).await.unwrap();
    assert!(again.remaining < broken.remaining, "a break never lengthens a lease");
    run_out(bench, &path).await;
    assert_eq!(state(bench, &path).await, LeaseState::Broken);
    acquire(bench, &path, longest(new_id())).await;
}

pub(super) async fn s17_a_lease_broken_now_frees_the_lock_at_once<B: Bench>(bench: &B) {
    let (path, store, a) = (lock(bench, "host/now/~/FUNCTION"), bench.store(), new_id());
    acquire(bench, &path, longest(a)).await;
    store.break_lease(&path, BreakPeriod::RunOut, note("too slow")).await.unwrap();
    let broken = store.break_lease(&path, BreakPeriod::Now, note("now")).await.unwrap();
    assert_eq!(broken.remaining, Duration::ZERO);
    acquire(bench, &path, longest(new_id())).await;
    let lost = store.renew(&path, a, None).await;
    assert!(matches!(lost, Err(StoreError::LeaseLost { .. })), "{lost:?}");
    let lost = store.release(&path, a, None).await;
    assert!(matches!(lost, Err(StoreError::LeaseLost { .. })), "{lost:?}");
    assert_eq!(state(bench, &path).await, LeaseState::Leased);
}

pub(super) async fn s17_the_note_of_a_break_is_kept<B: Bench>(bench: &B) {
    let (path, store, a) = (lock(bench, "host/note/~/FUNCTION"), bench.store(), new_id());
    acquire(bench, &path, longest(a)).await;
    assert_eq!(store.read_break_note(&path).await.unwrap(), None);
    let kept = BreakNote {
        reason: format!("Zürich 日本: \"hangs\"\t100% & more\n{}", "x".repeat(1_000)),
        by: "Ünal <u@example.com>".to_owned(),
        token: FencingToken::from_u64((1 << 53) - 1),
        ..note("")
    };
    store.break_lease(&path, BreakPeriod::Now, kept.clone()).await.unwrap();
    assert_eq!(store.read_break_note(&path).await.unwrap(), Some(kept.clone()));
    acquire(bench, &path, longest(new_id())).await;
    assert_eq!(store.read_break_note(&path).await.unwrap(), Some(kept));
    let neighbour = lock(bench, "host/note/~/LISTENER");
    assert_eq!(store.read_break_note(&neighbour).await.unwrap(), None);
}

pub(super) async fn s17_the_latest_note_is_the_one<B: Bench>(bench: &B) {
    let (path, store) = (lock(bench, "host/latest/~/FUNCTION"), bench.store());
    for reason in ["first", "second", ""] {
        acquire(bench, &path, longest(new_id())).await;
        store.break_lease(&path, BreakPeriod::Now, note(reason)).await.unwrap();
        assert_eq!(store.read_break_note(&path).await.unwrap(), Some(note(reason)));
    }
}

pub(super) async fn s17_a_break_that_breaks_nothing_leaves_no_note<B: Bench>(bench: &B) {
    let (path, store, a) = (lock(bench, "host/nothing/~/FUNCTION"), bench.store(), new_id());
    acquire(bench, &path, longest(a)).await;
    store.release(&path, a, None).await.unwrap();
    for period in [BreakPeriod::RunOut, BreakPeriod::Now] {
        let answer = store.break_lease(&path, period, note("nothing")).await;
        assert!(matches!(answer, Err(StoreError::NotHeld)), "{answer:?}");
    }
    assert_eq!(store.read_break_note(&path).await.unwrap(), None);
    let absent = lock(bench, "host/absent/~/FUNCTION");
    let answer = store.break_lease(&absent, BreakPeriod::Now, note("nothing")).await;
    assert!(matches!(answer, Err(StoreError::NotFound)), "{answer:?}");
    assert_eq!(store.read_break_note(&absent).await.unwrap(), None);
}
