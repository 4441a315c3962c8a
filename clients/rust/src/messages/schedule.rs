//! What is known of schedules.

use std::time::SystemTime;

use super::{
    EndedRun, LockKey, LockRecord, LocksUnder, RunOutcome, ScheduleSpec, StartedRun, moment,
};
use crate::proto;

/// How a spec was understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnderstoodSchedule {
    /// The expression in its canonical form.
    pub expression: String,
    /// The time zone.
    pub time_zone: String,
    /// The same for people: "every day at 02:30, Europe/Copenhagen".
    pub description: String,
    /// The version of the time zone data that the sidecar has, such as `2026b`.
    pub zone_data: String,
    /// What is said of the spec though it is allowed: that other schedulers read the expression otherwise.
    pub warning: String,
}

impl UnderstoodSchedule {
    pub(crate) fn from_wire(wire: proto::UnderstoodSchedule) -> Self {
        Self {
            expression: wire.expression,
            time_zone: wire.time_zone,
            description: wire.description,
            zone_data: wire.zone_data,
            warning: wire.warning,
        }
    }
}

/// The caller waits for an occurrence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Standby {
    /// The occurrence that is waited for. `None` if there is none.
    pub next_at: Option<SystemTime>,
    /// What ended last. `None` if nothing has.
    pub last: Option<EndedRun>,
    /// Whether a run goes on elsewhere, as far as is known.
    pub running_elsewhere: bool,
    /// Whether the schedule is paused.
    pub paused: bool,
}

impl Standby {
    pub(crate) fn from_wire(wire: proto::Standby) -> Self {
        Self {
            next_at: moment(wire.next_at.as_ref()),
            last: wire.last.map(EndedRun::from_wire),
            running_elsewhere: wire.running_elsewhere,
            paused: wire.paused,
        }
    }
}

/// Another definition is in force than the one that this caller came with (T16).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DefinitionInForce {
    /// Its expression, in the canonical form.
    pub expression: String,
    /// Its time zone.
    pub time_zone: String,
    /// The same for people.
    pub description: String,
    /// The revision of the definition.
    pub revision: u64,
    /// Whether it has the same revision as this caller's: then two deployments differ by accident.
    pub conflict: bool,
}

impl DefinitionInForce {
    pub(crate) fn from_wire(wire: proto::DefinitionInForce) -> Self {
        Self {
            expression: wire.expression,
            time_zone: wire.time_zone,
            description: wire.description,
            revision: wire.revision,
            conflict: wire.conflict,
        }
    }
}

/// What the runs of a schedule have decided, as it stands in the lock's record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleState {
    /// The occurrence that is waited for: due, running or still to come. `None` if there is none.
    pub next_at: Option<SystemTime>,
    /// The newest instant that is final. No occurrence up to it is run again.
    pub watermark: Option<SystemTime>,
    /// How the occurrence at `watermark` ended. `None` if it is the instant of the first subscription.
    pub watermark_outcome: Option<RunOutcome>,
    /// The run that has no outcome yet.
    pub run: Option<StartedRun>,
    /// When the next attempt is made, after one that failed.
    pub retry_at: Option<SystemTime>,
    /// How many occurrences were missed in all. Those that a pause has skipped do not count.
    pub missed: u64,
    /// What ended last, the newest first: as many as the record has room for.
    pub ended: Vec<EndedRun>,
}

impl ScheduleState {
    pub(crate) fn from_wire(wire: proto::ScheduleState) -> Self {
        Self {
            next_at: moment(wire.next_at.as_ref()),
            watermark: moment(wire.watermark.as_ref()),
            watermark_outcome: RunOutcome::from_wire(wire.watermark_outcome()),
            retry_at: moment(wire.retry_at.as_ref()),
            missed: wire.missed,
            run: wire.run.map(StartedRun::from_wire),
            ended: wire.ended.into_iter().map(EndedRun::from_wire).collect(),
        }
    }
}

/// A schedule: its definition, and what is known of its runs.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Schedule {
    /// The lock path.
    pub lock_path: String,
    /// The key, as far as the lock's record has it.
    pub key: Option<LockKey>,
    /// The definition in force, as it was given. `None` if it cannot be read.
    pub spec: Option<ScheduleSpec>,
    /// Its expression in the canonical form, also where the spec is a span.
    pub expression: String,
    /// The same for people.
    pub description: String,
    /// The version of the zone data that the next occurrence was computed with.
    pub zone_data: String,
    /// Whether it is paused.
    pub paused: bool,
    /// The request ids of runs by hand that wait, in their order.
    pub waiting_request_ids: Vec<String>,
    /// The occurrence that is waited for: due, running or still to come, also before the first run. `None` if
    /// there is none.
    pub next_at: Option<SystemTime>,
    /// What its runs have decided. `None` if there was none yet.
    pub state: Option<ScheduleState>,
    /// Who holds the schedule's lock, as far as is known. `None` in lists.
    pub record: Option<LockRecord>,
    /// How many streams subscribe to it at this sidecar.
    pub subscribers_here: u32,
    /// Why its definition cannot be read, for people. Empty if it can.
    pub problem: String,
    /// Who has removed it, and why. `None` if nobody has.
    pub removed: Option<ScheduleIntervention>,
    /// Who has reset it last, and why. `None` if nobody has.
    pub reset: Option<ScheduleIntervention>,
    /// Whether the run in `state` was abandoned: it has no outcome, and its lock is available.
    pub run_abandoned: bool,
}

