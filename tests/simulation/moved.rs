//! Leases of sidecars whose machines stood still without counting it: what was granted under them before that
//! is outside S1 until it is noticed, and what is granted once a clock has shown it is not (S3).

use std::collections::{BTreeMap, BTreeSet};

use leasehold::lock::LeaseId;

#[derive(Debug, Default)]
pub(crate) struct Moved {
    /// The tokens that were granted under each lease.
    granted: BTreeMap<LeaseId, BTreeSet<u64>>,
    /// By the lease and the sidecar: those that were granted before a clock of the sidecar showed the pause,
    /// if one has.
    leases: BTreeMap<(LeaseId, usize), Option<BTreeSet<u64>>>,
}

impl Moved {
    pub(crate) fn granted(&mut self, lease: LeaseId, token: u64) {
        self.granted.entry(lease).or_default().insert(token);
    }

    pub(crate) fn stood_still(&mut self, sidecar: usize, leases: Vec<LeaseId>) {
        self.leases.extend(leases.into_iter().map(|lease| ((lease, sidecar), None)));
    }

    /// A clock of the sidecar shows the pause from now on.
    pub(crate) fn shows(&mut self, sidecar: usize) {
        for ((lease, at), before) in &mut self.leases {
            if *at == sidecar && before.is_none() {
                *before = Some(self.granted.get(lease).cloned().unwrap_or_default());
            }
        }
    }

    fn of(&self, lease: LeaseId) -> impl Iterator<Item = &Option<BTreeSet<u64>>> {
        self.leases.range((lease, 0)..=(lease, usize::MAX)).map(|(_, before)| before)
    }

    pub(crate) fn may_have_ended(&self, lease: LeaseId) -> bool {
        self.of(lease).next().is_some()
    }

    pub(crate) fn excuses(&self, lease: LeaseId, token: u64) -> bool {
        self.of(lease).any(|before| before.as_ref().is_none_or(|before| before.contains(&token)))
    }
}
