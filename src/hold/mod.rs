//! How a hold lives: the state machine of one lock path. It decides; it does nothing by itself.
//!
//! Rules: S1 to S17, S22 to S27, S33 to S36, and of schedules T6 to T8, T12. May import: record, lock,
//! time's values. No IO, no async, no clock, no randomness of its own: what happens comes in as an [`Event`]
//! with the time at which it is looked at, and what is to be done goes out as [`Action`]s. To add behaviour:
//! a rule first, then an event or an action, then the file whose business it is, and a test that fails
//! without it.
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
//!
//! Within Held there are phases (`held.rs`): the holder has the lock; its release waits for a save; the lock
//! rests; or it is kept until its former holder cannot believe in its hold any more.
//!
//! Each row imports from rows above it only (`tests/tidy`); first come values, then what is done with them:
//!
//! | file | what it is, or decides |
//! | --- | --- |
//! | `words` | the words of what comes in and of what goes out |
//! | `memory` | what is kept between holds; what an idle machine waits for; what callers want |
//! | `event`, `exchange` | what comes in; a request under way, a write of the record, the renewals of a lease |
//! | `progress` | how far a try to get the lock has come; what is being saved, and who is told |
//! | `held` | the phases of a hold, and its bounds |
//! | `upkeep`, `release` | requests for renewals and saves, and for a release, and what their answers mean |
//! | `end`, `grant`, `fairness` | whether the lock is handed on, kept or given back, also as the sidecar ends; who is granted, and what is written beside the token; turns of sidecars, and rests |
//! | `acquire`, `resume` | when the store is asked, for whom, and what a caller finds here; how a hold goes on here |
//! | `preempt` | holders that yield to greater priorities |
//! | `broken` | breaks that a holder is told of |

mod acquire;
mod broken;
mod end;
mod event;
mod exchange;
mod fairness;
mod grant;
mod held;
mod memory;
mod preempt;
mod progress;
mod release;
mod resume;
#[cfg(test)]
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "tests look for the few actions that they are about"
)]
mod tests;
mod upkeep;
mod words;

use std::sync::Arc;
use std::time::Duration;

pub use acquire::Readiness;
pub use event::{Answer, Event, HolderCall};
pub use exchange::{margin, valid_until};
pub use fairness::{ShareUse, Standing};
pub use held::Holding;
pub use memory::{
    Change, Handed, Idle, Known, Memory, Rest, Resume, StoreBounds, Tenure, Terms, Ungranted, Wait,
};
pub use words::{
    Action, Busy, CallerId, Failure, Granted, LeaseGranted, Look, LossReason, NotConfirmed,
    NoteSeen, Notice, PriorityStatus, Remark, Request, RequestId, Rival, SaveAsked, SaveId,
    SaveOutcome, StoreFailure, StoreFailureKind, Stored, WriteOf,
};

pub(crate) use acquire::{Candidate, Waiter};
pub(crate) use exchange::Jitter;
pub(crate) use words::{Effect, Tried};

use acquire::Polling;
use broken::Breaks;
use end::Shutdown;
use fairness::Sharing;
use held::{GracePeriod, Held, Phase};
use preempt::Overruling;
use progress::{Attempt, Retry};
use release::{AbandonedRequests, Releasing};
use resume::{Comebacks, Resuming};
use words::Output;

use crate::lock::{FencingToken, LeaseId};
use crate::time::Instant;

/// The machine of one lock path.
///
/// # Contract
/// The queue above (`queue/`) drives it. Before an event it does what is due by then (`advance`: S4,
/// what time has ended is over before what came in is looked at); then `handle_event`; then, until
/// nothing comes of it, it says for whom the lock is to be had (`offer`) and does what is due. After
/// an answer to a release (S13), and a suspicion (S3), nothing that is due is done before them. A spurious
/// [`Event::TimePassed`] does nothing. `now` never goes back.
#[derive(Clone, Debug)]
pub struct Hold {
    settings: Arc<Settings>,
    jitter: Jitter,
    memory: Memory,
    state: State,
    /// For whom the lock is to be had.
    candidate: Option<Box<Candidate>>,
    polling: Polling,
    /// A lease id for the next acquisition, from the system's randomness (S6).
    fresh: Option<LeaseId>,
    /// Since when the lock is handed on between callers here (S10).
    handing_since: Option<Instant>,
    /// Why the last try failed, if it did: what callers are told whose wait ends now.
    store_failure: Option<Box<StoreFailure>>,
    abandoned: AbandonedRequests,
    /// How the sidecar ends, once it does (S15).
    shutdown: Shutdown,
    rare: Option<Box<Rare>>,
    requests: u64,
    /// Polls since the record was read, over tries that the queue paces (S31).
    polls_unread: u8,
}

