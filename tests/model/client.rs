//! Until when clients rely on their holds, what the moving one calls, and how a sidecar handles its calls.

use crate::model::rules::Mistake;
use crate::model::run::Run;
use crate::model::state::{
    Breach, Call, CallKind, Effect, How, LeaseState, MOVER, Mover, Phase, Sidecar, Stage,
};

/// How a hold ends by its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A release that carries the hold's generation.
    Release,
    /// Its stream was closed by its side, over a connection that is trusted (S14).
    Closed,
    /// Its validity, or a bound of it, is over.
    Over,
}

impl Run<'_> {
    pub(crate) fn stop(&mut self, client: usize) {
        let it = &mut self.world.clients[client];
        (it.stage, it.until) = (Stage::Ended, 0);
        (it.lease, it.number) = (0, 0);
        if client == MOVER {
            self.world.mover = Mover::default();
        }
    }

    /// A grant from the store or by hand-off.
    pub(crate) fn grant(&mut self, at: usize, client: usize, how: How) {
        let token = (self.world.sidecars[at].epoch, self.world.sidecars[at].number);
        let lease = self.world.sidecars[at].lease;
        let is_excused = self.world.ended_at_once & (1 << lease) != 0;
        if token <= self.world.greatest && !is_excused {
            self.breach(Breach::Token);
        }
        self.world.greatest = self.world.greatest.max(token);
        let sidecar = &mut self.world.sidecars[at];
        (sidecar.holder, sidecar.told, sidecar.own) = (client, sidecar.valid, true);
        let (told, generation) = (sidecar.told, sidecar.generation);
        let it = &mut self.world.clients[client];
        (it.stage, it.until) = (Stage::Holding, told);
        (it.lease, it.number) = (lease, token.1);
        if client == MOVER {
            let mover = &mut self.world.mover;
            (mover.stream, mover.generation) = (Some(at), generation);
            (mover.epoch, mover.number) = token;
        }
        self.effects.push(Effect::Granted { sidecar: at, client, how });
    }

    /// A renewal: the holder is told, if it can hear.
    pub(crate) fn tell_validity(&mut self, at: usize, fresh: u8) {
        let sidecar = &mut self.world.sidecars[at];
        sidecar.valid = sidecar.valid.max(fresh);
        if sidecar.bounded {
            return;
        }
        sidecar.told = sidecar.valid;
        let (client, told) = (sidecar.holder, sidecar.told);
        let hears = client != MOVER || self.world.mover.stream == Some(at);
        let it = &mut self.world.clients[client];
        if hears && it.until > 0 && it.until < told {
            it.until = told;
            self.effects.push(Effect::Told { client });
        }
    }

    /// The moving client hears that its resume went well, if it still waits for that.
    pub(crate) fn answer_resume(&mut self, at: usize) {
        let sidecar = self.world.sidecars[at];
        if self.world.clients[MOVER].until == 0 && self.world.mover.awaiting == Some(at) {
            // S4: it looks at its clock first.
            if self.rules.has(Mistake::LateResumeRevives) {
                self.breach(Breach::Revived);
            }
        }
        let it = &mut self.world.clients[MOVER];
        let mover = &mut self.world.mover;
        let revives = self.rules.has(Mistake::LateResumeRevives);
        let believes = it.until > 0 || revives;
        self.world.sidecars[at].told = sidecar.told.max(sidecar.valid);
        if mover.awaiting != Some(at) || mover.attempt != sidecar.attempt || !believes {
            if mover.awaiting == Some(at) {
                self.stop(MOVER);
            }
            self.effects.push(Effect::ResumedUnheard);
            return;
        }
        (it.stage, it.until) = (Stage::Holding, it.until.max(sidecar.valid));
        (mover.awaiting, mover.stream, mover.unsure) = (None, Some(at), false);
        let grows = sidecar.generation > mover.generation;
        mover.generation = sidecar.generation;
        if !grows {
            self.breach(Breach::Generation);
        }
        self.effects.push(Effect::Granted { sidecar: at, client: MOVER, how: How::Resumed });
    }

    /// A resume was refused: whoever still waits for it has lost the hold.
    pub(crate) fn resume_answered_no(&mut self, at: usize) {
        let attempt = self.world.sidecars[at].trying;
        if self.world.mover.awaiting == Some(at) && self.world.mover.attempt == attempt {
            if self.world.clients[MOVER].until > 0 {
                self.effects.push(Effect::Lost { client: MOVER });
            }
            self.stop(MOVER);
        }
    }

    /// A call arrives. False where it has to wait.
    pub(crate) fn arrive(&mut self, call: Call) -> bool {
        match call.what {
            CallKind::Release => self.release_arrives(call),
            CallKind::Resume { attempt } => self.resume_arrives(call, attempt),
        }
    }

    fn is_about(sidecar: &Sidecar, call: Call) -> bool {
        sidecar.lease == call.lease
            && sidecar.own
            && sidecar.holder == MOVER
            && (sidecar.epoch, sidecar.number) == (call.epoch, call.number)
    }

    fn release_arrives(&mut self, call: Call) -> bool {
        let at = call.to;
        let sidecar = self.world.sidecars[at];
        let is_holding = matches!(sidecar.phase, Phase::Held | Phase::Silent | Phase::Revoked);
        if sidecar.phase == Phase::Renewing || sidecar.phase == Phase::Resuming {
            return false;
        }
        if !Self::is_about(&sidecar, call) || !is_holding {
            self.effects.push(Effect::ReleaseRefusedHere);
        } else if call.generation == sidecar.generation && sidecar.told == 0 {
            // Lost by now, whether or not the sidecar has looked at its clock since.
            self.effects.push(Effect::Outcome { client: MOVER, released: false });
        } else if call.generation == sidecar.generation {
            self.end_hold(at, End::Release);
        } else if call.generation > sidecar.generation {
            // S16: the hold has left. What is had of it goes by If-Match on the own write.
            self.effects.push(Effect::Left);
            match self.rules.has(Mistake::HandsOnLeft) {
                true => self.end_hold(at, End::Release),
                false => self.send_away(at, false),
            }
        } else {
            self.effects.push(Effect::ReleaseRefusedHere);
        }
        true
    }

    fn resume_arrives(&mut self, call: Call, attempt: u8) -> bool {
        let at = call.to;
        let sidecar = self.world.sidecars[at];
        if sidecar.ending {
            self.send_to_replacement(at, attempt);
            return true;
        }
        let has_it = sidecar.lease == call.lease && sidecar.own;
        let may = match sidecar.phase {
            Phase::Idle => true,
            Phase::Held | Phase::Silent => sidecar.exchange.is_none(),
            Phase::Acquiring
            | Phase::Storing
            | Phase::Revoked
            | Phase::Ending { .. }
            | Phase::Renewing
            | Phase::Resuming => false,
        };
        if !may {
            return false;
        }
        let is_other = sidecar.phase != Phase::Idle && !(has_it && Self::is_about(&sidecar, call));
        let checked = !self.rules.has(Mistake::NoGenerationCheck)
            && !self.rules.has(Mistake::EarlierAttemptAccepted);
        let is_old =
            has_it && checked && call.generation < sidecar.generation && attempt != sidecar.attempt;
        if is_other || is_old {
            self.effects.push(Effect::ResumeRefused { stale: true });
            if self.world.mover.awaiting == Some(at) && self.world.mover.attempt == attempt {
                self.stop(MOVER);
            }
            return true;
        }
        let sidecar = &mut self.world.sidecars[at];
        sidecar.phase = Phase::Renewing;
        (sidecar.lease, sidecar.epoch, sidecar.number) = (call.lease, call.epoch, call.number);
        (sidecar.claimed, sidecar.trying, sidecar.holder) = (call.generation, attempt, MOVER);
        true
    }

    /// The client's call with what it knows.
    pub(crate) fn call(&self, to: usize, what: CallKind) -> Call {
        let mover = self.world.mover;
        Call {
            to,
            what,
            lease: self.world.clients[MOVER].lease,
            epoch: mover.epoch,
            number: mover.number,
            generation: mover.generation,
        }
    }

    /// A hold ends here, in whatever way: handed on, released in the store, or left to run out.
    pub(crate) fn end_hold(&mut self, at: usize, end: End) {
        let sidecar = self.world.sidecars[at];
        self.world.sidecars[at].was_ours = self.world.store.is_of(sidecar.lease);
        let is_early = sidecar.settling > 0 && end != End::Release;
        if is_early && !self.rules.has(Mistake::ClosedResumeEndsAtOnce) {
            self.effects.push(Effect::RanOut);
            self.world.sidecars[at].phase = Phase::Silent;
            return;
        }
        if is_early {
            self.breach(Breach::EarlyEnd);
        }
        if let Some(next) = self.next_waiter(at)
            && self.may_hand_on(at, end)
        {
            if !self.may_be_broken(at) {
                return self.hand_on(at, next, end);
            }
            self.effects.push(Effect::KeptFromWaiter);
        }
        self.send_away(at, end == End::Release);
    }

    /// S10, as far as S13 and S16 allow it: on the holder's own word with its generation, while its stream
    /// lives here.
    fn may_hand_on(&self, at: usize, end: End) -> bool {
        let sidecar = self.world.sidecars[at];
        let phase = match sidecar.phase {
            Phase::Held => true,
            Phase::Silent => self.rules.has(Mistake::HandsOnSilent),
            Phase::Idle
            | Phase::Acquiring
            | Phase::Storing
            | Phase::Revoked
            | Phase::Ending { .. }
            | Phase::Renewing
            | Phase::Resuming => false,
        };
        let is_writing = sidecar.exchange.is_some_and(|exchange| exchange.request.is_write());
        let word = match end {
            End::Release => true,
            End::Closed => self.rules.has(Mistake::CloseHandsOn),
            End::Over => self.rules.has(Mistake::BoundHandsOn) && sidecar.bounded,
        };
        phase && word && !sidecar.unsettled && !is_writing && sidecar.valid > 0
    }

    fn hand_on(&mut self, at: usize, next: usize, end: End) {
        let sidecar = self.world.sidecars[at];
        if sidecar.phase == Phase::Silent || sidecar.unsettled {
            self.breach(Breach::HandedOn);
        }
        if end == End::Release {
            self.tell_outcome(at, true, true);
        }
        self.hand_on_to(at, next);
    }

    pub(crate) fn hand_on_to(&mut self, at: usize, next: usize) {
        let keeps = self.rules.has(Mistake::HandOffKeepsToken);
        let sidecar = &mut self.world.sidecars[at];
        sidecar.number += u8::from(!keeps);
        (sidecar.phase, sidecar.bounded, sidecar.was_ours) = (Phase::Held, false, false);
        let lease = self.world.sidecars[at].lease;
        // A late acquire of the same id may have revived what was broken at once.
        let is_live = self.world.store.state == LeaseState::Leased;
        if self.world.met == Some((at, lease)) && !is_live {
            self.breach(Breach::HandedOnBroken);
        }
        self.grant(at, next, How::HandedOn);
    }

    fn send_away(&mut self, at: usize, asked: bool) {
        self.leave_exchange(at);
        let sidecar = &mut self.world.sidecars[at];
        sidecar.repeats = false;
        sidecar.phase = Phase::Ending { asked };
    }
}
