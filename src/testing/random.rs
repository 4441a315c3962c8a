//! Randomness that a seed repeats to the bit.

use std::time::Duration;

/// SplitMix64 (Steele, Lea and Flood, 2014): tiny, and good enough to choose faults. Not for secrets.
#[derive(Clone, Debug)]
pub struct SeededRandom {
    state: u64,
}

impl SeededRandom {
    /// The sequence of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; zero if the bound is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The high half of the product: even enough for any bound that tests use.
        let product = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(product >> 64).unwrap_or_default()
    }

    /// True `permille` times of 1,000.
    pub fn chance(&mut self, permille: u16) -> bool {
        self.below(1_000) < u64::from(permille)
    }

    /// A span up to `most`, in whole milliseconds.
    pub fn span(&mut self, most: Duration) -> Duration {
        let millis = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(self.below(millis.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_sequence() {
        let mut first = SeededRandom::new(7);
        let mut second = SeededRandom::new(7);
        let mut other = SeededRandom::new(8);
        let sequence: Vec<u64> = (0..8).map(|_| first.next_u64()).collect();
        assert!(sequence.iter().all(|&number| number == second.next_u64()));
        assert!(sequence.iter().any(|&number| number != other.next_u64()));
    }

    #[test]
    fn the_sequence_is_that_of_splitmix64() {
        // The reference vector of Vigna's splitmix64.c for the seed 1234567.
        let mut random = SeededRandom::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn bounds_are_kept_and_reached() {
        let mut random = SeededRandom::new(1);
        let drawn: Vec<u64> = (0..1_000).map(|_| random.below(4)).collect();
        for number in 0..4 {
            assert!(drawn.contains(&number));
        }
        assert!(drawn.iter().all(|&number| number < 4));
        assert!((0..1_000).all(|_| random.chance(1_000) && !random.chance(0)));
        assert_eq!(random.span(Duration::ZERO), Duration::ZERO);
    }
}
