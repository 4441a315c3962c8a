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

/// Defines the metrics of one subject, each with its name and help: to both, what its kind asks for is added.
macro_rules! families {
    ($to:ident => { $($field:ident: $kind:ty = $made:expr;)+ }) => {
        /// The metrics of this subject. The clones are one.
        #[derive(Clone, Debug)]
        pub(in crate::telemetry) struct Families {
            $($field: $kind,)+
        }

        impl Families {
            pub(in crate::telemetry) fn new($to: &mut Registry) -> Self {
                Self { $($field: $made,)+ }
            }
        }
    };
}
pub(super) use families;

/// A new metric without a unit.
pub(super) fn add<M: Metric + Clone + Default>(to: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    to.register(name, help, metric.clone());
    metric
}

/// The same for a metric in seconds.
pub(super) fn add_seconds<M: Metric + Clone>(
    to: &mut Registry,
    name: &str,
    help: &str,
    metric: M,
) -> M {
    to.register_with_unit(name, help, Unit::Seconds, metric.clone());
    metric
}
