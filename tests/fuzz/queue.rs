//! Who waits for a lock and who holds it, as the rules have it (S12, S33).

use std::cmp::Reverse;
use std::collections::BTreeSet;

use leasehold::hold::{Action, CallerId, Event, Notice};
use leasehold::record::Priority;

/// A call that waits or holds: its place, by priority and then by arrival, and its request id.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Call {
    priority: Reverse<Priority>,
    arrival: u64,
    caller: CallerId,
    id: String,
}

/// Who waits, in the order in which they are to be served, and who holds (S12, S33).
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: Vec<Call>,
    holder: Option<Call>,
    /// Has come just now, and was not answered.
    arriving: Option<Call>,
    leaving: Option<CallerId>,
    arrivals: u64,
}

impl Queue {
    pub(crate) fn comes(&mut self, event: &Event) {
        (self.arriving, self.leaving) = match event {
            Event::CallerArrived { caller, terms } => {
                self.arrivals += 1;
                let (priority, id) = (Reverse(terms.priority()), terms.request_id.clone());
                (Some(Call { priority, arrival: self.arrivals, caller: *caller, id }), None)
            }
            Event::CallerLeft { caller } | Event::HolderDisconnected { caller } => {
                (None, Some(*caller))
            }
            _ => (None, None),
        };
    }

    /// What an action says must be so.
    pub(crate) fn told(&mut self, action: &Action) -> Result<(), String> {
        let is_right = match action {
            Action::Tell { caller, notice: Notice::Superseded { by } } => {
                self.superseded(*caller, *by)
            }
            Action::Tell { caller, notice: Notice::SameGrant { holder } } => {
                self.repeats_holder(*caller, *holder)
            }
            Action::Tell { caller, notice: Notice::Granted(grant) } if !grant.resumed => {
                self.served(*caller)
            }
            Action::Tell { notice: Notice::Granted(_), .. } => {
                self.holder = None;
                true
            }
            Action::Tell {
                caller,
                notice: Notice::Busy(_) | Notice::Failed(_) | Notice::Settled { .. },
            } => {
                self.waiting.retain(|waiting| waiting.caller != *caller);
                self.arriving.take_if(|arriving| arriving.caller == *caller);
                true
            }
            _ => true,
        };
        if is_right { Ok(()) } else { Err(format!("S12: {action:?} in {self:?}")) }
    }

    /// A call that waits gives its arrival to its repeat; a resume supersedes only what does not wait.
    fn superseded(&mut self, former: CallerId, by: CallerId) -> bool {
        let Some(place) = self.waiting.iter().position(|waiting| waiting.caller == former) else {
            return true;
        };
        let former = self.waiting.remove(place);
        let repeat = self.arriving.take();
        let repeat = repeat.filter(|repeat| {
            repeat.caller == by && !repeat.id.is_empty() && repeat.id == former.id
        });
        let Some(repeat) = repeat else { return false };
        self.waits(Call { arrival: former.arrival, ..repeat });
        true
    }

    fn waits(&mut self, call: Call) {
        self.waiting.push(call);
        self.waiting.sort_by_key(|call| (call.priority, call.arrival));
    }

    fn repeats_holder(&mut self, caller: CallerId, holder: CallerId) -> bool {
        let Some(arriving) = self.arriving.take() else { return false };
        let is_repeat =
            |held: &Call| (held.caller, held.id.as_str()) == (holder, arriving.id.as_str());
        arriving.caller == caller
            && !arriving.id.is_empty()
            && self.holder.as_ref().is_some_and(is_repeat)
    }

    fn served(&mut self, caller: CallerId) -> bool {
        if let Some(arriving) = self.arriving.take_if(|arriving| arriving.caller == caller) {
            self.waits(arriving);
        }
        self.holder = match self.waiting.first() {
            Some(first) if first.caller == caller => Some(self.waiting.remove(0)),
            Some(_) | None => None,
        };
        self.holder.is_some()
    }

    /// Nobody is left without an answer, and nobody waits twice.
    pub(crate) fn settled(&mut self, waiting: usize) -> Result<(), String> {
        if let Some(arriving) = self.arriving.take() {
            self.waits(arriving);
        }
        let leaving = self.leaving.take();
        self.waiting.retain(|waiting| Some(waiting.caller) != leaving);
        let named = self.waiting.iter().map(|call| &call.id).filter(|id| !id.is_empty());
        let ids: BTreeSet<_> = named.clone().collect();
        let is_right = waiting == self.waiting.len() && ids.len() == named.count();
        if is_right { Ok(()) } else { Err(format!("S12: {waiting} wait, of {self:?}")) }
    }
}
