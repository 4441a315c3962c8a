//! x
pub mod proto;
