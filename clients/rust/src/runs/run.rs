//! One run of an occurrence.

use std::fmt;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;

use super::line::{RunLine, Stage};
use super::retry_after;
use crate::boot_clock::BootInstant;
use crate::client::Client;
use crate::constants::{FIRST_PAUSE, LONGEST_RUN_PAUSE, NAP};
use crate::errors::Error;
use crate::hold::lead::passes;
use crate::hold::{Hold, HoldEvent, HoldState, Loss, Notice, hold_of};
use crate::messages::{Checkpoint, CompletedRun, Completion, EndedRun, RunKind, duration, moment};
use crate::proto;

/// What `grant` of a run is worth here.
///
/// # Errors
/// [`Error::Protocol`] for a run without a grant; else why it cannot be run.
pub(super) async fn believe(
    client: &Client,
    run: &proto::Run,
    sent: BootInstant,
) -> Result<HoldState, Error> {
    let grant = run.grant.as_ref().ok_or(Error::Protocol("a run came without its grant"))?;
    crate::hold::believe(client, grant, sent).await
}

/// Another replica is to run what could not be begun here; said once, and else its lease expires.
pub(super) async fn give_back(client: &Client, run: &proto::Run) {
    let grant = run.grant.clone().unwrap_or_default();
    let (lease_id, generation) = (grant.lease_id, grant.generation);
    let request = Completion::returned().into_wire(lease_id, generation, run.run_id.clone());
    let completing = client.complete(request);
    let _answer = tokio::time::timeout(client.settings.release_timeout, completing).await;
}

/// An occurrence to be run now, and the hold of the schedule's lock while it is. Say how it ended: until that
/// was recorded it may be granted again (T2). Dropped without that, it is returned, for another replica to
/// run; dropped by a panic, it has failed.
///
/// What it says of its validity is right also after the process, or the machine, was stopped and goes on. To
/// have an effect once, key it on [`scheduled_at`](Self::scheduled_at), or let the resource check
/// [`fencing_token`](Self::fencing_token).
#[must_use = "a run that is dropped is returned for another replica to run"]
pub struct Run {
    hold: Hold,
    wire: proto::Run,
    scheduled_at: SystemTime,
    /// How long its hold lasts beyond its deadline; `None` if it has none.
    stop_span: Option<Duration>,
    stage: watch::Sender<Stage>,
    events: Mutex<Option<UnboundedReceiver<HoldEvent>>>,
}

impl fmt::Debug for Run {
    // S20: the ids that can end it stay unseen.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Run")
            .field("lock_path", &self.hold.lock_path())
            .field("local_time", &self.wire.local_time)
            .field("attempt", &self.wire.attempt)
            .field("fencing_token", &self.hold.fencing_token())
            .finish_non_exhaustive()
    }
}

impl Run {
    /// Starts to keep its hold.
    pub(super) fn start(
        client: &Client,
        mut wire: proto::Run,
        state: HoldState,
        line: RunLine,
    ) -> Result<Self, Error> {
        let scheduled_at = moment(wire.scheduled_at.as_ref())
            .ok_or(Error::Protocol("a run came without its occurrence"))?;
        let grant = wire.grant.take().unwrap_or_default();
        let after = |deadline: &proto::Deadline| duration(deadline.after.as_ref());
        let ends = grant.max_hold_ends.as_ref().map(after);
        let stop_span =
            ends.map(|ends| ends.saturating_sub(wire.deadline.as_ref().map_or(ends, after)));
        let (sender, events) = unbounded_channel();
        let stage = line.stages();
        let (sender, events) = match line.tells_holds() {
            true => (Some(sender), Some(events)),
            false => (None, None),
        };
        let hold = hold_of(client, grant, state, line, sender);
        let events = Mutex::new(events);
        Ok(Self { hold, wire, scheduled_at, stop_span, stage, events })
    }

    /// The occurrence: the nominal instant, whatever the lateness and the spread (T1). Of a run by hand when
    /// it was started, by the store's clock.
    #[must_use]
    pub const fn scheduled_at(&self) -> SystemTime {
        self.scheduled_at
    }

    /// The same as the clocks of the schedule's zone show it, in RFC 3339 with offset and zone.
    #[must_use]
    pub fn local_time(&self) -> &str {
        &self.wire.local_time
    }

    /// Why there is a run.
    #[must_use]
    pub fn kind(&self) -> RunKind {
        RunKind::from_wire(self.wire.kind())
    }

