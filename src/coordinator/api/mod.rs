//! What callers ask of the coordinator, and what they are answered: how a call comes in, is checked, and gets
//! to its lock's task.
//!
//! To add a call: its request and answer in `request.rs`, why it is refused in `error.rs`, and a method of
//! [`Coordinator`](super::Coordinator) in the file of its subject.
//!
//! To add a field of what AcquireLease may ask for: `HoldRequest` in `request.rs`, whose `new` says what
//! applies where a caller names nothing; and `Terms` in `hold/event.rs`. Terms are made three times: twice in
//! `admission.rs`, and by `checked` in `resume_token.rs`, from the token's `Content`. What is only shown is
//! no term but a part of their `Record`, and no part of the token: a resume reads it from what is stored. A
//! field that changes what its caller gets needs a `REVISION` (`revision.rs`) that is one more than before
//! (S37), and so does a token where that field is set. There is no code for such tokens yet: `NEEDS` is one
//! constant for all of them.

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
