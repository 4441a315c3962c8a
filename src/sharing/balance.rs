//! A lock is moved from a sidecar that has more of a share to one that has least (S35).

use std::time::Duration;

use super::{Seen, Share, Theirs};
use crate::time::Instant;

/// At most one move of a share in this time, whoever makes it.
const BETWEEN_MOVES: Duration = Duration::from_secs(60);
/// Between two tries of this sidecar to begin a move that came to nothing.
const BETWEEN_TRIES: Duration = Duration::from_secs(10);

/// What is remembered of moves.
#[derive(Clone, Debug, Default)]
pub(super) struct Balance {
    /// When a lock was last seen to go from one other sidecar to another.
    others_moved_at: Option<Instant>,
    /// When this sidecar last asked for a break for itself.
    moved_at: Option<Instant>,
    tried_at: Option<Instant>,
}

impl Balance {
    pub(super) const fn others_moved(&mut self, now: Instant) {
        self.others_moved_at = Some(now);
    }

    /// Whether a move may begin now.
    fn may_begin(&self, now: Instant) -> bool {
        let past = |at: Option<Instant>, span| at.is_none_or(|at| now.saturating_since(at) >= span);
        past(self.others_moved_at, BETWEEN_MOVES)
            && past(self.moved_at, BETWEEN_MOVES)
            && past(self.tried_at, BETWEEN_TRIES)
    }
}

impl<K: Ord + Clone> Share<K> {
    /// The lock that is to be moved here, if one is: this sidecar has least of all that are seen, and some
    /// other has at least two more, from which one is chosen by `random`.
    pub fn next_move(&mut self, random: u64, now: Instant) -> Option<K> {
        if !self.balance.may_begin(now) {
            return None;
        }
        let ours = self.held();
        let counts = self.counts();
        let most = counts.values().copied().max()?;
        if counts.values().any(|theirs| *theirs < ours) || most < ours + 2 {
            return None;
        }
        let from_most = |theirs: &Theirs| {
            let sidecar = theirs.sidecar.as_ref().and_then(|sidecar| counts.get(sidecar));
            theirs.yields && sidecar.is_some_and(|count| *count >= ours + 2)
        };
        let candidates: Vec<&K> = self
            .locks
            .iter()
            .filter_map(|(key, lock)| match &lock.seen {
                Seen::Theirs(theirs)
                    if lock.rebalances && theirs.priority == lock.priority && from_most(theirs) =>
                {
                    Some(key)
                }
                Seen::Unknown | Seen::Free | Seen::Ours | Seen::Theirs(_) => None,
            })
            .collect();
        let place = random.checked_rem(u64::try_from(candidates.len()).ok()?)?;
        let chosen = candidates.get(usize::try_from(place).ok()?).copied().cloned()?;
        self.balance.tried_at = Some(now);
        Some(chosen)
    }

    /// A lock is broken so that it moves here.
    pub const fn moved(&mut self, now: Instant) {
        self.balance.moved_at = Some(now);
    }

    /// Whether somebody here waits who wants the share rebalanced.
    #[must_use]
    pub fn rebalances(&self) -> bool {
        self.locks.values().any(|lock| lock.rebalances && lock.seen != Seen::Ours)
    }
}
