//! The store: the contract in memory, asked as the coordinator asks a store, with every request counted.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::hold::{
    Action, Answer, Event, Failure, LeaseGranted, Look, NoteSeen, Request, StoreFailure,
    StoreFailureKind, Stored,
};
use leasehold::lock::{Container, LockPath};
use leasehold::record::{Fields, Record};
use leasehold::store::{
    Acquire, BreakNote, BreakPeriod, LeaseEnd, LeaseState, List, MemoryLocks, StoreError, Write,
};
use leasehold::time::{Instant, UnixMillis};

/// The store's clock begins here.
const EPOCH: u64 = 1_800_000_000_000;

#[derive(Clone, Debug)]
pub(crate) struct Store {
    locks: MemoryLocks,
    container: Container,
    /// Requests that were made, by what they asked; a read beside an acquire is one more.
    requests: BTreeMap<&'static str, u64>,
}

impl Store {
    pub(crate) fn new() -> Self {
        let container = Container::parse("leasehold").unwrap();
        Self { locks: MemoryLocks::default(), container, requests: BTreeMap::new() }
    }

    fn path(&self, lock: usize) -> LockPath {
        LockPath::from_parts(&self.container, &format!("locks/{lock:03}"))
    }

    fn count(&mut self, what: &'static str) {
        *self.requests.entry(what).or_default() += 1;
    }

