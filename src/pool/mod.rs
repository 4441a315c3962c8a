//! A lock that up to N callers may hold at once: which permit is tried next, and who waits (S28 to S32).
//!
//! Each permit is a lock path of its own with a machine of its own ([`Hold`]), so a plain lock is a pool of
//! one: its events go straight to the machine of permit 0, which has a queue of its own. Callers that name
//! more permits wait in one queue here. The chooser enters the first of them that may have a permit into its
//! machine, one at a time, as a caller that tries once; what it is told there is kept from it unless it is a
//! grant.
//!
//! Rules: S28 to S32. May import: hold, record, lock, time's values. No IO, no async, no clock, no randomness
//! of its own. Which permit comes next is in `chooser`; who waits, `queue`; how a try, a hand-off and a grant
//! go, `serving`; the machines, `machines`. To add behaviour: as in `hold`; what one permit does by itself
//! belongs there.

mod action;
mod chooser;
mod machines;
mod queue;
mod serving;

use std::sync::Arc;
use std::time::Duration;

pub use action::Action;

use chooser::Chooser;
use machines::Machines;
use serving::Serving;

use crate::hold::{
    self, Answer, CallerId, Event, Handed, Hold, HolderCall, Holding, Memory, Settings, Standing,
    Waiters,
};
use crate::lock::{FencingToken, LeaseId, Permit, Permits};
use crate::time::Instant;

/// The machine of all permits of one lock.
///
/// # Contract
/// As [`Hold`]'s, with the permit on each answer of the store and each action: the driver, before each event,
/// calls [`Pool::supply`] while [`Pool::needs_lease_id`], and [`Pool::remember`] for what it knows of permits
/// that are new; then [`Pool::handle_event`]; then it waits for the next event or until
/// [`Pool::poll_timeout`].
#[derive(Clone, Debug)]
pub struct Pool {
    machines: Machines,
    /// What there is of a pool only once somebody has named more than one permit: a plain lock stays small.
    shared: Option<Box<Shared>>,
    /// Other numbers of permits that were reported, each a bit (S29).
    reported: u32,
}

/// The queue of callers that name more than one permit, and how they are served.
#[derive(Clone, Debug)]
struct Shared {
    waiters: Waiters,
    chooser: Chooser,
    serving: Serving,
    /// What the latest caller has named (S29).
    permits: Permits,
    /// The greatest number that was named since somebody waits.
    greatest: Permits,
}

/// One look at the pool: when it is taken, and what comes of it.
#[derive(Debug)]
struct Output {
    now: Instant,
    actions: Vec<Action>,
}

impl Output {
    fn tell(&mut self, permit: Permit, caller: CallerId, notice: hold::Notice) {
        self.push(permit, hold::Action::Tell { caller, notice });
    }

    fn push(&mut self, permit: Permit, action: hold::Action) {
        self.actions.push(Action::At { permit, action });
    }
}

impl Pool {
    /// The pool of a lock; `memory` is what is known of its own path. `seed` spreads requests in time and
    /// over the permits.
    #[must_use]
    pub fn new(
        settings: impl Into<Arc<Settings>>,
        memory: Memory,
        seed: u64,
        now: Instant,
    ) -> Self {
        let machines = Machines::new(settings.into(), memory, seed, now);
        Self { machines, shared: None, reported: 0 }
    }

    /// Whether a fresh lease id must be supplied before the next event.
    #[must_use]
    pub fn needs_lease_id(&self) -> bool {
        self.machines.need_lease_id(self.shared.is_some())
    }

    /// Takes a lease id, random and never used before (S6).
    pub fn supply(&mut self, lease_id: LeaseId) {
        self.machines.supply(lease_id);
    }

    /// Whether the machine of `permit` is yet to be made: what is known of its path can be brought.
    #[must_use]
    pub fn is_new(&self, permit: Permit) -> bool {
        self.machines.is_new(permit)
    }

    /// Brings what is known of a permit that is new here.
    pub fn remember(&mut self, permit: Permit, memory: Memory) {
        self.machines.remember(permit, memory);
    }

    /// Takes in what happened and answers what is to be done. `permit` is the one that an answer of the
    /// store, a resume or a break is about; for any other event it does not matter.
    pub fn handle_event(&mut self, permit: Permit, event: Event, now: Instant) -> Vec<Action> {
        let mut output = Output { now, actions: Vec::new() };
        self.compare_stored(&event, &mut output);
        // S3: a suspicion is known before what is due is done.
        if !matches!(event, Event::PauseSuspected) {
            self.answer_overdue(&mut output);
        }
        self.take(permit, event, &mut output);
        self.serve(&mut output);
        self.put_away();
        self.check();
        output.actions
    }

