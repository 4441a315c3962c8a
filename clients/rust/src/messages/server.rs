//! What a sidecar says of itself.

use std::time::Duration;

use super::duration;
use crate::proto;

/// What a sidecar is. Behind an address that several sidecars share, another one may answer the next call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// The version of the program.
    pub version: String,
    /// The id of the kernel's boot; empty if there is none.
    pub boot_id: String,
    /// What it accepts at the most.
    pub limits: ServerLimits,
    /// What it can do, each a lower-case name such as `wait-without-end`.
    pub features: Vec<String>,
    /// The host id of its configured provider.
    pub host_id: String,
    /// Its host type; empty if there is none.
    pub host_type: String,
    /// How it makes lock names from keys: `readable`, `webjobs` or `hashed`.
    pub layout: String,
    /// The kind of its store: `azure`, `embedded` or `memory`.
    pub store: String,
    /// Which requests it serves: those that need this revision or a smaller one (S37).
    pub revision: u32,
}

/// What a sidecar accepts at the most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerLimits {
    /// The longest wait of a call.
    pub wait: Duration,
    /// The longest `max_hold` of an acquire and of an extension.
    pub max_hold: Duration,
    /// The `max_hold` of an acquire that gives none.
    pub default_max_hold: Duration,
    /// The lease duration of a caller that gives none.
    pub default_lease_duration: Duration,
    /// The greatest number of holds at a time.
    pub holds: u32,
    /// The greatest number of waiting callers at a time.
    pub waiters: u32,
    /// The greatest number of streams of one connection; 0 where nothing limits it.
    pub streams_per_connection: u32,
    /// The greatest number of permits of a lock.
    pub permits: u32,
    /// The greatest size of a checkpoint in bytes; 0 where there are none.
    pub checkpoint_bytes: u32,
}

impl ServerInfo {
    pub(crate) fn from_wire(wire: proto::GetServerInfoResponse) -> Self {
        let limits = wire.limits.unwrap_or_default();
        Self {
            version: wire.version,
            boot_id: wire.boot_id,
            limits: ServerLimits {
                wait: duration(limits.wait.as_ref()),
                max_hold: duration(limits.max_hold.as_ref()),
                default_max_hold: duration(limits.default_max_hold.as_ref()),
                default_lease_duration: duration(limits.default_lease_duration.as_ref()),
                holds: limits.holds,
                waiters: limits.waiters,
                streams_per_connection: limits.streams_per_connection,
                permits: limits.permits,
                checkpoint_bytes: limits.checkpoint_bytes,
            },
            features: wire.features,
            host_id: wire.host_id,
            host_type: wire.host_type,
            layout: wire.layout,
            store: wire.store,
            revision: wire.revision,
        }
    }
}
