//! What the machine shows of itself.

use std::time::Duration;

use super::attempt::Attempt;
use super::event::{CallerId, RequestId, Resume};
use super::held::{Held, Holding, Phase};
use super::memory::{Handed, Known};
use super::{Hold, State};
use crate::lock::FencingToken;
use crate::time::Instant;

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
