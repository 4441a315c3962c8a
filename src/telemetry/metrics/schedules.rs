//! The metrics of schedules (T23).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::{Counters, FloatGauge};
use crate::coordinator::{RunOutcome, ScheduleEventKind};
use crate::scheduler::ScheduleFigures;
use crate::telemetry::registration::{Registration, STARTS};
use crate::time::UnixMillis;

/// One series for all schedules, or one for each, with the label `schedule`.
#[derive(Clone, Debug, Default)]
struct Gauges {
    all: FloatGauge,
    each: Family<[(&'static str, String); 1], FloatGauge>,
    label_each: Arc<AtomicBool>,
}

impl EncodeMetric for Gauges {
    fn encode(&self, encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        if self.label_each.load(Ordering::Relaxed) {
            self.each.encode(encoder)
        } else {
            self.all.encode(encoder)
        }
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}

impl Gauges {
    fn set(
        &self,
        schedules: &[ScheduleFigures],
        label_each: bool,
        instant: fn(&ScheduleFigures) -> Option<UnixMillis>,
    ) {
        self.label_each.store(label_each, Ordering::Relaxed);
        self.all.set(seconds(schedules.iter().filter_map(instant).min()));
        // What is not here any more has no series.
        self.each.clear();
        for schedule in schedules.iter().filter(|_| label_each) {
            let label = ("schedule", schedule.path.to_string());
            self.each.get_or_create(&[label]).set(seconds(instant(schedule)));
        }
    }
}

#[derive(Debug)]
pub(super) struct Families {
    runs: Counters<1>,
    missed: Counter,
    lateness: Histogram,
    conflicts: Counter,
    went_back: Counter,
    queued: Counter,
    here: Gauge,
    late: Gauge,
    failing: Gauge,
    silent: Gauge,
    next: Gauges,
    last_success: Gauges,
}

impl Families {
    pub(super) fn new() -> Self {
        Self {
            runs: Family::default(),
            missed: Counter::default(),
            lateness: Histogram::new(STARTS),
            conflicts: Counter::default(),
            went_back: Counter::default(),
            queued: Counter::default(),
            here: Gauge::default(),
            late: Gauge::default(),
            failing: Gauge::default(),
            silent: Gauge::default(),
            next: Gauges::default(),
            last_success: Gauges::default(),
        }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let to = &mut Registration { registry, unit: None };
        to.add(
            "leasehold_schedule_runs",
            "Runs that ended and were recorded here, by outcome: failed is retried, but failed_final, timed_out and \
             the last failed attempt are not; skipped is one occurrence or several without a run",
            &self.runs,
        );
        to.add(
            "leasehold_schedule_missed",
            "Occurrences that were missed and will not run, as recorded here",
            &self.missed,
        );
        to.add(
            "leasehold_schedule_conflicts",
            "Times that two different definitions of a schedule had the same revision",
            &self.conflicts,
        );
        to.add(
            "leasehold_schedule_went_back",
            "Times that the record of a schedule had fallen back to an older one, and was rewritten",
            &self.went_back,
        );
        to.add(
            "leasehold_schedule_starts_queued",
            "Starts of runs that waited for more than a second, because more were due at once than `limits.starts_per_second`",
            &self.queued,
        );
        to.add("leasehold_schedules", "Schedules that have subscribers here now", &self.here);
        to.add(
            "leasehold_schedules_late",
            "Of these, schedules that have been due for longer than their grace without a run in progress",
            &self.late,
        );
        to.add(
            "leasehold_schedules_failing",
            "Of these, schedules whose last occurrence that ended did not succeed",
            &self.failing,
        );
        to.add(
            "leasehold_schedules_silent",
            "Of these, schedules without a success for two occurrences and their grace",
            &self.silent,
        );
        let to = &mut Registration { registry: to.registry, unit: Some(Unit::Seconds) };
        to.add(
            "leasehold_schedule_lateness",
            "Time from when an occurrence was due to the grant of its first attempt, in whole seconds",
            &self.lateness,
        );
        to.add(
            "leasehold_schedule_next_timestamp",
            "When the next occurrence of these schedules is due, in seconds since the Unix epoch; NaN without one. \
             With `admin.schedule_labels`, for each schedule",
            &self.next,
        );
        to.add(
            "leasehold_schedule_last_success_timestamp",
            "The newest occurrence that succeeded, in seconds since the Unix epoch, for the schedule where it is the \
             oldest; NaN without one. With `admin.schedule_labels`, for each schedule",
            &self.last_success,
        );
    }

    /// Makes every series that is known in advance.
    pub(super) fn make_known_series(&self) {
        for outcome in RunOutcome::ALL {
            drop(self.runs.get_or_create(&[("outcome", label(outcome))]));
        }
        self.show(&[], false);
    }

    pub(super) fn observe(&self, kind: &ScheduleEventKind<'_>) {
        match *kind {
            // The first attempt says how late an occurrence is.
            ScheduleEventKind::RunStarted { run, lateness, is_resumed: false, .. }
                if run.attempt == 1 =>
            {
                self.lateness.observe(lateness.as_secs_f64());
            }
            ScheduleEventKind::RunEnded { outcome, .. } => {
                self.runs.get_or_create(&[("outcome", label(outcome))]).inc();
            }
            ScheduleEventKind::Missed { count } => {
                self.missed.inc_by(count);
            }
            ScheduleEventKind::WentBack => {
                self.went_back.inc();
            }
            ScheduleEventKind::Conflict { .. } => {
                self.conflicts.inc();
            }
            ScheduleEventKind::StartQueued => {
                self.queued.inc();
            }
            ScheduleEventKind::RunStarted { .. } | ScheduleEventKind::Changed { .. } => {}
        }
    }

    /// Sets the gauges to how these schedules stand.
    pub(super) fn show(&self, schedules: &[ScheduleFigures], label_each: bool) {
        let count = |is: fn(&ScheduleFigures) -> bool| {
            let counted = schedules.iter().filter(|schedule| is(schedule)).count();
            i64::try_from(counted).unwrap_or(i64::MAX)
        };
        self.here.set(count(|_| true));
        self.late.set(count(|schedule| schedule.is_late));
        self.failing.set(count(|schedule| schedule.is_failing));
        self.silent.set(count(|schedule| schedule.is_silent));
        self.next.set(schedules, label_each, |schedule| schedule.next);
        self.last_success.set(schedules, label_each, |schedule| schedule.last_success);
    }
}

const fn label(outcome: RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Succeeded => "succeeded",
        RunOutcome::Failed => "failed",
        RunOutcome::FailedFinal => "failed_final",
        RunOutcome::TimedOut => "timed_out",
        RunOutcome::Returned => "returned",
        RunOutcome::Abandoned => "abandoned",
        RunOutcome::Skipped => "skipped",
    }
}

fn seconds(instant: Option<UnixMillis>) -> f64 {
    let span = instant.map(|at| Duration::from_millis(at.0));
    span.map_or(f64::NAN, |span| span.as_secs_f64())
}
