//! The end of the sidecar: holders are waited for, and told lost at the end of the drain; or a replacement
//! follows, which holds are handed over to (S13, S15).

use std::time::Duration;

use super::action::{LossReason, Notice, Output};
use super::attempt::Attempt;
use super::event::CallerId;
use super::held::{Held, Phase};
use super::saves::end_saves;
use super::{Hold, State};
use crate::time::Instant;

/// How long a hold that was renewed once more is still answered for. A client on another kernel may count the
/// renewal only from a request of its own (S21), and sends one when it hears of it.
const ASKING: Duration = Duration::from_secs(1);

/// How the sidecar ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shutdown {
    /// It does not, yet.
    None,
    /// Holders are waited for, and the rest told lost.
    Drain,
    /// A replacement follows. Boxed: every machine has room for it, and few hand over.
    HandOver(Box<Limits>),
}

/// Until when a machine that hands over waits for what is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// What is not settled by then is left to the replacement, or to run out.
    until: Instant,
    /// The same for a hold that was renewed once more: its client has had the time to ask by then.
    asked_until: Option<Instant>,
}

impl Shutdown {
    /// Whether nobody is served any more.
    pub(super) const fn is_under_way(&self) -> bool {
        match self {
            Self::None => false,
            Self::Drain | Self::HandOver(_) => true,
        }
    }

    pub(super) const fn hands_over(&self) -> bool {
        matches!(self, Self::HandOver(_))
    }

    /// When everything is left to the replacement that is not settled by then.
    fn left_to_replacement_at(&self, is_held: bool) -> Option<Instant> {
        match self {
            Self::None | Self::Drain => None,
            Self::HandOver(limits) => {
                let asked_until = limits.asked_until.filter(|_| is_held);
                Some(asked_until.map_or(limits.until, |asked| asked.min(limits.until)))
            }
        }
    }

    /// A hold was renewed once more: its client may ask about it until `at`.
    fn renewed(&mut self, at: Instant) {
        match self {
            Self::None | Self::Drain => {}
            Self::HandOver(limits) => limits.asked_until = Some(at),
        }
    }
}

impl Hold {
    /// Waits end; whoever holds is told, and has until `ends`.
    pub(super) fn start_draining(&mut self, ends: Instant, output: &mut Output) {
        self.shutdown = Shutdown::Drain;
        self.drain_resume(output);
        self.drain_holder(ends, output);
    }

    fn drain_holder(&mut self, ends: Instant, output: &mut Output) {
        if let Some(held) = self.held().filter(|held| held.phase == Phase::Active) {
            output.tell(held.caller, Notice::Draining { ends });
        }
        let rests = |held: &Held| matches!(held.phase, Phase::Resting { .. });
        // The end of the rest is in the record, so the lease is not needed to keep it (S11).
        if let Some(held) = self.take_held(output.now, rests) {
            self.give_back(*held, None, output);
        }
    }

    /// The drain period is over: the rest are told (S15).
    pub(super) fn shut_down_holder(&mut self, output: &mut Output) {
        if let Some(held) = self.take_held(output.now, |held| held.phase == Phase::Active) {
            let detail = "the sidecar shut down and the drain period is over".to_owned();
            self.lose(held, LossReason::Shutdown, detail, output);
        }
    }

    /// Waits end; a hold is renewed once more; what is being acquired or released is settled, or left to run
    /// out (S13).
    pub(super) fn start_hand_over(&mut self, ends: Instant, output: &mut Output) {
        let until = ends.min(self.settled_by(output.now));
        self.shutdown = Shutdown::HandOver(Box::new(Limits { until, asked_until: None }));
        self.drain_resume(output);
        let Some(mut held) = self.take_held(output.now, |_| true) else { return };
        match held.phase {
            Phase::Active if held.is_renewed() => {
                held.renewal.renew_now(output.now);
                self.state = State::Held(held);
            }
            // S22, S26: what cannot be taken along has until the hand-over is over.
            Phase::Active if held.notice.is_some() || held.is_saving() => {
                self.state = State::Held(held);
            }
            Phase::LastSave { .. } => self.state = State::Held(held),
            // The end of the rest is in the record, so the lease is not needed to keep it (S11).
            Phase::Resting { .. } => self.give_back(*held, None, output),
            Phase::Active | Phase::GracePeriod(_) => self.leave_to_replacement(&held, output),
        }
    }

    /// A sixth of the lease: then a holder that could not be renewed has half of its validity left to come
    /// back with.
    fn settled_by(&self, now: Instant) -> Instant {
        let lease_duration = match &self.state {
            State::Idle { retry: None, .. } | State::Resuming(_) => return now,
            State::Idle { retry: Some(retry), .. } => retry.duration,
            State::Acquiring(attempt) => match &**attempt {
                Attempt::Acquire { retry, .. } | Attempt::ReadHolder { retry, .. } => {
                    retry.duration
                }
                Attempt::Leased { lease, .. } => lease.duration,
            },
            State::Held(held) => held.renewal.lease_duration(),
            State::Releasing(releasing) => releasing.lease_duration,
        };
        now + lease_duration / 6
    }

    /// A renewal has succeeded during the hand-over, and its holder has a moment to ask what that gave it.
    /// The answer to one that was cut off is old: another is asked for.
    pub(super) fn renewed_once_more(
        &mut self,
        mut held: Box<Held>,
        old: bool,
        output: &mut Output,
    ) {
        if old {
            held.renewal.renew_now(output.now);
        } else {
            self.shutdown.renewed(output.now + ASKING);
        }
        self.state = State::Held(held);
    }

    /// When what the machine is about is left to the replacement.
    pub(super) fn left_to_replacement_at(&self) -> Option<Instant> {
        self.shutdown.left_to_replacement_at(matches!(self.state, State::Held(_)))
    }

    /// What needs no more waiting for, or has no more time, is left to the replacement.
    pub(super) fn advance_hand_over(&mut self, output: &mut Output) {
        let Some(until) = self.left_to_replacement_at() else { return };
        let is_over = output.now >= until;
        match self.take_state(output.now) {
            // S4: a hold whose validity is over is lost, and told so.
            State::Held(held) if held.phase == Phase::Active => {
                if is_over && output.now < held.valid_until() {
                    self.leave_to_replacement(&held, output);
                } else {
                    self.state = State::Held(held);
                }
            }
            State::Held(held) if !is_over && matches!(held.phase, Phase::LastSave { .. }) => {
                self.state = State::Held(held);
            }
            State::Held(held) => self.leave_to_replacement(&held, output),
            // Whether the store has the lease back is not known; if not, it runs out.
            State::Releasing(releasing) if is_over => {
                let caller = releasing.hold.as_ref().and_then(|hold| hold.caller);
                tell_interrupted(caller, output);
            }
            // S6: nobody was granted anything under it.
            State::Acquiring(attempt) if is_over => self.drop_attempt(*attempt, output),
            other @ (State::Idle { .. }
            | State::Acquiring(_)
            | State::Releasing(_)
            | State::Resuming(_)) => self.state = other,
        }
    }

    /// S13, S16: its client may go on with it elsewhere from now on, so nothing that is answered late
    /// releases it.
    fn leave_to_replacement(&mut self, held: &Held, output: &mut Output) {
        end_saves(held.saving.as_deref(), output);
        tell_interrupted(held.may_be_told().then_some(held.caller), output);
        self.leave_to_run_out(held.lease_id, output);
    }
}

fn tell_interrupted(caller: Option<CallerId>, output: &mut Output) {
    if let Some(caller) = caller {
        output.tell(caller, Notice::Interrupted);
    }
}
