#![doc = include_str!("../README.md")]

mod boot_clock;
mod client;
mod connect;
mod error;
#[cfg(test)]
mod fake;
mod health;
mod hold;
mod holder_calls;
mod lead;
mod messages;
mod platform;
#[cfg(feature = "unstable-wire")]
#[doc(hidden)]
pub mod proto;
#[cfg(not(feature = "unstable-wire"))]
mod proto;
mod reason;
mod runs;
mod schedules;
#[cfg(all(unix, feature = "testing"))]
pub mod testing;
mod transport;
mod understood;
mod validity;
mod watch;
mod watch_locks;

pub use boot_clock::BootInstant;
pub use client::{Client, Outcome};
pub use connect::{ClientBuilder, DEFAULT_ENDPOINT, ENDPOINT_VARIABLE};
pub use error::{Error, FieldViolation, Refusal};
pub use hold::{Hold, HoldEvent, Holding, Loss, Notice};
pub use messages::{
    BreakLock, BreakMode, BreakNote, BreakOutcome, BreakResult, Busy, BusyReason, CatchUp,
    Checkpoint, Code, CompletedRun, Completion, CompletionResult, Deadline, DefinitionInForce,
    EndedRun, Extension, Grant, Health, HoldInfo, HoldState, LeaseSpec, ListLocks, ListSchedules,
    LockKey, LockMode, LockPage, LockRecord, LockSelector, LockState, LocksUnder, LossReason,
    Occurrence, Overlap, PreviewSchedule, PriorityStatus, ReleaseOutcome, ReleaseResult,
    Reservation, ResolvedPath, RunKind, RunOutcome, RunTimeout, SavedWith, Schedule,
    ScheduleIntervention, SchedulePage, SchedulePreview, ScheduleSpec, ScheduleState, ServerInfo,
    ServerLimits, Standby, StartedRun, Subscription, Timetable, TokenCheck, TokenStatus,
    UnderstoodSchedule, Validity, Waiting,
};
pub use reason::Reason;
pub use runs::{Run, Runs, ScheduleEvent};
pub use transport::{Call, Interceptor, Tls};
pub use watch::LockWatch;
pub use watch_locks::{LocksEvent, LocksWatch, WatchLocks};
