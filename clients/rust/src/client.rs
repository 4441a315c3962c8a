//! The calls of the API, one method each.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Streaming};

use crate::boot_clock::{BootClock, Clock};
use crate::connect::{ClientBuilder, DEFAULT_ENDPOINT, ENDPOINT_VARIABLE, Headers};
use crate::convert::{proto_span, span};
use crate::error::Error;
use crate::hold::Holding;
use crate::proto::lease_service_client::LeaseServiceClient;
use crate::proto::{
    AcquireLeaseRequest, BreakLockRequest, BreakLockResponse, Busy, CheckTokenRequest,
    CheckTokenResponse, ExtendLeaseRequest, ExtendLeaseResponse, GetLockRequest, Grant, LeaseSpec,
    ListLocksRequest, ListLocksResponse, LockKey, LockRecord, LockSelector, ReleaseLeaseRequest,
    ReleaseResult, ReportProgressRequest, ResolvePathRequest, ResolvePathResponse, Validity,
    WatchLockRequest, WatchLockResponse, acquire_lease_response,
};

/// A call that asks no holder and waits for nothing is given up after this.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// A release may wait until the lease can no longer be valid (S13), at most one lease duration.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(90);

pub(crate) type Rpc = LeaseServiceClient<InterceptedService<Channel, Headers>>;

/// What came of asking for a lock. That somebody else has it is an answer, not an error.
#[derive(Clone, Debug)]
pub enum Outcome<T> {
    /// The caller has the lock.
    Granted(T),
    /// The lock was not to be had within the wait asked for.
    Busy(Box<Busy>),
}

impl<T> Outcome<T> {
    /// What was granted, if it was.
    pub fn granted(self) -> Option<T> {
        match self {
            Self::Granted(granted) => Some(granted),
            Self::Busy(_) => None,
        }
    }
}

/// Connections to a sidecar, one for holds and waits, one for short calls, so that these never stand behind those. Cheap
/// to clone; clones share the connections, which are made again when they break.
///
/// The runtime that it was made in must live as long as any hold: the connection ends with it.
#[derive(Clone)]
pub struct Client {
    /// For calls that last as long as a hold or a wait: a connection carries only so many (the sidecar's
    /// limits.streams_per_connection).
    pub(crate) lasting: Rpc,
    /// For calls that must go through at once, releases above all.
    short: Rpc,
    pub(crate) clock: Arc<dyn Clock>,
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    pub(crate) fn new(
        (lasting, short): (Channel, Channel),
        headers: Headers,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let lasting = LeaseServiceClient::with_interceptor(lasting, headers.clone());
        let short = LeaseServiceClient::with_interceptor(short, headers);
        Self { lasting, short, clock }
    }

    /// Connects to `unix:///path` or `http://host:port`.
    ///
    /// # Errors
    /// As [`ClientBuilder::connect`].
    pub async fn connect(endpoint: impl Into<String>) -> Result<Self, Error> {
        Self::builder(endpoint).connect().await
    }

    /// Connects to where `LEASEHOLD_ENDPOINT` says, or to [`DEFAULT_ENDPOINT`] if it is unset or empty.
    ///
    /// # Errors
    /// As [`ClientBuilder::connect`].
    pub async fn from_env() -> Result<Self, Error> {
        let endpoint = std::env::var(ENDPOINT_VARIABLE)
            .ok()
            .filter(|endpoint| !endpoint.is_empty())
            .unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
        Self::connect(endpoint).await
    }

    /// Uses a channel that somebody else has made, such as a pipe to a service inside this process.
    #[must_use]
    pub fn over(channel: Channel) -> Self {
        let clock = BootClock::new();
        let headers = Headers::of_kernel(clock.boot_id());
        Self::new((channel.clone(), channel), headers, Arc::new(clock))
    }

    /// Connects with certificates or a token.
    pub fn builder(endpoint: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(endpoint.into())
    }

    /// Takes the lock and keeps it until the guard is released or dropped. Await what this gives.
    pub fn hold(&self, spec: LeaseSpec) -> Holding {
        Holding::new(self.clone(), spec)
    }

    /// Takes the lock by a unary call: the sidecar renews it until [`release`](Self::release), `max_hold` or shutdown,
    /// whether or not this process lives. Prefer [`hold`](Self::hold).
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub async fn acquire(&self, spec: LeaseSpec) -> Result<Outcome<Grant>, Error> {
        let patience = span(spec.wait.as_ref()).saturating_add(CALL_TIMEOUT);
        let request = AcquireLeaseRequest { spec: Some(spec) };
        let answer = self.lasting.clone().acquire_lease(within(patience, request)).await?;
        match answer.into_inner().outcome {
            Some(acquire_lease_response::Outcome::Granted(grant)) => Ok(Outcome::Granted(grant)),
            Some(acquire_lease_response::Outcome::Busy(busy)) => Ok(Outcome::Busy(Box::new(busy))),
            None => Err(Error::Protocol("an acquire was answered without an outcome")),
        }
    }

    /// Releases a lock. Stop acting on it before calling this; may be repeated. Look at the result's outcome:
    /// `AlreadyLost` says that somebody else may have had the lock before.
    ///
    /// # Errors
    /// [`Error::Refused`], with [`Reason::UnknownLease`](crate::Reason::UnknownLease) if the sidecar knows no such hold.
    pub async fn release(&self, lease_id: impl Into<String>) -> Result<ReleaseResult, Error> {
        self.release_hold(lease_id.into(), 0).await
    }

