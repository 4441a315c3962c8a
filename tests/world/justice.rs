//! What a stream is told: whether it may be told that, and told so then.

use std::time::Duration;

use leasehold::coordinator::HoldEvent::{AlreadyDone, Held, Settled, Skipped};
use leasehold::coordinator::{
    CallError, Extended, Grant, HeldEvent, HoldEvent, LockRecord, LossReason, StoreFailureKind,
    Validity,
};
use leasehold::lock::{FencingToken, LockPath};
use leasehold::store::BreakNote;

use crate::world::hand_over::{self, TICK};
use crate::world::losses::{lease_of, lost};
use crate::world::notices;
use crate::world::promises::{self, Wants};
use crate::world::resuming::is_to_come_again;
use crate::world::saves;
use crate::world::shared::State;

/// How long after the last request that was disturbed a waiter may be told of it: it is waited for (S7: 5 s),
/// asked again after as long as a store that throttles says, or the poll cap, and waited for again, while the
/// budget lets it out.
const MEMORY: Duration = Duration::from_secs(5 + 5 + 5 + 10);
/// How long a request may be under way to its sidecar's knowledge (S7).
pub(crate) const UNDER_WAY: Duration = Duration::from_secs(6);
/// How long a sidecar refuses in a container that was gone (S18), with the way of the last refusal.
const GONE: Duration = Duration::from_secs(60 + 6);
/// How long a sidecar grants nothing in a container that it had to make again (S18), by any clock.
const MADE_AGAIN: Duration = Duration::from_secs(59);

/// What a stream has been told.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    Held { token: u64, until: Duration, at_risk: bool },
    Over,
}

/// A stream: its number, its sidecar, its lock, and the token of the hold that it goes on with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream<'a> {
    pub(crate) number: u64,
    /// Its place, and which of those that ran there.
    pub(crate) sidecar: (usize, u32),
    pub(crate) path: &'a LockPath,
    pub(crate) resumes: Option<u64>,
    pub(crate) wants: Wants,
}

/// What is wrong with an event, if something is.
pub(crate) fn judge(
    state: &mut State,
    stream: Stream<'_>,
    (event, until): (&HoldEvent, &dyn Fn(&Validity) -> Duration),
    now: Duration,
) -> Option<String> {
    let before = state.checks.told.get(&stream.number).cloned();
    if event.is_last() {
        state.checks.told.insert(stream.number, Told::Over);
        state.checks.costs.forgets((stream.sidecar.0, stream.path.as_str()));
    }
    let wrong = || Some(format!("S4: stream {} is told {event:?} after {before:?}", stream.number));
    match (&before, event) {
        (Some(Told::Over), _) | (_, Settled { .. } | AlreadyDone(_) | Skipped { .. }) => wrong(),
        (_, Held(HeldEvent::Draining { .. })) => told_draining(state, stream),
        (None, HoldEvent::Waiting { record, .. }) => told_busy(state, stream, record),
        (None, HoldEvent::Busy(busy)) => told_busy(state, stream, &busy.record),
        (None, HoldEvent::Granted(grant)) => {
            let (token, until) = (grant.token.value(), until(&grant.validity));
            told_validity(state, stream, (token, event), until);
            let over = until <= now;
            let over = over.then(|| format!("S2: {token} is granted, valid until {until:?}"));
            over.or_else(|| granted(state, stream, grant, now))
        }
        (None, HoldEvent::Failed(error)) => match stream.resumes {
            Some(token) => resume_failed(state, stream, (token, error), now),
            None => failed(state, (stream.sidecar.0, stream.path), error, now),
        },
        (
            Some(Told::Held { token, at_risk, until: known }),
            Held(
                HeldEvent::Renewed(validity)
                | HeldEvent::Extended(Extended { validity, .. })
                | HeldEvent::AtRisk { validity, .. }
                | HeldEvent::Recovered(validity),
            ),
        ) => {
            let ended = state.checks.told_until(&(stream.path.clone(), *token), *known);
            let revives = (now > ended + TICK).then(|| {
                format!("S4: {token} is told {event:?}, and its validity ended at {ended:?}")
            });
            let late = told_validity(state, stream, (*token, event), until(validity));
            let warned = *at_risk && matches!(event, Held(HeldEvent::AtRisk { .. }));
            revives.or(late).or_else(|| warned.then(wrong).flatten())
        }
        (
            Some(Told::Held { token, until: known, .. }),
            Held(HeldEvent::Revoked { validity, break_note }),
        ) => {
            let told = (until(validity), break_note.as_ref());
            notices::revoked(state, stream, (*token, *known), told)
        }
        (
            Some(Told::Held { token, until, .. }),
            Held(HeldEvent::Lost { reason, break_note, .. }),
        ) => ended(state, stream, (*token, *until), (*reason, break_note.as_ref()), now),
        (None, Held(HeldEvent::Lost { reason, .. })) if let Some(token) = stream.resumes => {
            resume_lost(state, stream, (token, *reason), now)
        }
        (None, HoldEvent::Released(_)) if let Some(token) = stream.resumes => {
            told_released(state, stream, token)
        }
        (Some(Told::Held { token, .. }), HoldEvent::Released(_)) => {
            told_released(state, stream, *token)
        }
        (Some(Told::Held { token, until, .. }), HoldEvent::Failed(error)) => {
            holder_failed(state, stream, (*token, *until), error, now)
        }
        (
            Some(Told::Held { .. }),
            HoldEvent::Waiting { .. } | HoldEvent::Granted(_) | HoldEvent::Busy(_),
        )
        | (None, Held(_) | HoldEvent::Released(_)) => wrong(),
    }
}

