//! What the calls about locks ask and answer.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::{
    BreakMode, BreakOutcome, LockRecord, LockSelector, LockState, TokenStatus, Validity, duration,
    moment,
};
use crate::proto;

/// Which locks are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LocksUnder {
    /// Those under the sidecar's own host id.
    #[default]
    OwnHostId,
    /// Those under this host id.
    HostId(String),
    /// Those whose paths begin with this text: container and slash first.
    Prefix(String),
}

/// A question for one page of locks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListLocks {
    /// Which locks are asked for.
    pub under: LocksUnder,
    /// Only those in one of these states. Default: all.
    pub states: Vec<LockState>,
    /// Only those whose record has all of these labels. Default: all.
    pub labels: BTreeMap<String, String>,
    /// Only those whose holder, or last holder, named this share. Default: empty, all.
    pub share: String,
    /// At most so many records a page: 1 to 1,000. Default: zero, the sidecar's choice.
    pub page_size: u32,
    /// From the page before; empty for the first page.
    pub page_token: String,
}

impl ListLocks {
    /// All locks there.
    #[must_use]
    pub fn under(under: LocksUnder) -> Self {
        Self { under, ..Self::default() }
    }

    /// Only those in one of these states; all if there are none.
    #[must_use]
    pub fn in_states(self, states: impl IntoIterator<Item = LockState>) -> Self {
        Self { states: states.into_iter().collect(), ..self }
    }

    /// Only those whose record has this label, and those given before.
    #[must_use]
    pub fn with_label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Only those whose holder, or last holder, named this share.
    #[must_use]
    pub fn in_share(self, share: impl Into<String>) -> Self {
        Self { share: share.into(), ..self }
    }

    /// The page that `page_token` names.
    #[must_use]
    pub fn page(self, page_token: impl Into<String>) -> Self {
        Self { page_token: page_token.into(), ..self }
    }

    pub(crate) fn into_wire(self) -> proto::ListLocksRequest {
        use proto::list_locks_request::Under;
        let under = match self.under {
            LocksUnder::OwnHostId => None,
            LocksUnder::HostId(host_id) => Some(Under::HostId(host_id)),
            LocksUnder::Prefix(prefix) => Some(Under::Prefix(prefix)),
        };
        proto::ListLocksRequest {
            under,
            states: self.states.into_iter().map(|state| state.into_wire().into()).collect(),
            page_size: self.page_size,
            page_token: self.page_token,
            labels: self.labels,
            share: self.share,
        }
    }
}

/// One page of locks.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LockPage {
    /// The locks of this page.
    pub records: Vec<LockRecord>,
    /// Names the next page; empty after the last one.
    pub next_page_token: String,
}

impl LockPage {
    pub(crate) fn from_wire(wire: proto::ListLocksResponse) -> Self {
        Self {
            records: wire.records.into_iter().map(LockRecord::from_wire).collect(),
            next_page_token: wire.next_page_token,
        }
    }
}

/// The answer to a fencing token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenCheck {
    /// What the token is.
    pub status: TokenStatus,
    /// The newest token of the lock. `None` if it was never granted.
    pub newest_fencing_token: Option<u64>,
}

impl TokenCheck {
    pub(crate) fn from_wire(wire: proto::CheckTokenResponse) -> Self {
        let status = TokenStatus::from_wire(wire.status());
        Self { status, newest_fencing_token: wire.newest_fencing_token }
    }
}

/// Ends the lease of a lock that somebody else has (S17).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BreakLock {
    /// Which lock is meant.
    pub lock: LockSelector,
    /// Why: stored with the lock, and told to the holder. Required.
    pub reason: String,
    /// When the lock is available.
    pub mode: BreakMode,
    /// Who breaks it. Default: the name of the sidecar's pod or host.
    pub broken_by: String,
    /// The token of the grant to break, as [`LockRecord::fencing_token`] has shown it. Give it always: if
    /// that grant is over by then, the call is refused with [`Reason::OtherHolder`](crate::Reason) and harms
    /// nobody. Default: the grant that the sidecar reads first.
    pub fencing_token: Option<u64>,
}

impl BreakLock {
    /// Breaks `lock` for `reason`; its lease expires first.
    #[must_use]
    pub fn new(lock: impl Into<LockSelector>, reason: impl Into<String>) -> Self {
        let (lock, reason) = (lock.into(), reason.into());
        let broken_by = String::new();
        Self { lock, reason, mode: BreakMode::RunOut, broken_by, fencing_token: None }
    }

    /// Breaks this grant only, as the record of the lock has shown it.
    #[must_use]
    pub fn with_fencing_token(self, fencing_token: u64) -> Self {
        Self { fencing_token: Some(fencing_token), ..self }
    }

    /// Says when the lock is available.
    #[must_use]
    pub fn with_mode(self, mode: BreakMode) -> Self {
        Self { mode, ..self }
    }

    /// Says who breaks it.
    #[must_use]
    pub fn with_broken_by(self, broken_by: impl Into<String>) -> Self {
        Self { broken_by: broken_by.into(), ..self }
    }

    pub(crate) fn into_wire(self) -> proto::BreakLockRequest {
        proto::BreakLockRequest {
            lock: Some(self.lock.into_wire()),
            reason: self.reason,
            mode: self.mode.into_wire().into(),
            broken_by: self.broken_by,
            fencing_token: self.fencing_token,
        }
    }
}

/// The result of a break.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BreakResult {
    /// What the break did.
    pub outcome: BreakOutcome,
    /// How long until the lock is available, if it is not yet and that is known.
    pub free_in: Option<Duration>,
    /// The lock's record afterwards.
    pub record: Option<LockRecord>,
}

impl BreakResult {
    pub(crate) fn from_wire(wire: proto::BreakLockResponse) -> Self {
        let outcome = BreakOutcome::from_wire(wire.outcome());
        Self {
            outcome,
            free_in: wire.free_in.as_ref().map(|free_in| duration(Some(free_in))),
            record: wire.record.map(LockRecord::from_wire),
        }
    }
}

/// Where the lock of a name is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResolvedPath {
    /// The lock path.
    pub lock_path: String,
    /// The host id in it.
    pub host_id: String,
    /// The host type of the sidecar, or of the key.
    pub host_type: String,
    /// The host-id provider that said so.
    pub provider: String,
    /// The layout of the path.
    pub layout: String,
}

impl ResolvedPath {
    pub(crate) fn from_wire(wire: proto::ResolvePathResponse) -> Self {
        Self {
            lock_path: wire.lock_path,
            host_id: wire.host_id,
            host_type: wire.host_type,
            provider: wire.provider,
            layout: wire.layout,
        }
    }
}

/// A hold with a new bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extension {
    /// Until when the holder may act, unless renewed.
    pub validity: Validity,
    /// When the hold ends, by the wall clock; for people.
    pub max_hold_ends_at: Option<SystemTime>,
}

impl Extension {
    pub(crate) fn from_wire(wire: &proto::ExtendLeaseResponse) -> Self {
        Self {
            validity: Validity::from_wire(&wire.validity.clone().unwrap_or_default()),
            max_hold_ends_at: moment(wire.max_hold_ends_at.as_ref()),
        }
    }
}

/// What the standard gRPC health service says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Health {
    /// It answers and can use its store.
    Serving,
    /// It answers, and cannot use its store or is shutting down.
    NotServing,
}
