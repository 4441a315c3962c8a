//! Schedules over sidecars that share a store, on tokio's paused clock (T1 to T21).

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "tests look for the few events that they are about"
)]

mod beginnings;
mod beside;
mod beside_faults;
mod budget;
mod completing;
mod crowd;
mod deadlines;
mod dotnet;
mod ending;
mod hour;
mod hung;
mod importing;
mod limits;
mod often;
mod operators;
mod rig;
mod rolling;
mod running;
mod trouble;
