#![doc = include_str!("../README.md")]

mod boot_clock;
mod client;
mod connect;
#[path = "../gen/constants.rs"]
mod constants;
#[path = "../gen/enums.rs"]
mod enums;
mod errors;
#[cfg(test)]
mod fake;
mod health;
mod hold;
mod holder_calls;
mod messages;
#[cfg(feature = "unstable-wire")]
#[doc(hidden)]
pub mod proto;
#[cfg(not(feature = "unstable-wire"))]
mod proto;
#[path = "../gen/revisions.rs"]
mod revisions;
mod runs;
#[cfg(all(unix, feature = "testing"))]
pub mod testing;
mod validity;
mod watch;

pub use boot_clock::BootInstant;
pub use client::{Client, Outcome};
pub use connect::{Call, ClientBuilder, DEFAULT_ENDPOINT, ENDPOINT_VARIABLE, Interceptor, Tls};
pub use errors::{Error, FieldViolation, Reason, Refusal};
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
pub use runs::{Run, Runs, ScheduleEvent};
pub use watch::{LockWatch, LocksEvent, LocksWatch, WatchLocks};
