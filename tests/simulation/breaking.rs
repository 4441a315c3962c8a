//! Locks that are broken: by the product with its note, through a sidecar or not, and by other tools (S17, S22).

use std::time::Duration;

use leasehold::hold::Event;
use leasehold::lock::FencingToken;
use leasehold::store::BreakPeriod;

use crate::chance::{About, millis, one_of};
use crate::due::{Break, Breaker, Delivery, Incoming};
use crate::planted::Bug;
use crate::story::Happening;
use crate::world::World;

/// The period that another tool gives.
const FOREIGN: Duration = Duration::from_secs(5);

impl World {
    /// S17: a lock is broken; the note has the token that its record had, as far as it had any when it was read.
    pub(crate) fn break_somehow(&mut self, what: Happening, index: usize) {
        let noted = self.storage.token(self.now);
        let number = self.number();
        let mut random = self.chance.of(About::Break, 1, number);
        let ours = |period| Break { by: Breaker::Ours(period), noted, through: None };
        let soft = ours(BreakPeriod::RunOut);
        let slowly = millis(&mut random, 1, 1_500);
        match what {
            Happening::Break if self.plan.crossing.breaks > 0 => {
                self.after(slowly, Delivery::Breaks(soft));
            }
            Happening::Break => self.break_lock(soft),
            Happening::BreakTwice => {
                self.break_lock(soft);
                let later = millis(&mut random, 500, 9_000);
                self.after(later, Delivery::Breaks(ours(BreakPeriod::Now)));
            }
            Happening::BreakHere => {
                let period = one_of(
                    &mut random,
                    &[BreakPeriod::RunOut, BreakPeriod::RunOut, BreakPeriod::Now],
                );
                let here = Break { through: Some(index), ..ours(period) };
                self.after(slowly / 10, Delivery::Breaks(here));
            }
            Happening::ForeignBreak => {
                self.break_lock(Break {
                    by: Breaker::Another(FOREIGN),
                    noted: None,
                    through: None,
                });
            }
            _ => self.break_lock(ours(BreakPeriod::Now)),
        }
    }

    /// S17. Only a break that was asked to end the lease early may let two believe.
    pub(crate) fn break_lock(&mut self, asked: Break) {
        let Break { by, noted, through } = asked;
        let by_bug = self.bug == Some(Bug::BreakNowByDefault);
        let period = match by {
            Breaker::Ours(BreakPeriod::RunOut) if by_bug => Breaker::Ours(BreakPeriod::Now),
            by => by,
        };
        let truth = &mut self.checks.truth;
        let broken = self.storage.break_lease((period, noted), self.now, truth);
        let (soft, notices) = (by == Breaker::Ours(BreakPeriod::RunOut), &mut self.checks.notices);
        match (by, broken) {
            (Breaker::Ours(BreakPeriod::RunOut), Some(lease)) => notices.runs_out(lease, noted),
            (Breaker::Ours(BreakPeriod::Now), Some(lease)) => notices.ends(lease, self.now),
            (Breaker::Another(period), Some(lease)) => notices.ends(lease, self.now + period),
            (_, None) => {}
        }
        if !soft {
            self.checks.broken.extend(self.storage.newest_lease());
        }
        if let Some(sidecar) = through.filter(|_| broken.is_some()) {
            let life = self.sidecars[sidecar].life;
            let incoming = Incoming::Broken { noted, ends_now: !soft };
            let number = self.number();
            let delay = millis(&mut self.chance.of(About::Break, 2, number), 1, 40);
            self.after(delay, Delivery::ToSidecar { sidecar, life, incoming });
        }
    }

    /// Whose lease it was is known by the token in the note, as the coordinator has it.
    pub(crate) fn broken_here(
        &mut self,
        index: usize,
        noted: Option<FencingToken>,
        ends_now: bool,
    ) {
        let holding = self.sidecars[index].machine.hold.holding();
        let epoch = holding.map(|holding| holding.token.epoch());
        if epoch.is_some() && epoch == noted.map(FencingToken::epoch) {
            self.feed(index, Event::LeaseBroken { ends_now });
        }
    }
}
