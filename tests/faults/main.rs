//! The real binary against the storage emulator, with processes that are killed, stopped and started again.

mod azure;
mod crashes;
mod exclusion;
mod pauses;
mod process;