    fn take(&mut self, permit: Permit, event: Event, output: &mut Output) {
        match event {
            Event::CallerArrived { caller, terms } => self.arrive(caller, terms, output),
            // S26, S30: the save first, then the hand-off.
            Event::Answer { answer: Answer::Write(_) | Answer::Read(_), .. }
                if self.saves_last(permit) =>
            {
                self.feed_ending(permit, event, output);
            }
            Event::Answer { .. }
            | Event::Decided { .. }
            | Event::RenewHeldBack { .. }
            | Event::RenewTurnCame
            | Event::ShareStirred
            | Event::MoveAsked
            | Event::ResumeAsked { .. }
            | Event::BreakBegun
            | Event::BreakOver { .. }
            | Event::LeaseBroken { .. }
            | Event::LockFreed { .. } => self.feed(permit, event, output),
            // Who holds nothing here is told so by any machine.
            Event::Call { caller, call: HolderCall::Save(_), .. } => {
                let permit = self.machines.place_of(caller).unwrap_or(Permit::FIRST);
                self.feed(permit, event, output);
            }
            Event::CallerLeft { caller } if self.withdraw(caller, output) => {}
            Event::HolderDisconnected { caller } if self.withdraw(caller, output) => {}
            // S30: a permit that its holder ends goes to who waits here.
            Event::CallerLeft { caller }
            | Event::Call { caller, call: HolderCall::Release, .. } => {
                let place = self.machines.place_of(caller);
                let Some(permit) = place else { return self.feed_each(&event, output) };
                self.feed_ending(permit, event, output);
            }
            Event::TimePassed => self.pass_time(output),
            Event::DrainStarted { .. } | Event::HandOverStarted { .. } => {
                self.fail_all(&hold::shutting_down(), output);
                self.machines.shut_down(&event);
                self.feed_each(&event, output);
            }
            Event::HolderDisconnected { .. }
            | Event::Call {
                call: HolderCall::Extend { .. } | HolderCall::Progress | HolderCall::Validity,
                ..
            }
            | Event::PauseSuspected
            | Event::DrainEnded => self.feed_each(&event, output),
        }
    }

    /// The earliest moment at which something is to be done; none if only an event can bring anything.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let waits = self.shared.as_ref().and_then(|shared| shared.waiters.poll_timeout());
        [self.machines.poll_timeout(), waits, self.next_try_at()].into_iter().flatten().min()
    }

    /// Whether there is nothing to do and nothing to remember but [`Pool::into_memories`].
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.machines.each().all(|(_, machine)| machine.is_idle()) && !self.is_waited_for()
    }

    /// What is to be kept of an idle pool, for each permit that was used or known.
    #[must_use]
    pub fn into_memories(self) -> Vec<(Permit, Memory)> {
        self.machines.into_memories()
    }

    /// The greatest token seen or granted here of each permit that was used or is known (S5).
    pub fn highest(&self) -> impl Iterator<Item = (Permit, FencingToken)> {
        self.machines.highest()
    }

    /// The newest grant of `permit` by a hand-off here, which its record may not tell of (S10).
    #[must_use]
    pub fn handed(&self, permit: Permit) -> Option<&Handed> {
        self.machines.handed(permit)
    }

    /// The machine of `permit`, if there is one.
    #[must_use]
    pub fn machine(&self, permit: Permit) -> Option<&Hold> {
        self.machines.get(permit)
    }

    /// The leases that are renewed here: the end of the validity of each, and D.
    pub fn renewed_leases(&self) -> impl Iterator<Item = (Instant, Duration)> {
        self.machines.each().filter_map(|(_, machine)| machine.renewed_lease())
    }

    /// Who has which permit here.
    pub fn holdings(&self) -> impl Iterator<Item = (Permit, Holding)> {
        let each = self.machines.each();
        each.filter_map(|(permit, machine)| Some((permit, machine.holding()?)))
    }

    /// The end of the validity of `caller`'s hold, if it has one (S2).
    #[must_use]
    pub fn validity(&self, caller: CallerId) -> Option<Instant> {
        self.machines.each().find_map(|(_, machine)| machine.validity(caller))
    }

    /// How many callers wait here: the one that is tried for waits in a machine too, and counts once.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let inside: usize = self.machines.each().map(|(_, machine)| machine.waiting()).sum();
        let Some(shared) = &self.shared else { return inside };
        inside + shared.waiters.len() - usize::from(shared.serving.trial().is_some())
    }

    /// The machine of the lock's own path: locks of a share have one permit (S28).
    #[must_use]
    pub const fn first(&self) -> &Hold {
        self.machines.first()
    }

    /// [`Hold::stand`] of the lock's own path.
    pub fn stand(&mut self, standing: Standing) {
        self.machines.stand(standing);
    }

    #[cfg(test)]
    pub(crate) const fn first_mut(&mut self) -> &mut Hold {
        self.machines.first_mut()
    }

    fn is_waited_for(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| !shared.waiters.is_empty())
    }

    /// Feeds what concerns every machine, or a caller that only one of them knows.
    fn feed_each(&mut self, event: &Event, output: &mut Output) {
        for permit in self.machines.permits() {
            self.feed(permit, event.clone(), output);
        }
    }

    fn pass_time(&mut self, output: &mut Output) {
        for permit in self.machines.permits() {
            let rests = self.machines.get(permit).and_then(Hold::holding);
            let rest_ends = rests.and_then(|holding| holding.resting_until);
            match rest_ends {
                // S30: a permit that has rested is handed on too.
                Some(until) if until <= output.now => {
                    self.feed_ending(permit, Event::TimePassed, output);
                }
                Some(_) | None => self.feed(permit, Event::TimePassed, output),
            }
        }
    }

    /// Machines that nobody wants are put away, and what they know is kept.
    fn put_away(&mut self) {
        if !self.is_waited_for() {
            self.machines.put_away();
        }
    }

    /// What holds after every event, and what must not. Checked in builds with debug assertions.
    fn check(&self) {
        let Some(shared) = &self.shared else { return };
        if let Some((permit, caller)) = shared.serving.trial() {
            debug_assert!(shared.waiters.contains(caller), "S32: who is tried for waits here");
            debug_assert!(
                self.machines.get(permit).is_some_and(|machine| machine.waiting() > 0),
                "S32: who is tried for is in the machine that is asked"
            );
        }
        debug_assert!(
            self.holdings().all(|(_, holding)| !shared.waiters.contains(holding.caller)),
            "S32: who was granted a permit waits for no other"
        );
    }
}
