//! The coordinator against a store that is counted and goes wrong, on tokio's paused clock.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "tests look for the few events that they are about"
)]

pub(crate) mod breaking;
mod budget;
mod cancelling;
mod drain;
mod embedded;
mod ending;
mod failing;
mod following;
mod forgetting;
mod hand_over;
mod limits;
mod moved;
mod occurrences;
mod pacing;
mod permits;
mod readiness;
mod repeating;
mod resuming;
pub(crate) mod rig;
mod rivals;
mod saving;
mod scheduled;
mod sharing;
mod sleeping;
mod spreading;
mod telling;
mod throttling;
mod tracing;
mod unconfirmed;
mod waiting;
