//! How a hold lives: the state machine of one lock path. It decides; it does nothing by itself.
//!
//! Rules: S1, S2, S4 to S17. May import: lock, time's values. No IO, no async, no clock, no randomness of its own:
//! what happens comes in as an [`Event`] with the time at which it is looked at, and what is to be done goes out as
//! [`Action`]s. To add behaviour: a rule first, then an event or an action, then the file whose business it is, and
//! a test that fails without it.
//!
//! ```text
//!                 caller arrives                token stored
//!        ┌──────┐ ─────────────▶ ┌───────────┐ ────────────▶ ┌──────┐ ◀─┐ hand-off (S10)
//!  ┌───▶ │ Idle │                │ Acquiring │               │ Held │ ──┘
//!  │     └──────┘ ◀───────────── └───────────┘               └──────┘
//!  │        │ ▲    busy: poll later    │ given up                │ released, or lost and not
//!  │ resume │ │                        ▼                         │ believed in any more
//!  │        │ │ lost            ┌───────────┐                    │
//!  │        ▼ │                 │ Releasing │ ◀──────────────────┘
//!  │   ┌──────────┐             └───────────┘
//!  │   │ Resuming │ ──▶ Held          │ the store has it, or the lease has run out
//!  │   └──────────┘                   │
//!  └──────────────────────────────────┘
//! ```

mod acquisition;
mod action;
mod asked;
mod bounds;
mod callers;
mod event;
mod granting;
mod handing;
mod held;
mod jitter;
mod known;
mod late;
mod memory;
mod polling;
mod releasing;
mod renewal;
mod renewing;
mod resume;
mod resuming;
mod tenure;
#[cfg(test)]
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "tests look for the few actions that they are about"
)]
mod tests;
mod turn;
mod validity;
mod waiters;

use std::time::Duration;

pub use action::{Action, Busy, Granted, LossReason};
pub use event::{
    CallerId, Event, Failure, LeaseGranted, Request, Resume, StoreBounds, Stored, Terms, Trouble,
    TroubleKind,
};
pub use held::Holding;
pub use known::Known;
pub use memory::{Memory, Rest};
pub use tenure::Tenure;
pub use validity::{margin, valid_until};

use acquisition::{Attempt, Effort};
use callers::shutting_down;
use held::Held;
use jitter::Jitter;
use late::LateRequests;
use polling::Polling;
use releasing::Releasing;
use resuming::Resuming;
use turn::Turn;
use waiters::Waiters;

use crate::lock::{FencingToken, LeaseId};
use crate::time::Instant;

/// The machine of one lock path.
///
/// # Contract
/// The driver, before each event, calls [`Hold::supply`] if [`Hold::needs_lease_id`]; then [`Hold::on`], and carries
/// out what it answers, in order; then waits for the next event or until [`Hold::next_wakeup`], whichever is first.
/// It reads the clock again after every wait (S3), and answers every `Send…` at most once. A spurious
/// [`Event::Wakeup`] does nothing. `now` never goes back.
#[derive(Clone, Debug)]
pub struct Hold {
    settings: Settings,
    jitter: Jitter,
    memory: Memory,
    state: State,
    waiters: Waiters,
    polling: Polling,
    /// A lease id for the next acquisition, from the system's randomness (S6).
    fresh: Option<LeaseId>,
    /// Since when the lock is handed on between callers here (S10).
    handing_since: Option<Instant>,
    /// Why the last try failed, if it did: what callers are told whose wait ends now.
    trouble: Option<Box<Trouble>>,
    late: LateRequests,
    draining: bool,
    /// When a pause was suspected last: what was asked for before says nothing of it (S3).
    suspected_at: Option<Instant>,
    requests: u64,
}

/// What the machine is told once.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The longest time between two polls, 250 ms to 60 s (S12).
    pub poll_cap: Duration,
    /// How long a lock is handed on between callers of one sidecar, at most D/2 (S10).
    pub hand_off: Duration,
}

#[derive(Clone, Debug)]
enum State {
    /// No request is under way and no lease is had; with waiters, the next try comes at `not_before`.
    Idle { not_before: Instant, effort: Option<Effort> },
    /// A lease is being acquired, or its token stored.
    Acquiring(Box<Attempt>),
    /// Somebody here has the lock.
    Held(Box<Held>),
    /// The lease is going back to the store.
    Releasing(Box<Releasing>),
    /// A client's hold is being taken up again.
    Resuming(Box<Resuming>),
}

