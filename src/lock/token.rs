//! The fencing token: a number that grows with every grant of a lock (S5).

use std::fmt;
use std::num::NonZeroU64;

use crate::time::UnixMillis;

/// A number that grows with every grant of a lock; a protected resource refuses smaller ones (S5).
///
/// `epoch × 4 096 + n`: the epoch moves with each storage acquisition, `n` with each local hand-off under one
/// lease. Never zero, and below 2^53, so it is exact in every language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(NonZeroU64);

/// Hand-offs that fit under one epoch.
const HANDOFFS: u64 = 1 << 12;
/// The largest epoch whose tokens stay below 2^53: it is reached in 2089.
const MAX_EPOCH: u64 = (1 << 41) - 1;
/// 2020-01-01 UTC, from which epochs are counted, in milliseconds since the Unix epoch.
const EPOCHS_BEGIN: u64 = 1_577_836_800_000;

impl FencingToken {
    /// The token with this value; `None` for zero and for values of 2^53 and more, which are never tokens.
    #[must_use]
    pub const fn from_u64(value: u64) -> Option<Self> {
        match NonZeroU64::new(value) {
            Some(value) if value.get() / HANDOFFS <= MAX_EPOCH => Some(Self(value)),
            Some(_) | None => None,
        }
    }

    /// The token of a storage acquisition: its epoch is the greater of the stored one plus one and the
    /// store's clock (S5). `None` when the epochs are used up, which a correct store clock never causes.
    #[must_use]
    pub fn after_acquisition(stored: Option<Self>, store_time: UnixMillis) -> Option<Self> {
        let next = stored.map_or(1, |token| token.epoch() + 1);
        let epoch = next.max(Self::epoch_at(store_time));
        if epoch > MAX_EPOCH { None } else { Self::from_u64(epoch * HANDOFFS) }
    }

    /// The epoch that the store's clock alone gives: milliseconds since 2020-01-01 UTC; 0 for a clock before
    /// that.
    #[must_use]
    pub const fn epoch_at(store_time: UnixMillis) -> u64 {
        store_time.0.saturating_sub(EPOCHS_BEGIN)
    }

    /// The token of the next holder under the same lease (S10); `None` when the hand-offs of this epoch are
    /// used up.
    #[must_use]
    pub const fn after_hand_off(self) -> Option<Self> {
        if self.hand_offs() == HANDOFFS - 1 { None } else { Some(Self(self.0.saturating_add(1))) }
    }

    /// The part that moves with each storage acquisition.
    #[must_use]
    pub const fn epoch(self) -> u64 {
        self.0.get() / HANDOFFS
    }

    /// The part that counts the hand-offs under one lease: 0 for the first holder.
    #[must_use]
    pub const fn hand_offs(self) -> u64 {
        self.0.get() % HANDOFFS
    }

    /// The number as it is given to holders.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0.get()
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

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

    #[test]
    fn s5_zero_is_never_a_token() {
        assert_eq!(FencingToken::from_u64(0), None);
        let first = FencingToken::after_acquisition(None, UnixMillis(0)).unwrap();
        assert_eq!(first.value(), 4_096, "a clock before 2020 counts as 0");
    }

    #[test]
    fn s5_tokens_stay_exact_in_a_double() {
        assert_eq!(FencingToken::from_u64(1 << 53), None);
        assert!(FencingToken::from_u64((1 << 53) - 1).is_some());
        let last = UnixMillis(EPOCHS_BEGIN + (1 << 41) - 1);
        assert!(FencingToken::after_acquisition(None, last).is_some());
        let over = UnixMillis(EPOCHS_BEGIN + (1 << 41));
        assert_eq!(FencingToken::after_acquisition(None, over), None);
    }

    #[test]
    fn s5_epochs_are_milliseconds_since_2020() {
        let token = FencingToken::after_acquisition(None, NOW).unwrap();
        assert_eq!(token.epoch(), 1_800_000_000_000 - 1_577_836_800_000);
        assert_eq!(token.hand_offs(), 0);
    }

    #[test]
    fn s5_a_lock_made_again_does_not_start_over() {
        let mut token = FencingToken::after_acquisition(None, NOW).unwrap();
        for taken in 1..=1_000 {
            let time = UnixMillis(NOW.0 + taken);
            token = FencingToken::after_acquisition(Some(token), time).unwrap();
        }
        // A thousand acquisitions in a second do not run ahead of the clock.
        let again = FencingToken::after_acquisition(None, UnixMillis(NOW.0 + 1_001)).unwrap();
        assert!(again > token);
    }

    #[test]
    fn s10_hand_offs_of_one_epoch_are_used_up_at_last() {
        let last = FencingToken::from_u64(5 * 4_096 + 4_095).unwrap();
        assert_eq!((last.after_hand_off(), last.hand_offs()), (None, 4_095));
        let next = FencingToken::after_acquisition(Some(last), UnixMillis(0)).unwrap();
        assert_eq!(next.value(), 6 * 4_096);
    }

    proptest! {
        #[test]
        fn s5_every_grant_has_a_greater_token(
            stored in 1_u64..(1 << 52), time in 0_u64..(1 << 40), hand_offs in 0_usize..20,
        ) {
            let stored = FencingToken::from_u64(stored).unwrap();
            let time = UnixMillis(EPOCHS_BEGIN + time);
            let mut last = FencingToken::after_acquisition(Some(stored), time).unwrap();
            prop_assert!(last > stored);
            prop_assert!(last.epoch() >= FencingToken::epoch_at(time));
            for _ in 0..hand_offs {
                let next = last.after_hand_off().unwrap();
                prop_assert!(next > last);
                last = next;
            }
            let next = FencingToken::after_acquisition(Some(last), UnixMillis(0)).unwrap();
            prop_assert!(next > last);
        }
    }
}
