//! What must be true at every moment, told from what clients were told and what the store did.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold::hold::{CallerId, Granted};
use leasehold::lock::{FencingToken, LeaseId, Permit, Permits};

/// A client's hold, in its own eyes.
#[derive(Clone, Debug)]
pub(crate) struct Belief {
    permit: Permit,
    permits: Permits,
    until: Duration,
}

/// A caller that was not answered yet.
#[derive(Clone, Debug)]
struct Waiting {
    permits: Permits,
    since: Duration,
    deadline: Duration,
    /// How often it was told that it waits, and when it was told last or came.
    told: u32,
    heard: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Checks {
    beliefs: BTreeMap<CallerId, Belief>,
    waiting: BTreeMap<CallerId, Waiting>,
    tokens: BTreeMap<Permit, FencingToken>,
    /// Leases that a sidecar knows that it was given, without a grant or a release yet.
    unused: BTreeMap<LeaseId, Duration>,
    /// Leases that were granted or given back.
    released: BTreeSet<LeaseId>,
    /// Who leaves at this moment.
    leaving: Option<CallerId>,
    pub(crate) violation: Option<String>,
}

/// By how much an answer may be late: the longest that a sidecar is busy with a request.
const LATE: Duration = Duration::from_secs(30);
/// How often all who wait are told so again (S31), and what callers are promised.
const REPEAT: Duration = Duration::from_secs(25);
const PROMISE: Duration = Duration::from_secs(30);
/// For how long a lease of 15 s may be had without a grant or a release: until its validity is over.
const UNUSED: Duration = Duration::from_millis(14_500);

impl Checks {
    fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    pub(crate) fn arrived(
        &mut self,
        caller: CallerId,
        permits: Permits,
        (since, deadline): (Duration, Duration),
    ) {
        let waiting = Waiting { permits, since, deadline, told: 0, heard: since };
        self.waiting.insert(caller, waiting);
    }

    pub(crate) fn waits(&self, caller: CallerId) -> bool {
        self.waiting.contains_key(&caller)
    }

    /// The caller was told that it waits: once, and then with all others each 25 s (S31).
    pub(crate) fn told_to_wait(&mut self, caller: CallerId, now: Duration) {
        let Some(waiting) = self.waiting.get_mut(&caller) else {
            return self.violate(format!("S31: {caller:?} was told to wait, and did not wait"));
        };
        waiting.told += 1;
        waiting.heard = now;
        let most = 2 + (now - waiting.since).as_secs() / REPEAT.as_secs();
        if u64::from(waiting.told) > most {
            let what = format!("S31: {caller:?} was told too often that it waits: {waiting:?}");
            self.violate(what);
        }
    }

    /// The caller was told why it gets nothing, or has gone.
    pub(crate) fn answered(&mut self, caller: CallerId) {
        // What is over by the very moment at which it leaves is told before that is taken.
        let leaves = self.leaving.take_if(|leaving| *leaving == caller).is_some();
        if self.waiting.remove(&caller).is_none() && !self.beliefs.contains_key(&caller) && !leaves
        {
            self.violate(format!("S12: {caller:?} was answered, and did not wait"));
        }
    }

    pub(crate) fn leaves(&mut self, caller: CallerId) {
        self.waiting.remove(&caller);
        self.leaving = Some(caller);
    }

    pub(crate) fn left(&mut self) {
        self.leaving = None;
    }

    pub(crate) fn granted(
        &mut self,
        caller: CallerId,
        permit: Permit,
        grant: &Granted,
        now: Duration,
    ) {
        self.unused.remove(&grant.lease_id);
        self.released.insert(grant.lease_id);
        let Some(Waiting { permits, .. }) = self.waiting.remove(&caller) else {
            return self.violate(format!("S32: {caller:?} was granted {permit}, and did not wait"));
        };
        if !permits.contains(permit) {
            self.violate(format!("S28: {caller:?} named {permits} and was granted {permit}"));
        }
        let former = self.tokens.insert(permit, grant.token);
        if former.is_some_and(|former| former >= grant.token) {
            self.violate(format!("S5: {} after {former:?} at {permit}", grant.token));
        }
        let until = grant.valid_until.since_boot();
        self.forget_ended(now);
        let beside = self.beliefs.iter().find(|(_, belief)| belief.permit == permit);
        if let Some((other, _)) = beside {
            let what = format!("S1: {caller:?} believes beside {other:?} at permit {permit}");
            self.violate(what);
        }
        self.beliefs.insert(caller, Belief { permit, permits, until });
        let most = self.beliefs.values().map(|belief| belief.permits.get()).max();
        if self.beliefs.len() > usize::from(most.unwrap_or(1)) {
            self.violate(format!("S29: {} believe, of {most:?}", self.beliefs.len()));
        }
    }

    fn forget_ended(&mut self, now: Duration) {
        self.beliefs.retain(|_, belief| now < belief.until);
    }

    pub(crate) fn renewed(&mut self, caller: CallerId, until: Duration) {
        if let Some(belief) = self.beliefs.get_mut(&caller) {
            belief.until = until;
        }
    }

    /// Its belief has ended, by its own word or by what it was told.
    pub(crate) fn ended(&mut self, caller: CallerId) {
        self.beliefs.remove(&caller);
    }

    /// A sidecar is told that it has a lease.
    pub(crate) fn acquired(&mut self, lease_id: LeaseId, now: Duration) {
        if !self.released.contains(&lease_id) {
            // One whose answer was lost is asked for again, and counts from then.
            self.unused.insert(lease_id, now);
        }
    }

    pub(crate) fn is_unused(&self, lease_id: LeaseId) -> bool {
        self.unused.contains_key(&lease_id)
    }

    /// A lease is given back.
    pub(crate) fn releases(&mut self, lease_id: LeaseId) {
        self.unused.remove(&lease_id);
        self.released.insert(lease_id);
    }

    /// A sidecar and all that it knew are gone.
    pub(crate) fn crashed(&mut self, callers: &[CallerId], lease_ids: impl Fn(LeaseId) -> bool) {
        for caller in callers {
            self.waiting.remove(caller);
        }
        self.unused.retain(|lease_id, _| !lease_ids(*lease_id));
    }

    /// Looked at whenever time has passed.
    pub(crate) fn look(&mut self, now: Duration) {
        let late = self.waiting.iter().find(|(_, waiting)| waiting.deadline + LATE < now);
        if let Some((caller, waiting)) = late {
            let what = format!("S12: {caller:?} was not answered: {waiting:?}");
            self.violate(what);
        }
        let silent = self.waiting.iter().find(|(_, waiting)| {
            waiting.deadline > waiting.since && waiting.heard + PROMISE < now.min(waiting.deadline)
        });
        if let Some((caller, waiting)) = silent {
            let what = format!("S31: {caller:?} waits and hears nothing: {waiting:?}");
            self.violate(what);
        }
        let kept = self.unused.iter().find(|(_, since)| **since + UNUSED < now);
        if let Some((lease_id, _)) = kept {
            let what =
                format!("S6, S32: {} was acquired for nobody, and kept", lease_id.fingerprint());
            self.violate(what);
        }
    }
}
