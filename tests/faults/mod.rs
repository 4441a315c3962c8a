//! The real binary against the storage emulator, with processes that are killed, stopped and started again.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    clippy::print_stdout,
    reason = "a test that fails says where"
)]

mod azure;
mod clocks;
mod counters;
mod crashes;
mod disks;
mod door;
mod exclusion;
mod forgeries;
mod gate;
mod late;
mod moving;
mod namespaces;
mod outages;
mod pauses;
mod process;
mod proxy;
mod reboots;
mod schedules;
mod secrets;
mod statistics;
mod storm;