    pub(crate) const fn requests(&self) -> &BTreeMap<&'static str, u64> {
        &self.requests
    }

    /// The clock by which leases run, and the date of an answer, cut to the second.
    fn times(now: Duration) -> (Instant, UnixMillis) {
        let millis = u64::try_from(now.as_millis()).unwrap();
        (Instant::from_boot(now), UnixMillis((EPOCH + millis) / 1_000 * 1_000))
    }

    /// Does what `action` asks of `lock`, and answers as the coordinator would.
    pub(crate) fn apply(&mut self, lock: usize, action: &Action, now: Duration) -> Event {
        let ((at, time), path) = (Self::times(now), self.path(lock));
        match action {
            Action::Store {
                request,
                what: Request::Acquire { lease_id, duration, if_match, read, .. },
                ..
            } => {
                self.count("acquire");
                let (lease_id, duration) = (*lease_id, *duration);
                let acquire = Acquire { lease_id, duration, if_match: if_match.clone() };
                let answer = self.locks.acquire(&path, &acquire, at, time);
                let answer = answer.map_err(|error| failure(&error)).map(|acquired| LeaseGranted {
                    etag: acquired.etag,
                    time: acquired.time,
                    created: acquired.created,
                });
                let read = read.then(|| self.read(&path, now));
                Event::Answer { request: *request, answer: Answer::Acquire { lease: answer, read } }
            }
            Action::Store { request, what: Request::Read, .. } => {
                Event::Answer { request: *request, answer: Answer::Read(self.read(&path, now)) }
            }
            Action::Store {
                request,
                what: Request::Write { lease_id, if_match, fields, .. },
                ..
            } => {
                self.count("write");
                let if_match = Some(if_match.clone());
                let write = Write { lease_id: *lease_id, if_match, fields: fields.clone() };
                let answer = self.locks.write_record(&path, write, at, time);
                let answer = answer.map(|written| written.etag).map_err(|error| failure(&error));
                Event::Answer { request: *request, answer: Answer::Write(answer) }
            }
            Action::Store { request, what: Request::Renew { lease_id, if_match, .. }, .. } => {
                self.count("renew");
                let answer = self.locks.renew(&path, *lease_id, if_match.as_ref(), at, time);
                let answer = answer.map(|renewed| renewed.time).map_err(|error| failure(&error));
                Event::Answer { request: *request, answer: Answer::Renew(answer) }
            }
            Action::Store {
                request, what: Request::Release { lease_id, if_match, .. }, ..
            } => {
                self.count("release");
                let answer = self.locks.release(&path, *lease_id, if_match.as_ref(), at);
                let answer = answer.map_err(|error| failure(&error));
                Event::Answer { request: *request, answer: Answer::Release(answer) }
            }
            Action::Store { request, what: Request::Look { note, .. }, .. } => {
                let answer = self.look(&path, *note, now);
                Event::Answer { request: *request, answer: Answer::Look(answer) }
            }
            Action::Store { request, what: Request::Break { if_match, rival, .. }, .. } => {
                self.count("break");
                let note = BreakNote {
                    period: BreakPeriod::RunOut,
                    reason: String::new(),
                    by: rival.holder.clone(),
                    token: rival.token,
                    at: rival.at,
                    for_priority: Some(rival.priority),
                };
                let answer = self.locks.break_lease(&path, note, if_match, at);
                let answer = answer.map(drop).map_err(|error| failure(&error));
                Event::Answer { request: *request, answer: Answer::Break(answer) }
            }
            other => panic!("not for the store: {other:?}"),
        }
    }

    fn read(&mut self, path: &LockPath, now: Duration) -> Result<Stored, Failure> {
        self.count("read");
        let (at, time) = Self::times(now);
        let stored = self.locks.read_record(path, at, time);
        stored.map_err(|error| failure(&error)).map(|stored| Stored {
            free: !stored.lease.is_held(),
            etag: stored.etag,
            fields: stored.fields,
            time: stored.time,
        })
    }

    /// S22: the record, whether its lease runs out, and the note of the break.
    fn look(&mut self, path: &LockPath, note: bool, now: Duration) -> Result<Look, Failure> {
        let (at, time) = Self::times(now);
        let stored = self.locks.read_record(path, at, time);
        let breaking = stored.is_ok_and(|stored| stored.lease == LeaseState::Breaking);
        let note = match note {
            true => {
                self.count("read of a note");
                self.locks.read_break_note(path)
            }
            false => None,
        };
        let note = note.map(|note| NoteSeen {
            token: note.token,
            runs_out: note.period == BreakPeriod::RunOut,
            for_priority: note.for_priority.map(|priority| (priority, note.at)),
        });
        Ok(Look { stored: self.read(path, now)?, breaking, note })
    }

    /// What is stored with a lock, without a request.
    pub(crate) fn fields(&self, lock: usize, now: Duration) -> Fields {
        let (at, time) = Self::times(now);
        let stored = self.locks.read_record(&self.path(lock), at, time);
        stored.map(|stored| stored.fields).unwrap_or_default()
    }

    /// The records of the locks that somebody has, as they are listed (S35).
    pub(crate) fn list(&mut self, now: Duration) -> BTreeMap<usize, Record> {
        self.count("listing");
        let (at, time) = Self::times(now);
        let list = List {
            container: self.container.clone(),
            prefix: "locks/".to_owned(),
            continuation: None,
            limit: 1_000,
        };
        let listing = self.locks.list(&list, at, time);
        let held = listing.locks.into_iter().filter(|(_, stored)| stored.lease.is_held());
        let numbered = held.map(|(path, stored)| {
            let number = path.name().rsplit('/').next().unwrap().parse().unwrap();
            (number, Record::from_fields(&stored.fields))
        });
        numbered.collect()
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

/// The answer to `action` that nothing is known of its outcome; none if it is not for the store.
pub(crate) fn unknown(action: &Action) -> Option<Event> {
    let failure = Failure::Unknown(StoreFailure {
        kind: StoreFailureKind::Unavailable,
        message: "simulated".to_owned(),
        retry_after: None,
    });
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
        Action::Store { request, what: Request::Look { .. }, .. } => {
            Event::Answer { request: *request, answer: Answer::Look(Err(failure)) }
        }
        Action::Store { request, what: Request::Break { .. }, .. } => {
            Event::Answer { request: *request, answer: Answer::Break(Err(failure)) }
        }
        _ => return None,
    })
}
