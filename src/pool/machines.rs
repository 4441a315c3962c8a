//! The machines of a lock's permits: permit 0 has one always, the others while somebody wants them (S28).

use std::collections::BTreeMap;

use crate::hold::{self, CallerId, Event, Hold, Memory, Settings, Waiter};
use crate::lock::{FencingToken, LeaseId, Permit};
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(super) struct Machines {
    settings: Settings,
    seed: u64,
    first: Hold,
    others: BTreeMap<Permit, Machine>,
    memories: BTreeMap<Permit, Memory>,
    /// A lease id for a machine that is made within an event.
    spare: Option<LeaseId>,
    /// A sidecar that shuts down says so to machines that are made later (S15).
    shutdown: Option<Shutdown>,
}

/// A machine, and the requests of it whose answers are to come: one of them may bring a lease that nobody wants (S6).
#[derive(Clone, Debug)]
struct Machine {
    hold: Hold,
    in_flight: u32,
}

#[derive(Clone, Copy, Debug)]
enum Shutdown {
    Drain { ends: Instant },
    HandOver { ends: Instant },
}

impl Machines {
    pub(super) fn new(settings: Settings, memory: Memory, seed: u64, now: Instant) -> Self {
        Self {
            settings,
            seed,
            first: Hold::new(settings, memory, seed, now),
            others: BTreeMap::new(),
            memories: BTreeMap::new(),
            spare: None,
            shutdown: None,
        }
    }

    pub(super) const fn settings(&self) -> Settings {
        self.settings
    }

