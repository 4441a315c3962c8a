//! The wire: what comes in over gRPC, and how connections are listened for. No decisions, but whether the end
//! of a stream is its client's own word (`life_line.rs`).
//!
//! Rules: S14 (what the end of a stream shows), S15, S19 (the only place that rejects input), S20. May
//! import: coordinator, scheduler, access, lobby, text, and the values of lock, record, schedule, time and
//! timetable that it speaks in. To add an rpc: write it in `proto/leasehold/v1/lease_service.proto`, then a
//! method in `service.rs`, its checks in `from_proto.rs` and `violations.rs`, the right that it asks for in
//! `permission.rs`, which finds whose lock it is (`crate::access` decides), its answer in `to_proto.rs`; a
//! new error gets its code and reason in `status.rs`. Those of ScheduleService have the same files in
//! `schedule/`.

mod accept;
mod caller;
mod certificates;
mod codec;
mod connection;
mod deadline;
mod from_proto;
mod guard;
mod health;
mod held;
mod life_line;
mod life_stream;
mod listen;
mod occurrence;
mod only_grpc;
mod permission;
pub mod proto;
mod reflection;
mod refusals;
mod schedule;
mod server;
mod server_info;
mod service;
mod serving;
mod status;
mod streams;
mod subject;
mod tls;
mod to_proto;
mod tokens;
mod trace;
mod unfinished;
mod unread;
mod violations;
mod workers;

pub use crate::lobby::Connections;
pub use certificates::{RELOAD_INTERVAL, check_certificates};
pub use from_proto::Limits;
pub use guard::AccessRules;
pub use listen::ListenError;
pub(crate) use schedule::listed as listed_schedule;
pub use server::{
    MAX_MESSAGE_BYTES, Server, Settings, TcpSettings, Tls, UnixSettings, in_process, pipes,
};
pub use serving::ServeError;
pub(crate) use to_proto::record as lock_record;
pub use workers::Workers;