    /// The same for a hold by stream, of which this is the newest generation that was answered (S16).
    pub(crate) async fn release_hold(
        &self,
        lease_id: String,
        generation: u64,
    ) -> Result<ReleaseResult, Error> {
        let request = ReleaseLeaseRequest { lease_id, generation };
        let answer = self.short.clone().release_lease(within(RELEASE_TIMEOUT, request)).await?;
        answer.into_inner().result.ok_or(Error::Protocol("a release was answered without a result"))
    }

    /// Sets a new bound of the hold, counted from now.
    ///
    /// # Errors
    /// [`Error::Refused`], with [`Reason::HoldLost`](crate::Reason::HoldLost) if the hold is over.
    pub async fn extend(
        &self,
        lease_id: impl Into<String>,
        max_hold: Duration,
    ) -> Result<ExtendLeaseResponse, Error> {
        self.extend_hold(lease_id.into(), 0, max_hold).await
    }

    /// The same for a hold by stream, of which this is the newest generation that was answered (S16).
    pub(crate) async fn extend_hold(
        &self,
        lease_id: String,
        generation: u64,
        max_hold: Duration,
    ) -> Result<ExtendLeaseResponse, Error> {
        let request =
            ExtendLeaseRequest { lease_id, max_hold: Some(proto_span(max_hold)), generation };
        let answer = self.short.clone().extend_lease(within(CALL_TIMEOUT, request)).await?;
        Ok(answer.into_inner())
    }

    /// Says that the holder is getting on, or with `validity_only` just asks until when it may act.
    ///
    /// # Errors
    /// [`Error::Refused`], with [`Reason::HoldLost`](crate::Reason::HoldLost) if the hold is over.
    pub async fn report_progress(
        &self,
        lease_id: impl Into<String>,
        validity_only: bool,
    ) -> Result<Validity, Error> {
        self.report_hold(lease_id.into(), 0, validity_only).await
    }

    /// The same for a hold by stream, of which this is the newest generation that was answered (S16).
    pub(crate) async fn report_hold(
        &self,
        lease_id: String,
        generation: u64,
        validity_only: bool,
    ) -> Result<Validity, Error> {
        let request = ReportProgressRequest { lease_id, validity_only, generation };
        let answer = self.short.clone().report_progress(within(CALL_TIMEOUT, request)).await?;
        answer
            .into_inner()
            .validity
            .ok_or(Error::Protocol("a report was answered without a validity"))
    }

    /// The record of one lock.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub async fn get_lock(&self, lock: impl Into<LockSelector>) -> Result<LockRecord, Error> {
        let request = GetLockRequest { lock: Some(lock.into()) };
        let answer = self.short.clone().get_lock(within(CALL_TIMEOUT, request)).await?;
        answer.into_inner().record.ok_or(Error::Protocol("a lock was told without its record"))
    }

    /// One page of locks.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub async fn list_locks(&self, request: ListLocksRequest) -> Result<ListLocksResponse, Error> {
        let answer = self.short.clone().list_locks(within(CALL_TIMEOUT, request)).await?;
        Ok(answer.into_inner())
    }

    /// The record of a lock now and at each change.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub async fn watch_lock(&self, lock: impl Into<LockSelector>) -> Result<LockWatch, Error> {
        let request = WatchLockRequest { lock: Some(lock.into()) };
        let stream = self.lasting.clone().watch_lock(request).await?.into_inner();
        Ok(LockWatch { stream })
    }

    /// What a fencing token is, compared with the newest of its lock.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub async fn check_token(
        &self,
        lock: impl Into<LockSelector>,
        fencing_token: u64,
    ) -> Result<CheckTokenResponse, Error> {
        let request = CheckTokenRequest { lock: Some(lock.into()), fencing_token };
        let answer = self.short.clone().check_token(within(CALL_TIMEOUT, request)).await?;
        Ok(answer.into_inner())
    }

    /// Ends the lease of a lock that somebody else has.
    ///
    /// # Errors
    /// [`Error::Refused`], with [`Reason::BreakNotEnabled`](crate::Reason::BreakNotEnabled) unless the operator enabled it.
    pub async fn break_lock(&self, request: BreakLockRequest) -> Result<BreakLockResponse, Error> {
        let answer = self.short.clone().break_lock(within(CALL_TIMEOUT, request)).await?;
        Ok(answer.into_inner())
    }

    /// The lock path of a key, taking nothing.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub async fn resolve_path(&self, key: LockKey) -> Result<ResolvePathResponse, Error> {
        let request = ResolvePathRequest { key: Some(key) };
        let answer = self.short.clone().resolve_path(within(CALL_TIMEOUT, request)).await?;
        Ok(answer.into_inner())
    }
}

fn within<T>(patience: Duration, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(patience);
    request
}

/// The records of a lock as they change; dropped, it stops.
#[derive(Debug)]
pub struct LockWatch {
    stream: Streaming<WatchLockResponse>,
}

impl LockWatch {
    /// The next record; `None` when the sidecar has ended the stream.
    ///
    /// # Errors
    /// [`Error::Refused`] when the store cannot be read, or the sidecar goes away: watch again.
    pub async fn next(&mut self) -> Result<Option<LockRecord>, Error> {
        while let Some(message) = self.stream.message().await? {
            if let Some(record) = message.record {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
