//! Statuses of .NET timers: texts that hosts of .NET write too, of no lock (T22).

use std::sync::Arc;

use tokio::task::JoinSet;

use super::bench::{Bench, acquire, is_refused, lock, longest, new_id};
use crate::lock::{HostId, MAX_TIMER_STATUS_BYTES, TimerPath};
use crate::store::{ETag, List, StoreError, TimerWritten};

const STATUS: &str = r#"{"Last":"2026-11-22T02:30:00.1075034+01:00"}"#;

/// Where a timer of this case has its status; none in a store that has none.
fn timer<B: Bench>(bench: &B, name: &str) -> Option<TimerPath> {
    let host_id = HostId::parse("keeper-a").expect("it is one");
    let timer = TimerPath { container: bench.container(), host_id, timer: name.to_owned() };
    bench.store().has_timers().then_some(timer)
}

async fn put<B: Bench>(
    bench: &B,
    timer: &TimerPath,
    text: &str,
    if_match: Option<ETag>,
) -> TimerWritten {
    let written = bench.store().write_timer(timer, text.to_owned(), if_match).await;
    written.expect("the status is as known")
}

async fn status<B: Bench>(bench: &B, timer: &TimerPath) -> Option<(String, ETag)> {
    let read = bench.store().read_timer(timer).await.expect("the store can be read");
    read.status.map(|status| (status.text, status.etag))
}

pub(super) async fn t22_a_store_that_dotnet_cannot_share_says_so<B: Bench>(bench: &B) {
    let store = bench.store();
    if store.has_timers() {
        return;
    }
    let host_id = HostId::parse("keeper-a").unwrap();
    let timer = TimerPath { container: bench.container(), host_id, timer: "f".to_owned() };
    let read = store.read_timer(&timer).await;
    assert!(matches!(read, Err(StoreError::Fatal { .. })), "{read:?}");
    let written = store.write_timer(&timer, STATUS.to_owned(), None).await;
    assert!(matches!(written, Err(StoreError::Fatal { .. })), "{written:?}");
}

pub(super) async fn t22_a_status_reads_back_byte_for_byte<B: Bench>(bench: &B) {
    let Some(timer) = timer(bench, "Host.Functions.Zürich+Nested") else { return };
    let longest = "日".repeat(MAX_TIMER_STATUS_BYTES / 3) + "x";
    let mut known = None;
    for wanted in [STATUS, "{\r\n}", "", &longest] {
        let written = put(bench, &timer, wanted, known).await;
        let read = bench.store().read_timer(&timer).await.unwrap();
        assert!(read.time >= written.time, "the store's clock went back");
        let stored = read.status.expect("it was written");
        assert!(stored.text == wanted, "{:?} came back for {wanted:?}", stored.text);
        assert_eq!(stored.etag, written.etag);
        known = Some(written.etag);
    }
    let refused = bench.store().write_timer(&timer, longest + "x日", known).await;
    assert!(matches!(refused, Err(StoreError::Fatal { .. })), "{refused:?}");
}

pub(super) async fn t22_a_status_is_replaced_only_by_who_knows_it<B: Bench>(bench: &B) {
    let Some(timer) = timer(bench, "known") else { return };
    let store = bench.store();
    let never = ETag("\"never\"".to_owned());
    let refused = store.write_timer(&timer, "other".to_owned(), Some(never.clone())).await;
    assert!(is_refused(&refused), "{refused:?}");
    assert_eq!(status(bench, &timer).await, None);
    let first = put(bench, &timer, STATUS, None).await.etag;
    // The same text makes another version: who knew the first one knows that somebody wrote.
    let second = put(bench, &timer, STATUS, Some(first.clone())).await.etag;
    assert_ne!(first, second);
    for known in [None, Some(first), Some(never)] {
        let refused = store.write_timer(&timer, "other".to_owned(), known.clone()).await;
        assert!(is_refused(&refused), "{known:?}: {refused:?}");
    }
    assert_eq!(status(bench, &timer).await, Some((STATUS.to_owned(), second)));
}

pub(super) async fn t22_a_status_belongs_to_no_lock<B: Bench>(bench: &B) {
    let Some(timer) = timer(bench, "apart") else { return };
    let (store, path) = (bench.store(), lock(bench, "locks/keeper-a/apart.Listener"));
    let known = put(bench, &timer, STATUS, None).await.etag;
    let kept = Some((STATUS.to_owned(), known.clone()));
    let a = new_id();
    let made = acquire(bench, &path, longest(a)).await;
    assert!(made.created, "the lock was not there");
    store.release(&path, a, None).await.unwrap();
    store.delete(&path, made.etag).await.unwrap();
    assert_eq!(status(bench, &timer).await, kept);
    let (container, prefix) = (bench.container(), "locks/".to_owned());
    let list = List { container, prefix, continuation: None, limit: 10 };
    assert!(store.list(list).await.unwrap().locks.is_empty());
    let other = TimerPath { timer: "Apart".to_owned(), ..timer };
    assert_eq!(status(bench, &other).await, None);
}

pub(super) async fn t22_of_eight_writes_of_one_status_one_is_done<B: Bench>(bench: &B) {
    let Some(timer) = timer(bench, "writes") else { return };
    let mut known = None;
    for round in 0..4 {
        let mut writers = JoinSet::new();
        for writer in 0..8 {
            let (store, timer, known) = (Arc::clone(&bench.store()), timer.clone(), known.clone());
            let text = format!("{round}-{writer}");
            writers.spawn(async move { store.write_timer(&timer, text, known).await });
        }
        let done: Vec<_> = writers.join_all().await.into_iter().flatten().collect();
        assert_eq!(done.len(), 1, "written at once: {done:?}");
        known = done.into_iter().next().map(|written| written.etag);
    }
}
