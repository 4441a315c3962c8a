//! One queue for a lock, whose permits up to N callers hold at once; a plain lock has one (S12, S28 to S32).
//!
//! Each permit is a lock path of its own with a machine of its own ([`Hold`]). All callers of a lock wait
//! here, in one order. A machine is told of one of them at a time, the candidate that its permit is to be had
//! for, and says what its tries come to; the callers that wait are told from here.
//!
//! Callers that name one permit wait for the lock's own path, and its machine polls for them at a pace of its
//! own (S12). For callers that name more, the chooser tries one permit after another (S31): a try is one
//! request. A permit that is held here has the first caller that may have it for its candidate, so that it is
//! handed on without a request (S30).
//!
//! Rules: S12, S28 to S32. May import: hold, record, lock, time's values. No IO, no async, no clock, no
//! randomness of its own. To add behaviour: as in `hold`; what one permit does by itself belongs there.
//!
//! | file | what it decides |
//! | --- | --- |
//! | `waiters` | the order of the callers that wait, and for how long they do |
//! | `callers` | what they are told while they wait |
//! | `serving` | which caller each permit is to be had for, and what a try comes to |
//! | `chooser` | which permit is tried next |
//! | `machines` | nothing: the machines of the permits |
//! | `plain` | nothing: a lock of one permit, for tests |

mod action;
mod callers;
mod chooser;
mod machines;
#[cfg(feature = "testing")]
mod plain;
mod serving;
mod waiters;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub use action::Action;
#[cfg(feature = "testing")]
pub use plain::PlainLock;

use chooser::Chooser;
use machines::Machines;
use serving::comes_first;
use waiters::{Kind, Waiters};

use crate::hold::{
    self, Busy, CallerId, Event, Handed, Hold, HolderCall, Holding, Memory, Settings, Standing,
    StoreFailure,
};
use crate::lock::{FencingToken, LeaseId, Permit, Permits};
use crate::time::Instant;

/// The callers and the machines of one lock.
///
/// # Contract
/// The driver, before each event, calls [`Queue::supply`] while [`Queue::needs_lease_id`], and
/// [`Queue::remember`] for what it knows of permits that are new; then [`Queue::handle_event`], and carries
/// out what it answers, in order; then waits for the next event or until [`Queue::poll_timeout`], whichever
/// is first. It reads the clock again after every wait (S3), and answers every [`hold::Action::Store`] at
/// most once; an [`hold::Action::Decide`] by the very next event, but for a pause that is suspected just
/// then. A spurious [`Event::TimePassed`] does nothing. `now` never goes back.
#[derive(Clone, Debug)]
pub struct Queue {
    machines: Machines,
    waiters: Waiters,
    /// What there is only once a caller has named more than one permit: a plain lock stays small.
    pooled: Option<Box<Pooled>>,
    /// Other numbers of permits that were reported, each a bit (S29).
    reported: u32,
}

/// How callers that name more than one permit are served.
#[derive(Clone, Debug)]
struct Pooled {
    chooser: Chooser,
    /// The permits that are tried: one at a time, and beside it what is being acquired for a caller that has
    /// gone.
    trials: BTreeSet<Permit>,
    /// The holder that was met last, and why the store could not be asked last.
    busy: Option<(Permit, Busy)>,
    store_failure: Option<StoreFailure>,
    /// What the latest caller has named (S29).
    permits: Permits,
    /// The greatest number that was named since one of them waits.
    greatest: Permits,
}

impl Pooled {
    fn new(permits: Permits, seed: u64, now: Instant) -> Self {
        Self {
            chooser: Chooser::new(seed, now),
            trials: BTreeSet::new(),
            busy: None,
            store_failure: None,
            permits,
            greatest: permits,
        }
    }

    /// A caller waits again after none did: what was found may be old.
    fn begin(&mut self, permits: Permits, now: Instant) {
        self.chooser.begin(now);
        (self.busy, self.store_failure) = (None, None);
        self.trials.clear();
        self.greatest = permits;
    }

    /// A try of `permit` has failed.
    fn end_trial(&mut self, permit: Permit) {
        self.chooser.failed(permit);
        self.trials.remove(&permit);
    }
}

/// One look at the lock: when it is taken, and what comes of it.
#[derive(Debug)]
struct Output {
    now: Instant,
    actions: Vec<Action>,
}

