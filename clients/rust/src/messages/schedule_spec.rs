//! When a schedule is due, and how its runs are handled.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Overlap;
use super::holder::holder_or_this;
use super::{LockKey, duration, wire_duration};
use crate::proto;

/// When a schedule is due.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Timetable {
    /// An expression: five fields as cron has them, six with seconds first, a nickname such as `@daily`, or
    /// `@every 90s`. At most 256 bytes (T15).
    Cron(String),
    /// The same span again and again, counted from the Unix epoch: 10 s to 366 days.
    Every(Duration),
}

/// What becomes of missed occurrences that are older than the newest one (T9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CatchUp {
    /// They are skipped, and counted. The newest one runs, however late.
    #[default]
    Latest,
    /// They are skipped, and counted. The newest one runs only within [`ScheduleSpec::grace`].
    None,
    /// So many of them run too, the oldest first: 1 to 100.
    All(u32),
}

/// How long a run may take (T12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunTimeout {
    /// Until the next occurrence is due, but at least as long as the gap between the two.
    #[default]
    UntilNext,
    /// So long: 1 s to 366 days.
    After(Duration),
    /// As long as it likes.
    Unlimited,
}

/// When a schedule is due, and how its runs are handled. Durations are whole seconds. The sidecar refuses
/// values out of their range and names the field (S19).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleSpec {
    /// When it is due.
    pub timetable: Timetable,
    /// The IANA name of the time zone whose clocks the expression is about. Default: empty, UTC.
    pub time_zone: String,
    /// Which of two different definitions is in force: the one with the higher revision. Default: 0, which
    /// never replaces a positive one (T16).
    pub revision: u64,
    /// What becomes of missed occurrences. Default: latest.
    pub catch_up: CatchUp,
    /// Occurrences older than this are never run: 1 min to 366 days. Default: it reaches back over as many
    /// occurrences as `catch_up` may run, and 25 h at least.
    pub catch_up_window: Option<Duration>,
    /// How late the newest occurrence still counts as on time: at least twice the lease duration and 10 s
    /// more, which is the default; at most 7 days.
    pub grace: Option<Duration>,
    /// What becomes of occurrences that fall due during a run. Default: follow.
    pub overlap: Overlap,
    /// How many attempts an occurrence has that fail or are abandoned: 1 to 100. Default: 0, the sidecar's 3.
    pub max_attempts: u32,
    /// The wait before the second attempt, which doubles with each further one: 1 s to 10 min. Default: 10 s.
    pub backoff: Option<Duration>,
    /// How long a run may take, until its deadline. Default: until the next occurrence is due.
    pub run_timeout: RunTimeout,
    /// How long a run may take to end after its deadline: at most 1 h. Default: 10 s (T12).
    pub stop_grace: Option<Duration>,
    /// A run is lost unless it reports progress at least this often: 1 s to 24 h. Default: none (S11).
    pub progress_timeout: Option<Duration>,
    /// Each schedule starts later by an offset of its own, up to this: at most 24 h, and half the gap to the
    /// next occurrence. Default: zero (T13).
    pub spread: Option<Duration>,
    /// The longest time after which a sidecar looks whether a run elsewhere was abandoned: 1 s to 10 min.
    /// Default: the time doubles from the lease duration up to 10 min (T17).
    pub takeover_check: Option<Duration>,
    /// The duration of the lease in the store: 15 s to 60 s. Default: the sidecar's.
    pub lease_duration: Option<Duration>,
}

impl From<Timetable> for ScheduleSpec {
    fn from(timetable: Timetable) -> Self {
        Self {
            timetable,
            time_zone: String::new(),
            revision: 0,
            catch_up: CatchUp::default(),
            catch_up_window: None,
            grace: None,
            overlap: Overlap::default(),
            max_attempts: 0,
            backoff: None,
            run_timeout: RunTimeout::default(),
            stop_grace: None,
            progress_timeout: None,
            spread: None,
            takeover_check: None,
            lease_duration: None,
        }
    }
}

impl ScheduleSpec {
    /// Due when `expression` says, by the clocks of UTC: such as `30 2 * * *`. Everything else by default.
    #[must_use]
    pub fn cron(expression: impl Into<String>) -> Self {
        Timetable::Cron(expression.into()).into()
    }

    /// Due each `span`, counted from the Unix epoch.
    #[must_use]
    pub fn every(span: Duration) -> Self {
        Timetable::Every(span).into()
    }

    /// By the clocks of this time zone, such as `Europe/Copenhagen`.
    #[must_use]
    pub fn in_zone(self, time_zone: impl Into<String>) -> Self {
        Self { time_zone: time_zone.into(), ..self }
    }

