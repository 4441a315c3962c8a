//! Several processes on one SQLite file (S1): this test binary runs itself as their children.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use leasehold::lock::{Container, LeaseId, LockPath};
use leasehold::record::{ETag, Fields};
use leasehold::store::{Acquire, LeaseState, LeaseStoreExt as _, SqliteStore, StoreError, Write};
use leasehold::testing::SimClock;
use leasehold::time::{BootClock, Clock};
use tempfile::TempDir;
use uuid::Uuid;

/// The file that the child is to use.
const FILE: &str = "LEASEHOLD_TEST_SQLITE_FILE";
const CHILDREN: usize = 4;

fn lock(name: &str) -> LockPath {
    LockPath::from_parts(&Container::parse("locks").unwrap(), name)
}

fn request(lease_id: LeaseId) -> Acquire {
    Acquire { lease_id, duration: Duration::from_secs(15), if_match: None }
}

fn counted(fields: &Fields) -> u64 {
    fields.get("count").map_or(0, |count| count.parse().unwrap())
}

/// What a child does: reads a command a line, and answers with a line each.
#[tokio::test]
#[ignore = "run by the other tests, as their child"]
async fn child() {
    let file = PathBuf::from(std::env::var_os(FILE).expect("the parent names the file"));
    let store = SqliteStore::open(&file, Arc::new(BootClock::new())).unwrap();
    let id = LeaseId::from_uuid(Uuid::new_v4());
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (command, name) = line.split_once(' ').unwrap();
        let told = match command {
            "acquire" => match store.acquire(&lock(name), request(id)).await {
                Ok(_) => "granted".to_owned(),
                Err(StoreError::Contended) => "contended".to_owned(),
                Err(error) => error.chain(),
            },
            "count" => {
                for _ in 0..25 {
                    count_one_up(&store, &lock(name), id).await;
                }
                "counted".to_owned()
            }
            "write" => write_for_ever(&store, &lock(name), id).await,
            _ => panic!("{command:?} is no command"),
        };
        answer(&told);
    }
}

/// On a line of its own: the test harness writes to the same output.
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn answer(told: &str) {
    println!("\nanswer {told}");
}

/// Reads, adds one and writes without a condition: only the lock keeps the counts of several processes apart.
async fn count_one_up(store: &SqliteStore, path: &LockPath, id: LeaseId) {
    loop {
        match store.acquire(path, request(id)).await {
            Ok(_) => break,
            Err(StoreError::Contended) => tokio::task::yield_now().await,
            Err(error) => panic!("{}", error.chain()),
        }
    }
    let fields = store.read_record(path).await.unwrap().fields;
    tokio::task::yield_now().await;
    let count = (counted(&fields) + 1).to_string();
    let fields = Fields::from([("count".to_owned(), count)]);
    store.write_record(path, Write { lease_id: id, if_match: None, fields }).await.unwrap();
    store.release(path, id, None).await.unwrap();
}

async fn write_for_ever(store: &SqliteStore, path: &LockPath, id: LeaseId) -> String {
    store.acquire(path, request(id)).await.unwrap();
    answer("writing");
    let mut etag: Option<ETag> = None;
    for count in 0_u64.. {
        let fields = Fields::from([
            ("count".to_owned(), count.to_string()),
            ("filling".to_owned(), count.to_string().repeat(1_000)),
        ]);
        let write = Write { lease_id: id, if_match: etag, fields };
        etag = Some(store.write_record(path, write).await.unwrap().etag);
        store.renew(path, id, None).await.unwrap();
    }
    unreachable!("the parent kills it before")
}

struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(file: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store_conformance::processes::child", "--ignored", "--nocapture"])
            .env(FILE, file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, output: BufReader::new(output) }
    }

    fn tell(&mut self, command: &str) {
        writeln!(self.input, "{command}").unwrap();
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the child ended");
            if let Some(answer) = line.strip_prefix("answer ") {
                return answer.trim().to_owned();
            }
        }
    }

    /// As kill -9.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be over already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Fixture {
    _folder: TempDir,
    file: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        Self { file: folder.path().join("locks.db"), _folder: folder }
    }

    fn processes(&self) -> Vec<Process> {
        (0..CHILDREN).map(|_| Process::start(&self.file)).collect()
    }

    /// The file as a process of this kernel sees it, `later`.
    fn open(&self, later: Duration) -> SqliteStore {
        let kernel = BootClock::new();
        let clock = SimClock::new();
        clock.reboot(kernel.boot_id());
        clock.set_now(kernel.now() + later);
        SqliteStore::open(&self.file, Arc::new(clock)).unwrap()
    }
}

#[test]
fn s1_of_four_processes_one_is_granted() {
    let fixture = Fixture::new();
    // All four find no file, so this is a race to make it too.
    let mut processes = fixture.processes();
    for round in 0..25 {
        for process in &mut processes {
            process.tell(&format!("acquire round-{round}"));
        }
        let mut answers: Vec<String> = processes.iter_mut().map(Process::answer).collect();
        answers.sort();
        assert_eq!(answers, ["contended", "contended", "contended", "granted"], "round {round}");
    }
}

#[tokio::test]
async fn s1_four_processes_lose_no_count() {
    let fixture = Fixture::new();
    let mut processes = fixture.processes();
    for process in &mut processes {
        process.tell("count counter");
    }
    for process in &mut processes {
        assert_eq!(process.answer(), "counted");
    }
    let stored = fixture.open(Duration::ZERO).read_record(&lock("counter")).await.unwrap();
    assert_eq!((counted(&stored.fields), stored.lease), (100, LeaseState::Available));
}

#[tokio::test]
async fn s1_a_killed_process_keeps_its_lock_until_the_lease_runs_out() {
    let fixture = Fixture::new();
    let mut process = Process::start(&fixture.file);
    process.tell("acquire lock");
    assert_eq!(process.answer(), "granted");
    process.kill();
    let other = request(LeaseId::from_uuid(Uuid::new_v4()));
    let now = fixture.open(Duration::ZERO).acquire(&lock("lock"), other.clone()).await;
    assert!(matches!(now, Err(StoreError::Contended)), "{now:?}");
    let later = fixture.open(Duration::from_secs(15)).acquire(&lock("lock"), other).await;
    assert!(!later.unwrap().created);
}

#[tokio::test]
async fn s5_a_process_killed_while_it_writes_leaves_whole_records() {
    let fixture = Fixture::new();
    let mut last = 0;
    for round in 0..10 {
        let mut process = Process::start(&fixture.file);
        let name = format!("lock-{round}");
        process.tell(&format!("write {name}"));
        assert_eq!(process.answer(), "writing");
        let store = fixture.open(Duration::ZERO);
        // Read on beside the writer until it is well under way, then kill it wherever it is.
        let mut seen = 0;
        while seen < 5 {
            seen = whole_count(&store, &name).await;
        }
        process.kill();
        let left = whole_count(&store, &name).await;
        assert!(left >= seen);
        store
            .acquire(&lock(&format!("other-{round}")), request(LeaseId::from_uuid(Uuid::new_v4())))
            .await
            .unwrap();
        last = left;
    }
    assert!(last >= 5);
    let intact: String = rusqlite::Connection::open(&fixture.file)
        .unwrap()
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(intact, "ok");
}

async fn whole_count(store: &SqliteStore, name: &str) -> u64 {
    let fields = store.read_record(&lock(name)).await.unwrap().fields;
    let count = counted(&fields);
    let filling = fields.get("filling").map_or(String::new(), Clone::clone);
    assert!(filling.is_empty() || filling == count.to_string().repeat(1_000), "a torn record");
    count
}
