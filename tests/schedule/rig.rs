//! One sidecar, a record and a plan in memory, and the store's time: what the rules are tried on.

use std::time::Duration;

use leasehold::lock::{FencingToken, LockPath};
use leasehold::schedule::*;
use leasehold::timetable::{Timetable, UtcSecond};

pub(crate) fn at(text: &str) -> UtcSecond {
    let text = if text.contains('T') { text.to_owned() } else { format!("2026-01-05T{text}Z") };
    text.parse().unwrap()
}

pub(crate) fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

pub(crate) fn spec(expression: &str) -> Spec {
    let timetable = Timetable::parse(expression, "UTC").unwrap();
    Spec { lease_duration: Some(seconds(15)), ..Spec::new(timetable) }
}

/// What a subscription with this definition comes to.
pub(crate) fn plan_of(
    current: Option<&Plan>,
    definition: &Definition,
    is_new: bool,
    record: Option<&ScheduleRecord>,
    now: UtcSecond,
) -> Subscribed {
    let path = &path();
    let subscription = Subscription { path, definition, is_new, runs_at_once: false };
    Plan::subscribed(current, &subscription, record, now)
}

pub(crate) fn path() -> LockPath {
    "leasehold/locks/host/Nightly/FUNCTION".parse().unwrap()
}

/// A schedule that was first subscribed to on Monday 2026-01-05 at 00:30:00.
pub(crate) struct Rig {
    pub(crate) path: LockPath,
    pub(crate) plan: Plan,
    pub(crate) record: Option<ScheduleRecord>,
    pub(crate) newest: Option<Newest>,
    pub(crate) now: UtcSecond,
    pub(crate) queued: Duration,
    /// How the run in the record has ended, as this sidecar was told (T8).
    pub(crate) reported: Option<Report>,
    tokens: u64,
}

impl Rig {
    pub(crate) fn new(spec: Spec) -> Self {
        let now = at("00:30:00");
        let definition = Definition::new(spec).unwrap();
        let plan = plan_of(None, &definition, true, None, now).write.unwrap();
        Self {
            path: path(),
            plan,
            record: None,
            newest: None,
            now,
            queued: Duration::ZERO,
            reported: None,
            tokens: 4_095,
        }
    }

    pub(crate) fn hourly() -> Self {
        Self::new(spec("0 * * * *"))
    }

    pub(crate) fn with(expression: &str, change: impl FnOnce(&mut Spec)) -> Self {
        let mut spec = spec(expression);
        change(&mut spec);
        Self::new(spec)
    }

    pub(crate) fn view(&self, lease: Lease) -> View<'_> {
        let (path, plan, record) = (&self.path, &self.plan, self.record.as_ref());
        let (newest, store_time, queued) = (self.newest, self.now, self.queued);
        View {
            path,
            plan,
            plan_at: store_time,
            record,
            newest,
            store_time,
            lease,
            queued,
            lease_duration: seconds(15),
            reported: self.reported,
            ended_at: store_time,
        }
    }

    pub(crate) fn look_at(&mut self, time: &str) -> Decision {
        self.now = at(time);
        look(&self.view(Lease::Free)).decision
    }

    /// Acquires and starts: the run that is granted, if one is. A settled record is written.
    pub(crate) fn start_at(&mut self, time: &str) -> Option<Told> {
        self.now = at(time);
        self.tokens += 1;
        let token = FencingToken::from_u64(self.tokens).unwrap();
        match start(&self.view(Lease::Here { running: false }), token) {
            Started::Run { record, told } => {
                self.write(*record);
                Some(*told)
            }
            Started::Settle(record) => {
                self.write(*record);
                None
            }
            Started::Nothing => None,
        }
    }

    /// The run says how it ended, under its own lease; when it is retried.
    pub(crate) fn report_at(&mut self, time: &str, told: &Told, how: Report) -> Option<UtcSecond> {
        self.now = at(time);
        let reported = report(&self.view(Lease::Here { running: true }), &told.run_id, how);
        let Reported::Write { record, retry_at } = reported else { panic!("{reported:?}") };
        self.write(*record);
        retry_at
    }

    /// One whole run of what is due, which succeeds at once.
    pub(crate) fn run_at(&mut self, time: &str) -> Told {
        let told = self.start_at(time).unwrap_or_else(|| panic!("nothing to run at {time}"));
        self.report_at(time, &told, Report::Succeeded);
        told
    }

    pub(crate) fn record(&self) -> &ScheduleRecord {
        self.record.as_ref().unwrap()
    }

    /// As the store keeps it: what is not written is lost.
    fn write(&mut self, record: ScheduleRecord) {
        let fields = record.into_fields(Default::default());
        self.record = ScheduleRecord::from_fields(&fields).unwrap();
    }
}

pub(crate) fn scheduled(time: &str) -> Occasion {
    Occasion::Scheduled(at(time))
}
