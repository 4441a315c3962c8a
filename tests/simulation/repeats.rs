//! Unary calls that are repeated with their request id (S12): what their clients do, and what the coordinator
//! does between them and the machine. A call that was repeated gives its place, or its grant, to the repeat.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::hold::{Action, CallerId, Event, Granted, HolderCall, Notice, Terms};
use leasehold::testing::SeededRandom;
use leasehold::time::Instant;

use crate::kit::millis;
use crate::simulation::chance::About;
use crate::simulation::client::{Message, Stage};
use crate::simulation::due::{Delivery, Incoming};
use crate::simulation::world::World;

/// The longest hold of a unary call: nobody notices when its client is gone (S14).
const LONGEST_HOLD: Duration = Duration::from_secs(40);

/// The calls of a client that holds without a stream.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// Those that it waits for, and when it sent them, by its own clock.
    live: Vec<(CallerId, Instant)>,
}

impl Calls {
    /// Takes out a call that is answered, if it is waited for.
    fn take(&mut self, caller: CallerId) -> Option<Instant> {
        let index = self.live.iter().position(|(call, _)| *call == caller)?;
        Some(self.live.swap_remove(index).1)
    }
}

/// What the coordinators keep of grants that may be asked for again.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    granted: BTreeMap<CallerId, Granted>,
    /// By their holder: calls that were answered with the grant, and may go away before they have it. None
    /// once one has it.
    unconfirmed: BTreeMap<CallerId, Vec<CallerId>>,
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

impl Repeats {
    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn confirm(&mut self, holder: CallerId) {
        if let Some(unconfirmed) = self.unconfirmed.get_mut(&holder) {
            unconfirmed.clear();
        }
    }

    /// A call's connection is gone: whom that leaves without anybody, if somebody (S6).
    fn left(&mut self, caller: CallerId) -> Option<CallerId> {
        for (holder, unconfirmed) in &mut self.unconfirmed {
            if let Some(index) = unconfirmed.iter().position(|call| *call == caller) {
                unconfirmed.swap_remove(index);
                return unconfirmed.is_empty().then_some(*holder);
            }
        }
        (!self.unconfirmed.contains_key(&caller)).then_some(caller)
    }
}

/// What a unary call with this id asks for.
pub(crate) fn as_call(terms: Terms, id: String) -> Terms {
    let max_hold = terms.max_hold.unwrap_or(LONGEST_HOLD).min(LONGEST_HOLD);
    Terms { request_id: id, max_hold: Some(max_hold), resumable: false, ..terms }
}

impl World {
    fn has_calls(&self, index: usize) -> bool {
        self.clients[index].calls.is_some()
    }

    /// The first call of a client that came just now.
    pub(crate) fn begin_calls(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let live = vec![(client.caller, client.called)];
        client.calls = (!client.terms.request_id.is_empty()).then_some(Calls { live });
    }

    /// It calls with the same id once more.
    fn call_again(&mut self, index: usize) {
        let caller = CallerId(self.number());
        let called = self.read_clock(self.clients[index].machine);
        let client = &mut self.clients[index];
        client.calls.as_mut().unwrap().live.push((caller, called));
        let (at, terms) = (client.at, Arc::clone(&client.terms));
        self.callers.insert(caller, index);
        self.whose.insert(caller, index);
        let number = self.number();
        let delay = millis(&mut self.chance.of(About::Delay, 96, number), 1, 20);
        self.call(delay, (at, caller), Incoming::Event(Event::CallerArrived { caller, terms }));
    }

    /// The connections of its calls break; its sidecar notices now or later.
    fn cut_calls(&mut self, index: usize, random: &mut SeededRandom) {
        let at = self.clients[index].at;
        let live = std::mem::take(&mut self.clients[index].calls.as_mut().unwrap().live);
        for (caller, _) in live {
            self.callers.remove(&caller);
            let most = if random.chance(300) { 20_000 } else { 30 };
            self.call(millis(random, 0, most), (at, caller), Incoming::CallCut(caller));
        }
    }

