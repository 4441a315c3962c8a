//! What can go wrong, told apart by code and reason, never by text.

use std::fmt;
use std::time::Duration;

use tonic::Status;
use tonic_types::StatusExt as _;

use crate::hold::Loss;
use crate::messages::Code;
use crate::proto::ErrorReason;

/// The domain of the reasons in google.rpc.ErrorInfo.
const DOMAIN: &str = "leasehold.dev";
/// What the names of `ErrorReason` have before the reason.
const PREFIX: &str = "ERROR_REASON_";

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
        /// What happened.
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
    /// Whether the lock was released is not known: the sidecar did not answer within the client's release timeout, or
    /// the hold was being resumed. The lock is available when its lease expires, at the latest.
    #[error("the release was not confirmed ({0}); the lock is available when its lease expires")]
    NotReleased(String),
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
            | Self::NotReleased(_)
            | Self::Protocol(_) => None,
        }
    }

    /// Whether trying again may help, because the sidecar is away, restarting or changing: nobody answers, or the code
    /// is `UNAVAILABLE`.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused(refusal) => {
                refusal.code == Code::Unavailable || refusal.reason == Some(Reason::StreamBehind)
            }
            Self::Endpoint { .. }
            | Self::Platform { .. }
            | Self::CertificateRefused { .. }
            | Self::Lost(_)
            | Self::NotReleased(_)
            | Self::Protocol(_) => false,
        }
    }

    /// The sidecar does not know a field that the caller has set (S37).
    pub(crate) fn unsupported(message: &str) -> Self {
        Self::Refused(Box::new(Refusal {
            code: Code::Unimplemented,
            reason: Some(Reason::Unsupported),
            message: message.to_owned(),
            violations: Vec::new(),
            retry_after: None,
            loss_reason: None,
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
    /// The code.
    pub code: Code,
    /// The reason; `None` if the error did not come from a sidecar, as when a connection breaks.
    pub reason: Option<Reason>,
    /// What to show to people.
    pub message: String,
    /// The fields that were wrong, with [`Reason::InvalidField`].
    pub violations: Vec<FieldViolation>,
    /// When trying again is worth while, if that was said.
    pub retry_after: Option<Duration>,
    /// Why the hold was lost, with [`Reason::HoldLost`]: `EXPIRED` and so on, as [`LossReason`](crate::LossReason).
    pub loss_reason: Option<String>,
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
            loss_reason: info.and_then(|info| info.metadata.get("loss_reason").cloned()),
        }
    }
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

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// Why the sidecar refused: stable names, those of `ErrorReason` in the proto.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[$doc])* $variant,)*
            /// One that this version of the client does not know.
            Other(String),
        }

        impl Reason {
            fn parse(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)*
                    other => Self::Other(other.to_owned()),
                }
            }

            /// The reason of this number.
            pub(crate) fn from_wire(number: i32) -> Self {
                let known = ErrorReason::try_from(number).ok();
                let name = known.and_then(|reason| reason.as_str_name().strip_prefix(PREFIX));
                name.map_or_else(|| Self::Other(number.to_string()), Self::parse)
            }

            /// The reason as it is on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Other(text) => text,
                }
            }
        }
    };
}

