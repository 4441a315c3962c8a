//! Test support that somebody's own store or harness can use too: a clock to set, and randomness from a seed.
//!
//! Rules: S3 (all time is injected). May import: time, tokio's paused clock. To add: a file here; what one room alone
//! needs belongs into that room's tests.

mod clock;
mod random;

pub use clock::SimClock;
pub use random::SeededRandom;
