//! What one sidecar promises for all: rests, the reasons of breaks, and who has a lock.

use std::time::Duration;

use leasehold::coordinator::{HoldRequest, LockRecord, LockState};
use leasehold::lock::{FencingToken, Layout, LockPath};
use leasehold::store::BreakNote;

use crate::world::justice::Stream;
use crate::world::losses::lease_of;
use crate::world::shared::State;

/// The bounds that a caller has set to its hold (S11).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wants {
    pub(crate) max_hold: Option<Duration>,
    pub(crate) min_hold: Duration,
    pub(crate) progress: Option<Duration>,
    /// Its lease is renewed.
    pub(crate) renews: bool,
}

impl Wants {
    pub(crate) fn of(request: &HoldRequest) -> Self {
        Self {
            // Without renewals the lease bounds it too.
            max_hold: request.max_hold.filter(|_| request.auto_renew),
            min_hold: request.min_hold,
            progress: request.progress_timeout,
            renews: request.auto_renew,
        }
    }
}

/// A hold that is to last at least so long (S11).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    pub(crate) until: Duration,
    span: Duration,
    /// Where it was granted.
    by: (usize, u32),
}

/// Dates are whole seconds, and front ends differ by up to three: a rest ends by them (S3).
const DATES_DIFFER: Duration = Duration::from_secs(3 + 1);
/// Clocks and timers are as fine as that.
const TICK: Duration = Duration::from_millis(100);
/// A note is not read for longer than this, and was disturbed by what had happened a while before (S7, S17).
const UNDER_WAY: Duration = Duration::from_secs(6);

/// S11: a lock is granted to nobody before the rest of an earlier hold is over, whatever became of its
/// sidecar.
pub(crate) fn granted(
    state: &mut State,
    stream: Stream<'_>,
    (token, min_hold): (u64, Duration),
    now: Duration,
) -> Option<String> {
    let made = state.service.blob(stream.path.as_str()).map(|blob| blob.made);
    let before = state.rests.remove(stream.path);
    let before = before.filter(|rest| made.is_some_and(|made| made < rest.until - rest.span));
    if !min_hold.is_zero() {
        // The end of it is in the record, which is repeated as it was until it is stored: so it counts from
        // then.
        let own = lease_of(state, stream.path, token)
            .and_then(|given| state.first_writes.get(&(given.blob.clone(), given.id.clone())));
        let until = own.copied().unwrap_or(now) + min_hold;
        let rest = Rest { until, span: min_hold, by: stream.sidecar };
        state.rests.insert(stream.path.clone(), rest);
    }
    // S17: whose lease was broken at once hands on until it notices.
    let rest = before.filter(|_| !state.checks.is_excused(stream.path, now))?;
    // Where it was not handed on, the record says when it may be acquired again.
    let early = now + DATES_DIFFER + TICK + rest.span / 100 < rest.until;
    early.then(|| format!("S11: {token} is granted while {} rests: {rest:?}", stream.path))
}

/// What is told of a lock that somebody has.
pub(crate) fn busy(
    state: &mut State,
    (sidecar, path): ((usize, u32), &LockPath),
    record: &LockRecord,
) -> Option<String> {
    if record.state == LockState::Resting {
        let elsewhere = state.rests.get(path).is_some_and(|rest| rest.by != sidecar);
        state.story.count(if elsewhere { "busy: resting elsewhere" } else { "busy: resting here" });
    }
    // Hosts of WebJobs leave no record, so who is recorded may have it no more.
    // Of a hold that this sidecar knows, and may not count as one any more, there is no fingerprint.
    let known_here = record.record.lease.is_none() && !record.record.holder.is_empty();
    let unsure =
        state.layout == Layout::WebJobs && record.state == LockState::Held && !record.held_here;
    if unsure && record.holder_is_last_recorded {
        state.story.count("busy: last recorded");
    }
    let wrong = unsure != record.holder_is_last_recorded && record.state == LockState::Held;
    (wrong && !known_here).then(|| {
        format!("WebJobs: {path} is told to be held by {:?}: {record:?}", record.record.holder)
    })
}

/// S17: who loses its lock by a break is told why, and nothing about another's.
pub(crate) fn broken(
    state: &mut State,
    (stream, token): (Stream<'_>, u64),
    note: Option<&BreakNote>,
    now: Duration,
) -> Option<String> {
    let path = stream.path.as_str();
    let epoch = FencingToken::from_u64(token).map(FencingToken::epoch)?;
    let told = note.map(|note| note.reason.clone());
    if let Some(told) = &told {
        state.story.count("told: lost broken, and why");
        let own = (path.to_owned(), epoch, told.clone());
        let wrong = !state.service.notes.contains(&own);
        return wrong.then(|| format!("S17: {token} is told lost because of another's {told:?}"));
    }
    let reason = state.service.breaks.get(&(path.to_owned(), epoch))?;
    let read = state.disturbed[stream.sidecar.0].is_none_or(|at| at + UNDER_WAY < now);
    let left = state.checks.is_left(&(stream.path.clone(), token), stream.number);
    (read && !left).then(|| format!("S17: {token} is told lost, and not why: {reason}"))
}
