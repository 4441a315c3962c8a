//! How metrics get their names, and histograms their buckets.

use prometheus_client::registry::{Metric, Registry, Unit};

/// Seconds that callers wait: from a try that found the lock free to the longest wait there is.
pub(super) const WAITS: [f64; 13] =
    [0.01, 0.05, 0.25, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0];
/// Seconds that holds last: from a short critical section to a week.
pub(super) const HOLDS: [f64; 11] =
    [0.1, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0, 604_800.0];
/// Seconds that a run starts after it was due: from at once to a day of outage.
pub(super) const STARTS: [f64; 10] =
    [1.0, 2.0, 5.0, 15.0, 60.0, 180.0, 600.0, 3_600.0, 14_400.0, 86_400.0];
/// Seconds of one request to the store; S7 cuts one off after 5 s at the latest.
pub(super) const REQUESTS: [f64; 11] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];
/// Seconds that a renewal is late: a hold of a lease of 60 s survives 38 (S9).
pub(super) const LATENESSES: [f64; 8] = [0.01, 0.05, 0.25, 1.0, 2.5, 5.0, 15.0, 40.0];

/// Where metrics of one unit are registered.
pub(super) struct Registration<'a> {
    pub(super) registry: &'a mut Registry,
    pub(super) unit: Option<Unit>,
}

impl Registration<'_> {
    /// `_total` and the unit are added to the name.
    pub(super) fn add<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: &M) {
        match &self.unit {
            None => self.registry.register(name, help, metric.clone()),
            Some(unit) => {
                self.registry.register_with_unit(name, help, unit.clone(), metric.clone());
            }
        }
    }
}
