//! What a lock is called.

use super::LockMode;
use crate::proto;

/// The name of a lock. With the host id it gives the lock path; two callers exclude each other exactly when
/// their lock paths are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LockKey {
    /// What the lock is for: a job, a function, a resource. At most 1,024 bytes, no invisible characters. May
    /// be empty if `scope` is not.
    pub function: String,
    /// The part that splits a function's lock: a tenant, an order, a shard. At most 1,024 bytes. May be empty
    /// if `function` is not.
    pub scope: String,
    /// What kind of lock it is. Default: a function's.
    pub mode: LockMode,
    /// Overrides the sidecar's host id, where its operator allows that.
    pub host_id: Option<String>,
    /// Overrides the sidecar's host type, where its operator allows that.
    pub host_type: Option<String>,
}

impl LockKey {
    /// The lock of `function`, or of its part `scope` if that is not empty.
    #[must_use]
    pub fn new(function: impl Into<String>, scope: impl Into<String>) -> Self {
        Self { function: function.into(), scope: scope.into(), ..Self::default() }
    }

    /// The same name as a listener's lock.
    #[must_use]
    pub fn listener(self) -> Self {
        Self { mode: LockMode::Listener, ..self }
    }

    /// Under this host id instead of the sidecar's.
    #[must_use]
    pub fn with_host_id(self, host_id: impl Into<String>) -> Self {
        Self { host_id: Some(host_id.into()), ..self }
    }

    /// Of this host type instead of the sidecar's.
    #[must_use]
    pub fn with_host_type(self, host_type: impl Into<String>) -> Self {
        Self { host_type: Some(host_type.into()), ..self }
    }

    pub(crate) fn into_wire(self) -> proto::LockKey {
        proto::LockKey {
            function: self.function,
            scope: self.scope,
            mode: self.mode.into_wire().into(),
            host_id: self.host_id,
            host_type: self.host_type,
        }
    }

    pub(crate) fn from_wire(wire: proto::LockKey) -> Self {
        Self {
            mode: LockMode::from_wire(wire.mode()),
            function: wire.function,
            scope: wire.scope,
            host_id: wire.host_id,
            host_type: wire.host_type,
        }
    }
}

impl From<&str> for LockKey {
    /// The lock of a function.
    fn from(function: &str) -> Self {
        Self::new(function, "")
    }
}

impl From<&String> for LockKey {
    /// The lock of a function.
    fn from(function: &String) -> Self {
        Self::new(function, "")
    }
}

impl From<String> for LockKey {
    /// The lock of a function.
    fn from(function: String) -> Self {
        Self::new(function, "")
    }
}

/// Which lock is meant, in any of the ways a caller may know it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockSelector {
    /// By its name.
    Key(LockKey),
    /// By its path: container, slash, name in the container.
    Path(String),
    /// One permit of a lock whose holders ask for several ([`LeaseSpec::permits`](crate::LeaseSpec)): 0 to
    /// 31.
    Permit(LockKey, u32),
}

impl LockSelector {
    /// The lock with this path.
    #[must_use]
    pub fn path(lock_path: impl Into<String>) -> Self {
        Self::Path(lock_path.into())
    }

    pub(crate) fn into_wire(self) -> proto::LockSelector {
        use proto::lock_selector::Lock;
        let (lock, permit) = match self {
            Self::Key(key) => (Lock::Key(key.into_wire()), 0),
            Self::Path(path) => (Lock::LockPath(path), 0),
            Self::Permit(key, permit) => (Lock::Key(key.into_wire()), permit),
        };
        proto::LockSelector { lock: Some(lock), permit }
    }
}

impl From<LockKey> for LockSelector {
    fn from(key: LockKey) -> Self {
        Self::Key(key)
    }
}