/// A request under way, or one to be repeated.
#[derive(Clone, Copy, Debug)]
enum Flight {
    Sent { request: Request, until: Instant },
    Waiting { at: Instant },
}

impl Flight {
    fn is(&self, request: Request) -> bool {
        matches!(self, Self::Sent { request: sent, .. } if *sent == request)
    }

    const fn at(&self) -> Instant {
        match self {
            Self::Sent { until, .. } => *until,
            Self::Waiting { at } => *at,
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        now >= self.at()
    }
}

impl Hold {
    /// A machine for a path of which `memory` is known. `seed` spreads its requests in time.
    #[must_use]
    pub fn new(settings: Settings, mut memory: Memory, seed: u64, now: Instant) -> Self {
        let not_before = memory.not_before.take().map_or(now, |at| at.max(now));
        Self {
            settings,
            jitter: Jitter::new(seed),
            memory,
            state: State::Idle { not_before, effort: None },
            waiters: Waiters::default(),
            polling: Polling::default(),
            fresh: None,
            handing_since: None,
            trouble: None,
            late: LateRequests::default(),
            draining: false,
            suspected_at: None,
            requests: 0,
        }
    }

    /// Whether a fresh lease id must be supplied before the next event.
    #[must_use]
    pub const fn needs_lease_id(&self) -> bool {
        self.fresh.is_none()
    }

    /// Takes a lease id, random and never used before (S6).
    pub const fn supply(&mut self, lease_id: LeaseId) {
        self.fresh = Some(lease_id);
    }

    /// Takes in what happened and answers what is to be done.
    pub fn on(&mut self, event: Event, now: Instant) -> Vec<Action> {
        let mut turn = Turn::new(now);
        // S4: what time has ended is over before what came in is looked at; but a release is as it was answered (S13).
        if !matches!(event, Event::ReleaseAnswered { .. }) {
            self.pass(&mut turn);
        }
        self.take(event, &mut turn);
        self.pass(&mut turn);
        self.check();
        turn.into_actions()
    }

