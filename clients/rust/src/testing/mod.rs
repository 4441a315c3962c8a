//! Test support: a sidecar of its own for a test, with its locks in memory, which can be made to lose, break
//! and delay holds.
//!
//! With the feature `testing`, on Unix:
//!
//! ```no_run
//! use leasehold_client::testing::Sidecar;
//! use leasehold_client::{LeaseSpec, LossReason};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let sidecar = Sidecar::start().await?;
//! let client = sidecar.client().await?;
//! let hold = client.hold(LeaseSpec::new("nightly-report")).await?.granted().ok_or("it is busy")?;
//! sidecar.lose("nightly-report").await?;
//! assert_eq!(hold.lost().await.reason, LossReason::Broken);
//! # Ok(())
//! # }
//! ```

mod process;
mod program;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use process::{LOOK, Process};
pub use program::{PROGRAM_VARIABLE, find_program};

use crate::{BreakLock, BreakMode, BreakOutcome, Client, Error, LockKey, LockRecord, LockState};

/// What went wrong with the sidecar of a test.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SidecarError {
    /// There is no program to start: where it was looked for, and how to install it.
    #[error("{0}")]
    NoProgram(String),
    /// The system refused something.
    #[error("cannot {what} {}: {cause}", program.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The program that was to be started.
        program: PathBuf,
        /// Why it failed.
        #[source]
        cause: io::Error,
    },
    /// The sidecar ended as it started.
    #[error("{command} ended as it started ({status}):\n{log}")]
    Ended {
        /// The command that was run.
        command: String,
        /// How it ended.
        status: String,
        /// What it has logged.
        log: String,
    },
    /// What was waited for did not come in time.
    #[error("not after {timeout:?}: {what}")]
    NotInTime {
        /// How long it was waited for.
        timeout: Duration,
        /// What was waited for.
        what: String,
    },
    /// Nobody holds the lock, so that it cannot be lost or broken.
    #[error("{0} cannot be lost or broken: nobody holds it. wait_until_held waits for a holder")]
    NotHeld(String),
    /// The sidecar does not run.
    #[error("the sidecar does not run: restart it first")]
    NotRunning,
    /// The sidecar runs already.
    #[error("the sidecar runs already: kill or stop it before restart")]
    Running,
    /// The sidecar is paused.
    #[error("the sidecar is paused, and cannot be asked: drop what pause gave first")]
    Paused,
    /// A call to the sidecar failed.
    #[error(transparent)]
    Client(#[from] Error),
}

/// How a sidecar is started. [`Sidecar::builder`] makes one.
#[derive(Clone, Debug)]
pub struct SidecarBuilder {
    settings: Vec<(String, String)>,
    program: Option<PathBuf>,
    timeout: Duration,
}

impl SidecarBuilder {
    /// Gives the sidecar a setting, as `leasehold serve --set` does. It replaces what the sidecar would have:
    /// its store is the memory, its leases last for 15 s where a caller names no duration, and locks may be
    /// broken.
    #[must_use]
    pub fn setting(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((key.into(), value.into()));
        self
    }

    /// Starts this program. Default: that of [`find_program`].
    #[must_use]
    pub fn program(self, path: impl Into<PathBuf>) -> Self {
        Self { program: Some(path.into()), ..self }
    }

    /// How long the sidecar's start, its end and the waits may take. Default: 30 s.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Starts the sidecar, and waits until it answers.
    ///
    /// # Errors
    /// When there is no program, or the sidecar does not start.
    pub async fn start(self) -> Result<Sidecar, SidecarError> {
        let program = self.program.map_or_else(find_program, Ok)?;
        let process = Process::new(program.clone(), &self.settings);
        let process = process.map_err(|cause| SidecarError::Io {
            what: "make a folder for",
            program,
            cause,
        })?;
        process.start(self.timeout).await?;
        let client = Client::connect(endpoint(&process)).await?;
        client.get_server_info().await?;
        Ok(Sidecar { process, client, timeout: self.timeout })
    }
}

/// A sidecar of one test, on a Unix socket in a temporary folder, until this is dropped.
///
/// It ends with the test process, however that ends. When a test panics, its log is printed.
#[derive(Debug)]
pub struct Sidecar {
    process: Process,
    client: Client,
    timeout: Duration,
}

impl Sidecar {
    /// Starts one, and waits until it answers.
    ///
    /// # Errors
    /// As [`SidecarBuilder::start`].
    pub async fn start() -> Result<Self, SidecarError> {
        Self::builder().start().await
    }

    /// One with other settings, or another program.
    #[must_use]
    pub fn builder() -> SidecarBuilder {
        SidecarBuilder { settings: Vec::new(), program: None, timeout: Duration::from_secs(30) }
    }

