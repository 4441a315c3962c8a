//! What can go wrong, and how a sidecar is told from one that is too old.
//!
//! Rules: S19 (a violation names its field), S37.

mod error;
pub(crate) mod unsupported;

pub use crate::enums::Reason;
pub use error::{Error, FieldViolation, Refusal};
pub(crate) use error::{is_below_needs, is_of_connection};
