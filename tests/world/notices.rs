//! Notices (S22): who may be told one, what is told after it, and that an end that comes sooner is learned.

use std::time::Duration;

use leasehold::coordinator::{HeldEvent, HoldEvent, LossReason};
use leasehold::lock::{FencingToken, LockPath};
use leasehold::store::{BreakNote, BreakPeriod};

use crate::world::checks::Key;
use crate::world::hand_over::TICK;
use crate::world::justice::{Stream, Told, UNDER_WAY};
use crate::world::lease::State as LeaseState;
use crate::world::losses::lease_of;
use crate::world::shared::{State, World};
use crate::world::sidecar::{SECOND, Sidecar};

/// What a clock elsewhere may be off by, of the longest validity.
const SLACK: Duration = Duration::from_secs(1);

fn epoch_of(token: u64) -> Option<u64> {
    FencingToken::from_u64(token).map(FencingToken::epoch)
}

/// A holder is told once that its lease was broken and runs out, and it keeps what it was told before.
/// Somebody else's break is no notice.
pub(crate) fn revoked(
    state: &mut State,
    stream: Stream<'_>,
    (token, known): (u64, Duration),
    (until, note): (Duration, Option<&BreakNote>),
) -> Option<String> {
    state.story.count("told: revoked");
    if state.checks.revoked.insert(stream.number, until).is_some() {
        return Some(format!("S22: {token} is told twice that it is revoked"));
    }
    let noted = epoch_of(token)
        .is_some_and(|epoch| state.service.run_out.contains_key(&(stream.path.to_string(), epoch)));
    if !noted {
        return Some(format!("S22: {token} is told a notice, and nobody has left a note of it"));
    }
    if note.is_none_or(|note| note.token.map(FencingToken::epoch) != epoch_of(token)) {
        return Some(format!("S22: {token} is told the notice of another: {note:?}"));
    }
    let known = state.checks.told_until(&(stream.path.clone(), token), known);
    // An extension may have ended the hold sooner than its holder was told before.
    (until > known + TICK)
        .then(|| format!("S22: {token} is revoked until {until:?}, and was valid until {known:?}"))
}

/// What a holder is told of its validity: it counts as promised, and does not grow after a notice.
pub(crate) fn validity(
    state: &mut State,
    stream: Stream<'_>,
    (token, event): (u64, &HoldEvent),
    until: Duration,
) -> Option<String> {
    promised(state, (stream.path.clone(), token), until);
    let deadline = *state.checks.revoked.get(&stream.number)?;
    let renewed = matches!(event, HoldEvent::Held(HeldEvent::Renewed(_) | HeldEvent::Recovered(_)));
    (renewed || until > deadline + TICK)
        .then(|| format!("S22: {token} is told {event:?} after its notice until {deadline:?}"))
}

pub(crate) fn promised(state: &mut State, key: Key, until: Duration) {
    let promised = state.checks.promised.entry(key).or_default();
    *promised = until.max(*promised);
}

/// S21, S22: nobody acts past the end that it was told last.
pub(crate) fn acts(state: &State, key: &Key, now: Duration) -> Option<String> {
    let until = state.checks.promised.get(key).copied().unwrap_or_default();
    (now > until + SLACK).then(|| format!("S22: {} is used at {now:?}, past {until:?}", key.1))
}

/// A break that left its note, and whose lease runs out, is told as a notice first, and as a loss at its end.
pub(crate) fn lost(
    state: &State,
    stream: Stream<'_>,
    ((token, until), reason): ((u64, Duration), LossReason),
    now: Duration,
) -> Option<String> {
    let told = state.checks.revoked.contains_key(&stream.number);
    if reason != LossReason::Broken || told || !stream.wants.renews || until < now + UNDER_WAY {
        return None;
    }
    let key = (stream.path.clone(), token);
    let epoch = epoch_of(token)?;
    let noted = *state.service.run_out.get(&(stream.path.to_string(), epoch))?;
    let given = lease_of(state, stream.path, token)?;
    let blob = state.service.blob(&given.blob)?;
    let stands = blob.lease.id() == Some(&*given.id)
        && blob.lease.state(now) == LeaseState::Breaking
        && given.ended.is_none();
    let excused = state.released.contains(&key)
        || state.checks.is_left(&key, stream.number)
        || state.dated.contains_key(&key)
        || now < noted + UNDER_WAY
        || state.disturbed[stream.sidecar.0].is_some_and(|at| now < at + UNDER_WAY)
        || hard(state, &given.blob);
    (stands && !excused).then(|| {
        format!("S22: {token} is told lost {:?} before its lease has run out", until - now)
    })
}

/// Whether the note beside a lock says that its lease was ended at once.
fn hard(state: &State, lock: &str) -> bool {
    let Some((container, name)) = lock.split_once('/') else { return false };
    let note = state.service.blob(&format!("{container}/leasehold-breaks/{name}"));
    let period = note.and_then(|note| note.metadata.get("x-ms-meta-period"));
    period.is_none_or(|period| period != "run-out")
}

/// After a notice: a lease that ends sooner is found over by two looks.
pub(crate) fn watch(
    world: &World,
    sidecar: &Sidecar,
    number: u64,
    (path, token): (&LockPath, u64),
    deadline: Duration,
) {
    let (world, sidecar, path) = (world.clone(), sidecar.clone(), path.clone());
    let looks = (world.lease() / 30).max(SECOND) * 2 + SLACK * 2;
    tokio::spawn(async move {
        let mut ended: Option<Duration> = None;
        loop {
            tokio::time::sleep(SECOND / 4).await;
            let now = world.now();
            let mut state = world.state();
            if !matches!(state.checks.told.get(&number), Some(Told::Held { .. })) {
                if ended.is_some() && now < deadline {
                    state.story.count("notices: an earlier end learned");
                }
                return;
            }
            let unheard = state.checks.unheard.contains(&number)
                || state.released.contains(&(path.clone(), token));
            if now + TICK >= deadline || unheard || !sidecar.is_alive() {
                return;
            }
            let Some(given) = lease_of(&state, &path, token) else { return };
            let blob = state.service.blob(&given.blob);
            let stands = blob.is_some_and(|blob| {
                let runs =
                    matches!(blob.lease.state(now), LeaseState::Leased | LeaseState::Breaking);
                blob.lease.id() == Some(&*given.id) && runs
            });
            let since = *ended.get_or_insert(now);
            if stands {
                ended = None;
                continue;
            }
            let disturbed = state.disturbed[sidecar.index].is_some_and(|at| at + looks > since);
            if disturbed || state.draining[sidecar.index] {
                return;
            }
            drop(state);
            if now > since + looks {
                world.fail(format!(
                    "S22: the lease of {token} ended at {since:?}, and two looks do not show it"
                ));
                return;
            }
        }
    });
}

/// A note that nobody has written.
pub(crate) fn made_up(token: Option<FencingToken>) -> BreakNote {
    BreakNote {
        period: BreakPeriod::RunOut,
        reason: "made up".to_owned(),
        by: String::new(),
        token,
        at: leasehold::time::UnixMillis(0),
        for_priority: None,
    }
}
