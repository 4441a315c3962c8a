//! What callers ask of the coordinator, and what they are answered: values.
//!
//! To add a field of what AcquireLease may ask for: `HoldRequest` in `request.rs`, whose `new` says what
//! applies where a caller names nothing; and `Terms` in `hold/event.rs`. Terms are made three times: in
//! `api/admission.rs`, in `actor/arriving.rs`, and by `checked` in `actor/resume_token.rs`, from the token's
//! `Content`. What is only shown is no term but a part of their `Record`, and no part of the token: a resume
//! reads it from what is stored. A field that changes what its caller gets needs a `REVISION` (`revision.rs`)
//! that is one more than before (S37), and so does a token where that field is set. There is no code for such
//! tokens yet: `NEEDS` is one constant for all of them.

mod decider;
mod error;
mod hold_event;
mod request;
mod revision;

pub use error::CallError;
pub use hold_event::{HeldEvent, HoldEvent};
pub use request::{
    BreakResult, BusyAnswer, CheckpointOutcome, Concluding, Deadline, Extended, Gauges, Grant,
    HeldLock, HoldRequest, HoldState, KeyRequest, LeaseHere, LockRecord, LockSelector, LockState,
    Outcome, OutcomeResult, Released, ResumeRequest, Saved, Target, TokenStatus, TraceContext,
    Under, Validity, WAIT_WITHOUT_END,
};
pub use revision::{REVISION, check_needs};

pub(crate) use decider::{Decider, Decisions};
