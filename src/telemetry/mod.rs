//! What the sidecar says about itself: logs, metrics and traces.
//!
//! Rules: S20 (no secrets; lease ids of the store are secrets too). May import: coordinator, scheduler,
//! lobby, store, lock, time's Clock. To add a format of logs: a variant of [`Format`] and an arm in
//! `logs.rs`. To add a metric: a line of `families!` in `metrics.rs`, and whoever moves it; schedules, shares
//! and the export of traces have theirs in `metrics/`. Its series are made in advance by `make_known_series`
//! (`metrics/series.rs`): a rate needs the 0 before the first event, and the table in docs/operations.md,
//! which `make tables` writes, has the values of labels from there. What an event is in the log is in
//! `event_lines.rs`, and what it moves in `Metrics::observe`; `every_event_moves_its_series_and_no_other`
//! has a row for each.

mod event_lines;
mod exposition;
mod logs;
mod metered_store;
mod metrics;
mod observers;
#[cfg(test)]
mod operator_tests;
mod process;
mod registration;
#[cfg(test)]
pub(crate) mod rig;
mod stderr;
mod traces;

pub use event_lines::EventLines;
pub use exposition::Exposition;
pub use logs::{Filter, FilterError, Format, LogsError, init, subscriber};
pub use metered_store::MeteredStore;
pub use metrics::{ConnectionCounts, Connections, Metrics};
pub use observers::Observers;
pub use stderr::{Stderr, flush, lines_dropped};
pub use traces::{
    Collector, Ratio, Sampler, TraceSettings, Traces, TracesError, parse_headers, parse_pairs,
};
