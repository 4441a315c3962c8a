//! From what the SDK and the service say to what the caller can do (`into_store_error`, by status; 404, 409
//! and 412 by the service's code, `into_conflict`, where one code may mean something else to a holder;
//! refused credentials, `into_denied`). No text of the SDK gets through: its errors can show a URL with the
//! signature in it (S20).

use std::error::Error;
use std::fmt;
use std::time::Duration;

use azure_core::error::ErrorKind;
use azure_core::http::RawResponse;

use super::access_denied::Denial;
use super::answer;
use super::client::SignedIn;
use super::credential::SignInError;
use crate::store::descriptors::NoDescriptor;
use crate::store::{DocumentKind, LeaseEnd, StoreError, StoreTime};
use crate::time::UnixMillis;

/// What went wrong with one request, in words that may be shown.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The service answered no.
    #[error(transparent)]
    Refused(Refusal),
    /// Nobody has answered the request.
    #[error("the service did not answer: {cause}")]
    Unanswered {
        /// False when the request certainly never left.
        sent: bool,
        cause: String,
    },
    /// A connection, or whatever signs requests, needed a file descriptor.
    #[error(transparent)]
    NoDescriptor(NoDescriptor),
    /// Something answered, but not the service, or not as it does (S7).
    #[error("the answer is invalid: {0}")]
    Unbelievable(&'static str),
    /// A directory has the name: an account with a hierarchical namespace shows it as a blob.
    #[error("what has that name is a directory")]
    Directory,
    /// There is no token to send the request with.
    #[error(transparent)]
    SignIn(SignInError),
}

/// An answer of the service that is no success.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: u16,
    /// The service's name of the error; empty if it gave none.
    pub(super) code: String,
    pub(super) request_id: String,
    pub(super) retry_after: Option<Duration>,
    pub(super) date: Option<StoreTime>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = if self.code.is_empty() { "without a code" } else { &self.code };
        write!(
            formatter,
            "the service answered {} {code} (request {})",
            self.status, self.request_id
        )
    }
}

impl Error for Refusal {}

/// An answer that is none of the service's, on its way out of the pipeline.
#[derive(Debug, thiserror::Error)]
#[error("not an answer of the service")]
pub(super) struct Foreign {
    pub(super) what: &'static str,
}

impl From<azure_core::Error> for Failure {
    fn from(error: azure_core::Error) -> Self {
        if let Some(foreign) = find::<Foreign>(&error) {
            return Self::Unbelievable(foreign.what);
        }
        if let Some(sign_in) = find::<SignInError>(&error) {
            return Self::SignIn(sign_in.clone());
        }
        if let Some(none) = no_descriptor(&error) {
            return Self::NoDescriptor(none);
        }
        match error.kind() {
            ErrorKind::HttpResponse { status, raw_response: Some(answer), .. } => {
                Self::Refused(Refusal::from_answer(u16::from(*status), answer))
            }
            ErrorKind::HttpResponse { raw_response: None, .. } => {
                Self::Unbelievable("it has no headers")
            }
            ErrorKind::Connection => Self::Unanswered { sent: false, cause: cause(&error) },
            ErrorKind::Io => Self::Unanswered { sent: true, cause: cause(&error) },
            ErrorKind::DataConversion => Self::Unbelievable("it cannot be read"),
            // The request could not be built or signed.
            ErrorKind::Credential | ErrorKind::Other => {
                Self::Unanswered { sent: false, cause: "the request could not be made".to_owned() }
            }
        }
    }
}

impl Refusal {
    fn from_answer(status: u16, answer: &RawResponse) -> Self {
        let headers = answer.headers();
        let code = answer::error_code(headers);
        let good = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        Self {
            status,
            code: if good(code) { code.to_owned() } else { String::new() },
            request_id: answer::request_id(headers).unwrap_or_default().to_owned(),
            retry_after: answer::retry_after(headers),
            date: answer::date(headers),
        }
    }
}

/// The first error of this type in the chain.
fn find<T: Error + 'static>(error: &azure_core::Error) -> Option<&T> {
    chain(error).find_map(|error| error.downcast_ref::<T>())
}

