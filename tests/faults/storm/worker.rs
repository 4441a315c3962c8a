//! A job of the storm: acquires locks, writes to resources with its token while its hold is valid, and logs
//! its validity when, on the boot clock that all processes of the machine share.
//!
//! # The log
//! One JSON object a line, in the order in which things happened to this process. This is the format that the
//! checker beside this file and the model (`tests/model`) read: keep it as it is.
//!
//! Every line has `at` (nanoseconds on CLOCK_BOOTTIME, read when the line was written) and `event`. Lines
//! about a hold have `lock` (its name) and `token` (its fencing token); `until` is the end of the validity
//! that the holder has then, in the unit of `at`. The client library counts it as S21 says, on the same
//! kernel or elsewhere.
//!
//! | event | besides | meaning |
//! | --- | --- | --- |
//! | `granted` | `until`, `resumed`, `generation`, `wall_ahead_ms` | The hold began (`resumed` false), or went on by a resume (true). `generation` is left out where the grant has none. `wall_ahead_ms`, with `resumed` false only: by how much the sidecar's wall clock, as the grant shows it, is ahead of this process's |
//! | `told` | `until`, `what` | A validity came: `renewed` or `recovered` |
//! | `at_risk` | `until`, `why` | Renewals fail |
//! | `interrupted` | `why` | The stream broke; the validity continues |
//! | `draining` | | The sidecar is shutting down |
//! | `look` | `until`, `valid`, `deaf` | The holder looked whether it may act; `at` was read before. `deaf`: it writes at the end whatever it sees |
//! | `wrote` | `status` | A write with the token was answered by a resource |
//! | `lost` | `reason`, `why` | The hold was lost (S4); the validity had ended before |
//! | `release_asked` | | The validity ends with this line; the release is sent after it (S13) |
//! | `released` | `outcome`, `reason` | The release was answered; `reason` only with an outcome of ALREADY_LOST |
//! | `release_failed` | `why`, `code` | The release was not answered with an outcome |
//! | `busy`, `failed` | `lock`; `why`, `code` | The lock was not acquired |
//! | `killed` | | Written by the storm: the process was killed, and its holds ended with it. `at` was read before |
//!
//! A line that a kill cut off is removed before `killed` is written.
#![expect(clippy::print_stderr, reason = "what goes wrong is read in the storm's output")]

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use leasehold::testing::SeededRandom;
use leasehold::time::{BootClock, Clock as _};
use leasehold_client::{BootInstant, Client, Error, Hold, HoldEvent, LeaseSpec, Outcome};
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, UnboundedReceiver};

type Problem = Box<dyn std::error::Error>;

/// The shortest lease, so that a paused holder's lock is taken soon.
const LEASE: Duration = Duration::from_secs(15);
/// How often a holder that works looks whether it still may.
const LOOK: Duration = Duration::from_millis(50);

/// What the environment says.
fn setting(name: &str) -> Result<String, Problem> {
    std::env::var(name).map_err(|_| format!("{name} is not set").into())
}

struct Worker {
    client: Client,
    http: reqwest::Client,
    log: Log,
    random: SeededRandom,
    locks: Vec<String>,
    resources: Vec<String>,
    longest_work: Duration,
}

/// Where everything is noted.
#[derive(Clone)]
struct Log(Arc<File>);

/// A hold, by its lock's name and its token.
type HoldName = (String, u64);

fn nanos(at: BootInstant) -> u64 {
    u64::try_from(at.since_boot().as_nanos()).unwrap_or(u64::MAX)
}

impl Log {
    fn note(&self, line: Value) -> std::io::Result<()> {
        self.note_at(BootInstant::now(), line)
    }

    fn note_at(&self, at: BootInstant, mut line: Value) -> std::io::Result<()> {
        if let Some(line) = line.as_object_mut() {
            line.insert("at".to_owned(), nanos(at).into());
        }
        // One write a line: a killed process leaves whole lines.
        self.0.as_ref().write_all(format!("{line}\n").as_bytes())
    }

