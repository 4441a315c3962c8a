//! The labels of series, and the series that are known in advance.

use super::{CUT_OFF, DONE, Families, Labels};
use crate::coordinator::{AcquireResult, HoldEnd, LossReason, NotConfirmed, RenewalFailure};
use crate::lobby::{Closed, Limit, Listening, Stage};
use crate::store::{Operation, StoreError};
use crate::time::SignSource;

impl Families {
    /// Makes every series that is known in advance, so that a rate over it sees 0 before the first event.
    pub(super) fn make_known_series(&self) {
        for result in AcquireResult::ALL {
            drop(self.acquires.get_or_create(&[("result", result.as_str())]));
        }
        for granted in [true, false] {
            drop(self.acquire_wait.get_or_create(&granted_label(granted)));
        }
        for end in [
            HoldEnd::Released,
            HoldEnd::NotConfirmed(NotConfirmed::NoAnswer),
            HoldEnd::Lost(LossReason::Expired),
            HoldEnd::HandedOver,
            HoldEnd::ResumedElsewhere,
        ] {
            drop(self.hold_duration.get_or_create(&end_label(end)));
        }
        for reason in LossReason::ALL {
            drop(self.losses.get_or_create(&[("reason", reason.as_str())]));
        }
        for why in NotConfirmed::ALL {
            drop(self.releases_not_confirmed.get_or_create(&[("why", why.as_str())]));
        }
        for source in [SignSource::WallClock, SignSource::StoreDate] {
            drop(self.clocks_not_heard.get_or_create(&[("clock", source.as_str())]));
        }
        for listening in Listening::ALL {
            let listener = ("listener", listening.as_str());
            for stage in Stage::ALL {
                drop(self.connections.get_or_create(&[listener, ("stage", stage.as_str())]));
            }
            for reason in Closed::ALL {
                let reason = ("reason", reason.as_str());
                drop(self.connections_closed.get_or_create(&[listener, reason]));
            }
        }
        for limit in Limit::ALL {
            drop(self.calls_refused.get_or_create(&[("limit", limit.as_str())]));
        }
        self.schedules.make_known_series();
        self.sharing.make_known_series();
        self.traces.make_known_series();
        drop(self.renewals.get_or_create(&renewal_labels(None)));
        for failure in RenewalFailure::EXPECTED {
            drop(self.renewals.get_or_create(&renewal_labels(Some(failure))));
        }
        for operation in Operation::ALL {
            let operation = ("operation", operation.as_str());
            drop(self.store_request_duration.get_or_create(&[operation]));
            for outcome in [DONE, CUT_OFF].into_iter().chain(StoreError::KINDS) {
                drop(self.store_requests.get_or_create(&[operation, ("outcome", outcome)]));
            }
        }
    }
}

pub(super) const fn is_grant(result: AcquireResult) -> bool {
    matches!(result, AcquireResult::Granted | AcquireResult::Resumed)
}

pub(super) const fn granted_label(granted: bool) -> Labels<1> {
    [("granted", if granted { "true" } else { "false" })]
}

pub(super) const fn end_label(end: HoldEnd) -> Labels<1> {
    [("end", end.as_str())]
}

pub(super) fn renewal_labels(failure: Option<RenewalFailure>) -> Labels<2> {
    let result = if failure.is_some() { "failed" } else { "succeeded" };
    [("result", result), ("cause", failure.map_or("none", RenewalFailure::as_str))]
}