/// What most machines never have.
#[derive(Clone, Debug, Default)]
struct Rare {
    /// When a pause was suspected last: what was asked for before says nothing of it (S3).
    suspected_at: Option<Instant>,
    /// What is done so that the lock becomes free for who waits here (S33, S35).
    overruling: Option<Box<Overruling>>,
    /// What is known of the lock's share (S34).
    sharing: Sharing,
    /// Clients that want to go on with a hold, of which nothing is known here yet (S16).
    comebacks: Option<Box<Comebacks>>,
    /// The breaks that are under way from here (S17).
    breaks: Breaks,
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
    /// No request is under way and no lease is had; with waiters, the next try comes when `idle` is over.
    Idle { idle: Idle, retry: Option<Box<Retry>> },
    /// A lease is being acquired, or its token stored.
    Acquiring(Box<Attempt>),
    /// Somebody here has the lock.
    Held(Box<Held>),
    /// The lease is going back to the store.
    Releasing(Box<Releasing>),
    /// A client's hold is being taken up again.
    Resuming(Box<Resuming>),
}

impl State {
    /// Nothing is under way, and nothing is waited for.
    pub(super) const fn ready(now: Instant) -> Self {
        Self::Idle { idle: Idle::ready(now), retry: None }
    }
}

impl Hold {
    /// A machine for a path of which `memory` is known. Machines of one sidecar share their settings. `seed`
    /// spreads its requests in time.
    #[must_use]
    pub fn new(
        settings: impl Into<Arc<Settings>>,
        mut memory: Memory,
        seed: u64,
        now: Instant,
    ) -> Self {
        let idle = memory.idle.take().filter(|idle| now < idle.until);
        let idle = idle.unwrap_or_else(|| Idle::ready(now));
        let breaks = Breaks::remembered(std::mem::take(&mut memory.may_break_arrive));
        let overruling = memory.refused_until.take().map(Overruling::refused);
        let is_plain = breaks.is_none() && overruling.is_none();
        let rare = (!is_plain).then(|| Box::new(Rare { breaks, overruling, ..Rare::default() }));
        Self {
            settings: settings.into(),
            jitter: Jitter::new(seed),
            memory,
            state: State::Idle { idle, retry: None },
            candidate: None,
            polling: Polling::default(),
            fresh: None,
            handing_since: None,
            store_failure: None,
            abandoned: AbandonedRequests::default(),
            shutdown: Shutdown::None,
            rare,
            requests: 0,
            polls_unread: 0,
        }
    }

    /// What it was told once.
    pub(crate) const fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Takes a lease id, random and never used before (S6), for what it is asked next; gives back one that it
    /// has not used.
    pub(crate) const fn supply(&mut self, lease_id: Option<LeaseId>) -> Option<LeaseId> {
        std::mem::replace(&mut self.fresh, lease_id)
    }

    /// Takes in what happened; what is due before it and because of it is done by [`Hold::advance`].
    pub(crate) fn handle_event(&mut self, event: Event, now: Instant) -> Vec<Effect> {
        let mut output = Output::new(now);
        self.take(event, &mut output);
        output.into_effects()
    }