reasons! {
    /// A field is missing or out of its range: see [`Refusal::violations`].
    InvalidField = "INVALID_FIELD",
    /// No hold of this sidecar has this lease id, or it was forgotten.
    UnknownLease = "UNKNOWN_LEASE",
    /// The lock to be broken does not exist in the store.
    UnknownLock = "UNKNOWN_LOCK",
    /// The hold is lost: see [`Refusal::loss_reason`].
    HoldLost = "HOLD_LOST",
    /// The hold was released.
    HoldReleased = "HOLD_RELEASED",
    /// The operator has not enabled breaking.
    BreakNotEnabled = "BREAK_NOT_ENABLED",
    /// The container does not exist and the sidecar may not make it.
    ContainerMissing = "CONTAINER_MISSING",
    /// No rule of the operator allows this caller to do this with this lock.
    AccessDenied = "ACCESS_DENIED",
    /// The operator forbids host id and host type in requests.
    OverrideForbidden = "OVERRIDE_FORBIDDEN",
    /// The store refuses the sidecar's credentials.
    StoreDenied = "STORE_DENIED",
    /// The bearer token is missing or wrong.
    Unauthenticated = "UNAUTHENTICATED",
    /// The user of this process is not among those whom the socket lets in.
    UserNotAllowed = "USER_NOT_ALLOWED",
    /// The store could not be reached in time.
    StoreUnavailable = "STORE_UNAVAILABLE",
    /// The store asks for patience.
    StoreThrottled = "STORE_THROTTLED",
    /// The sidecar is going away.
    ShuttingDown = "SHUTTING_DOWN",
    /// The store is damaged, full or misconfigured.
    StoreFailed = "STORE_FAILED",
    /// The store fell back to an older copy of the lock.
    TokenNotGrowing = "TOKEN_NOT_GROWING",
    /// The lock's stored fencing token is there and cannot be read.
    TokenUnreadable = "TOKEN_UNREADABLE",
    /// The sidecar has as many holds as it may.
    TooManyHolds = "TOO_MANY_HOLDS",
    /// The sidecar has as many waiters as it may.
    TooManyWaiters = "TOO_MANY_WAITERS",
    /// Another stream has resumed the hold.
    Superseded = "SUPERSEDED",
    /// This client did not read its events in time; the hold may be resumed.
    StreamBehind = "STREAM_BEHIND",
    /// The validity ended before the store answered a save: the old checkpoint stands or the new one (S27).
    CheckpointUnknown = "CHECKPOINT_UNKNOWN",
    /// The sidecar that answered does not know a field that this caller has set (S37).
    Unsupported = "UNSUPPORTED",
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tonic_types::ErrorDetails;

    use super::*;

    fn refusal(error: Error) -> Refusal {
        let Error::Refused(refusal) = error else {
            panic!("{error}");
        };
        *refusal
    }

    #[test]
    fn s19_field_violations_are_data() {
        let mut details = ErrorDetails::new();
        details
            .set_error_info("INVALID_FIELD", DOMAIN, HashMap::new())
            .add_bad_request_violation("spec.wait", "is 25 h; 0 to 24 h are allowed");
        let status =
            Status::with_error_details(tonic::Code::InvalidArgument, "one field is wrong", details);
        let refusal = refusal(Error::refused(&status));
        assert_eq!(refusal.reason, Some(Reason::InvalidField));
        assert_eq!(refusal.violations[0].field, "spec.wait");
        assert_eq!(
            refusal.to_string(),
            "one field is wrong; spec.wait: is 25 h; 0 to 24 h are allowed"
        );
    }

    #[test]
    fn a_reason_of_another_domain_is_none() {
        let mut details = ErrorDetails::new();
        details.set_error_info("HOLD_LOST", "example.com", HashMap::new());
        let status = Status::with_error_details(tonic::Code::FailedPrecondition, "no", details);
        assert_eq!(Error::refused(&status).reason(), None);
    }

    #[test]
    fn an_unknown_reason_keeps_its_name() {
        assert_eq!(Reason::parse("NEW_ONE").as_str(), "NEW_ONE");
        assert_eq!(Reason::parse("SUPERSEDED"), Reason::Superseded);
    }

    #[test]
    fn every_documented_reason_is_known() {
        let mut seen = 0;
        for number in (1..100).filter(|number| ErrorReason::try_from(*number).is_ok()) {
            let reason = Reason::from_wire(number);
            assert!(!matches!(reason, Reason::Other(_)), "{number}");
            seen += 1;
        }
        assert_eq!(seen, 24);
        assert_eq!(Reason::from_wire(13), Reason::StoreUnavailable);
        assert_eq!(Reason::from_wire(99), Reason::Other("99".to_owned()));
    }
}
