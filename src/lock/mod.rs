//! What a lock is called. Values only: parse, order, display; no IO, no clock, no randomness.
//!
//! Rules: S5 (what a token is), S19 (limits of names), S33 and S34 (priorities and names of shares), S36, and
//! the whole of the paths design: equal [`LockPath`]s exclude each other, and nothing else does. May import:
//! std, uuid, sha2, base64. To add a layout: a variant of [`Layout`] and an arm in `path.rs`.

pub(crate) mod encoding;
mod host_id;
mod key;
mod lease_id;
mod path;
mod permit;
mod shown;
mod timer;
mod token;

pub use encoding::encode as header_safe;
pub use host_id::{HostId, HostIdError, HostType, HostTypeError};
pub use key::{KeyError, LockKey, LockMode, MAX_NAME_BYTES};
pub use lease_id::{LeaseFingerprint, LeaseId};
pub use path::{Container, Layout, LockPath, Namespace, PathError, Prefix};
pub use permit::{Permit, Permits, PermitsError};
pub use timer::{MAX_TIMER_STATUS_BYTES, TimerPath};
pub use token::FencingToken;

/// The greatest size of the text of a schedule's plan, which is kept beside its lock, in bytes (T3).
pub const MAX_PLAN_BYTES: usize = 16_384;
