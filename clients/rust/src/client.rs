//! The calls of the API, one method each.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncRead, AsyncWrite};
use tonic::{Request, Response, Status};

use crate::boot_clock::{BootClock, Clock};
use crate::connect::{Calls, Dial, Headers, Lane, Pool};
use crate::connect::{ClientBuilder, DEFAULT_ENDPOINT, ENDPOINT_VARIABLE};
use crate::constants::{
    CALL_TIMEOUT, DEFAULT_RELEASE_TIMEOUT, FIRST_PAUSE, LONGEST_PAUSE, SILENCE,
};
use crate::errors::{self, Error};
use crate::hold::Holding;
use crate::messages::{
    BreakLock, BreakResult, Busy, Checkpoint, EndedRun, Grant, Health, LeaseSpec, ListLocks,
    LockKey, LockPage, LockRecord, LockSelector, ResolvedPath, ServerInfo, TokenCheck, moment,
};
use crate::proto;
use crate::revisions::Needs as _;
use crate::watch::LockWatch;
use crate::watch::{LocksWatch, WatchLocks};

/// The answer to a request for a lock. That somebody else has it is an answer, not an error.
#[derive(Clone, Debug)]
pub enum Outcome<T> {
    /// The caller has the lock.
    Granted(T),
    /// The lock was not acquired within the wait asked for.
    Busy(Box<Busy>),
    /// The occurrence that the caller has named has a final outcome, so nobody is granted it again.
    AlreadyDone(Box<EndedRun>),
    /// The occurrence that the caller has named is older than one that has a final outcome, and nothing was
    /// recorded for it. It is not granted.
    Skipped {
        /// The newest occurrence that has one.
        watermark: Option<SystemTime>,
    },
}

impl<T> Outcome<T> {
    /// What was granted, if it was.
    pub fn granted(self) -> Option<T> {
        match self {
            Self::Granted(granted) => Some(granted),
            Self::Busy(_) | Self::AlreadyDone(_) | Self::Skipped { .. } => None,
        }
    }

    /// The same answer to a caller that is granted something else.
    pub(crate) fn map<U>(self, granted: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Self::Granted(it) => Outcome::Granted(granted(it)),
            Self::Busy(busy) => Outcome::Busy(busy),
            Self::AlreadyDone(run) => Outcome::AlreadyDone(run),
            Self::Skipped { watermark } => Outcome::Skipped { watermark },
        }
    }

    /// That the occurrence is over; an error if none `was_named`.
    pub(crate) fn already_done(done: proto::AlreadyDone, was_named: bool) -> Result<Self, Error> {
        check_named(was_named)?;
        let run = done.run.ok_or(Error::Protocol("an occurrence is done without saying how"))?;
        Ok(Self::AlreadyDone(Box::new(EndedRun::from_wire(run))))
    }

    /// As [`already_done`](Self::already_done).
    pub(crate) fn skipped(skipped: &proto::Skipped, was_named: bool) -> Result<Self, Error> {
        check_named(was_named)?;
        Ok(Self::Skipped { watermark: moment(skipped.watermark.as_ref()) })
    }
}

const fn check_named(was_named: bool) -> Result<(), Error> {
    match was_named {
        true => Ok(()),
        false => Err(Error::Protocol("a call without an occurrence was answered with one")),
    }
}

/// How long a client waits for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// How long a release of a hold waits for its answer.
    pub(crate) release_timeout: Duration,
    /// A lasting stream on which nothing was heard for so long is asked for anew: the sidecar says something
    /// at least each 30 s.
    pub(crate) silence: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { release_timeout: DEFAULT_RELEASE_TIMEOUT, silence: SILENCE }
    }
}