    /// All its calls are over, because its sidecar is.
    pub(crate) fn calls_closed(&mut self, index: usize) {
        let live = std::mem::take(&mut self.clients[index].calls.as_mut().unwrap().live);
        for (caller, _) in live {
            self.callers.remove(&caller);
        }
    }

    pub(crate) fn act_by_call(&mut self, index: usize) {
        let (mut random, again) = self.next_act(index);
        let waits_for_none =
            self.clients[index].calls.as_ref().is_some_and(|calls| calls.live.is_empty());
        match self.clients[index].stage {
            Stage::Gone | Stage::CutOff | Stage::Resuming => return,
            Stage::Waiting if self.calm => {}
            Stage::Waiting => match random.below(10) {
                0 => self.leave_by_call(index),
                1..=3 => {
                    self.repeats.count("repeated: after a cut");
                    self.cut_calls(index, &mut random);
                    self.call_again(index);
                }
                4 => {
                    self.repeats.count("repeated: twice at once");
                    self.call_again(index);
                }
                _ if waits_for_none => self.call_again(index),
                _ => {}
            },
            Stage::Holding => self.hold_by_call(index, &mut random),
        }
        self.after(again, Delivery::ClientActs(index));
    }

    fn hold_by_call(&mut self, index: usize, random: &mut SeededRandom) {
        let unsure = self.clients[index].until.is_none() && !self.calm;
        if !unsure && !self.believes(index) || self.calm {
            return self.leave_by_call(index);
        }
        // Nobody tells it of renewals.
        self.ask(index);
        if unsure {
            return;
        }
        let token = self.clients[index].grant.as_ref().map_or(0, |grant| grant.token.value());
        self.after(millis(random, 1, 40), Delivery::ToResource { client: index, token });
        let (caller, generation) = (self.clients[index].caller, self.clients[index].generation);
        match random.below(12) {
            0 | 1 => self.leave_by_call(index),
            2..=5 => {
                self.repeats.count("repeated: while it holds");
                self.call_again(index);
            }
            6 => {
                let max_hold = millis(random, 0, 40_000);
                self.send_event(
                    index,
                    Event::Call { caller, generation, call: HolderCall::Extend { max_hold } },
                );
            }
            _ => self
                .send_event(index, Event::Call { caller, generation, call: HolderCall::Progress }),
        }
    }

    /// Ends its belief first, then says so, if it does (S13). What it has asked for again comes to nobody.
    pub(crate) fn leave_by_call(&mut self, index: usize) {
        let (mut random, _) = self.next_act(index);
        self.trace_end(index, false);
        let client = &mut self.clients[index];
        let (caller, generation) = (client.caller, client.generation);
        let held = client.grant.take().is_some();
        (client.until, client.stage) = (None, Stage::Gone);
        if held && random.chance(700) {
            self.send_event(index, Event::Call { caller, generation, call: HolderCall::Release });
        }
        self.callers.remove(&caller);
        self.cut_calls(index, &mut random);
    }

    /// A client without a stream reads what one of its calls is answered with.
    pub(crate) fn hear_by_call(&mut self, index: usize, caller: CallerId, message: Message) {
        match message {
            Message::Granted { grant, valid_for, .. } => {
                self.hear_answer(index, caller, (caller, grant, valid_for));
            }
            Message::SameGrant { holder, grant, valid_for } => {
                self.hear_answer(index, caller, (holder, grant, valid_for));
            }
            Message::Answer { valid_for, asked } => {
                let here = self.read_clock(self.clients[index].machine);
                let until = asked + valid_for;
                let may = self.clients[index].until.is_none() || self.believes(index);
                if may && here < until && self.clients[index].grant.is_some() {
                    self.set_belief(index, until);
                }
            }
            Message::Refused | Message::Closed => {
                let client = &mut self.clients[index];
                let calls = client.calls.as_mut().unwrap();
                let answered = calls.take(caller).is_some();
                let over = answered && calls.live.is_empty() && client.stage == Stage::Waiting;
                if over && matches!(message, Message::Refused) {
                    client.stage = Stage::Gone;
                }
            }
            // It has no stream on which it could be told that.
            Message::Extended { .. }
            | Message::Validity { .. }
            | Message::Revoked { .. }
            | Message::Released
            | Message::Lost => {}
        }
    }

