//! The machine of schedules: its rules one by one, what is stored, and a simulator with planted bugs.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]
#![expect(clippy::indexing_slicing, reason = "a test that fails says where")]

mod checks;
mod definitions;
mod endings;
mod imports;
mod looks;
mod mended;
mod occurrences;
mod planted;
pub(crate) mod rig;
mod rules;
mod sidecar;
mod simulation;
mod store;
mod stored;
mod world;
