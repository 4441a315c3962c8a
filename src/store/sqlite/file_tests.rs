//! Files that were cut, replaced or left open to others, and the room that is taken beforehand.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use super::*;
use crate::store::DocumentPath;

const ENDINGS: [&str; 3] = ["", "-wal", "-shm"];

impl Fixture {
    /// What a process that was killed leaves, in a folder of its own.
    fn left_behind(&self) -> Self {
        let left = Self { folder: TempDir::new().unwrap(), clock: Arc::clone(&self.clock) };
        for ending in ENDINGS {
            fs::copy(self.beside(ending), left.beside(ending)).unwrap();
        }
        left
    }

    fn cut(&self, to: u64) {
        fs::OpenOptions::new().write(true).open(self.file()).unwrap().set_len(to).unwrap();
    }

    fn length(&self) -> u64 {
        fs::metadata(self.file()).unwrap().len()
    }
}

#[tokio::test]
async fn s1_a_file_cut_to_nothing_is_not_taken_for_a_new_one() {
    let (fixture, _store) = Fixture::held().await;
    let left = fixture.left_behind();
    left.cut(0);
    let log = fs::read(left.beside("-wal")).unwrap();
    assert_fatal(left.try_open(), &left.file(), "put");
    assert_eq!((left.length(), fs::read(left.beside("-wal")).unwrap()), (0, log), "it is kept");
    fs::remove_file(left.file()).unwrap();
    assert_fatal(left.try_open(), &left.file(), "put");
    // What its operator is told to do works.
    for ending in ["-wal", "-shm"] {
        fs::remove_file(left.beside(ending)).unwrap();
    }
    left.open().acquire(&path("lock"), acquire(2)).await.unwrap();
}

/// A process that has the file open would read on from its log, and grant what it does not find.
#[tokio::test]
async fn s1_a_file_that_is_cut_under_a_running_process_grants_nothing_more() {
    let (whole, store) = Fixture::held().await;
    let least = store.run(|session| session.least_bytes()).await.unwrap();
    for (to, is_new) in
        [(0, false), (4_096, false), (least - 1, false), (0, true), (least - 1, true)]
    {
        let fixture = if is_new { Fixture::new() } else { whole.left_behind() };
        let store = fixture.open();
        store.acquire(&path("other"), acquire(1)).await.unwrap();
        let copy = fixture.left_behind();
        fixture.cut(to);
        for _ in 0..2 {
            for name in ["lock", "other", "new"] {
                assert_fatal(store.acquire(&path(name), acquire(2)).await, &fixture.file(), "put");
            }
            assert_fatal(store.renew(&path("other"), id(1), None).await, &fixture.file(), "put");
        }
        assert_eq!(fixture.length(), to, "nothing is written to it");
        // Put back as it was, it may be an older copy: leases that were granted since are not in it.
        for ending in ENDINGS {
            fs::copy(copy.beside(ending), fixture.beside(ending)).unwrap();
        }
        let granted = store.acquire(&path("new"), acquire(2)).await.unwrap_err();
        assert_eq!(granted.kind(), "recreated", "{granted:?}");
        fixture.clock.advance(Duration::from_secs(60));
        store.acquire(&path("new"), acquire(2)).await.unwrap();
    }
}

#[tokio::test]
async fn s1_a_file_that_is_shorter_than_it_was_is_refused_at_the_start() {
    let (fixture, store) = Fixture::held().await;
    let least = store.run(|session| session.least_bytes()).await.unwrap();
    assert!(least > 1_048_576, "{least}");
    for to in [least - 1, 65_536] {
        let left = fixture.left_behind();
        left.cut(to);
        for _ in 0..2 {
            assert_fatal(left.try_open(), &left.file(), "put");
            assert_eq!(left.length(), to, "nothing is written to it");
        }
    }
}

/// What is in the log is not in the file, and a process that comes later makes another log.
#[tokio::test]
async fn s18_a_log_that_was_deleted_took_leases_along() {
    let (fixture, store) = Fixture::held().await;
    for ending in ["-wal", "-shm"] {
        fs::remove_file(fixture.beside(ending)).unwrap();
    }
    let error = store.acquire(&path("lock"), acquire(2)).await.unwrap_err();
    assert_eq!(error.kind(), "recreated", "{error:?}");
    fixture.clock.advance(Duration::from_secs(60));
    store.acquire(&path("lock"), acquire(2)).await.unwrap();
}

#[tokio::test]
async fn s20_files_that_others_may_read_or_write_are_refused() {
    let fixture = Fixture::new();
    drop(fixture.open());
    let left = fixture.left_behind();
    for ending in ENDINGS {
        for mode in [0o644, 0o660, 0o602] {
            fs::set_permissions(left.beside(ending), Permissions::from_mode(mode)).unwrap();
            assert_fatal(left.try_open(), &left.beside(ending), "chmod 600");
        }
        fs::set_permissions(left.beside(ending), Permissions::from_mode(0o600)).unwrap();
    }
    left.open();
}

