//! Clients that move: they resume their hold at another sidecar, and their calls still arrive at the one they
//! left, late or twice (S16).

use std::sync::Arc;
use std::time::Duration;

use leasehold::hold::{Action, CallerId, Event, Granted, HolderCall, LossReason, Notice, Resume};
use leasehold::testing::SeededRandom;
use leasehold::time::Instant;

use crate::kit::millis;
use crate::simulation::chance::About;
use crate::simulation::client::{Message, Stage};
use crate::simulation::due::{Delivery, Incoming, Side};
use crate::simulation::kept::{Here, Kept};
use crate::simulation::world::World;

/// How much earlier than agreed a hold may end: a clock is fast.
const EARLY: Duration = Duration::from_millis(500);
/// What each move may take from that: front ends of the store differ by 3 s, and their dates are cut to the
/// second.
const EARLY_EACH_MOVE: Duration = Duration::from_secs(4);
/// How much earlier than agreed a hold may end that went on elsewhere, beside what its moves take: what its
/// grant shows of the store's clock may be as old as the answer to an acquire, 5 s.
const EARLY_ELSEWHERE: Duration = Duration::from_secs(7);

impl World {
    /// S16: it asks any sidecar to go on with its hold.
    pub(crate) fn resume(&mut self, index: usize, random: &mut SeededRandom) {
        let at = usize::try_from(random.below(self.sidecars.len() as u64)).unwrap();
        let caller = CallerId(self.number());
        let there = self.read_clock(at);
        let here = self.read_clock(self.clients[index].machine);
        let clocks = self.here(at);
        let client = &mut self.clients[index];
        let (Some(grant), Some(kept)) = (client.grant.clone(), client.kept) else { return };
        client.former.push((client.at, client.caller));
        client.stage = Stage::Resuming;
        (client.at, client.caller, client.called) = (at, caller, here);
        self.callers.insert(caller, index);
        self.whose.insert(caller, index);
        let client = &self.clients[index];
        let lease = client.terms.lease_duration;
        let own = client.until.map_or(Duration::ZERO, |until| until.saturating_since(here));
        let believed = if client.machine == at { own.min(lease) } else { lease };
        let (terms, lease_ends, bounds) = kept.terms(&client.terms, clocks);
        let resume = Resume {
            lease_id: grant.lease_id,
            token: grant.token,
            generation: grant.generation,
            // The same until it is answered: a repeat is not another's (S16).
            attempt: format!("{index}-{}", grant.generation),
            believed_until: there + believed,
            lease_ends,
            terms: Arc::new(terms),
            acquired_at: grant.acquired_at,
            bounds,
        };
        let event = Event::ResumeAsked { caller, resume: Box::new(resume) };
        // It may be under way for long: its client has gone on elsewhere by then, or ended.
        let number = self.number();
        let rate = if self.calm { 0 } else { self.plan.delay };
        let delay =
            match self.chance.fault(About::DelayMessage, (Side::Sidecar as usize, number), rate) {
                Some(mut random) => millis(&mut random, 500, 45_000),
                None => millis(&mut self.chance.of(About::Delay, 97, number), 1, 20),
            };
        self.call(delay, (at, caller), Incoming::Event(event));
    }

    /// A call of a client arrives at a sidecar that it has left, or once more at its own, some time later.
    pub(crate) fn stray(
        &mut self,
        index: usize,
        random: &mut SeededRandom,
        call: impl FnOnce(CallerId, Option<u64>) -> Event,
    ) {
        let client = &self.clients[index];
        // A call of before that was held up carries what its caller was answered with then.
        let newest = client.generation;
        let generation = if random.chance(800) { newest } else { newest.map(|it| it.max(2) - 1) };
        let places: Vec<_> =
            client.former.iter().copied().chain([(client.at, client.caller)]).collect();
        let (sidecar, caller) = places[usize::try_from(random.below(places.len() as u64)).unwrap()];
        let most = if !self.calm && random.chance(300) { 20_000 } else { 30 };
        let delay = millis(random, 1, most);
        let life = self.sidecars[sidecar].life;
        let event = match call(caller, generation) {
            // S16: who has resumed never releases the generation that it had before.
            Event::Call { caller, call: HolderCall::Release, .. } if caller != client.caller => {
                Event::Call { caller, generation: newest, call: HolderCall::Release }
            }
            event => event,
        };
        let incoming = Incoming::Event(event);
        self.after(delay, Delivery::ToSidecar { sidecar, life, incoming });
    }

    /// Its old stream is closed at a sidecar that it has left, some time later. Only a client that was
    /// answered does that (S16).
    pub(crate) fn stray_cancel(&mut self, index: usize, random: &mut SeededRandom) {
        let former = &self.clients[index].former;
        if former.is_empty() {
            return;
        }
        let (sidecar, caller) = former[usize::try_from(random.below(former.len() as u64)).unwrap()];
        let most = if !self.calm && random.chance(300) { 20_000 } else { 30 };
        let delay = millis(random, 1, most);
        let life = self.sidecars[sidecar].life;
        let incoming = Incoming::Event(Event::CallerLeft { caller });
        self.after(delay, Delivery::ToSidecar { sidecar, life, incoming });
    }

