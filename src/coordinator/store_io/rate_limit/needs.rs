//! What the leases that this sidecar renews need of the store, so that no budget starves them (S7). Pure: the
//! time is an argument, and the leases are told.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::time::Instant;

/// A lease that is renewed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::coordinator) struct Lease {
    /// The end of its validity, unless it is renewed before.
    pub(in crate::coordinator) valid_until: Instant,
    /// D, the duration of the lease.
    pub(in crate::coordinator) lease_duration: Duration,
}

/// Ends of validity are told apart by so much: an earlier end within it is counted as the earliest.
const SLOT: Duration = Duration::from_millis(250);
/// Renewals of a lease in each D, in peace (S7).
const IN_PEACE: u64 = 3;
/// A lease has its try before so much of the validity that it has left is over: for one that is due after
/// D/3, before 0.85 D. The rest is for a second try.
const TRIED_WITHIN: f64 = 0.8;
/// The floor of a budget is at most so many times what the leases ask in peace.
const MOST: f64 = 2.0;

/// All leases that are renewed here, as counts: an update costs the same however many there are, and a
/// question goes over the slots of one lease duration.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// How many end in each slot.
    ends: BTreeMap<u64, u32>,
    /// Millionths of a request a second that they ask in peace; whole, so that what is added and taken off is
    /// the same.
    in_peace: u64,
}

impl Needs {
    pub(super) fn add(&mut self, lease: Lease) {
        *self.ends.entry(slot(lease.valid_until)).or_default() += 1;
        self.in_peace += in_peace(lease);
    }

    /// Takes off a lease that was added.
    pub(super) fn remove(&mut self, lease: Lease) {
        let slot = slot(lease.valid_until);
        let Some(count) = self.ends.get_mut(&slot) else {
            debug_assert!(false, "{lease:?} was not added");
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.ends.remove(&slot);
        }
        self.in_peace -= in_peace(lease);
    }

    /// Requests a second in peace: what those need at most that are due within the next D/3.
    pub(super) fn in_peace(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
        let millionths = self.in_peace as f64;
        millionths / 1e6
    }

    /// Requests a second at which each lease has its try in time, if the one that ends first goes first.
    pub(super) fn least(&self, now: Instant) -> f64 {
        let mut before = 0.0;
        let mut least: f64 = 0.0;
        for (slot, count) in &self.ends {
            before += f64::from(*count);
            let left = (SLOT * u32::try_from(*slot).unwrap_or(u32::MAX))
                .saturating_sub(now.since_boot())
                .max(SLOT);
            least = least.max(before / (left.as_secs_f64() * TRIED_WITHIN));
        }
        least.min(self.in_peace() * MOST)
    }
}

fn slot(end: Instant) -> u64 {
    u64::try_from(end.since_boot().as_millis() / SLOT.as_millis()).unwrap_or(u64::MAX)
}

fn in_peace(lease: Lease) -> u64 {
    let millis = u64::try_from(lease.lease_duration.as_millis()).unwrap_or(u64::MAX).max(1);
    IN_PEACE * 1_000_000_000 / millis
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: f64) -> Instant {
        Instant::from_boot(Duration::from_secs_f64(seconds))
    }

    fn lease(until: f64, seconds: u64) -> Lease {
        Lease { valid_until: at(until), lease_duration: Duration::from_secs(seconds) }
    }

    #[test]
    fn s7_what_leases_ask_in_peace_is_three_in_each_duration() {
        let mut needs = Needs::default();
        assert_eq!((needs.in_peace(), needs.least(at(0.0))), (0.0, 0.0));
        for _ in 0..1_000 {
            needs.add(lease(100.0, 60));
        }
        assert!((needs.in_peace() - 50.0).abs() < 1e-3, "{needs:?}");
        needs.add(lease(100.0, 15));
        assert!((needs.in_peace() - 50.2).abs() < 1e-3, "{needs:?}");
    }

    #[test]
    fn s7_a_lease_that_is_due_has_its_try_before_seventeen_twentieths_of_its_duration() {
        for (seconds, validity) in [(15, 14.2), (30, 28.9), (60, 58.3)] {
            let mut needs = Needs::default();
            let sent = 1_000.0;
            for _ in 0..100 {
                needs.add(lease(sent + validity, seconds));
            }
            #[expect(clippy::cast_precision_loss, reason = "a few seconds")]
            let duration = seconds as f64;
            let due = sent + duration / 3.0;
            let last = due + 100.0 / needs.least(at(due));
            assert!(last <= sent + 0.85 * duration, "{seconds}: {}", last - sent);
        }
    }

    #[test]
    fn s7_the_first_to_end_decide_as_much_as_all_together() {
        let mut needs = Needs::default();
        for number in 0..1_000 {
            needs.add(lease(100.0 + f64::from(number % 20), 60));
        }
        let together = needs.least(at(60.0));
        for _ in 0..40 {
            needs.add(lease(64.0, 60));
        }
        assert!(needs.least(at(60.0)) > together && needs.least(at(60.0)) >= 12.0, "{needs:?}");
        // What cannot be in time any more asks for no more than twice what is asked in peace.
        assert!((needs.least(at(200.0)) - 2.0 * needs.in_peace()).abs() < 1e-6);
    }

    proptest! {
        #[test]
        fn s7_what_is_taken_off_leaves_nothing_behind(
            leases in prop::collection::vec((0.0_f64..90.0, 15_u64..=60), 0..60),
            now in 0.0_f64..100.0,
        ) {
            let leases: Vec<_> = leases.into_iter().map(|(until, d)| lease(until, d)).collect();
            let mut needs = Needs::default();
            let mut last = 0.0;
            for one in &leases {
                needs.add(*one);
                prop_assert!(needs.least(at(now)) >= last, "one more never asks for less");
                prop_assert!(needs.least(at(now)) <= MOST * needs.in_peace());
                last = needs.least(at(now));
            }
            for one in &leases {
                needs.remove(*one);
            }
            prop_assert!(needs.ends.is_empty() && needs.in_peace == 0, "{:?}", needs);
        }
    }
}
