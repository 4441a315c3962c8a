//! A few sidecars, the clients that call them, and one lock in a store. Everything between them is lost,
//! late, repeated or refused as the seed says.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::hold::{Action, CallerId, Event, HolderCall, Settings};
use leasehold::lock::LeaseId;
use leasehold::time::Instant;
use uuid::Uuid;

use crate::kit::millis;
use crate::simulation::breaking::freed_by;
use crate::simulation::chance::{About, Chance};
use crate::simulation::checks::Checks;
use crate::simulation::client::{Client, Message};
use crate::simulation::clock::Clock;
use crate::simulation::due::{Delivery, Incoming, Side};
use crate::simulation::plan::Plan;
use crate::simulation::planted::Bug;
use crate::simulation::promises::Look;
use crate::simulation::repeats::Repeats;
use crate::simulation::sidecar::Sidecar;
use crate::simulation::storage::Storage;
use crate::simulation::story::Story;

/// Machines of clients that no sidecar shares.
const REMOTE: usize = 2;

/// Steps at one moment, more than there can be reason for.
const MOST_STEPS: u32 = 20_000;

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: Duration,
    pub(crate) chance: Chance,
    pub(crate) plan: Plan,
    /// Faults have stopped.
    pub(crate) calm: bool,
    pub(crate) bug: Option<Bug>,
    pub(crate) sidecars: Vec<Sidecar>,
    pub(crate) clocks: Vec<Clock>,
    pub(crate) storage: Storage,
    pub(crate) clients: Vec<Client>,
    /// Which client a caller is.
    pub(crate) callers: BTreeMap<CallerId, usize>,
    /// Which client a caller is, or was before it called anew.
    pub(crate) whose: BTreeMap<CallerId, usize>,
    /// When what was sent last to a side of a connection arrives.
    connections: BTreeMap<(CallerId, Side), Duration>,
    /// What is on its way, by its time and its number; boxed, so that little is moved about.
    queue: BTreeMap<(Duration, u64), Box<Delivery>>,
    numbers: u64,
    pub(crate) messages: u64,
    pub(crate) repeats: Repeats,
    pub(crate) checks: Checks,
    pub(crate) story: Story,
}

impl World {
    pub(crate) fn new(chance: Chance, bug: Option<Bug>, story: Story) -> Self {
        let drawn @ (plan, ..) = Plan::drawn(&chance);
        let mut world = Self::with(chance, drawn, bug, story);
        world.after(Duration::ZERO, Delivery::Arrival(0));
        world.after(Duration::from_secs(1), Delivery::Trouble(0));
        if plan.crossing.store_clock > 0 {
            world.after(Duration::from_secs(1), Delivery::StoreClock(0));
        }
        world
    }

    /// A world in which nothing happens by itself.
    pub(crate) fn with(
        chance: Chance,
        (plan, count, settings): (Plan, usize, Settings),
        bug: Option<Bug>,
        story: Story,
    ) -> Self {
        let mut random = chance.of(About::Plan, 2, 0);
        let clocks: Vec<Clock> = (0..count + REMOTE)
            .map(|_| {
                let offset = millis(&mut random, 0, 1_000_000_000);
                Clock::new(offset, 995_000 + random.below(10_001))
            })
            .collect();
        let sidecars = clocks
            .iter()
            .take(count)
            .map(|clock| Sidecar::new(settings, random.next_u64(), clock.read(Duration::ZERO), bug))
            .collect();
        let mut storage = Storage::new();
        storage.loose = bug == Some(Bug::WritesWithoutMatch);
        storage.loose_saves = bug == Some(Bug::SaveWithoutMatch);
        storage.fronts = [0, random.below(3_001), random.below(3_001)];
        Self {
            now: Duration::ZERO,
            chance,
            plan,
            calm: false,
            bug,
            sidecars,
            clocks,
            storage,
            clients: Vec::new(),
            callers: BTreeMap::new(),
            whose: BTreeMap::new(),
            connections: BTreeMap::new(),
            queue: BTreeMap::new(),
            numbers: 0,
            messages: 0,
            repeats: Repeats::default(),
            checks: Checks::new(count, plan.mode),
            story,
        }
    }

    pub(crate) const fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(crate) fn after(&mut self, delay: Duration, delivery: Delivery) {
        let number = self.number();
        self.queue.insert((self.now + delay, number), Box::new(delivery));
    }

    pub(crate) fn read_clock(&self, machine: usize) -> Instant {
        self.clocks[machine].read(self.now)
    }

    /// Sends something from a client to a sidecar, as it lives now; a connection keeps the order.
    pub(crate) fn call(
        &mut self,
        delay: Duration,
        (sidecar, caller): (usize, CallerId),
        incoming: Incoming,
    ) {
        let last = self.connections.entry((caller, Side::Sidecar)).or_default();
        *last = (*last).max(self.now + delay);
        let delay = *last - self.now;
        let life = self.sidecars[sidecar].life;
        self.after(delay, Delivery::ToSidecar { sidecar, life, incoming });
    }

