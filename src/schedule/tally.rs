//! What a write of a schedule's record has added to it, for those who count (T23): made in `verdict.rs`,
//! observed by `count` in `scheduler/figures.rs`, and counted in `telemetry/metrics/schedules.rs`.

use super::record::{Outcome, ScheduleRecord};

/// How many runs have ended, by outcome, and how many occurrences were missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// In the order of [`Outcome::ALL`].
    ended: [u64; Outcome::ALL.len()],
    missed: u64,
}

impl Tally {
    /// What stands in `after` and did not stand in `before`, of which it was made.
    #[must_use]
    pub fn between(before: Option<&ScheduleRecord>, after: &ScheduleRecord) -> Self {
        let known = before.and_then(|record| record.ended.first());
        let new = after.ended.iter().take_while(|ended| Some(*ended) != known);
        let mut tally = Self {
            missed: after.missed.saturating_sub(before.map_or(0, |record| record.missed)),
            ..Self::default()
        };
        for ended in new {
            for (count, outcome) in tally.ended.iter_mut().zip(Outcome::ALL) {
                *count += u64::from(outcome == ended.outcome);
            }
        }
        tally
    }

    /// How often runs ended so. What was skipped together counts once.
    pub fn ended(&self) -> impl Iterator<Item = (Outcome, u64)> {
        Outcome::ALL.into_iter().zip(self.ended)
    }

    /// Occurrences that were missed (T9).
    #[must_use]
    pub const fn missed(&self) -> u64 {
        self.missed
    }
}
