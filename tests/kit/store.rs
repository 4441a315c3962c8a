//! The store as machines ask it: the contract in memory, asked and understood as the coordinator does it.

use leasehold::coordinator::understood::{failure, granted, note_of, seen, stored};
use leasehold::hold::{
    Action, Answer, Event, Failure, Look, Request, Rival, StoreFailure, StoreFailureKind,
};
use leasehold::lock::LockPath;
use leasehold::store::{Acquire, LeaseState, MemoryLocks, StoreError, Write};
use leasehold::time::{Instant, UnixMillis};

/// The clock by which leases run, and the date that an answer has.
pub(crate) type Times = (Instant, UnixMillis);

fn means<T>(answer: Result<T, StoreError>) -> Result<T, Failure> {
    answer.map_err(|error| failure(&error))
}

/// Does what a machine asks of its lock, and answers as the coordinator would.
pub(crate) fn answer(
    locks: &mut MemoryLocks,
    path: &LockPath,
    what: &Request,
    (at, time): Times,
) -> Answer {
    let read = |locks: &MemoryLocks| means(locks.read_record(path, at, time));
    match what {
        Request::Acquire { lease_id, duration, if_match, read: reads } => {
            let (lease_id, duration) = (*lease_id, *duration);
            let acquire = Acquire { lease_id, duration, if_match: if_match.clone() };
            let lease = means(locks.acquire(path, &acquire, at, time)).map(granted);
            Answer::Acquire { lease, read: reads.then(|| read(locks).map(stored)) }
        }
        Request::Read => Answer::Read(read(locks).map(stored)),
        Request::Write { lease_id, if_match, fields } => {
            let (fields, if_match) = (fields.clone(), Some(if_match.clone()));
            let write = Write { lease_id: *lease_id, if_match, fields };
            let written = means(locks.write_record(path, write, at, time));
            Answer::Write(written.map(|written| written.etag))
        }
        Request::Renew { lease_id, if_match } => {
            let renewed = means(locks.renew(path, *lease_id, if_match.as_ref(), at, time));
            Answer::Renew(renewed.map(|renewed| renewed.time))
        }
        Request::Release { lease_id, if_match } => {
            Answer::Release(means(locks.release(path, *lease_id, if_match.as_ref(), at)))
        }
        Request::Look { note } => Answer::Look(read(locks).map(|lock| Look {
            breaking: lock.lease == LeaseState::Breaking,
            note: note.then(|| locks.read_break_note(path)).flatten().as_ref().map(seen),
            stored: stored(lock),
        })),
        Request::Break { if_match, rival } => {
            let note = note_of(Rival::clone(rival));
            Answer::Break(means(locks.break_lease(path, note, if_match, at)).map(drop))
        }
    }
}

/// Does what `action` asks of the lock; it must be one for the store.
pub(crate) fn apply(
    locks: &mut MemoryLocks,
    path: &LockPath,
    action: &Action,
    times: Times,
) -> Event {
    let Action::Store { request, what, .. } = action else {
        panic!("not for the store: {action:?}");
    };
    Event::Answer { request: *request, answer: answer(locks, path, what, times) }
}

/// The requests that the store sees, by name: a read beside another is one more.
pub(crate) fn requests(action: &Action) -> &'static [&'static str] {
    let Action::Store { what, .. } = action else { return &[] };
    match what {
        Request::Acquire { read: false, .. } => &["acquire"],
        Request::Acquire { read: true, .. } => &["acquire", "read"],
        Request::Read | Request::Look { note: false } => &["read"],
        Request::Look { note: true } => &["read", "read of a note"],
        Request::Write { .. } => &["write"],
        Request::Renew { .. } => &["renew"],
        Request::Release { .. } => &["release"],
        Request::Break { .. } => &["break"],
    }
}

pub(crate) fn is_leased(locks: &MemoryLocks, path: &LockPath, (at, time): Times) -> bool {
    let stored = locks.read_record(path, at, time);
    stored.is_ok_and(|stored| stored.lease == LeaseState::Leased)
}

/// The failure of a request of whose outcome nothing is known, or that was refused.
pub(crate) fn unknown(kind: StoreFailureKind) -> Failure {
    let store_failure = StoreFailure { kind, message: "simulated".to_owned(), retry_after: None };
    match kind {
        StoreFailureKind::Denied => Failure::Refused(store_failure),
        _ => Failure::Unknown(store_failure),
    }
}

/// The answer to `action` that it failed; none if it is not for the store.
pub(crate) fn failed(action: &Action, failure: Failure) -> Option<Event> {
    let Action::Store { request, what, .. } = action else { return None };
    let answer = match what {
        Request::Acquire { .. } => Answer::Acquire { lease: Err(failure), read: None },
        Request::Read => Answer::Read(Err(failure)),
        Request::Write { .. } => Answer::Write(Err(failure)),
        Request::Renew { .. } => Answer::Renew(Err(failure)),
        Request::Release { .. } => Answer::Release(Err(failure)),
        Request::Look { .. } => Answer::Look(Err(failure)),
        Request::Break { .. } => Answer::Break(Err(failure)),
    };
    Some(Event::Answer { request: *request, answer })
}

/// The answer to `action` that nothing is known of its outcome; none if it is not for the store.
pub(crate) fn unanswered(action: &Action) -> Option<Event> {
    failed(action, unknown(StoreFailureKind::Unavailable))
}
