//! The real binary against a real sidecar, as users run it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test that cannot go on says so by panicking"
)]

mod azure;
mod bench;
mod beside;
mod checkpoint;
mod doctor;
mod every;
mod gc;
mod import;
mod install;
mod json;
mod locks;
mod occurrence;
mod patience;
mod probe;
mod reach;
mod rig;
mod run;
mod run_children;
mod run_loss;
mod sas;
mod schedule;
mod script;
mod serve;
mod sharing;
mod stalled;
mod terminal;
mod traces;
mod usage;
