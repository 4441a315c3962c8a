//! Leasehold.
pub mod lock;
pub mod store;
pub mod time;
