//! What the conformance suite cannot see: reboots, clocks that differ, and files that fail.

#[path = "batch_tests.rs"]
mod batch;
#[path = "file_tests.rs"]
mod file;
#[path = "power_tests.rs"]
mod power;

use std::fmt;
use std::sync::MutexGuard;
use std::time::Duration;

use tempfile::TempDir;
use uuid::Uuid;

use super::*;
use crate::lock::{Container, LeaseId, LockPath};
use crate::record::Fields;
use crate::store::{
    Acquire, Acquired, BreakNote, BreakPeriod, LeaseState, LeaseStoreExt as _, Write,
};
use crate::testing::SimClock;
use crate::time::{BootReading, Instant, Suspicions, UnixMillis};

/// A clock that found out about a pause which its kernel's clock did not count (S3).
#[derive(Debug)]
struct Corrected {
    kernel: Arc<SimClock>,
    missed: Duration,
}

impl Clock for Corrected {
    fn now(&self) -> Instant {
        self.kernel.now() + self.missed
    }

    fn wall(&self) -> UnixMillis {
        self.kernel.wall()
    }

    fn boot_reading(&self, at: Instant) -> BootReading {
        self.kernel.boot_reading(at.saturating_sub(self.missed))
    }

    fn suspicions(&self) -> MutexGuard<'_, Suspicions> {
        self.kernel.suspicions()
    }
}

struct Fixture {
    folder: TempDir,
    clock: Arc<SimClock>,
}

impl Fixture {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap(), clock: Arc::new(SimClock::new()) }
    }

    /// With a store in which the lock is held.
    async fn held() -> (Self, SqliteStore) {
        let fixture = Self::new();
        let store = fixture.open();
        store.acquire(&path("lock"), acquire(1)).await.unwrap();
        (fixture, store)
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("locks.db")
    }

    fn beside(&self, ending: &str) -> PathBuf {
        self.folder.path().join(format!("locks.db{ending}"))
    }

    fn try_open(&self) -> Result<SqliteStore, StoreError> {
        SqliteStore::open(&self.file(), Arc::clone(&self.clock) as _)
    }

    fn open(&self) -> SqliteStore {
        self.try_open().unwrap()
    }
}

/// As SQLite and the store make their files.
fn write_private(file: &Path, bytes: &[u8]) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(file, bytes).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn path(name: &str) -> LockPath {
    LockPath::from_parts(&Container::parse("locks").unwrap(), name)
}

fn id(number: u128) -> LeaseId {
    LeaseId::from_uuid(Uuid::from_u128(number))
}

fn acquire(number: u128) -> Acquire {
    Acquire { lease_id: id(number), duration: Duration::from_secs(15), if_match: None }
}

fn write(number: u128, value: &str) -> Write {
    let fields = Fields::from([("field".to_owned(), value.to_owned())]);
    Write { lease_id: id(number), if_match: None, fields }
}

fn note() -> BreakNote {
    BreakNote {
        period: BreakPeriod::RunOut,
        reason: "hangs".to_owned(),
        by: "me".to_owned(),
        token: None,
        at: UnixMillis(1),
        for_priority: None,
    }
}

async fn state(store: &SqliteStore, name: &str) -> LeaseState {
    store.read_record(&path(name)).await.unwrap().lease
}

#[track_caller]
fn assert_held(acquired: Result<Acquired, StoreError>) {
    assert!(matches!(acquired, Err(StoreError::Contended)), "{acquired:?}");
}

/// The advice names the file, and the file is as it was.
#[track_caller]
fn assert_fatal<T: fmt::Debug>(answer: Result<T, StoreError>, file: &Path, advised: &str) {
    let error = answer.unwrap_err();
    let StoreError::Fatal { advice, .. } = error else { panic!("{error:?}") };
    assert!(advice.contains(&file.display().to_string()), "{advice}");
    assert!(advice.contains(advised), "{advice}");
}

