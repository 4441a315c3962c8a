//! Leasehold.
pub mod admin;
pub mod cli;
pub mod config;
pub mod coordinator;
pub mod grpc;
pub mod hold;
pub mod host_id;
pub mod lock;
pub mod store;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;
