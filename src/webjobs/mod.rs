//! What is shared with WebJobs and Azure Functions hosts of .NET: the status beside their timers, and the
//! field in which they look for who holds a lock (T22).
//!
//! A [`SharedStore`] stands between whoever writes records and the store: what goes with a write of a record
//! is written there, for every lock, whoever asks for it. Rules: T22, S6 (what proves a lease). May import:
//! store, schedule, record, lock, time, timetable. To add what else those hosts look at: here, at the write
//! that it goes with.

mod store;
mod timer;

pub(crate) use store::SharedStore;
pub(crate) use timer::{Decides, DotnetTimer, DotnetTimers, KnownStatus};
