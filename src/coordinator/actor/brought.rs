//! What callers have brought that is written beside their tokens or with their saves: here
//! [`Action::Decide`](crate::hold::Action::Decide) is answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::caller::Caller;
use super::task::Task;
use crate::coordinator::api::occurrences::Named;
use crate::coordinator::{CallError, Coordinator, Decider, Outcome};
use crate::hold::{CallerId, WriteOf};
use crate::record::{Found, Verdict};

/// Tokens of occurrences that were not granted that are known at the most: the record has one run.
const MOST_UNGRANTED: usize = 16;

/// What a caller brings that is written beside its token.
#[derive(Debug)]
pub(crate) enum Brings {
    /// The occurrence that it names.
    Occurrence(Box<Named>),
    /// Whatever this decides.
    Written(Decider),
}

/// What callers of one lock have brought.
pub(crate) type AllBrought = BTreeMap<CallerId, Brings>;

impl Task {
    /// A caller has come, or come back, perhaps with something to write.
    pub(crate) fn enter(&mut self, caller: Box<Caller>, brings: Option<Brings>) -> CallerId {
        let id = caller.id;
        self.callers.insert(id, caller);
        if let Some(brings) = brings {
            self.aside().brought.insert(id, brings);
        }
        id
    }

    /// Takes a caller out whose call or hold is over, with what it has brought and what repeated calls share.
    pub(crate) fn take_caller(&mut self, id: CallerId) -> Option<Box<Caller>> {
        let caller = self.callers.remove(&id);
        if let Some(aside) = &mut self.aside {
            let brought = aside.brought.remove(&id);
            aside.grants.remove(id);
            if let Some(Brings::Occurrence(named)) = brought
                && let Some(Caller { granted: None, .. }) = caller.as_deref()
            {
                aside.ungranted.extend(named.ungranted());
                let more = aside.ungranted.len().saturating_sub(MOST_UNGRANTED);
                aside.ungranted.drain(..more);
            }
        }
        caller
    }

    /// As [`Task::take_caller`], of one that goes without a grant: what was written for it is withdrawn (T6).
    pub(crate) fn take_ungranted(&mut self, id: CallerId) -> Option<Box<Caller>> {
        let ungranted = self.named(id).map(Named::ungranted).unwrap_or_default();
        let caller = self.take_caller(id)?;
        if caller.granted.is_none() && !ungranted.is_empty() {
            let coordinator = Coordinator { shared: Arc::clone(&self.shared) };
            let (path, terms) = (self.path.clone(), Arc::clone(&caller.terms));
            tokio::spawn(coordinator.withdraw(path, terms, ungranted));
        }
        Some(caller)
    }

    /// What is written over the record that was found under the lease, as whoever brought it decides.
    pub(crate) fn decide(&mut self, of: WriteOf, found: &Found) -> Verdict {
        let aside = self.aside();
        match of {
            WriteOf::Grant(caller) => match aside.brought.get_mut(&caller) {
                Some(Brings::Occurrence(named)) => named.decide(found, &aside.ungranted),
                Some(Brings::Written(decider)) => decider.decide(found),
                None => Verdict::Nothing,
            },
            WriteOf::Save(id) => aside.saves.decide(id, found),
        }
    }

    pub(crate) fn named(&self, caller: CallerId) -> Option<&Named> {
        match self.aside.as_ref()?.brought.get(&caller)? {
            Brings::Occurrence(named) => Some(named),
            Brings::Written(_) => None,
        }
    }

    /// What a caller is told that was granted nothing, because what it brought has said so.
    pub(crate) fn settled_answer(
        &self,
        caller: CallerId,
        written: bool,
    ) -> Result<Outcome, CallError> {
        let named = self.named(caller).and_then(Named::answer);
        named.unwrap_or(Ok(Outcome::Settled { written }))
    }
}
