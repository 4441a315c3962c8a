//! The machines of a lock's permits: permit 0 has one always, the others while somebody wants them (S28).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::hold::{self, CallerId, Event, Handed, Hold, Memory, Settings, Standing, Waiter};
use crate::lock::{FencingToken, LeaseId, Permit};
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(super) struct Machines {
    seed: u64,
    first: Hold,
    /// What there is beside it once it is needed: a plain lock stays small.
    beside: Option<Box<Beside>>,
}

#[derive(Clone, Debug, Default)]
struct Beside {
    others: BTreeMap<Permit, Machine>,
    memories: BTreeMap<Permit, Memory>,
    /// A lease id for a machine that is made within an event.
    spare: Option<LeaseId>,
    /// A sidecar that shuts down says so to machines that are made later (S15).
    shutdown: Option<Shutdown>,
}

/// A machine, and the requests of it whose answers are to come: one of them may bring a lease that nobody
/// wants (S6).
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
    pub(super) fn new(settings: Arc<Settings>, memory: Memory, seed: u64, now: Instant) -> Self {
        Self { seed, first: Hold::new(settings, memory, seed, now), beside: None }
    }

    pub(super) const fn settings(&self) -> &Arc<Settings> {
        self.first.settings()
    }

    pub(super) const fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.beside.as_ref().is_some_and(|beside| beside.shutdown.is_some())
    }

    pub(super) fn shut_down(&mut self, event: &Event) {
        let shutdown = if let Event::DrainStarted { ends } = event {
            Shutdown::Drain { ends: *ends }
        } else if let Event::HandOverStarted { ends } = event {
            Shutdown::HandOver { ends: *ends }
        } else {
            return;
        };
        self.beside.get_or_insert_default().shutdown = Some(shutdown);
    }

    /// Whether one of them needs a lease id, or one that may be made within the next event.
    pub(super) fn need_lease_id(&self, one_more: bool) -> bool {
        let spare = self.beside.as_ref().and_then(|beside| beside.spare);
        one_more && spare.is_none() || self.each().any(|(_, machine)| machine.needs_lease_id())
    }

    pub(super) fn supply(&mut self, lease_id: LeaseId) {
        let others = self.beside.iter_mut().flat_map(|beside| beside.others.values_mut());
        let others = others.map(|machine| &mut machine.hold);
        let needy =
            std::iter::once(&mut self.first).chain(others).find(|hold| hold.needs_lease_id());
        match needy {
            Some(hold) => hold.supply(lease_id),
            None => self.beside.get_or_insert_default().spare = Some(lease_id),
        }
    }

    pub(super) fn is_new(&self, permit: Permit) -> bool {
        let remembered =
            self.beside.as_ref().is_some_and(|beside| beside.memories.contains_key(&permit));
        self.get(permit).is_none() && !remembered
    }

    pub(super) fn remember(&mut self, permit: Permit, memory: Memory) {
        if self.is_new(permit) {
            self.beside.get_or_insert_default().memories.insert(permit, memory);
        }
    }

    pub(super) fn get(&self, permit: Permit) -> Option<&Hold> {
        if permit == Permit::FIRST {
            return Some(&self.first);
        }
        self.beside.as_ref()?.others.get(&permit).map(|machine| &machine.hold)
    }

    pub(super) const fn first(&self) -> &Hold {
        &self.first
    }

    pub(super) fn stand(&mut self, standing: Standing) {
        self.first.stand(standing);
    }

    #[cfg(test)]
    pub(super) const fn first_mut(&mut self) -> &mut Hold {
        &mut self.first
    }

    pub(super) fn each(&self) -> impl Iterator<Item = (Permit, &Hold)> {
        let others = self.beside.iter().flat_map(|beside| &beside.others);
        let others = others.map(|(permit, machine)| (*permit, &machine.hold));
        std::iter::once((Permit::FIRST, &self.first)).chain(others)
    }

    pub(super) fn permits(&self) -> Vec<Permit> {
        self.each().map(|(permit, _)| permit).collect()
    }

    /// Enters a caller of the pool where a hold is about to end (S30).
    pub(super) fn enter(&mut self, permit: Permit, waiter: Waiter, now: Instant) {
        let others = self.beside.as_mut().map(|beside| &mut beside.others);
        let other = others.and_then(|others| others.get_mut(&permit));
        let other = other.map(|machine| &mut machine.hold);
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
        let sent =
            actions.iter().filter(|action| matches!(action, hold::Action::Store { .. })).count();
        machine.in_flight += u32::try_from(sent).unwrap_or(u32::MAX);
        actions
    }

    fn made(&mut self, permit: Permit, now: Instant) -> &mut Machine {
        let Self { seed, first, beside } = self;
        let settings = Arc::clone(first.settings());
        let Beside { others, memories, spare, shutdown } = &mut **beside.get_or_insert_default();
        others.entry(permit).or_insert_with(|| {
            let memory = memories.remove(&permit).unwrap_or_default();
            // Machines of one pool must not keep step.
            let seed = seed.wrapping_add(u64::from(permit.number()) << 32);
            let mut hold = Hold::new(settings, memory, seed, now);
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
        let Some(beside) = &mut self.beside else { return };
        if beside.others.values().any(idle) {
            let (gone, kept) = std::mem::take(&mut beside.others)
                .into_iter()
                .partition(|(_, machine)| idle(machine));
            beside.others = kept;
            let gone: BTreeMap<Permit, Machine> = gone;
            let memories =
                gone.into_iter().map(|(permit, machine)| (permit, machine.hold.into_memory()));
            beside.memories.extend(memories);
        }
    }

    pub(super) fn highest(&self) -> impl Iterator<Item = (Permit, FencingToken)> {
        let machines = self.each().map(|(permit, machine)| (permit, machine.highest()));
        let memories = self.beside.iter().flat_map(|beside| &beside.memories);
        let memories = memories.map(|(permit, memory)| (*permit, memory.highest));
        machines.chain(memories).filter_map(|(permit, highest)| Some((permit, highest?)))
    }

    /// The newest grant of `permit` by a hand-off here (S10).
    pub(super) fn handed(&self, permit: Permit) -> Option<&Handed> {
        if let Some(machine) = self.get(permit) {
            return machine.handed();
        }
        self.beside.as_ref()?.memories.get(&permit)?.handed.as_deref()
    }

    pub(super) fn into_memories(self) -> Vec<(Permit, Memory)> {
        let Beside { others, memories: remembered, .. } =
            self.beside.map(|beside| *beside).unwrap_or_default();
        let others = others.into_iter().map(|(permit, machine)| (permit, machine.hold));
        let machines = std::iter::once((Permit::FIRST, self.first)).chain(others);
        let memories = machines.map(|(permit, hold)| (permit, hold.into_memory()));
        // Permits that were never tried would take the places of locks of which something is known.
        memories.chain(remembered).filter(|(_, memory)| !memory.is_empty()).collect()
    }
}

/// A renewal that is held back is under way until its turn comes.
const fn is_answer(event: &Event) -> bool {
    matches!(event, Event::Answer { .. } | Event::RenewTurnCame)
}