/// Connections to a sidecar, as many as it takes. Cheap to clone; clones share the connections, which are
/// made again when they break.
///
/// The runtime that it was made in must live as long as any hold: the connections end with it.
#[derive(Clone)]
pub struct Client {
    pool: Arc<Pool>,
    endpoint: Arc<str>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    /// Of a hold: where its newest stream is, and its sidecar with it. Another one does not know its lease
    /// id.
    of_hold: Option<Arc<Mutex<Calls>>>,
    /// By their lease ids, what was acquired over another connection than that of short calls, and is not
    /// released yet.
    acquired: Arc<Mutex<HashMap<String, Lane>>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Client {
    pub(crate) fn new(
        pool: Arc<Pool>,
        endpoint: String,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Self {
        let (of_hold, acquired) = (None, Arc::default());
        Self { pool, endpoint: endpoint.into(), clock, settings, of_hold, acquired }
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

    /// Uses connections that somebody else opens, such as pipes to a service inside this process. `open` is
    /// called for each connection.
    #[must_use]
    pub fn over<F, O, S>(open: F) -> Self
    where
        F: Fn() -> O + Send + Sync + 'static,
        O: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let clock = BootClock::new();
        let headers = Headers::new(clock.boot_id(), None, Vec::new());
        let pool = Pool::new(Dial::by(open), headers, None);
        let endpoint = "in this process".to_owned();
        Self::new(Arc::new(pool), endpoint, Arc::new(clock), Settings::default())
    }

    /// Connects with certificates or a token.
    pub fn builder(endpoint: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(endpoint.into())
    }

    /// Takes the lock and keeps it until the hold is released or dropped. Await the result.
    pub fn hold(&self, spec: LeaseSpec) -> Holding {
        Holding::new(self.clone(), spec)
    }

    /// Takes the lock by a unary call: the sidecar renews it until [`release`](Self::release), `max_hold` or
    /// shutdown, whether or not this process lives. Prefer [`hold`](Self::hold).
    ///
    /// # Errors
    /// [`Error::Refused`], with [`Reason::Unsupported`](crate::Reason::Unsupported) if the sidecar is too old
    /// for what is asked, and is not replaced in the wait.
    pub async fn acquire(&self, mut spec: LeaseSpec) -> Result<Outcome<Grant>, Error> {
        let end = self.clock.now() + spec.wait;
        let mut pause = FIRST_PAUSE;
        loop {
            let answer = self.acquire_once(spec.clone()).await;
            let tries_on = answer.as_ref().is_err_and(Error::is_below_needs);
            if !tries_on || self.clock.now() + pause >= end {
                return answer;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            spec.wait = end.saturating_since(self.clock.now());
        }
    }

    async fn acquire_once(&self, spec: LeaseSpec) -> Result<Outcome<Grant>, Error> {
        use proto::acquire_lease_response::Outcome as Wire;
        let was_named = spec.occurrence_at.is_some();
        let patience = spec.wait.saturating_add(CALL_TIMEOUT);
        let mut request = proto::AcquireLeaseRequest { spec: Some(spec.into_wire()), needs: 0 };
        request.needs = request.needs();
        let mut lane = self.pool.short_lane();
        let answer = lane.calls.leases.acquire_lease(within(patience, request)).await;
        match self.answer(answer)?.outcome {
            Some(Wire::Granted(grant)) => {
                if !lane.is_of_short_calls() {
                    locked(&self.acquired).insert(grant.lease_id.clone(), lane);
                }
                Ok(Outcome::Granted(Grant::from_wire(grant)))
            }
            Some(Wire::Busy(busy)) => Ok(Outcome::Busy(Box::new(Busy::from_wire(busy)))),
            Some(Wire::AlreadyDone(done)) => Outcome::already_done(done, was_named),
            Some(Wire::Skipped(skipped)) => Outcome::skipped(&skipped, was_named),
            None => Err(Error::Protocol("an acquire was answered without an outcome")),
        }
    }

    /// The record of one lock.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub async fn get_lock(&self, lock: impl Into<LockSelector>) -> Result<LockRecord, Error> {
        let lock = Some(lock.into().into_wire());
        let request = proto::GetLockRequest { lock, with_checkpoint: false };
        let answer =
            self.answer(self.short().leases.get_lock(within(CALL_TIMEOUT, request)).await)?;
        let record = answer.record.ok_or(Error::Protocol("it has no record of the lock"))?;
        Ok(LockRecord::from_wire(record))
    }

    /// The checkpoint of a lock, read from the store; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub async fn get_checkpoint(
        &self,
        lock: impl Into<LockSelector>,
    ) -> Result<Option<Checkpoint>, Error> {
        let lock = Some(lock.into().into_wire());
        let request = proto::GetLockRequest { lock, with_checkpoint: true };
        let answer =
            self.answer(self.short().leases.get_lock(within(CALL_TIMEOUT, request)).await)?;
        let record = answer.record.ok_or(Error::Protocol("it has no record of the lock"))?;
        Ok(record.checkpoint.map(Checkpoint::from_wire))
    }

    /// One page of locks.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub async fn list_locks(&self, request: ListLocks) -> Result<LockPage, Error> {
        let request = within(CALL_TIMEOUT, request.into_wire());
        let answer = self.answer(self.short().leases.list_locks(request).await)?;
        Ok(LockPage::from_wire(answer))
    }