    fn granted(&self, (lock, token): &HoldName, guard: &Hold) -> std::io::Result<()> {
        let grant = guard.grant();
        let wall = i64::try_from(BootClock::new().wall().0).unwrap_or(i64::MAX);
        // The one moment of a grant that is the sidecar's, and not the store's.
        let end = grant.expires_at.unwrap_or(std::time::UNIX_EPOCH);
        let told = end.checked_sub(grant.validity.valid_for).unwrap_or(std::time::UNIX_EPOCH);
        let told = told.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let told = i64::try_from(told.as_millis()).unwrap_or(i64::MAX);
        let mut line = json!({
            "event": "granted", "lock": lock, "token": token, "until": nanos(guard.valid_until()),
            "resumed": false, "wall_ahead_ms": told - wall,
        });
        if let (Some(line), 1..) = (line.as_object_mut(), grant.generation) {
            line.insert("generation".to_owned(), grant.generation.into());
        }
        self.note(line)
    }
}

/// Notes all that happens to a hold, until it is over.
async fn note_events(
    log: Log,
    (lock, token): HoldName,
    mut events: UnboundedReceiver<HoldEvent>,
) -> std::io::Result<()> {
    while let Some(event) = events.recv().await {
        let told =
            |what: &str, until| json!({"event": "told", "what": what, "until": nanos(until)});
        let mut line = match event {
            HoldEvent::Renewed { valid_until } => told("renewed", valid_until),
            HoldEvent::Recovered { valid_until } => told("recovered", valid_until),
            HoldEvent::Resumed { valid_until } => {
                json!({"event": "granted", "resumed": true, "until": nanos(valid_until)})
            }
            HoldEvent::AtRisk { valid_until, cause, .. } => {
                json!({"event": "at_risk", "until": nanos(valid_until), "why": cause.as_str()})
            }
            HoldEvent::Interrupted { detail } => json!({"event": "interrupted", "why": detail}),
            HoldEvent::Draining { .. } => json!({"event": "draining"}),
            HoldEvent::Lost(loss) => json!({
                "event": "lost", "reason": format!("LOSS_REASON_{}", loss.reason.as_str()), "why": loss.to_string(),
            }),
            // Before the grant; and what later versions of the client add says nothing about the belief.
            HoldEvent::Waiting(_) | _ => continue,
        };
        if let Some(line) = line.as_object_mut() {
            line.insert("lock".to_owned(), lock.clone().into());
            line.insert("token".to_owned(), token.into());
        }
        log.note(line)?;
    }
    Ok(())
}

impl Worker {
    /// Looks at the clock first: what is valid after it, was valid at it.
    fn look(&self, lock: &str, guard: &Hold, is_deaf: bool) -> std::io::Result<bool> {
        let at = BootInstant::now();
        let is_valid = guard.is_valid();
        self.log.note_at(
            at,
            json!({
                "event": "look", "lock": lock, "token": guard.fencing_token(),
                "valid": is_valid, "until": nanos(guard.valid_until()), "deaf": is_deaf,
            }),
        )?;
        Ok(is_valid)
    }

    /// Takes one lock once.
    async fn turn(&mut self) -> Result<(), Problem> {
        let choice = self.random.below(u64::try_from(self.locks.len())?);
        let lock = self.locks.get(usize::try_from(choice)?).ok_or("no locks are named")?.clone();
        let spec = LeaseSpec::new(lock.as_str())
            .with_lease_duration(LEASE)
            .with_wait(self.random.span(Duration::from_secs(20)));
        let (sender, events) = mpsc::unbounded_channel();
        match self.client.hold(spec).events(sender).await {
            Ok(Outcome::Granted(guard)) => {
                let hold = (lock.clone(), guard.fencing_token());
                self.log.granted(&hold, &guard)?;
                // Of its own, so that what is told is noted while the job works.
                let noting = tokio::spawn(note_events(self.log.clone(), hold, events));
                self.work(&lock, guard).await?;
                Ok(noting.await??)
            }
            Ok(Outcome::AlreadyDone(_) | Outcome::Skipped { .. }) => {
                Err("a call without an occurrence was answered with one".into())
            }
            Ok(Outcome::Busy(_)) => Ok(self.log.note(json!({"event": "busy", "lock": lock}))?),
            Err(error) => self.rest("failed", json!({}), &error).await,
        }
    }

