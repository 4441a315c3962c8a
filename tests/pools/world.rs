//! Some sidecars, their pools and callers, and what goes wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold::hold::{self, CallerId, Event, HolderCall, Memory, RequestId, Settings};
use leasehold::lock::{LeaseId, Permit, Permits};
use leasehold::queue::{Action, Queue};
use leasehold::testing::SeededRandom;
use leasehold::time::Instant;
use uuid::Uuid;

use crate::kit::{Outcome, named};
use crate::pools::checks::Checks;
use crate::pools::planted::Bug;
use crate::pools::rig::{millis, secs, terms};
use crate::pools::store::Store;

/// Until when callers come and things go wrong; then everybody leaves, and nothing must be left.
pub(crate) const BUSY_UNTIL: Duration = Duration::from_secs(150);
/// The end: every lease of a sidecar that crashed has run out by then.
const END: Duration = Duration::from_secs(240);

#[derive(Debug)]
pub(crate) enum What {
    /// A request arrives at the store; whether it is done once more, later.
    Request {
        from: Sender,
        permit: Permit,
        action: hold::Action,
        again: bool,
    },
    /// An answer arrives; it may say that a lease was given.
    Answer {
        from: Sender,
        permit: Permit,
        event: Event,
        acquired: Option<LeaseId>,
    },
    /// A caller comes, or what it does next.
    Arrive {
        at: usize,
        patient: bool,
    },
    Leave {
        at: usize,
        caller: CallerId,
    },
    Release {
        at: usize,
        caller: CallerId,
    },
    Wake {
        at: usize,
    },
    Crash {
        at: usize,
    },
}

/// A sidecar, and which of its lives: answers to a former one are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) at: usize,
    pub(crate) life: u32,
}

#[derive(Debug)]
pub(crate) struct Sidecar {
    pool: Queue,
    pub(crate) life: u32,
    lease_ids: u64,
    /// What its callers name: before, and after a deployment.
    pub(crate) permits: [Permits; 2],
    changes_at: Duration,
    callers: BTreeSet<CallerId>,
    woken_at: Option<Duration>,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: Duration,
    pub(crate) random: SeededRandom,
    pub(crate) store: Store,
    pub(crate) sidecars: Vec<Sidecar>,
    events: BTreeMap<(Duration, u64), What>,
    scheduled: u64,
    callers: u64,
    granted: BTreeMap<CallerId, (usize, Permit)>,
    pub(crate) checks: Checks,
    pub(crate) bug: Option<Bug>,
    counts: BTreeMap<&'static str, u64>,
    timeline: Vec<String>,
}

impl World {
    pub(crate) fn run(seed: u64, bug: Option<Bug>) -> Outcome {
        let mut world = Self::new(seed, bug);
        while world.checks.violation.is_none() {
            let Some(((at, _), what)) = world.events.pop_first() else { break };
            if at > END {
                break;
            }
            world.now = at;
            world.checks.look(at);
            world.happen(what);
        }
        world.look_at_the_end();
        let Self { now, checks, counts, timeline, .. } = world;
        let violation = checks.violation.map(|what| (what, now));
        Outcome { violation, counts: named(counts), timeline, ..Outcome::default() }
    }

    fn new(seed: u64, bug: Option<Bug>) -> Self {
        let mut random = SeededRandom::new(seed);
        let most = 2 + random.below(3);
        let sidecars = (0..2 + random.below(3)).map(|_| {
            let mut named = || {
                let plain = random.chance(200);
                let count = if plain { 1 } else { 1 + random.below(most) };
                Permits::new(u32::try_from(count).unwrap()).unwrap()
            };
            let permits = [named(), named()];
            Sidecar {
                pool: Self::pool(random.next_u64(), Duration::ZERO),
                life: 0,
                lease_ids: 0,
                permits,
                changes_at: random.span(BUSY_UNTIL),
                callers: BTreeSet::new(),
                woken_at: None,
            }
        });
        let sidecars: Vec<Sidecar> = sidecars.collect();
        let mut world = Self {
            now: Duration::ZERO,
            random,
            store: Store::new(),
            sidecars,
            events: BTreeMap::new(),
            scheduled: 0,
            callers: 0,
            granted: BTreeMap::new(),
            checks: Checks::default(),
            bug,
            counts: BTreeMap::new(),
            timeline: Vec::new(),
        };
        world.plan();
        world
    }

    fn pool(seed: u64, now: Duration) -> Queue {
        let settings = Settings { poll_cap: secs(5), hand_off: secs(5) };
        Queue::new(settings, Memory::default(), seed, Instant::from_boot(now))
    }

    fn plan(&mut self) {
        let sidecars = self.sidecars.len();
        for at in 0..sidecars {
            for _ in 0..2 + self.random.below(6) {
                let arrives = self.random.span(BUSY_UNTIL);
                let patient = self.random.chance(700);
                self.schedule(arrives, What::Arrive { at, patient });
            }
            if self.random.chance(150) {
                let crashes = self.random.span(BUSY_UNTIL);
                self.schedule(crashes, What::Crash { at });
            }
        }
    }

