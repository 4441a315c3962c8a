//! What a schedule does next: one run of each occurrence, whichever replica.
//!
//! Rules: T1 to T13, T16 to T18, T20 to T22. May import: record, lock, time, timetable. Pure: no clock, no
//! IO, no randomness; whoever calls gives the store's time and chooses the shares that spread requests. To
//! add a policy: a field of [`Spec`], its check in `definition.rs`, and its effect: in `machine/due.rs` if it
//! decides what runs, in `machine/telling.rs` if a run is told it, in `scheduler/poll.rs` if it is one of the
//! run's hold. The way from its caller to here is in CONTRIBUTING.md.
//!
//! What runs, and what is missed, is decided in `machine/due.rs`. Skipped is what is made final without a
//! run; missed, what was skipped and not by a pause (T9, T18). What operators see counted of that is
//! [`Tally`].
//!
//! Two things are stored (T3). The [`Plan`] says what anybody may say at any time, and is written without the
//! lease. The [`ScheduleRecord`] says what runs decided, and is written with the token under the lease. In
//! which order to call what:
//!
//! 1. a subscriber comes: [`Plan::subscribed`], and write the plan that it returns, if it returns one;
//! 2. at each look: [`look`] over what was read. [`Decision::Wait`] says how long nothing can be due;
//! 3. [`Decision::Run`] and [`Decision::Settle`]: acquire the lease with If-Match on the record that was
//!    looked at, then ask [`start_over`] (which is [`start`], over a lock's fields), with the plan as it is
//!    now and the token of the acquisition. Write the fields that it returns with the token, in one write;
//!    only then grant the run (T6);
//! 4. when the run ends, or somebody completes it later: [`RunReport`], and write the fields that it returns.
//!
//! Callers that name occurrences of their own have no plan: [`claim_over`], and [`conclude_over`] (T1).

mod codec;
mod definition;
mod import;
mod key;
mod looking;
mod machine;
mod occurrence;
mod plan;
mod record;
mod run_id;
mod shared_status;
mod tally;
mod timer_status;
mod verdict;

pub use definition::{CatchUp, Definition, DefinitionError, Overlap, RunTimeout, Spec};
pub use import::{TakeOver, TakeOverError};
pub use key::{MAX_KEY_BYTES, check_key};
pub use looking::{Fraction, after_busy, until_due};
pub use machine::{
    Decision, Lease, Look, Newest, Report, Reported, Started, Told, View, look, next_due, report,
    resumed, start, starting, waited_for,
};
pub use occurrence::{
    Claimed, Concluded, Occurrence, claim, conclude, is_of_occurrences, withdraw,
};
pub use plan::{
    ByHandRequest, Intervention, MAX_PLAN_BYTES, MAX_REASON_BYTES, MAX_REQUEST_ID_BYTES,
    MAX_REQUESTS, Plan, PlanError, PlanVersion, Subscribed, Subscription, Triggered, is_request_id,
};
pub use record::{
    Attempts, Ended, MAX_RECORD_BYTES, Occasion, Outcome, RecordError, Run, ScheduleRecord,
};
pub use run_id::{RunId, RunIdError};
pub use shared_status::SharedStatus;
pub use tally::Tally;
pub use timer_status::{MAX_STATUS_BYTES, TimerStatus, TimerStatusError};
pub use verdict::{
    Beside, CannotImport, DecisionInput, FOR_THE_WRITE, Import, ReportDecided, RunEnded, RunReport,
    Start, Starting, claim_over, conclude_over, start_over, withdraw_over,
};