    /// The earliest moment at which something is to be done; none if only an event can bring anything.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        let state = match &self.state {
            State::Idle { not_before, .. } => (!self.waiters.is_empty()).then_some(*not_before),
            State::Acquiring(attempt) => Some(attempt.next_wakeup()),
            State::Held(held) => Some(held.next_wakeup()),
            State::Releasing(releasing) => Some(releasing.flight.at().min(releasing.over_at)),
            State::Resuming(resuming) => Some(resuming.next_wakeup()),
        };
        [state, self.waiters.earliest_deadline()].into_iter().flatten().min()
    }

    /// Whether the machine has nothing to do and nothing to remember but [`Hold::into_memory`].
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle { effort: None, .. }) && self.waiters.is_empty()
    }

    /// What is to be kept of an idle machine.
    #[must_use]
    pub fn into_memory(self) -> Memory {
        let not_before = match self.state {
            State::Idle { not_before, .. } => Some(not_before),
            State::Acquiring(_) | State::Held(_) | State::Releasing(_) | State::Resuming(_) => None,
        };
        Memory { not_before, ..self.memory }
    }

    /// The greatest token seen or granted here (S5): hand-offs are not in the record.
    #[must_use]
    pub const fn highest(&self) -> Option<FencingToken> {
        self.memory.highest
    }

    /// The name of the state, for people and for those who count transitions.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match &self.state {
            State::Idle { effort: None, .. } => "idle",
            State::Idle { effort: Some(_), .. } => "polling",
            State::Acquiring(attempt) => match **attempt {
                Attempt::Acquire { .. } | Attempt::ReadHolder { .. } => "acquiring",
                Attempt::Leased { .. } => "storing",
            },
            State::Held(held) => match held.phase {
                held::Phase::Active if held.renewal.is_at_risk() => "at risk",
                held::Phase::Active => "held",
                held::Phase::Resting { .. } => "resting",
                held::Phase::Fading(_) => "fading",
            },
            State::Releasing(_) => "releasing",
            State::Resuming(_) => "resuming",
        }
    }

    /// Who has the lock here.
    #[must_use]
    pub fn holding(&self) -> Option<Holding> {
        match &self.state {
            State::Held(held) => Some(held.holding()),
            State::Idle { .. } | State::Acquiring(_) | State::Releasing(_) | State::Resuming(_) => {
                None
            }
        }
    }

    /// The end of the validity of `caller`'s hold, if it has one (S2).
    #[must_use]
    pub fn validity(&self, caller: CallerId) -> Option<Instant> {
        let holding = self.holding()?;
        (holding.active && holding.caller == caller).then_some(holding.valid_until)
    }

    /// How many callers wait here.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiters.len()
    }

    /// The record as last read or written.
    #[must_use]
    pub const fn known(&self) -> Option<&Known> {
        self.memory.known.as_ref()
    }

    /// Does what is due.
    fn pass(&mut self, turn: &mut Turn) {
        self.answer_overdue(turn);
        match self.take_state(turn.now) {
            State::Idle { not_before, effort } => {
                if !self.waiters.is_empty() && turn.now >= not_before {
                    self.try_acquire(effort, turn);
                } else {
                    self.state = State::Idle { not_before, effort };
                }
            }
            State::Acquiring(attempt) => self.pass_acquiring(*attempt, turn),
            State::Held(held) => self.pass_held(held, turn),
            State::Releasing(releasing) => self.pass_releasing(releasing, turn),
            State::Resuming(resuming) => self.pass_resuming(resuming, turn),
        }
        // S6: an attempt that nobody waits for any more is given up.
        if self.waiters.is_empty()
            && let State::Idle { effort, .. } = &mut self.state
            && let Some(effort) = effort.take()
        {
            self.abandon(Some(effort), turn);
        }
    }

    fn take(&mut self, event: Event, turn: &mut Turn) {
        match event {
            Event::CallerArrived { caller, terms } => self.arrive(caller, terms, turn),
            Event::CallerLeft { caller } => {
                if !self.waiters.remove(caller) && !self.resume_left(caller, turn) {
                    self.holder_left(caller, turn);
                }
            }
            Event::HolderSilent { caller } => {
                if !self.waiters.remove(caller) && !self.resume_left(caller, turn) {
                    self.fall_silent(caller);
                }
            }
            Event::ReleaseAsked { caller, generation } => {
                self.release_asked(caller, generation, turn);
            }
            Event::ExtendAsked { caller, generation, max_hold } => {
                if !self.has_moved(caller, generation, turn) {
                    self.extend(caller, max_hold, turn);
                }
            }
            Event::ProgressReported { caller, generation } => {
                if !self.has_moved(caller, generation, turn) {
                    self.report_progress(caller, turn.now);
                }
            }
            Event::ValidityAsked { caller, generation } => {
                self.has_moved(caller, generation, turn);
            }
            Event::ResumeAsked { caller, resume } => self.resume(caller, *resume, turn),
            Event::AcquireAnswered { request, answer, read } => {
                self.acquire_answered(request, (answer, read), turn);
            }
            Event::ReadAnswered { request, answer } => self.read_answered(request, answer, turn),
            Event::WriteAnswered { request, answer } => self.write_answered(request, answer, turn),
            Event::RenewAnswered { request, answer } => self.renew_answered(request, answer, turn),
            Event::ReleaseAnswered { request, answer } => {
                self.release_answered(request, answer, turn);
            }
            Event::LeaseBroken => self.broken_here(turn),
            Event::PauseSuspected => self.suspect_pause(turn),
            Event::DrainStarted { ends } => {
                self.draining = true;
                self.fail_all(&shutting_down(), turn);
                self.drain_resume(turn);
                self.drain_holder(ends, turn);
            }
            Event::DrainEnded => self.shut_down_holder(turn),
            Event::Wakeup => {}
        }
    }

    /// Takes the state out, to put another in its place.
    const fn take_state(&mut self, now: Instant) -> State {
        std::mem::replace(&mut self.state, State::Idle { not_before: now, effort: None })
    }

    const fn next_request(&mut self) -> Request {
        self.requests += 1;
        Request(self.requests)
    }

    /// What holds after every event, and what must not.
    fn check(&self) {
        debug_assert!(!self.draining || self.waiters.is_empty(), "S15: nobody waits in a drain");
        match &self.state {
            State::Idle { effort, .. } => debug_assert!(
                effort.is_none() || !self.waiters.is_empty(),
                "S6: an attempt that nobody waits for is given up"
            ),
            State::Held(held) => {
                debug_assert!(
                    self.memory.highest >= Some(held.token),
                    "S5: a token was granted and not noted"
                );
                debug_assert!(
                    held.believed_until >= held.valid_until() || held.phase != held::Phase::Active,
                    "S13: a holder is told all of its validity"
                );
                debug_assert!(
                    self.memory.known.is_some()
                        || held.phase == held::Phase::Fading(held::Fading::Bereft),
                    "S16: without the record's version a release could end a hold that went on elsewhere"
                );
            }
            State::Acquiring(_) | State::Releasing(_) | State::Resuming(_) => {}
        }
    }
}
