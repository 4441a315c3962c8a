//! Singleton locks for replicated jobs: a gRPC sidecar that keeps locks as leases of blobs, or in a file.
//!
//! The product is the program `leasehold`; programs talk to it by gRPC, for example with the crate
//! [`leasehold_client`]. This crate is what the program is made of. Each module may use only those above it:
//!
//! | module | what it does |
//! | --- | --- |
//! | [`text`] | what people are shown of a text that somebody else wrote |
//! | [`time`] | reads the clock; all others get the time from it |
//! | [`lock`] | names of locks: keys, lock paths, fencing tokens |
//! | [`record`] | what stands beside a lock: its holder, checkpoint, labels, terms of a share |
//! | [`host_id`] | where the host id in a lock path comes from |
//! | [`timetable`] | decides: when a schedule is due, without IO |
//! | [`schedule`] | decides: what runs of a schedule, and when, without IO |
//! | [`hold`] | decides: the state machine of one lock path, without IO |
//! | [`sharing`] | decides: how the locks of a share are spread over sidecars, without IO |
//! | [`queue`] | decides: which callers wait for a lock, and which permit is to be had for which of them, without IO |
//! | [`store`] | keeps locks: memory, SQLite, Azure Blob Storage |
//! | `webjobs` | what is shared with hosts of .NET: the status beside their timers |
//! | [`coordinator`] | runs the state machines on a store: queues, renewals, drain |
//! | [`scheduler`] | runs schedules over the coordinator's locks |
//! | [`access`] | the rules that say who may do what |
//! | `lobby` | the places of connections, and who goes when there are too many |
//! | [`grpc`] | the gRPC server |
//! | `view` | the JSON of a lock and of a schedule, for the commands and the page |
//! | [`config`] | the settings |
//! | [`telemetry`], [`admin`] | logs, metrics, health |
//! | `testing` | for tests: the suite that every store keeps, stores that fail and count, clocks, randomness; behind the feature `testing` |
//! | [`cli`] | the program's commands, which connect the modules |
//!
//! The lock path of a job depends only on values:
//!
//! ```
//! use leasehold::host_id::{FromHostType, HostIdProvider as _};
//! use leasehold::lock::{Container, HostType, Layout, LockKey, LockMode, Namespace, Prefix};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let namespace = Namespace {
//!     container: Container::parse("leasehold")?,
//!     prefix: Prefix::parse("locks")?,
//!     layout: Layout::Readable,
//! };
//! let key = LockKey::new("Keeper.Run", "tenant-7", LockMode::Function)?;
//! let host_type = HostType::parse("Keeper-A")?;
//! let host = FromHostType::new(host_type).provide()?;
//! let path = namespace.lock_path(&host.host_id, &host.host_type, &key)?;
//! assert_eq!(
//!     path.to_string(),
//!     "leasehold/locks/739df1faf6c08e78a883736d006f2964/Keeper.Run/tenant-7/FUNCTION"
//! );
//! # Ok(())
//! # }
//! ```
pub mod access;
pub mod admin;
pub mod cli;
pub mod config;
pub mod coordinator;
pub mod grpc;
pub mod hold;
pub mod host_id;
mod lobby;
pub mod lock;
pub mod queue;
pub mod record;
pub mod schedule;
pub mod scheduler;
pub mod sharing;
pub mod store;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
pub mod text;
pub mod time;
pub mod timetable;
mod view;
mod webjobs;