fn chain(error: &azure_core::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(
        Some(error as &(dyn Error + 'static)),
        |error: &&(dyn Error + 'static)| (*error).source(),
    )
}

/// Whether a file descriptor was missing. What looks a name up does not say so.
pub(super) fn no_descriptor(error: &azure_core::Error) -> Option<NoDescriptor> {
    let unknown = || {
        let system = |error: &(dyn Error + 'static)| {
            error.downcast_ref::<std::io::Error>().is_some_and(|io| io.raw_os_error().is_some())
        };
        matches!(error.kind(), ErrorKind::Connection) && !chain(error).any(system)
    };
    NoDescriptor::of(error).or_else(|| NoDescriptor::now().filter(|_| unknown()))
}

/// An error of TLS, also where an error of the system has it inside, which then is not in the chain itself.
fn inner_tls<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let inside = || error.downcast_ref::<std::io::Error>()?.get_ref();
    error.downcast_ref().or_else(|| inner_tls(inside()?))
}

/// Why nobody answered. Only errors of the system and of TLS are shown: they know no URL.
pub(super) fn cause(error: &azure_core::Error) -> String {
    let is_plain = |error: &rustls::Error| {
        matches!(error, rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType))
    };
    if chain(error).filter_map(inner_tls).any(is_plain) {
        return "what listens there does not speak TLS: write http:// (an emulator may need it), or the port that speaks TLS"
            .to_owned();
    }
    if find::<hyper::Error>(error).is_some_and(hyper::Error::is_parse) {
        return "the answer is not HTTP: if that port speaks TLS, write https://".to_owned();
    }
    let timed_out = find::<reqwest::Error>(error).is_some_and(reqwest::Error::is_timeout);
    let system = chain(error).filter_map(|error| {
        let io = error.downcast_ref::<std::io::Error>().map(ToString::to_string);
        io.or_else(|| error.downcast_ref::<rustls::Error>().map(ToString::to_string))
    });
    match (system.last(), timed_out) {
        (Some(system), _) => system,
        (None, true) => "timed out".to_owned(),
        (None, false) => "the connection failed".to_owned(),
    }
}

/// What was asked of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Acquire,
    Create,
    CreateContainer,
    Renew,
    Release,
    Break,
    Write,
    WriteNote,
    ReadNote,
    WriteDocument(DocumentKind),
    ReadDocument(DocumentKind),
    DeletePlan,
    Read,
    List,
    Delete,
    Check,
    ReadAccount,
}

impl Request {
    /// As a verb with its object.
    const fn describe(self) -> &'static str {
        match self {
            Self::Acquire => "lease the lock",
            Self::Create => "create the lock",
            Self::CreateContainer => "create the container",
            Self::Renew => "renew the lease",
            Self::Release => "release the lease",
            Self::Break => "break the lease",
            Self::Write => "write the lock's record",
            Self::WriteNote => "write the note of a break",
            Self::ReadNote => "read the note of a break",
            Self::WriteDocument(DocumentKind::Plan) => "write the schedule's plan",
            Self::ReadDocument(DocumentKind::Plan) => "read the schedule's plan",
            Self::DeletePlan => "delete the schedule's plan",
            Self::ReadDocument(DocumentKind::TimerStatus) => "read the timer's status",
            Self::WriteDocument(DocumentKind::TimerStatus) => "write the timer's status",
            Self::Read => "read the lock's record",
            Self::List => "list the locks",
            Self::Delete => "delete the lock",
            Self::Check => "look for the container",
            Self::ReadAccount => "read the account's kind",
        }
    }

    /// Whether the caller believes in a lease: that its lock is gone, or another's, is final for it (S8).
    const fn is_of_a_holder(self) -> bool {
        match self {
            Self::Renew | Self::Release | Self::Write => true,
            Self::Acquire
            | Self::Create
            | Self::CreateContainer
            | Self::Break
            | Self::WriteNote
            | Self::ReadNote
            | Self::WriteDocument(_)
            | Self::ReadDocument(_)
            | Self::DeletePlan
            | Self::Read
            | Self::List
            | Self::Delete
            | Self::Check
            | Self::ReadAccount => false,
        }
    }
}

