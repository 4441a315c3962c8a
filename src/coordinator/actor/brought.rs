//! What callers have brought that is written beside their tokens or with their saves: here
//! [`Action::Decide`](crate::hold::Action::Decide) is answered.

use std::collections::BTreeMap;

use tokio::sync::oneshot;

use super::caller::Caller;
use super::task::Task;
use crate::coordinator::api::decider::Decider;
use crate::coordinator::api::error::CallError;
use crate::coordinator::api::occurrences::Named;
use crate::coordinator::api::request::Outcome;
use crate::hold::{CallerId, WriteOf};
use crate::lock::LeaseId;
use crate::record::{Found, Verdict};
use crate::schedule::Occurrence;

/// What a caller brings that is written beside its token.
#[derive(Debug)]
pub(in crate::coordinator) enum Brings {
    /// The occurrence that it names.
    Occurrence(Box<Named>),
    /// Whatever this decides.
    Written(Decider),
}

/// What callers of one lock have brought.
pub(in crate::coordinator) type AllBrought = BTreeMap<CallerId, Brings>;

impl Task {
    /// A caller has come, or come back, with something to write.
    pub(in crate::coordinator) fn note_brought(
        &mut self,
        caller: CallerId,
        brings: Option<Brings>,
    ) {
        if let Some(brings) = brings {
            self.aside().brought.insert(caller, brings);
        }
    }

    /// Takes a caller out whose call or hold is over, with what it has brought.
    pub(in crate::coordinator) fn take_caller(&mut self, id: CallerId) -> Option<Box<Caller>> {
        if let Some(aside) = &mut self.aside {
            aside.brought.remove(&id);
        }
        self.callers.remove(&id)
    }

    /// What is written over the record that was found under the lease, as whoever brought it decides.
    pub(in crate::coordinator) fn decide(&mut self, of: WriteOf, found: &Found) -> Verdict {
        let aside = self.aside();
        match of {
            WriteOf::Grant(caller) => match aside.brought.get_mut(&caller) {
                Some(Brings::Occurrence(named)) => named.decide(found),
                Some(Brings::Written(decider)) => decider.decide(found),
                None => Verdict::Nothing,
            },
            WriteOf::Save(id) => aside.saves.decide(id, found),
        }
    }

    pub(in crate::coordinator) fn named(&self, caller: CallerId) -> Option<&Named> {
        match self.aside.as_ref()?.brought.get(&caller)? {
            Brings::Occurrence(named) => Some(named),
            Brings::Written(_) => None,
        }
    }

    /// Answers with the occurrence of a hold; a hold that is over is not answered.
    pub(in crate::coordinator) fn tell_named(
        &self,
        lease_id: LeaseId,
        reply: oneshot::Sender<Option<Occurrence>>,
    ) {
        if let Some(caller) = self.holder(lease_id) {
            // Who does not wait for it any more has gone.
            let _ = reply.send(self.named(caller).map(|named| named.occurrence));
        }
    }

    /// What a caller is told that was granted nothing, because what it brought has said so.
    pub(in crate::coordinator) fn settled_answer(
        &self,
        caller: CallerId,
        written: bool,
    ) -> Result<Outcome, CallError> {
        let named = self.named(caller).and_then(Named::answer);
        named.unwrap_or(Ok(Outcome::Settled { written }))
    }
}
