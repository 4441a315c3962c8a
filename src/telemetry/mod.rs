//! What the sidecar says about itself: logs.
//!
//! Rules: S20 (no secrets; lease ids of the store are secrets too). May import: coordinator.
//! To add a format: a variant of [`Format`] and an arm in `logs.rs`.

mod logs;

pub use logs::{Filter, FilterError, Format, LogsError, init, subscriber};