/// The account that was asked, as far as errors speak of it.
pub(super) struct Account<'a> {
    pub(super) host: &'a str,
    pub(super) sign_in: &'a SignedIn,
    /// This machine's wall clock.
    pub(super) wall: UnixMillis,
}

impl Failure {
    /// The service's name of the error; empty when it did not answer.
    pub(super) fn code(&self) -> &str {
        let Self::Refused(refusal) = self else { return "" };
        &refusal.code
    }

    /// What the caller of `request` can do.
    pub(super) fn into_store_error(self, request: Request, account: &Account<'_>) -> StoreError {
        let refusal = match self {
            Self::Refused(refusal) => refusal,
            Self::Unanswered { sent, cause } => {
                let cause = format!("{} did not answer: {cause}", account.host);
                return StoreError::Unavailable { sent, source: cause.into() };
            }
            Self::NoDescriptor(none) => {
                return StoreError::NoDescriptors {
                    operation: format!("connect to {}", account.host),
                    advice: none.advice(),
                    source: Box::new(none),
                };
            }
            Self::Unbelievable(_) => {
                return StoreError::Unavailable { sent: true, source: Box::new(self) };
            }
            Self::Directory => {
                return StoreError::Fatal {
                    advice: "choose another name or prefix for the lock, or delete the directory"
                        .to_owned(),
                    source: Box::new(self),
                };
            }
            Self::SignIn(SignInError::Refused { .. }) => {
                return StoreError::Denied {
                    operation: request.describe(),
                    advice: "check the identity that is configured, its secret and its directory"
                        .to_owned(),
                    source: Box::new(self),
                };
            }
            Self::SignIn(SignInError::NoDescriptor(none)) => {
                return StoreError::NoDescriptors {
                    operation: "fetch a token to sign in with".to_owned(),
                    advice: none.advice(),
                    source: Box::new(none),
                };
            }
            Self::SignIn(SignInError::Unreachable { .. }) => {
                return StoreError::Unavailable { sent: false, source: Box::new(self) };
            }
        };
        match refusal.status {
            401 | 403 => refusal.into_denied(request, account),
            400 if refusal.code == "InvalidAuthenticationInfo" => {
                refusal.into_denied(request, account)
            }
            429 | 503 => StoreError::Throttled {
                sent: true,
                retry_after: refusal.retry_after,
                source: Box::new(refusal),
            },
            404 | 409 | 412 => refusal.into_conflict(request),
            // S7: also a success that is not the one asked for says nothing of what was done.
            ..=399 | 408 | 500..=599 => {
                StoreError::Unavailable { sent: true, source: Box::new(refusal) }
            }
            _ => refusal.into_fatal(request),
        }
    }
}

impl Refusal {
    /// Whether it tells that the blob or its container is not there.
    pub(super) fn is_of_nothing(&self) -> bool {
        matches!(self.code.as_str(), "BlobNotFound" | "ContainerNotFound" | "ResourceNotFound")
    }

