//! What machines ask of the store: each becomes a request, and its answer an event. At which rate, and
//! whether the store can be used (S7, S18).

pub(super) mod calls;
pub(super) mod rate_limit;
pub(super) mod readiness;
pub mod understood;
