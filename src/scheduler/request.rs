//! What subscribers and operators ask of schedules, and what they are answered: plain domain values.

use crate::coordinator::{
    CallError, CheckpointOutcome, Deadline, Grant, HeldEvent, KeyRequest, LockRecord,
    ResumeRequest, Telling, Under,
};
use crate::lock::{LeaseId, LockPath};
use crate::record::{CheckpointValue, Labels};
use crate::schedule::{Definition, Ended, Plan, Report, RunId, ScheduleRecord, Told};
use crate::timetable::UtcSecond;

/// Asks to take part in a schedule. Limits were checked when it was made (S19).
#[derive(Clone, Debug)]
pub struct SubscribeRequest {
    /// The lock of the schedule.
    pub key: KeyRequest,
    /// How the schedule is defined.
    pub definition: Definition,
    /// Whether the subscriber comes for the first time: one that reconnects does not replace a definition
    /// (T16).
    pub is_new: bool,
    /// Who, for people; the sidecar's default if none.
    pub holder: Option<String>,
    /// For people and tools.
    pub labels: Labels,
    /// Whether a schedule that nobody has subscribed to before runs at once (T25).
    pub runs_at_once: bool,
    /// The run that goes on (S16).
    pub resume: Option<ResumeRun>,
}

/// A run whose stream broke, and that goes on (S16).
#[derive(Clone, Debug)]
pub struct ResumeRun {
    /// The hold that the run has.
    pub hold: ResumeRequest,
    /// The run that goes on.
    pub run_id: RunId,
}

/// What happens to a subscriber, in order.
#[derive(Clone, Debug)]
pub enum ScheduleEvent {
    /// It waits for an occurrence. Repeated at least every 30 s between runs.
    Standby(Box<Standby>),
    /// It is to run an occurrence now.
    Run(Box<RunGrant>),
    /// Something happened to the run's hold.
    Held(HeldEvent),
    /// The run is over, by a call.
    Recorded {
        /// Which run is over.
        run_id: RunId,
        /// The outcome that the call said; none where the lock was released without one.
        report: Option<Report>,
        /// What became of it.
        completion: Completion,
    },
    /// Another definition is in force than the subscriber's (T16).
    DefinitionInForce {
        /// The definition that counts now.
        definition: Box<Definition>,
        /// Whether both have the same revision.
        conflict: bool,
    },
    /// The subscriber could not be served, or the sidecar ends: the last event.
    Failed(CallError),
}

impl ScheduleEvent {
    /// Whether nothing comes after it.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}

impl Telling for ScheduleEvent {
    /// What is true of a run now replaces what was; what has happened is told each time. Who does not read
    /// for long while it waits is to be found behind, before it is given a run (T6).
    fn supersedes(&self, unread: &Self) -> bool {
        let (Self::Held(event), Self::Held(unread)) = (self, unread) else { return false };
        let is_so_now = match event {
            HeldEvent::Renewed(_)
            | HeldEvent::Extended(_)
            | HeldEvent::AtRisk { .. }
            | HeldEvent::Recovered(_)
            | HeldEvent::Draining { .. } => true,
            HeldEvent::Revoked { .. } | HeldEvent::Lost { .. } => false,
        };
        is_so_now && event.is_alike(unread)
    }

    fn is_last(&self) -> bool {
        Self::is_last(self)
    }
}

/// A subscriber waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standby {
    /// The occurrence that is waited for; none if there is none.
    pub next_at: Option<UtcSecond>,
    /// What ended last.
    pub last: Option<Ended>,
    /// Whether a run goes on elsewhere, as far as is known.
    pub running_elsewhere: bool,
    /// Whether the schedule is paused.
    pub paused: bool,
}

/// A subscriber is to run an occurrence.
#[derive(Clone, Debug)]
pub struct RunGrant {
    /// The hold of the run.
    pub grant: Grant,
    /// What it is to run.
    pub told: Told,
    /// When it is to be over, if it has a deadline. Its hold lasts a little longer (T12).
    pub deadline: Option<Deadline>,
}

/// Says how a run ended (T8).
#[derive(Clone, Debug)]
pub struct CompleteRequest {
    /// The run's hold, if it is known.
    pub lease_id: Option<LeaseId>,
    /// The run that has ended.
    pub run_id: RunId,
    /// How it ended.
    pub report: Report,
    /// Why, for the log.
    pub detail: String,
    /// The generation that the caller was answered with, if it says one (S16).
    pub generation: Option<u64>,
    /// A checkpoint to save in the same write.
    pub checkpoint: Option<CheckpointValue>,
}

/// What became of the outcome of a run (T8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The store has it.
    Recorded,
    /// The store has it, though the run's hold was over.
    RecordedLate,
    /// The run was or may be repeated.
    Superseded,
}

/// A run was completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// What became of its outcome.
    pub completion: Completion,
    /// When it is tried again, if it is.
    pub retry_at: Option<UtcSecond>,
    /// The occurrence that is waited for now.
    pub next_at: Option<UtcSecond>,
    /// What became of the checkpoint, if there was one.
    pub checkpoint: Option<CheckpointOutcome>,
}

/// What is known of a schedule.
#[derive(Clone, Debug)]
pub struct ScheduleInfo {
    /// The lock of the schedule.
    pub path: LockPath,
    /// What anybody may say of it; why it cannot be read, for people, if it cannot. None for one that only
    /// has a record: its plan was deleted.
    pub plan: Option<Result<Box<Plan>, String>>,
    /// What its runs have decided; none before the first.
    pub state: Option<Box<ScheduleRecord>>,
    /// What is known of its lock.
    pub record: LockRecord,
    /// How many streams subscribe to it at this sidecar.
    pub subscribers_here: usize,
}

/// Asks for a page of schedules.
#[derive(Clone, Debug)]
pub struct ScheduleListRequest {
    /// Under which host id, or prefix of paths.
    pub under: Under,
    /// Schedules a page has at the most, 1 to 1,000.
    pub page_size: usize,
    /// Where the page before ended.
    pub page_token: Option<String>,
}

/// A page of schedules.
#[derive(Clone, Debug)]
pub struct SchedulePage {
    /// The schedules, in the order of their paths.
    pub schedules: Vec<ScheduleInfo>,
    /// Where the next page begins; none at the end.
    pub next_page_token: Option<String>,
}

/// An operator's word on a schedule (T18).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleChange {
    /// What falls due is skipped from now on.
    Pause,
    /// It goes on after the store's time.
    Resume,
    /// It is run by hand; the same request id is the same run.
    Trigger {
        /// The sender's id.
        request_id: String,
    },
    /// It is no more, until somebody new subscribes (T25).
    Remove {
        /// Why it is removed, for people.
        reason: String,
        /// Also where it has subscribers here.
        force: bool,
    },
    /// It begins anew (T25).
    Reset {
        /// Why it begins anew, for people.
        reason: String,
        /// After this instant; after the store's time if none.
        watermark: Option<UtcSecond>,
        /// The definition has this revision from then on; its own if none.
        revision: Option<u64>,
    },
}

impl ScheduleChange {
    /// A stable name, for logs.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Trigger { .. } => "trigger",
            Self::Remove { .. } => "remove",
            Self::Reset { .. } => "reset",
        }
    }
}
