//! Which permit is tried next, and when (S30, S31).

use std::time::Duration;

use crate::hold::Jitter;
use crate::lock::{Permit, Permits};
use crate::time::Instant;

/// The shortest time between two tries, and the time between them where a permit is being handed on (S31).
const FLOOR: Duration = Duration::from_millis(250);
/// The part of a lock's poll cap that passes between two tries of its permits.
const SHARE_OF_CAP: u32 = 5;

/// What is known of a permit that may be tried now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) permit: Permit,
    /// Its record says that callers wait where it is held (S10).
    pub(super) handed_on: bool,
}

/// Sets of permits are bits.
#[derive(Clone, Debug)]
pub(super) struct Chooser {
    jitter: Jitter,
    /// From which permit on the circle goes: random at first (S30).
    next: u8,
    /// The same for those that are handed on, which must hide no other (S31).
    next_handed_on: u8,
    /// Tried since somebody waits here, and not had here since.
    tried: u32,
    /// Seen free last.
    free: u32,
    /// Seen held last.
    taken: u32,
    /// Held here, or on the way back: it is free when it comes back (S30).
    ending: u32,
    /// The last try was one of a permit that is handed on: the next one goes round.
    was_handed_on: bool,
    not_before: Instant,
    /// The store has failed: until then nothing is tried, also no permit that was not tried yet.
    pause_until: Instant,
}

const fn bit(permit: Permit) -> u32 {
    1 << permit.number()
}

impl Chooser {
    pub(super) fn new(seed: u64, now: Instant) -> Self {
        let mut jitter = Jitter::new(seed);
        let start = jitter.between(Duration::ZERO, Duration::from_micros(31));
        Self {
            jitter,
            next: u8::try_from(start.as_micros()).unwrap_or_default(),
            next_handed_on: 0,
            tried: 0,
            free: 0,
            taken: 0,
            ending: 0,
            was_handed_on: false,
            not_before: now,
            pause_until: now,
        }
    }

    /// Somebody waits again after nobody did: what was seen may be old.
    pub(super) const fn begin(&mut self, now: Instant) {
        self.tried = 0;
        self.taken = 0;
        self.not_before = now;
        self.pause_until = now;
    }

    /// The store has failed: it is left alone for as long as a single lock leaves it alone, or as it says
    /// (S8).
    pub(super) fn pause(&mut self, lease_duration: Duration, asked: Duration, now: Instant) {
        let least = self.jitter.between(lease_duration / 30, lease_duration / 12);
        self.pause_until = now + least.max(asked);
    }

    pub(super) fn pauses(&self, now: Instant) -> bool {
        now < self.pause_until
    }

    /// When `permit` may be tried next.
    pub(super) fn next_at(&self, permit: Permit) -> Instant {
        let paced = if self.is_tried(permit) { self.not_before } else { Instant::default() };
        paced.max(self.pause_until)
    }

    /// Whether a permit may be tried once more that was tried before.
    pub(super) fn may_go_round(&self, now: Instant) -> bool {
        now >= self.not_before
    }

    pub(super) const fn is_tried(&self, permit: Permit) -> bool {
        self.tried & bit(permit) != 0
    }

    pub(super) const fn is_taken(&self, permit: Permit) -> bool {
        self.taken & bit(permit) != 0
    }

    /// The store has said whether somebody has this permit.
    pub(super) const fn seen(&mut self, permit: Permit, free: bool) {
        if free {
            self.free |= bit(permit);
            self.taken &= !bit(permit);
        } else {
            self.taken |= bit(permit);
            self.free &= !bit(permit);
        }
    }

    /// A try of this permit has failed.
    pub(super) const fn failed(&mut self, permit: Permit) {
        self.seen(permit, false);
        self.tried |= bit(permit);
    }

    /// Somebody here has this permit.
    pub(super) const fn held(&mut self, permit: Permit) {
        self.ending |= bit(permit);
        self.tried &= !bit(permit);
        self.free &= !bit(permit);
        self.taken &= !bit(permit);
    }

    /// Nothing is under way at this permit any more: if it was held here, it is free.
    pub(super) const fn idle(&mut self, permit: Permit) {
        if self.ending & bit(permit) != 0 {
            self.ending &= !bit(permit);
            self.seen(permit, true);
        }
    }

    /// Chooses one of those that were not tried yet: those that were seen free first, then the rest in a
    /// circle (S30).
    pub(super) fn untried(&self, candidates: &[Choice], of: Permits) -> Option<Permit> {
        let untried: Vec<Choice> = candidates
            .iter()
            .copied()
            .filter(|candidate| !self.is_tried(candidate.permit))
            .collect();
        self.in_order(&untried, self.next, of)
    }

    /// Chooses one of all: every second try is one of a permit that is handed on, if there is any (S31).
    pub(super) fn paced(&mut self, candidates: &[Choice], of: Permits) -> Option<Permit> {
        let handed_on: Vec<Choice> =
            candidates.iter().copied().filter(|candidate| candidate.handed_on).collect();
        let eager = !self.was_handed_on && !handed_on.is_empty();
        self.was_handed_on = eager;
        if eager {
            return self.in_order(&handed_on, self.next_handed_on, of);
        }
        let others: Vec<Choice> =
            candidates.iter().copied().filter(|candidate| !candidate.handed_on).collect();
        self.in_order(&others, self.next, of).or_else(|| self.in_order(candidates, self.next, of))
    }

    fn in_order(&self, candidates: &[Choice], next: u8, of: Permits) -> Option<Permit> {
        let key = |candidate: &Choice| {
            let permit = candidate.permit;
            let is_free = self.free & bit(permit) != 0;
            let place = (permit.number() + of.get() - next % of.get()) % of.get();
            (!is_free, place)
        };
        candidates.iter().min_by_key(|candidate| key(candidate)).map(|candidate| candidate.permit)
    }

    /// A try of `permit` begins: when the next one may, unless there is a permit that was not tried yet.
    pub(super) fn begins(
        &mut self,
        permit: Permit,
        any_handed_on: bool,
        cap: Duration,
        now: Instant,
    ) {
        let next = if self.was_handed_on { &mut self.next_handed_on } else { &mut self.next };
        *next = permit.number() + 1;
        let least = if any_handed_on { FLOOR } else { FLOOR.max(cap / SHARE_OF_CAP) };
        // Sidecars that keep step would always come in the same order.
        self.not_before = now + self.jitter.between(least, least * 6 / 5);
    }
}
