//! How a schedule is, before anything happens in it.

use std::time::Duration;

use leasehold::hold::{Settings, Terms};
use leasehold::record::Record;
use leasehold::testing::SeededRandom;

use crate::kit::{millis, one_of};
use crate::simulation::chance::{About, Chance};

/// What may go wrong in a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Everything.
    Everything,
    /// The clocks only: no hold may be lost for that (S3).
    Clocks,
    /// Nothing: the schedule is a script (`long.rs`).
    Nothing,
}

/// What crosses what, in a share of the schedules: rates in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Crossing {
    /// Clients move again and again, and waiters stay (S16).
    pub(crate) moves: bool,
    /// Record writes that are held up.
    pub(crate) late_writes: u16,
    /// Renewals that are answered after the next one was sent.
    pub(crate) slow_answers: u16,
    /// How often the store's clock goes back.
    pub(crate) store_clock: u16,
    /// How often what happens is a hand-over, as in a rollout (S15).
    pub(crate) hand_overs: u16,
    /// Clients that hold by unary calls, and repeat them (S12).
    pub(crate) repeats: bool,
    /// Holders that save checkpoints (S23).
    pub(crate) saves: bool,
    /// How often what happens is a break (S22).
    pub(crate) breaks: u16,
    /// Clients that have released resume all the same (S16).
    pub(crate) ghosts: bool,
    /// Renewals that wait for their turn (S7).
    pub(crate) held_back: u16,
    /// Clients that name occurrences (T1).
    pub(crate) occurrences: bool,
}

/// How a schedule is: rates in thousandths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) mode: Mode,
    pub(crate) lose_request: u16,
    pub(crate) lose_answer: u16,
    pub(crate) repeat: u16,
    pub(crate) delay: u16,
    pub(crate) trouble: u16,
    pub(crate) length: Duration,
    pub(crate) crossing: Crossing,
    /// Callers have priorities, and locks of a share (S33, S34).
    pub(crate) rivals: bool,
}

/// A number with which the schedules in `found.rs` stay what they were.
const SAVES: u64 = 0;
/// The same for renewals that wait for their turn.
const TURNS: u64 = 13;

impl Crossing {
    /// Drawn apart from the rest of the plan, so that the other schedules are what they were without it.
    fn drawn(chance: &Chance, mode: Mode) -> Self {
        let hand_overs = match mode {
            // Another third of the schedules than below.
            Mode::Everything if chance.of(About::Plan, 4, 0).below(3) == 0 => 600,
            Mode::Everything | Mode::Clocks | Mode::Nothing => 0,
        };
        // Numbers with which the schedules in `found.rs` stay what they were.
        let repeats = mode == Mode::Everything && chance.of(About::Plan, 5, 2).below(4) == 0;
        let everything = mode == Mode::Everything;
        let saves = everything && chance.of(About::Plan, 6, SAVES).below(2) == 0;
        let breaks = everything && chance.of(About::Plan, 7, SAVES).below(3) == 0;
        let breaks = if breaks { 600 } else { 0 };
        let ghosts = everything && chance.of(About::Plan, 8, SAVES).below(3) == 0;
        let held_back = everything && chance.of(About::Plan, 9, TURNS).below(4) == 0;
        let held_back = if held_back { 500 } else { 0 };
        let occurrences = everything && chance.of(About::Plan, 10, 0).below(4) == 0;
        let mut random = chance.of(About::Plan, 3, 10);
        if random.below(3) > 0 {
            let plain = Self { hand_overs, repeats, saves, breaks, ghosts, ..Self::default() };
            return Self { held_back, occurrences, ..plain };
        }
        let mut rate = |most: u64| u16::try_from(random.below(most + 1)).unwrap();
        let (moves, late_writes, slow_answers) = (rate(3) > 0, rate(400), rate(400));
        let store_clock = if rate(2) > 0 { 0 } else { rate(1_000) };
        match mode {
            Mode::Clocks => Self { store_clock, ..Self::default() },
            Mode::Everything | Mode::Nothing => {
                let rates =
                    Self { late_writes, slow_answers, store_clock, held_back, ..Self::default() };
                Self { moves, hand_overs, repeats, saves, breaks, ghosts, occurrences, ..rates }
            }
        }
    }
}

