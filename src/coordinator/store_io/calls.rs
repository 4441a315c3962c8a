//! Carries out what the machine asks of the store: each becomes a request that the lock's task polls, whose
//! answer is an event.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::rate_limit::{RateLimited, Urgency};
use super::readiness::Subject;
use super::understood::{failure, granted, note_of, seen, stored};
use crate::coordinator::Shared;
use crate::coordinator::actor::requests::{Answered, Requests};
use crate::hold::{
    Answer, Event, Failure, LeaseGranted, Look, Purpose, Request, RequestId, Rival, Stored,
};
use crate::lock::{LeaseId, LockPath, Permit};
use crate::record::{ETag, Record};
use crate::store::{Acquire, BreakNote, LeaseState, LeaseStoreExt as _, StoreError, Write};
use crate::time::Instant;

/// How long a holder's loss waits for the note of the break to be read (S17). The holder's validity does not
/// wait: at its end the hold is lost whatever was read (S4).
const NOTE_TIMEOUT: Duration = Duration::from_millis(500);

/// What a machine asks of the store, as [`crate::hold::Action::Store`] says.
pub(in crate::coordinator) struct Ask {
    pub(in crate::coordinator) request: RequestId,
    pub(in crate::coordinator) what: Request,
    pub(in crate::coordinator) timeout: Duration,
}

/// The machine that asks the store for something, and gets the answer.
pub(in crate::coordinator) struct Requester {
    /// The path of its permit.
    pub(in crate::coordinator) path: LockPath,
    pub(in crate::coordinator) permit: Permit,
    /// What this is for.
    pub(in crate::coordinator) purpose: Purpose,
    /// The turn of its renewal has come already.
    pub(in crate::coordinator) has_turn: bool,
}

/// Adds what a machine asks of the store to `requests`.
pub(in crate::coordinator) fn send(
    shared: &Arc<Shared>,
    requests: &mut Requests,
    requester: Requester,
    ask: Ask,
) {
    let shared = Arc::clone(shared);
    let Requester { path, permit, purpose, has_turn } = requester;
    let Ask { request, what, timeout } = ask;
    match what {
        Request::Acquire { lease_id, duration, if_match, read } => {
            let acquire = Acquire { lease_id, duration, if_match };
            requests.add(permit, async move {
                let (answer, read) = acquire_and_read(&shared, &path, acquire, read, timeout).await;
                Event::Answer { request, answer: Answer::Acquire { lease: answer, read } }.into()
            });
        }
        Request::Read => requests.add(permit, async move {
            // What a hold reads decides whether it goes on (S16, S27).
            let urgency = urgency(purpose, Urgency::Poll);
            let answer = read(&shared, &path, urgency, timeout).await;
            Event::Answer { request, answer: Answer::Read(answer) }.into()
        }),
        Request::Write { lease_id, if_match, fields } => {
            let write = Write { lease_id, if_match: Some(if_match), fields };
            // S16: a hold that is resumed is had only once its record is written.
            let urgency = match purpose {
                Purpose::Resume { until } => Urgency::Renewal(until),
                Purpose::Hold { .. } | Purpose::Comeback | Purpose::Other => Urgency::Lease,
            };
            requests.add(permit, async move {
                let (answer, note) = write_record(&shared, &path, write, urgency, timeout).await;
                Answered { note, ..Event::Answer { request, answer: Answer::Write(answer) }.into() }
            });
        }
        Request::Renew { lease_id, if_match } => {
            let renew = Renew { request, lease_id, if_match, timeout };
            requests.add(permit, async move {
                match purpose {
                    Purpose::Hold { .. } if has_turn => renew_now(&shared, &path, renew).await,
                    Purpose::Hold { until } => renew_in_turn(&shared, &path, renew, until).await,
                    Purpose::Resume { until } => prove(&shared, &path, renew, until).await,
                    Purpose::Comeback | Purpose::Other => {
                        let now = shared.clock.now();
                        prove(&shared, &path, renew, now).await
                    }
                }
            });
        }
        Request::Look { note } => requests.add(permit, async move {
            // S22: without an answer a hold is lost.
            let urgency = urgency(purpose, Urgency::Lease);
            let (answer, note) = match look(&shared, &path, note, urgency, timeout).await {
                Ok((look, note)) => (Ok(look), note),
                Err(failure) => (Err(failure), None),
            };
            Answered { note, ..Event::Answer { request, answer: Answer::Look(answer) }.into() }
        }),
        Request::Break { if_match, rival } => {
            requests.add(permit, async move {
                let answer = break_for(&shared, &path, *rival, if_match, timeout).await;
                Event::Answer { request, answer: Answer::Break(answer) }.into()
            });
        }
        Request::Release { lease_id, if_match } => {
            requests.add(permit, async move {
                let answer = release(&shared, &path, lease_id, if_match, timeout).await;
                Event::Answer { request, answer: Answer::Release(answer) }.into()
            });
        }
    }
}

