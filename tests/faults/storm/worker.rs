//! A job of the storm: takes locks, writes to resources with its token while it believes, and logs what it believed
//! when, on the boot clock that all processes of the machine share.
#![expect(clippy::print_stderr, reason = "what goes wrong is read in the storm's output")]

use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

use leasehold::testing::SeededRandom;
use leasehold_client::{BootInstant, Client, Error, HoldGuard, LeaseSpec, Loss, Outcome};
use serde_json::{Value, json};

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
    log: File,
    random: SeededRandom,
    locks: Vec<String>,
    resources: Vec<String>,
    longest_work: Duration,
}

impl Worker {
    fn note(&mut self, at: BootInstant, mut line: Value) -> std::io::Result<()> {
        if let Some(line) = line.as_object_mut() {
            let at = u64::try_from(at.since_boot().as_nanos()).unwrap_or(u64::MAX);
            line.insert("at".to_owned(), at.into());
        }
        // One write a line: a killed process leaves whole lines.
        self.log.write_all(format!("{line}\n").as_bytes())
    }

    /// Looks at the clock first: what is valid after it, was valid at it.
    fn look(&mut self, lock: &str, guard: &HoldGuard, is_deaf: bool) -> std::io::Result<bool> {
        let at = BootInstant::now();
        let is_valid = guard.is_valid();
        let until = u64::try_from(guard.valid_until().since_boot().as_nanos()).unwrap_or(u64::MAX);
        let line = json!({
            "event": "look", "lock": lock, "token": guard.fencing_token(),
            "valid": is_valid, "until": until, "deaf": is_deaf,
        });
        self.note(at, line)?;
        Ok(is_valid)
    }

    /// Takes one lock once.
    async fn turn(&mut self) -> Result<(), Problem> {
        let choice = self.random.below(u64::try_from(self.locks.len())?);
        let lock = self.locks.get(usize::try_from(choice)?).ok_or("no locks are named")?.clone();
        let spec = LeaseSpec::new(&lock, "")
            .with_lease_duration(LEASE)
            .with_wait(self.random.span(Duration::from_secs(20)));
        match self.client.hold(spec).await {
            Ok(Outcome::Granted(guard)) => {
                let token = guard.fencing_token();
                self.note(
                    BootInstant::now(),
                    json!({"event": "granted", "lock": lock, "token": token}),
                )?;
                self.work(&lock, guard).await
            }
            Ok(Outcome::Busy(_)) => {
                Ok(self.note(BootInstant::now(), json!({"event": "busy", "lock": lock}))?)
            }
            Err(error) => self.rest(&error).await,
        }
    }

    /// Works and writes while it believes; gives the lock back.
    async fn work(&mut self, lock: &str, guard: HoldGuard) -> Result<(), Problem> {
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
                    loss = &mut lost, if !is_deaf => return self.note_loss(lock, token, &loss),
                    () = tokio::time::sleep(step) => {}
                }
            }
            self.write(lock, token).await?;
        }
        if !self.look(lock, &guard, is_deaf)? {
            return self.note_loss(lock, token, &guard.lost().await);
        }
        self.note(BootInstant::now(), json!({"event": "ending", "lock": lock, "token": token}))?;
        match guard.release().await {
            Ok(released) => {
                let outcome = released.outcome().as_str_name();
                let line =
                    json!({"event": "released", "lock": lock, "token": token, "outcome": outcome});
                Ok(self.note(BootInstant::now(), line)?)
            }
            Err(Error::Lost(loss)) => self.note_loss(lock, token, &loss),
            Err(error) => self.rest(&error).await,
        }
    }

    fn note_loss(&mut self, lock: &str, token: u64, loss: &Loss) -> Result<(), Problem> {
        let line = json!({"event": "lost", "lock": lock, "token": token, "why": loss.to_string()});
        Ok(self.note(BootInstant::now(), line)?)
    }

    /// Sends the write with its token to each resource, whether or not the lock was lost meanwhile: that is for them to
    /// say.
    async fn write(&mut self, lock: &str, token: u64) -> Result<(), Problem> {
        for resource in self.resources.clone() {
            let request = self
                .http
                .put(format!("{resource}/{lock}"))
                .header("Fencing-Token", token)
                .body(token.to_string());
            let status = request.send().await?.status().as_u16();
            let line = json!({"event": "wrote", "lock": lock, "token": token, "status": status});
            self.note(BootInstant::now(), line)?;
        }
        Ok(())
    }

    /// Notes what went wrong, and comes back a little later: the sidecar may be gone for a while.
    async fn rest(&mut self, error: &Error) -> Result<(), Problem> {
        let code = error.code().map(|code| format!("{code:?}"));
        self.note(
            BootInstant::now(),
            json!({"event": "failed", "why": error.to_string(), "code": code}),
        )?;
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
        log: File::options().create(true).append(true).open(setting("WORKER_LOG")?)?,
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
