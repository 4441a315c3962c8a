//! What a holder asks of its hold, and the validity that it is answered with (S11, S16, S21).

use std::time::Duration;

use super::error::CallError;
use super::request::{Extended, Validity};
use super::resume_token;
use crate::coordinator::Coordinator;
use crate::coordinator::actor::caller::Caller;
use crate::coordinator::actor::task::{Command, HoldCall, Task};
use crate::hold::{CallerId, Event, StoreFailure, StoreFailureKind};
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
    pub(in crate::coordinator) fn ask(
        &mut self,
        call: HoldCall,
        asked: impl FnOnce(CallerId) -> Event,
    ) -> Result<Validity, CallError> {
        if let Some(caller) = self.holder(call.lease_id) {
            self.feed(asked(caller));
        }
        self.validity(call)
    }

    /// The answer to an extension: the newest resume token has the new bound (S16).
    pub(in crate::coordinator) fn extended(
        &self,
        lease_id: LeaseId,
        validity: Validity,
    ) -> Extended {
        let caller = self.holder(lease_id).and_then(|caller| self.callers.get(&caller));
        let resume_token = caller.map(|caller| self.resume_token(caller)).unwrap_or_default();
        let max_hold_ends = caller.and_then(|caller| self.max_hold_ends(caller));
        Extended { validity, resume_token, max_hold_ends }
    }

    fn resume_token(&self, caller: &Caller) -> String {
        let namespace = &self.shared.settings.host.namespace;
        let named = self.named(caller.id);
        resume_token::make(namespace, caller, named, self.shared.clock.as_ref())
    }

    pub(in crate::coordinator) fn validity(
        &self,
        HoldCall { lease_id, generation }: HoldCall,
    ) -> Result<Validity, CallError> {
        let Some(caller) = self.holder(lease_id) else {
            return Err(self.shared.registry().why_over(lease_id, generation));
        };
        if let Some(valid_until) = self.pool.validity(caller) {
            self.note_validity(lease_id, valid_until, None);
            return Ok(self.shared.validity(valid_until));
        }
        if self.is_releasing(caller) {
            return Err(CallError::HoldReleased);
        }
        Err(CallError::StoreFailure(StoreFailure {
            kind: StoreFailureKind::Unavailable,
            message: "the hold's stream broke, so it is not renewed: resume it first".to_owned(),
            retry_after: None,
        }))
    }

    pub(in crate::coordinator) fn note_validity(
        &self,
        lease_id: LeaseId,
        valid_until: Instant,
        at_risk: Option<bool>,
    ) {
        if let Some(entry) = self.shared.registry().hold_mut(lease_id) {
            entry.valid_until = valid_until;
            entry.at_risk = at_risk.unwrap_or(entry.at_risk);
        }
    }
}
