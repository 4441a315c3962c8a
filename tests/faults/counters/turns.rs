//! What a job does, in whatever language: it acquires a lock, reads the counter of the grant's checkpoint,
//! adds one, saves it, and releases, sometimes with one more. The journal is kept here, and not by the
//! client.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold::testing::{SeededRandom, Traced};
use serde_json::{Value, json};

use super::boot_nanos;
use super::cast::{Client, Gone, Handle};
use super::journal::{Answer, Counter, Journal, Read, Save};
use crate::faults::process::SHORT;
use crate::faults::statistics::Statistics;

/// The longest work between a grant and the save.
const WORK: Duration = Duration::from_millis(600);
/// How often a job looks that waits for a notice: for longer than it is between two renewals.
const LONG_WORK: usize = 50;
/// How often a save is tried whose outcome is not known.
const TRIES: u64 = 4;
/// Between two tries, or looks.
const REST: Duration = Duration::from_millis(200);
/// A save with one of these was the last try.
const FINAL: [&str; 4] = ["HOLD_LOST", "HOLD_RELEASED", "CHECKPOINT_UNKNOWN", "INVALID_FIELD"];
/// How a command to hold ends, after it was granted.
const ENDS: [&str; 4] = ["released", "lost", "release_unconfirmed", "error"];

/// What all jobs share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) journal: Mutex<Journal>,
    pub(super) statistics: Statistics,
    /// Jobs end their turn, and begin no other.
    pub(super) is_over: AtomicBool,
    pub(super) folder: tempfile::TempDir,
    /// Each with its number of permits.
    pub(super) locks: Vec<(&'static str, u32)>,
}

impl Shared {
    pub(super) fn journal<T>(&self, what: impl FnOnce(&mut Journal) -> T) -> T {
        what(&mut self.journal.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What a job is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Between,
    /// It has read the counter of this lock, and the save was not sent yet.
    Working(String),
    /// The same, and it works until it is told that the lock was broken, or for some seconds.
    Awaiting(String),
    /// A save is under way.
    Saving,
}

/// One process after another of a language's client, at one place.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) language: &'static str,
    pub(super) endpoint: String,
    pub(super) handle: Handle,
    pub(super) stage: Arc<Mutex<Stage>>,
    pub(super) random: SeededRandom,
    pub(super) shared: Arc<Shared>,
}

/// A grant that a job has.
struct Granted {
    id: String,
    /// The lock's name and the permit.
    path: String,
    token: u64,
    counter: Counter,
    /// What the control's counter is to be.
    unchecked: u64,
}

impl Job {
    fn complaints(&self) -> PathBuf {
        self.shared.folder.path().join(&self.name)
    }

    fn start(&self) -> Client {
        let handle = self.handle.clone();
        Client::start(&self.name, self.language, &self.endpoint, &self.complaints(), handle)
    }

    fn set(&self, stage: Stage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }

    fn trace(&self, at: u64, path: &str, what: Traced) {
        self.shared.journal(|journal| journal.trace(at, &self.name, path, what));
    }

    fn count(&self, what: &str) {
        self.shared.statistics.count(what);
    }

    /// Turn after turn until the storm is over.
    pub(super) async fn run(mut self) {
        let mut client = self.start();
        let mut turn = 0;
        while !self.shared.is_over.load(Ordering::SeqCst) {
            turn += 1;
            let mut path = None;
            let ended = self.turn(&mut client, turn, &mut path).await;
            self.set(Stage::Between);
            if let Err(Gone) = ended {
                let at = client.killed().await;
                path.iter().for_each(|path| self.trace(at, path, Traced::Died));
                self.count(&format!("killed: a client in {}", self.language));
                client = self.start();
            }
        }
        client.end().await;
    }

