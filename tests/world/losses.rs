//! Whether a hold was lost, or released, as its holder is told.

use std::time::Duration;

use leasehold::coordinator::LossReason;
use leasehold::lock::{FencingToken, LockPath};

use crate::world::hand_over::TICK;
use crate::world::justice::{Stream, UNDER_WAY, was_disturbed};
use crate::world::lease::{End, Given, State as LeaseState};
use crate::world::shared::State;

/// Dates are whole seconds, front ends differ by up to three (S3), and what a date's answer took to come,
/// five at the most, is not known to who hears it: a bound by the store's clock may come so early.
const DATES_DIFFER: Duration = Duration::from_secs(3 + 1 + 5);

/// The lease under which this token was stored.
pub(crate) fn lease_of<'a>(state: &'a State, path: &LockPath, token: u64) -> Option<&'a Given> {
    let epoch = |token: u64| FencingToken::from_u64(token).map(FencingToken::epoch);
    let name = path.to_string();
    let mut given = state.service.leases.iter().rev();
    given.find(|given| given.blob == name && given.token.and_then(epoch) == epoch(token))
}

/// Whether a hold may be told that it is lost for this reason.
pub(crate) fn lost(
    state: &State,
    stream: Stream<'_>,
    (token, reason): (u64, LossReason),
    now: Duration,
) -> Option<String> {
    let Stream { sidecar: (sidecar, _), path, .. } = stream;
    let unjust = |rule: &str| {
        Some(format!(
            "{rule}: {token} at {sidecar} is told lost ({}) without a cause",
            reason.as_str()
        ))
    };
    let key = (path.clone(), token);
    match reason {
        // Not renewed for as long as a lease lasts.
        LossReason::Expired if !was_disturbed(state, sidecar, (state.lease + UNDER_WAY, now)) => {
            unjust("S7")
        }
        LossReason::Taken | LossReason::Broken | LossReason::LockDeleted => {
            let given = lease_of(state, path, token)?;
            let blob = state.service.blob(&given.blob)?;
            // S5: of a lock that was made again at once, two holds may have this token.
            let stands = blob.lease.id() == Some(&*given.id)
                && blob.lease.state(now) == LeaseState::Leased
                && given.ended.is_none()
                && !state.checks.was_made_at_once(path, Some(blob.made));
            if stands { unjust("S8") } else { None }
        }
        LossReason::MaxHoldReached => {
            let bound = state.checks.bounds.get(&key).copied().unwrap_or_default();
            // Clocks differ by a hundredth at most.
            let moves = state.dated.get(&key).copied().unwrap_or_default();
            let early = now + TICK + DATES_DIFFER * moves + bound / 100 < bound;
            if early { unjust("S11") } else { None }
        }
        LossReason::NoProgress => {
            let progress = state.checks.progress.get(&key);
            let early = progress.is_none_or(|(timeout, reported)| {
                now + TICK + *timeout / 100 < *reported + *timeout
            });
            if early { unjust("S11") } else { None }
        }
        LossReason::Shutdown if !state.draining[sidecar] || state.hand_overs.is_ending(sidecar) => {
            unjust("S15")
        }
        LossReason::Expired | LossReason::Shutdown => None,
    }
}

/// S13: a first release is told as done only if the lease was still the hold's when it was asked for, as far
/// as the store could be asked. A hand-off (S10) and a rest (S11) do not ask it, as the lease is kept: they
/// go by the validity, which a deletion or a break at once ends before anybody here can know.
pub(crate) fn released(
    state: &State,
    (sidecar, path): (usize, &LockPath),
    (token, kept): (u64, bool),
    asked: Duration,
) -> Option<String> {
    let given = lease_of(state, path, token)?;
    if given.release_refused {
        return Some(format!("S13: {token} is told released, though the store had refused that"));
    }
    let (at, how) = given.ended?;
    let answered = state.disturbed[sidecar].is_none_or(|at| at + UNDER_WAY < asked);
    let lost = answered && at < asked && how != End::Released;
    let unasked = kept && !given.release_asked && state.checks.is_excused(path, asked);
    (lost && !unasked).then(|| {
        format!("S13: {token} is told released, though its lease ended at {at:?} ({how:?})")
    })
}