/// A caller on another machine may still believe in a lease that this machine's last boot gave.
#[tokio::test]
async fn s1_a_lease_of_another_boot_runs_for_its_whole_duration_from_when_it_is_first_seen() {
    for (before, after) in [("one boot", "another boot"), ("one boot", ""), ("", "one boot")] {
        let fixture = Fixture::new();
        fixture.clock.reboot(before);
        let store = fixture.open();
        for name in ["renewed", "taken", "broken"] {
            store.acquire(&path(name), acquire(1)).await.unwrap();
            store.write_record(&path(name), write(1, name)).await.unwrap();
        }
        let seen = store.read_record(&path("broken")).await.unwrap().etag;
        store.break_lease(&path("broken"), note(), seen).await.unwrap();
        drop(store);
        fixture.clock.reboot(after);
        // A sidecar that begins long after the boot sees it first then.
        fixture.clock.advance(Duration::from_secs(1_000));
        let store = fixture.open();
        assert_eq!(state(&store, "taken").await, LeaseState::Leased);
        assert_eq!(state(&store, "broken").await, LeaseState::Breaking);
        let stored = store.read_record(&path("renewed")).await.unwrap();
        assert_eq!(stored.fields.get("field").map(String::as_str), Some("renewed"));
        fixture.clock.advance(Duration::from_secs(14));
        assert_held(store.acquire(&path("taken"), acquire(2)).await);
        store.renew(&path("renewed"), id(1), None).await.unwrap();
        // Another process sees what the first one saw, not a lease that begins anew.
        let other = fixture.open();
        assert_eq!(state(&other, "taken").await, LeaseState::Leased);
        fixture.clock.advance(Duration::from_secs(1));
        assert_eq!(state(&other, "broken").await, LeaseState::Broken);
        other.acquire(&path("taken"), acquire(2)).await.unwrap();
        store.renew(&path("taken"), id(1), None).await.unwrap_err();
        assert_eq!(state(&store, "renewed").await, LeaseState::Leased, "S16: it went on");
        fixture.clock.advance(Duration::from_secs(14));
        assert_eq!(state(&store, "renewed").await, LeaseState::Expired);
    }
}

/// Without a boot id the readings alone are left: one that no lease of this boot can have is of another.
#[tokio::test]
async fn s1_a_kernel_without_a_boot_id_frees_no_lease_before_its_time_and_keeps_none_for_ever() {
    let fixture = Fixture::new();
    fixture.clock.reboot("");
    fixture.clock.advance(Duration::from_secs(100_000));
    let store = fixture.open();
    store.acquire(&path("lock"), acquire(1)).await.unwrap();
    assert_eq!(state(&store, "lock").await, LeaseState::Leased);
    fixture.clock.reboot("");
    assert_eq!(state(&store, "lock").await, LeaseState::Leased);
    fixture.clock.advance(Duration::from_secs(14));
    assert_held(store.acquire(&path("lock"), acquire(2)).await);
    fixture.clock.advance(Duration::from_secs(1));
    assert_eq!(state(&store, "lock").await, LeaseState::Expired);
}

/// Whoever looks first writes it down, whatever is asked and whatever is answered.
#[tokio::test]
async fn s1_the_first_look_counts_even_if_it_is_refused() {
    let (fixture, store) = Fixture::held().await;
    fixture.clock.reboot("another boot");
    assert_held(store.acquire(&path("lock"), acquire(2)).await);
    fixture.clock.advance(Duration::from_secs(15));
    store.acquire(&path("lock"), acquire(2)).await.unwrap();
}

/// Two processes that read two boot ids on one kernel: each takes what the other wrote for a lease of before
/// a reboot.
#[tokio::test]
async fn s17_two_boot_ids_at_once_keep_no_lease_for_ever() {
    for (first, later) in [("one boot", "another"), ("one boot", ""), ("", "one boot")] {
        let fixture = Fixture::new();
        fixture.clock.reboot(first);
        let store = fixture.open();
        store.acquire(&path("lock"), acquire(1)).await.unwrap();
        let clock = Arc::new(SimClock::new());
        clock.reboot(later);
        let other = SqliteStore::open(&fixture.file(), Arc::clone(&clock) as _).unwrap();
        other.read_record(&path("lock")).await.unwrap();
        let mut ended = 0;
        for _ in 0..20 {
            for clock in [&fixture.clock, &clock] {
                clock.advance(Duration::from_secs(1));
            }
            ended += u32::from(state(&store, "lock").await == LeaseState::Expired);
            // Whoever came later is told so, and why.
            let refused = other.read_record(&path("lock")).await.unwrap_err().chain();
            assert!(refused.contains("another boot id"), "{refused}");
        }
        assert_eq!(ended, 5, "it was seen once more");
        store.acquire(&path("lock"), acquire(2)).await.unwrap();
        // After a reboot, no id is an id that was refused.
        clock.reboot(later);
        let answer = other.read_record(&path("lock")).await;
        assert_eq!(answer.is_ok(), later.is_empty(), "{answer:?}");
    }
}

#[tokio::test]
async fn s3_the_wall_clock_moves_no_lease() {
    let (fixture, store) = Fixture::held().await;
    for wall in [0, 4_000_000_000_000] {
        fixture.clock.set_wall(UnixMillis(wall));
        assert_eq!(state(&store, "lock").await, LeaseState::Leased);
        assert_eq!(store.renew(&path("lock"), id(1), None).await.unwrap().time, UnixMillis(wall));
    }
}

