//! The machines of a lock's permits: permit 0 has one always, the others while a caller wants them (S28).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::hold::{
    Action, CallerId, Candidate, Effect, Event, Handed, Hold, Memory, Settings, Standing,
};
use crate::lock::{FencingToken, LeaseId, Permit};
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(super) struct Machines {
    seed: u64,
    /// A lease id for the machine that acquires next (S6).
    fresh: Option<LeaseId>,
    first: Hold,
    /// What there is beside it once it is needed: a plain lock stays small.
    beside: Option<Box<Beside>>,
}

#[derive(Clone, Debug, Default)]
struct Beside {
    others: BTreeMap<Permit, Machine>,
    memories: BTreeMap<Permit, Memory>,
    /// How the sidecar ends, once it does: machines that are made later are told so too (S15).
    shutdown: Option<Event>,
}

/// A machine, and the requests of it whose answers are to come: one of them may bring a lease that nobody
/// wants (S6).
#[derive(Clone, Debug)]
struct Machine {
    hold: Hold,
    in_flight: u32,
}

impl Machines {
    pub(super) fn new(settings: Arc<Settings>, memory: Memory, seed: u64, now: Instant) -> Self {
        Self { seed, fresh: None, first: Hold::new(settings, memory, seed, now), beside: None }
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
        self.beside.get_or_insert_default().shutdown = Some(event.clone());
    }

    pub(super) const fn need_lease_id(&self) -> bool {
        self.fresh.is_none()
    }

    pub(super) const fn supply(&mut self, lease_id: LeaseId) {
        self.fresh = Some(lease_id);
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
    ) -> Vec<Effect> {
        let answered = is_answer(&event);
        let fresh = self.fresh.take();
        let machine = self.made(permit, now);
        machine.supply(fresh);
        let effects = machine.handle_event(event, now);
        self.fresh = machine.supply(None);
        self.note_requests(permit, u32::from(answered), &effects);
        effects
    }

    /// Says for whom `permit` is to be had, and does what is due there.
    pub(super) fn advance(
        &mut self,
        permit: Permit,
        candidate: Option<Candidate>,
        now: Instant,
    ) -> Vec<Effect> {
        let fresh = self.fresh.take();
        let machine = self.made(permit, now);
        machine.supply(fresh);
        machine.offer(candidate, now);
        let effects = machine.advance(now);
        self.fresh = machine.supply(None);
        self.note_requests(permit, 0, &effects);
        effects
    }

    fn note_requests(&mut self, permit: Permit, answered: u32, effects: &[Effect]) {
        let others = self.beside.as_mut().map(|beside| &mut beside.others);
        if let Some(machine) = others.and_then(|others| others.get_mut(&permit)) {
            let is_sent = |effect: &&Effect| matches!(effect, Effect::Act(Action::Store { .. }));
            let sent = u32::try_from(effects.iter().filter(is_sent).count()).unwrap_or(u32::MAX);
            machine.in_flight = machine.in_flight.saturating_sub(answered) + sent;
        }
    }

    fn made(&mut self, permit: Permit, now: Instant) -> &mut Hold {
        let Self { seed, first, beside, .. } = self;
        if permit == Permit::FIRST {
            return first;
        }
        let settings = Arc::clone(first.settings());
        let Beside { others, memories, shutdown } = &mut **beside.get_or_insert_default();
        let machine = others.entry(permit).or_insert_with(|| {
            let memory = memories.remove(&permit).unwrap_or_default();
            // Machines of one lock must not keep step.
            let seed = seed.wrapping_add(u64::from(permit.number()) << 32);
            let mut hold = Hold::new(settings, memory, seed, now);
            let told = shutdown.clone().map(|event| hold.handle_event(event, now));
            debug_assert!(told.is_none_or(|told| told.is_empty()), "a new machine has no callers");
            Machine { hold, in_flight: 0 }
        });
        &mut machine.hold
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
