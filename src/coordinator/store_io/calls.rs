//! Carries out what the machine asks of the store: each becomes a request that the lock's task polls, whose
//! answer is an event.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::rate_limit::{Urgency, Waiting};
use super::readiness::Subject;
use super::understood::{failure, granted, note_of, seen, stored};
use super::{StoreIo, limited};
use crate::hold::{
    Answer, Event, Failure, LeaseGranted, Look, Purpose, Request, RequestId, Stored,
};
use crate::lock::{LeaseId, LockPath};
use crate::record::{ETag, Record};
use crate::store::{
    Acquire, BreakNote, LeaseState, LeaseStoreExt as _, StoreError, StoredLock, Write,
};
use crate::time::Instant;

/// How long a holder's loss waits for the note of the break to be read (S17). The holder's validity does not
/// wait: at its end the hold is lost whatever was read (S4).
const NOTE_TIMEOUT: Duration = Duration::from_millis(500);

/// What a machine asks of the store for one of its permits, and how it is sent.
pub(in crate::coordinator) struct Ask {
    pub(in crate::coordinator) io: Arc<StoreIo>,
    pub(in crate::coordinator) request: RequestId,
    /// The path of its permit.
    pub(in crate::coordinator) path: LockPath,
    /// What this is for.
    pub(in crate::coordinator) purpose: Purpose,
    /// The turn of its renewal has come already.
    pub(in crate::coordinator) has_turn: bool,
    pub(in crate::coordinator) timeout: Duration,
}

/// What the store answered to a request.
pub(in crate::coordinator) struct Answered {
    /// What it is to the machine.
    pub(in crate::coordinator) event: Event,
    /// The note of a break that the request met (S17).
    pub(in crate::coordinator) note: Option<BreakNote>,
    /// What is waited for now: the turn of a renewal that is held back (S7).
    pub(in crate::coordinator) next: Option<Pin<Box<dyn Future<Output = Self> + Send>>>,
}

impl From<Event> for Answered {
    fn from(event: Event) -> Self {
        Self { event, note: None, next: None }
    }
}

impl Ask {
    /// Carries out what a machine asks for.
    pub(in crate::coordinator) async fn send(self, what: Request) -> Answered {
        let io = &self.io;
        let mut note = None;
        let answer = match what {
            Request::Acquire { lease_id, duration, if_match, read } => {
                let acquire = Acquire { lease_id, duration, if_match };
                let (lease, read) = Box::pin(self.acquire_and_read(acquire, read)).await;
                Answer::Acquire { lease, read }
            }
            Request::Read => {
                // What a hold reads decides whether it goes on (S16, S27).
                let reading = self.limited(self.urgency(Urgency::Poll), self.read());
                Answer::Read(io.answer(reading.await).map(stored))
            }
            Request::Write { lease_id, if_match, fields } => {
                let write = Write { lease_id, if_match: Some(if_match), fields };
                Answer::Write(Box::pin(self.write(write, &mut note)).await)
            }
            Request::Renew { lease_id, if_match } => return self.renew(lease_id, if_match).await,
            Request::Look { note: with_note } => {
                Answer::Look(Box::pin(self.look(with_note, &mut note)).await)
            }
            // A lease is broken for a caller that waits here, so that it runs out (S33, S35).
            Request::Break { if_match, rival } => {
                let breaking = io.store.break_lease(&self.path, note_of(*rival), if_match);
                let answer = gone(self.limited(Urgency::Lease, breaking).await);
                io.note(Subject::Break, answer.as_ref().err());
                Answer::Break(answer.map(drop).map_err(|error| failure(&error)))
            }
            Request::Release { lease_id, if_match } => {
                let releasing = io.store.release(&self.path, lease_id, if_match);
                Answer::Release(io.answer(gone(self.limited(Urgency::Lease, releasing).await)))
            }
        };
        Answered { note, ..Event::Answer { request: self.request, answer }.into() }
    }

    /// How urgent a question is, if it is `least` urgent for a lock that is not held here. A resume token may
    /// be forged, so what only that names takes no renewal's turn (S16).
    const fn urgency(&self, least: Urgency) -> Urgency {
        match self.purpose {
            Purpose::Hold { until } | Purpose::Resume { until } => Urgency::Renewal(until),
            Purpose::Comeback => Urgency::Lease,
            Purpose::Other => least,
        }
    }

    async fn limited<T>(
        &self,
        urgency: Urgency,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.io.limited(urgency, self.timeout, call).await
    }

    async fn read(&self) -> Result<StoredLock, StoreError> {
        self.io.store.read_record(&self.path).await
    }

    async fn acquire_and_read(
        &self,
        acquire: Acquire,
        read: bool,
    ) -> (Result<LeaseGranted, Failure>, Option<Result<Stored, Failure>>) {
        let Self { io, path, timeout, .. } = self;
        let begun = io.clock.now();
        let acquiring = self.limited(Urgency::Poll, io.store.acquire(path, acquire));
        let (answer, read) = if read && io.store.features().tells_record {
            let mut answer = acquiring.await;
            let found = answer.as_mut().ok().and_then(|acquired| acquired.found.take());
            let read = match (found, &answer) {
                (Some(found), _) => Some(Ok(found)),
                // Whoever has it is to be named, but not for so long that the refusal comes too late.
                (None, Err(StoreError::Contended)) => {
                    let left = timeout.saturating_sub(io.clock.now() - begun) / 2;
                    Some(io.limited(Urgency::Poll, left, self.read()).await)
                }
                // The machine asks for what it needs.
                (None, _) => None,
            };
            (answer, read)
        } else if read {
            let (answer, read) = tokio::join!(acquiring, self.limited(Urgency::Poll, self.read()));
            (answer, Some(read))
        } else {
            (acquiring.await, None)
        };
        let read = read.map(|read| read.map(stored).map_err(|error| failure(&error)));
        (io.answer(answer).map(granted), read)
    }

