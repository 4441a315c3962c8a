//! One task a lock: what it is told, what its machines answer, whom it tells, and when it wakes.
//!
//! A caller comes by `arriving` and a command by `inbox`; `task` feeds it to the machines and carries out
//! what they answer, `notify` tells callers, `brought` decides what is written for them, `view` is what is
//! shown of the lock, `registry` knows who is where, and `shared` is what all tasks have in common. To add a
//! command: a variant of `task::Command`.

pub(super) mod approximate_set;
pub(super) mod arriving;
pub(super) mod brought;
pub(super) mod caller;
pub(super) mod failing;
pub(super) mod holder;
pub(super) mod idempotency;
pub(super) mod inbox;
pub(super) mod lock_cache;
pub(super) mod notify;
pub(super) mod registry;
pub(super) mod requests;
pub(super) mod resume_token;
pub(super) mod shared;
pub(super) mod shares;
pub(super) mod task;
pub(super) mod timers;
pub(super) mod view;
