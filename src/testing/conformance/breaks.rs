//! Ending a lease without its id, and what is noted of it (S17).

use std::time::Duration;

use super::bench::{
    Bench, acquire, break_lease, fields, lock, longest, new_id, note, run_out, shortest, state,
    write,
};
use crate::lock::FencingToken;
use crate::store::{
    BreakNote, BreakPeriod, LeaseEnd, LeaseState, LeaseStoreExt as _, MIN_LEASE_DURATION,
    StoreError,
};

pub(super) async fn s17_a_broken_lease_runs_out_before_another_gets_the_lock<B: Bench>(bench: &B) {
    let (path, store, a) = (lock(bench, "host/runs-out/~/FUNCTION"), bench.store(), new_id());
    acquire(bench, &path, shortest(a)).await;
    let broken = break_lease(bench, &path, note(BreakPeriod::RunOut, "first")).await.unwrap();
    assert!(broken.remaining > Duration::ZERO && broken.remaining <= MIN_LEASE_DURATION);
    let contended = store.acquire(&path, longest(new_id())).await;
    assert!(matches!(contended, Err(StoreError::Contended)), "{contended:?}");
    let lost = store.renew(&path, a, None).await;
    assert!(matches!(lost, Err(StoreError::LeaseLost { how: LeaseEnd::Broken })), "{lost:?}");
    bench.pass(Duration::from_secs(2)).await;
    let again = break_lease(bench, &path, note(BreakPeriod::RunOut, "again")).await.unwrap();
    assert!(again.remaining < broken.remaining, "a break never lengthens a lease");
    run_out(bench, &path).await;
    assert_eq!(state(bench, &path).await, LeaseState::Broken);
    acquire(bench, &path, longest(new_id())).await;
}

pub(super) async fn s17_a_lease_broken_now_frees_the_lock_at_once<B: Bench>(bench: &B) {
    let (path, store, a) = (lock(bench, "host/now/~/FUNCTION"), bench.store(), new_id());
    acquire(bench, &path, longest(a)).await;
    break_lease(bench, &path, note(BreakPeriod::RunOut, "too slow")).await.unwrap();
    let broken = break_lease(bench, &path, note(BreakPeriod::Now, "now")).await.unwrap();
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
        ..note(BreakPeriod::Now, "")
    };
    break_lease(bench, &path, kept.clone()).await.unwrap();
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
        break_lease(bench, &path, note(BreakPeriod::Now, reason)).await.unwrap();
        assert_eq!(
            store.read_break_note(&path).await.unwrap(),
            Some(note(BreakPeriod::Now, reason))
        );
    }
}

pub(super) async fn s17_a_break_that_breaks_nothing_leaves_no_note<B: Bench>(bench: &B) {
    let (path, store, a) = (lock(bench, "host/nothing/~/FUNCTION"), bench.store(), new_id());
    acquire(bench, &path, longest(a)).await;
    store.release(&path, a, None).await.unwrap();
    for period in [BreakPeriod::RunOut, BreakPeriod::Now] {
        let answer = break_lease(bench, &path, note(period, "nothing")).await;
        assert!(matches!(answer, Err(StoreError::NotHeld)), "{answer:?}");
    }
    assert_eq!(store.read_break_note(&path).await.unwrap(), None);
    let absent = lock(bench, "host/absent/~/FUNCTION");
    let answer = break_lease(bench, &absent, note(BreakPeriod::Now, "nothing")).await;
    assert!(matches!(answer, Err(StoreError::NotFound)), "{answer:?}");
    assert_eq!(store.read_break_note(&absent).await.unwrap(), None);
}

pub(super) async fn s22_a_note_says_how_the_lease_was_broken<B: Bench>(bench: &B) {
    for (name, period) in [("runs", BreakPeriod::RunOut), ("ends", BreakPeriod::Now)] {
        let (path, store) = (lock(bench, &format!("host/{name}/how/FUNCTION")), bench.store());
        acquire(bench, &path, longest(new_id())).await;
        break_lease(bench, &path, note(period, "why")).await.unwrap();
        let kept = store.read_break_note(&path).await.unwrap();
        assert_eq!(kept.map(|note| note.period), Some(period));
    }
}