    /// The record of a lock now and at each change.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub async fn watch_lock(&self, lock: impl Into<LockSelector>) -> Result<LockWatch, Error> {
        LockWatch::open(self.clone(), lock.into()).await
    }

    /// All locks under a host id or a prefix now, and what changes.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub async fn watch_locks(&self, request: WatchLocks) -> Result<LocksWatch, Error> {
        LocksWatch::open(self.clone(), request).await
    }

    /// What a fencing token is, compared with the newest of its lock.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub async fn check_token(
        &self,
        lock: impl Into<LockSelector>,
        fencing_token: u64,
    ) -> Result<TokenCheck, Error> {
        let lock = Some(lock.into().into_wire());
        let request = within(CALL_TIMEOUT, proto::CheckTokenRequest { lock, fencing_token });
        let answer = self.answer(self.short().leases.check_token(request).await)?;
        Ok(TokenCheck::from_wire(answer))
    }

    /// Ends the lease of a lock that somebody else has.
    ///
    /// # Errors
    /// [`Error::Refused`], with [`Reason::BreakNotEnabled`](crate::Reason::BreakNotEnabled) unless the
    /// operator enabled it.
    pub async fn break_lock(&self, request: BreakLock) -> Result<BreakResult, Error> {
        let request = within(CALL_TIMEOUT, request.into_wire());
        let answer = self.answer(self.short().leases.break_lock(request).await)?;
        Ok(BreakResult::from_wire(answer))
    }

    /// The lock path of a key, taking nothing.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub async fn resolve_path(&self, key: LockKey) -> Result<ResolvedPath, Error> {
        let request = proto::ResolvePathRequest { key: Some(key.into_wire()) };
        let request = within(CALL_TIMEOUT, request);
        let answer = self.answer(self.short().leases.resolve_path(request).await)?;
        Ok(ResolvedPath::from_wire(answer))
    }

    /// What the sidecar is: its version, its limits and what it can do.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub async fn get_server_info(&self) -> Result<ServerInfo, Error> {
        let request = within(CALL_TIMEOUT, proto::GetServerInfoRequest {});
        let answer = self.answer(self.short().leases.get_server_info(request).await)?;
        Ok(ServerInfo::from_wire(answer))
    }

    /// What the standard gRPC health service says of `service`: empty for the whole server.
    ///
    /// # Errors
    /// [`Error::Refused`], with `NOT_FOUND` for a service that is not known there, and `UNIMPLEMENTED` where
    /// there is no health service.
    pub async fn health(&self, service: &str) -> Result<Health, Error> {
        self.answer(crate::health::check(self.pool.short_channel(), service).await)
    }

    /// The same client for a hold whose stream is there.
    pub(crate) fn of_hold(&self, stream: Calls) -> Self {
        Self { of_hold: Some(Arc::new(Mutex::new(stream))), ..self.clone() }
    }

    /// The hold was resumed there.
    pub(crate) fn moved(&self, stream: Calls) {
        if let Some(of_hold) = &self.of_hold {
            *locked(of_hold) = stream;
        }
    }

    /// For calls that are answered soon.
    pub(crate) fn short(&self) -> Calls {
        match &self.of_hold {
            Some(of_hold) => locked(of_hold).clone(),
            None => self.pool.short(),
        }
    }

    /// For calls about the hold of this lease id: only the sidecar that granted it knows it.
    pub(crate) fn about(&self, lease_id: &str) -> Calls {
        let acquired = locked(&self.acquired).get(lease_id).map(|lane| lane.calls.clone());
        acquired.unwrap_or_else(|| self.short())
    }

    /// The sidecar has answered that nothing is held by this lease id any more.
    pub(crate) fn forget(&self, lease_id: &str) {
        let _place = locked(&self.acquired).remove(lease_id);
    }

    /// For a call that lasts as long as a hold, a wait or a watch.
    pub(crate) fn lane(&self) -> Lane {
        self.pool.lane()
    }

    /// The same for a watch.
    pub(crate) fn watching_lane(&self) -> Lane {
        self.pool.watching_lane()
    }

    /// What a call was answered.
    pub(crate) fn answer<T>(&self, answer: Result<Response<T>, Status>) -> Result<T, Error> {
        answer.map(Response::into_inner).map_err(|status| self.error(&status))
    }

    /// Why a call failed.
    pub(crate) fn error(&self, status: &Status) -> Error {
        match self.pool.refusal().filter(|_| errors::is_of_connection(status)) {
            Some(detail) => {
                Error::CertificateRefused { endpoint: self.endpoint.to_string(), detail }
            }
            None => Error::refused(status),
        }
    }

    #[cfg(test)]
    pub(crate) fn connections(&self) -> usize {
        self.pool.count()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn within<T>(patience: Duration, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(patience);
    request
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
