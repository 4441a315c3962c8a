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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const CAP: Duration = Duration::from_secs(5);

    fn permit(number: u8) -> Permit {
        Permit::new(number).unwrap()
    }

    fn at(millis: u64) -> Instant {
        Instant::from_boot(Duration::from_millis(millis))
    }

    /// One whose circle goes from permit 1 on.
    fn chooser() -> Chooser {
        let mut chooser = Chooser::new(1, at(1_000));
        chooser.begins(permit(0), false, CAP, at(0));
        chooser
    }

    fn choices<const N: usize>(numbers: [(u8, bool); N]) -> [Choice; N] {
        numbers.map(|(number, handed_on)| Choice { permit: permit(number), handed_on })
    }

    fn untried(chooser: &Chooser) -> Option<u8> {
        let all = choices([(0, false), (1, false), (2, false)]);
        chooser.untried(&all, Permits::new(3).unwrap()).map(Permit::number)
    }

    #[test]
    fn s30_permits_are_tried_in_a_circle_those_that_were_seen_free_first() {
        let mut chooser = chooser();
        for next in [Some(1), Some(2), Some(0), None] {
            assert_eq!(untried(&chooser), next);
            if let Some(tried) = next {
                chooser.failed(permit(tried));
                assert!(chooser.is_tried(permit(tried)) && chooser.is_taken(permit(tried)));
            }
        }
        chooser.begin(at(0));
        assert!((0..3).all(|number| !chooser.is_tried(permit(number))));
        assert!((0..3).all(|number| !chooser.is_taken(permit(number))));
        chooser.seen(permit(0), true);
        assert_eq!(untried(&chooser), Some(0));
        chooser.seen(permit(0), false);
        assert_eq!((untried(&chooser), chooser.is_taken(permit(0))), (Some(1), true));
        chooser.seen(permit(0), true);
        assert!(!chooser.is_taken(permit(0)));
    }

    #[test]
    fn s30_a_permit_that_was_held_here_is_free_when_it_is_back() {
        let mut chooser = chooser();
        chooser.idle(permit(0));
        assert_eq!(untried(&chooser), Some(1), "it was not held here");
        chooser.failed(permit(0));
        chooser.held(permit(0));
        assert!(!chooser.is_tried(permit(0)) && !chooser.is_taken(permit(0)));
        chooser.idle(permit(0));
        assert_eq!(untried(&chooser), Some(0));
        chooser.held(permit(0));
        assert_eq!(untried(&chooser), Some(1), "it is not free now");
        chooser.idle(permit(0));
        chooser.seen(permit(0), false);
        chooser.idle(permit(0));
        assert_eq!(untried(&chooser), Some(1), "that was said once");
    }

    #[test]
    fn s31_every_second_try_is_one_of_a_permit_that_is_handed_on() {
        let mut chooser = chooser();
        let of = Permits::new(4).unwrap();
        let all = choices([(0, true), (1, false), (2, false), (3, true)]);
        let mut tried = Vec::new();
        for _ in 0..6 {
            let chosen = chooser.paced(&all, of).unwrap();
            chooser.begins(chosen, true, CAP, at(0));
            tried.push(chosen.number());
        }
        assert_eq!(tried, [0, 1, 3, 2, 0, 1]);
        // Where all are handed on, the other try goes round as well.
        let all = choices([(0, true), (3, true)]);
        for expected in [3, 3, 0, 0] {
            let chosen = chooser.paced(&all, of).unwrap();
            chooser.begins(chosen, true, CAP, at(0));
            assert_eq!(chosen.number(), expected);
        }
        assert_eq!(chooser.paced(&[], of), None);
    }

    #[test]
    fn s31_tries_keep_the_pace_of_a_fifth_of_the_poll_cap_or_of_a_hand_off() {
        let cases = [(false, CAP, 1_000), (true, CAP, 250), (false, Duration::from_secs(1), 250)];
        for (handed_on, cap, least) in cases {
            let mut spread = BTreeSet::new();
            for seed in 0..50 {
                let mut chooser = Chooser::new(seed, at(0));
                chooser.failed(permit(2));
                chooser.begins(permit(2), handed_on, cap, at(100));
                let next = chooser.next_at(permit(2));
                assert!(next >= at(100 + least) && next <= at(100 + least * 6 / 5), "{next:?}");
                assert!(chooser.may_go_round(next) && !chooser.may_go_round(at(100 + least - 1)));
                assert_eq!(chooser.next_at(permit(1)), at(0), "it was not tried");
                spread.insert(next);
            }
            assert!(spread.len() > 10, "no two sidecars keep step: {spread:?}");
        }
    }

    #[test]
    fn s8_a_store_that_fails_is_left_alone_for_all_permits() {
        let lease_duration = Duration::from_secs(30);
        let mut chooser = chooser();
        chooser.begin(at(0));
        assert!(!chooser.pauses(at(0)));
        chooser.pause(lease_duration, Duration::ZERO, at(0));
        assert!(chooser.pauses(at(999)) && !chooser.pauses(at(2_500)));
        let until = chooser.next_at(permit(1));
        assert!(until >= at(1_000) && until <= at(2_500), "{until:?}");
        assert!(
            chooser.pauses(until.saturating_sub(Duration::from_millis(1)))
                && !chooser.pauses(until)
        );
        chooser.pause(lease_duration, Duration::from_secs(9), at(0));
        assert_eq!(chooser.next_at(permit(1)), at(9_000));
        chooser.begin(at(10));
        assert!(!chooser.pauses(at(10)) && chooser.may_go_round(at(10)));
    }
}
