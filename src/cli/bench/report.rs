//! The result of the load.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Serialize;

use super::load::Tally;
use super::sidecar::Sample;

/// Numbers of a run.
#[derive(Debug, Serialize)]
pub(super) struct BenchReport {
    seconds: f64,
    grants_by_stream: u64,
    grants_by_call: u64,
    grants_per_second: f64,
    wait_median_seconds: f64,
    wait_99th_seconds: f64,
    busy: u64,
    /// Holds that ended though nobody ended them.
    lost: u64,
    failed: u64,
    first_failure: Option<String>,
    /// Two holders of one lock, or tokens that did not grow.
    violations: u64,
    /// Of resident memory in the second half of the run.
    memory_growth_percent_per_hour: f64,
    before: Sample,
    highest_resident_kib: u64,
    after: Sample,
    left_over: bool,
}

impl BenchReport {
    pub(super) fn new(
        tally: &Tally,
        lasted: Duration,
        samples: &[(Duration, Sample)],
        before: Sample,
        after: Sample,
    ) -> Self {
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let mut waits = tally.waits.lock().unwrap_or_else(PoisonError::into_inner).clone();
        waits.sort_unstable();
        let (by_stream, by_call) = (count(&tally.by_stream), count(&tally.by_call));
        let highest = samples.iter().map(|(_, sample)| sample.resident_kib).max();
        Self {
            seconds: lasted.as_secs_f64(),
            grants_by_stream: by_stream,
            grants_by_call: by_call,
            grants_per_second: to_float(by_stream + by_call) / lasted.as_secs_f64(),
            wait_median_seconds: quantile(&waits, 50),
            wait_99th_seconds: quantile(&waits, 99),
            busy: count(&tally.busy),
            lost: count(&tally.lost),
            failed: count(&tally.failed),
            first_failure: tally
                .first_failure
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
            violations: count(&tally.violations),
            memory_growth_percent_per_hour: growth(samples),
            before,
            highest_resident_kib: highest.unwrap_or_default(),
            after,
            left_over: after.holds > 0
                || after.waiters > 0
                || after.lock_paths > 0
                || after.tasks > before.tasks
                || after.files > before.files,
        }
    }

    /// Whether nothing was lost, nobody failed, and nothing is left over.
    pub(super) const fn is_well(&self) -> bool {
        self.lost == 0 && self.failed == 0 && self.violations == 0 && !self.left_over
    }

    pub(super) fn text(&self) -> String {
        let (before, after) = (&self.before, &self.after);
        let mut lines = vec![
            format!(
                "{} grants by stream, {} by call in {:.0} s: {:.0} a second",
                self.grants_by_stream, self.grants_by_call, self.seconds, self.grants_per_second
            ),
            format!(
                "waits: median {:.1} ms, 99th percentile {:.1} ms; {} calls were answered busy",
                self.wait_median_seconds * 1_000.0,
                self.wait_99th_seconds * 1_000.0,
                self.busy
            ),
            format!(
                "holds lost: {}; calls failed: {}; two holders or a token that did not grow: {}",
                self.lost, self.failed, self.violations
            ),
            format!(
                "memory: {} KiB before, {} KiB at most, {} KiB after; in the second half it grew by {:.2} % an hour",
                before.resident_kib,
                self.highest_resident_kib,
                after.resident_kib,
                self.memory_growth_percent_per_hour
            ),
            format!(
                "open files: {} before, {} after; tasks: {} before, {} after; left: {} holds, {} waiters, {} locks",
                before.files,
                after.files,
                before.tasks,
                after.tasks,
                after.holds,
                after.waiters,
                after.lock_paths
            ),
        ];
        if let Some(failure) = &self.first_failure {
            lines.push(format!("the first failure: {failure}"));
        }
        lines.push(
            if self.is_well() { "no problems were found" } else { "PROBLEMS were found" }
                .to_owned(),
        );
        lines.join("\n")
    }
}

/// The latency that so many percent stay below, in seconds.
fn quantile(sorted: &[Duration], percent: usize) -> f64 {
    let at = sorted.len().saturating_sub(1) * percent / 100;
    sorted.get(at).map_or(0.0, Duration::as_secs_f64)
}

#[expect(clippy::cast_precision_loss, reason = "numbers for people")]
const fn to_float(number: u64) -> f64 {
    number as f64
}

/// The slope of the straight line through the second half of the samples (least squares), in percent of their
/// mean, an hour.
fn growth(samples: &[(Duration, Sample)]) -> f64 {
    let half = samples.get(samples.len() / 2..).unwrap_or_default();
    let points: Vec<(f64, f64)> =
        half.iter().map(|(at, sample)| (at.as_secs_f64(), to_float(sample.resident_kib))).collect();
    let number = to_float(u64::try_from(points.len()).unwrap_or(u64::MAX));
    let (mean_x, mean_y) = (
        points.iter().map(|point| point.0).sum::<f64>() / number,
        points.iter().map(|point| point.1).sum::<f64>() / number,
    );
    let spread: f64 = points.iter().map(|point| (point.0 - mean_x).powi(2)).sum();
    let product: f64 = points.iter().map(|point| (point.0 - mean_x) * (point.1 - mean_y)).sum();
    if spread == 0.0 || mean_y == 0.0 { 0.0 } else { product / spread / mean_y * 360_000.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(resident: impl Fn(u64) -> u64) -> Vec<(Duration, Sample)> {
        let sample = |second| Sample { resident_kib: resident(second), ..Sample::default() };
        (0..100).map(|second| (Duration::from_secs(second), sample(second))).collect()
    }

    #[test]
    fn growth_is_the_slope_after_warm_up() {
        assert!(growth(&samples(|second| 100 * second.min(40))).abs() < 1e-9, "warm by then");
        let growing = growth(&samples(|second| 100_000 + second));
        assert!((3.59..3.61).contains(&growing), "a thousandth of a percent a second: {growing}");
        assert_eq!(growth(&[]), 0.0);
    }

    #[test]
    fn quantiles_are_of_what_was_measured() {
        let waits: Vec<Duration> = (1..=100).map(Duration::from_millis).collect();
        assert_eq!((quantile(&waits, 50), quantile(&waits, 99)), (0.05, 0.099));
        assert_eq!(quantile(&[], 50), 0.0);
    }

    #[test]
    fn what_is_left_over_is_not_well() {
        let tally = Tally::new(1);
        let report = |after| {
            BenchReport::new(&tally, Duration::from_secs(1), &[], Sample::default(), after)
                .is_well()
        };
        assert!(report(Sample::default()));
        assert!(!report(Sample { tasks: 1, ..Sample::default() }));
        assert!(!report(Sample { files: 1, ..Sample::default() }));
        assert!(!report(Sample { waiters: 1, ..Sample::default() }));
    }
}
