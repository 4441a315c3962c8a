//! The calls: how each is checked, and gets to its lock's task.
//!
//! To add a call: its request and answer in `call/request.rs`, why it is refused in `call/error.rs`, and a
//! method of [`Coordinator`](super::Coordinator) in the file of its subject.

pub(super) mod admission;
pub(super) mod breaking;
pub(super) mod drain;
pub(super) mod holder_calls;
