//! For whom a lock is broken, and why it is not (S33, S35): values.

use crate::lock::{FencingToken, Priority};
use crate::time::UnixMillis;

/// For whom a lock is broken that is another's (S33, S35).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// The token of the grant that is broken.
    pub token: Option<FencingToken>,
    /// The caller's priority.
    pub priority: Priority,
    /// Who the caller is, for people.
    pub holder: String,
    /// Whether it is for a share's balance (S35); else the holder's priority is smaller (S33).
    pub moves: bool,
    /// When, by the store's clock.
    pub at: UnixMillis,
}

/// Why a caller with a priority waits all the same (S33).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PriorityStatus {
    /// The holder does not yield.
    HolderDoesNotYield,
    /// The holder's priority is not smaller.
    NotGreater,
    /// The caller has not waited for a lease duration, or tries once.
    WaitedTooShort,
    /// The lock was broken less than two lease durations ago.
    BrokenRecently,
    /// The holder was told, and has until its lease expires to finish.
    Revoked,
    /// The store refuses to break leases with the sidecar's credentials.
    CannotBreak,
    /// The lock is kept for a caller of greater priority.
    Reserved,
}
