//! What a sidecar does by itself, and with the store's answers.

use crate::model::rules::Mistake;
use crate::model::run::Run;
use crate::model::state::{
    Breach, Effect, Exchange, How, MOVER, Operation, Phase, Proof, Record, Reply, Request, Sidecar,
    Stage, waiter,
};

impl Run<'_> {
    pub(crate) fn send(&mut self, at: usize, lease: u8, operation: Operation) {
        let fresh = match operation {
            Operation::Acquire | Operation::Renew { .. } => self.rules.validity,
            Operation::Write { .. } | Operation::Release { .. } | Operation::Read => 0,
        };
        let request = Request { lease, operation, fresh };
        self.world.sidecars[at].exchange = Some(Exchange { request, reply: None });
    }

    /// Sends what the phase needs next. False where nothing is to be sent.
    pub(crate) fn proceed(&mut self, at: usize) -> bool {
        let sidecar = self.world.sidecars[at];
        let expected = sidecar.version;
        let renews = matches!(sidecar.phase, Phase::Held | Phase::Renewing);
        if renews && sidecar.proof == Proof::Unproven {
            self.world.sidecars[at].proof = Proof::Proving;
        }
        let operation = match sidecar.phase {
            Phase::Idle | Phase::Silent | Phase::Revoked => return false,
            Phase::Acquiring => Operation::Acquire,
            Phase::Storing | Phase::Resuming if sidecar.repeats => Operation::Read,
            Phase::Storing | Phase::Resuming => {
                if sidecar.phase == Phase::Resuming && self.rules.has(Mistake::SettlingFromSend) {
                    self.world.sidecars[at].settling = self.rules.duration;
                }
                let claimed = sidecar.claimed;
                Operation::Write { expected, record: self.record_of(at), claimed }
            }
            Phase::Held => {
                let renews_on = sidecar.ending && self.rules.has(Mistake::RenewsOnAfterHandOver);
                let free = renews_on || self.rules.has(Mistake::RenewsWithoutMatch);
                Operation::Renew { expected: (!free).then_some(expected) }
            }
            Phase::Renewing => Operation::Renew { expected: None },
            Phase::Ending { .. } if sidecar.unsettled => Operation::Read,
            Phase::Ending { .. } => {
                let free = self.rules.has(Mistake::ReleasesWithoutMatch);
                Operation::Release { expected: (!free).then_some(expected) }
            }
        };
        self.send(at, sidecar.lease, operation);
        true
    }

    /// What this sidecar writes for its grant or its resume, or for a hold that was handed on.
    fn record_of(&self, at: usize) -> Record {
        let sidecar = self.world.sidecars[at];
        let Sidecar { lease, epoch, number, generation, .. } = sidecar;
        let is_resume = sidecar.phase == Phase::Resuming;
        let attempt = if is_resume { sidecar.trying } else { sidecar.attempt };
        let writer = u8::try_from(at + 1).unwrap();
        Record { version: 0, epoch, number, lease, generation, attempt, writer }
    }

    /// Whether a record that was read is this sidecar's own write.
    fn is_own_write(&self, at: usize, record: Record) -> bool {
        let own = self.record_of(at);
        let is_alike = record.lease == own.lease && record.generation == own.generation;
        let any_writer = self.rules.has(Mistake::SettledByGeneration);
        is_alike && (any_writer || record.writer == own.writer && record.attempt == own.attempt)
    }

    /// The answer to what was sent arrives.
    pub(crate) fn answer(&mut self, at: usize) {
        self.take_answer(at);
        self.go_on(at);
    }

    /// What is under way goes on at once: what would be sent later may as well be longer on its way.
    pub(crate) fn go_on(&mut self, at: usize) {
        let sidecar = self.world.sidecars[at];
        let is_under_way = match sidecar.phase {
            Phase::Storing | Phase::Renewing | Phase::Resuming | Phase::Ending { .. } => true,
            Phase::Idle | Phase::Acquiring | Phase::Held | Phase::Silent | Phase::Revoked => false,
        };
        if is_under_way && sidecar.exchange.is_none() {
            self.proceed(at);
        }
    }

    fn take_answer(&mut self, at: usize) {
        let exchange = self.world.sidecars[at].exchange.take();
        let Some(Exchange { request, reply: Some(reply) }) = exchange else { return };
        let fresh = match self.rules.has(Mistake::ValidityFromAnswer) {
            true => self.rules.validity,
            false => request.fresh,
        };
        match self.world.sidecars[at].phase {
            Phase::Acquiring => self.acquire_answered(at, reply, fresh),
            Phase::Storing => self.store_answered(at, reply),
            Phase::Held => self.renew_answered(at, request, reply, fresh),
            Phase::Ending { asked } => self.release_answered(at, (request, reply), asked),
            Phase::Renewing => self.resume_renewed(at, reply, fresh),
            Phase::Resuming => self.resume_written(at, request, reply),
            Phase::Silent if !matches!(request.operation, Operation::Renew { .. }) => {
                self.record_answered(at, request, reply);
            }
            // It was sent before: nothing is told any more.
            Phase::Idle | Phase::Silent | Phase::Revoked => {}
        }
    }

    /// S10: a hold that was handed on is written to the record.
    pub(crate) fn record(&mut self, at: usize) {
        let sidecar = self.world.sidecars[at];
        if self.rules.has(Mistake::HandOffNotRecorded) {
            self.world.sidecars[at].stored = sidecar.number;
            return;
        }
        let (expected, record) = (sidecar.version, self.record_of(at));
        self.send(at, sidecar.lease, Operation::Write { expected, record, claimed: 0 });
    }

    /// What became of that. A "changed" is settled by a read.
    fn record_answered(&mut self, at: usize, request: Request, reply: Reply) {
        let sidecar = self.world.sidecars[at];
        match (request.operation, reply) {
            (Operation::Write { .. }, Reply::Done(record)) => {
                self.effects.push(Effect::Recorded);
                self.wrote(at, record);
            }
            (Operation::Read, Reply::Done(record)) if self.is_own_write(at, record) => {
                self.effects.push(Effect::OwnLateWrite);
                self.wrote(at, record);
            }
            (operation, Reply::Changed) => {
                let is_write = matches!(operation, Operation::Write { .. });
                self.world.sidecars[at].unsettled |= is_write;
                self.send(at, sidecar.lease, Operation::Read);
            }
            (_, Reply::Done(_)) => {
                self.effects.push(Effect::Left);
                self.lose(at);
            }
            (_, Reply::NotOurs | Reply::Breaking | Reply::Broken) => self.lose(at),
        }
    }

    /// A renewal was answered.
    fn proven(&mut self, at: usize) {
        let proof = &mut self.world.sidecars[at].proof;
        if *proof == Proof::Proving {
            *proof = Proof::Proven;
        }
    }

    /// The record is known to be this sidecar's own write.
    fn wrote(&mut self, at: usize, record: Record) {
        let sidecar = &mut self.world.sidecars[at];
        // S17: a break that comes yet is for another version.
        if matches!(sidecar.proof, Proof::Doubtful(version) if version != record.version) {
            sidecar.proof = Proof::Unproven;
        }
        (sidecar.version, sidecar.stored, sidecar.unsettled) =
            (record.version, record.number, false);
    }

    /// What is under way is not waited for. A record write arrives all the same, or not.
    pub(crate) fn leave_exchange(&mut self, at: usize) {
        let Some(exchange) = self.world.sidecars[at].exchange.take() else { return };
        if exchange.request.is_write() {
            self.world.sidecars[at].unsettled = true;
            if exchange.reply.is_none() {
                self.world.late.push((at, exchange.request));
            }
        }
    }

    fn acquire_answered(&mut self, at: usize, reply: Reply, fresh: u8) {
        let Reply::Done(record) = reply else {
            let lease = self.world.sidecars[at].lease;
            // S6: an id of which a request is still on its way is used up, and one that was broken.
            let is_late = self.world.late.iter().any(|(_, request)| request.lease == lease);
            let was_broken = self.world.ended_at_once & (1 << lease) != 0;
            self.world.used[at] += u8::from(is_late || was_broken);
            return self.forget(at);
        };
        self.world.used[at] += 1;
        let sidecar = &mut self.world.sidecars[at];
        sidecar.valid = fresh;
        sidecar.version = record.version;
        sidecar.epoch = record.epoch + 1;
        (sidecar.number, sidecar.stored) = (0, 0);
        (sidecar.generation, sidecar.attempt) = (1, 0);
        sidecar.repeats = false;
        sidecar.phase = Phase::Storing;
        if self.rules.has(Mistake::TokenNotStored) {
            self.granted_from_store(at);
        }
    }

    fn store_answered(&mut self, at: usize, reply: Reply) {
        let sidecar = self.world.sidecars[at];
        match reply {
            Reply::Done(record) if !sidecar.repeats || self.is_own_write(at, record) => {
                if sidecar.repeats {
                    self.effects.push(Effect::Settled);
                }
                self.world.sidecars[at].repeats = false;
                self.wrote(at, record);
                self.granted_from_store(at);
            }
            // The read shows that it was not written (yet).
            Reply::Done(record) if record.version == sidecar.version => {
                self.world.sidecars[at].repeats = false;
            }
            Reply::Changed => self.world.sidecars[at].repeats = true,
            Reply::Done(_) | Reply::NotOurs | Reply::Breaking | Reply::Broken => self.forget(at),
        }
    }

    fn granted_from_store(&mut self, at: usize) {
        let sidecar = &mut self.world.sidecars[at];
        let client = sidecar.holder;
        // S2: checked again after any wait.
        // S15: while it ends, nobody is granted anything.
        if sidecar.ending
            || sidecar.valid == 0
            || self.world.clients[client].stage != Stage::Waiting
        {
            sidecar.phase = Phase::Ending { asked: false };
            return;
        }
        sidecar.phase = Phase::Held;
        self.grant(at, client, How::Acquired);
    }

    fn renew_answered(&mut self, at: usize, request: Request, reply: Reply, fresh: u8) {
        let sidecar = self.world.sidecars[at];
        match (request.operation, reply) {
            (Operation::Write { .. }, _) => self.record_answered(at, request, reply),
            // S4: what comes after the end revives nothing.
            (_, _) if sidecar.told == 0 && !sidecar.bounded => {}
            (Operation::Read, _) => self.record_answered(at, request, reply),
            (_, Reply::Done(record)) => {
                self.proven(at);
                if record.version != sidecar.version && record.lease == sidecar.lease {
                    self.breach(Breach::RenewedOver);
                }
                self.tell_validity(at, fresh);
                if sidecar.ending {
                    self.leave_to_replacement(at);
                }
            }
            (_, Reply::Changed) => self.send(at, sidecar.lease, Operation::Read),
            (_, Reply::Breaking) => {
                self.effects.push(Effect::Revoked);
                self.world.sidecars[at].phase = Phase::Revoked;
            }
            (_, Reply::NotOurs | Reply::Broken) => self.lose(at),
        }
    }

    fn release_answered(&mut self, at: usize, (request, reply): (Request, Reply), asked: bool) {
        let sidecar = self.world.sidecars[at];
        match (request.operation, reply) {
            (Operation::Read, Reply::Done(record)) => {
                // Either our own write, late or not, or still what it was before.
                let is_ours = self.is_own_write(at, record) || record.version == sidecar.version;
                if is_ours {
                    self.world.sidecars[at].version = record.version;
                    self.world.sidecars[at].unsettled = false;
                } else {
                    self.effects.push(Effect::Left);
                    self.end(at, asked, sidecar.repeats);
                }
            }
            (Operation::Release { .. }, Reply::Done(record)) => {
                if record.version != sidecar.version && record.lease == sidecar.lease {
                    self.breach(Breach::ReleasedOver);
                }
                self.end(at, asked, true);
            }
            (_, Reply::Changed) => self.world.sidecars[at].unsettled = true,
            (_, Reply::NotOurs | Reply::Breaking | Reply::Broken | Reply::Done(_)) => {
                let released = sidecar.repeats || self.rules.has(Mistake::RefusedReleaseIsReleased);
                self.end(at, asked, released);
            }
        }
    }

    /// The hold is over here: its caller, if one waits, is told how.
    fn end(&mut self, at: usize, asked: bool, released: bool) {
        let sidecar = self.world.sidecars[at];
        if asked {
            // Who repeats a release cannot tell whether its first try was in time.
            self.tell_outcome(at, released, sidecar.repeats);
        }
        self.forget(at);
    }

    /// `may_err`: whether an operator's break may have gone unnoticed.
    pub(crate) fn tell_outcome(&mut self, at: usize, released: bool, may_err: bool) {
        let sidecar = self.world.sidecars[at];
        let bit = 1 << sidecar.lease;
        let is_excused = may_err && self.world.ended_at_once & bit != 0;
        let was_released = self.world.store.released & bit != 0;
        if released && !sidecar.was_ours && !was_released && !is_excused {
            self.breach(Breach::Released);
        }
        self.effects.push(Effect::Outcome { client: sidecar.holder, released });
    }

    /// S16: the lease is renewed, which the store allows only if nobody has leased the lock since.
    fn resume_renewed(&mut self, at: usize, reply: Reply, fresh: u8) {
        let sidecar = self.world.sidecars[at];
        let Reply::Done(record) = reply else { return self.refuse_resume(at) };
        self.proven(at);
        if !self.is_of_claim(at, record) {
            return self.refuse_resume(at);
        }
        if record.generation != sidecar.claimed {
            self.effects.push(Effect::ResumeRepeated);
        }
        self.world.sidecars[at].valid = fresh;
        self.write_resume_over(at, record);
    }

    /// Whether the record is still that of the client's hold: also where it was handed on to the client just
    /// before (S10).
    fn is_of_claim(&mut self, at: usize, record: Record) -> bool {
        let sidecar = self.world.sidecars[at];
        let is_hold = record.lease == sidecar.lease && record.epoch == sidecar.epoch;
        let is_older = record.number > sidecar.number;
        let earlier = self.rules.has(Mistake::EarlierAttemptAccepted);
        let is_repeat =
            record.attempt == sidecar.trying || earlier && record.attempt > sidecar.trying;
        let is_current =
            record.generation == sidecar.claimed || self.rules.has(Mistake::NoGenerationCheck);
        if is_hold && is_older && (is_current || is_repeat) {
            self.effects.push(Effect::OlderRefused);
        }
        let fits = !is_older || self.rules.has(Mistake::ResumeIgnoresHandOff);
        is_hold && fits && (is_current || is_repeat)
    }

    fn write_resume_over(&mut self, at: usize, record: Record) {
        let sidecar = &mut self.world.sidecars[at];
        sidecar.version = record.version;
        sidecar.generation = record.generation + 1;
        (sidecar.repeats, sidecar.phase) = (false, Phase::Resuming);
        if record.number < sidecar.number {
            self.effects.push(Effect::ResumedAhead);
        }
    }

    fn resume_written(&mut self, at: usize, request: Request, reply: Reply) {
        let sidecar = self.world.sidecars[at];
        match (request.operation, reply) {
            (Operation::Write { .. }, Reply::Done(record)) => self.resumed(at, record),
            (Operation::Read, Reply::Done(record)) if self.is_own_write(at, record) => {
                self.effects.push(Effect::Settled);
                self.resumed(at, record);
            }
            (Operation::Read, Reply::Done(record)) if record.version == sidecar.version => {
                self.world.sidecars[at].repeats = false;
            }
            // The sidecar that it leaves has written the hand-off to it meanwhile (S10).
            (Operation::Read, Reply::Done(record)) if self.is_of_claim(at, record) => {
                self.write_resume_over(at, record);
            }
            (_, Reply::Changed) => self.world.sidecars[at].repeats = true,
            (_, Reply::Done(_) | Reply::NotOurs | Reply::Breaking | Reply::Broken) => {
                self.refuse_resume(at);
            }
        }
    }

    fn resumed(&mut self, at: usize, record: Record) {
        let from_send = self.rules.has(Mistake::SettlingFromSend);
        let duration = self.rules.duration;
        self.wrote(at, record);
        let sidecar = &mut self.world.sidecars[at];
        sidecar.attempt = sidecar.trying;
        (sidecar.repeats, sidecar.bounded) = (false, false);
        sidecar.own = true;
        // From the answer: the write may have come to the store at any time before it.
        if !from_send {
            sidecar.settling = duration;
        }
        sidecar.phase = if sidecar.valid == 0 { Phase::Silent } else { Phase::Held };
        if sidecar.valid > 0 {
            self.answer_resume(at);
        }
    }

    fn refuse_resume(&mut self, at: usize) {
        let stale = self.world.sidecars[at].claimed < self.world.store.record.generation;
        self.effects.push(Effect::ResumeRefused { stale });
        self.resume_answered_no(at);
        if self.rules.has(Mistake::FailedResumeReleases) {
            self.world.sidecars[at].phase = Phase::Ending { asked: false };
        } else {
            self.forget(at);
        }
    }

    /// Nobody has learned anything of it: no answer comes in time, or the connection is gone. What was sent
    /// may arrive all the same, late.
    pub(crate) fn give_up(&mut self, at: usize, arrives: bool) {
        let Some(exchange) = self.world.sidecars[at].exchange.take() else { return };
        if exchange.reply.is_none() && arrives {
            self.world.late.push((at, exchange.request));
        }
        let is_write = matches!(exchange.request.operation, Operation::Write { .. });
        let is_release = matches!(exchange.request.operation, Operation::Release { .. });
        let sidecar = &mut self.world.sidecars[at];
        match sidecar.phase {
            Phase::Storing if is_write && self.rules.has(Mistake::GrantsUnsettled) => {
                self.granted_from_store(at);
            }
            Phase::Storing | Phase::Resuming if is_write => sidecar.repeats = true,
            Phase::Held | Phase::Silent if is_write => sidecar.unsettled = true,
            Phase::Ending { .. } if is_release => sidecar.repeats = true,
            Phase::Renewing => self.drop_resume(at),
            Phase::Storing
            | Phase::Resuming
            | Phase::Ending { .. }
            | Phase::Idle
            | Phase::Acquiring
            | Phase::Held
            | Phase::Silent
            | Phase::Revoked => {}
        }
    }

    /// A resume is given up without an answer. What this sidecar had of the hold itself, it keeps as a silent
    /// one; but not once the next generation is on its way to the store: what that takes over may be believed
    /// in elsewhere, and runs out.
    pub(crate) fn drop_resume(&mut self, at: usize) {
        if self.world.mover.awaiting == Some(at) {
            self.world.mover.awaiting = None;
        }
        let releases = self.rules.has(Mistake::FailedResumeReleases);
        let keeps = self.rules.has(Mistake::DroppedResumeKept);
        let sidecar = &mut self.world.sidecars[at];
        sidecar.unsettled |= sidecar.phase == Phase::Resuming;
        if releases {
            sidecar.phase = Phase::Ending { asked: false };
        } else if sidecar.own && (keeps || sidecar.phase == Phase::Renewing) {
            sidecar.phase = Phase::Silent;
        } else {
            self.forget(at);
        }
    }

    pub(crate) fn forget(&mut self, at: usize) {
        self.world.sidecars[at] = Sidecar::default();
    }

    /// S8: the hold is lost, and its holder is told if it can be.
    pub(crate) fn lose(&mut self, at: usize) {
        let client = self.world.sidecars[at].holder;
        if client != MOVER || self.world.mover.stream == Some(at) {
            if self.world.clients[client].until > 0 {
                self.effects.push(Effect::Lost { client });
            }
            self.stop(client);
        }
        self.forget(at);
    }

    /// S10: the first local waiter, if one waits.
    pub(crate) fn next_waiter(&self, at: usize) -> Option<usize> {
        if self.world.sidecars[at].ending && !self.rules.has(Mistake::HandOverHandsOn) {
            return None;
        }
        let waits = |client: usize| self.world.clients[client].stage == Stage::Waiting;
        let holder = self.world.sidecars[at].holder;
        let here = [waiter(at), MOVER].into_iter().filter(|client| *client != MOVER || at == 0);
        here.into_iter().find(|client| *client != holder && waits(*client))
    }
}