    /// Takes one lock once; `held` is what it was granted.
    async fn turn(
        &mut self,
        client: &mut Client,
        turn: u64,
        held: &mut Option<String>,
    ) -> Result<(), Gone> {
        let choice = self.random.below(self.shared.locks.len() as u64);
        let (lock, permits) = self.shared.locks[usize::try_from(choice).unwrap()];
        let id = format!("{}-{turn}", self.name);
        let wait: i64 = if self.random.chance(300) { -1 } else { 8_000 };
        let mut command = json!({ "function": lock, "lease_ms": SHORT * 1_000, "wait_ms": wait });
        if permits > 1 {
            command["permits"] = permits.into();
        }
        client.tell(&id, "hold", command).await?;
        let told = client.outcome(&id, &["granted", "busy", "error"]).await?;
        match told["event"].as_str().unwrap() {
            "granted" => {}
            "busy" => {
                self.count("busy");
                return Ok(());
            }
            _ => {
                self.count(&format!("no grant: {}", told["code"].as_str().unwrap_or_default()));
                tokio::time::sleep(REST).await;
                return Ok(());
            }
        }
        self.count(&format!("permit {} of {permits}", told["permit"]));
        let granted = self.granted(client, id, lock, &told).await?;
        *held = Some(granted.path.clone());
        self.hold(client, &granted).await
    }

    /// Notes a grant, and until when it is valid at least.
    async fn granted(
        &self,
        client: &mut Client,
        id: String,
        lock: &str,
        told: &Value,
    ) -> Result<Granted, Gone> {
        let at = boot_nanos();
        let path = format!("{lock}~{}", told["permit"].as_u64().unwrap());
        let token = told["token"].as_u64().unwrap();
        let counter = Counter::read(told["checkpoint"].as_str());
        let unchecked = self.shared.journal(|journal| {
            let (lock, counter) = (path.clone(), counter.clone());
            journal.reads.push(Read { lock, token, counter });
            journal.unchecked(&path).stored + 1
        });
        self.count(&format!("granted: {}", self.language));
        let asked = boot_nanos();
        client.tell(&id, "validity", json!({})).await?;
        let told = client.outcome(&id, &["validity", "error"]).await?;
        // Counted from before the question, it is no later than the client's.
        let left = told["remaining_ms"].as_u64().filter(|_| told["valid"] == true);
        let valid_until = left.map_or(at, |left| asked + left * 1_000_000) / 1_000;
        let (generation, lease, resumed) = (None, None, false);
        let what = Traced::Granted { token, generation, lease, resumed, valid_until };
        self.trace(at, &path, what);
        Ok(Granted { id, path, token, counter, unchecked })
    }

    /// Works, saves, and releases.
    async fn hold(&mut self, client: &mut Client, granted: &Granted) -> Result<(), Gone> {
        let is_noticed = self.work(client, granted).await;
        self.set(Stage::Saving);
        let first = granted.counter.incremented(format!("{}-a", granted.id));
        let answer = self.save(client, granted, &first).await?;
        if is_noticed && answer == Answer::Saved {
            self.count("saved after a notice");
        }
        // The control is written whatever became of the hold meanwhile, as by a job that does not look.
        let (path, unchecked) = (&granted.path, granted.unchecked);
        self.shared.journal(|journal| journal.write_unchecked(path, unchecked));
        let last = (answer == Answer::Saved && self.random.chance(500))
            .then(|| first.incremented(format!("{}-b", granted.id)));
        self.release(client, granted, last).await
    }

    /// Whether it was told that the lock was broken (S22).
    async fn work(&mut self, client: &mut Client, granted: &Granted) -> bool {
        if !self.random.chance(150) {
            self.set(Stage::Working(granted.path.clone()));
            tokio::time::sleep(self.random.span(WORK)).await;
            return false;
        }
        self.set(Stage::Awaiting(granted.path.clone()));
        for _ in 0..LONG_WORK {
            tokio::time::sleep(REST).await;
            let told = self.told(client, granted);
            let is_told = |what: &str| told.iter().any(|event| event == what);
            if is_told("revoked") || is_told("cancelled") {
                return is_told("revoked");
            }
        }
        false
    }

