//! Leasehold.
pub mod grpc;
pub mod lock;
pub mod store;
pub mod time;
