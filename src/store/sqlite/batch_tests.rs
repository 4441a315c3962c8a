//! What comes while the thread is busy is committed together, and nobody pays for another's trouble.

use std::sync::mpsc;

use futures_util::future::join_all;

use super::*;
use crate::store::Written;

/// Keeps the thread busy until the sender is dropped, so that what is asked meanwhile comes to it together.
async fn occupy(store: &Arc<SqliteStore>) -> mpsc::Sender<()> {
    let (free, freed) = mpsc::channel::<()>();
    let (begun, has_begun) = oneshot::channel();
    let store = Arc::clone(store);
    let wait = move |_: &mut Session| {
        let _ = begun.send(());
        let _ = freed.recv();
        Ok(())
    };
    tokio::spawn(async move { store.run(wait).await });
    has_begun.await.unwrap();
    free
}

/// The answers to what was asked of a busy thread, in the order of asking. All of it is in its queue before
/// it is free.
async fn together<T: Send + 'static, F>(
    store: &Arc<SqliteStore>,
    asked: impl IntoIterator<Item = F>,
) -> Vec<Result<T, StoreError>>
where
    F: Future<Output = Result<T, StoreError>> + Send + 'static,
{
    let free = occupy(store).await;
    let queued = store.jobs.capacity();
    let asked: Vec<_> = asked.into_iter().map(tokio::spawn).collect();
    while queued - store.jobs.capacity() < asked.len() {
        tokio::task::yield_now().await;
    }
    drop(free);
    join_all(asked).await.into_iter().map(Result::unwrap).collect()
}

fn lock(number: u128) -> LockPath {
    path(&format!("lock-{number}"))
}

async fn take(store: &SqliteStore, numbers: impl IntoIterator<Item = u128>) {
    for number in numbers {
        store.acquire(&lock(number), acquire(number)).await.unwrap();
    }
}

fn save(
    store: &Arc<SqliteStore>,
    number: u128,
    by: u128,
) -> impl Future<Output = Result<Written, StoreError>> + Send + 'static {
    let store = Arc::clone(store);
    async move { store.write_record(&lock(number), write(by, "new")).await }
}

/// Pages in the write-ahead log.
fn frames(fixture: &Fixture) -> u64 {
    let log = std::fs::metadata(format!("{}-wal", fixture.file().display())).unwrap().len();
    log.saturating_sub(32) / (24 + 4_096)
}

#[tokio::test]
async fn what_comes_together_is_committed_together() {
    let fixture = Fixture::new();
    let store = Arc::new(fixture.open());
    take(&store, 0..20).await;
    let before = frames(&fixture);
    let written = together(&store, (0..20).map(|number| save(&store, number, number))).await;
    assert!(written.iter().all(Result::is_ok), "{written:?}");
    let pages = frames(&fixture) - before;
    assert!(pages < 20, "twenty commits write the page of each lock, these {pages}");
    for number in 0..20 {
        let stored = store.read_record(&lock(number)).await.unwrap();
        assert_eq!(stored.fields.get("field").map(String::as_str), Some("new"));
    }
}

#[tokio::test]
async fn s5_what_waits_for_the_disk_does_so_in_any_company() {
    let fixture = Fixture::new();
    let store = Arc::new(fixture.open());
    take(&store, 0..2).await;
    let renew = |number| {
        let store = Arc::clone(&store);
        async move { store.renew(&lock(number), id(number), None).await.map(drop) }
    };
    together(&store, [renew(0), renew(1)]).await;
    let level = || store.run(|session| session.read_pragma("synchronous"));
    assert_eq!(level().await.unwrap(), 1, "leases alone wait for nothing");
    let saved = {
        let save = save(&store, 0, 0);
        async move { save.await.map(drop) }
    };
    let mixed: [std::pin::Pin<Box<dyn Future<Output = _> + Send>>; 3] =
        [Box::pin(renew(0)), Box::pin(saved), Box::pin(renew(1))];
    let answers = together(&store, mixed).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(level().await.unwrap(), 2, "the record came last, and with a sync");
}

#[tokio::test]
async fn one_that_is_refused_changes_nothing_for_the_others() {
    let fixture = Fixture::new();
    let store = Arc::new(fixture.open());
    take(&store, 0..3).await;
    let written =
        together(&store, [save(&store, 0, 0), save(&store, 1, 99), save(&store, 2, 2)]).await;
    assert!(matches!(written[1], Err(StoreError::LeaseLost { .. })), "{written:?}");
    assert!(written[0].is_ok() && written[2].is_ok(), "{written:?}");
}

#[tokio::test]
async fn only_the_caller_of_a_damaged_lock_is_told_of_it() {
    let fixture = Fixture::new();
    let store = Arc::new(fixture.open());
    take(&store, 0..3).await;
    let other = rusqlite::Connection::open(fixture.file()).unwrap();
    other.execute("UPDATE locks SET fields = 'no object' WHERE name = 'lock-1'", []).unwrap();
    let read = |number| {
        let store = Arc::clone(&store);
        async move { store.read_record(&lock(number)).await.map(drop) }
    };
    let answers = together(&store, (0..3).map(read)).await;
    assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
    assert_fatal(answers.into_iter().nth(1).unwrap(), &fixture.file(), "damaged");
}

