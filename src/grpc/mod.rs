//! The wire: what comes in over gRPC, and how connections are listened for. No decisions, but whether the end
//! of a stream is its client's own word (`serve/life_line.rs`).
//!
//! Rules: S14 (what the end of a stream shows), S15, S19 (the only place that rejects input), S20. May
//! import: coordinator, scheduler, access, lobby, text, and the values of lock, record, schedule, time and
//! timetable that it speaks in.
//!
//! | folder | what is in it |
//! | --- | --- |
//! | `serve` | addresses, connections and what they may cost; knows no call |
//! | `auth` | who calls, and what that caller may do |
//! | `lease` | the calls of LeaseService, from proto and back |
//! | `schedule` | those of ScheduleService, over the same |
//!
//! Beside them stand what both services have (`service.rs`), their errors (`status.rs`, `violations.rs`), and
//! the server that puts all together. To add an rpc: write it in `proto/leasehold/v1/lease_service.proto`,
//! then a method in `lease/calls.rs`, its checks in `lease/from_proto.rs` and `violations.rs`, the right that
//! it asks for in `auth/permission.rs`, which finds whose lock it is (`crate::access` decides), its answer in
//! `lease/to_proto.rs`; a new error gets its code and reason in `status.rs`. ScheduleService has its methods
//! in `schedule/mod.rs`, and `from_proto.rs` and `to_proto.rs` beside it.

mod auth;
mod codec;
mod health;
mod lease;
pub mod proto;
mod reflection;
mod schedule;
mod serve;
mod server;
mod service;
mod status;
mod trace;
mod violations;

pub use crate::lobby::Connections;
pub use auth::guard::AccessRules;
pub(crate) use lease::to_proto::record as lock_record;
pub(crate) use schedule::listed as listed_schedule;
pub use serve::certificates::{RELOAD_INTERVAL, Tls, check_certificates};
pub use serve::listen::ListenError;
pub use serve::serving::ServeError;
pub use serve::workers::Workers;
pub use server::{
    MAX_MESSAGE_BYTES, Server, Settings, TcpSettings, UnixSettings, in_process, pipes,
};
pub use service::Limits;