    /// Lets everything happen until `end`, or until a rule is broken.
    pub(crate) fn run_until(&mut self, end: Duration) {
        let (mut since, mut steps) = (self.now, 0);
        while self.checks.violation.is_none() {
            (since, steps) = if since == self.now { (since, steps + 1) } else { (self.now, 0) };
            if steps > MOST_STEPS {
                return self.checks.fail("S12: a machine goes round without end".to_owned());
            }
            let delivery = self.queue.first_key_value().map(|(&(at, _), _)| at);
            let wakeup = self.poll_timeout();
            let next = [delivery, wakeup.map(|(at, _)| at)].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            if delivery.is_some_and(|at| at <= self.now) {
                let Some((_, delivery)) = self.queue.pop_first() else { return };
                self.deliver(*delivery);
            } else if let Some((_, sidecar)) = wakeup {
                self.catch_up(sidecar);
                self.take(sidecar, Incoming::Event(Event::TimePassed));
            }
        }
    }

    fn poll_timeout(&self) -> Option<(Duration, usize)> {
        let wakeups = self.sidecars.iter().enumerate().filter_map(|(index, sidecar)| {
            let at = sidecar.machine.hold.poll_timeout();
            let at = at.map(|at| self.clocks[index].when(at.saturating_sub(sidecar.gained)));
            let at = if sidecar.inbox.is_empty() { at } else { Some(self.now) };
            Some((at?.max(sidecar.paused_until), index))
        });
        wakeups.min()
    }

