//! What stands beside a lock, in its metadata: its holder, the checkpoint, labels, and the terms of a share.
//! Values only: read, write, compare; no IO, no clock, no randomness.
//!
//! Rules: S5 (the token of a record), S23 and S26 (checkpoints), S33 and S34 (priorities and shares), S36.
//! May import: lock, text, time's moments. To add a field: [`Record`], its name in `fields.rs` with a place
//! in `RECORD_FIELDS`, and both ways between it and [`Fields`]; what others write beside it is kept. What a
//! caller asks for is filled in by `coordinator/api/admission.rs`. To show it to others: `LockRecord` in
//! `proto/leasehold/v1/lock.proto`, `record` in `grpc/lease/to_proto.rs`, the clients, and `view/lock.rs`.

mod checkpoint;
mod fields;
mod labels;
mod sharing;
mod verdict;

pub use checkpoint::{Checkpoint, CheckpointTooLong, CheckpointValue, MAX_CHECKPOINT_BYTES};
pub(crate) use checkpoint::{checkpoint_version_of, has_checkpoint};
pub use fields::{ETag, Fields, HOLDER_FIELD, Record};
pub(crate) use fields::{
    FUNCTION_INSTANCE, RECORD_FIELDS, generation_of, held_by_stranger, is_handed_on, sharing_of,
    show_holder, token_of,
};
pub use labels::{Labels, LabelsError};
pub use sharing::{Priority, PriorityError, Reserved, ShareName, ShareNameError, Sharing};
pub use verdict::{Found, Verdict};
