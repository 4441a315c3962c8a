//! What a sidecar is set to, and where its locks are: from what a caller asks for to the lock's path.

use std::sync::Arc;
use std::time::Duration;

use super::call::{CallError, KeyRequest, LockSelector, Target, Under};
use crate::lock::{HostId, HostType, LockPath, Namespace, Permit};

/// The settings of the coordinator.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The host that it serves, and where its locks are.
    pub host: Host,
    /// The settings of every machine.
    pub hold: crate::hold::Settings,
    /// The lease duration for callers that give none.
    pub lease_duration: Duration,
    /// `max_hold` for unary calls that give none (S14).
    pub max_hold_default: Duration,
    /// The holder's name for callers that give none.
    pub holder: String,
    /// This sidecar's name in records: no other process has the same (S34).
    pub sidecar: Arc<str>,
    /// The number of holds at which further callers are refused; callers that already wait may still be
    /// granted a lock.
    pub max_holds: usize,
    /// The greatest number of waiting callers and subscribers of schedules, together (S38).
    pub max_waiters: usize,
    /// How many holds there may be beside those, if they are resumed here (S38).
    pub max_resumes: usize,
    /// The greatest number of locks that are remembered while nobody uses them.
    pub remembered_locks: usize,
    /// Bytes of the records that are kept for watches of many locks, all together (S38).
    pub followed_bytes: usize,
    /// How many runs of schedules are started in a second at the most (T13).
    pub starts_per_second: usize,
    /// Whether locks may be broken through this sidecar (S17).
    pub allow_break: bool,
    /// Whether schedules may be paused, resumed and run by hand through this sidecar (T18).
    pub allow_schedule_changes: bool,
    /// Which requests are served: [`REVISION`](super::REVISION), unless a test says otherwise (S37).
    pub revision: u32,
    /// Whether WebJobs hosts are shown who holds a lock: in their layout.
    pub function_instance: bool,
}

/// The host that this sidecar serves, and where its locks are.
#[derive(Clone, Debug)]
pub struct Host {
    /// Where locks are.
    pub namespace: Namespace,
    /// The host id, from the configured provider.
    pub host_id: HostId,
    /// The host type, stored with each lock.
    pub host_type: HostType,
    /// The provider's name, for people.
    pub provider: String,
    /// Whether requests may override the host id.
    pub allow_override: bool,
    /// The host id of another host type, by the configured provider's rule.
    pub host_id_of: fn(&HostType) -> HostId,
}

impl Host {
    /// Where the lock of this key is; acquires nothing.
    ///
    /// # Errors
    /// When the key has no path in the layout, or overrides are forbidden.
    pub fn resolve(&self, request: &KeyRequest) -> Result<Target, CallError> {
        let overridden = request.host_id.is_some() || request.host_type.is_some();
        if overridden && !self.allow_override {
            return Err(CallError::OverrideForbidden);
        }
        let host_type = request.host_type.clone().unwrap_or_else(|| self.host_type.clone());
        let host_id = match (&request.host_id, &request.host_type) {
            (Some(host_id), _) => host_id.clone(),
            (None, Some(host_type)) => (self.host_id_of)(host_type),
            (None, None) => self.host_id.clone(),
        };
        let path = self.namespace.lock_path(&host_id, &host_type, &request.key)?;
        Ok(Target { path, host_id, host_type, key: request.key.clone() })
    }

    /// What follows the sidecar's namespace in a prefix of lock paths: a host id, or the beginning of one,
    /// and perhaps the beginning of a lock's name.
    ///
    /// # Errors
    /// When the prefix is not in the namespace.
    pub fn inside<'prefix>(&self, prefix: &'prefix str) -> Result<&'prefix str, CallError> {
        self.own_prefix(prefix).map(|(_, inside)| inside)
    }

    /// The path of a selected lock, which must be in this sidecar's container.
    pub(crate) fn select(&self, selector: &LockSelector) -> Result<LockPath, CallError> {
        match selector {
            LockSelector::Key(request, permit) => {
                if *permit != Permit::FIRST {
                    self.check_permits("lock.permit")?;
                }
                Ok(self.resolve(request)?.path.permit(*permit))
            }
            LockSelector::Path(path) => self.own(path.clone()),
        }
    }

    /// S28: in the layout `webjobs` a lock has one permit.
    pub(super) fn check_permits(&self, field: &'static str) -> Result<(), CallError> {
        let layout = self.namespace.layout;
        if layout.has_permits() { Ok(()) } else { Err(CallError::NoPermits { field }) }
    }

    /// S23: software that shares the layout `webjobs` drops the fields of others.
    pub(crate) fn check_checkpoints(&self, field: &'static str) -> Result<(), CallError> {
        let layout = self.namespace.layout;
        if layout.keeps_checkpoints() { Ok(()) } else { Err(CallError::NoCheckpoints { field }) }
    }

    /// Checks whether locks can have occurrences here: software that shares the layout `webjobs` drops the
    /// fields of others.
    pub(super) fn check_occurrences(&self) -> Result<(), CallError> {
        let layout = self.namespace.layout;
        if layout.keeps_checkpoints() { Ok(()) } else { Err(CallError::NoOccurrences) }
    }

    /// This lock, if it is one of this sidecar's.
    pub(crate) fn own(&self, path: LockPath) -> Result<LockPath, CallError> {
        let namespace = &self.namespace;
        if namespace.name_of(&path).is_some() {
            return Ok(path);
        }
        let prefix = namespace.prefix.as_str();
        let container = format!("{}/{prefix}", namespace.container);
        Err(CallError::ForeignPath { path: path.to_string(), container })
    }

    /// What the names in the container begin with, of the locks there.
    pub(crate) fn prefix(&self, under: &Under) -> Result<String, CallError> {
        match under {
            Under::OwnHostId => Ok(self.namespace.host_prefix(&self.host_id)),
            Under::HostId(host_id) => Ok(self.namespace.host_prefix(host_id)),
            Under::Prefix(prefix) => Ok(self.own_prefix(prefix)?.0),
        }
    }

    /// A prefix of paths, which must lie in this sidecar's namespace: its part in the container, and what
    /// follows the namespace in it.
    fn own_prefix<'prefix>(
        &self,
        prefix: &'prefix str,
    ) -> Result<(String, &'prefix str), CallError> {
        let namespace = &self.namespace;
        let mut own = format!("{}/", namespace.container);
        let in_container = prefix.strip_prefix(&own);
        if !namespace.prefix.as_str().is_empty() {
            own.push_str(namespace.prefix.as_str());
            own.push('/');
        }
        in_container
            .zip(prefix.strip_prefix(&own))
            .map(|(in_container, inside)| (in_container.to_owned(), inside))
            .ok_or(CallError::ForeignPrefix { own })
    }
}
