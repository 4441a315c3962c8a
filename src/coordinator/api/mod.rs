//! What callers ask of the coordinator, and what they are answered: how a call comes in, is checked, and gets
//! to its lock's task.
//!
//! To add a call: its request and answer in `request.rs`, why it is refused in `error.rs`, and a method of
//! [`Coordinator`](super::Coordinator) in the file of its subject.

pub(super) mod admission;
pub(super) mod breaking;
pub(super) mod decider;
pub(super) mod drain;
pub(super) mod error;
pub(super) mod hold_event;
pub(super) mod holder_calls;
pub(super) mod occurrences;
pub(super) mod request;
pub(super) mod resolve;
pub(super) mod resume_token;
pub(super) mod revision;
pub(super) mod saves;
