//! The metrics of the export of traces.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use super::{Counters, Labels};
use crate::telemetry::registration::{add, families};

families! {
    to => {
        exported: Counter = add(to, "leasehold_trace_spans_exported",
            "Trace spans that the collector has accepted");
        dropped: Counters<1> = add(to, "leasehold_trace_spans_dropped",
            "Trace spans that were dropped, by reason: `queue_full`, because the collector is too slow, or \
             `export_failed`, because it is unreachable or refused them");
    }
}

/// Why a span was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::telemetry) enum Dropped {
    /// The collector is slower than spans come.
    QueueFull,
    /// The collector could not be reached, or refused it.
    ExportFailed,
}

impl Families {
    pub(super) fn make_known_series(&self) {
        for why in [Dropped::QueueFull, Dropped::ExportFailed] {
            drop(self.dropped.get_or_create(&label(why)));
        }
    }

    pub(in crate::telemetry) fn exported(&self, spans: u64) {
        self.exported.inc_by(spans);
    }

    pub(in crate::telemetry) fn dropped(&self, why: Dropped, spans: u64) {
        self.dropped.get_or_create(&label(why)).inc_by(spans);
    }

    #[cfg(test)]
    pub(in crate::telemetry) fn counts(&self) -> (u64, u64, u64) {
        let dropped = |why| self.dropped.get_or_create(&label(why)).get();
        (self.exported.get(), dropped(Dropped::QueueFull), dropped(Dropped::ExportFailed))
    }
}

const fn label(why: Dropped) -> Labels<1> {
    let why = match why {
        Dropped::QueueFull => "queue_full",
        Dropped::ExportFailed => "export_failed",
    };
    [("why", why)]
}
