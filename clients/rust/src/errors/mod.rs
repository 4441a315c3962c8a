//! What can go wrong, and whether a sidecar has understood what was asked for.
//!
//! Rules: S19 (a violation names its field), S37.

mod error;
pub(crate) mod understood;

pub use crate::enums::Reason;
pub(crate) use error::is_of_connection;
pub use error::{Error, FieldViolation, Refusal};
