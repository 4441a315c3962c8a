//! Power failures: what is on the disk after one, and what the next boot makes of it.
//!
//! # What this abstracts
//! The store's disk is modelled from copies of the two files that SQLite writes, taken after every operation.
//! SQLite appends to the write-ahead log and syncs it when the connection says `synchronous = FULL`, which is
//! read back from the connection after each operation, and not assumed. A failure leaves of the log what was
//! synced, and of what was written since, sector by sector, either the old or the new. The database file is
//! written by checkpoints only, which sync the log before and the file after, and begin the log anew with a
//! synced head: so when the file has changed, all of the log was synced. Failures in the middle of an
//! operation or a checkpoint are SQLite's own tests' business, and so is the folder's entry of a file, which
//! SQLite syncs when it makes the log.

use super::*;
use crate::testing::SeededRandom;

const SECTOR: usize = 512;

/// The two files as they were seen last, and what of the log had reached the disk.
#[derive(Default)]
struct Disk {
    file: Vec<u8>,
    log: Vec<u8>,
    synced_log: Vec<u8>,
}

impl Disk {
    async fn watch(&mut self, fixture: &Fixture, store: &SqliteStore) {
        let file = std::fs::read(fixture.file()).unwrap();
        let log = std::fs::read(format!("{}-wal", fixture.file().display())).unwrap_or_default();
        let full = store.run(|session| session.read_pragma("synchronous")).await.unwrap() == 2;
        if full || file != self.file {
            self.synced_log.clone_from(&log);
        }
        (self.file, self.log) = (file, log);
    }

    /// What a power failure leaves, in a folder of its own.
    fn fail(&self, random: &mut SeededRandom, clock: &Arc<SimClock>) -> Fixture {
        let left = Fixture { folder: TempDir::new().unwrap(), clock: Arc::clone(clock) };
        // None of it, all of it, or any part of it.
        let portion = random.below(3);
        let mut log = self.synced_log.clone();
        for (number, sector) in self.log.chunks(SECTOR).enumerate() {
            let from = number * SECTOR;
            // The head is synced when the log begins anew.
            if number == 0 || portion == 2 || (portion == 1 && random.below(2) == 0) {
                log.resize(log.len().max(from + sector.len()), 0);
                log[from..from + sector.len()].copy_from_slice(sector);
            }
        }
        write_private(&left.file(), &self.file);
        write_private(&left.beside("-wal"), &log);
        left
    }
}

/// What callers were told of a lock.
#[derive(Clone, Debug, Default)]
struct Told {
    /// By which lease it was granted, the value that it was granted with, and until when its holder may
    /// believe.
    granted: Option<(u128, u64, Instant)>,
    /// The newest value that was answered.
    value: u64,
}

const LOCKS: usize = 3;

fn name(lock: usize) -> String {
    format!("lock-{lock}")
}

struct Run {
    fixture: Fixture,
    store: SqliteStore,
    disk: Disk,
    random: SeededRandom,
    told: [Told; LOCKS],
    next: u128,
    value: u64,
    /// How records are written: as the product does it, or wrongly.
    records: Durability,
}

impl Run {
    async fn new(seed: u64, records: Durability) -> Self {
        let fixture = Fixture::new();
        let store = fixture.open();
        let mut run = Self {
            fixture,
            store,
            disk: Disk::default(),
            random: SeededRandom::new(seed),
            told: Default::default(),
            next: 0,
            value: 0,
            records,
        };
        run.disk.watch(&run.fixture, &run.store).await;
        run
    }

    async fn write(&self, lock: usize, by: u128, value: u64) -> Result<(), StoreError> {
        if self.records == Durability::Record {
            return self
                .store
                .write_record(&path(&name(lock)), write(by, &value.to_string()))
                .await
                .map(drop);
        }
        let durability = self.records;
        let careless = move |session: &mut Session| {
            session.write(durability, |locks| {
                let path = path(&name(lock));
                let (_, lease) = locks.lease(&path)?;
                lease.check_write(id(by), locks.now())?;
                locks.put_fields(&path, &write(by, &value.to_string()).fields).map(drop)
            })
        };
        self.store.run(careless).await
    }