#[tokio::test]
async fn s3_a_process_that_noticed_a_pause_ends_no_lease_of_another() {
    let fixture = Fixture::new();
    let (here, kernel) = (fixture.open(), Arc::clone(&fixture.clock));
    let ahead = Arc::new(Corrected { kernel, missed: Duration::from_secs(30) });
    let there = SqliteStore::open(&fixture.file(), ahead).unwrap();
    here.acquire(&path("lock"), acquire(1)).await.unwrap();
    assert_held(there.acquire(&path("lock"), acquire(2)).await);
    fixture.clock.advance(Duration::from_secs(15));
    there.acquire(&path("lock"), acquire(2)).await.unwrap();
    assert_eq!(state(&here, "lock").await, LeaseState::Leased);
    fixture.clock.advance(Duration::from_secs(15));
    assert_eq!(state(&here, "lock").await, LeaseState::Expired);
}

#[tokio::test]
async fn s5_records_reach_the_disk_before_they_count_and_leases_need_not() {
    let fixture = Fixture::new();
    let store = fixture.open();
    let level = || {
        store.run(|session| {
            session
                .read_pragma("synchronous")
                .map(|level| if level == 2 { "full" } else { "normal" })
        })
    };
    // No grant without the record that is written next, whose sync takes the lock along.
    assert!(store.acquire(&path("lock"), acquire(1)).await.unwrap().created);
    assert_eq!(level().await.unwrap(), "normal");
    store.write_record(&path("lock"), write(1, "token")).await.unwrap();
    assert_eq!(level().await.unwrap(), "full");
    store.renew(&path("lock"), id(1), None).await.unwrap();
    assert_eq!(level().await.unwrap(), "normal");
    store.write_record(&path("lock"), write(1, "token")).await.unwrap();
    assert_eq!(level().await.unwrap(), "full");
}

#[tokio::test]
async fn s20_nobody_else_may_read_the_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let (fixture, _store) = Fixture::held().await;
    let mut seen = 0;
    for entry in std::fs::read_dir(fixture.folder.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", entry.path().display());
        seen += 1;
    }
    assert_eq!(seen, 3, "the file, its write-ahead log and the log's index");
}

/// Its leases were deleted with it, and their holders may believe for as long as a lease lasts.
#[tokio::test]
async fn s18_a_file_that_was_deleted_is_made_anew_and_grants_nothing_for_a_minute() {
    let fixture = Fixture::new();
    let (one, two) = (fixture.open(), fixture.open());
    let first = one.acquire(&path("lock"), acquire(1)).await.unwrap();
    for suffix in ["", "-wal", "-shm"] {
        std::fs::remove_file(format!("{}{suffix}", fixture.file().display())).unwrap();
    }
    let gone = one.renew(&path("lock"), id(1), None).await;
    assert!(matches!(gone, Err(StoreError::NotFound)), "{gone:?}");
    for store in [&one, &two] {
        let error = store.acquire(&path("lock"), acquire(2)).await.unwrap_err();
        assert_eq!(error.kind(), "recreated", "{error:?}");
        assert!(error.chain().contains(&fixture.file().display().to_string()), "{error}");
    }
    fixture.clock.advance(Duration::from_secs(60));
    let second = one.acquire(&path("lock"), acquire(2)).await.unwrap();
    assert!(second.created && second.etag != first.etag);
    assert_held(two.acquire(&path("lock"), acquire(3)).await);
}

#[tokio::test]
async fn s18_a_file_that_was_never_there_grants_at_once() {
    let fixture = Fixture::new();
    fixture.open().acquire(&path("lock"), acquire(1)).await.unwrap();
    fixture.open().acquire(&path("other"), acquire(1)).await.unwrap();
}

#[test]
fn a_folder_in_place_of_the_file_is_refused() {
    let fixture = Fixture::new();
    std::fs::create_dir(fixture.file()).unwrap();
    assert_fatal(fixture.try_open(), &fixture.file(), "name a file");
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let fixture = Fixture::new();
    let file = fixture.folder.path().join("missing/locks.db");
    let opened = SqliteStore::open(&file, Arc::clone(&fixture.clock) as _);
    assert_fatal(opened, &file, "create the folder");
}