/// How urgent a question is, if it is `least` urgent for a lock that is not held here. A resume token may be
/// forged, so what only that names takes no renewal's turn (S16).
fn urgency(purpose: Purpose, least: Urgency) -> Urgency {
    match purpose {
        Purpose::Hold { until } | Purpose::Resume { until } => Urgency::Renewal(until),
        Purpose::Comeback => Urgency::Lease,
        Purpose::Other => least,
    }
}

async fn acquire_and_read(
    shared: &Shared,
    path: &LockPath,
    acquire: Acquire,
    read: bool,
    timeout: Duration,
) -> (Result<LeaseGranted, Failure>, Option<Result<Stored, Failure>>) {
    let begun = shared.clock.now();
    let acquiring = shared.limited(Urgency::Poll, timeout, shared.store.acquire(path, acquire));
    let (answer, read) = if read && shared.store.features().tells_record {
        let mut answer = acquiring.await;
        let found = answer.as_mut().ok().and_then(|acquired| acquired.found.take());
        let read = match (found, &answer) {
            (Some(found), _) => Some(Ok(found)),
            // Whoever has it is to be named, but not for so long that the refusal comes too late.
            (None, Err(StoreError::Contended)) => {
                let left = timeout.saturating_sub(shared.clock.now() - begun) / 2;
                Some(shared.limited(Urgency::Poll, left, shared.store.read_record(path)).await)
            }
            // The machine asks for what it needs.
            (None, _) => None,
        };
        (answer, read.map(|read| read.map(stored).map_err(|error| failure(&error))))
    } else if read {
        let reading = shared.limited(Urgency::Poll, timeout, shared.store.read_record(path));
        let (answer, read) = tokio::join!(acquiring, reading);
        (answer, Some(read.map(stored).map_err(|error| failure(&error))))
    } else {
        (acquiring.await, None)
    };
    (shared.answer(answer).map(granted), read)
}

/// Writes a record. Where the lease was broken, with the note of the break.
async fn write_record(
    shared: &Shared,
    path: &LockPath,
    write: Write,
    urgency: Urgency,
    timeout: Duration,
) -> (Result<ETag, Failure>, Option<BreakNote>) {
    let lease_id = write.lease_id;
    let writing = shared.store.write_record(path, write);
    let answer = shared.limited(urgency, timeout, writing).await;
    match shared.answer(answer) {
        Err(Failure::Taken) => {
            let (why, note) = shared.why_gone(path, lease_id).await;
            (Err(why), note)
        }
        answer => (answer.map(|written| written.etag), None),
    }
}

async fn read(
    shared: &Shared,
    path: &LockPath,
    urgency: Urgency,
    timeout: Duration,
) -> Result<Stored, Failure> {
    let reading = shared.store.read_record(path);
    shared.answer(shared.limited(urgency, timeout, reading).await).map(stored)
}

async fn release(
    shared: &Shared,
    path: &LockPath,
    lease_id: LeaseId,
    if_match: Option<ETag>,
    timeout: Duration,
) -> Result<(), Failure> {
    let releasing = shared.store.release(path, lease_id, if_match);
    shared.answer(gone(shared.limited(Urgency::Lease, timeout, releasing).await))
}

/// Breaks a lease for a caller that waits here, so that it runs out (S33, S35).
async fn break_for(
    shared: &Shared,
    path: &LockPath,
    rival: Rival,
    if_match: ETag,
    timeout: Duration,
) -> Result<(), Failure> {
    let breaking = shared.store.break_lease(path, note_of(rival), if_match);
    let answer = gone(shared.limited(Urgency::Lease, timeout, breaking).await);
    shared.note(Subject::Break, answer.as_ref().err());
    answer.map(drop).map_err(|error| failure(&error))
}

/// A renewal that the machine asks for.
struct Renew {
    request: RequestId,
    lease_id: LeaseId,
    if_match: Option<ETag>,
    timeout: Duration,
}

/// Renews the lease of a hold, if it need not wait for its turn. A hold whose lease was broken looks for
/// itself (S22).
async fn renew_in_turn(
    shared: &Shared,
    path: &LockPath,
    renew: Renew,
    valid_until: Instant,
) -> Answered {
    let Some(waiting) = shared.limiter.enter(Urgency::Renewal(valid_until)) else {
        return renew_now(shared, path, renew).await;
    };
    // S7: a renewal that waits is no try. The hold decides anew when its turn comes, and counts from then.
    let left = valid_until.saturating_since(shared.clock.now());
    let turn = async move {
        // Without a turn until the end of its validity, the hold is over.
        let _ = waiting.turn(left).await;
        Event::RenewTurnCame.into()
    };
    let request = renew.request;
    Answered { next: Some(Box::pin(turn)), ..Event::RenewHeldBack { request }.into() }
}

