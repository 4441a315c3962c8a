//! Repeated unary calls: several callers may be told one grant (`request_id`), and it ends with the last of
//! them.

use std::collections::BTreeMap;

use crate::coordinator::call::Grant;
use crate::hold::CallerId;

/// The grants of one path's task that repeated calls are answered with.
#[derive(Debug, Default)]
pub(super) struct GrantsByRequest(BTreeMap<CallerId, SharedGrant>);

#[derive(Debug)]
struct SharedGrant {
    grant: Box<Grant>,
    /// Calls that were answered with the grant and may go away before they have the answer. Empty once one of
    /// them has it: the outcome of the others then does not matter any more.
    unconfirmed: Vec<CallerId>,
}

/// What the going away of a caller means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Departure {
    /// It shared no grant.
    Alone,
    /// Another call has the grant, or may yet get it.
    OneOfMany,
    /// It was the last that could have received the grant of this holder (S6).
    Last(CallerId),
}

impl GrantsByRequest {
    pub(super) fn insert(&mut self, holder: CallerId, grant: Box<Grant>) {
        self.0.insert(holder, SharedGrant { grant, unconfirmed: vec![holder] });
    }

    /// The grant of `holder`, which `caller` is told too.
    pub(super) fn repeat(&mut self, holder: CallerId, caller: CallerId) -> Option<Box<Grant>> {
        let entry = self.0.get_mut(&holder)?;
        if !entry.unconfirmed.is_empty() {
            entry.unconfirmed.push(caller);
        }
        Some(entry.grant.clone())
    }

    /// `caller` has its answer.
    pub(super) fn confirm(&mut self, caller: CallerId) {
        for entry in self.0.values_mut() {
            if entry.unconfirmed.contains(&caller) {
                entry.unconfirmed = Vec::new();
            }
        }
    }

    /// `caller` went away without its answer.
    pub(super) fn leave(&mut self, caller: CallerId) -> Departure {
        for (holder, entry) in &mut self.0 {
            if let Some(index) = entry.unconfirmed.iter().position(|one| *one == caller) {
                if entry.unconfirmed.len() == 1 {
                    return Departure::Last(*holder);
                }
                entry.unconfirmed.swap_remove(index);
                return Departure::OneOfMany;
            }
        }
        if self.0.contains_key(&caller) { Departure::OneOfMany } else { Departure::Alone }
    }

    /// The hold is over.
    pub(super) fn remove(&mut self, holder: CallerId) {
        self.0.remove(&holder);
    }
}
