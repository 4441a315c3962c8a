//! The machine of schedules: its rules one by one, what is stored, and a simulator with planted bugs.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]
#![expect(clippy::panic, reason = "a test that fails says where")]

mod definitions;
mod endings;
mod looks;
mod rig;
mod rules;
mod stored;
