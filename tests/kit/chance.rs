//! Chance that belongs to what it decides: each choice is drawn from the seed and from what it is about, not
//! from the choices before it. So a fault can be left out of a schedule, and the others stay.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use leasehold::testing::SeededRandom;

/// What a choice is about.
pub(crate) trait Topic: Copy + Ord + fmt::Debug {
    /// A number of its own, below 256.
    fn number(self) -> u8;
}

/// A choice that went against the good course of things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fault {
    about: u8,
    whose: u32,
    number: u32,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.about, self.whose, self.number)
    }
}

/// The faults that may happen; all that the seed says if none.
pub(crate) type Only = Option<BTreeSet<Fault>>;

/// The faults that a text like `6.0.12,9.1.4` names, as [`Fault`] is shown.
pub(crate) fn parse_faults(text: &str) -> BTreeSet<Fault> {
    let parse = |fault: &str| {
        let numbers: Vec<u32> = fault.split('.').map(|number| number.parse().unwrap()).collect();
        let [about, whose, number] = numbers[..] else { panic!("{fault} is no fault") };
        Fault { about: u8::try_from(about).unwrap(), whose, number }
    };
    text.split(',').filter(|fault| !fault.is_empty()).map(parse).collect()
}

/// The choices of one schedule.
#[derive(Clone, Debug)]
pub(crate) struct Chance<About> {
    pub(crate) seed: u64,
    only: Only,
    /// Those that have happened, and how often each kind.
    pub(crate) happened: Vec<Fault>,
    pub(crate) counts: BTreeMap<About, u64>,
}

impl<About: Topic> Chance<About> {
    pub(crate) fn new(seed: u64, only: Only) -> Self {
        Self { seed, only, happened: Vec::new(), counts: BTreeMap::new() }
    }

    /// Randomness for the choice `number` of `whose` about something.
    pub(crate) fn of(&self, about: About, whose: usize, number: u64) -> SeededRandom {
        let key = (u64::from(about.number()) << 56) ^ ((whose as u64) << 40) ^ number;
        let mut mixed = SeededRandom::new(self.seed ^ key.wrapping_mul(0xff51_afd7_ed55_8ccd));
        SeededRandom::new(mixed.next_u64())
    }

    /// Whether a fault happens, `permille` times of a thousand; and the randomness that says how.
    pub(crate) fn fault(
        &mut self,
        about: About,
        (whose, number): (usize, u64),
        permille: u16,
    ) -> Option<SeededRandom> {
        if permille == 0 {
            return None;
        }
        let mut random = self.of(about, whose, number);
        if !random.chance(permille) {
            return None;
        }
        let (whose, number) = (u32::try_from(whose).unwrap(), u32::try_from(number).unwrap());
        let fault = Fault { about: about.number(), whose, number };
        if self.only.as_ref().is_some_and(|only| !only.contains(&fault)) {
            return None;
        }
        self.happened.push(fault);
        *self.counts.entry(about).or_default() += 1;
        Some(random)
    }
}

pub(crate) fn millis(random: &mut SeededRandom, least: u64, most: u64) -> Duration {
    Duration::from_millis(least + random.below(most - least + 1))
}

pub(crate) fn one_of<T: Copy>(random: &mut SeededRandom, choices: &[T]) -> T {
    choices[usize::try_from(random.below(choices.len() as u64)).unwrap()]
}