/// A holder is told until when it may act.
fn told_validity(
    state: &mut State,
    stream: Stream<'_>,
    (token, event): (u64, &HoldEvent),
    until: Duration,
) -> Option<String> {
    let at_risk = matches!(event, Held(HeldEvent::AtRisk { .. }));
    state.checks.told.insert(stream.number, Told::Held { token, until, at_risk });
    notices::validity(state, stream, (token, event), until)
}

/// S15: where a replacement follows, nobody is told draining.
fn told_draining(state: &State, stream: Stream<'_>) -> Option<String> {
    let (sidecar, _) = stream.sidecar;
    let replaced = state.hand_overs.is_ending(sidecar);
    replaced.then(|| format!("S15: {sidecar} is replaced, and tells that it drains"))
}

/// A holder's stream ends without an end of the hold: it goes on elsewhere.
fn holder_failed(
    state: &mut State,
    stream: Stream<'_>,
    (token, until): (u64, Duration),
    error: &CallError,
    now: Duration,
) -> Option<String> {
    if is_to_come_again(error) {
        return hand_over::interrupted(state, stream, (token, until), now);
    }
    if !matches!(error, CallError::Superseded) {
        return Some(format!("S4: a holder with {token} is refused: {error}"));
    }
    let left = state.checks.is_left(&(stream.path.clone(), token), stream.number);
    (!left).then(|| format!("S16: {token} is told to go on elsewhere, where nobody is"))
}

fn told_busy(state: &mut State, stream: Stream<'_>, record: &LockRecord) -> Option<String> {
    promises::busy(state, (stream.sidecar, stream.path), record)
}

/// A stream is told that its hold was released: somebody has asked for that.
fn told_released(state: &State, stream: Stream<'_>, token: u64) -> Option<String> {
    let asked = state.released.contains(&(stream.path.clone(), token));
    (!asked).then(|| format!("S13: {token} is told released, and nobody released it"))
}

/// A resume is refused. S13: it must wait while another lease of this sidecar's may still count, and may ask
/// again.
fn resume_failed(
    state: &State,
    stream: Stream<'_>,
    (token, error): (u64, &CallError),
    now: Duration,
) -> Option<String> {
    let place = (stream.sidecar.0, stream.path);
    let wrong = failed(state, place, error, now)?;
    let own = lease_of(state, stream.path, token).map(|given| &given.id);
    let asked = state.asked.get(&(stream.sidecar.0, stream.path.to_string()));
    let over = state.lease + state.lease / 50 + Duration::from_secs(1);
    let unsettled = asked.into_iter().flatten().any(|(id, at)| Some(id) != own && now < *at + over);
    let waits = is_unavailable(error) && unsettled;
    (!waits).then(|| format!("S16: {token} does not go on: {wrong}"))
}

/// A resume is told that its hold is lost: it ended before, or its time is over, or its lease is another's.
fn resume_lost(
    state: &State,
    stream: Stream<'_>,
    (token, reason): (u64, LossReason),
    now: Duration,
) -> Option<String> {
    let key = (stream.path.clone(), token);
    let told = |told: &Told| matches!(told, Told::Held { token: held, until, .. } if *held == token && now < *until);
    let believes = state.checks.told.values().any(told) || state.hand_overs.is_left(&key, now);
    // S8: where no record can be written, nothing goes on.
    let refused = state.service.policy.is_some_and(|(until, _)| now < until + state.lease);
    if state.released.contains(&key) || !believes || refused && reason == LossReason::Expired {
        return None;
    }
    lost(state, stream, (token, reason), now)
}

/// A holder is told that its hold is lost.
fn ended(
    state: &mut State,
    stream: Stream<'_>,
    (token, until): (u64, Duration),
    (reason, note): (LossReason, Option<&BreakNote>),
    now: Duration,
) -> Option<String> {
    let key = (stream.path.clone(), token);
    // S16: it was to go on by a later stream, where its record is written, and its bounds are set; nobody
    // listens here.
    let left = state.checks.is_left(&key, stream.number);
    let known_there = match reason {
        LossReason::MaxHoldReached | LossReason::NoProgress | LossReason::Taken => true,
        LossReason::Expired
        | LossReason::Broken
        | LossReason::LockDeleted
        | LossReason::Shutdown => false,
    };
    if left && known_there {
        return None;
    }
    let until = state.checks.told_until(&key, until);
    // Who released it does not believe in it: its end is told when the store has answered (S13).
    let released = state.released.contains(&key);
    if now > until + TICK && !released {
        return Some(format!("S4: stream {} is told {:?} late", stream.number, now - until));
    }
    let wrong = lost(state, stream, (token, reason), now);
    match reason {
        LossReason::Broken => wrong
            .or_else(|| promises::broken(state, (stream, token), note, now))
            .or_else(|| notices::lost(state, stream, ((token, until), reason), now)),
        _ => wrong,
    }
}

