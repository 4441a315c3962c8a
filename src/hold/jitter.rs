//! Randomness for spreading requests in time: seeded at construction, so that a schedule replays.

use std::time::Duration;

/// SplitMix64 (Steele, Lea and Flood 2014): good enough to spread, not for secrets.
#[derive(Clone, Debug)]
pub(super) struct Jitter(u64);

impl Jitter {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A span between `least` and `most`, both included.
    pub(super) fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let range = u64::try_from(most.saturating_sub(least).as_micros()).unwrap_or(u64::MAX);
        least + Duration::from_micros(self.next() % range.saturating_add(1).max(1))
    }

    /// `span`, less or more by up to `percent` of it.
    pub(super) fn around(&mut self, span: Duration, percent: u32) -> Duration {
        let most = span / 100 * percent;
        self.between(span.saturating_sub(most), span + most)
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_stay_between_their_bounds_and_replay() {
        let (least, most) = (Duration::from_millis(250), Duration::from_secs(5));
        let mut one = Jitter::new(7);
        let mut two = Jitter::new(7);
        for _ in 0..10_000 {
            let span = one.between(least, most);
            assert!(span >= least && span <= most);
            assert_eq!(span, two.between(least, most));
        }
        assert_eq!(one.between(most, most), most);
        assert_eq!(one.between(most, least), most);
    }
}
