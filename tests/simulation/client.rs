//! Clients that act by their validity (S21): what they were told, read late, and what they do then.

use std::sync::Arc;
use std::time::Duration;

use leasehold::hold::{CallerId, Event, Granted, HolderCall, Terms};
use leasehold::schedule::Occurrence;
use leasehold::testing::SeededRandom;
use leasehold::time::Instant;

use crate::kit::millis;
use crate::simulation::chance::About;
use crate::simulation::due::{Delivery, Incoming};
use crate::simulation::kept::{Here, Kept};
use crate::simulation::ledger::log_of;
use crate::simulation::long::Loop;
use crate::simulation::plan::Mode;
use crate::simulation::planted::Bug;
use crate::simulation::repeats::{Calls, as_call};
use crate::simulation::world::World;

/// What a client reads.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Granted {
        grant: Granted,
        valid_for: Duration,
        /// What its resume token says (S16).
        kept: Kept,
    },
    /// Its `max_hold` ends then: by the sidecar's clock, and by true time (S11).
    Extended {
        until: Instant,
        valid_for: Duration,
        bound: (Instant, Here, Duration),
    },
    /// What the call that holds was answered with (S12).
    SameGrant {
        holder: CallerId,
        grant: Granted,
        valid_for: Duration,
    },
    /// A validity that answers no question: as a reading of the sidecar's clock, and as a span.
    Validity {
        until: Instant,
        valid_for: Duration,
    },
    /// Its lease runs out, and this is the end of its validity (S22).
    Revoked {
        until: Instant,
        valid_for: Duration,
    },
    Answer {
        valid_for: Duration,
        asked: Instant,
    },
    Released,
    Lost,
    Refused,
    /// The sidecar has closed the stream.
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Waiting,
    Holding,
    /// Its stream broke, and it has not called again yet.
    CutOff,
    /// It asked to go on with its hold.
    Resuming,
    Gone,
}

#[derive(Debug)]
pub(crate) struct Client {
    /// Its machine; a sidecar's, or one without.
    pub(crate) machine: usize,
    /// The sidecar that it calls now, and as whom.
    pub(crate) at: usize,
    pub(crate) caller: CallerId,
    /// When it sent its latest call, by its own clock.
    pub(crate) called: Instant,
    pub(crate) terms: Arc<Terms>,
    pub(crate) stage: Stage,
    /// Until when it believes, by its own clock; once over, over.
    pub(crate) until: Option<Instant>,
    pub(crate) grant: Option<Granted>,
    pub(crate) kept: Option<Kept>,
    /// The generation that it was answered with (S16).
    pub(crate) generation: Option<u64>,
    /// Where it has had its hold before, and as whom (S16).
    pub(crate) former: Vec<(usize, CallerId)>,
    /// When its `max_hold` may end: true times, as sidecars agreed on them, from the newest that it knows on.
    pub(crate) bounds: Vec<Duration>,
    /// It acts by a script.
    pub(crate) loops: Option<Loop>,
    /// It holds by unary calls.
    pub(crate) calls: Option<Calls>,
    /// The saves that its next one comes of (S23).
    pub(crate) log: Vec<u32>,
    /// The occurrence that it names (T1).
    pub(crate) occurrence: Option<Occurrence>,
    pub(crate) first_granted: Option<Duration>,
    pub(crate) paused_until: Duration,
    pub(crate) acts: u64,
}

/// How long after it was told lost a client says that it knows.
const KNOWN_AFTER: Duration = Duration::from_millis(8);

impl World {
    /// A few clients come, now and then.
    pub(crate) fn arrival(&mut self, number: u64) {
        if self.calm {
            return;
        }
        let mut next = self.chance.of(About::Arrival, 1, number);
        self.after(millis(&mut next, 100, 12_000), Delivery::Arrival(number + 1));
        let Some(mut random) = self.chance.fault(About::Arrival, (0, number), 800) else { return };
        let at = usize::try_from(random.below(self.sidecars.len() as u64)).unwrap();
        let remote = self.clocks.len() - self.sidecars.len();
        let machine = if random.chance(600) {
            at
        } else {
            self.sidecars.len() + usize::try_from(random.below(remote as u64)).unwrap()
        };
        let mut terms = self.plan.terms(&mut random);
        if self.plan.crossing.repeats && self.chance.of(About::Arrival, 2, number).chance(700) {
            terms = as_call(terms, format!("call-{number}"));
        }
        self.arrive((machine, at), terms);
    }

    /// A new client on `machine` calls the sidecar `at`.
    pub(crate) fn arrive(&mut self, (machine, at): (usize, usize), terms: Terms) {
        let index = self.clients.len();
        let caller = CallerId(self.number());
        let terms = Arc::new(terms);
        self.callers.insert(caller, index);
        self.whose.insert(caller, index);
        self.clients.push(Client {
            machine,
            at,
            caller,
            called: self.read_clock(machine),
            terms: Arc::clone(&terms),
            stage: Stage::Waiting,
            until: None,
            grant: None,
            kept: None,
            generation: None,
            former: Vec::new(),
            bounds: Vec::new(),
            loops: None,
            calls: None,
            log: Vec::new(),
            occurrence: None,
            first_granted: None,
            paused_until: Duration::ZERO,
            acts: 0,
        });
        self.begin_calls(index);
        let terms = self.name_occurrence(index, terms);
        self.send_event(index, Event::CallerArrived { caller, terms });
        if self.plan.mode != Mode::Nothing {
            let delay = self.next_act(index).1;
            self.after(delay, Delivery::ClientActs(index));
        }
    }