#[tokio::test]
async fn a_file_that_another_keeps_locked_is_waited_for_once() {
    let fixture = Fixture::new();
    let store = Arc::new(fixture.open());
    take(&store, 0..4).await;
    let mut other = rusqlite::Connection::open(fixture.file()).unwrap();
    let hold = other.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    let written = together(&store, (0..4).map(|number| save(&store, number, number))).await;
    for answer in &written {
        let Err(StoreError::Unavailable { sent: false, source }) = answer else {
            panic!("{answer:?}")
        };
        let shared = source.downcast_ref::<SqliteError>();
        assert!(matches!(shared, Some(SqliteError::Together(_))), "{source:?}");
    }
    drop(hold);
    assert!(store.write_record(&lock(0), write(0, "later")).await.is_ok());
    assert!(store.read_record(&lock(1)).await.unwrap().fields.is_empty(), "it was not done");
}

#[tokio::test]
async fn when_the_file_fails_each_is_tried_alone() {
    let fixture = Fixture::new();
    let store = Arc::new(fixture.open());
    take(&store, 0..2).await;
    // It lasts until the file is opened again, which is what follows such a failure.
    store.run(|session| session.limit_pages(1)).await.unwrap();
    let big = "x".repeat(50_000);
    let save = |number: u128, text: &str| {
        let (store, write) = (Arc::clone(&store), write(number, text));
        async move { store.write_record(&lock(number), write).await.map(drop) }
    };
    let answers = together(&store, [save(0, "small"), save(1, &big)]).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    for (number, text) in [(0, "small"), (1, big.as_str())] {
        let stored = store.read_record(&lock(number)).await.unwrap();
        assert_eq!(stored.fields.get("field").map(String::as_str), Some(text));
    }
}

#[tokio::test]
async fn s6_what_nobody_waits_for_any_more_is_not_begun() {
    let fixture = Fixture::new();
    let store = Arc::new(fixture.open());
    let free = occupy(&store).await;
    let queued = store.jobs.capacity();
    let gone = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.acquire(&lock(0), acquire(0)).await }
    });
    while store.jobs.capacity() == queued {
        tokio::task::yield_now().await;
    }
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    drop(free);
    let read = store.read_record(&lock(0)).await;
    assert!(matches!(read, Err(StoreError::NotFound)), "{read:?}");
}

#[tokio::test]
async fn s1_leases_of_another_boot_are_seen_before_what_came_together_is_answered() {
    let fixture = Fixture::new();
    take(&fixture.open(), 0..2).await;
    fixture.clock.reboot("another boot");
    let store = Arc::new(fixture.open());
    // As a process that opened the file before the other boot's leases were in it.
    let other = rusqlite::Connection::open(fixture.file()).unwrap();
    other.execute("UPDATE locks SET lease_boot = 'a third boot'", []).unwrap();
    let take = |number: u128| {
        let store = Arc::clone(&store);
        async move { store.acquire(&lock(number), acquire(number + 10)).await.map(drop) }
    };
    let answers = together(&store, (0..2).map(take)).await;
    for answer in &answers {
        assert!(matches!(answer, Err(StoreError::Contended)), "{answer:?}");
    }
    let unseen: i64 = other
        .query_row("SELECT count(*) FROM locks WHERE lease_boot = 'a third boot'", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(unseen, 0, "whoever looks next counts from the same first sight");
}

#[tokio::test]
async fn a_read_waits_for_no_other_process_that_writes_whatever_it_comes_with() {
    let fixture = Fixture::new();
    let store = Arc::new(fixture.open());
    take(&store, 0..2).await;
    let mut other = rusqlite::Connection::open(fixture.file()).unwrap();
    let hold = other.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    let (renewing, reading) = (Arc::clone(&store), Arc::clone(&store));
    let asked: [std::pin::Pin<Box<dyn Future<Output = _> + Send>>; 2] = [
        Box::pin(async move { renewing.renew(&lock(0), id(0), None).await.map(drop) }),
        Box::pin(async move { reading.read_record(&lock(1)).await.map(drop) }),
    ];
    let answers = together(&store, asked).await;
    assert!(matches!(answers[0], Err(StoreError::Unavailable { sent: false, .. })), "{answers:?}");
    assert!(answers[1].is_ok(), "{answers:?}");
    drop(hold);
}

/// A busy process has the file nearly all the time: the moments in between must be enough for another.
#[tokio::test]
async fn a_busy_process_keeps_no_other_from_the_file() {
    let fixture = Fixture::new();
    let (busy, other) = (Arc::new(fixture.open()), fixture.open());
    take(&busy, 0..16).await;
    take(&other, 16..17).await;
    let write = |number| {
        let busy = Arc::clone(&busy);
        async move {
            loop {
                busy.write_record(&lock(number), write(number, "new")).await.unwrap();
            }
        }
    };
    let writing: Vec<_> = (0..16).map(|number| tokio::spawn(write(number))).collect();
    for _ in 0..300 {
        other.renew(&lock(16), id(16), None).await.unwrap();
    }
    for task in writing {
        assert!(!task.is_finished(), "it was kept from the file itself");
        task.abort();
    }
}
