//! What a stream is told: whether it may be told that, and told so then.

use std::ops::Bound;
use std::time::Duration;

use leasehold::coordinator::{CallError, Extended, HoldEvent, LossReason, TroubleKind, Validity};
use leasehold::lock::{FencingToken, LockPath};

use crate::lease::{End, Given, State as LeaseState};
use crate::world::State;

/// Dates are whole seconds, and front ends differ by up to three (S3): a bound by the store's clock may come so early.
const DATES_DIFFER: Duration = Duration::from_secs(3 + 1);
/// Timers are as fine as a millisecond, and messages have a way to go.
const TICK: Duration = Duration::from_millis(100);
/// How long ago what stands against renewals may be.
const MEMORY: Duration = Duration::from_secs(90);
/// How soon after a token another is fetched, by any clock and with its way.
const FETCHED_AGAIN: Duration = Duration::from_millis(1_200);
/// How long a request may be under way to its sidecar's knowledge (S7).
const UNDER_WAY: Duration = Duration::from_secs(6);
/// How long a sidecar grants nothing in a container that it had to make again (S18), by any clock.
const MADE_AGAIN: Duration = Duration::from_secs(59);

/// What a stream has been told.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    Held { token: u64, until: Duration, at_risk: bool },
    Over,
}

/// What is wrong with an event, if something is.
pub(crate) fn judge(
    state: &mut State,
    (stream, sidecar, path): (u64, usize, &LockPath),
    resumes: Option<u64>,
    (event, until): (&HoldEvent, &dyn Fn(&Validity) -> Duration),
    now: Duration,
) -> Option<String> {
    let before = state.checks.told.get(&stream).cloned();
    let told = |state: &mut State, next| state.checks.told.insert(stream, next);
    let wrong = || Some(format!("S4: stream {stream} is told {event:?} after {before:?}"));
    match (&before, event) {
        (Some(Told::Over), _) => wrong(),
        (None, HoldEvent::Waiting { .. } | HoldEvent::Draining { .. }) => None,
        (None, HoldEvent::Granted(grant)) => {
            let token = grant.token.value();
            // A bound may have come while it was resumed: then it is told lost right after.
            let until = until(&grant.validity).max(now);
            told(state, Told::Held { token, until, at_risk: false });
            granted(state, (sidecar, path), (token, resumes), now)
        }
        (None, HoldEvent::Busy(_)) => {
            told(state, Told::Over);
            None
        }
        (None, HoldEvent::Failed(error)) => {
            told(state, Told::Over);
            // S13: it must wait while somebody may still believe in an earlier hold, and may ask again.
            let waits = resumes.is_some() && is_unavailable(error);
            if waits { None } else { failed(state, sidecar, error, now) }
        }
        (
            Some(Told::Held { token, at_risk, .. }),
            HoldEvent::Renewed(validity)
            | HoldEvent::Extended(Extended { validity, .. })
            | HoldEvent::AtRisk { validity, .. }
            | HoldEvent::Recovered(validity),
        ) => {
            let warned = *at_risk;
            let at_risk = matches!(event, HoldEvent::AtRisk { .. });
            told(state, Told::Held { token: *token, until: until(validity), at_risk });
            (at_risk && warned).then(wrong).flatten()
        }
        (Some(Told::Held { .. }), HoldEvent::Draining { .. }) => None,
        (Some(Told::Held { token, until, .. }), HoldEvent::Lost { reason, .. }) => {
            ended(state, (stream, sidecar, path), (*token, *until, *reason), now)
        }
        (None, HoldEvent::Lost { .. } | HoldEvent::Released(_)) if resumes.is_some() => {
            told(state, Told::Over);
            None
        }
        (
            Some(Told::Held { .. }),
            HoldEvent::Released(_) | HoldEvent::Failed(CallError::Superseded),
        ) => {
            told(state, Told::Over);
            None
        }
        (
            Some(Told::Held { .. }),
            HoldEvent::Waiting { .. }
            | HoldEvent::Granted(_)
            | HoldEvent::Busy(_)
            | HoldEvent::Failed(_),
        )
        | (
            None,
            HoldEvent::Renewed(_)
            | HoldEvent::Extended(_)
            | HoldEvent::AtRisk { .. }
            | HoldEvent::Recovered(_)
            | HoldEvent::Lost { .. }
            | HoldEvent::Released(_),
        ) => wrong(),
    }
}

/// A holder is told that its hold is lost.
fn ended(
    state: &mut State,
    (stream, sidecar, path): (u64, usize, &LockPath),
    (token, until, reason): (u64, Duration, LossReason),
    now: Duration,
) -> Option<String> {
    state.checks.told.insert(stream, Told::Over);
    let key = (path.clone(), token);
    let until = state.checks.told_until(&key, until);
    // Who released it does not believe in it: its end is told when the store has answered (S13).
    let released = state.released.contains(&key);
    if now > until + TICK && !released {
        return Some(format!("S4: stream {stream} is told {:?} late", now - until));
    }
    // S16: what it had went on by a later stream, which may have extended it; nobody listens here.
    let later = (Bound::Excluded(stream), Bound::Unbounded);
    let mut later = state.checks.told.range(later);
    let went_on =
        later.any(|(_, told)| matches!(told, Told::Held { token: other, .. } if *other == token));
    if went_on && reason == LossReason::MaxHoldReached {
        return None;
    }
    lost(state, (sidecar, path), (token, reason), now)
}

