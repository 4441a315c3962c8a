//! Randomness for spreading requests in time: seeded at construction, so that a schedule replays.

use std::fmt;
use std::time::Duration;

/// SplitMix64 (Steele, Lea and Flood 2014): good enough to spread, not for secrets.
#[derive(Clone, Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A span between `least` and `most`, both included.
    pub(crate) fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let range = u64::try_from(most.saturating_sub(least).as_micros()).unwrap_or(u64::MAX);
        least + Duration::from_micros(self.next() % range.saturating_add(1).max(1))
    }

    /// `span`, less or more by up to `percent` of it.
    pub(crate) fn around(&mut self, span: Duration, percent: u32) -> Duration {
        let most = span / 100 * percent;
        self.between(span.saturating_sub(most), span + most)
    }

    pub(super) const fn write_name(&mut self) -> WriteName {
        WriteName(self.next())
    }

    /// The text of one.
    pub(super) fn name(&mut self) -> String {
        self.write_name().to_string()
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// A name for a write: another has the same with a chance of 1 in 2^64.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteName(u64);

impl fmt::Display for WriteName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
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

    #[test]
    fn spans_around_another_use_all_of_their_room() {
        let mut jitter = Jitter::new(7);
        let spans: Vec<_> =
            (0..1_000).map(|_| jitter.around(Duration::from_secs(10), 20)).collect();
        let (least, most) = (spans.iter().min().unwrap(), spans.iter().max().unwrap());
        assert!(*least >= Duration::from_secs(8) && *least < Duration::from_millis(8_100));
        assert!(*most <= Duration::from_secs(12) && *most > Duration::from_millis(11_900));
    }

    #[test]
    fn the_numbers_are_those_of_split_mix_64() {
        // From its authors' C code, as published with this seed.
        let mut jitter = Jitter::new(1_234_567);
        let numbers: Vec<u64> = (0..3).map(|_| jitter.next()).collect();
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }
}
