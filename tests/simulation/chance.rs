//! Chance that belongs to what it decides: each choice is drawn from the seed and from what it is about, not
//! from the choices before it. So a fault can be left out of a schedule, and the others stay.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use leasehold::testing::SeededRandom;

use crate::simulation::rivals::RIVALS;

/// What a choice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum About {
    /// How the whole schedule is.
    Plan,
    /// A client comes.
    Arrival,
    /// What a client does next.
    Act,
    /// How long something takes.
    Delay,
    /// Something happens to a sidecar, a machine or the store.
    Trouble,
    LoseRequest,
    LoseAnswer,
    RepeatRequest,
    DelayRequest,
    DelayAnswer,
    /// The connection is reset: the outcome is unknown at once.
    Reset,
    DelayMessage,
    /// A record write is held up (S13).
    LateWrite,
    /// A renewal is answered after its time-out (S2).
    SlowAnswer,
    /// The store's clock is set (S5, S11).
    StoreClock,
    /// A client saves, and how it takes a notice (S22, S23).
    Save,
    /// A lock is broken, now or with a delay (S17, S22).
    Break,
    /// A client that has released resumes all the same (S16).
    Ghost,
    /// A renewal waits for its turn (S7).
    HeldBack,
}

/// A choice that went against the good course of things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Fault {
    about: About,
    whose: u32,
    number: u32,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.about as u8, self.whose, self.number)
    }
}

/// The faults that a text like `6.0.12,9.1.4` names, as [`Fault`] is shown.
pub(crate) fn parse_faults(text: &str) -> Option<BTreeSet<[u32; 3]>> {
    let numbers = |fault: &str| {
        let numbers: Result<Vec<u32>, _> = fault.split('.').map(str::parse).collect();
        numbers.ok()?.try_into().ok()
    };
    text.split(',').filter(|fault| !fault.is_empty()).map(numbers).collect()
}

/// The choices of one schedule.
#[derive(Clone, Debug)]
pub(crate) struct Chance {
    seed: u64,
    /// Only these faults happen; all that the seed says if none.
    only: Option<BTreeSet<[u32; 3]>>,
    /// Those that have happened, and how often each kind.
    pub(crate) happened: Vec<Fault>,
    pub(crate) counts: BTreeMap<About, u64>,
}

impl Chance {
    pub(crate) fn new(seed: u64, only: Option<BTreeSet<[u32; 3]>>) -> Self {
        Self { seed, only, happened: Vec::new(), counts: BTreeMap::new() }
    }

    /// Whether callers have priorities (S33).
    pub(crate) const fn has_rivals(&self) -> bool {
        self.seed >= RIVALS
    }

    /// Randomness for the choice `number` of `whose` about something.
    pub(crate) fn of(&self, about: About, whose: usize, number: u64) -> SeededRandom {
        let key = ((about as u64) << 56) ^ ((whose as u64) << 40) ^ number;
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
        let mut random = self.of(about, whose, number);
        if !random.chance(permille) {
            return None;
        }
        let (whose, number) = (u32::try_from(whose).unwrap(), u32::try_from(number).unwrap());
        let fault = Fault { about, whose, number };
        if self.only.as_ref().is_some_and(|only| !only.contains(&[about as u32, whose, number])) {
            return None;
        }
        self.happened.push(fault);
        *self.counts.entry(about).or_default() += 1;
        Some(random)
    }
}

impl Fault {
    pub(crate) fn key(self) -> [u32; 3] {
        [self.about as u32, self.whose, self.number]
    }
}

pub(crate) fn millis(random: &mut SeededRandom, least: u64, most: u64) -> Duration {
    Duration::from_millis(least + random.below(most - least + 1))
}

pub(crate) fn one_of<T: Copy>(random: &mut SeededRandom, choices: &[T]) -> T {
    choices[usize::try_from(random.below(choices.len() as u64)).unwrap()]
}
