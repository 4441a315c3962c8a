//! What a caller asks for.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::holder::holder_or_this;
use super::{LockKey, wire_duration};
use crate::proto;

/// The terms on which a lock is asked for. The sidecar refuses values out of their range and names the field
/// (S19).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseSpec {
    /// Which lock is asked for.
    pub key: LockKey,
    /// How long to wait while the lock is busy: at most 24 h. Default: zero, one try.
    pub wait: Duration,
    /// Waits for as long as the call lasts, whatever `wait` says: for [`Client::hold`](crate::Client::hold)
    /// only. Default: false.
    pub wait_without_end: bool,
    /// The duration of the lease in the store, which renewals restart: whole seconds, 15 s to 60 s. Default:
    /// the sidecar's, 60 s.
    pub lease_duration: Option<Duration>,
    /// How long the hold may last in all. Default: without bound for a hold, 10 min for
    /// [`Client::acquire`](crate::Client::acquire).
    pub max_hold: Option<Duration>,
    /// How long the lock stays taken at least, counted from the grant: at most 24 h. Default: zero.
    pub min_hold: Option<Duration>,
    /// The hold is lost when progress was not reported for so long: 1 s to 24 h. Default: not watched.
    pub progress_timeout: Option<Duration>,
    /// Whether the sidecar renews the lease. Default: true.
    pub auto_renew: bool,
    /// Makes [`Client::acquire`](crate::Client::acquire) repeatable: at most 128 bytes. Default: empty, every
    /// call is a new one.
    pub request_id: String,
    /// Who is asking, for people to read: at most 256 bytes. Default: this pod or host, and the process id.
    pub holder: String,
    /// Pairs for people and tools, shown in the lock's record: at most 16. Not for secrets.
    pub labels: BTreeMap<String, String>,
    /// How many callers may hold the lock at the same time: 1 to 32. Give the same number everywhere: while
    /// callers give different ones, the greatest of them limits. Each permit has fencing tokens and a
    /// checkpoint of its own. More than 1 needs a sidecar with the feature `permits`
    /// ([`Client::get_server_info`](crate::Client::get_server_info)). Default: 1.
    pub permits: u32,
    /// How important this caller is: 0 to 2^31 - 1. Callers are served by priority, then in the order of
    /// their arrival. One that has waited for a lease duration breaks a holder of smaller priority that
    /// `yields`. A number that grows with each version makes the newest version take over. Not with `permits`
    /// above 1. Default: 0. (S33)
    pub priority: u32,
    /// Whether this caller, once it holds the lock, may be broken by one of greater priority, or by one of
    /// equal priority that rebalances: [`Hold::revoked`](crate::Hold::revoked) tells it. Not with
    /// `permits` above 1. Default: false. (S33, S35)
    pub yields: bool,
    /// A group of like locks, such as all listeners of a deployment, that its sidecars spread among
    /// themselves: at most 256 bytes. Not with `permits` above 1. Default: empty, none. (S34)
    pub share: String,
    /// Whether the sidecar, while this caller waits, may take a lock of the share from one that holds at
    /// least two more, if its holder yields and has equal priority. Only with `share` and `yields`. Default:
    /// false. (S35)
    pub rebalance: bool,
    /// The occurrence that the caller is about to run, for callers with a scheduler of their own: whole
    /// seconds, at most 5 s after the store's time. It is granted until an outcome of it is recorded
    /// ([`Hold::release_with_outcome`](crate::Hold::release_with_outcome)), never after
    /// ([`Outcome::AlreadyDone`](crate::Outcome::AlreadyDone)). Not with `permits` above 1, nor with
    /// `min_hold`, nor on a lock that has a schedule. Default: none.
    pub occurrence_at: Option<SystemTime>,
    /// How often the occurrence may fail or be abandoned before that is final: 1 to 100. Default: 0, no
    /// limit.
    pub occurrence_max_attempts: u32,
}

impl From<LockKey> for LeaseSpec {
    fn from(key: LockKey) -> Self {
        Self {
            key,
            wait: Duration::ZERO,
            wait_without_end: false,
            lease_duration: None,
            max_hold: None,
            min_hold: None,
            progress_timeout: None,
            auto_renew: true,
            request_id: String::new(),
            holder: String::new(),
            labels: BTreeMap::new(),
            permits: 1,
            priority: 0,
            yields: false,
            share: String::new(),
            rebalance: false,
            occurrence_at: None,
            occurrence_max_attempts: 0,
        }
    }
}