    pub(crate) fn schedule(&mut self, at: Duration, what: What) {
        self.scheduled += 1;
        self.events.insert((at.max(self.now), self.scheduled), what);
    }

    pub(crate) fn count(&mut self, name: &'static str) {
        *self.counts.entry(name).or_default() += 1;
    }

    fn note(&mut self, what: String) {
        self.timeline.push(format!("{:>9.3} {what}", self.now.as_secs_f64()));
    }

    fn happen(&mut self, what: What) {
        self.note(format!("{what:?}"));
        match what {
            What::Request { from, permit, action, again } => {
                self.request(from, permit, &action, again);
            }
            What::Answer { from, permit, event, acquired } => {
                if self.sidecars[from.at].life == from.life {
                    if let Some(lease_id) = acquired {
                        self.checks.acquired(lease_id, self.now);
                    }
                    self.feed(from.at, permit, event);
                }
            }
            What::Arrive { at, patient } => self.arrive(at, patient),
            What::Leave { at, caller } => {
                let waits = self.sidecars[at].callers.contains(&caller);
                if waits && !self.granted.contains_key(&caller) {
                    self.count("a caller left");
                    self.checks.leaves(caller);
                    self.sidecars[at].callers.remove(&caller);
                    if self.bug != Some(Bug::LeaverKept) {
                        self.feed(at, Permit::FIRST, Event::CallerLeft { caller });
                    }
                    self.checks.left();
                }
            }
            What::Release { at, caller } => self.release(at, caller),
            What::Wake { at } => {
                self.sidecars[at].woken_at = None;
                self.feed(at, Permit::FIRST, Event::TimePassed);
            }
            What::Crash { at } => self.crash(at),
        }
    }

    fn named(&self, at: usize) -> Permits {
        let sidecar = &self.sidecars[at];
        sidecar.permits[usize::from(self.now >= sidecar.changes_at)]
    }

    fn arrive(&mut self, at: usize, patient: bool) {
        self.callers += 1;
        let caller = CallerId(self.callers);
        let permits = self.named(at);
        let wait = if patient { millis(1_000 + self.random.below(60_000)) } else { Duration::ZERO };
        let mut terms = terms(u32::from(permits.get()), wait);
        terms.resumable = self.random.chance(300);
        if self.random.chance(100) {
            terms.min_hold = self.random.span(secs(4));
        }
        self.checks.arrived(caller, permits, (self.now, self.now + wait));
        self.sidecars[at].callers.insert(caller);
        if self.random.chance(150) {
            let leaves = self.now + self.random.span(wait.max(secs(1)));
            self.schedule(leaves, What::Leave { at, caller });
        }
        if permits == Permits::ONE {
            self.count("a plain caller");
        }
        self.feed(at, Permit::FIRST, Event::CallerArrived { caller, terms: Arc::new(terms) });
    }

    /// Its belief ends before it sends its release (S13).
    fn release(&mut self, at: usize, caller: CallerId) {
        if !self.sidecars[at].callers.remove(&caller) {
            return;
        }
        let Some((_, permit)) = self.granted.remove(&caller) else { return };
        self.checks.ended(caller);
        let forgotten =
            self.bug == Some(Bug::LimitReadAtRelease) && !self.named(at).contains(permit);
        if !forgotten {
            let event = match self.random.chance(700) {
                true => Event::Call { caller, generation: None, call: HolderCall::Release },
                false => Event::CallerLeft { caller },
            };
            self.feed(at, Permit::FIRST, event);
        }
    }

    fn crash(&mut self, at: usize) {
        self.count("a sidecar crashed");
        let (seed, now) = (self.random.next_u64(), self.now);
        let sidecar = &mut self.sidecars[at];
        sidecar.pool = Self::pool(seed, now);
        sidecar.life += 1;
        sidecar.woken_at = None;
        let callers: Vec<CallerId> = std::mem::take(&mut sidecar.callers).into_iter().collect();
        for caller in &callers {
            // Its client believes until the end of its validity (S21).
            self.granted.remove(caller);
        }
        self.checks.crashed(&callers, |lease_id| owner(lease_id) == at);
    }

    fn feed(&mut self, at: usize, permit: Permit, event: Event) {
        let now = Instant::from_boot(self.now);
        let sidecar = &mut self.sidecars[at];
        while sidecar.pool.needs_lease_id() {
            sidecar.lease_ids += 1;
            let id = Uuid::from_u64_pair(at as u64, sidecar.lease_ids);
            sidecar.pool.supply(LeaseId::from_uuid(id));
        }
        let has_turn = matches!(event, Event::RenewTurnCame);
        let handed_on = matches!(
            event,
            Event::Call { call: HolderCall::Release, .. } | Event::CallerLeft { .. }
        );
        for action in sidecar.pool.handle_event(permit, event, now) {
            match action {
                Action::ReportPermitsDiffer { .. } => self.count("numbers differ"),
                Action::At { permit, action: action @ hold::Action::Store { .. } } => {
                    if has_turn || !self.waits_for_its_turn(at, permit, &action) {
                        self.send(at, permit, action);
                    }
                }
                Action::At { permit, action } => self.tell(at, permit, action, handed_on),
            }
        }
        self.wake_later(at);
    }

