//! The metrics of priorities and shares (S33 to S35).

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Counters, Labels};
use crate::telemetry::registration::{add, families};

families! {
    to => {
        overruled: Counters<1> = add(to, "leasehold_broken_for_caller",
            "Locks that were broken for a caller that waits here, by reason: for its greater priority, or \
             to balance a share");
        held: Gauge = add(to, "leasehold_share_locks_held",
            "Locks that are held here now and belong to a share");
    }
}

impl Families {
    pub(super) fn make_known_series(&self) {
        for moves in [false, true] {
            drop(self.overruled.get_or_create(&why(moves)));
        }
    }

    pub(super) fn overruled(&self, moves: bool) {
        self.overruled.get_or_create(&why(moves)).inc();
    }

    pub(super) fn show(&self, held: usize) {
        self.held.set(i64::try_from(held).unwrap_or(i64::MAX));
    }
}

const fn why(moves: bool) -> Labels<1> {
    [("why", if moves { "balance" } else { "priority" })]
}
