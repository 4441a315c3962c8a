//! Leases of sidecars whose machines stood still without counting it: what was granted under them before that
//! is outside S1 until it is noticed, and what is granted once a clock has shown it is not (S3).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold::hold::{Action, Holding, Request};
use leasehold::lock::LeaseId;
use leasehold::time::Instant;

/// The longest D, and what clocks differ by in it: what was told before a pause showed is over by then.
const LONGEST: Duration = Duration::from_secs(62);
/// What is under way when a pause shows has so long before it is given up, and the next is sent.
const UNDER_WAY: Duration = Duration::from_secs(6);

#[derive(Debug, Default)]
pub(crate) struct Moved {
    /// The tokens that were granted under each lease.
    granted: BTreeMap<LeaseId, BTreeSet<u64>>,
    /// By the lease and the sidecar: when a clock of the sidecar showed the pause, if one has.
    leases: BTreeMap<(LeaseId, usize), Option<Shown>>,
    /// Sidecars that have asked the store nothing since a pause showed, and when that was by their clocks.
    silent: BTreeMap<usize, Instant>,
}

#[derive(Debug)]
struct Shown {
    at: Duration,
    /// The tokens that were granted before.
    before: BTreeSet<u64>,
}

impl Moved {
    pub(crate) fn granted(&mut self, lease: LeaseId, token: u64) {
        self.granted.entry(lease).or_default().insert(token);
    }

    pub(crate) fn stood_still(&mut self, sidecar: usize, leases: Vec<LeaseId>) {
        self.leases.extend(leases.into_iter().map(|lease| ((lease, sidecar), None)));
    }

    /// A clock of the sidecar shows the pause from now on.
    pub(crate) fn shows(&mut self, sidecar: usize, now: Duration, local: Instant) {
        self.silent.insert(sidecar, local);
        for ((lease, at), shown) in &mut self.leases {
            if *at == sidecar && shown.is_none() {
                let before = self.granted.get(lease).cloned().unwrap_or_default();
                *shown = Some(Shown { at: now, before });
            }
        }
    }

    pub(crate) fn sent(&mut self, sidecar: usize, action: &Action) {
        if let Action::Store {
            what: Request::Renew { .. } | Request::Write { .. } | Request::Look { .. },
            ..
        } = action
        {
            self.silent.remove(&sidecar);
        }
    }

    pub(crate) fn restarted(&mut self, sidecar: usize) {
        self.silent.remove(&sidecar);
    }

    /// S3: the store is asked about whatever was held when the pause showed, within D/30.
    pub(crate) fn settled(
        &mut self,
        sidecar: usize,
        holding: Option<&Holding>,
        local: Instant,
    ) -> Result<(), String> {
        let Some(shown) = self.silent.get(&sidecar).copied() else { return Ok(()) };
        let Some(held) = holding.filter(|held| held.active && held.granted_at <= shown) else {
            self.silent.remove(&sidecar);
            return Ok(());
        };
        match local > shown + held.lease_duration / 30 + UNDER_WAY {
            true => Err(format!("S3: sidecar {sidecar} does not ask about {:?}", held.caller)),
            false => Ok(()),
        }
    }

    fn of(&self, lease: LeaseId) -> impl Iterator<Item = &Option<Shown>> {
        self.leases.range((lease, 0)..=(lease, usize::MAX)).map(|(_, shown)| shown)
    }

    pub(crate) fn may_have_ended(&self, lease: LeaseId) -> bool {
        self.of(lease).next().is_some()
    }

    pub(crate) fn excuses(&self, lease: LeaseId, token: u64, now: Duration) -> bool {
        self.of(lease).any(|shown| {
            shown
                .as_ref()
                .is_none_or(|shown| shown.before.contains(&token) && now < shown.at + LONGEST)
        })
    }
}