/// A grant is told, by stream or by call.
pub(crate) fn granted(
    state: &mut State,
    (sidecar, path): (usize, &LockPath),
    (token, resumes): (u64, Option<u64>),
    now: Duration,
) -> Option<String> {
    if let Some(resumed) = resumes {
        state.story.count("resumed");
        return (resumed != token)
            .then(|| format!("S16: a hold with {resumed} goes on with {token}"));
    }
    let made = state.made_again[sidecar];
    let early = made.filter(|made| now < *made + MADE_AGAIN);
    let early = early.map(|made| {
        format!("S18: {sidecar} grants {:?} after it made the container again", now - made)
    });
    state.checks.granted(path, token, (now, state.deleted)).or(early)
}

/// Whether something stood against the requests of this sidecar lately.
fn was_disturbed(state: &State, sidecar: usize, now: Duration) -> bool {
    state.disturbed[sidecar].is_some_and(|at| now < at + MEMORY)
}

fn is_unavailable(error: &CallError) -> bool {
    matches!(error, CallError::Trouble(trouble) if trouble.kind == TroubleKind::Unavailable)
}

/// Whether its token was refused as soon as it was given: another is fetched a second later at the soonest.
fn is_signed_in_vain(state: &State, sidecar: usize) -> bool {
    let since = state.service.rotated.checked_sub(state.signed_in[sidecar]);
    since.is_some_and(|since| since < FETCHED_AGAIN)
}

/// Why a waiter may be refused.
pub(crate) fn failed(
    state: &State,
    sidecar: usize,
    error: &CallError,
    now: Duration,
) -> Option<String> {
    // S18: for a minute after it was found gone, however long that was after it went.
    let made = state.deleted && !state.calm
        || state.made_again[sidecar].is_some_and(|at| now < at + MEMORY);
    let disturbed = made || was_disturbed(state, sidecar, now);
    let CallError::Trouble(trouble) = error else { return None };
    let justified = match trouble.kind {
        TroubleKind::Denied => {
            state.service.denied_until.is_some_and(|until| now < until + MEMORY)
                || is_signed_in_vain(state, sidecar)
        }
        TroubleKind::StoreFailed => state.service.policy.is_some() || disturbed,
        TroubleKind::TokenNotGrowing => state.deleted,
        TroubleKind::TokenUnreadable => false,
        TroubleKind::ShuttingDown => true,
        TroubleKind::Unavailable | TroubleKind::Throttled | TroubleKind::ContainerMissing => {
            disturbed
        }
    };
    (!justified).then(|| {
        format!("S8: a waiter of {sidecar} is refused without a cause: {}", trouble.message)
    })
}

/// The lease under which this token was stored.
pub(crate) fn lease_of<'a>(state: &'a State, path: &LockPath, token: u64) -> Option<&'a Given> {
    let epoch = |token: u64| FencingToken::from_u64(token).map(FencingToken::epoch);
    let name = path.to_string();
    let mut given = state.service.leases.iter().rev();
    given.find(|given| given.blob == name && given.token.and_then(epoch) == epoch(token))
}

fn lost(
    state: &State,
    (sidecar, path): (usize, &LockPath),
    (token, reason): (u64, LossReason),
    now: Duration,
) -> Option<String> {
    let unjust = |rule: &str| {
        Some(format!(
            "{rule}: {token} at {sidecar} is told lost ({}) without a cause",
            reason.as_str()
        ))
    };
    match reason {
        LossReason::Expired if !was_disturbed(state, sidecar, now) => unjust("S7"),
        LossReason::Taken | LossReason::Broken | LossReason::LockDeleted => {
            let given = lease_of(state, path, token)?;
            let blob = state.service.blob(&given.blob)?;
            let stands = blob.lease.id() == Some(&*given.id)
                && blob.lease.state(now) == LeaseState::Leased
                && given.ended.is_none();
            if stands && !state.moved.contains(&(path.clone(), token)) {
                unjust("S8")
            } else {
                None
            }
        }
        LossReason::MaxHoldReached => {
            let bound =
                state.checks.bounds.get(&(path.clone(), token)).copied().unwrap_or_default();
            // Clocks differ by a hundredth at most.
            let moves = state.dated.get(&(path.clone(), token)).copied().unwrap_or_default();
            let early = now + TICK + DATES_DIFFER * moves + bound / 100 < bound;
            if early { unjust("S11") } else { None }
        }
        LossReason::Expired | LossReason::NoProgress | LossReason::Shutdown => None,
    }
}

/// S13: a first release is told as done only if the lease was still the hold's when it was asked for, as far as the
/// store could be asked. A hand-off does not ask it: it goes by the validity, which a deletion or a break at once ends
/// before anybody here can know.
pub(crate) fn released(
    state: &State,
    (sidecar, path): (usize, &LockPath),
    token: u64,
    asked: Duration,
) -> Option<String> {
    let given = lease_of(state, path, token)?;
    let (at, how) = given.ended?;
    let answered = state.disturbed[sidecar].is_none_or(|at| at + UNDER_WAY < asked);
    let lost = answered && at < asked && how != End::Released;
    let handed_on = !given.release_asked && state.checks.is_excused(path, asked);
    (lost && !handed_on && !state.moved.contains(&(path.clone(), token))).then(|| {
        format!("S13: {token} is told released, though its lease ended at {at:?} ({how:?})")
    })
}
