//! The real binary, against the real sidecar, as users have it.

mod doctor;
mod gc;
mod locks;
mod probe;
mod rig;
mod run;
mod run_loss;
mod script;
mod serve;
mod terminal;
mod usage;