    /// The earliest moment at which something is to be done; none if only an event can bring anything.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let state = match &self.state {
            State::Idle { idle, .. } => self.is_wanted().then_some(idle.until),
            State::Acquiring(attempt) => Some(attempt.poll_timeout()),
            State::Held(held) => Some(held.poll_timeout()),
            State::Releasing(releasing) => Some(releasing.exchange.at().min(releasing.over_at)),
            State::Resuming(resuming) => Some(resuming.poll_timeout()),
        };
        let left = state.and_then(|_| self.left_to_replacement_at());
        let overruling = self.overruling_timeout();
        let comebacks = self.comebacks().map(Comebacks::poll_timeout);
        [state, left, overruling, comebacks].into_iter().flatten().min()
    }

    /// Whether the machine has nothing to do and nothing to remember but [`Hold::into_memory`].
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle { retry: None, .. })
            && self.candidate.is_none()
            && !self.owes_a_rest()
            && self.comebacks().is_none()
            && !self.is_overruling()
            && (self.shutdown.is_under_way() || !self.is_being_broken())
    }

    /// What is to be kept of an idle machine.
    #[must_use]
    pub fn into_memory(self) -> Memory {
        let refused_until = self.overruling().and_then(|overruling| overruling.refused_until);
        let idle = match self.state {
            State::Idle { idle, .. } => Some(idle),
            State::Acquiring(_) | State::Held(_) | State::Releasing(_) | State::Resuming(_) => None,
        };
        let may_break_arrive = self.rare.as_ref().is_some_and(|rare| rare.breaks.may_arrive());
        Memory { idle, may_break_arrive, refused_until, ..self.memory }
    }

    /// Whether the lock is to be acquired: for whoever waits here, or to take back a rest.
    fn is_wanted(&self) -> bool {
        match self.candidate {
            None => self.owes_a_rest(),
            Some(_) => !self.is_overruling(),
        }
    }

    /// Does what is due.
    pub(crate) fn advance(&mut self, now: Instant) -> Vec<Effect> {
        let mut output = Output::new(now);
        self.do_due(&mut output);
        self.check();
        output.into_effects()
    }

    fn do_due(&mut self, output: &mut Output) {
        self.memory.ungranted.take_if(|rest| output.now >= rest.until);
        self.advance_hand_over(output);
        self.advance_comebacks(output);
        self.overrule(output);
        match self.take_state(output.now) {
            State::Idle { idle, retry } => {
                if self.is_wanted() && output.now >= idle.until {
                    self.try_again(retry.map(|retry| *retry), output);
                } else {
                    self.state = State::Idle { idle, retry };
                }
            }
            State::Acquiring(attempt) => self.advance_acquiring(*attempt, output),
            State::Held(held) => self.advance_held(held, output),
            State::Releasing(releasing) => self.advance_releasing(releasing, output),
            State::Resuming(resuming) => self.advance_resuming(resuming, output),
        }
        // S6: an attempt that nobody waits for any more is given up.
        if self.candidate.is_none()
            && !self.owes_a_rest()
            && let State::Idle { retry, .. } = &mut self.state
            && let Some(retry) = retry.take()
        {
            self.abandon(Some(*retry), output);
        }
    }

    fn take(&mut self, event: Event, output: &mut Output) {
        match event {
            Event::CallerLeft { caller } => {
                if !self.resume_left(caller, output) {
                    self.holder_left(caller, output);
                }
            }
            Event::HolderDisconnected { caller } => {
                if !self.resume_left(caller, output) {
                    self.disconnected(caller);
                }
            }
            Event::Call { caller, generation, call } => {
                self.called(caller, generation, call, output);
            }
            Event::ResumeAsked { caller, resume } => self.resume(caller, *resume, output),
            Event::Answer { request, answer } => self.answered(request, answer, output),
            Event::Decided { of: WriteOf::Grant(caller), verdict } => {
                self.grant_decided(caller, verdict, output);
            }
            Event::Decided { of: WriteOf::Save(id), verdict } => {
                self.save_decided(id, verdict, output);
            }
            Event::RenewHeldBack { request } => self.renew_held_back(request, output),
            Event::RenewTurnCame => self.renew_turn_came(output.now),
            Event::ShareStirred => self.stir(output.now),
            Event::MoveAsked => self.move_asked(output.now),
            Event::LeaseBroken { ends_now } => self.broken_here(ends_now, output),
            Event::BreakBegun => self.break_begun(),
            Event::BreakOver { may_arrive } => self.break_over(may_arrive, output.now),
            Event::LockFreed { token } => self.freed(token, output.now),
            Event::PauseSuspected => self.suspect_pause(output.now),
            Event::DrainStarted { ends } => self.start_draining(ends, output),
            Event::DrainEnded => self.shut_down_holder(output),
            Event::HandOverStarted { ends } => self.start_hand_over(ends, output),
            // Callers come to the queue; what time brings is done when the machine advances.
            Event::CallerArrived { .. } | Event::TimePassed => {}
        }
    }

    fn called(
        &mut self,
        caller: CallerId,
        generation: Option<u64>,
        call: HolderCall,
        output: &mut Output,
    ) {
        if let HolderCall::Release = call {
            return self.release_asked(caller, generation, output);
        }
        self.leave_if_moved(caller, generation, output);
        match call {
            HolderCall::Save(save) => self.save(caller, generation, save, output),
            HolderCall::Extend { max_hold } => self.extend(caller, max_hold, output),
            HolderCall::Progress => self.report_progress(caller, output.now),
            HolderCall::Release | HolderCall::Validity => {}
        }
    }

    fn answered(&mut self, request: RequestId, answer: Answer, output: &mut Output) {
        match answer {
            Answer::Acquire { lease, read } => self.acquire_answered(request, lease, read, output),
            Answer::Read(read) if self.comebacks_by(request) => {
                self.comebacks_answered(request, read, output);
            }
            Answer::Read(read) => self.read_answered(request, read, output),
            Answer::Write(written) => self.write_answered(request, written, output),
            Answer::Renew(renewed) => self.renew_answered(request, renewed, output),
            Answer::Release(released) => self.release_answered(request, released, output),
            Answer::Look(look) if self.overrules_by(request) => {
                self.looked_to_overrule(look, output);
            }
            Answer::Look(look) => self.look_answered(request, look, output),
            Answer::Break(broken) => self.break_answered(request, broken, output),
        }
    }

    /// Takes the state out, to put another in its place.
    const fn take_state(&mut self, now: Instant) -> State {
        std::mem::replace(&mut self.state, State::ready(now))
    }

    /// The hold that is had here.
    fn held(&self) -> Option<&Held> {
        if let State::Held(held) = &self.state { Some(held) } else { None }
    }

    /// Takes that hold out, if it is `wanted`.
    fn take_held(&mut self, now: Instant, wanted: impl Fn(&Held) -> bool) -> Option<Box<Held>> {
        self.held().filter(|held| wanted(held))?;
        if let State::Held(held) = self.take_state(now) { Some(held) } else { None }
    }

    /// Takes the attempt to acquire the lock out, if it is `wanted`.
    fn take_attempt(&mut self, now: Instant, wanted: impl Fn(&Attempt) -> bool) -> Option<Attempt> {
        if let State::Acquiring(attempt) = &self.state
            && wanted(attempt)
            && let State::Acquiring(attempt) = self.take_state(now)
        {
            return Some(*attempt);
        }
        None
    }

    const fn next_request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests)
    }

    /// What is true after every event; checked in builds with debug assertions.
    fn check(&self) {
        debug_assert!(
            !self.shutdown.is_under_way() || self.candidate.is_none(),
            "S15: nobody waits in a drain"
        );
        match &self.state {
            State::Idle { retry, .. } => debug_assert!(
                retry.is_none() || self.candidate.is_some() || self.owes_a_rest(),
                "S6: an attempt that nobody waits for is given up"
            ),
            State::Held(held) => {
                debug_assert!(
                    self.memory.highest >= Some(held.token),
                    "S5: a token was granted and not noted"
                );
                debug_assert!(
                    held.believed_until >= held.valid_until() || held.phase != Phase::Active,
                    "S13: a holder is told all of its validity"
                );
                debug_assert!(
                    self.memory.known.is_some()
                        || held.phase == Phase::GracePeriod(GracePeriod::LeaseLost),
                    "S16: without the record's version a release could end a hold that went on elsewhere"
                );
            }
            State::Acquiring(_) | State::Releasing(_) | State::Resuming(_) => {}
        }
    }
}

