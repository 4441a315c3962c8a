//! The store: the contract in memory, asked as the coordinator asks a store.

use std::time::Duration;

use leasehold::hold::{Action, Event, Failure, LeaseGranted, Stored, Trouble, TroubleKind};
use leasehold::lock::{Container, LeaseId, LockPath, Record};
use leasehold::store::{
    Acquire, BreakNote, BreakPeriod, LeaseEnd, LeaseState, MemoryLocks, RecordCopy, StoreError,
    Write,
};
use leasehold::time::{Instant, UnixMillis};

/// The store's clock begins here.
const EPOCH: u64 = 1_800_000_000_000;

#[derive(Clone, Debug)]
pub(crate) struct Storage {
    locks: MemoryLocks,
    path: LockPath,
    copy: Option<RecordCopy>,
    newest_lease: Option<LeaseId>,
}

impl Storage {
    pub(crate) fn new() -> Self {
        let container = Container::parse("leasehold").unwrap();
        let path = LockPath::from_parts(&container, "locks/simulated");
        Self { locks: MemoryLocks::default(), path, copy: None, newest_lease: None }
    }

    fn times(now: Duration) -> (Instant, UnixMillis) {
        let millis = u64::try_from(now.as_millis()).unwrap();
        (Instant::from_boot(now), UnixMillis(EPOCH + millis))
    }

    /// Does what `action` asks, and answers as the coordinator would. The action must be one for the store.
    pub(crate) fn apply(&mut self, action: &Action, now: Duration) -> Event {
        let (at, time) = Self::times(now);
        match action {
            Action::SendAcquire { request, lease_id, duration, if_match, read, .. } => {
                let (lease_id, duration) = (*lease_id, *duration);
                let acquire = Acquire { lease_id, duration, if_match: if_match.clone() };
                let answer = self.locks.acquire(&self.path, &acquire, at, time);
                if answer.is_ok() {
                    self.newest_lease = Some(lease_id);
                }
                let answer = answer.map_err(|error| failure(&error)).map(|acquired| LeaseGranted {
                    etag: acquired.etag,
                    time: acquired.time,
                    created: acquired.created,
                });
                let read = read.then(|| self.read(at, time));
                Event::AcquireAnswered { request: *request, answer, read }
            }
            Action::SendRead { request, .. } => {
                Event::ReadAnswered { request: *request, answer: self.read(at, time) }
            }
            Action::SendWrite { request, lease_id, if_match, fields, .. } => {
                let if_match = Some(if_match.clone());
                let write = Write { lease_id: *lease_id, if_match, fields: fields.clone() };
                let answer = self.locks.write_record(&self.path, write, at, time);
                let answer = answer.map(|written| written.etag).map_err(|error| failure(&error));
                Event::WriteAnswered { request: *request, answer }
            }
            Action::SendRenew { request, lease_id, .. } => {
                let answer = self.locks.renew(&self.path, *lease_id, None, at, time);
                let answer = answer.map(drop).map_err(|error| failure(&error));
                Event::RenewAnswered { request: *request, answer }
            }
            Action::SendRelease { request, lease_id, if_match, .. } => {
                let answer = self.locks.release(&self.path, *lease_id, if_match.as_ref(), at);
                let answer = answer.map_err(|error| failure(&error));
                Event::ReleaseAnswered { request: *request, answer }
            }
            other => panic!("not for the store: {other:?}"),
        }
    }

    fn read(&self, at: Instant, time: UnixMillis) -> Result<Stored, Failure> {
        let stored = self.locks.read_record(&self.path, at, time);
        stored.map_err(|error| failure(&error)).map(|stored| Stored {
            free: !stored.lease.is_held(),
            etag: stored.etag,
            fields: stored.fields,
        })
    }

    pub(crate) fn is_leased(&self, now: Duration) -> bool {
        let (at, time) = Self::times(now);
        let stored = self.locks.read_record(&self.path, at, time);
        stored.is_ok_and(|stored| stored.lease == LeaseState::Leased)
    }

    /// The lease that was acquired last.
    pub(crate) const fn newest_lease(&self) -> Option<LeaseId> {
        self.newest_lease
    }

    /// S17.
    pub(crate) fn break_lease(&mut self, period: BreakPeriod, now: Duration) {
        let (at, time) = Self::times(now);
        let note =
            BreakNote { reason: "stuck".to_owned(), by: "night".to_owned(), token: None, at: time };
        // Nobody may have it.
        let _ = self.locks.break_lease(&self.path, period, note, at);
    }

    /// Somebody cleans up, as `leasehold gc` does: not while the lock is leased, nor before the clock has overtaken its
    /// token (S5).
    pub(crate) fn delete(&mut self, now: Duration) {
        let (at, time) = Self::times(now);
        let Ok(stored) = self.locks.read_record(&self.path, at, time) else { return };
        let token = Record::from_fields(&stored.fields).token;
        if token.is_some_and(|token| token.epoch() < time.seconds()) {
            let _ = self.locks.delete(&self.path, &stored.etag, at);
        }
    }

    /// The account fails over to an older copy of the record (S5); the first time, the copy is made. Not while the lock
    /// is leased: a store that goes back under a lease does not honour it.
    pub(crate) fn fall_back(&mut self, now: Duration) {
        let is_leased = self.is_leased(now);
        match self.copy.take() {
            Some(copy) if !is_leased => self.locks.rewind_record(&self.path, copy),
            Some(copy) => self.copy = Some(copy),
            None => self.copy = self.locks.copy_record(&self.path),
        }
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
pub(crate) fn unknown(kind: TroubleKind) -> Failure {
    let trouble = Trouble { kind, message: "simulated".to_owned(), retry_after: None };
    match kind {
        TroubleKind::Denied => Failure::Refused(trouble),
        _ => Failure::Unknown(trouble),
    }
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