async fn renew_now(shared: &Shared, path: &LockPath, renew: Renew) -> Answered {
    let Renew { request, lease_id, if_match, timeout } = renew;
    let answer = limited(timeout, shared.store.renew(path, lease_id, if_match)).await;
    let answer = shared.answer(gone(answer)).map(|renewed| renewed.time);
    Event::Answer { request, answer: Answer::Renew(answer) }.into()
}

/// Renews a lease under which nothing is held here: by the end of its client's belief (S16), or at once where
/// a caller waits for its grant.
async fn prove(shared: &Shared, path: &LockPath, renew: Renew, until: Instant) -> Answered {
    let Renew { request, lease_id, if_match, timeout } = renew;
    let renewing = shared.store.renew(path, lease_id, if_match);
    let answer = shared.limited(Urgency::Renewal(until), timeout, renewing).await;
    let answer = shared.answer(gone(answer)).map(|renewed| renewed.time);
    let note = match answer == Err(Failure::Broken) {
        true => shared.break_note(path).await,
        false => None,
    };
    Answered { note, ..Event::Answer { request, answer: Answer::Renew(answer) }.into() }
}

/// Reads a lock whose lease was broken, and the note beside it if that is asked for.
async fn look(
    shared: &Shared,
    path: &LockPath,
    note: bool,
    urgency: Urgency,
    timeout: Duration,
) -> Result<(Look, Option<BreakNote>), Failure> {
    let reading = shared.limited(urgency, timeout, shared.store.read_record(path));
    let (read, note) = if note {
        let note = limited(timeout, shared.store.read_break_note(path));
        let (read, note) = tokio::join!(reading, note);
        // Without its note a break counts as somebody else's: that is for the store to say, and not for its
        // silence.
        (read, note.map_err(|error| failure(&error))?)
    } else {
        let read = reading.await;
        // S17: a later break has ended it, and its note is another.
        let ended = read.as_ref().is_ok_and(|read| read.lease == LeaseState::Broken);
        (read, if ended { shared.break_note(path).await } else { None })
    };
    let read = shared.answer(gone(read))?;
    let breaking = read.lease == LeaseState::Breaking;
    Ok((Look { stored: stored(read), breaking, note: note.as_ref().map(seen) }, note))
}

/// S7: a try that is not answered in time is given up; whether it was done is unknown.
async fn limited<T>(
    timeout: Duration,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let unanswered = || StoreError::Unavailable {
        sent: true,
        source: format!("no answer within {}", humantime::format_duration(timeout)).into(),
    };
    tokio::time::timeout(timeout, call).await.unwrap_or_else(|_elapsed| Err(unanswered()))
}

/// S8: with the container, the lock is gone.
fn gone<T>(answer: Result<T, StoreError>) -> Result<T, StoreError> {
    answer.map_err(|error| match matches!(error, StoreError::ContainerMissing { .. }) {
        true => StoreError::NotFound,
        false => error,
    })
}

impl Shared {
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

    /// Asks the store something about a lock that no machine waits for. No caller of ours waits without end
    /// (S19).
    pub(in crate::coordinator) async fn asked<T>(
        &self,
        timeout: Duration,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.asked_about(Subject::Lock, timeout, call).await
    }

    pub(in crate::coordinator) async fn asked_about<T>(
        &self,
        subject: Subject,
        timeout: Duration,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let answer = self.limited(Urgency::Poll, timeout, call).await;
        self.note(subject, answer.as_ref().err());
        answer
    }

    /// Waits for the request's turn while the store throttles, and sends it: both together within `timeout`.
    /// One whose turn comes too late to be answered in time is not sent.
    async fn limited<T>(
        &self,
        urgency: Urgency,
        timeout: Duration,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let Some(waiting) = self.limiter.enter(urgency) else {
            return limited(timeout, call).await;
        };
        let given_up = self.clock.now() + timeout;
        let paced = async {
            waiting.turn(timeout * 3 / 4).await?;
            // S3, S13: a timer of the runtime stops while the machine sleeps, and the machine counts on it
            // that nothing is sent later.
            if self.clock.now() >= given_up {
                return Err(RateLimited::error(timeout));
            }
            call.await
        };
        limited(timeout, paced).await
    }

    /// Takes note of whether the store can be used (S18), and how much it takes (S7).
    fn note(&self, subject: Subject, error: Option<&StoreError>) {
        if error.is_some_and(RateLimited::is) {
            return;
        }
        self.limiter.note(error);
        self.readiness.note(subject, error, self.clock.now());
    }

    /// Takes note of the answer, and says what the answer means to the machine.
    fn answer<T>(&self, answer: Result<T, StoreError>) -> Result<T, Failure> {
        self.note(Subject::Lock, answer.as_ref().err());
        answer.map_err(|error| failure(&error))
    }
}
