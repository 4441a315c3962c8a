//! What is known here without asking the store: of a hold, and of this sidecar.

use crate::coordinator::Coordinator;
use crate::coordinator::actor::shared::HoldEntry;
use crate::coordinator::call::Gauges;
use crate::coordinator::store_io::rate_limit::RateStatus;
use crate::lock::LockPath;
use crate::time::Instant;

/// How long a hold of a caller here is valid, for people who look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldHere {
    /// The lock, or the permit of it.
    pub path: LockPath,
    /// The end of its validity (S2).
    pub valid_until: Instant,
    /// Whether renewals fail (S9).
    pub at_risk: bool,
}

impl Coordinator {
    /// The holds of callers here, in no order.
    #[must_use]
    pub fn holds_here(&self) -> Vec<HoldHere> {
        let registry = self.shared.registry();
        let here = |hold: &HoldEntry| HoldHere {
            path: hold.path.permit(hold.permit),
            valid_until: hold.valid_until,
            at_risk: hold.at_risk,
        };
        registry.holds.values().map(here).collect()
    }

    /// Numbers for gauges.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        let share_locks = self.shared.shares.held();
        let registry = self.shared.registry();
        let waiting = &self.shared.waiting;
        let (waiters, subscribers) = (waiting.callers(), waiting.subscribers());
        Gauges { share_locks, waiters, subscribers, ..registry.gauges() }
    }

    /// How requests to the store are held back now, because it throttles.
    #[must_use]
    pub fn pace(&self) -> RateStatus {
        self.shared.io.limiter.pace()
    }
}
