//! Test support that somebody's own store or harness can use too: a clock to set, clocks that a file moves,
//! randomness from a seed, and what stands in for Azure.
//!
//! Rules: S3 (all time is injected). May import: time, lock, store (as values), tokio's paused clock. To add:
//! a file here; what one module alone needs belongs in that module's tests.

mod azurite;
mod clock;
mod moved_clock;
mod random;
mod scripted_http;
mod trace;
mod wire;

pub use azurite::{Azurite, AzuriteError};
pub use clock::SimClock;
pub use moved_clock::MovedClock;
pub use random::SeededRandom;
pub use scripted_http::{Asked, Reply, ScriptedHttp};
pub use trace::{HAND_OFFS, Monitor, Rejected, TraceEvent, Traced, accepts};
pub use wire::{Carried, Wire};
