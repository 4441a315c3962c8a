//! Clients that want to go on with a hold that this sidecar does not have (S16). A resume token is the
//! client's word: until the record shows that it is of this very hold, nothing here waits for it, is held
//! back or is counted as lost for its sake.

use super::action::{Loss, LossReason, Notice, Output, Request};
use super::event::{CallerId, Failure, RequestId, Resume, StoreFailure, Stored};
use super::exchange::Exchange;
use super::held::Bounds;
use super::{Hold, State};
use crate::record::Record;
use crate::time::Instant;

pub(super) const TOO_LATE: Loss = Loss {
    reason: LossReason::Expired,
    detail: "the store could not be asked before the validity ran out",
};

/// A client that waits for the record to be read.
#[derive(Clone, Debug)]
pub(super) struct Comeback {
    pub(super) caller: CallerId,
    pub(super) resume: Resume,
    /// What is left of its bounds, counted from when it asked, however long that takes (S11).
    pub(super) bounds: Bounds,
    /// The newest request when it asked: a read of before says nothing of it.
    asked: RequestId,
}

/// The clients that wait so, and the one read that answers them all.
#[derive(Clone, Debug)]
pub(super) struct Comebacks {
    waiting: Vec<Comeback>,
    read: Exchange,
}

impl Comebacks {
    pub(super) fn poll_timeout(&self) -> Instant {
        let ends = self.waiting.iter().map(|comeback| comeback.resume.believed_until);
        ends.fold(self.read.at(), Instant::min)
    }

    fn remove(&mut self, caller: CallerId) -> Option<Comeback> {
        let index = self.waiting.iter().position(|comeback| comeback.caller == caller)?;
        Some(self.waiting.remove(index))
    }
}

impl Hold {
    pub(super) fn comebacks(&self) -> Option<&Comebacks> {
        self.rare.as_ref()?.comebacks.as_deref()
    }

    fn comebacks_mut(&mut self) -> Option<&mut Comebacks> {
        self.rare.as_mut()?.comebacks.as_deref_mut()
    }

    /// A client is to be heard as soon as the record was read.
    pub(super) fn come_back(&mut self, caller: CallerId, resume: Resume, output: &Output) {
        let Resume { terms, believed_until, .. } = &resume;
        let lease_ends = resume.lease_ends.unwrap_or(*believed_until);
        let bounds = Bounds::new(terms, terms.max_hold, lease_ends, output.now);
        let comeback = Comeback { caller, resume, bounds, asked: RequestId(self.requests) };
        let none =
            || Box::new(Comebacks { waiting: vec![], read: Exchange::Waiting { at: output.now } });
        let rare = self.rare.get_or_insert_default();
        rare.comebacks.get_or_insert_with(none).waiting.push(comeback);
    }

    /// Reads the record for those who wait for that, and refuses those whose belief is over.
    pub(super) fn advance_comebacks(&mut self, output: &mut Output) {
        let Some(comebacks) = self.comebacks_mut() else { return };
        let is_over = |comeback: &mut Comeback| output.now >= comeback.resume.believed_until;
        let over: Vec<Comeback> = comebacks.waiting.extract_if(.., is_over).collect();
        for comeback in over {
            // S6: nobody wants the lease any more, so nothing is asked of it.
            refuse(comeback.caller, TOO_LATE, output);
        }
        self.read_for_comebacks(output);
    }

    fn read_for_comebacks(&mut self, output: &mut Output) {
        let Some(comebacks) = self.comebacks() else { return };
        let Some(first) = comebacks.waiting.first() else {
            return self.forget_comebacks();
        };
        let lease_duration = first.resume.terms.lease_duration;
        let read = match comebacks.read {
            Exchange::Sent { until, .. } if output.now >= until => {
                // The clients' validity is running: there is no time for patience.
                Exchange::Waiting { at: output.now + self.jitter.around(lease_duration / 60, 20) }
            }
            Exchange::Waiting { at } if output.now >= at => {
                self.send(Request::Read, lease_duration, output)
            }
            read @ (Exchange::Sent { .. } | Exchange::Waiting { .. }) => read,
        };
        if let Some(comebacks) = self.comebacks_mut() {
            comebacks.read = read;
        }
    }

    fn forget_comebacks(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.comebacks = None;
        }
    }

    /// Whether `request` is the read for those who wait.
    pub(super) fn comebacks_by(&self, request: RequestId) -> bool {
        self.comebacks().is_some_and(|comebacks| comebacks.read.is(request))
    }

    /// The record was read: each comeback that came before that is refused, or the hold is taken up again.
    pub(super) fn comebacks_answered(
        &mut self,
        request: RequestId,
        answer: Result<Stored, Failure>,
        output: &mut Output,
    ) {
        let Some(comebacks) = self.comebacks_mut() else { return };
        comebacks.read = Exchange::Waiting { at: output.now };
        let heard = |comeback: &mut Comeback| comeback.asked < request;
        let heard: Vec<Comeback> = match &answer {
            Ok(_) | Err(Failure::Deleted) => comebacks.waiting.extract_if(.., heard).collect(),
            Err(_) => vec![],
        };
        match answer {
            Ok(stored) => {
                let record = Record::from_fields(&stored.fields);
                for comeback in heard {
                    match comeback.resume.check(&record) {
                        Ok(()) => self.take_up(comeback, &stored, output),
                        Err(loss) => refuse(comeback.caller, loss, output),
                    }
                }
                if matches!(self.state, State::Idle { .. }) {
                    self.learn(stored, output.now);
                }
            }
            Err(Failure::Deleted) => {
                for comeback in heard {
                    refuse(comeback.caller, Loss::DELETED, output);
                }
            }
            // It says nothing of the lock.
            Err(_) => self.read_later(output),
        }
    }

    fn read_later(&mut self, output: &Output) {
        let Some(first) = self.comebacks().and_then(|comebacks| comebacks.waiting.first()) else {
            return;
        };
        let lease_duration = first.resume.terms.lease_duration;
        // S7, S12: as often as a renewal would be repeated; callers that wait here poll beside it.
        let at = output.now + self.jitter.between(lease_duration / 30, lease_duration / 12);
        if let Some(comebacks) = self.comebacks_mut() {
            comebacks.read = Exchange::Waiting { at };
        }
    }

    /// Takes out the comeback of a caller that wants it no more. Nothing was asked of its lease.
    pub(super) fn drop_comeback(&mut self, caller: CallerId) -> bool {
        self.comebacks_mut().is_some_and(|comebacks| comebacks.remove(caller).is_some())
    }

    /// S15: the clients may go on with their holds at another sidecar.
    pub(super) fn drain_comebacks(&mut self, output: &mut Output) {
        let comebacks =
            self.comebacks_mut().map(|comebacks| std::mem::take(&mut comebacks.waiting));
        for Comeback { caller, .. } in comebacks.unwrap_or_default() {
            let store_failure = StoreFailure::shutting_down();
            output.tell(caller, Notice::Failed(store_failure));
        }
        self.forget_comebacks();
    }
}

/// The hold is not the client's, as far as anybody can tell: to it, it is lost; here, it never was.
pub(super) fn refuse(caller: CallerId, Loss { reason, detail }: Loss, output: &mut Output) {
    output.tell(caller, Notice::ResumeRefused { reason, detail: detail.to_owned() });
}