/// Needs to be root, as the tests' container is.
#[tokio::test]
async fn s20_files_of_another_user_are_refused() {
    let fixture = Fixture::new();
    drop(fixture.open());
    let left = fixture.left_behind();
    for ending in ENDINGS {
        std::os::unix::fs::chown(left.beside(ending), Some(12_345), None).unwrap();
        assert_fatal(left.try_open(), &left.beside(ending), "belongs to");
        std::os::unix::fs::chown(left.beside(ending), Some(0), None).unwrap();
    }
    left.open();
}

#[tokio::test]
async fn s20_a_link_in_place_of_a_file_is_refused() {
    let fixture = Fixture::new();
    drop(fixture.open());
    for ending in ENDINGS {
        let left = fixture.left_behind();
        fs::rename(left.beside(ending), left.beside(".elsewhere")).unwrap();
        std::os::unix::fs::symlink(left.beside(".elsewhere"), left.beside(ending)).unwrap();
        assert_fatal(left.try_open(), &left.beside(ending), "the file itself");
    }
    // Links of folders are an administrator's own.
    let linked = TempDir::new().unwrap();
    let folder = linked.path().join("folder");
    std::os::unix::fs::symlink(fixture.folder.path(), &folder).unwrap();
    SqliteStore::open(&folder.join("locks.db"), Arc::clone(&fixture.clock) as _).unwrap();
}

/// Blocks of the disk that a file has.
fn taken(file: &Path) -> u64 {
    fs::metadata(file).unwrap().blocks() * 512
}

#[tokio::test]
async fn s18_room_is_taken_on_the_disk_before_it_is_needed() {
    let fixture = Fixture::new();
    let store = fixture.open();
    let least = |locks: u64| 1_048_576 + locks * 4_096;
    let mut locks = 0;
    let mut grown = 0;
    let mut length = fixture.length();
    while grown < 3 {
        let lock = path(&format!("lock-{locks}"));
        store.acquire(&lock, acquire(1)).await.unwrap();
        store.write_record(&lock, write(1, &"x".repeat(600))).await.unwrap();
        locks += 1;
        let spare = store.run(|session| session.spare_pages()).await.unwrap();
        assert!(spare * 4_096 >= least(locks), "{spare} pages for {locks} locks");
        assert!(taken(&fixture.file()) >= fixture.length(), "no part of it is a hole");
        if fixture.length() > length {
            (length, grown) = (fixture.length(), grown + 1);
        }
    }
    assert!(locks > 100, "it grows by many locks at a time");
    assert!(length < 8 << 20, "{length}");
    let log = fixture.beside("-wal");
    assert!(taken(&log) >= 512 * 1_024);
    assert_eq!(store.usage().await.unwrap(), None);
}

#[tokio::test]
async fn s18_what_is_written_for_more_room_does_not_grow_with_the_number_of_locks() {
    let fixture = Fixture::new();
    let store = fixture.open();
    for lock in 0..400 {
        store.acquire(&path(&format!("lock-{lock}")), acquire(1)).await.unwrap();
    }
    let other = rusqlite::Connection::open(fixture.file()).unwrap();
    // What is free is written anew when the file grows, and a row is read when it is freed.
    let number = |sql| other.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let free = number("PRAGMA freelist_count");
    assert!(free <= 128, "{free} free pages at once");
    let largest = number("SELECT max(pages) FROM filling");
    assert!(largest <= 64, "a row of {largest} pages");
    let sum = "SELECT sum(pages) = (SELECT reserved FROM room) FROM filling";
    assert_eq!(number(sum), 1);
}

#[tokio::test]
async fn s18_locks_are_counted_as_they_are_made_and_deleted() {
    let fixture = Fixture::new();
    let open = || {
        SqliteStore::open_limited(&fixture.file(), Arc::clone(&fixture.clock) as _, Some(3))
            .unwrap()
    };
    let store = open();
    let entries = async || store.usage().await.unwrap().unwrap().entries;
    assert_eq!(entries().await, 0);
    let lock = store.acquire(&path("lock"), acquire(1)).await.unwrap();
    let plan = DocumentPath::Plan(path("lock"));
    store.write_document(plan.clone(), "{}".to_owned(), None).await.unwrap();
    store.write_document(plan, "{}".to_owned(), None).await.unwrap_err();
    assert_eq!(entries().await, 2);
    let other = open();
    other.acquire(&path("other"), acquire(1)).await.unwrap();
    assert_eq!(entries().await, 3, "whoever made it");
    let full = store.acquire(&path("new"), acquire(1)).await.unwrap_err();
    assert!(matches!(full, StoreError::Full { limit: 3 }), "{full:?}");
    other.acquire(&path("lock"), acquire(1)).await.unwrap();
    fixture.clock.advance(Duration::from_secs(15));
    store.delete(&path("lock"), lock.etag).await.unwrap();
    assert_eq!(entries().await, 1, "the plan went with it");
    store.acquire(&path("new"), acquire(1)).await.unwrap();
}
