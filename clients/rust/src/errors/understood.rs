//! Whether a sidecar has understood what was asked for (S37).

use std::time::Duration;

use crate::client::{Client, within};
use crate::errors::Error;
use crate::messages::{Code, LeaseSpec};
use crate::proto;

/// An error waits so long at most for the sidecar's version.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(5);

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

    /// What the sidecar does not know of that, by what it says that it has understood.
    pub(crate) fn missed(&self, understood: Option<proto::Understood>) -> Option<String> {
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
        (!missed.is_empty()).then(|| unknown_fields(&missed))
    }
}

/// What is said of a sidecar that does not know these fields of a request.
pub(crate) fn unknown_fields(fields: &[&str]) -> String {
    let fields = fields.join(" and ");
    format!(
        "the sidecar does not know {fields}, because it is older than this request: update the sidecar, or ask without \
         that"
    )
}

/// What is said of a sidecar that does not have these calls.
pub(crate) fn unknown_calls(what: &str) -> String {
    format!(
        "the sidecar does not know {what}, because it is older than they are: update the sidecar"
    )
}

impl Client {
    /// Says it plainly where an error is that of a sidecar without `what`, which says only that it does not
    /// have the call. One that has the call, and may not use it, says why.
    pub(crate) async fn knowing(&self, what: &str, error: Error) -> Error {
        if error.code() != Some(Code::Unimplemented) || error.reason().is_some() {
            return error;
        }
        let message = unknown_calls(what);
        self.too_old(&message).await
    }

    /// The error of a sidecar that is too old, with the versions; of an address that several sidecars share
    /// another one may tell its own.
    pub(crate) async fn too_old(&self, what: &str) -> Error {
        let request = within(QUESTION_TIMEOUT, proto::GetServerInfoRequest {});
        let sidecar = match self.short().get_server_info(request).await {
            Ok(info) if !info.get_ref().version.is_empty() => {
                format!("the sidecar that answers now is version {}", info.get_ref().version)
            }
            Ok(_) | Err(_) => "the sidecar does not say which version it is".to_owned(),
        };
        let client = env!("CARGO_PKG_VERSION");
        Error::unsupported(format!("{what}; this client is version {client}, and {sidecar}"))
    }
}