pub(super) async fn s22_a_lease_that_was_ended_at_once_is_not_noted_as_running_out<B: Bench>(
    bench: &B,
) {
    let (path, store) = (lock(bench, "host/milder/~/FUNCTION"), bench.store());
    let of =
        |period, token| BreakNote { token: FencingToken::from_u64(token), ..note(period, "why") };
    let kept = async || store.read_break_note(&path).await.unwrap().map(|note| note.period);
    acquire(bench, &path, longest(new_id())).await;
    break_lease(bench, &path, of(BreakPeriod::Now, 4_096)).await.unwrap();
    acquire(bench, &path, longest(new_id())).await;
    // The record still names the grant that was ended at once, or one that was handed on from it.
    break_lease(bench, &path, of(BreakPeriod::RunOut, 4_097)).await.unwrap();
    assert_eq!(kept().await, Some(BreakPeriod::Now));
    break_lease(bench, &path, of(BreakPeriod::RunOut, 8_192)).await.unwrap();
    assert_eq!(
        kept().await,
        Some(BreakPeriod::Now),
        "no note says how that grant's lease was broken"
    );
    break_lease(bench, &path, of(BreakPeriod::Now, 8_192)).await.unwrap();
    acquire(bench, &path, longest(new_id())).await;
    break_lease(bench, &path, of(BreakPeriod::RunOut, 12_288)).await.unwrap();
    assert_eq!(kept().await, Some(BreakPeriod::RunOut), "another grant");
}

pub(super) async fn s17_a_break_of_no_token_is_for_one_version_of_the_record<B: Bench>(bench: &B) {
    let (path, store, a) = (lock(bench, "host/version/~/FUNCTION"), bench.store(), new_id());
    let first = acquire(bench, &path, longest(a)).await.etag;
    let second = write(bench, &path, a, fields([("leasehold_holder", "b")])).await.etag;
    for period in [BreakPeriod::RunOut, BreakPeriod::Now] {
        let answer = store.break_lease(&path, note(period, "old"), first.clone()).await;
        assert!(matches!(answer, Err(StoreError::Changed)), "{answer:?}");
    }
    assert_eq!(state(bench, &path).await, LeaseState::Leased);
    assert_eq!(store.read_break_note(&path).await.unwrap(), None);
    store.break_lease(&path, note(BreakPeriod::RunOut, "new"), second).await.unwrap();
    assert_eq!(state(bench, &path).await, LeaseState::Breaking);
}

pub(super) async fn s17_a_break_is_for_one_grant_whatever_is_written_of_it<B: Bench>(bench: &B) {
    let (path, store, a) = (lock(bench, "host/grant/~/FUNCTION"), bench.store(), new_id());
    let of = |token| FencingToken::from_u64(token);
    let record =
        |token: &str, holder| fields([("leasehold_token", token), ("leasehold_holder", holder)]);
    acquire(bench, &path, longest(a)).await;
    let first = write(bench, &path, a, record("8192", "a")).await.etag;
    // A save, or a resume: the same grant.
    let saved = write(bench, &path, a, record("8192", "b")).await.etag;
    let earlier = BreakNote { token: of(4_096), ..note(BreakPeriod::Now, "of another") };
    let answer = store.break_lease(&path, earlier.clone(), first.clone()).await;
    assert!(matches!(answer, Err(StoreError::Changed)), "{answer:?}");
    assert_eq!(state(bench, &path).await, LeaseState::Leased);
    assert_eq!(store.read_break_note(&path).await.unwrap(), None, "it is taken back");
    // What is handed on is not in the record yet (S10): the version that was looked at says enough.
    let handed_on = BreakNote { token: of(8_193), ..note(BreakPeriod::RunOut, "known here") };
    store.break_lease(&path, handed_on.clone(), saved).await.unwrap();
    assert_eq!(store.read_break_note(&path).await.unwrap(), Some(handed_on.clone()));
    let answer = store.break_lease(&path, earlier, first.clone()).await;
    assert!(matches!(answer, Err(StoreError::Changed)), "{answer:?}");
    let kept = store.read_break_note(&path).await.unwrap();
    assert_eq!(kept, Some(handed_on), "the note of the break before stays");
    let same = BreakNote { token: of(8_192), ..note(BreakPeriod::Now, "the same") };
    store.break_lease(&path, same.clone(), first).await.unwrap();
    assert_eq!(state(bench, &path).await, LeaseState::Broken);
    assert_eq!(store.read_break_note(&path).await.unwrap(), Some(same));
}

pub(super) async fn s22_a_breaking_lease_can_be_written_under_and_released<B: Bench>(bench: &B) {
    let (path, store, a) = (lock(bench, "host/finish/~/FUNCTION"), bench.store(), new_id());
    acquire(bench, &path, longest(a)).await;
    break_lease(bench, &path, note(BreakPeriod::RunOut, "finish")).await.unwrap();
    let saved = write(bench, &path, a, fields([("leasehold_holder", "b")])).await.etag;
    assert_eq!(state(bench, &path).await, LeaseState::Breaking);
    store.release(&path, a, Some(saved)).await.unwrap();
    assert_eq!(state(bench, &path).await, LeaseState::Available);
    acquire(bench, &path, longest(new_id())).await;
}
