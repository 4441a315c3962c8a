//! One task a lock: what it is told, what its machines answer, whom it tells, and when it wakes.
//!
//! A command comes by `inbox`, `task` feeds it to the machines and carries out what they answer, `notify`
//! tells callers, `brought` decides what is written for them, `registry` knows who is where. To add a
//! command: a variant of `task::Command`.

pub(super) mod approximate_set;
pub(super) mod brought;
pub(super) mod caller;
pub(super) mod failing;
pub(super) mod idempotency;
pub(super) mod inbox;
pub(super) mod lock_cache;
pub(super) mod notify;
pub(super) mod permits;
pub(super) mod registry;
pub(super) mod requests;
pub(super) mod shares;
pub(super) mod task;
pub(super) mod timers;