    /// What the job was told so far, but for the end of its hold.
    fn told(&self, client: &mut Client, granted: &Granted) -> Vec<String> {
        let told = client.told_besides_ends(&granted.id, &ENDS);
        told.iter().for_each(|event| self.count(&format!("told: {event}")));
        told
    }

    /// Notes a save as one of unknown outcome, before it is sent: where.
    fn note_save(&self, granted: &Granted, counter: &Counter) -> usize {
        let (lock, token) = (granted.path.clone(), granted.token);
        let (counter, answer) = (counter.clone(), Answer::Unknown);
        let save = Save { lock, token, counter, answer, version: None };
        self.shared.journal(|journal| {
            journal.saves.push(save);
            journal.saves.len() - 1
        })
    }

    fn answered(&self, save: usize, answer: Answer, version: Option<u64>) -> Answer {
        self.shared.journal(|journal| {
            let save = &mut journal.saves[save];
            (save.answer, save.version) = (answer, version);
        });
        answer
    }

    async fn save(
        &mut self,
        client: &mut Client,
        granted: &Granted,
        counter: &Counter,
    ) -> Result<Answer, Gone> {
        let save = self.note_save(granted, counter);
        for tried in 1..=TRIES {
            client.tell(&granted.id, "save", json!({ "value": counter.text() })).await?;
            let told = client.outcome(&granted.id, &["saved", "save_failed", "error"]).await?;
            if told["event"] == "saved" {
                self.count(&format!("saved: {}", self.language));
                return Ok(self.answered(save, Answer::Saved, told["version"].as_u64()));
            }
            let reason = told["reason"].as_str().unwrap_or_default();
            self.count(&format!("not saved: {} {reason}", told["event"].as_str().unwrap()));
            if FINAL.contains(&reason) || tried == TRIES {
                // An earlier try of unknown outcome may have been stored.
                let is_definite = tried == 1 && reason == "HOLD_LOST";
                let answer = if is_definite { Answer::NotSaved } else { Answer::Unknown };
                return Ok(self.answered(save, answer, None));
            }
            tokio::time::sleep(REST).await;
        }
        Ok(Answer::Unknown)
    }

    /// Releases, saving `last` with it if there is one.
    async fn release(
        &mut self,
        client: &mut Client,
        granted: &Granted,
        last: Option<Counter>,
    ) -> Result<(), Gone> {
        let save = last.as_ref().map(|counter| self.note_save(granted, counter));
        let command =
            last.map_or_else(|| json!({}), |counter| json!({ "checkpoint": counter.text() }));
        let (id, path, token) = (granted.id.as_str(), granted.path.as_str(), granted.token);
        self.told(client, granted);
        self.trace(boot_nanos(), path, Traced::Ending { token });
        client.tell(id, "release", command).await?;
        let told = client.outcome(id, &ENDS).await?;
        let event = told["event"].as_str().unwrap();
        match event {
            "released" => {
                let released = told["outcome"] != "NOT_CONFIRMED";
                self.trace(boot_nanos(), path, Traced::Released { token, released })
            }
            "lost" => self.trace(boot_nanos(), path, Traced::Lost { token }),
            _ => {}
        }
        let why = ["code", "reason"].map(|name| told[name].as_str().unwrap_or_default());
        self.count(format!("ended: {event} {}", why.join(" ")).trim_end());
        if let Some(save) = save {
            let (answer, what) = match told["checkpoint"].as_str() {
                Some("saved") => (Answer::Saved, "saved"),
                Some("not_saved") => (Answer::NotSaved, "not saved"),
                _ => (Answer::Unknown, "unknown"),
            };
            self.count(&format!("with a release: {what}"));
            self.answered(save, answer, None);
        }
        client.forget();
        Ok(())
    }
}