/// What an operator has done to a whole schedule (T25).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleIntervention {
    /// When, by the store's clock.
    pub at: Option<SystemTime>,
    /// Why, as the operator said.
    pub reason: String,
    /// Who, as far as the sidecar knew.
    pub caller: String,
}

impl ScheduleIntervention {
    fn from_wire(wire: proto::ScheduleIntervention) -> Self {
        Self { at: moment(wire.at.as_ref()), reason: wire.reason, caller: wire.caller }
    }
}

impl Schedule {
    pub(crate) fn from_wire(wire: proto::Schedule) -> Self {
        Self {
            lock_path: wire.lock_path,
            key: wire.key.map(LockKey::from_wire),
            spec: wire.spec.and_then(ScheduleSpec::from_wire),
            expression: wire.expression,
            description: wire.description,
            zone_data: wire.zone_data,
            paused: wire.paused,
            waiting_request_ids: wire.waiting_request_ids,
            next_at: moment(wire.next_at.as_ref()),
            state: wire.state.map(ScheduleState::from_wire),
            record: wire.record.map(LockRecord::from_wire),
            subscribers_here: wire.subscribers_here,
            problem: wire.problem,
            removed: wire.removed.map(ScheduleIntervention::from_wire),
            reset: wire.reset.map(ScheduleIntervention::from_wire),
            run_abandoned: wire.run_abandoned,
        }
    }
}

/// A question for one page of schedules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListSchedules {
    /// Which schedules are asked for.
    pub under: LocksUnder,
    /// At most so many a page: 1 to 200. Default: zero, the sidecar's choice.
    pub page_size: u32,
    /// From the page before; empty for the first page.
    pub page_token: String,
}

impl ListSchedules {
    /// All schedules there.
    #[must_use]
    pub fn under(under: LocksUnder) -> Self {
        Self { under, ..Self::default() }
    }

    /// The page that `page_token` names.
    #[must_use]
    pub fn page(self, page_token: impl Into<String>) -> Self {
        Self { page_token: page_token.into(), ..self }
    }

    pub(crate) fn into_wire(self) -> proto::ListSchedulesRequest {
        use proto::list_schedules_request::Under;
        let under = match self.under {
            LocksUnder::OwnHostId => None,
            LocksUnder::HostId(host_id) => Some(Under::HostId(host_id)),
            LocksUnder::Prefix(prefix) => Some(Under::Prefix(prefix)),
        };
        proto::ListSchedulesRequest {
            under,
            page_size: self.page_size,
            page_token: self.page_token,
        }
    }
}

/// One page of schedules. It may be empty though it is not the last one.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SchedulePage {
    /// The schedules of this page.
    pub schedules: Vec<Schedule>,
    /// Names the next page; empty after the last one.
    pub next_page_token: String,
}

impl SchedulePage {
    pub(crate) fn from_wire(wire: proto::ListSchedulesResponse) -> Self {
        Self {
            schedules: wire.schedules.into_iter().map(Schedule::from_wire).collect(),
            next_page_token: wire.next_page_token,
        }
    }
}

/// A question for the next occurrences of a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PreviewSchedule {
    /// The schedule, as it would be defined.
    pub spec: ScheduleSpec,
    /// After which instant. Default: now, by the sidecar's wall clock.
    pub after: Option<SystemTime>,
    /// How many occurrences: 1 to 100. Default: zero, the sidecar's 10.
    pub count: u32,
    /// The lock, if occurrences are to be shown with the offset that `spread` gives them.
    pub key: Option<LockKey>,
}

impl PreviewSchedule {
    /// Asks for the next ten occurrences after now.
    #[must_use]
    pub const fn new(spec: ScheduleSpec) -> Self {
        Self { spec, after: None, count: 0, key: None }
    }

    /// Asks for what comes after `after`.
    #[must_use]
    pub fn after(self, after: SystemTime) -> Self {
        Self { after: Some(after), ..self }
    }

    /// Asks for so many.
    #[must_use]
    pub fn with_count(self, count: u32) -> Self {
        Self { count, ..self }
    }

    /// Asks when the schedule of this lock starts them.
    #[must_use]
    pub fn with_key(self, key: LockKey) -> Self {
        Self { key: Some(key), ..self }
    }

    pub(crate) fn into_wire(self) -> proto::PreviewScheduleRequest {
        proto::PreviewScheduleRequest {
            spec: Some(self.spec.into_wire()),
            after: self.after.map(prost_types::Timestamp::from),
            count: self.count,
            key: self.key.map(LockKey::into_wire),
            needs: 0,
        }
    }
}

/// What a spec means, and its next occurrences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchedulePreview {
    /// How the spec was understood.
    pub understood: UnderstoodSchedule,
    /// The occurrences. Fewer than asked for if there are no more.
    pub occurrences: Vec<Occurrence>,
}

/// One instant of a schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occurrence {
    /// The nominal instant.
    pub at: Option<SystemTime>,
    /// The same as the clocks of the schedule's zone show it.
    pub local_time: String,
    /// When it starts, with the offset of `spread`. `None` unless a lock was named.
    pub starts_at: Option<SystemTime>,
}

impl SchedulePreview {
    pub(crate) fn from_wire(wire: proto::PreviewScheduleResponse) -> Self {
        let occurrence = |wire: proto::Occurrence| Occurrence {
            at: moment(wire.at.as_ref()),
            local_time: wire.local_time,
            starts_at: moment(wire.starts_at.as_ref()),
        };
        Self {
            understood: UnderstoodSchedule::from_wire(wire.understood.unwrap_or_default()),
            occurrences: wire.occurrences.into_iter().map(occurrence).collect(),
        }
    }
}
