//! The store: the contract in memory, with a path for each permit, asked as the coordinator asks a store.

use std::time::Duration;

use leasehold::hold::{
    Action, Answer, Event, Failure, LeaseGranted, Request, StoreFailure, StoreFailureKind, Stored,
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
            Action::Store {
                request,
                what: Request::Acquire { lease_id, duration, if_match, read, .. },
                ..
            } => {
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
                Event::Answer { request: *request, answer: Answer::Acquire { lease: answer, read } }
            }
            Action::Store { request, what: Request::Read, .. } => {
                Event::Answer { request: *request, answer: Answer::Read(self.read(path, now)) }
            }
            Action::Store {
                request,
                what: Request::Write { lease_id, if_match, fields, .. },
                ..
            } => {
                let if_match = Some(if_match.clone());
                let write = Write { lease_id: *lease_id, if_match, fields: fields.clone() };
                let answer = self.locks.write_record(path, write, at, time);
                let answer = answer.map(|written| written.etag).map_err(|error| failure(&error));
                Event::Answer { request: *request, answer: Answer::Write(answer) }
            }
            Action::Store { request, what: Request::Renew { lease_id, if_match, .. }, .. } => {
                let answer = self.locks.renew(path, *lease_id, if_match.as_ref(), at, time);
                let answer = answer.map(|renewed| renewed.time).map_err(|error| failure(&error));
                Event::Answer { request: *request, answer: Answer::Renew(answer) }
            }
            Action::Store {
                request, what: Request::Release { lease_id, if_match, .. }, ..
            } => {
                let answer = self.locks.release(path, *lease_id, if_match.as_ref(), at);
                let answer = answer.map_err(|error| failure(&error));
                Event::Answer { request: *request, answer: Answer::Release(answer) }
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
        Action::Store { request, what: Request::Acquire { .. }, .. } => Event::Answer {
            request: *request,
            answer: Answer::Acquire { lease: Err(failure), read: None },
        },
        Action::Store { request, what: Request::Read, .. } => {
            Event::Answer { request: *request, answer: Answer::Read(Err(failure)) }
        }
        Action::Store { request, what: Request::Write { .. }, .. } => {
            Event::Answer { request: *request, answer: Answer::Write(Err(failure)) }
        }
        Action::Store { request, what: Request::Renew { .. }, .. } => {
            Event::Answer { request: *request, answer: Answer::Renew(Err(failure)) }
        }
        Action::Store { request, what: Request::Release { .. }, .. } => {
            Event::Answer { request: *request, answer: Answer::Release(Err(failure)) }
        }
        _ => return None,
    })
}
