//! Test support that a store or harness of another project can use too: the suite that every store keeps,
//! stores that fail or count by a seed, a clock to set, clocks that a file moves, and what stands in for
//! Azure.
//!
//! Rules: S3 (all time is injected). May import: time, lock, record, store, tokio's paused clock; none of
//! them knows this module but in tests. To add: a file here; what one module alone needs belongs in that
//! module's tests.

mod azurite;
mod clock;
pub mod conformance;
mod counting;
mod faulty;
mod moved_clock;
mod older;
mod random;
mod scripted_http;
mod trace;

pub use crate::store::azure::{Asked, Carried, Wire};
pub use azurite::{Azurite, AzuriteError};
pub use clock::SimClock;
pub use counting::{CountingStore, Counts};
pub use faulty::{Fault, FaultPlan, FaultyStore};
pub use moved_clock::MovedClock;
pub use older::{OLDER_VARIABLE, older_revision};
pub use random::SeededRandom;
pub use scripted_http::{Reply, ScriptedHttp};
pub use trace::{HAND_OFFS, Monitor, Rejected, TraceEvent, Traced, accepts};