    /// Works and writes while it believes; gives the lock back.
    async fn work(&mut self, lock: &str, guard: Hold) -> Result<(), Problem> {
        let token = guard.fencing_token();
        let mut lost = std::pin::pin!(guard.lost());
        // Some jobs do not let themselves be interrupted: stopped between look and write, they write late.
        let is_deaf = self.random.chance(500);
        for _ in 0..=self.random.below(3) {
            let mut left = self.random.span(self.longest_work);
            while !left.is_zero() {
                if !self.look(lock, &guard, is_deaf)? && !is_deaf {
                    break;
                }
                let step = left.min(LOOK);
                left -= step;
                tokio::select! {
                    // The loss is noted with the other events.
                    _ = &mut lost, if !is_deaf => return Ok(()),
                    () = tokio::time::sleep(step) => {}
                }
            }
            self.write(lock, token).await?;
        }
        if !self.look(lock, &guard, is_deaf)? {
            guard.lost().await;
            return Ok(());
        }
        self.log.note(json!({"event": "release_asked", "lock": lock, "token": token}))?;
        let hold = json!({"lock": lock, "token": token});
        match guard.release().await {
            Ok(released) => Ok(self.log.note(json!({
                "event": "released", "lock": lock, "token": token,
                "outcome": format!("RELEASE_OUTCOME_{}", released.outcome.as_str()),
                "reason": format!("LOSS_REASON_{}", released.loss_reason.map_or("UNSPECIFIED", |reason| reason.as_str())),
            }))?),
            Err(Error::Lost(loss)) => Ok(self.log.note(json!({
                "event": "released", "lock": lock, "token": token,
                "outcome": "RELEASE_OUTCOME_ALREADY_LOST", "reason": format!("LOSS_REASON_{}", loss.reason.as_str()),
            }))?),
            Err(error) => self.rest("release_failed", hold, &error).await,
        }
    }

    /// Sends the write with its token to each resource, whether or not the lock was lost meanwhile: that is
    /// for them to say.
    async fn write(&mut self, lock: &str, token: u64) -> Result<(), Problem> {
        for resource in self.resources.clone() {
            let request = self
                .http
                .put(format!("{resource}/{lock}"))
                .header("Fencing-Token", token)
                .body(token.to_string());
            let status = request.send().await?.status().as_u16();
            let line = json!({"event": "wrote", "lock": lock, "token": token, "status": status});
            self.log.note(line)?;
        }
        Ok(())
    }

    /// Notes what went wrong, and comes back a little later: the sidecar may be gone for a while.
    async fn rest(&mut self, event: &str, mut line: Value, error: &Error) -> Result<(), Problem> {
        if let Some(line) = line.as_object_mut() {
            line.insert("event".to_owned(), event.into());
            line.insert("why".to_owned(), error.to_string().into());
            line.insert("code".to_owned(), error.code().map(|code| format!("{code:?}")).into());
        }
        self.log.note(line)?;
        tokio::time::sleep(Duration::from_millis(200)).await;
        Ok(())
    }
}

/// A sidecar that is down at the start comes back.
async fn connected() -> Result<Client, Problem> {
    loop {
        match Client::from_env().await {
            Err(Error::Unreachable { .. }) => tokio::time::sleep(Duration::from_millis(200)).await,
            answer => return Ok(answer?),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Problem> {
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        return Err("there is another TLS provider".into());
    }
    let list = |text: String| text.split(',').map(str::to_owned).collect();
    let seed: u64 = setting("WORKER_SEED")?.parse()?;
    let mut worker = Worker {
        client: connected().await?,
        http: reqwest::Client::new(),
        log: Log(Arc::new(File::options().create(true).append(true).open(setting("WORKER_LOG")?)?)),
        random: SeededRandom::new(seed),
        locks: list(setting("WORKER_LOCKS")?),
        resources: list(setting("WORKER_RESOURCES")?),
        longest_work: Duration::from_millis(setting("WORKER_WORK_MS")?.parse()?),
    };
    loop {
        if let Err(problem) = worker.turn().await {
            eprintln!("a worker ends: {problem}");
            return Err(problem);
        }
    }
}