    /// Where it is, for a client or for `LEASEHOLD_ENDPOINT`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        endpoint(&self.process)
    }

    /// Connects a client.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub async fn client(&self) -> Result<Client, Error> {
        Client::connect(self.endpoint()).await
    }

    /// What it has logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// The id of its process, while it runs.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Has the holder lose the lock at once, with
    /// [`LossReason::Broken`](crate::LossReason::Broken); the lock is available then.
    ///
    /// # Errors
    /// [`SidecarError::NotHeld`] if nobody holds it.
    pub async fn lose(&self, key: impl Into<LockKey>) -> Result<(), SidecarError> {
        self.end_lease(key.into(), "lost by a test", BreakMode::Now).await
    }

    /// Breaks the lock as an operator does: its holder is told, and loses it when its lease has expired.
    ///
    /// # Errors
    /// [`SidecarError::NotHeld`] if nobody holds it.
    pub async fn break_lock(
        &self,
        key: impl Into<LockKey>,
        reason: &str,
    ) -> Result<(), SidecarError> {
        self.end_lease(key.into(), reason, BreakMode::RunOut).await
    }

    async fn end_lease(
        &self,
        key: LockKey,
        reason: &str,
        mode: BreakMode,
    ) -> Result<(), SidecarError> {
        let name = name(&key);
        // One that was never acquired does not exist, and cannot be asked to be broken.
        if self.record(&key).await?.state == LockState::Available {
            return Err(SidecarError::NotHeld(name));
        }
        let broken = self.client.break_lock(BreakLock::new(key, reason).with_mode(mode)).await?;
        match broken.outcome {
            BreakOutcome::NotHeld => Err(SidecarError::NotHeld(name)),
            BreakOutcome::Breaking | BreakOutcome::Broken | BreakOutcome::Unspecified => Ok(()),
        }
    }

    /// Stops the sidecar's process until what this gives is dropped, so that grants, renewals and answers are
    /// late.
    ///
    /// A hold is not told of it: its client finds by its own clock that its validity is over.
    ///
    /// # Errors
    /// When the sidecar does not run, or is paused already.
    pub fn pause(&self) -> Result<Paused<'_>, SidecarError> {
        self.process.pause()?;
        Ok(Paused { process: &self.process })
    }

    /// Ends the sidecar as a crash does. What is in memory is forgotten: all its locks.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Has the sidecar shut down, as an update does: holders are told, and have `drain.period` to release.
    ///
    /// # Errors
    /// When it does not run, or has not ended in time.
    pub async fn stop(&self) -> Result<(), SidecarError> {
        self.process.stop(self.timeout).await
    }

    /// Starts the sidecar again at the same endpoint, after [`kill`](Self::kill) or [`stop`](Self::stop).
    ///
    /// # Errors
    /// When it runs already, or does not start.
    pub async fn restart(&self) -> Result<(), SidecarError> {
        self.process.start(self.timeout).await
    }

    /// Waits until somebody holds the lock.
    ///
    /// # Errors
    /// As [`wait_until`](Self::wait_until).
    pub async fn wait_until_held(
        &self,
        key: impl Into<LockKey>,
    ) -> Result<LockRecord, SidecarError> {
        self.wait_until(key.into(), "is held", |lock| lock.state == LockState::Held).await
    }

    /// Waits until nobody holds the lock.
    ///
    /// # Errors
    /// As [`wait_until`](Self::wait_until).
    pub async fn wait_until_available(
        &self,
        key: impl Into<LockKey>,
    ) -> Result<LockRecord, SidecarError> {
        self.wait_until(key.into(), "is available", |lock| lock.state == LockState::Available).await
    }

    /// Waits until so many callers, or more, wait for the lock.
    ///
    /// # Errors
    /// As [`wait_until`](Self::wait_until).
    pub async fn wait_until_waiting(
        &self,
        key: impl Into<LockKey>,
        callers: u32,
    ) -> Result<LockRecord, SidecarError> {
        let what = format!("has {callers} waiting");
        self.wait_until(key.into(), &what, |lock| lock.waiters_here >= callers).await
    }

    /// Waits until the lock's record meets the condition; `what` is for the error.
    ///
    /// # Errors
    /// [`SidecarError::NotInTime`], and when the sidecar cannot be asked.
    pub async fn wait_until(
        &self,
        key: LockKey,
        what: &str,
        condition: impl Fn(&LockRecord) -> bool + Send + Sync,
    ) -> Result<LockRecord, SidecarError> {
        let mut last = self.record(&key).await?;
        let met = async {
            while !condition(&last) {
                tokio::time::sleep(LOOK).await;
                last = self.record(&key).await?;
            }
            Ok(())
        };
        let timeout = self.timeout;
        match tokio::time::timeout(timeout, met).await {
            Ok(met) => met.map(|()| last),
            Err(_) => {
                let what = format!("{} {what}. It is {last:?}", name(&key));
                Err(SidecarError::NotInTime { timeout, what })
            }
        }
    }

    async fn record(&self, key: &LockKey) -> Result<LockRecord, SidecarError> {
        self.process.check_answers()?;
        Ok(self.client.get_lock(key.clone()).await?)
    }
}

impl Drop for Sidecar {
    #[expect(clippy::print_stderr, reason = "a test that panics shows what is printed there")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the sidecar's log:\n{}", self.log());
        }
    }
}

/// A pause of the sidecar's process, which goes on when this is dropped.
#[must_use = "the sidecar goes on when this is dropped"]
pub struct Paused<'a> {
    process: &'a Process,
}

impl fmt::Debug for Paused<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Paused").finish_non_exhaustive()
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.process.resume();
    }
}

fn endpoint(process: &Process) -> String {
    format!("unix://{}", process.socket().display())
}

fn name(key: &LockKey) -> String {
    match key.scope.as_str() {
        "" => format!("the lock {:?}", key.function),
        scope => format!("the lock {:?} of {scope:?}", key.function),
    }
}