impl Output {
    fn tell(&mut self, caller: CallerId, notice: hold::Notice) {
        self.push(Permit::FIRST, hold::Action::Tell { caller, notice });
    }

    fn push(&mut self, permit: Permit, action: hold::Action) {
        self.actions.push(Action::At { permit, action });
    }
}

impl Queue {
    /// The queue of a lock; `memory` is what is known of its own path. `seed` spreads requests in time and
    /// over the permits.
    #[must_use]
    pub fn new(
        settings: impl Into<Arc<Settings>>,
        memory: Memory,
        seed: u64,
        now: Instant,
    ) -> Self {
        let machines = Machines::new(settings.into(), memory, seed, now);
        Self { machines, waiters: Waiters::default(), pooled: None, reported: 0 }
    }

    /// Whether a fresh lease id must be supplied before the next event.
    #[must_use]
    pub const fn needs_lease_id(&self) -> bool {
        self.machines.need_lease_id()
    }

    /// Takes a lease id, random and never used before (S6).
    pub const fn supply(&mut self, lease_id: LeaseId) {
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
        if !comes_first(&event) {
            self.end_overdue(&mut output);
        }
        self.take(permit, event, &mut output);
        self.answer_overdue(&mut output);
        self.serve(&mut output);
        self.put_away();
        self.check();
        output.actions
    }

    /// S4: what time has ended is over before what came in is looked at, which may concern no machine.
    fn end_overdue(&mut self, output: &mut Output) {
        self.answer_overdue(output);
        if self.machines.poll_timeout().is_some_and(|due| due <= output.now) {
            for permit in self.machines.permits() {
                self.advance(permit, output);
            }
        }
    }

    fn take(&mut self, permit: Permit, event: Event, output: &mut Output) {
        match event {
            Event::CallerArrived { caller, terms } => self.arrive(caller, terms, output),
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
            Event::CallerLeft { caller } | Event::HolderDisconnected { caller }
                if self.waiters.remove(caller) => {}
            Event::DrainStarted { .. } | Event::HandOverStarted { .. } => {
                self.fail_all(Kind::Plain, &StoreFailure::shutting_down(), output);
                self.fail_all(Kind::Pooled, &StoreFailure::shutting_down(), output);
                self.machines.shut_down(&event);
                self.feed_each(&event, output);
            }
            Event::CallerLeft { .. }
            | Event::HolderDisconnected { .. }
            | Event::Call {
                call:
                    HolderCall::Extend { .. }
                    | HolderCall::Progress
                    | HolderCall::Release
                    | HolderCall::Validity,
                ..
            }
            | Event::PauseSuspected
            | Event::DrainEnded => self.feed_each(&event, output),
            // What it brings was done before (S4).
            Event::TimePassed => {}
        }
    }

    /// The earliest moment at which something is to be done; none if only an event can bring anything.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let ends = [self.machines.poll_timeout(), self.waiters.poll_timeout(), self.next_try_at()];
        ends.into_iter().flatten().min()
    }

    /// Whether there is nothing to do and nothing to remember but [`Queue::into_memories`].
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.machines.each().all(|(_, machine)| machine.is_idle()) && self.waiters.is_empty()
    }

    /// What is to be kept of an idle lock, for each permit that was used or known.
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

    /// How many callers wait here.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiters.len()
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

    /// Feeds what concerns every machine, or a caller that only one of them knows.
    fn feed_each(&mut self, event: &Event, output: &mut Output) {
        for permit in self.machines.permits() {
            self.feed(permit, event.clone(), output);
        }
    }

    /// Machines that nobody wants are put away, and what they know is kept.
    fn put_away(&mut self) {
        if !self.waiters.has(Kind::Pooled) {
            self.machines.put_away();
        }
    }

    /// What holds after every event, and what must not. Checked in builds with debug assertions.
    fn check(&self) {
        let is_wanted = |permit: &Permit| {
            self.machines.get(*permit).is_some_and(|machine| machine.wanted_for().is_some())
        };
        debug_assert!(
            self.pooled.iter().flat_map(|pooled| &pooled.trials).all(is_wanted),
            "S32: what is tried is tried for a caller"
        );
        let is_served = |(_, holding): (Permit, Holding)| {
            let is_pooled = Kind::of(holding.terms.permits()) == Kind::Pooled;
            !is_pooled || !self.waiters.contains(holding.caller)
        };
        debug_assert!(
            self.holdings().all(is_served),
            "S32: a caller that was granted a permit waits for no other"
        );
    }
}
