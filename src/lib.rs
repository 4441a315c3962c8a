//! Leasehold.
pub mod coordinator;
pub mod grpc;
pub mod hold;
pub mod lock;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;
