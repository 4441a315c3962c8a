//! The API as any client meets it: every rpc, every outcome, every code, over the service's own wire.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that fails says where"
)]

mod access;
mod certificates;
mod checkpoints;
mod door;
mod errors;
mod forging;
mod health;
mod holds;
mod hostile;
mod life_lines;
mod limits;
mod listeners;
mod listings;
mod locks;
mod loopholes;
mod needs;
mod occurrences;
mod permits;
mod rig;
mod schedule_rights;
mod schedules;
mod schedules_rig;
mod streams;
mod told;
mod unread;
mod visible;
mod watching;
mod workers;