impl Plan {
    /// How many clients of a thousand say that they end, instead of just closing their streams.
    pub(crate) const fn releases(&self) -> u16 {
        if self.crossing.moves { 900 } else { 500 }
    }

    /// What a client wants that comes now.
    pub(crate) fn terms(&self, random: &mut SeededRandom) -> Terms {
        let mut terms = random_terms(random);
        if self.crossing.moves {
            // Whoever waits is there when the lock could be handed on.
            terms.wait = Duration::from_secs(200);
            terms.min_hold = Duration::ZERO;
            terms.auto_renew = true;
            terms.max_hold = terms.max_hold.filter(|_| random.chance(300));
            terms.progress_timeout = terms.progress_timeout.filter(|_| random.chance(300));
        }
        if self.rivals {
            crate::simulation::rivals::place(&mut terms, random);
        }
        terms
    }

    /// What the seed says: the plan, the number of sidecars, and their settings.
    pub(crate) fn drawn(chance: &Chance) -> (Self, usize, Settings) {
        let mut random = chance.of(About::Plan, 0, 0);
        let rivals = chance.has_rivals();
        let clocks = random.below(8) == 0 && !rivals;
        let mode = if clocks { Mode::Clocks } else { Mode::Everything };
        let mut rate = |most: u64| u16::try_from(random.below(most + 1)).unwrap();
        let mut plan = Self {
            mode,
            lose_request: rate(150),
            lose_answer: rate(150),
            repeat: rate(100),
            delay: rate(150),
            trouble: rate(1_000),
            length: Duration::from_secs(60 + u64::from(rate(240))),
            crossing: Crossing::drawn(chance, mode),
            rivals,
        };
        if mode == Mode::Clocks {
            let Self { trouble, length, crossing, .. } = plan;
            plan = Self { trouble, length, crossing, ..Self::calm(mode) };
        }
        let count = 2 + usize::from(rate(3));
        let settings = Settings {
            poll_cap: Duration::from_millis(one_of(&mut random, &[250, 1_000, 5_000])),
            hand_off: Duration::from_secs(one_of(&mut random, &[1, 5])),
        };
        (plan, count, settings)
    }

    pub(crate) const fn calm(mode: Mode) -> Self {
        Self {
            mode,
            lose_request: 0,
            lose_answer: 0,
            repeat: 0,
            delay: 0,
            trouble: 0,
            length: Duration::ZERO,
            rivals: false,
            crossing: Crossing {
                moves: false,
                late_writes: 0,
                slow_answers: 0,
                store_clock: 0,
                hand_overs: 0,
                repeats: false,
                saves: false,
                breaks: 0,
                ghosts: false,
                held_back: 0,
                occurrences: false,
            },
        }
    }
}

pub(crate) fn plain_terms(lease_seconds: u64, wait: Duration) -> Terms {
    Terms {
        resumable: true,
        record: Record { holder: "somebody".to_owned(), ..Record::default() },
        ..Terms::plain(Duration::from_secs(lease_seconds), wait)
    }
}

fn random_terms(random: &mut SeededRandom) -> Terms {
    let lease = one_of(random, &[15, 15, 15, 30, 60]);
    let wait = Duration::from_secs(one_of(random, &[0, 5, 40, 200]));
    let mut terms = plain_terms(lease, wait);
    terms.max_hold = random.chance(300).then(|| millis(random, 500, 60_000));
    if random.chance(150) {
        terms.min_hold = millis(random, 500, 20_000);
    }
    terms.progress_timeout = random.chance(200).then(|| millis(random, 2_000, 30_000));
    terms.auto_renew = !random.chance(100);
    terms
}
