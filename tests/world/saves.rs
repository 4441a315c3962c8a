//! What becomes of checkpoints (S23 to S27): the ledgers of the first simulator, one a lock, fed by what
//! arrives at the service, by what its clients are granted, and by what their saves are answered with.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::coordinator::{CallError, CheckpointOutcome, Concluding, Grant, Released, Saved};
use leasehold::record::Fields;
use leasehold::testing::Asked;

use crate::kit::Counts;
use crate::simulation::ledger::{Ledger, SaveAnswer};
use crate::world::justice::Stream;
use crate::world::shared::State;

/// Dates are whole seconds, front ends differ by up to three, and a grant is told later than it is written:
/// the tokens of a lock that is deleted so soon after its last grant may not grow (S5).
const TOO_SOON: Duration = Duration::from_secs(5 + 3 + 5);
/// A request whose course was not disturbed within this is known to its sidecar (S7).
const SETTLED: Duration = Duration::from_secs(6);
/// How long refused credentials may be felt (S8).
const SIGN_IN: Duration = Duration::from_secs(25);
const METADATA: &str = "x-ms-meta-";

/// The saves of all locks.
#[derive(Debug, Default)]
pub(crate) struct Saves {
    locks: BTreeMap<String, Lock>,
}

#[derive(Debug, Default)]
struct Lock {
    ledger: Ledger,
    granted: Duration,
}

impl Saves {
    pub(crate) fn ledger(&mut self, lock: &str) -> &mut Ledger {
        &mut self.locks.entry(lock.to_owned()).or_default().ledger
    }

    /// A record write has arrived at the service, and was done or not.
    pub(crate) fn arrived(
        &mut self,
        lock: &str,
        (asked, number): (&Asked, u64),
        done: bool,
    ) -> Result<(), String> {
        let fields = fields(asked);
        let ledger = self.ledger(lock);
        ledger.reached(&fields, number);
        if done { ledger.wrote(&fields) } else { Ok(()) }
    }

    /// A record write was refused before it arrived.
    pub(crate) fn turned_away(&mut self, lock: &str, (asked, number): (&Asked, u64)) {
        self.ledger(lock).reached(&fields(asked), number);
    }

    pub(crate) fn deleted(&mut self, lock: &str, now: Duration) {
        if let Some(lock) = self.locks.get_mut(lock) {
            lock.ledger.reset(None, now < lock.granted + TOO_SOON);
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut all = Counts::new();
        for (name, count) in self.locks.values().flat_map(|lock| &lock.ledger.counts) {
            *all.entry((*name).to_owned()).or_default() += count;
        }
        all
    }
}

fn fields(asked: &Asked) -> Fields {
    let field = |(name, value): &(String, String)| {
        Some((name.strip_prefix(METADATA)?.to_owned(), value.clone()))
    };
    asked.headers.iter().filter_map(field).collect()
}

/// S25: a grant carries what was saved last.
pub(crate) fn granted(
    state: &mut State,
    stream: Stream<'_>,
    grant: &Grant,
    now: Duration,
) -> Option<String> {
    let excused = state.checks.is_excused(stream.path, now);
    let made = state.service.blob(stream.path.as_str()).map(|blob| blob.made);
    let lock = state.service.saves.locks.entry(stream.path.to_string()).or_default();
    lock.granted = now;
    // One of before the lock was deleted may be told after that: it says nothing of the order of those to
    // come (S5).
    let counts = made.is_some_and(|made| made + TOO_SOON < now);
    lock.ledger.granted((grant.token, counts), grant.checkpoint.as_ref(), excused).err()
}

/// What the answer of a save says.
pub(crate) fn answer_of(saved: &Result<Saved, CallError>) -> SaveAnswer {
    match saved {
        Ok(Saved { version, .. }) => SaveAnswer::Stored { version: *version },
        Err(CallError::CheckpointUnknown) => SaveAnswer::Unknown,
        Err(CallError::StoreFailure(store_failure)) => {
            SaveAnswer::Refused(store_failure.message.clone())
        }
        Err(_) => SaveAnswer::Ended,
    }
}

/// What the answer of a release says of the save that came with it; one that was refused was never asked for.
pub(crate) fn answer_of_release(concluding: &Result<Concluding, CallError>) -> SaveAnswer {
    match concluding.as_ref().map(|concluding| &concluding.checkpoint) {
        Ok(Some(CheckpointOutcome::Saved { version })) => SaveAnswer::Stored { version: *version },
        Ok(Some(CheckpointOutcome::Unknown { .. })) => SaveAnswer::Unknown,
        Ok(Some(CheckpointOutcome::NotSaved { detail })) => SaveAnswer::Refused(detail.clone()),
        // The sidecar could not say what became of the release, nor of what came before it.
        Err(CallError::StoreFailure(_)) => SaveAnswer::Unknown,
        Ok(None) | Err(_) => SaveAnswer::Ended,
    }
}

/// S26: who releases with a save, and is told that this hold is released, has it stored first, unless
/// something stood against that.
pub(crate) fn released(
    state: &State,
    sidecar: usize,
    (released, answer): (&Released, &SaveAnswer),
    asked: Duration,
) -> Option<String> {
    let done = matches!(released, Released::Released | Released::Resting { .. });
    let excused = state.disturbed[sidecar].is_some_and(|at| asked < at + SETTLED)
        || state.service.policy.is_some_and(|(until, _)| asked < until + SETTLED)
        || state.signed_in_vain[sidecar].is_some_and(|at| asked < at + SIGN_IN)
        || state.signing_in[sidecar].is_some();
    let stored = matches!(answer, SaveAnswer::Stored { .. });
    (done && !stored && !excused)
        .then(|| format!("S26: a hold is released before its save is stored: {answer:?}"))
}
