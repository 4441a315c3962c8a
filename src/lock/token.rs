//! The fencing token: a number that grows with every grant of a lock (S5).

use std::fmt;

/// A number that grows with every grant of a lock; a protected resource refuses smaller ones (S5).
///
/// `epoch × 65 536 + n`: the epoch moves with each storage acquisition, `n` with each local hand-off under one
/// lease. Never zero, and below 2^53, so it is exact in every language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

/// Hand-offs that fit under one epoch.
const HANDOFFS: u64 = 1 << 16;
/// The largest epoch whose tokens stay below 2^53.
const MAX_EPOCH: u64 = (1 << 37) - 1;

impl FencingToken {
    /// The token with this value; `None` for zero and for values of 2^53 and more, which are never tokens.
    #[must_use]
    pub const fn from_u64(value: u64) -> Option<Self> {
        if value == 0 || value / HANDOFFS > MAX_EPOCH { None } else { Some(Self(value)) }
    }

    /// The token of a storage acquisition: its epoch is the greater of the stored one plus one and the store's
    /// clock in Unix seconds (S5). `None` when the epochs are used up, which a sane store clock never brings about.
    #[must_use]
    pub fn after_acquisition(stored: Option<Self>, store_unix_seconds: u64) -> Option<Self> {
        let next = stored.map_or(1, |token| token.epoch() + 1);
        let epoch = next.max(store_unix_seconds);
        if epoch > MAX_EPOCH { None } else { Some(Self(epoch * HANDOFFS)) }
    }

    /// The token of the next holder under the same lease (S10); `None` when the hand-offs of this epoch are used up.
    #[must_use]
    pub const fn after_hand_off(self) -> Option<Self> {
        if self.0 % HANDOFFS == HANDOFFS - 1 { None } else { Some(Self(self.0 + 1)) }
    }

    /// The part that moves with each storage acquisition.
    #[must_use]
    pub const fn epoch(self) -> u64 {
        self.0 / HANDOFFS
    }

    /// The number as it is given to holders.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn s5_zero_is_never_a_token() {
        assert_eq!(FencingToken::from_u64(0), None);
        assert!(FencingToken::after_acquisition(None, 0).unwrap().value() > 0);
    }

    #[test]
    fn s5_tokens_stay_exact_in_a_double() {
        assert_eq!(FencingToken::from_u64(1 << 53), None);
        assert!(FencingToken::from_u64((1 << 53) - 1).is_some());
        assert_eq!(FencingToken::after_acquisition(None, 1 << 37), None);
    }

    #[test]
    fn s5_a_lock_made_again_does_not_start_over() {
        let before = FencingToken::after_acquisition(None, 1_000).unwrap();
        let after = FencingToken::after_acquisition(None, 1_001).unwrap();
        assert!(after > before);
    }

    #[test]
    fn s10_hand_offs_of_one_epoch_are_used_up_at_last() {
        let last = FencingToken::from_u64(5 * 65_536 + 65_535).unwrap();
        assert_eq!(last.after_hand_off(), None);
    }

    proptest! {
        #[test]
        fn s5_every_grant_has_a_greater_token(
            stored in 1_u64..(1 << 52), seconds in 0_u64..(1 << 36), hand_offs in 0_usize..20,
        ) {
            let stored = FencingToken::from_u64(stored).unwrap();
            let mut last = FencingToken::after_acquisition(Some(stored), seconds).unwrap();
            prop_assert!(last > stored);
            prop_assert!(last.epoch() >= seconds);
            for _ in 0..hand_offs {
                let next = last.after_hand_off().unwrap();
                prop_assert!(next > last);
                last = next;
            }
            let next = FencingToken::after_acquisition(Some(last), 0).unwrap();
            prop_assert!(next > last);
        }
    }
}
