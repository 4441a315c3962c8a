//! The JSON documents of locks and schedules: once, for the commands and for the page. docs/cli.md lists
//! their fields.
//!
//! Rules: S20. May import: coordinator, scheduler, grpc, lock. A document is made of what a client is told,
//! and has nothing that `grpc` does not tell. To add a field: to the message, to its answer in `grpc`, to the
//! client, here, to docs/cli.md, and to the shapes in `tests/cli/json_shapes.json`.

/// Makes a document of what a client is told: each field with its type and its value.
macro_rules! document {
    (
        $(#[$meta:meta])*
        $visible:vis struct $document:ident of $told:ident: $from:ty {
            $($(#[$doc:meta])* $shown:vis $field:ident: $kind:ty = $value:expr,)+
        }
    ) => {
        $(#[$meta])*
        $visible struct $document {
            $($(#[$doc])* $shown $field: $kind,)+
        }

        impl From<&$from> for $document {
            fn from($told: &$from) -> Self {
                Self { $($field: $value,)+ }
            }
        }
    };
}
pub(crate) use document;

mod lock;
mod schedule;

use std::time::{SystemTime, UNIX_EPOCH};

use leasehold_client::proto;
use prost::Message;

use crate::coordinator::LockRecord;
use crate::grpc;
use crate::lock::Namespace;
use crate::scheduler::ScheduleInfo;

pub(crate) use lock::{LockView, state};
pub(crate) use schedule::{ScheduleView, outcome};

impl LockView {
    /// A lock of this sidecar, as its clients see it.
    pub(crate) fn here(record: LockRecord, namespace: &Namespace) -> Self {
        let told: proto::LockRecord = received(&grpc::lock_record(record, namespace));
        Self::from(&leasehold_client::LockRecord::from(told))
    }
}

impl ScheduleView {
    /// A schedule as the clients of this sidecar see it in a list.
    pub(crate) fn here(info: ScheduleInfo, namespace: &Namespace) -> Self {
        let told: proto::Schedule = received(&grpc::listed_schedule(info, namespace));
        Self::from(&leasehold_client::Schedule::from(told))
    }
}

/// The server's message as the client's.
#[expect(clippy::expect_used, reason = "server and client are generated from one definition")]
fn received<M: Message + Default>(message: &impl Message) -> M {
    M::decode(message.encode_to_vec().as_slice()).expect("what is encoded can be decoded")
}

/// A moment of the wall clock, RFC 3339, to the second.
pub(crate) fn moment(at: Option<SystemTime>) -> Option<String> {
    let seconds = |at: &SystemTime| at.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs());
    // humantime knows the years up to 9999.
    let at = at.filter(|at| seconds(at).is_some_and(|seconds| seconds < 253_402_300_800))?;
    Some(humantime::format_rfc3339_seconds(at).to_string())
}
