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
use prometheus_client::registry::Registry;

use super::{Counters, FloatGauge};
use crate::coordinator::{RunOutcome, ScheduleEventKind};
use crate::scheduler::ScheduleFigures;
use crate::telemetry::registration::{STARTS, add, add_seconds, families};
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

families! {
    to => {
        runs: Counters<1> = add(to, "leasehold_schedule_runs",
            "Runs that ended and were recorded here, by outcome: failed is retried, but failed_final, \
             timed_out and the last failed attempt are not; skipped is one occurrence or several without a \
             run");
        missed: Counter = add(to, "leasehold_schedule_missed",
            "Occurrences that were missed and will not run, as recorded here");
        conflicts: Counter = add(to, "leasehold_schedule_conflicts",
            "Times that two different definitions of a schedule had the same revision");
        went_back: Counter = add(to, "leasehold_schedule_went_back",
            "Times that the record of a schedule had fallen back to an older one, and was rewritten");
        queued: Counter = add(to, "leasehold_schedule_starts_queued",
            "Starts of runs that waited for more than a second, because more were due at once than \
             `limits.starts_per_second`");
        here: Gauge = add(to, "leasehold_schedules", "Schedules that have subscribers here now");
        late: Gauge = add(to, "leasehold_schedules_late",
            "Of these, schedules that have been due for longer than their grace without a run in \
             progress");
        failing: Gauge = add(to, "leasehold_schedules_failing",
            "Of these, schedules whose last occurrence that ended did not succeed");
        silent: Gauge = add(to, "leasehold_schedules_silent",
            "Of these, schedules without a success for two occurrences and their grace");
        lateness: Histogram = add_seconds(to, "leasehold_schedule_lateness",
            "Time from when an occurrence was due to the grant of its first attempt, in whole seconds",
            Histogram::new(STARTS));
        next: Gauges = add_seconds(to, "leasehold_schedule_next_timestamp",
            "When the next occurrence of these schedules is due, in seconds since the Unix epoch; NaN \
             without one. With `admin.schedule_labels`, for each schedule", Gauges::default());
        last_success: Gauges = add_seconds(to, "leasehold_schedule_last_success_timestamp",
            "The newest occurrence that succeeded, in seconds since the Unix epoch, for the schedule where \
             it is the oldest; NaN without one. With `admin.schedule_labels`, for each schedule",
            Gauges::default());
    }
}

impl Families {
    /// Makes every series that is known in advance.
    pub(super) fn make_known_series(&self) {
        for outcome in RunOutcome::ALL {
            drop(self.runs.get_or_create(&[("outcome", label(outcome))]));
        }
        self.show(&[], false);
    }

    pub(super) fn observe(&self, kind: &ScheduleEventKind<'_>) {
        let (counter, by) = match *kind {
            // The first attempt says how late an occurrence is.
            ScheduleEventKind::RunStarted { run, lateness, is_resumed: false, .. }
                if run.attempt == 1 =>
            {
                return self.lateness.observe(lateness.as_secs_f64());
            }
            ScheduleEventKind::RunStarted { .. } | ScheduleEventKind::Changed { .. } => return,
            ScheduleEventKind::RunEnded { outcome, .. } => {
                (&self.runs.get_or_create_owned(&[("outcome", label(outcome))]), 1)
            }
            ScheduleEventKind::Missed { count } => (&self.missed, count),
            ScheduleEventKind::WentBack => (&self.went_back, 1),
            ScheduleEventKind::Conflict { .. } => (&self.conflicts, 1),
            ScheduleEventKind::StartQueued => (&self.queued, 1),
        };
        counter.inc_by(by);
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