    /// Until when the lease counts that this request is about, if it is had here.
    pub(crate) fn renewed_until(
        &self,
        at: usize,
        permit: Permit,
        request: RequestId,
    ) -> Option<Instant> {
        match self.sidecars[at].pool.machine(permit)?.purpose(request) {
            hold::Purpose::Hold { until } => Some(until),
            hold::Purpose::Resume { .. } | hold::Purpose::Comeback | hold::Purpose::Other => None,
        }
    }

    fn wake_later(&mut self, at: usize) {
        let Some(wakes) = self.sidecars[at].pool.poll_timeout() else { return };
        let wakes = wakes.since_boot().max(self.now);
        if self.sidecars[at].woken_at.is_none_or(|planned| wakes < planned) {
            self.sidecars[at].woken_at = Some(wakes);
            self.schedule(wakes, What::Wake { at });
        }
    }

    fn tell(&mut self, at: usize, permit: Permit, action: hold::Action, handed_on: bool) {
        self.note(format!("  {at} {permit} {action:?}"));
        match action {
            hold::Action::Tell { caller, notice: hold::Notice::Granted(grant) } => {
                self.count(match permit {
                    Permit::FIRST => "a grant of permit 0",
                    _ => "a grant of another permit",
                });
                if handed_on {
                    self.count("a hand-off");
                    self.tell_all_if_planted(at);
                }
                if self.named(at) == Permits::ONE && permit == Permit::FIRST {
                    self.count("a grant to a plain caller");
                }
                self.checks.granted(caller, permit, &grant, self.now);
                self.granted.insert(caller, (at, permit));
                let holds = self.now + self.random.span(secs(12));
                self.schedule(holds, What::Release { at, caller });
                // The queue of a pool checks that itself.
                if self.bug == Some(Bug::DoubleGrant) && self.named(at) == Permits::ONE {
                    let terms = Arc::new(terms(u32::from(self.named(at).get()), secs(30)));
                    let event = Event::CallerArrived { caller, terms };
                    let from = Sender { at, life: self.sidecars[at].life };
                    self.schedule(
                        self.now,
                        What::Answer { from, permit: Permit::FIRST, event, acquired: None },
                    );
                }
            }
            hold::Action::Tell { caller, notice: hold::Notice::Waiting { .. } } => {
                self.count("a caller was told that it waits");
                self.checks.told_to_wait(caller, self.now);
            }
            hold::Action::Tell {
                caller,
                notice: hold::Notice::Busy(_) | hold::Notice::Failed(_),
            } => {
                self.count("busy");
                self.checks.answered(caller);
                self.sidecars[at].callers.remove(&caller);
            }
            hold::Action::Tell {
                caller,
                notice:
                    hold::Notice::Renewed { valid_until } | hold::Notice::Recovered { valid_until },
            } => {
                self.checks.renewed(caller, valid_until.since_boot());
            }
            hold::Action::Tell { caller, notice: hold::Notice::Lost { .. } } => {
                self.checks.ended(caller);
                self.granted.remove(&caller);
                self.sidecars[at].callers.remove(&caller);
            }
            _ => {}
        }
    }

    fn tell_all_if_planted(&mut self, at: usize) {
        if self.bug == Some(Bug::AllToldAtHandOff) {
            let callers: Vec<CallerId> = self.sidecars[at].callers.iter().copied().collect();
            for caller in callers {
                if self.checks.waits(caller) {
                    self.checks.told_to_wait(caller, self.now);
                }
            }
        }
    }

    /// Everybody has left: nothing may be leased, held or waited for.
    fn look_at_the_end(&mut self) {
        if self.checks.violation.is_some() {
            return;
        }
        self.now = END;
        self.checks.look(END);
        let leased = Permits::MAX.each().find(|permit| self.store.is_leased(*permit, END));
        let busy = self.sidecars.iter().position(|sidecar| !sidecar.pool.is_idle());
        let kept = match (leased, busy) {
            (Some(permit), _) => format!("permit {permit} is still leased"),
            (None, Some(at)) => format!("sidecar {at} has not come to rest"),
            (None, None) => return,
        };
        self.checks
            .violation
            .get_or_insert_with(|| format!("S29, S6: everybody has gone, and {kept}"));
    }
}

/// The sidecar whose lease this is.
fn owner(lease_id: LeaseId) -> usize {
    let (high, _) = lease_id.as_uuid().as_u64_pair();
    usize::try_from(high).unwrap()
}
