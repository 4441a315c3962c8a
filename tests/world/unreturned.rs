//! Leases that were not given back (S6): where nothing goes wrong, only those of holds whose clients say
//! nothing.

use std::collections::BTreeSet;

use leasehold::lock::{FencingToken, LockPath};

use crate::world::lease::{End, Given};
use crate::world::service::Service;

/// Holds that are not renewed, and those that a sidecar may have for a client that says nothing, or that has
/// gone on elsewhere (S14, S16): their leases may run out.
#[derive(Debug, Default)]
pub(crate) struct Unreturned {
    /// By lock and epoch.
    holds: BTreeSet<(String, u64)>,
    /// Locks of which such a hold is not known.
    paths: BTreeSet<String>,
}

impl Unreturned {
    pub(crate) fn hold(&mut self, path: &LockPath, token: u64) {
        let epoch = FencingToken::from_u64(token).map(FencingToken::epoch);
        self.holds.extend(epoch.map(|epoch| (path.to_string(), epoch)));
    }

    pub(crate) fn path(&mut self, path: &LockPath) {
        self.paths.insert(path.to_string());
    }

    /// A lease that ran out, and was to be given back.
    pub(crate) fn wrong<'a>(&self, service: &'a Service) -> Option<&'a Given> {
        let may_run_out = |given: &Given| {
            let epoch = given.token.and_then(FencingToken::from_u64).map(FencingToken::epoch);
            self.paths.contains(&given.blob)
                || epoch.is_some_and(|epoch| self.holds.contains(&(given.blob.clone(), epoch)))
        };
        let ran_out = |given: &&Given| matches!(given.ended, Some((_, End::TakenOver)));
        service.leases.iter().filter(ran_out).find(|given| !may_run_out(given))
    }
}
