//! What can go wrong, told apart by code and reason, never by text.

use std::fmt;
use std::time::Duration;

use tonic::Status;
use tonic_types::StatusExt as _;

use crate::errors::Reason;
use crate::hold::Loss;
use crate::messages::{Code, LossReason};
use crate::proto;

/// The domain of the reasons in google.rpc.ErrorInfo.
const DOMAIN: &str = "leasehold.dev";

/// Why a call failed. That a lock is busy is no error: see [`Outcome`](crate::Outcome).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The endpoint, or what goes with it, is invalid. Trying again does not help.
    #[error("the endpoint {endpoint:?} cannot be used: {problem}")]
    Endpoint {
        /// What was given.
        endpoint: String,
        /// What is wrong with it and what would be right.
        problem: String,
    },
    /// This operating system has no clock that holds can be counted on (S3).
    #[error(
        "Leasehold's client needs Linux or macOS: {os} has no clock that counts while the machine sleeps"
    )]
    Platform {
        /// The operating system.
        os: String,
    },
    /// Nobody answers there.
    #[error(
        "no sidecar answers at {endpoint}; start one with `leasehold serve`, or say where it is with LEASEHOLD_ENDPOINT"
    )]
    Unreachable {
        /// Where it was looked for.
        endpoint: String,
        /// What the transport said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The sidecar wants a client certificate that it trusts, and was shown none or another.
    #[error(
        "the sidecar at {endpoint} wants a client certificate that it trusts ({detail}): show one that is signed by an \
         authority of its listen.tls.client_ca"
    )]
    CertificateRefused {
        /// Where the sidecar is.
        endpoint: String,
        /// What it did.
        detail: String,
    },
    /// The sidecar answered with an error, or the connection broke.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// The hold was lost: before the grant could be used, or before it was released.
    #[error("the lock was lost: {0}")]
    Lost(Loss),
    /// Whether the lock was released is not known: the sidecar did not answer within the client's release
    /// timeout, or the hold was being resumed. The lock is available when its lease expires, at the latest.
    #[error(
        "the release of the lock {lock_path} was not confirmed, and it becomes available when its lease expires, if \
         not before: {detail}"
    )]
    ReleaseUnconfirmed {
        /// The path of the lock.
        lock_path: String,
        /// What happened, in words for people.
        detail: String,
    },
    /// The lock was released, and the checkpoint that came with the release was not saved: the earlier one
    /// stands.
    #[error(
        "the lock was released, and its checkpoint was not saved, so the earlier one stands: {0}"
    )]
    CheckpointNotSaved(String),
    /// The hold was over before the store had answered a save: the earlier checkpoint stands or this one, and
    /// the next grant tells which (S27).
    #[error("it is not known whether the checkpoint was saved; the next grant tells: {0}")]
    CheckpointUnknown(String),
    /// The lock was released, and the outcome that came with the release was not recorded: who asks for the
    /// occurrence again is granted it. The text is the rest of the message, often empty.
    #[error(
        "the lock was released, and the outcome of its occurrence was not recorded; ask for the occurrence again{0}"
    )]
    OutcomeNotRecorded(String),
    /// The hold was over before the store had answered: who asks for the occurrence again is told whether the
    /// outcome was recorded.
    #[error(
        "the lock was released, and it is not known whether the outcome of its occurrence was recorded; ask for the \
         occurrence again"
    )]
    OutcomeUnknown,
    /// The occurrence that was waited for is done, or is skipped, so it will not be granted.
    #[error("the occurrence is {0}")]
    OccurrenceOver(String),
    /// The sidecar answered what no sidecar of this API may, so it is a newer or a broken one.
    #[error("the sidecar's answer is invalid: {0}")]
    Protocol(&'static str),
}

impl Error {
    /// The reason that the sidecar gave, if it gave one.
    #[must_use]
    pub fn reason(&self) -> Option<&Reason> {
        self.refusal().and_then(|refusal| refusal.reason.as_ref())
    }