    /// Writes a record. Where the lease was broken, with the note of the break.
    async fn write(&self, write: Write, note: &mut Option<BreakNote>) -> Result<ETag, Failure> {
        let Self { io, path, purpose, .. } = self;
        // S16: a hold that is resumed is had only once its record is written.
        let urgency = match *purpose {
            Purpose::Resume { until } => Urgency::Renewal(until),
            Purpose::Hold { .. } | Purpose::Comeback | Purpose::Other => Urgency::Lease,
        };
        let lease_id = write.lease_id;
        let answer = self.limited(urgency, io.store.write_record(path, write)).await;
        let mut answer = io.answer(answer).map(|written| written.etag);
        if answer == Err(Failure::Taken) {
            let (why, found) = io.why_gone(path, lease_id).await;
            (answer, *note) = (Err(why), found);
        }
        answer
    }

    /// Renews a lease: that of a hold, if the renewal need not wait for its turn; or one under which nothing
    /// is held here, by the end of its client's belief (S16), or at once where a caller waits for its grant.
    async fn renew(&self, lease_id: LeaseId, if_match: Option<ETag>) -> Answered {
        let Self { io, request, path, purpose, has_turn, timeout } = self;
        let renewing = io.store.renew(path, lease_id, if_match);
        let (is_hold, answer) = match *purpose {
            Purpose::Hold { until } => {
                if !has_turn && let Some(waiting) = io.limiter.enter(Urgency::Renewal(until)) {
                    return io.hold_back(*request, waiting, until);
                }
                (true, limited(*timeout, renewing).await)
            }
            Purpose::Resume { until } => {
                (false, self.limited(Urgency::Renewal(until), renewing).await)
            }
            Purpose::Comeback | Purpose::Other => {
                (false, self.limited(Urgency::Renewal(io.clock.now()), renewing).await)
            }
        };
        let answer = io.answer(gone(answer)).map(|renewed| renewed.time);
        // A hold whose lease was broken looks for itself (S22).
        let note = match !is_hold && answer == Err(Failure::Broken) {
            true => io.break_note(path).await,
            false => None,
        };
        let answer = Answer::Renew(answer);
        Answered { note, ..Event::Answer { request: *request, answer }.into() }
    }

    /// Reads a lock whose lease was broken, and the note beside it if that is asked for. Without an answer a
    /// hold is lost (S22).
    async fn look(&self, with_note: bool, note: &mut Option<BreakNote>) -> Result<Look, Failure> {
        let io = &self.io;
        let reading = self.limited(self.urgency(Urgency::Lease), self.read());
        let read = if with_note {
            let noting = limited(self.timeout, io.store.read_break_note(&self.path));
            let (read, noted) = tokio::join!(reading, noting);
            // Without its note a break counts as somebody else's: that is for the store to say, and not for
            // its silence.
            *note = noted.map_err(|error| failure(&error))?;
            read
        } else {
            let read = reading.await;
            // S17: a later break has ended it, and its note is another.
            if read.as_ref().is_ok_and(|read| read.lease == LeaseState::Broken) {
                *note = io.break_note(&self.path).await;
            }
            read
        };
        let read = io.answer(gone(read)).inspect_err(|_| *note = None)?;
        let breaking = read.lease == LeaseState::Breaking;
        Ok(Look { stored: stored(read), breaking, note: note.as_ref().map(seen) })
    }
}

/// S8: with the container, the lock is gone.
fn gone<T>(answer: Result<T, StoreError>) -> Result<T, StoreError> {
    answer.map_err(|error| match matches!(error, StoreError::ContainerMissing { .. }) {
        true => StoreError::NotFound,
        false => error,
    })
}

impl StoreIo {
    /// S7: a renewal that waits is no try. The hold decides anew when its turn comes, and counts from then.
    fn hold_back(&self, request: RequestId, waiting: Waiting, valid_until: Instant) -> Answered {
        let left = valid_until.saturating_since(self.clock.now());
        let turn = async move {
            // Without a turn until the end of its validity, the hold is over.
            let _ = waiting.turn(left).await;
            Event::RenewTurnCame.into()
        };
        Answered { next: Some(Box::pin(turn)), ..Event::RenewHeldBack { request }.into() }
    }

    /// Why a write met no lease of ours: stores do not say whether it was broken. The loss waits a moment for
    /// it, and for the note of the break (S17).
    async fn why_gone(&self, path: &LockPath, lease_id: LeaseId) -> (Failure, Option<BreakNote>) {
        let reading = limited(NOTE_TIMEOUT, self.store.read_record(path));
        let (read, note) = tokio::join!(reading, self.break_note(path));
        let Ok(read) = read else { return (Failure::Taken, None) };
        let ours = Record::from_fields(&read.fields).lease == Some(lease_id.fingerprint());
        if !ours || read.lease != LeaseState::Broken {
            return (Failure::Taken, None);
        }
        (Failure::Broken, note)
    }

    /// The note of the break that ended a lease, if it can be read in time (S17).
    async fn break_note(&self, path: &LockPath) -> Option<BreakNote> {
        limited(NOTE_TIMEOUT, self.store.read_break_note(path)).await.ok().flatten()
    }
}
