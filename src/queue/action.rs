//! What a lock asks for: what the machine of a permit asks for, and what is the queue's own.

use crate::hold;
use crate::lock::{Permit, Permits};

/// Something to do, in the order in which it stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// What the machine of a permit asks for. A request to the store is about the path of this permit, and
    /// its answer quotes the permit; a caller that is told of a grant has this permit.
    At {
        /// Whose machine asks for it.
        permit: Permit,
        /// What is to be done.
        action: hold::Action,
    },
    /// Tell the operator that callers of this lock name different numbers of permits, as in a rolling upgrade
    /// (S29).
    ReportPermitsDiffer {
        /// What stands in a record of somebody who holds a permit, or what other callers here have named.
        others: Permits,
        /// What the latest caller here has named.
        ours: Permits,
    },
}
