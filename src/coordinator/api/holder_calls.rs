//! What a holder asks of its hold, and the validity that it is answered with (S11, S16, S21).

use std::time::Duration;

use super::resume_token;
use crate::coordinator::actor::caller::Caller;
use crate::coordinator::actor::task::{Command, HoldCall, Task};
use crate::coordinator::{CallError, Coordinator, Extended, Validity};
use crate::hold::{Event, HolderCall, StoreFailureKind};
use crate::lock::LeaseId;
use crate::time::Instant;

impl Coordinator {
    /// Sets a new `max_hold`, counted from now (S11).
    ///
    /// # Errors
    /// When the hold is over, or never was.
    pub async fn extend(
        &self,
        lease_id: LeaseId,
        generation: Option<u64>,
        max_hold: Duration,
    ) -> Result<Extended, CallError> {
        let call = HoldCall { lease_id, generation };
        self.ask(call, |reply| Command::Extend(call, max_hold, reply)).await
    }

    /// Resets the progress timeout (S11); answers with the validity (S21).
    ///
    /// # Errors
    /// When the hold is over, or never was.
    pub async fn report_progress(
        &self,
        lease_id: LeaseId,
        generation: Option<u64>,
    ) -> Result<Validity, CallError> {
        let call = HoldCall { lease_id, generation };
        self.ask(call, |reply| Command::ReportProgress(call, reply)).await
    }
}

impl Task {
    /// Asks something of a hold; its validity then.
    pub(crate) fn ask(&mut self, call: HoldCall, what: HolderCall) -> Result<Validity, CallError> {
        let HoldCall { lease_id, generation } = call;
        if let Some(caller) = self.holder(lease_id) {
            self.feed(Event::Call { caller, generation, call: what });
        }
        self.validity(call)
    }

    /// Extends a hold; its newest resume token has the new bound (S16).
    pub(crate) fn extend(
        &mut self,
        call: HoldCall,
        max_hold: Duration,
    ) -> Result<Extended, CallError> {
        let validity = self.ask(call, HolderCall::Extend { max_hold })?;
        let caller = self.holder(call.lease_id).and_then(|caller| self.callers.get(&caller));
        caller.map(|caller| self.extended(caller, validity)).ok_or(CallError::UnknownLease)
    }

    pub(crate) fn extended(&self, caller: &Caller, validity: Validity) -> Extended {
        let (resume_token, max_hold_ends) = (self.resume_token(caller), self.max_hold_ends(caller));
        Extended { validity, resume_token, max_hold_ends }
    }

    pub(crate) fn resume_token(&self, caller: &Caller) -> String {
        let namespace = &self.shared.settings.host.namespace;
        let named = self.named(caller.id);
        resume_token::make(namespace, caller, named, self.shared.clock.as_ref())
    }

    fn validity(&self, call: HoldCall) -> Result<Validity, CallError> {
        let Some(caller) = self.holder(call.lease_id) else {
            return Err(self.shared.registry().why_over(call));
        };
        if let Some(valid_until) = self.queue.validity(caller) {
            self.note_validity(call.lease_id, valid_until, None);
            return Ok(self.shared.validity(valid_until));
        }
        if self.is_releasing(caller) {
            return Err(CallError::HoldReleased);
        }
        let message = "the hold's stream broke, so it is not renewed: resume it first";
        Err(CallError::failed(StoreFailureKind::Unavailable, message))
    }

    pub(crate) fn note_validity(
        &self,
        lease_id: LeaseId,
        valid_until: Instant,
        at_risk: Option<bool>,
    ) {
        if let Some(entry) = self.shared.registry().holds.get_mut(&lease_id) {
            entry.valid_until = valid_until;
            entry.at_risk = at_risk.unwrap_or(entry.at_risk);
        }
    }
}
