//! The store: the contract in memory, with a path for each permit, asked as the coordinator asks a store.

use std::time::Duration;

use leasehold::hold::{
    Action, Event, Failure, LeaseGranted, StoreFailure, StoreFailureKind, Stored,
};
use leasehold::lock::{Container, LockPath, Permit};
use leasehold::store::{Acquire, LeaseEnd, LeaseState, MemoryLocks, StoreError, Write};
use leasehold::time::{Instant, UnixMillis};

/// The store's clock begins here.
const EPOCH: u64 = 1_800_000_000_000;

#[derive(Clone, Debug)]
pub(crate) struct Store {
    locks: MemoryLocks,
    lock: LockPath,
    /// Requests that were made, reads beside an acquire counted as one more.
    pub(crate) requests: u64,
}

impl Store {
    pub(crate) fn new() -> Self {
        let container = Container::parse("leasehold").unwrap();
        let lock = LockPath::from_parts(&container, "locks/simulated");
        Self { locks: MemoryLocks::default(), lock, requests: 0 }
    }

    pub(crate) fn path(&self, permit: Permit) -> LockPath {
        self.lock.permit(permit)
    }

    fn times(now: Duration) -> (Instant, UnixMillis) {
        (Instant::from_boot(now), UnixMillis(EPOCH + u64::try_from(now.as_millis()).unwrap()))
    }

    /// Does what `action` asks of `path`, and answers as the coordinator would.
    pub(crate) fn apply(&mut self, path: &LockPath, action: &Action, now: Duration) -> Event {
        let (at, time) = Self::times(now);
        self.requests += 1;
        match action {
            Action::SendAcquire { request, lease_id, duration, if_match, read, .. } => {
                self.requests += u64::from(*read);
                let acquire = Acquire {
                    lease_id: *lease_id,
                    duration: *duration,
                    if_match: if_match.clone(),
                };
                let answer = self.locks.acquire(path, &acquire, at, time);
                let answer = answer.map_err(|error| failure(&error)).map(|acquired| LeaseGranted {
                    etag: acquired.etag,
                    time: acquired.time,
                    created: acquired.created,
                });
                let read = read.then(|| self.read(path, now));
                Event::AcquireAnswered { request: *request, answer, read }
            }
            Action::SendRead { request, .. } => {
                Event::ReadAnswered { request: *request, answer: self.read(path, now) }
            }
            Action::SendWrite { request, lease_id, if_match, fields, .. } => {
                let if_match = Some(if_match.clone());
                let write = Write { lease_id: *lease_id, if_match, fields: fields.clone() };
                let answer = self.locks.write_record(path, write, at, time);
                let answer = answer.map(|written| written.etag).map_err(|error| failure(&error));
                Event::WriteAnswered { request: *request, answer }
            }
            Action::SendRenew { request, lease_id, if_match, .. } => {
                let answer = self.locks.renew(path, *lease_id, if_match.as_ref(), at, time);
                let answer = answer.map(|renewed| renewed.time).map_err(|error| failure(&error));
                Event::RenewAnswered { request: *request, answer }
            }
            Action::SendRelease { request, lease_id, if_match, .. } => {
                let answer = self.locks.release(path, *lease_id, if_match.as_ref(), at);
                let answer = answer.map_err(|error| failure(&error));
                Event::ReleaseAnswered { request: *request, answer }
            }
            other => panic!("not for the store: {other:?}"),
        }
    }

    fn read(&self, path: &LockPath, now: Duration) -> Result<Stored, Failure> {
        let (at, time) = Self::times(now);
        let stored = self.locks.read_record(path, at, time);
        stored.map_err(|error| failure(&error)).map(|stored| Stored {
            free: !stored.lease.is_held(),
            etag: stored.etag,
            fields: stored.fields,
            time: stored.time,
        })
    }

    pub(crate) fn is_leased(&self, permit: Permit, now: Duration) -> bool {
        let (at, time) = Self::times(now);
        let stored = self.locks.read_record(&self.path(permit), at, time);
        stored.is_ok_and(|stored| stored.lease == LeaseState::Leased)
    }
}

/// What a store's error is to the machine, as the coordinator has it.
fn failure(error: &StoreError) -> Failure {
    match error {
        StoreError::Contended => Failure::Contended,
        StoreError::LeaseLost { how: LeaseEnd::Taken } | StoreError::NotHeld => Failure::Taken,
        StoreError::LeaseLost { how: LeaseEnd::Broken } => Failure::Broken,
        StoreError::Changed => Failure::Changed,
        StoreError::NotFound => Failure::Deleted,
        other => panic!("the memory store does not fail like this: {other}"),
    }
}

/// The failure of a request whose outcome is not known.
pub(crate) fn unknown() -> Failure {
    Failure::Unknown(StoreFailure {
        kind: StoreFailureKind::Unavailable,
        message: "simulated".to_owned(),
        retry_after: None,
    })
}

/// The answer to `action` that it failed; none if it is not for the store.
pub(crate) fn failed(action: &Action, failure: Failure) -> Option<Event> {
    Some(match action {
        Action::SendAcquire { request, .. } => {
            Event::AcquireAnswered { request: *request, answer: Err(failure), read: None }
        }
        Action::SendRead { request, .. } => {
            Event::ReadAnswered { request: *request, answer: Err(failure) }
        }
        Action::SendWrite { request, .. } => {
            Event::WriteAnswered { request: *request, answer: Err(failure) }
        }
        Action::SendRenew { request, .. } => {
            Event::RenewAnswered { request: *request, answer: Err(failure) }
        }
        Action::SendRelease { request, .. } => {
            Event::ReleaseAnswered { request: *request, answer: Err(failure) }
        }
        _ => return None,
    })
}