    /// Says which of two different definitions is in force: the one with the higher revision.
    #[must_use]
    pub fn with_revision(self, revision: u64) -> Self {
        Self { revision, ..self }
    }

    /// Says what becomes of missed occurrences.
    #[must_use]
    pub fn with_catch_up(self, catch_up: CatchUp) -> Self {
        Self { catch_up, ..self }
    }

    /// Never runs occurrences older than this.
    #[must_use]
    pub fn with_catch_up_window(self, window: Duration) -> Self {
        Self { catch_up_window: Some(window), ..self }
    }

    /// Says how late the newest occurrence still counts as on time.
    #[must_use]
    pub fn with_grace(self, grace: Duration) -> Self {
        Self { grace: Some(grace), ..self }
    }

    /// Says what becomes of occurrences that fall due during a run.
    #[must_use]
    pub fn with_overlap(self, overlap: Overlap) -> Self {
        Self { overlap, ..self }
    }

    /// Gives each occurrence so many attempts, with at least so long a wait before the second one.
    #[must_use]
    pub fn with_attempts(self, max_attempts: u32, backoff: Duration) -> Self {
        Self { max_attempts, backoff: Some(backoff), ..self }
    }

    /// Says how long a run may take.
    #[must_use]
    pub fn with_run_timeout(self, run_timeout: RunTimeout) -> Self {
        Self { run_timeout, ..self }
    }

    /// Says how long a run may take to end after its deadline.
    #[must_use]
    pub fn with_stop_grace(self, stop_grace: Duration) -> Self {
        Self { stop_grace: Some(stop_grace), ..self }
    }

    /// A run is lost unless it reports progress at least this often.
    #[must_use]
    pub fn with_progress_timeout(self, progress_timeout: Duration) -> Self {
        Self { progress_timeout: Some(progress_timeout), ..self }
    }

    /// Starts later by an offset that is the schedule's own, up to this.
    #[must_use]
    pub fn with_spread(self, spread: Duration) -> Self {
        Self { spread: Some(spread), ..self }
    }

    /// Looks at least so often whether a run elsewhere was abandoned.
    #[must_use]
    pub fn with_takeover_check(self, takeover_check: Duration) -> Self {
        Self { takeover_check: Some(takeover_check), ..self }
    }

    /// The duration of the lease in the store.
    #[must_use]
    pub fn with_lease_duration(self, lease_duration: Duration) -> Self {
        Self { lease_duration: Some(lease_duration), ..self }
    }

    pub(crate) fn into_wire(self) -> proto::ScheduleSpec {
        use proto::schedule_spec::{Timeout, Timetable as Wire};
        let (catch_up, catch_up_max) = match self.catch_up {
            CatchUp::Latest => (proto::CatchUp::Latest, 0),
            CatchUp::None => (proto::CatchUp::None, 0),
            CatchUp::All(most) => (proto::CatchUp::All, most),
        };
        proto::ScheduleSpec {
            timetable: Some(match self.timetable {
                Timetable::Cron(expression) => Wire::Cron(expression),
                Timetable::Every(span) => Wire::Every(wire_duration(span)),
            }),
            time_zone: self.time_zone,
            revision: self.revision,
            catch_up: catch_up.into(),
            catch_up_max,
            catch_up_window: self.catch_up_window.map(wire_duration),
            grace: self.grace.map(wire_duration),
            overlap: self.overlap.into_wire().into(),
            max_attempts: self.max_attempts,
            backoff: self.backoff.map(wire_duration),
            timeout: match self.run_timeout {
                RunTimeout::UntilNext => None,
                RunTimeout::After(span) => Some(Timeout::RunTimeout(wire_duration(span))),
                RunTimeout::Unlimited => Some(Timeout::NoRunTimeout(true)),
            },
            spread: self.spread.map(wire_duration),
            takeover_check: self.takeover_check.map(wire_duration),
            lease_duration: self.lease_duration.map(wire_duration),
            stop_grace: self.stop_grace.map(wire_duration),
            progress_timeout: self.progress_timeout.map(wire_duration),
        }
    }