    /// The gRPC code, if the error came by gRPC.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        self.refusal().map(|refusal| refusal.code)
    }

    const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::Endpoint { .. }
            | Self::Platform { .. }
            | Self::Unreachable { .. }
            | Self::CertificateRefused { .. }
            | Self::Lost(_)
            | Self::ReleaseUnconfirmed { .. }
            | Self::CheckpointNotSaved(_)
            | Self::CheckpointUnknown(_)
            | Self::OutcomeNotRecorded(_)
            | Self::OutcomeUnknown
            | Self::OccurrenceOver(_)
            | Self::Protocol(_) => None,
        }
    }

    /// Whether trying again may help, because the sidecar is away, restarting or changing: nobody answers,
    /// the connection broke, or the code is `UNAVAILABLE`.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        let passes = |refusal: &Refusal| {
            refusal.code == Code::Unavailable || refusal.reason == Some(Reason::StreamBehind)
        };
        self.is_break() || self.refusal().is_some_and(passes)
    }

    /// Whether nobody answers, the connection broke, or the sidecar is being replaced: another one may answer
    /// the same call.
    pub(crate) fn is_break(&self) -> bool {
        let is_break = |refusal: &Refusal| match &refusal.reason {
            Some(reason) => *reason == Reason::ShuttingDown,
            None => {
                matches!(refusal.code, Code::Unavailable | Code::Internal | Code::Cancelled)
            }
        };
        matches!(self, Self::Unreachable { .. }) || self.refusal().is_some_and(is_break)
    }

    /// Whether another sidecar may serve what this one has refused, because it is older than the request
    /// (S37).
    pub(crate) fn is_below_needs(&self) -> bool {
        self.refusal().is_some_and(|refusal| refusal.is_below_needs)
    }

    /// Whether the call ended without the sidecar's answer, as where its connection broke: it may have been
    /// carried out.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.refusal().is_some_and(|refusal| {
            // Of some ends of a connection tonic says UNKNOWN.
            let is_late = matches!(refusal.code, Code::DeadlineExceeded | Code::Unknown);
            refusal.reason.is_none() && (is_late || self.is_break())
        })
    }

    /// The sidecar does not have the call (S37).
    pub(crate) fn unsupported(message: String) -> Self {
        Self::made_here(Code::Unimplemented, Reason::Unsupported, message, Vec::new())
    }

    /// A field that the sidecar would refuse (S19).
    pub(crate) fn invalid(violation: FieldViolation) -> Self {
        let message = format!("{}: {}", violation.field, violation.description);
        Self::made_here(Code::InvalidArgument, Reason::InvalidField, message, vec![violation])
    }

    /// The holder has ended the hold.
    pub(crate) fn released() -> Self {
        let message = "the hold was released".to_owned();
        Self::made_here(Code::FailedPrecondition, Reason::HoldReleased, message, Vec::new())
    }

    fn made_here(
        code: Code,
        reason: Reason,
        message: String,
        violations: Vec<FieldViolation>,
    ) -> Self {
        let (retry_after, loss_reason, is_below_needs) = (None, None, false);
        let reason = Some(reason);
        Self::Refused(Box::new(Refusal {
            code,
            reason,
            message,
            violations,
            retry_after,
            loss_reason,
            is_below_needs,
        }))
    }

    pub(crate) fn refused(status: &Status) -> Self {
        Self::Refused(Box::new(Refusal::from_status(status)))
    }
}

/// Whether a status was made by this side, because the connection broke; the sidecar's have no source here.
pub(crate) fn is_of_connection(status: &Status) -> bool {
    std::error::Error::source(status).is_some()
}

/// Whether a status is that of a sidecar whose revision is below what the request needs (S37).
pub(crate) fn is_below_needs(status: &Status) -> bool {
    Refusal::from_status(status).is_below_needs
}

/// A connection's end has one code, whatever broke it; a call that took too long has another.
fn code_of(status: &Status) -> Code {
    let timed_out = std::error::Error::source(status)
        .is_some_and(|source| source.is::<tonic::TimeoutExpired>());
    if timed_out {
        Code::DeadlineExceeded
    } else if is_of_connection(status) {
        Code::Unavailable
    } else {
        Code::from_wire(status.code())
    }
}

/// What happened to a connection is in the causes: "transport error" alone helps nobody.
fn message_of(status: &Status) -> String {
    let mut message = status.message().to_owned();
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        let text = error.to_string();
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
        cause = error.source();
    }
    message
}

/// An error that came by gRPC.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Refusal {
    /// The gRPC code of the answer.
    pub code: Code,
    /// The reason; `None` if the error did not come from a sidecar, as when a connection breaks.
    pub reason: Option<Reason>,
    /// What to show to people.
    pub message: String,
    /// The fields that were wrong, with [`Reason::InvalidField`].
    pub violations: Vec<FieldViolation>,
    /// When trying again is worth while, if that was said.
    pub retry_after: Option<Duration>,
    /// Why the hold was lost, with [`Reason::HoldLost`].
    pub loss_reason: Option<LossReason>,
    /// Whether the sidecar's revision is below what the request needs: then it has said both.
    is_below_needs: bool,
}

impl Refusal {
    fn from_status(status: &Status) -> Self {
        let details = status.get_error_details();
        let info = details.error_info().filter(|info| info.domain == DOMAIN);
        Self {
            code: code_of(status),
            reason: info.map(|info| Reason::parse(&info.reason)),
            message: message_of(status),
            violations: details
                .bad_request()
                .map(|request| &request.field_violations)
                .into_iter()
                .flatten()
                .map(|violation| FieldViolation {
                    field: violation.field.clone(),
                    description: violation.description.clone(),
                })
                .collect(),
            retry_after: details.retry_info().and_then(|info| info.retry_delay),
            loss_reason: info
                .and_then(|info| info.metadata.get("loss_reason"))
                .map(|name| loss_named(name)),
            is_below_needs: info.is_some_and(|info| info.metadata.contains_key("needs")),
        }
    }
}

impl Reason {
    /// The reason of this number.
    pub(crate) fn from_wire(number: i32) -> Self {
        let known = proto::ErrorReason::try_from(number).ok();
        let name = known.and_then(|reason| reason.as_str_name().strip_prefix("ERROR_REASON_"));
        name.map_or_else(|| Self::Other(number.to_string()), Self::parse)
    }
}

/// The reason of this name, as errors have it.
fn loss_named(name: &str) -> LossReason {
    let wire = proto::LossReason::from_str_name(&format!("LOSS_REASON_{name}"));
    LossReason::from_wire(wire.unwrap_or_default())
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.message.is_empty() {
            return formatter.write_str(self.code.as_str());
        }
        formatter.write_str(&self.message)?;
        // The message names the first field at the most; the others must not stay unseen.
        for violation in &self.violations {
            if !self.message.contains(&violation.field) {
                write!(formatter, "; {}: {}", violation.field, violation.description)?;
            }
        }
        Ok(())
    }
}

/// A field of a request that the sidecar refused (S19).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldViolation {
    /// The field's path, such as `spec.key.function`.
    pub field: String,
    /// What is wrong with it, and the allowed range.
    pub description: String,
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "words_tests.rs"]
mod words_tests;