    pub(super) const fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) const fn is_shutting_down(&self) -> bool {
        self.shutdown.is_some()
    }

    pub(super) const fn shut_down(&mut self, event: &Event) {
        if let Event::DrainStarted { ends } = event {
            self.shutdown = Some(Shutdown::Drain { ends: *ends });
        } else if let Event::HandOverStarted { ends } = event {
            self.shutdown = Some(Shutdown::HandOver { ends: *ends });
        }
    }

    /// Whether one of them needs a lease id, or one that may be made within the next event.
    pub(super) fn need_lease_id(&self, one_more: bool) -> bool {
        one_more && self.spare.is_none() || self.each().any(|(_, machine)| machine.needs_lease_id())
    }

    pub(super) fn supply(&mut self, lease_id: LeaseId) {
        let others = self.others.values_mut().map(|machine| &mut machine.hold);
        let needy =
            std::iter::once(&mut self.first).chain(others).find(|hold| hold.needs_lease_id());
        match needy {
            Some(hold) => hold.supply(lease_id),
            None => self.spare = Some(lease_id),
        }
    }

    pub(super) fn is_new(&self, permit: Permit) -> bool {
        self.get(permit).is_none() && !self.memories.contains_key(&permit)
    }

    pub(super) fn remember(&mut self, permit: Permit, memory: Memory) {
        if self.is_new(permit) {
            self.memories.insert(permit, memory);
        }
    }

    pub(super) fn get(&self, permit: Permit) -> Option<&Hold> {
        if permit == Permit::FIRST {
            return Some(&self.first);
        }
        self.others.get(&permit).map(|machine| &machine.hold)
    }

    pub(super) const fn first(&self) -> &Hold {
        &self.first
    }

    #[cfg(test)]
    pub(super) const fn first_mut(&mut self) -> &mut Hold {
        &mut self.first
    }

    pub(super) fn each(&self) -> impl Iterator<Item = (Permit, &Hold)> {
        let others = self.others.iter().map(|(permit, machine)| (*permit, &machine.hold));
        std::iter::once((Permit::FIRST, &self.first)).chain(others)
    }

    pub(super) fn permits(&self) -> Vec<Permit> {
        self.each().map(|(permit, _)| permit).collect()
    }

    /// Enters a caller of the pool where a hold is about to end (S30).
    pub(super) fn enter(&mut self, permit: Permit, waiter: Waiter, now: Instant) {
        let other = self.others.get_mut(&permit).map(|machine| &mut machine.hold);
        let machine = if permit == Permit::FIRST { Some(&mut self.first) } else { other };
        if let Some(machine) = machine {
            machine.enter(waiter, now);
        }
    }

    /// Who holds which permit here, or has held it and may believe so.
    pub(super) fn place_of(&self, caller: CallerId) -> Option<Permit> {
        let holds = |hold: &Hold| hold.holding().is_some_and(|holding| holding.caller == caller);
        self.each().find_map(|(permit, machine)| holds(machine).then_some(permit))
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.each().filter_map(|(_, machine)| machine.poll_timeout()).min()
    }

    /// Feeds the machine of `permit`, which is made if need be.
    pub(super) fn handle_event(
        &mut self,
        permit: Permit,
        event: Event,
        now: Instant,
    ) -> Vec<hold::Action> {
        if permit == Permit::FIRST {
            return self.first.handle_event(event, now);
        }
        let answered = is_answer(&event);
        let machine = self.made(permit, now);
        machine.in_flight = machine.in_flight.saturating_sub(u32::from(answered));
        let actions = machine.hold.handle_event(event, now);
        let sent = actions.iter().filter(|action| is_request(action)).count();
        machine.in_flight += u32::try_from(sent).unwrap_or(u32::MAX);
        actions
    }

    fn made(&mut self, permit: Permit, now: Instant) -> &mut Machine {
        let Self { settings, seed, spare, shutdown, others, memories, first } = self;
        others.entry(permit).or_insert_with(|| {
            let memory = memories.remove(&permit).unwrap_or_default();
            // Machines of one pool must not keep step.
            let seed = seed.wrapping_add(u64::from(permit.number()) << 32);
            let mut hold = Hold::new(*settings, memory, seed, now);
            // Before the first caller of a pool comes, only permit 0 has one.
            if let Some(lease_id) = spare.take().or_else(|| first.lend()) {
                hold.supply(lease_id);
            }
            let told = match *shutdown {
                None => Vec::new(),
                Some(Shutdown::Drain { ends }) => {
                    hold.handle_event(Event::DrainStarted { ends }, now)
                }
                Some(Shutdown::HandOver { ends }) => {
                    hold.handle_event(Event::HandOverStarted { ends }, now)
                }
            };
            debug_assert!(told.is_empty(), "nobody is in a new machine: {told:?}");
            Machine { hold, in_flight: 0 }
        })
    }

    /// Makes memories of the machines that are idle.
    pub(super) fn put_away(&mut self) {
        let idle = |machine: &Machine| machine.in_flight == 0 && machine.hold.is_idle();
        if self.others.values().any(idle) {
            let (gone, kept) = std::mem::take(&mut self.others)
                .into_iter()
                .partition(|(_, machine)| idle(machine));
            self.others = kept;
            let gone: BTreeMap<Permit, Machine> = gone;
            let memories =
                gone.into_iter().map(|(permit, machine)| (permit, machine.hold.into_memory()));
            self.memories.extend(memories);
        }
    }

    pub(super) fn highest(&self) -> impl Iterator<Item = (Permit, FencingToken)> {
        let machines = self.each().map(|(permit, machine)| (permit, machine.highest()));
        let memories = self.memories.iter().map(|(permit, memory)| (*permit, memory.highest));
        machines.chain(memories).filter_map(|(permit, highest)| Some((permit, highest?)))
    }

    pub(super) fn into_memories(self) -> Vec<(Permit, Memory)> {
        let others = self.others.into_iter().map(|(permit, machine)| (permit, machine.hold));
        let machines = std::iter::once((Permit::FIRST, self.first)).chain(others);
        let memories = machines.map(|(permit, hold)| (permit, hold.into_memory()));
        // Permits that were never tried would take the places of locks of which something is known.
        memories.chain(self.memories).filter(|(_, memory)| !memory.is_empty()).collect()
    }
}

const fn is_answer(event: &Event) -> bool {
    matches!(
        event,
        Event::AcquireAnswered { .. }
            | Event::ReadAnswered { .. }
            | Event::WriteAnswered { .. }
            | Event::RenewAnswered { .. }
            | Event::ReleaseAnswered { .. }
            | Event::LookAnswered { .. }
    )
}

const fn is_request(action: &hold::Action) -> bool {
    matches!(
        action,
        hold::Action::SendAcquire { .. }
            | hold::Action::SendRead { .. }
            | hold::Action::SendWrite { .. }
            | hold::Action::SendRenew { .. }
            | hold::Action::SendRelease { .. }
            | hold::Action::SendLook { .. }
    )
}