    /// One operation as a sidecar does it, whatever it is answered; then time passes.
    async fn step(&mut self) {
        let lock = usize::try_from(self.random.below(LOCKS as u64)).unwrap();
        let (place, now) = (path(&name(lock)), self.fixture.clock.now());
        match (self.random.below(5), self.told[lock].granted) {
            (0 | 1, None) => {
                self.next += 1;
                self.value += 1;
                if self.store.acquire(&place, acquire(self.next)).await.is_ok() {
                    self.disk.watch(&self.fixture, &self.store).await;
                    // S5: the grant is given out when its token is written.
                    if self.write(lock, self.next, self.value).await.is_ok() {
                        let until = now + Duration::from_secs(15);
                        self.told[lock] = Told {
                            granted: Some((self.next, self.value, until)),
                            value: self.value,
                        };
                    }
                }
            }
            (0..=2, Some((by, value, _))) => {
                if self.store.renew(&place, id(by), None).await.is_ok() {
                    let until = now + Duration::from_secs(15);
                    self.told[lock].granted = Some((by, value, until));
                } else {
                    self.told[lock].granted = None;
                }
            }
            (3, Some((by, _, until))) => {
                self.value += 1;
                if self.write(lock, by, self.value).await.is_ok() {
                    self.told[lock].value = self.value;
                    self.told[lock].granted = Some((by, self.value, until));
                }
            }
            (4, Some((by, _, _))) => {
                self.told[lock].granted = None;
                let _ = self.store.release(&place, id(by), None).await;
            }
            _ => {}
        }
        self.disk.watch(&self.fixture, &self.store).await;
        self.fixture.clock.advance(Duration::from_secs(self.random.below(4)));
    }

    /// The power fails and the machine starts again; what is wrong then. The holders elsewhere go on
    /// believing.
    async fn failed(&mut self) -> Result<(), String> {
        let clock = Arc::new(SimClock::new());
        let before = self.fixture.clock.now();
        clock.reboot(&format!("boot {}", self.random.below(1 << 31)));
        clock.advance(Duration::from_secs(self.random.below(20)));
        let left = self.disk.fail(&mut self.random, &clock);
        let store = left.try_open().map_err(|error| error.chain())?;
        for (lock, told) in self.told.iter().enumerate() {
            let place = path(&name(lock));
            let stored = match store.read_record(&place).await {
                Ok(stored) => stored,
                Err(StoreError::NotFound) if told.value == 0 => continue,
                Err(StoreError::NotFound) => {
                    return Err(format!("S5: {place} is gone, and {} was answered", told.value));
                }
                Err(error) => return Err(format!("{place}: {}", error.chain())),
            };
            let value: u64 = stored.fields.get("field").map_or(0, |text| text.parse().unwrap());
            if value < told.value {
                return Err(format!("S5: {place} has {value}, and {} was answered", told.value));
            }
            let Some((_, _, until)) = told.granted.filter(|(_, _, until)| *until > before) else {
                continue;
            };
            let other = store.acquire(&place, acquire(1 << 100)).await;
            if other.is_ok() {
                return Err(format!(
                    "S1: {place} was granted, though its holder believes for {:?}",
                    until - before
                ));
            }
        }
        // Whole, and free when a lease's time is over.
        clock.advance(Duration::from_secs(15));
        for lock in 0..LOCKS {
            let granted =
                store.acquire(&path(&name(lock)), acquire((1 << 100) + lock as u128)).await;
            granted.map_err(|error| format!("{} stays taken: {}", name(lock), error.chain()))?;
        }
        let intact: String = rusqlite::Connection::open(left.file())
            .and_then(|file| file.query_row("PRAGMA integrity_check", [], |row| row.get(0)))
            .map_err(|error| error.to_string())?;
        if intact == "ok" { Ok(()) } else { Err(intact) }
    }
}

/// Runs of operations with a power failure after each, until one does harm.
async fn failures(runs: u64, records: Durability) -> Result<(), String> {
    for seed in 0..runs {
        let mut run = Run::new(seed, records).await;
        for step in 0..60 {
            run.step().await;
            run.failed().await.map_err(|problem| format!("seed {seed}, step {step}: {problem}"))?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn s1_s5_a_power_failure_takes_back_no_record_and_frees_no_lock_that_is_believed_in() {
    failures(20, Durability::Record).await.unwrap();
}

/// The check sees what it is for: records that are not waited for are lost, and leases with them.
#[tokio::test]
async fn s5_records_that_need_not_reach_the_disk_would_be_lost() {
    let problem = failures(12, Durability::Lease).await.unwrap_err();
    assert!(problem.contains("S5") || problem.contains("S1"), "{problem}");
}