    /// The id of the request, of a run by hand.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        Some(self.wire.request_id.as_str()).filter(|id| !id.is_empty())
    }

    /// Names this run in [`Client::complete_run`], also after a restart of this process. Who knows it can end
    /// the run.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.wire.run_id
    }

    /// Which attempt this is, from 1. Greater than 1 means that the work may have been done in part.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.wire.attempt
    }

    /// How many attempts there are.
    #[must_use]
    pub const fn max_attempts(&self) -> u32 {
        self.wire.max_attempts
    }

    /// How long after it was due the run was started, by the store's clock, in whole seconds.
    #[must_use]
    pub fn lateness(&self) -> Duration {
        duration(self.wire.lateness.as_ref())
    }

    /// How many occurrences were missed since the last one that was run. At most 10,000 are counted at once.
    #[must_use]
    pub const fn missed_count(&self) -> u64 {
        self.wire.missed_count
    }

    /// When the run is to be over, on this machine's boot clock: stop the work then, and say how it ended.
    /// Its hold lasts a little longer, for that (T12). `None` if it has no deadline.
    #[must_use]
    pub fn deadline(&self) -> Option<BootInstant> {
        let ends = self.hold.max_hold_ends()?;
        Some(BootInstant::from_boot(ends.since_boot().saturating_sub(self.stop_span?)))
    }

    /// Completes at the run's deadline: never, if it has none.
    pub async fn timed_out(&self) {
        loop {
            let Some(deadline) = self.deadline() else { return std::future::pending().await };
            let left = deadline.saturating_since(self.hold.client().clock.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(NAP)).await;
        }
    }

    /// The same by the store's clock; for people.
    #[must_use]
    pub fn deadline_at(&self) -> Option<SystemTime> {
        moment(self.wire.deadline_at.as_ref())
    }

    /// The next occurrence. `None` if there is none.
    #[must_use]
    pub fn next_at(&self) -> Option<SystemTime> {
        moment(self.wire.next_at.as_ref())
    }

    /// What ended before. `None` if nothing has.
    #[must_use]
    pub fn previous(&self) -> Option<EndedRun> {
        self.wire.previous.clone().map(EndedRun::from_wire)
    }

    /// Greater than the token of every run before: send it with each write, and let the resource refuse
    /// smaller ones (S5).
    #[must_use]
    pub const fn fencing_token(&self) -> u64 {
        self.hold.fencing_token()
    }

    /// Whether the run may go on now. Once false, it stays false.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.hold.is_valid()
    }

    /// Completes when the run is lost: stop at once, and say how it ended nevertheless: before that, its
    /// sidecar gives this caller no other run (T24). Never, if it is completed first.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        self.hold.lost()
    }

    /// Completes when the lock was broken and the run's hold ends with its validity: finish or return it.
    /// Gentler than [`lost`](Self::lost).
    pub fn revoked(&self) -> impl Future<Output = Notice> + Send + use<> {
        self.hold.revoked()
    }

    /// The lock's checkpoint: as the last run left it, or as this one has saved it since. `None` if there is
    /// none.
    #[must_use]
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        self.hold.checkpoint()
    }

    /// Replaces the lock's checkpoint, and gives its version: see [`Hold::save`].
    ///
    /// # Errors
    /// As [`Hold::save`].
    pub async fn save(&self, value: impl AsRef<[u8]>) -> Result<u64, Error> {
        self.hold.save(value).await
    }

    /// The hold of the schedule's lock: validity, deadline, progress. It ends with the run.
    pub const fn hold(&self) -> &Hold {
        &self.hold
    }

    /// What happens to the hold, from its beginning; once, and only if
    /// [`with_hold_events`](super::Runs::with_hold_events) asked for it.
    #[must_use]
    pub fn take_events(&self) -> Option<UnboundedReceiver<HoldEvent>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Says how the run ended, and waits until the store has it. The run is not valid from the first moment
    /// of this call on (S13), so stop acting before. Asks again, without end, while the sidecar or its store
    /// is away: drop this to give up. Also the outcome of a run that was lost may still count: see
    /// [`CompletedRun::result`].
    ///
    /// # Errors
    /// [`Error::Refused`] when asking again does not help.
    pub async fn complete(self, completion: Completion) -> Result<CompletedRun, Error> {
        self.finish(completion).await
    }

    /// Completes it: it did its work.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub async fn succeeded(self) -> Result<CompletedRun, Error> {
        self.finish(Completion::succeeded()).await
    }

    /// Completes it: it failed, and is tried again if attempts are left. `detail` is for the sidecar's log.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub async fn failed(self, detail: impl Into<String>) -> Result<CompletedRun, Error> {
        self.finish(Completion::failed(detail)).await
    }

    /// Completes it: another replica is to run it.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub async fn returned(self) -> Result<CompletedRun, Error> {
        self.finish(Completion::returned()).await
    }

    /// The same, for those who share it.
    pub(super) async fn finish(&self, completion: Completion) -> Result<CompletedRun, Error> {
        let generation = self.hold.end_and_settle().await;
        let lease_id = self.hold.lease_id().to_owned();
        let request = completion.into_wire(lease_id, generation, self.wire.run_id.clone());
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.hold.client().complete(request.clone()).await {
                Ok(completed) => {
                    self.stage.send_replace(Stage::Completed);
                    return Ok(completed);
                }
                Err(error) => error,
            };
            if !(passes(&error) || error.is_unanswered()) {
                return Err(error);
            }
            tokio::time::sleep(retry_after(&error).unwrap_or(pause)).await;
            pause = (pause * 2).min(LONGEST_RUN_PAUSE);
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.stage.send_replace(Stage::Panicked);
        }
    }
}
