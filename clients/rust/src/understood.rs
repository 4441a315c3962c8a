//! Whether a sidecar has understood what was asked for (S37).

use crate::error::Error;
use crate::messages::LeaseSpec;
use crate::proto;

/// Those fields of a request that change what the caller gets.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    wait_without_end: bool,
    permits: u32,
    priority: u32,
    yields: bool,
    share: String,
    rebalance: bool,
    occurrence_at: Option<prost_types::Timestamp>,
}

impl Wanted {
    pub(crate) fn of(spec: &LeaseSpec) -> Self {
        Self {
            wait_without_end: spec.wait_without_end,
            permits: spec.permits,
            priority: spec.priority,
            yields: spec.yields,
            share: spec.share.clone(),
            rebalance: spec.rebalance,
            occurrence_at: spec.occurrence_at.map(prost_types::Timestamp::from),
        }
    }

    /// Checks that a call was answered about an occurrence because it has named one.
    pub(crate) const fn check_occurrence(&self) -> Result<(), Error> {
        match self.occurrence_at {
            Some(_) => Ok(()),
            None => Err(Error::Protocol("a call without an occurrence was answered with one")),
        }
    }

    /// Compares with what the sidecar says that it has understood.
    ///
    /// # Errors
    /// [`Reason::Unsupported`](crate::Reason::Unsupported), when it does not know a field that was set.
    pub(crate) fn check(&self, understood: Option<proto::Understood>) -> Result<(), Error> {
        let understood = understood.unwrap_or_default();
        let missed = [
            ("wait_without_end", self.wait_without_end && !understood.wait_without_end),
            ("permits", self.permits > 1 && understood.permits != self.permits),
            ("priority", understood.priority != self.priority),
            ("yields", self.yields && !understood.yields),
            ("share", understood.share != self.share),
            ("rebalance", self.rebalance && !understood.rebalance),
            (
                "occurrence_at",
                self.occurrence_at.is_some() && understood.occurrence_at != self.occurrence_at,
            ),
        ];
        let missed: Vec<&str> =
            missed.into_iter().filter(|(_, is_missed)| *is_missed).map(|(name, _)| name).collect();
        if missed.is_empty() {
            return Ok(());
        }
        Err(Error::unsupported(format!(
            "the sidecar does not know what was asked for by {}, because it is older than this request: update the \
             sidecar, or do not ask for it",
            missed.join(" and ")
        )))
    }
}