impl LeaseSpec {
    /// Asks for a lock, by its function or by its whole key; one try, everything else by default.
    #[must_use]
    pub fn new(key: impl Into<LockKey>) -> Self {
        Self::from(key.into())
    }

    /// Waits so long while the lock is busy: at most 24 h.
    #[must_use]
    pub fn with_wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// The duration of the lease in the store: whole seconds, 15 s to 60 s.
    #[must_use]
    pub fn with_lease_duration(self, lease_duration: Duration) -> Self {
        Self { lease_duration: Some(lease_duration), ..self }
    }

    /// How long the hold may last in all.
    #[must_use]
    pub fn with_max_hold(self, max_hold: Duration) -> Self {
        Self { max_hold: Some(max_hold), ..self }
    }

    /// How long the lock stays taken at least.
    #[must_use]
    pub fn with_min_hold(self, min_hold: Duration) -> Self {
        Self { min_hold: Some(min_hold), ..self }
    }

    /// Loses the hold when progress was not reported for so long.
    #[must_use]
    pub fn with_progress_timeout(self, progress_timeout: Duration) -> Self {
        Self { progress_timeout: Some(progress_timeout), ..self }
    }

    /// Does not renew: the hold lasts one lease duration and no more.
    #[must_use]
    pub fn without_renewal(self) -> Self {
        Self { auto_renew: false, ..self }
    }

    /// Makes an acquire repeatable: a call with the id of an earlier one gives the same grant while that hold
    /// lives.
    #[must_use]
    pub fn with_request_id(self, request_id: impl Into<String>) -> Self {
        Self { request_id: request_id.into(), ..self }
    }

    /// Who is asking, for people to read.
    #[must_use]
    pub fn with_holder(self, holder: impl Into<String>) -> Self {
        Self { holder: holder.into(), ..self }
    }

    /// Shows a pair in the lock's record.
    #[must_use]
    pub fn with_label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Lets so many callers hold the lock at the same time: 1 to 32, the same number everywhere.
    #[must_use]
    pub fn with_permits(self, permits: u32) -> Self {
        Self { permits, ..self }
    }

    /// Goes before callers of smaller priority, and takes the lock over from a holder of smaller priority
    /// that yields.
    #[must_use]
    pub fn with_priority(self, priority: u32) -> Self {
        Self { priority, ..self }
    }

    /// Gives the lock up to a caller of greater priority, after a notice.
    #[must_use]
    pub fn yielding(self) -> Self {
        Self { yields: true, ..self }
    }

    /// Spreads the locks of this group over the sidecars that ask for them.
    #[must_use]
    pub fn with_share(self, share: impl Into<String>) -> Self {
        Self { share: share.into(), ..self }
    }

    /// Takes a lock of the share from a sidecar that holds at least two more. Needs a share, and yields.
    #[must_use]
    pub fn rebalancing(self) -> Self {
        Self { rebalance: true, ..self }
    }

    /// Names the occurrence that the caller is about to run.
    #[must_use]
    pub fn with_occurrence(self, at: SystemTime) -> Self {
        Self { occurrence_at: Some(at), ..self }
    }

    /// How often the occurrence may fail or be abandoned before that is final: 1 to 100.
    #[must_use]
    pub fn with_occurrence_max_attempts(self, attempts: u32) -> Self {
        Self { occurrence_max_attempts: attempts, ..self }
    }

    pub(crate) fn into_wire(self) -> proto::LeaseSpec {
        proto::LeaseSpec {
            key: Some(self.key.into_wire()),
            lease_duration: self.lease_duration.map(wire_duration),
            wait: (!self.wait_without_end).then(|| wire_duration(self.wait)),
            max_hold: self.max_hold.map(wire_duration),
            min_hold: self.min_hold.map(wire_duration),
            progress_timeout: self.progress_timeout.map(wire_duration),
            auto_renew: Some(self.auto_renew),
            request_id: self.request_id,
            holder: holder_or_this(&self.holder),
            labels: self.labels,
            wait_without_end: self.wait_without_end,
            permits: Some(self.permits),
            priority: self.priority,
            yields: self.yields,
            share: self.share,
            rebalance: self.rebalance,
            occurrence_at: self.occurrence_at.map(prost_types::Timestamp::from),
            occurrence_max_attempts: self.occurrence_max_attempts,
        }
    }
}
