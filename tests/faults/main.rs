//! The real binary against the storage emulator, with processes that are killed, stopped and started again.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::wildcard_enum_match_arm,
    clippy::print_stdout,
    reason = "a test that fails says where"
)]

mod azure;
mod crashes;
mod exclusion;
mod pauses;
mod process;
mod secrets;