    /// A client that was served calls once more.
    pub(crate) fn come_again(&mut self, index: usize) {
        let caller = CallerId(self.number());
        let called = self.read_clock(self.clients[index].machine);
        let client = &mut self.clients[index];
        self.callers.remove(&client.caller);
        (client.caller, client.called, client.stage) = (caller, called, Stage::Waiting);
        let terms = Arc::clone(&client.terms);
        self.callers.insert(caller, index);
        self.whose.insert(caller, index);
        self.send_event(index, Event::CallerArrived { caller, terms });
    }

    /// Randomness for what a client does next, and when it acts again.
    pub(crate) fn next_act(&mut self, index: usize) -> (SeededRandom, Duration) {
        let client = &mut self.clients[index];
        client.acts += 1;
        let mut random = self.chance.of(About::Act, index, client.acts);
        let slowest = if self.plan.crossing.moves { 3_000 } else { 8_000 };
        let again = millis(&mut random, 100, slowest);
        (random, again)
    }

    pub(crate) fn send_event(&mut self, index: usize, event: Event) {
        let (at, caller) = (self.clients[index].at, self.clients[index].caller);
        let number = self.number();
        let delay = millis(&mut self.chance.of(About::Delay, 99, number), 1, 20);
        self.call(delay, (at, caller), Incoming::Event(event));
    }

    pub(crate) fn believes(&self, index: usize) -> bool {
        let client = &self.clients[index];
        client.until.is_some_and(|until| self.read_clock(client.machine) < until)
    }

    /// Whether others may believe beside this one: its lease was ended at once (S17), or its sidecar stood
    /// still (S3).
    pub(crate) fn is_excused(&self, index: usize) -> bool {
        let grant = self.clients[index].grant.as_ref();
        grant
            .is_some_and(|grant| self.checks.excuses(grant.lease_id, grant.token.value(), self.now))
    }

    pub(crate) fn set_belief(&mut self, index: usize, until: Instant) {
        if self.story.trace.is_some() {
            self.trace_belief(index, until);
        }
        let promised = self.clocks[self.clients[index].machine].when(until);
        let client = &mut self.clients[index];
        client.until = Some(client.until.map_or(until, |old| old.max(until)));
        if let Some(grant) = &client.grant {
            self.checks.idle.had(grant.lease_id, promised);
        }
        // S1, in the eyes of the clients.
        let counts = |world: &Self, index| world.believes(index) && !world.is_excused(index);
        if !counts(self, index) {
            return;
        }
        let other = (0..self.clients.len()).find(|other| *other != index && counts(self, *other));
        if let Some(other) = other {
            let (caller, other) = (self.clients[index].caller, self.clients[other].caller);
            self.checks.fail(format!("S1: {caller:?} believes beside {other:?}"));
        }
    }

    /// A client reads what it was told; what was told to a call that it has given up reaches nobody.
    pub(crate) fn hear(&mut self, caller: CallerId, message: Message) {
        let Some(index) = self.callers.get(&caller).copied() else { return };
        let client = &mut self.clients[index];
        if client.paused_until > self.now {
            let delay = client.paused_until - self.now;
            return self.after(delay, Delivery::ToClient(caller, message));
        }
        self.story.note(self.now, || format!("client {index}    {caller:?} reads {message:?}"));
        if client.calls.is_some() {
            return self.hear_by_call(index, caller, message);
        }
        let here = self.clocks[client.machine].read(self.now);
        let local = client.machine == client.at;
        let naive = self.bug == Some(Bug::CountsFromReading);
        match message {
            Message::Granted { grant, valid_for, kept } => {
                self.hear_grant(index, (grant, valid_for, kept), here);
            }
            Message::Extended { until, valid_for, bound: (max_hold_ends, there, ends) } => {
                if let Some(newest) = client.bounds.iter().position(|bound| *bound == ends) {
                    client.bounds.drain(..newest);
                }
                if self.bug != Some(Bug::OldResumeToken) {
                    client.kept = client.kept.map(|kept| kept.extended(max_hold_ends, there));
                }
                self.hear(caller, Message::Validity { until, valid_for });
            }
            Message::Closed => {
                self.callers.remove(&caller);
                let believes = self.believes(index);
                let client = &mut self.clients[index];
                client.stage = if believes { Stage::CutOff } else { Stage::Gone };
            }
            Message::Validity { until, valid_for } => {
                let until = if naive { here + valid_for } else { until };
                if (local || naive) && self.believes(index) {
                    self.set_belief(index, until);
                }
            }
            Message::Revoked { until, valid_for } => {
                self.hear_notice(index);
                self.hear(caller, Message::Validity { until, valid_for });
            }
            Message::Answer { valid_for, asked } => {
                let until = if naive { here + valid_for } else { asked + valid_for };
                let may = self.clients[index].until.is_none() || self.believes(index);
                if may && here < until && self.clients[index].grant.is_some() {
                    self.set_belief(index, until);
                }
            }
            Message::SameGrant { .. } => {}
            Message::Released => {
                client.until = None;
                self.loops_on_after(index, |loops| loops.away);
            }
            Message::Lost | Message::Refused => self.hear_end(index, caller, &message),
        }
    }

