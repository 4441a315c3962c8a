#![doc = include_str!("../README.md")]

mod belief;
mod boot_clock;
mod client;
mod connect;
mod convert;
mod error;
#[cfg(test)]
mod fake;
mod hold;
pub mod proto;

pub use boot_clock::BootInstant;
pub use client::{Client, LockWatch, Outcome};
pub use connect::{ClientBuilder, DEFAULT_ENDPOINT, ENDPOINT_VARIABLE};
pub use error::{Error, FieldViolation, Reason, Refusal};
pub use hold::{HoldEvent, HoldGuard, Holding, Loss};
pub use proto::{LeaseSpec, LockKey, LockSelector};
pub use tonic::Code;
