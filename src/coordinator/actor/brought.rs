//! What callers have brought that is written beside their tokens or with their saves: here
//! [`Action::Decide`](crate::hold::Action::Decide) is answered.

use std::collections::BTreeMap;

use super::caller::Caller;
use super::task::Task;
use crate::coordinator::api::occurrences::Named;
use crate::coordinator::{CallError, Decider, Outcome};
use crate::hold::{CallerId, WriteOf};
use crate::record::{Found, Verdict};

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
        if let Some(aside) = &mut self.aside {
            aside.brought.remove(&id);
            aside.grants.remove(id);
        }
        self.callers.remove(&id)
    }

    /// A call that was made again has its first's place, and that was granted nothing (T6).
    pub(crate) fn inherit(&mut self, former: CallerId, by: CallerId) {
        let Some(aside) = &mut self.aside else { return };
        let Some(Brings::Occurrence(first)) = aside.brought.remove(&former) else { return };
        if let Some(Brings::Occurrence(named)) = aside.brought.get_mut(&by) {
            named.inherit(&first);
        }
    }

    /// What is written over the record that was found under the lease, as whoever brought it decides.
    pub(crate) fn decide(&mut self, of: WriteOf, found: &Found) -> Verdict {
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