/// A grant is told, by stream or by call.
pub(crate) fn granted(
    state: &mut State,
    stream: Stream<'_>,
    grant: &Grant,
    now: Duration,
) -> Option<String> {
    let Stream { sidecar: (sidecar, _), path, resumes, .. } = stream;
    let token = grant.token.value();
    let before = state.checks.generations.insert((path.clone(), token), grant.generation);
    if let Some(what) = saves::granted(state, stream, grant, now) {
        return Some(what);
    }
    if let Some(resumed) = resumes {
        state.story.count("resumed");
        if state.hand_overs.resumed(&(path.clone(), resumed)) {
            state.story.count("resumed after a hand-over");
        }
        if resumed != token {
            return Some(format!("S16: a hold with {resumed} goes on with {token}"));
        }
        let grows = before.is_none_or(|before| before < grant.generation);
        return (!grows).then(|| {
            format!("S16: {token} goes on with generation {} after {before:?}", grant.generation)
        });
    }
    if lease_of(state, path, token).is_none() {
        return Some(format!("S5: {token} is granted, and it is not stored"));
    }
    let key = (path.clone(), token);
    if let Some(span) = stream.wants.max_hold {
        state.checks.bounds.insert(key.clone(), now + span);
    }
    if let Some(timeout) = stream.wants.progress {
        state.checks.progress.insert(key, (timeout, now));
    }
    if !stream.wants.renews {
        state.unreturned.hold(path, token);
    }
    // A hand-off asks no store: its path learns with its next renewal that its lease went with the container
    // (S10).
    let handed_on = FencingToken::from_u64(token).is_some_and(|token| token.hand_offs() > 0);
    let made = state.made_again[sidecar].filter(|_| !handed_on);
    let early = made.filter(|made| now < *made + MADE_AGAIN);
    let early = early.map(|made| {
        format!("S18: {sidecar} grants {:?} after it made the container again", now - made)
    });
    let made = state.service.blob(path.as_str()).map(|blob| blob.made);
    let rests = promises::granted(state, stream, (token, stream.wants.min_hold), now);
    state.checks.granted(path, token, (now, made)).or(early).or(rests)
}

/// Whether something stood against the requests of this sidecar within this time.
pub(crate) fn was_disturbed(
    state: &State,
    sidecar: usize,
    (within, now): (Duration, Duration),
) -> bool {
    state.disturbed[sidecar].is_some_and(|at| now < at + within)
}

fn is_unavailable(error: &CallError) -> bool {
    matches!(error, CallError::StoreFailure(store_failure) if store_failure.kind == StoreFailureKind::Unavailable)
}

/// Whether its token was refused as soon as it was given: another is fetched a second later at the soonest
/// (S8).
fn is_signed_in_vain(state: &State, sidecar: usize, now: Duration) -> bool {
    state.signed_in_vain[sidecar].is_some_and(|at| now < at + UNDER_WAY)
}

/// Why a waiter may be refused.
pub(crate) fn failed(
    state: &State,
    (sidecar, path): (usize, &LockPath),
    error: &CallError,
    now: Duration,
) -> Option<String> {
    // S18: for a minute after it was found gone, however long that was after it went.
    let gone = state.gone[sidecar].is_some_and(|at| now < at + GONE);
    let disturbed = was_disturbed(state, sidecar, (MEMORY, now));
    let CallError::StoreFailure(store_failure) = error else { return None };
    let justified = match store_failure.kind {
        // S18: where the credentials do not allow it, a container is not made.
        StoreFailureKind::Denied | StoreFailureKind::ContainerMissing => {
            state.service.denied_until.is_some_and(|until| now < until + MEMORY)
                || is_signed_in_vain(state, sidecar, now)
                // S8: another token has been asked for, and was not answered.
                || state.signing_in[sidecar].is_some_and(|at| now < at + UNDER_WAY)
        }
        StoreFailureKind::StoreFailed => {
            state.service.policy.is_some_and(|(until, _)| now < until + MEMORY) || disturbed
        }
        StoreFailureKind::TokenNotGrowing => {
            let made = state.service.blob(path.as_str()).map(|blob| blob.made);
            state.checks.was_made_at_once(path, made)
        }
        StoreFailureKind::Full | StoreFailureKind::TokenUnreadable => false,
        StoreFailureKind::ShuttingDown => state.draining[sidecar],
        StoreFailureKind::Unavailable => disturbed || gone,
        StoreFailureKind::Throttled => disturbed,
    };
    (!justified).then(|| {
        format!("S8: a waiter of {sidecar} is refused without a cause: {}", store_failure.message)
    })
}
