//! One task a lock: what it is told, what its machines answer, whom it tells, and when it wakes.
//!
//! A caller comes by `arriving`, with what is decided of what it brings, and a command or an answer by
//! `inbox`; `task` feeds it to the machines and carries out what they answer, `notify` tells callers, `view`
//! is what is shown of the lock, and `shared` is what all tasks have in common, and who is where. To add a
//! command: a variant of `task::Command`.

pub(super) mod arriving;
pub(super) mod caller;
pub(super) mod holder;
pub(super) mod inbox;
pub(super) mod lock_cache;
pub(super) mod notify;
pub(super) mod resume_token;
pub(super) mod shared;
pub(super) mod shares;
pub(super) mod task;
pub(super) mod timers;
pub(super) mod view;
