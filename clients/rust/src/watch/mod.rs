//! Locks as they change: one, or many in one stream.

mod lock;
mod locks;

pub use lock::LockWatch;
pub use locks::{LocksEvent, LocksWatch, WatchLocks};