    fn hear_answer(
        &mut self,
        index: usize,
        call: CallerId,
        (holder, grant, valid_for): (CallerId, Granted, Duration),
    ) {
        let here = self.read_clock(self.clients[index].machine);
        let Some(called) = self.clients[index].calls.as_mut().unwrap().take(call) else { return };
        self.repeats.confirm(holder);
        if let Some(before) = &self.clients[index].grant {
            // The answer to an older call, held up until another was answered with a later grant.
            if grant.token < before.token {
                return;
            }
            let same = (before.lease_id, before.token) == (grant.lease_id, grant.token);
            let is_over = self.clients[index].until.is_some_and(|until| here >= until);
            if same && is_over {
                return self.leave_by_call(index);
            }
            if !same && self.believes(index) && !self.is_excused(index) {
                let before = before.token;
                let text = format!("S12: one request id has {before} and {}", grant.token);
                self.checks.fail(text);
            }
            if !same {
                self.trace_end(index, false);
                self.clients[index].until = None;
            }
        }
        self.callers.insert(holder, index);
        let now = self.now;
        let client = &mut self.clients[index];
        let local = client.machine == client.at;
        let until = if local { grant.valid_until } else { called + valid_for };
        client.first_granted.get_or_insert(now);
        (client.stage, client.caller, client.called) = (Stage::Holding, holder, called);
        (client.generation, client.grant) = (Some(grant.generation), Some(grant));
        match here < until {
            true => self.set_belief(index, until),
            false if local => self.leave_by_call(index),
            false => self.ask(index),
        }
    }

    /// What the coordinator keeps of what a call is answered with.
    pub(crate) fn keep_grant(&mut self, action: &Action) {
        let (holder, caller) = match action {
            Action::Tell { caller, notice: Notice::Granted(_) } => (*caller, *caller),
            Action::Tell { caller, notice: Notice::SameGrant { holder } } => (*holder, *caller),
            _ => return,
        };
        if !self.whose.get(&caller).is_some_and(|index| self.has_calls(*index)) {
            return;
        }
        if let Action::Tell { notice: Notice::Granted(grant), .. } = action {
            self.repeats.granted.insert(holder, grant.clone());
            self.repeats.unconfirmed.insert(holder, vec![caller]);
        } else {
            self.repeats.count("told: the same grant");
            let unconfirmed = self.repeats.unconfirmed.entry(holder).or_default();
            if !unconfirmed.is_empty() {
                unconfirmed.push(caller);
            }
        }
        // Mostly the answer is taken at once; what the network makes of it nobody knows then.
        if self.chance.of(About::Delay, 95, caller.0).chance(700) {
            self.repeats.confirm(holder);
        }
    }

    /// The answer to a call that repeats the holder's: its grant, with the validity of now.
    pub(crate) fn same_grant(&self, index: usize, holder: CallerId) -> Option<Message> {
        let sidecar = &self.sidecars[index];
        let until = sidecar.machine.hold.validity(holder)?;
        let valid_for = until.saturating_since(self.time_at(index));
        let mut grant = self.repeats.granted.get(&holder)?.clone();
        grant.valid_until = until.saturating_sub(sidecar.gained);
        Some(Message::SameGrant { holder, grant, valid_for })
    }

    /// A sidecar notices that the connection of a call is gone.
    pub(crate) fn call_cut(&mut self, index: usize, caller: CallerId) {
        if let Some(caller) = self.repeats.left(caller) {
            self.feed(index, Event::CallerLeft { caller });
        }
    }
}
