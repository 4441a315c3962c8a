//! An operator who breaks the lock through a sidecar: the grant that was looked at, and no other (S17). What
//! this abstracts: to look, to decide, and the note, are one step; there is one break at a time.

use crate::model::rules::Mistake;
use crate::model::run::Run;
use crate::model::state::{Breach, Break, BreakStage, Effect, LeaseState, Phase, Proof, Sidecar};

impl Run<'_> {
    /// The token that stands in the record, or was handed on from that one at the sidecar that looks, and is
    /// not in it yet (S10).
    fn standing(&self, through: usize) -> (u8, u8) {
        let (record, sidecar) = (self.world.store.record, self.world.sidecars[through]);
        let is_same = sidecar.lease == record.lease && sidecar.epoch == record.epoch;
        let is_hold = matches!(sidecar.phase, Phase::Held | Phase::Silent) && sidecar.own;
        let handed_on = if is_hold && is_same { sidecar.number } else { 0 };
        (record.epoch, record.number.max(handed_on))
    }

    /// False where there is nothing to break.
    pub(crate) fn begin_break(&mut self, at_once: bool, through: usize) -> bool {
        match (self.world.store.state, at_once) {
            (LeaseState::Leased, _) | (LeaseState::Breaking, true) => {}
            (
                LeaseState::Available
                | LeaseState::Breaking
                | LeaseState::Broken
                | LeaseState::Expired,
                _,
            ) => return false,
        }
        let budget = &mut self.world.budget;
        let spent = if at_once { &mut budget.breaks_now } else { &mut budget.breaks };
        *spent -= 1;
        let (named, expected) = (self.standing(through), self.world.store.record.version);
        let stage = BreakStage::Sent;
        let again = false;
        self.world.breaking = Some(Break { at_once, through, named, expected, stage, again });
        true
    }

    pub(crate) fn break_arrives(&mut self, again: bool) {
        let Some(mut breaking) = self.world.breaking else { return };
        self.world.budget.late_breaks -= u8::from(again);
        breaking.again |= again;
        let is_late = breaking.stage == BreakStage::Late;
        let free = self.rules.has(Mistake::BreaksWithoutMatch);
        let is_changed = breaking.expected != self.world.store.record.version && !free;
        let is_done = !is_changed && self.break_lease(breaking);
        breaking.stage = BreakStage::Done;
        self.world.breaking = (!is_late).then_some(breaking);
        if is_late {
            return;
        }
        if is_changed {
            self.break_again(breaking);
        } else if !is_done {
            self.break_over(breaking.again);
        } else if !breaking.at_once {
            // Nobody is free to act on a lease that runs out: the answer may as well be there at once.
            self.break_answered();
        }
    }

    /// Another version stands there: it goes on while the token is the one that it is for.
    fn break_again(&mut self, breaking: Break) {
        let stands = self.standing(breaking.through);
        if stands != breaking.named && !self.rules.has(Mistake::BreakMeansWhoeverHolds) {
            self.effects.push(Effect::BreakRefused);
            return self.break_over(breaking.again);
        }
        self.effects.push(Effect::BreakGoesOn);
        let (expected, stage) = (self.world.store.record.version, BreakStage::Sent);
        self.world.breaking = Some(Break { expected, stage, again: false, ..breaking });
    }

    /// The lease of whoever has the lock is broken.
    fn break_lease(&mut self, breaking: Break) -> bool {
        let lease = self.world.store.lease;
        if !self.world.store.break_lease(breaking.at_once) {
            return false;
        }
        self.judge_break(breaking, lease);
        // Under a lease of which no token is written, nobody was granted anything yet.
        if self.world.store.record.lease == lease {
            self.world.met = Some((breaking.through, lease));
        }
        if breaking.at_once {
            self.world.ended_at_once |= 1 << lease;
            self.effects.push(Effect::BrokenNow);
        }
        true
    }

    /// Who believes in the lease is who was meant. In the first moments of a hold that was handed on, only
    /// its own sidecar can know (S10).
    fn judge_break(&mut self, breaking: Break, lease: u8) {
        let epoch = self.world.store.record.epoch;
        for client in self.world.clients {
            let is_hit = client.until > 0 && client.lease == lease;
            if !is_hit || (epoch, client.number) == breaking.named {
                continue;
            }
            let is_unrecorded = |at: usize| {
                let Sidecar { lease: had, number, stored, own, .. } = self.world.sidecars[at];
                own && had == lease && number == client.number && stored < number
            };
            match is_unrecorded(1 - breaking.through) {
                true => self.effects.push(Effect::BrokeUnrecorded),
                false => self.breach(Breach::BrokeAnother),
            }
        }
    }

    pub(crate) fn break_answered(&mut self) {
        let Some(breaking) = self.world.breaking else { return };
        self.break_over(breaking.again);
        // S13: the lock that an operator has ended at once is free at this sidecar too.
        let sidecar = self.world.sidecars[breaking.through];
        let is_held = matches!(sidecar.phase, Phase::Held | Phase::Silent) && sidecar.own;
        let is_named = (sidecar.epoch, sidecar.number) == breaking.named;
        if breaking.at_once && is_held && is_named {
            self.leave_exchange(breaking.through);
            self.lose(breaking.through);
        }
    }

    pub(crate) fn break_given_up(&mut self) {
        let Some(breaking) = self.world.breaking else { return };
        self.world.budget.late_breaks -= 1;
        self.break_over(breaking.stage == BreakStage::Sent || breaking.again);
        let forgets = self.rules.has(Mistake::UnknownBreakForgotten);
        let proof = &mut self.world.sidecars[breaking.through].proof;
        if *proof == Proof::Unproven && !forgets {
            *proof = Proof::Doubtful(breaking.expected);
        }
    }

    /// Its sidecar waits for no answer any more; `arrives`: though the request may arrive yet.
    fn break_over(&mut self, arrives: bool) {
        let Some(breaking) = &mut self.world.breaking else { return };
        let sidecar = &mut self.world.sidecars[breaking.through];
        if sidecar.phase != Phase::Idle {
            sidecar.proof = Proof::Unproven;
        }
        breaking.stage = BreakStage::Late;
        if !arrives {
            self.world.breaking = None;
        }
    }

    /// The sidecar through which it goes has ended.
    pub(crate) fn forget_breaks_of(&mut self, at: usize) {
        match &mut self.world.breaking {
            Some(breaking) if breaking.through == at => {
                let arrives = breaking.stage == BreakStage::Sent || breaking.again;
                breaking.stage = BreakStage::Late;
                if !arrives {
                    self.world.breaking = None;
                }
            }
            Some(_) | None => {}
        }
    }

    /// Whether a break from here is under way, or may have met the lease (S17).
    pub(crate) fn may_be_broken(&self, at: usize) -> bool {
        let is_under_way = self
            .world
            .breaking
            .is_some_and(|breaking| breaking.through == at && breaking.stage != BreakStage::Late);
        let is_unproven = self.world.sidecars[at].proof != Proof::Proven;
        is_under_way && !self.rules.has(Mistake::HandsOnWhileBreaking)
            || is_unproven && !self.rules.has(Mistake::HandsOnUnproven)
    }
}