    /// What a caller is told by `action`.
    pub(crate) fn message(&self, index: usize, action: &Action) -> Option<(CallerId, Message)> {
        let gained = self.sidecars[index].gained;
        let here = Here { boot: self.time_at(index), ..self.here(index) };
        let for_now = |until: &Instant| until.saturating_since(here.boot);
        Some(match action {
            Action::Tell { caller, notice: Notice::Granted(grant) } => {
                let kept = Kept::made(grant, here);
                let valid_for = for_now(&grant.valid_until);
                let valid_until = grant.valid_until.saturating_sub(gained);
                let grant = Granted { valid_until, ..grant.clone() };
                (*caller, Message::Granted { grant, valid_for, kept })
            }
            Action::Tell {
                caller,
                notice:
                    Notice::Renewed { valid_until: until }
                    | Notice::Recovered { valid_until: until }
                    | Notice::AtRisk { valid_until: until, .. },
            } => {
                let valid_for = for_now(until);
                (*caller, Message::Validity { until: until.saturating_sub(gained), valid_for })
            }
            Action::Tell { caller, notice: Notice::Revoked { valid_until: until } } => {
                let valid_for = for_now(until);
                (*caller, Message::Revoked { until: until.saturating_sub(gained), valid_for })
            }
            Action::Tell {
                caller,
                notice: Notice::Extended { valid_until: until, max_hold_ends },
            } => {
                let ends = self.now + max_hold_ends.saturating_since(here.boot);
                let bound = (*max_hold_ends, here, ends);
                (*caller, Message::Extended { until: *until, valid_for: for_now(until), bound })
            }
            Action::Tell { caller, notice: Notice::SameGrant { holder } } => {
                (*caller, self.same_grant(index, *holder)?)
            }
            Action::Tell {
                caller,
                notice: Notice::Released { .. } | Notice::NotConfirmed { .. },
            } => (*caller, Message::Released),
            Action::Tell { caller, notice: Notice::Lost { .. } | Notice::ResumeRefused { .. } } => {
                (*caller, Message::Lost)
            }
            Action::Tell {
                caller,
                notice: Notice::Moved | Notice::Interrupted | Notice::Superseded { .. },
            } => (*caller, Message::Closed),
            Action::Tell {
                caller,
                notice: Notice::Busy(_) | Notice::Failed(_) | Notice::Settled { .. },
            } => (*caller, Message::Refused),
            _ => return None,
        })
    }

    /// The clocks of a sidecar's machine.
    fn here(&self, machine: usize) -> Here {
        Here { machine, boot: self.read_clock(machine) }
    }

    /// A sidecar has agreed to a `max_hold`, at the grant or anew, whether or not its client comes to know.
    pub(crate) fn agreed(&mut self, message: &Message, caller: CallerId) {
        let Some(index) = self.whose.get(&caller).copied() else { return };
        let client = &mut self.clients[index];
        let ends = match message {
            Message::Extended { bound: (_, _, ends), .. } => Some(*ends),
            Message::Granted { grant, .. } if !grant.resumed => {
                client.terms.max_hold.map(|span| self.now + span)
            }
            _ => None,
        };
        client.bounds.extend(ends);
    }

    /// S11: what was agreed on last bounds the hold, and nothing older does.
    pub(crate) fn check_bound(&mut self, action: &Action) {
        let Action::Tell {
            caller,
            notice: Notice::Lost { reason: LossReason::MaxHoldReached, .. },
        } = action
        else {
            return;
        };
        let Some(client) = self.callers.get(caller).map(|index| &self.clients[*index]) else {
            return;
        };
        // A machine that stood still counts what is left by its own clocks until it hears the store's again.
        let lease = client.grant.as_ref().map(|grant| grant.lease_id);
        if lease.is_some_and(|lease| self.checks.may_have_ended(lease)) {
            return;
        }
        let moves = u32::try_from(client.former.len()).unwrap();
        let early = if moves == 0 { EARLY } else { EARLY_ELSEWHERE + EARLY_EACH_MOVE * moves };
        let least = client.bounds.iter().min().copied();
        let too_early = least.is_some_and(|ends| self.now + early < ends);
        if too_early && client.terms.auto_renew {
            let text = format!(
                "S11: {caller:?} is told that max_hold is reached, and it ends at {least:?}"
            );
            self.checks.fail(text);
        }
    }

    /// S16: who asks to go on with a hold that is still its own is not told that another had the lock.
    pub(crate) fn check_resume(&mut self, action: &Action) {
        let Action::Tell {
            caller,
            notice:
                Notice::Lost { reason: LossReason::Taken, .. }
                | Notice::ResumeRefused { reason: LossReason::Taken, .. },
        } = action
        else {
            return;
        };
        let Some(client) = self.callers.get(caller).map(|index| &self.clients[*index]) else {
            return;
        };
        let Some(grant) = client.grant.as_ref().filter(|_| client.stage == Stage::Resuming) else {
            return;
        };
        let goes_on = self.checks.promises.goes_on(grant.lease_id, grant.generation)
            && !self.checks.truth.is_over(grant.lease_id)
            && self.checks.idle.runs(grant.lease_id, self.now);
        if goes_on {
            let text = format!("S16: {caller:?} may not go on with a hold that is its own");
            self.checks.fail(text);
        }
    }

    /// S5: tokens stay with the clock, so that a lock that is made again does not start over.
    pub(crate) fn check_token(&mut self, action: &Action) {
        let Action::Tell { notice: Notice::Granted(grant), .. } = action else { return };
        let ahead = self.storage.ahead(grant.token, self.now);
        self.checks.farthest_ahead = self.checks.farthest_ahead.max(ahead);
        if ahead > AHEAD && !self.checks.measures_only {
            let text = format!("S5: token {} is {ahead:?} ahead of the store's clock", grant.token);
            self.checks.fail(text);
        }
    }
}

/// How far a token may run ahead of the store's clock: a lock that is made again 5 s later gets a greater
/// one.
const AHEAD: Duration = Duration::from_secs(5);