    fn deliver(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::ToSidecar { sidecar, life, incoming } => {
                let to = &mut self.sidecars[sidecar];
                if to.life == life && to.paused_until > self.now {
                    to.inbox.push_back(incoming);
                } else if to.life == life {
                    self.catch_up(sidecar);
                    self.take(sidecar, incoming);
                }
            }
            Delivery::ToStore { sidecar, life, action, number, heard, sent } => {
                self.reach_store((sidecar, life), &action, (number, heard), sent);
            }
            Delivery::ToClient(caller, message) => self.hear(caller, message),
            Delivery::ClientActs(client) => self.act(client),
            Delivery::ToResource { client, token } => self.write(client, token),
            Delivery::Arrival(number) => self.arrival(number),
            Delivery::Trouble(number) => self.trouble(number),
            Delivery::StoreClock(number) => self.store_clock(number),
            Delivery::Restart(sidecar) => self.restart(sidecar),
            Delivery::WallMoves(moves) => self.wall_moves(moves),
            Delivery::Mended => self.mend(),
            Delivery::Finishes { client, caller, saves } => self.finish(client, caller, saves),
            Delivery::Haunts { sidecar, caller, ghost } => self.haunt(sidecar, caller, *ghost),
            Delivery::Breaks(broken) => self.break_lock(broken),
            Delivery::LoopsOn(client) => self.loop_on(client),
        }
    }

    /// What came in while it was paused.
    fn catch_up(&mut self, index: usize) {
        while let Some(incoming) = self.sidecars[index].inbox.pop_front() {
            self.take(index, incoming);
        }
    }

    fn take(&mut self, index: usize, incoming: Incoming) {
        match incoming {
            Incoming::Event(event) => self.feed(index, event),
            Incoming::Together(events) => {
                events.into_iter().for_each(|event| self.feed(index, event));
            }
            Incoming::Broken { noted, ends_now } => self.broken_here(index, noted, ends_now),
            Incoming::Answer(event, date) => {
                self.observe_date(index, date);
                let freed = freed_by(&event);
                self.feed(index, event);
                self.free(index, freed);
            }
            Incoming::CallCut(caller) => self.call_cut(index, caller),
            Incoming::Question(caller, generation, asked) => {
                self.feed(index, Event::Call { caller, generation, call: HolderCall::Validity });
                if let Some(until) = self.sidecars[index].machine.hold.validity(caller) {
                    let valid_for = until.saturating_since(self.time_at(index));
                    self.promise(index, caller, until);
                    self.tell(caller, Message::Answer { valid_for, asked });
                }
            }
        }
    }

    /// As the coordinator's task does: the clocks first, then the event (S3).
    pub(crate) fn feed(&mut self, index: usize, event: Event) {
        self.note_sign(index);
        if self.bug == Some(Bug::LooksAfterwards) {
            self.handle(index, event);
            self.look_for_pauses(index);
        } else {
            self.look_for_pauses(index);
            self.handle(index, event);
        }
    }

    pub(crate) fn handle(&mut self, index: usize, event: Event) {
        let local = self.time_at(index);
        self.story.note(self.now, || format!("sidecar {index}   {event:?}"));
        self.checks.came_in(index, &event, (self.now, local));
        let arrives = match &event {
            Event::CallerArrived { caller, .. } => Some(*caller),
            _ => None,
        };
        self.checks.hand_overs.came_in(index, &event, local);
        self.story.count_event(&event);
        let leaves = match &event {
            Event::CallerLeft { caller } | Event::HolderDisconnected { caller } => Some(*caller),
            _ => None,
        };
        let releases = match &event {
            Event::Call { caller, call: HolderCall::Release, .. } => Some(*caller),
            _ => None,
        };
        let has_turn = matches!(event, Event::RenewTurnCame);
        let bug = self.bug;
        let more = if self.plan.rivals { self.stand(index, &event, local) } else { None };
        let sidecar = &mut self.sidecars[index];
        if sidecar.machine.hold.needs_lease_id() {
            sidecar.lease_ids += 1;
            let number = (u64::from(sidecar.life) << 32) + sidecar.lease_ids;
            let (whose, number) = match bug {
                Some(Bug::SharedLeaseId) => (0, sidecar.lease_ids),
                Some(Bug::ReusedLeaseId) => (index as u64 + 1, 1),
                _ => (index as u64 + 1, number),
            };
            let lease_id = LeaseId::from_uuid(Uuid::from_u64_pair(whose, number));
            sidecar.machine.hold.supply(lease_id);
            sidecar.machine.spare = Some(lease_id);
        }
        let before = sidecar.machine.hold.state();
        let is_resume = matches!(event, Event::ResumeAsked { .. }) || before == "resuming";
        let mut actions = sidecar.machine.on(event, local);
        if let Some(more) = more.filter(|_| !sidecar.machine.hold.needs_lease_id()) {
            actions.extend(sidecar.machine.on(more, local));
        }
        let after = sidecar.machine.hold.state();
        sidecar.resumes = is_resume || after == "resuming";
        self.story.transition(before, after);
        sidecar.has_turn = has_turn;
        self.checks.machine(index, &sidecar.machine.hold, local);
        let mut asked = None;
        for action in actions {
            match action {
                Action::Decide { of, found } => asked = Some((of, found)),
                action => self.carry_out(index, action),
            }
        }
        self.sidecars[index].has_turn = false;
        self.check_turns(index, local);
        let holding = self.sidecars[index].machine.hold.holding();
        self.checks.settled(index, (arrives, holding.as_ref()), local);
        // What waits for its turn may wait for long (S7).
        if self.plan.crossing.held_back == 0 {
            let judged = self.checks.moved.settled(index, holding.as_ref(), local);
            self.checks.judge(judged);
        }
        self.check_notice(index, local);
        if let Some(caller) = leaves.or(releases) {
            self.checks.promises.is_gone(caller);
        }
        if let Some(caller) = leaves {
            // What was due before comes first: it may have been served just then.
            self.checks.stops_waiting(index, caller);
        }
        if let Some((of, found)) = asked {
            self.decide(index, of, &found);
        }
    }

    fn carry_out(&mut self, index: usize, action: Action) {
        self.story.note(self.now, || format!("sidecar {index}   → {action:?}"));
        self.story.count_action(&action);
        let look = self.look(index);
        self.checks.sent(look, &action, self.sidecars[index].machine.hold.state());
        self.check_turn(index, &action);
        self.check_release_at_hand_over(index, &action);
        let Some(action) = self.send(index, action) else { return };
        self.keep_grant(&action);
        self.check_resume(&action);
        self.note_haunted(&action);
        self.check_hand_over(index, &action);
        self.checks.told(look, &action);
        self.check_unbroken(&action);
        self.note_promise(index, &action);
        self.check_token(&action);
        self.check_bound(&action);
        self.weigh_suspicion(index, &action);
        if let Some((caller, message)) = self.message(index, &action) {
            self.agreed(&message, caller);
            self.tell(caller, message);
        }
    }

    /// A look at a sidecar, now.
    pub(crate) fn look(&self, sidecar: usize) -> Look {
        let resumes = self.sidecars[sidecar].resumes;
        let local = self.time_at(sidecar);
        Look { sidecar, now: self.now, local, resumes, former: false, heard: true }
    }

    pub(crate) fn tell(&mut self, caller: CallerId, message: Message) {
        self.messages += 1;
        let (number, rate) = (self.messages, if self.calm { 0 } else { self.plan.delay / 2 });
        let delay =
            match self.chance.fault(About::DelayMessage, (Side::Client as usize, number), rate) {
                Some(mut random) => millis(&mut random, 500, 45_000),
                None => millis(&mut self.chance.of(About::Delay, 0, number), 1, 20),
            };
        // A stream keeps its order.
        let last = self.connections.entry((caller, Side::Client)).or_default();
        *last = (*last).max(self.now + delay);
        let delay = *last - self.now;
        self.after(delay, Delivery::ToClient(caller, message));
    }

    pub(crate) fn settings(&self) -> Settings {
        self.sidecars[0].settings
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.sidecars.iter().all(|sidecar| {
            sidecar.machine.hold.is_idle() && sidecar.machine.hold.poll_timeout().is_none()
        })
    }
}