    /// `None` if it does not say when it is due: it is of a later version.
    pub(crate) fn from_wire(wire: proto::ScheduleSpec) -> Option<Self> {
        use proto::schedule_spec::{Timeout, Timetable as Wire};
        let catch_up = match wire.catch_up() {
            proto::CatchUp::Unspecified | proto::CatchUp::Latest => CatchUp::Latest,
            proto::CatchUp::None => CatchUp::None,
            proto::CatchUp::All => CatchUp::All(wire.catch_up_max),
        };
        let span = |wire: Option<prost_types::Duration>| wire.map(|wire| duration(Some(&wire)));
        let overlap = Overlap::from_wire(wire.overlap());
        Some(Self {
            timetable: match wire.timetable? {
                Wire::Cron(expression) => Timetable::Cron(expression),
                Wire::Every(every) => Timetable::Every(duration(Some(&every))),
            },
            time_zone: wire.time_zone,
            revision: wire.revision,
            catch_up,
            catch_up_window: span(wire.catch_up_window),
            grace: span(wire.grace),
            overlap,
            max_attempts: wire.max_attempts,
            backoff: span(wire.backoff),
            run_timeout: match wire.timeout {
                None | Some(Timeout::NoRunTimeout(false)) => RunTimeout::UntilNext,
                Some(Timeout::RunTimeout(after)) => RunTimeout::After(duration(Some(&after))),
                Some(Timeout::NoRunTimeout(true)) => RunTimeout::Unlimited,
            },
            spread: span(wire.spread),
            takeover_check: span(wire.takeover_check),
            lease_duration: span(wire.lease_duration),
            stop_grace: span(wire.stop_grace),
            progress_timeout: span(wire.progress_timeout),
        })
    }
}

/// Takes part in a schedule: which one, and as whom.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Subscription {
    /// The lock that the schedule is attached to. Function and scope have at most 256 bytes together.
    pub key: LockKey,
    /// When it is due, and how its runs are handled.
    pub spec: ScheduleSpec,
    /// Who runs, for people to read: at most 256 bytes. Default: this pod or host, and the process id.
    pub holder: String,
    /// Pairs for people and tools, shown in the lock's record: at most 16. Not for secrets.
    pub labels: BTreeMap<String, String>,
    /// Whether a schedule that nobody has subscribed to before runs at once, once for all replicas, and not
    /// first at its next occurrence (T25).
    pub first_now: bool,
}

impl Subscription {
    /// Takes part in the schedule of `key`, which all that name the same key share.
    #[must_use]
    pub fn new(key: impl Into<LockKey>, spec: ScheduleSpec) -> Self {
        Self {
            key: key.into(),
            spec,
            holder: String::new(),
            labels: BTreeMap::new(),
            first_now: false,
        }
    }

    /// Who runs, for people to read.
    #[must_use]
    pub fn with_holder(self, holder: impl Into<String>) -> Self {
        Self { holder: holder.into(), ..self }
    }

    /// Runs at once if the schedule begins with this subscription.
    #[must_use]
    pub fn with_first_now(self) -> Self {
        Self { first_now: true, ..self }
    }

    /// Shows a pair in the lock's record.
    #[must_use]
    pub fn with_label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// As a new subscriber's.
    pub(crate) fn to_wire(&self) -> proto::SubscribeScheduleRequest {
        proto::SubscribeScheduleRequest {
            key: Some(self.key.clone().into_wire()),
            spec: Some(self.spec.clone().into_wire()),
            holder: holder_or_this(&self.holder),
            labels: self.labels.clone(),
            reconnected: false,
            resume: None,
            run_id: String::new(),
            first: match self.first_now {
                true => proto::FirstRun::Now,
                false => proto::FirstRun::Unspecified,
            }
            .into(),
            needs: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_survives_the_wire() {
        let minute = Duration::from_secs(60);
        let full = ScheduleSpec::cron("30 2 * * *")
            .in_zone("Europe/Copenhagen")
            .with_revision(7)
            .with_catch_up(CatchUp::All(5))
            .with_catch_up_window(minute * 60)
            .with_grace(minute * 3)
            .with_overlap(Overlap::Skip)
            .with_attempts(9, minute)
            .with_run_timeout(RunTimeout::After(minute * 2))
            .with_stop_grace(minute / 2)
            .with_progress_timeout(minute)
            .with_spread(minute / 2)
            .with_takeover_check(minute / 4)
            .with_lease_duration(minute);
        let plain = ScheduleSpec::every(minute).with_run_timeout(RunTimeout::Unlimited);
        let none = ScheduleSpec::every(minute).with_catch_up(CatchUp::None);
        for spec in [full, plain, none, ScheduleSpec::cron("@daily")] {
            assert_eq!(ScheduleSpec::from_wire(spec.clone().into_wire()), Some(spec));
        }
        assert_eq!(ScheduleSpec::from_wire(proto::ScheduleSpec::default()), None);
    }
}