    /// What a definite no means, by the service's name of it: only what is about leases, the lock or its
    /// container says that a lease is lost (S8). Anything else says nothing about the lease, and is the
    /// operator's to mend.
    fn into_conflict(self, request: Request) -> StoreError {
        const TAKEN: StoreError = StoreError::LeaseLost { how: LeaseEnd::Taken };
        match (self.code.as_str(), request) {
            ("LeaseAlreadyPresent" | "LeaseIsBreakingAndCannotBeAcquired", _)
                if !request.is_of_a_holder() =>
            {
                StoreError::Contended
            }
            ("LeaseIdMissing", Request::Delete | Request::Create) => StoreError::Contended,
            ("BlobAlreadyExists", Request::WriteNote | Request::WriteDocument(_)) => {
                StoreError::Changed
            }
            // Nobody leases a plan or a status but another tool.
            ("LeaseIdMissing", Request::WriteDocument(_) | Request::DeletePlan) => {
                self.into_fatal(request)
            }
            ("ConditionNotMet" | "TargetConditionNotMet", _) => StoreError::Changed,
            ("LeaseNotPresentWithLeaseOperation" | "LeaseAlreadyBroken", Request::Break) => {
                StoreError::NotHeld
            }
            (
                "LeaseIsBrokenAndCannotBeRenewed"
                | "LeaseIsBreakingAndCannotBeChanged"
                | "LeaseAlreadyBroken",
                _,
            ) => StoreError::LeaseLost { how: LeaseEnd::Broken },
            (
                "LeaseAlreadyPresent"
                | "LeaseIsBreakingAndCannotBeAcquired"
                | "LeaseIdMismatchWithLeaseOperation"
                | "LeaseIdMismatchWithBlobOperation"
                | "LeaseNotPresentWithLeaseOperation"
                | "LeaseNotPresentWithBlobOperation"
                | "LeaseIdMissing"
                | "LeaseLost",
                _,
            ) => TAKEN,
            // Being deleted takes half a minute and more; an acquire may wait for the end of it.
            ("ContainerBeingDeleted", _) if !request.is_of_a_holder() => self.into_unavailable(),
            ("ContainerBeingDeleted", _) => StoreError::NotFound,
            // Made a moment ago, and gone again.
            ("BlobNotFound" | "ContainerNotFound", Request::Acquire | Request::Create) => {
                self.into_unavailable()
            }
            ("AccountBeingCreated", _) => self.into_unavailable(),
            (_, Request::Acquire | Request::Create | Request::CreateContainer) => {
                self.into_fatal(request)
            }
            ("BlobNotFound" | "ContainerNotFound" | "ResourceNotFound", _) => StoreError::NotFound,
            (_, _) if self.status == 404 && !request.is_of_a_holder() => StoreError::NotFound,
            (_, _) => self.into_fatal(request),
        }
    }

    fn into_unavailable(self) -> StoreError {
        StoreError::Unavailable { sent: true, source: Box::new(self) }
    }

    fn into_denied(self, request: Request, account: &Account<'_>) -> StoreError {
        StoreError::Denied {
            operation: request.describe(),
            advice: Denial { refusal: &self, account }.advice(request),
            source: Box::new(self),
        }
    }

    fn into_fatal(self, request: Request) -> StoreError {
        let advice = match self.code.as_str() {
            "InvalidHeaderValue" | "UnsupportedHeader" | "InvalidQueryParameterValue" => {
                "check the REST version that is set: the endpoint may not know it".to_owned()
            }
            "MetadataTooLarge" | "RequestHeaderTooLarge" | "HeadersTooLarge" => {
                "shorten the holder's description and labels: a lock's record has 8 KiB".to_owned()
            }
            "LeaseIdMissing" => {
                "another tool has leased the blob of the schedule's plan: break that lease".to_owned()
            }
            "ContainerDisabled" => "enable the container, or name another".to_owned(),
            "SnapshotsPresent" => "delete the snapshots of the lock's blob first".to_owned(),
            "BlobArchived" | "BlobBeingRehydrated" => {
                "the lock's blob is in the archive tier: delete it, or bring it back to the hot tier, and keep \
                 lifecycle rules off the container of the locks"
                    .to_owned()
            }
            "BlobImmutableDueToPolicy" => {
                "an immutability policy or a legal hold protects the lock's blob from being written: remove it, or give \
                 locks a container of their own, without policies on its blobs"
                    .to_owned()
            }
            "InvalidBlobType"
            | "BlobTypeMismatch"
            | "ResourceTypeMismatch"
            | "BlobUsesCustomerSpecifiedEncryption" => {
                "the blob of that name is not a lock of Leasehold: give locks a container of their own".to_owned()
            }
            _ => format!(
                "the service refuses to {} for a reason that is not about the lease; look the code up, and check the \
                 endpoint, the account and the policies of the container",
                request.describe()
            ),
        };
        StoreError::Fatal { advice, source: Box::new(self) }
    }
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
