//! Priorities and shares, as callers ask for them (S28, S33 to S35, S19).

use super::proto;
use super::violations::Violations;
use crate::lock::{Permits, Priority, ShareName, Sharing};

/// What a spec says of its caller's place among others.
pub(super) fn sharing(
    wrong: &mut Violations,
    spec: &proto::LeaseSpec,
    permits: Permits,
) -> Sharing {
    let priority = wrong.take("spec.priority", Priority::new(spec.priority)).unwrap_or_default();
    let share = wrong.share("spec.share", &spec.share);
    if permits > Permits::ONE {
        let asked = [
            ("spec.priority", spec.priority > 0),
            ("spec.yields", spec.yields),
            ("spec.share", !spec.share.is_empty()),
        ];
        for (field, _) in asked.into_iter().filter(|(_, is_set)| *is_set) {
            wrong.add(field, "is for locks of one permit; here permits is greater than 1");
        }
    }
    if spec.rebalance && !spec.yields {
        let problem = "needs yields: a caller that takes locks from others must also yield its own";
        wrong.add("spec.rebalance", problem);
    }
    if spec.rebalance && spec.share.is_empty() {
        wrong.add("spec.rebalance", "needs share: the group of locks that is spread");
    }
    Sharing { priority, yields: spec.yields, share }
}

impl Violations {
    /// The name of a share; none for an empty one.
    pub(super) fn share(&mut self, field: &str, name: &str) -> Option<ShareName> {
        if name.is_empty() { None } else { self.take(field, ShareName::new(name)) }
    }
}