    fn hear_end(&mut self, index: usize, caller: CallerId, message: &Message) {
        // A resume that failed ends no belief, but there is no other call to wait for.
        self.callers.remove(&caller);
        let resumes = matches!(message, Message::Refused) && self.believes(index);
        let revives = self.bug == Some(Bug::LateRenewalRevives);
        if !resumes {
            self.trace_end(index, true);
        }
        // S13: it says that it knows.
        if matches!(message, Message::Lost) && !revives {
            self.say_known(index);
        }
        let client = &mut self.clients[index];
        client.stage = if resumes { Stage::CutOff } else { Stage::Gone };
        if !resumes && !revives {
            client.grant = None;
            client.until = None;
        }
        self.loops_on_after(index, |loops| loops.away);
    }

    fn say_known(&mut self, index: usize) {
        let client = &self.clients[index];
        let (at, caller, generation) = (client.at, client.caller, client.generation);
        if generation.is_some() {
            let known = Event::Call { caller, generation, call: HolderCall::Release };
            self.call(KNOWN_AFTER, (at, caller), Incoming::Event(known));
        }
    }

    fn loops_on_after(&mut self, index: usize, span: impl FnOnce(Loop) -> Option<Duration>) {
        if let Some(span) = self.clients[index].loops.and_then(span) {
            self.after(span, Delivery::LoopsOn(index));
        }
    }

    fn hear_grant(
        &mut self,
        index: usize,
        (grant, valid_for, kept): (Granted, Duration, Kept),
        here: Instant,
    ) {
        let now = self.now;
        let client = &mut self.clients[index];
        let local = client.machine == client.at;
        let went_on = client.grant.is_some();
        if went_on && client.until.is_none_or(|until| here >= until) {
            return self.leave(index);
        }
        client.first_granted.get_or_insert(now);
        client.stage = Stage::Holding;
        let until = match local {
            _ if self.bug == Some(Bug::CountsFromReading) => here + valid_for,
            true => grant.valid_until,
            // S21: elsewhere it counts from before its own call.
            false => client.called + valid_for,
        };
        client.generation = Some(grant.generation);
        if !grant.resumed {
            client.log = log_of(grant.checkpoint.as_ref());
        }
        (client.grant, client.kept) = (Some(grant), Some(kept));
        if here < until {
            self.set_belief(index, until);
            self.loops_on_after(index, |loops| Some(loops.holds));
            if went_on && self.plan.crossing.moves {
                let (mut random, _) = self.next_act(index);
                self.stray_cancel(index, &mut random);
            }
        } else if local {
            self.leave(index);
        } else {
            self.ask(index);
        }
    }

    /// S21: a client elsewhere asks from time to time.
    pub(crate) fn ask(&mut self, index: usize) {
        let client = &self.clients[index];
        let (at, caller) = (client.at, client.caller);
        let asked = self.read_clock(client.machine);
        let delay = Duration::from_millis(5);
        self.call(delay, (at, caller), Incoming::Question(caller, client.generation, asked));
    }

    /// Ends its belief first, then says so (S13).
    pub(crate) fn leave(&mut self, index: usize) {
        self.leave_saving(index, false);
    }

    /// The same; with what it `saves`, if that must be.
    pub(crate) fn leave_saving(&mut self, index: usize, saves: bool) {
        if self.clients[index].calls.is_some() {
            return self.leave_by_call(index);
        }
        let (mut random, _) = self.next_act(index);
        let asks = random.chance(self.plan.releases()) || saves;
        let keeps = self.bug == Some(Bug::BelievesUntilReleased) && asks;
        if asks {
            self.perhaps_haunt(index);
        }
        if !keeps {
            self.trace_end(index, false);
        }
        let client = &mut self.clients[index];
        let caller = client.caller;
        client.grant = None;
        client.stage = Stage::Gone;
        if !keeps {
            client.until = None;
            self.callers.remove(&caller);
        }
        if asks {
            let moved = !self.clients[index].former.is_empty();
            // An address that several sidecars share takes the call to any of them.
            if !moved || random.chance(400) {
                self.send_release(index, saves);
            }
            if moved || random.chance(100) {
                self.stray(index, &mut random, |caller, generation| Event::Call {
                    caller,
                    generation,
                    call: HolderCall::Release,
                });
            }
        }
        if !keeps {
            // A call that has ended is over for its sidecar, whatever it was told in between.
            self.send_event(index, Event::CallerLeft { caller });
        }
    }
}