#[test]
fn a_file_of_something_else_is_refused_and_kept() {
    let fixture = Fixture::new();
    let text = "not a database at all, but long enough to be looked at. ".repeat(100);
    write_private(&fixture.file(), text.as_bytes());
    assert_fatal(fixture.try_open(), &fixture.file(), "not a Leasehold database");
    assert_eq!(std::fs::read_to_string(fixture.file()).unwrap(), text);
}

#[test]
fn a_database_of_another_program_is_refused_and_kept() {
    let fixture = Fixture::new();
    write_private(&fixture.file(), b"");
    let other = rusqlite::Connection::open(fixture.file()).unwrap();
    other.execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)").unwrap();
    assert_fatal(fixture.try_open(), &fixture.file(), "not a Leasehold database");
    let rows: i64 = other.query_row("SELECT count(*) FROM theirs", [], |row| row.get(0)).unwrap();
    let mode: String = other.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!((rows, mode.as_str()), (1, "delete"));
}

#[test]
fn a_newer_schema_is_refused() {
    let fixture = Fixture::new();
    drop(fixture.open());
    let newer = rusqlite::Connection::open(fixture.file()).unwrap();
    newer.pragma_update(None, "user_version", 7).unwrap();
    let refused = fixture.try_open();
    assert!(refused.as_ref().unwrap_err().chain().contains("version 7"));
    assert_fatal(refused, &fixture.file(), "newer version");
}

#[tokio::test]
async fn a_damaged_file_is_told_and_kept() {
    let fixture = Fixture::new();
    let store = fixture.open();
    for number in 0..100 {
        store.acquire(&path(&format!("lock-{number}")), acquire(1)).await.unwrap();
    }
    let other = rusqlite::Connection::open(fixture.file()).unwrap();
    other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    assert_eq!(std::fs::metadata(fixture.beside("-wal")).unwrap().len(), 0);
    drop((store, other));
    let mut bytes = std::fs::read(fixture.file()).unwrap();
    let length = bytes.len();
    bytes[4_096..].fill(0xa5);
    write_private(&fixture.file(), &bytes);
    let store = fixture.try_open();
    let answer = match store {
        Ok(store) => store.acquire(&path("lock-7"), acquire(2)).await.map(drop),
        Err(error) => Err(error),
    };
    assert_fatal(answer, &fixture.file(), "damaged");
    assert_eq!(std::fs::metadata(fixture.file()).unwrap().len(), length as u64);
}

#[tokio::test]
async fn a_full_disk_is_told_and_passes() {
    let (fixture, store) = Fixture::held().await;
    let limit = |pages: i64| store.run(move |session| session.limit_pages(pages));
    limit(1).await.unwrap();
    // More than the room that was taken beforehand.
    let big = "x".repeat(4_000_000);
    let full = store.write_record(&path("lock"), write(1, &big)).await;
    assert_fatal(full, &fixture.file(), "free space");
    let stored = store.read_record(&path("lock")).await.unwrap();
    assert!(stored.fields.is_empty(), "a write that failed was not done");
    limit(10_000).await.unwrap();
    store.write_record(&path("lock"), write(1, &big)).await.unwrap();
}

#[test]
fn a_folder_that_may_not_be_written_is_denied() {
    let clock: Arc<dyn Clock> = Arc::new(SimClock::new());
    // Nobody, not even root, can make a file there.
    let file = Path::new("/sys/leasehold-locks.db");
    let error = SqliteStore::open(file, clock).unwrap_err();
    let StoreError::Denied { advice, .. } = error else { panic!("{error:?}") };
    assert!(advice.contains("/sys/leasehold-locks.db"), "{advice}");
}

#[tokio::test]
async fn a_file_that_may_not_be_written_any_more_is_denied() {
    let fixture = Fixture::new();
    let store = fixture.open();
    store.run(|session| session.forbid_writing()).await.unwrap();
    let denied = store.acquire(&path("lock"), acquire(1)).await;
    assert!(matches!(denied, Err(StoreError::Denied { .. })), "{denied:?}");
    // The file is opened afresh, so what was only this connection's trouble is over.
    store.acquire(&path("lock"), acquire(1)).await.unwrap();
}

#[tokio::test]
async fn a_file_that_another_keeps_locked_is_unavailable_and_nothing_was_done() {
    let fixture = Fixture::new();
    let store = fixture.open();
    let mut other = rusqlite::Connection::open(fixture.file()).unwrap();
    let hold = other.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    let busy = store.acquire(&path("lock"), acquire(1)).await;
    assert!(matches!(busy, Err(StoreError::Unavailable { sent: false, .. })), "{busy:?}");
    drop(hold);
    assert!(store.acquire(&path("lock"), acquire(1)).await.unwrap().created);
}
