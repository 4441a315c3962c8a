//! A sidecar that is told to end and is followed by a replacement (S15). What this abstracts: a replacement
//! is there as soon as its predecessor has ended, at the same address, and knows nothing; until then its
//! predecessor is `ending`. One that runs beside the other is as the second sidecar is, at which a client may
//! resume meanwhile. Time for the hand-over is over at any moment. A client notices the end of its stream at
//! once, or acts later, as it always may. Those that wait come again.

use crate::model::rules::Mistake;
use crate::model::run::Run;
use crate::model::state::{Effect, Operation, Phase, Request};

impl Run<'_> {
    /// Waits end; a hold is renewed once more; what is acquired or released is settled.
    pub(crate) fn hand_over(&mut self, at: usize, arrives: bool) {
        self.world.budget.hand_overs -= 1;
        let sidecar = &mut self.world.sidecars[at];
        sidecar.ending = true;
        match sidecar.phase {
            Phase::Held if self.rules.has(Mistake::HandOverHandsOn) => {
                if let Some(next) = self.next_waiter(at) {
                    self.hand_on_to(at, next);
                }
            }
            // A renewal that is under way is as good as another.
            Phase::Held if sidecar.exchange.is_none() && sidecar.told > 0 => {
                self.proceed(at);
            }
            Phase::Renewing | Phase::Resuming => {
                let attempt = sidecar.trying;
                self.send_to_replacement(at, attempt);
                self.crash(at, arrives);
            }
            Phase::Held
            | Phase::Idle
            | Phase::Acquiring
            | Phase::Storing
            | Phase::Silent
            | Phase::Revoked
            | Phase::Ending { .. } => {}
        }
    }

    /// S13, S16: its client may go on with it elsewhere from now on, so nothing is released for it.
    pub(crate) fn leave_to_replacement(&mut self, at: usize) {
        self.effects.push(Effect::Interrupted);
        if self.world.mover.stream == Some(at) {
            self.world.mover.stream = None;
        }
        if self.rules.has(Mistake::HandOverReleases) {
            self.world.sidecars[at].phase = Phase::Ending { asked: false };
        } else if !self.rules.has(Mistake::RenewsOnAfterHandOver) {
            self.leave_exchange(at);
            self.forget(at);
        }
    }

    /// What nobody has a stream for needs no other renewal, and what is revoked gets none.
    pub(crate) fn leave_what_is_silent(&mut self, at: usize) {
        let sidecar = &self.world.sidecars[at];
        let is_silent = matches!(sidecar.phase, Phase::Silent | Phase::Revoked);
        if sidecar.ending && is_silent {
            self.leave_to_replacement(at);
        }
    }

    /// The time for it is over. S6: a lease under which nobody was granted anything goes back, and nobody
    /// waits for that.
    pub(crate) fn left_at_last(&mut self, at: usize, arrives: bool) {
        let sidecar = self.world.sidecars[at];
        match sidecar.phase {
            Phase::Acquiring | Phase::Storing => {
                let operation = Operation::Release { expected: None };
                let request = Request { lease: sidecar.lease, operation, fresh: 0 };
                self.world.late.push((at, request));
            }
            Phase::Held => self.effects.push(Effect::Interrupted),
            Phase::Idle
            | Phase::Silent
            | Phase::Revoked
            | Phase::Ending { .. }
            | Phase::Renewing
            | Phase::Resuming => {}
        }
        self.crash(at, arrives);
    }

    /// A resume comes to a sidecar that ends: its client tries again, as long as it believes.
    pub(crate) fn send_to_replacement(&mut self, at: usize, attempt: u8) {
        self.effects.push(Effect::ComeAgain);
        let mover = &mut self.world.mover;
        if mover.awaiting == Some(at) && mover.attempt == attempt {
            mover.awaiting = None;
        }
    }
}
