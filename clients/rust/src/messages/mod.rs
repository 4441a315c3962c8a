//! What is asked for and what is answered, in types of this crate: the generated ones and gRPC's stay inside.

mod calls;
mod checkpoint;
mod code;
mod grant;
mod holder;
mod info;
mod key;
mod record;
mod run;
mod schedule;
mod schedule_spec;
mod server;
mod spec;

pub use crate::enums::{
    BreakMode, BreakOutcome, BusyReason, CompletionResult, HoldState, LockMode, LockState,
    LossReason, Overlap, PriorityStatus, ReleaseOutcome, RunKind, RunOutcome, TokenStatus,
};
pub use calls::{
    BreakLock, BreakResult, Extension, Health, ListLocks, LockPage, LocksUnder, ResolvedPath,
    TokenCheck,
};
pub use checkpoint::Checkpoint;
pub(crate) use checkpoint::check_size;
pub use code::Code;
pub use grant::{Busy, Deadline, Grant, ReleaseResult, Validity, Waiting};
pub use info::HoldInfo;
pub use key::{LockKey, LockSelector};
pub use record::{BreakNote, LockRecord, Reservation};
pub use run::{CompletedRun, Completion, EndedRun, SavedWith, StartedRun};
pub use schedule::{
    DefinitionInForce, ListSchedules, Occurrence, PreviewSchedule, Schedule, ScheduleIntervention,
    SchedulePage, SchedulePreview, ScheduleState, Standby, UnderstoodSchedule,
};
pub use schedule_spec::{CatchUp, RunTimeout, ScheduleSpec, Subscription, Timetable};
pub use server::{ServerInfo, ServerLimits};
pub use spec::LeaseSpec;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A duration from the wire; zero for an absent or negative one, which only ends holds earlier.
pub(crate) fn duration(wire: Option<&prost_types::Duration>) -> Duration {
    wire.and_then(|wire| Duration::try_from(*wire).ok()).unwrap_or_default()
}

/// A duration for the wire; the longest there is if it is longer.
pub(crate) fn wire_duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(duration).unwrap_or(prost_types::Duration {
        // The longest duration that protobuf allows, about 10,000 years.
        seconds: 315_576_000_000,
        nanos: 0,
    })
}

/// Where dates that people read end, in seconds since 1970: protobuf's timestamps end here too.
const YEAR_10000: u64 = 253_402_300_800;

/// A moment of the wall clock from the wire; `None` for an absent one and for one that is out of every range.
pub(crate) fn moment(wire: Option<&prost_types::Timestamp>) -> Option<SystemTime> {
    let wire = wire?;
    let seconds = u64::try_from(wire.seconds).ok().filter(|seconds| *seconds < YEAR_10000)?;
    let seconds = Duration::from_secs(seconds);
    let nanos = Duration::from_nanos(u64::try_from(wire.nanos).ok()?);
    UNIX_EPOCH.checked_add(seconds)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_survive_the_wire() {
        let whole = Duration::new(58, 300_000_000);
        assert_eq!(duration(Some(&wire_duration(whole))), whole);
        assert_eq!(duration(None), Duration::ZERO);
        let longest = wire_duration(Duration::MAX);
        assert!(duration(Some(&longest)) > Duration::from_secs(300_000_000_000));
    }

    #[test]
    fn far_dates_are_none() {
        let at = |seconds| prost_types::Timestamp { seconds, nanos: 0 };
        assert_eq!(moment(Some(&at(1_000))), UNIX_EPOCH.checked_add(Duration::from_secs(1_000)));
        assert_eq!(moment(Some(&at(-1))), None);
        assert_eq!(moment(Some(&at(i64::MAX))), None);
    }
}