/// What a request to the store is for: what goes first while the store throttles depends on it (S7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A hold that is had here.
    Hold {
        /// The end of its validity: a renewal that comes later is too late.
        until: Instant,
    },
    /// A client goes on with its hold, which the record shows to be its own (S16).
    Resume {
        /// The end of the client's belief.
        until: Instant,
    },
    /// A client says that it has a hold, and only the record shows whether it has (S16).
    Comeback,
    /// Nothing that is held: a poll, an acquisition, a lease that goes back.
    Other,
}

/// What the machine shows of itself.
impl Hold {
    /// The greatest token seen or granted here (S5): hand-offs are not in the record.
    #[must_use]
    pub const fn highest(&self) -> Option<FencingToken> {
        self.memory.highest
    }

    /// The newest grant by a hand-off here, which the record may not tell of (S10).
    pub(crate) fn handed(&self) -> Option<&Handed> {
        self.memory.handed.as_deref()
    }

    /// The name of the state, for people and for those who count transitions.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match &self.state {
            State::Idle { retry: None, .. } => "idle",
            State::Idle { retry: Some(_), .. } => "polling",
            State::Acquiring(attempt) => match **attempt {
                Attempt::Acquire { .. } | Attempt::ReadHolder { .. } => "acquiring",
                Attempt::Leased { .. } => "storing",
            },
            State::Held(held) => match held.phase {
                Phase::Active if held.deadline().is_some() => "revoked",
                Phase::Active if held.renewal.is_at_risk() => "at risk",
                Phase::Active => "held",
                Phase::LastSave { .. } => "saving",
                Phase::Resting { .. } => "resting",
                Phase::GracePeriod(_) => "grace period",
            },
            State::Releasing(_) => "releasing",
            State::Resuming(_) => "resuming",
        }
    }

    /// Whether a lease is being acquired, or its token stored: the store may show what nobody here was told.
    #[must_use]
    pub const fn is_acquiring(&self) -> bool {
        matches!(self.state, State::Acquiring(_))
    }

    /// Who has the lock here.
    #[must_use]
    pub fn holding(&self) -> Option<Holding> {
        self.held().map(Held::holding)
    }

    /// For whose hold or wait the store is asked now, if for anybody's.
    #[must_use]
    pub fn serves(&self) -> Option<CallerId> {
        match &self.state {
            State::Held(held) => Some(held.caller),
            State::Releasing(releasing) => releasing.hold.as_ref()?.caller,
            State::Resuming(resuming) => Some(resuming.caller),
            State::Idle { .. } | State::Acquiring(_) => self.wanted_for(),
        }
    }

    /// Whether a hold has ended whose last checkpoint is still on its way (S26).
    #[must_use]
    pub fn is_saving_last(&self) -> bool {
        self.held().is_some_and(|held| matches!(held.phase, Phase::LastSave { .. }))
    }

    /// The end of the validity of `caller`'s hold, if it has one (S2).
    #[must_use]
    pub fn validity(&self, caller: CallerId) -> Option<Instant> {
        let holding = self.holding()?;
        (holding.active && holding.caller == caller).then_some(holding.valid_until)
    }

    /// The caller that waits for which the lock is to be had.
    pub(crate) fn wanted_for(&self) -> Option<CallerId> {
        self.front().map(|front| front.caller)
    }

    /// The record as last read or written.
    #[must_use]
    pub const fn known(&self) -> Option<&Known> {
        self.memory.known.as_ref()
    }

    /// What a request is for that was just sent (S7).
    #[must_use]
    pub fn purpose(&self, request: RequestId) -> Purpose {
        match &self.state {
            _ if self.comebacks_by(request) => Purpose::Comeback,
            // An earlier end of the hold makes nothing more urgent.
            State::Held(held) => Purpose::Hold { until: held.renewal.valid_until() },
            State::Resuming(resuming) => Purpose::Resume { until: resuming.resume.believed_until },
            State::Idle { .. } | State::Acquiring(_) | State::Releasing(_) => Purpose::Other,
        }
    }

    /// The lease that is renewed here, or is about to be for a client that goes on with its hold, if one is:
    /// the end of its validity, and D.
    #[must_use]
    pub fn renewed_lease(&self) -> Option<(Instant, Duration)> {
        match &self.state {
            State::Held(held) if held.is_renewed() => {
                Some((held.renewal.valid_until(), held.renewal.lease_duration()))
            }
            State::Resuming(resuming) => {
                let Resume { believed_until, terms, .. } = &resuming.resume;
                Some((*believed_until, terms.lease_duration))
            }
            State::Held(_) | State::Idle { .. } | State::Acquiring(_) | State::Releasing(_) => None,
        }
    }
}
