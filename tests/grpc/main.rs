//! The API as any client meets it: every rpc, every outcome, every code, over the service's own wire.

mod errors;
mod health;
mod holds;
mod limits;
mod listeners;
mod locks;
mod rig;
mod streams;
