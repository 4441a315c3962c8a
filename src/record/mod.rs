//! What stands beside a lock, in its metadata: its holder, the checkpoint, labels, and the terms of a share.
//! Values only: read, write, compare; no IO, no clock, no randomness.
//!
//! Rules: S5 (the token of a record), S23 and S26 (checkpoints), S33 and S34 (priorities and shares), S36.
//! May import: lock, text, time's moments.
//!
//! To add a field: [`Record`], its name in `fields.rs` with a place in `RECORD_FIELDS`, and both ways between
//! it and [`Fields`]. A sidecar keeps the fields that it does not know, so an older one leaves a new field
//! beside the next grant: what is about one grant is written after its lease, and read by `of_grant` (S36).
//! The compiler does not ask for three more: `held_by_stranger` and `fit` in `fields.rs`, where the field is
//! of the last holder or may go from a record that is too long, and `hold/resume.rs`, where a resume takes it
//! over from the record (`remember`) or writes it anew (`next_generation`). What a caller asks for is filled
//! in by `coordinator/api/admission.rs`.
//!
//! To show it to others: `LockRecord` in `proto/leasehold/v1/lock.proto`, `record` in
//! `grpc/lease/to_proto.rs`, the clients, `lock_text` in `cli/record.rs`; and as JSON, the head of
//! `view/mod.rs`. In `coordinator/watched.rs`, where the compiler does not ask either: `shows_the_same`, by
//! which a watcher is told of a change, and `of_record`, which counts the memory of a text (S38).

mod checkpoint;
mod fields;
mod labels;
mod sharing;
mod verdict;

pub use checkpoint::{Checkpoint, CheckpointTooLong, CheckpointValue, MAX_CHECKPOINT_BYTES};
pub(crate) use checkpoint::{checkpoint_version_of, has_checkpoint};
pub use fields::{ETag, Fields, HOLDER_FIELD, Record};
pub(crate) use fields::{
    FUNCTION_INSTANCE, generation_of, held_by_stranger, is_handed_on, sharing_of, show_holder,
    token_of,
};
pub use labels::{Labels, LabelsError};
pub use sharing::{Priority, PriorityError, Reserved, ShareName, ShareNameError, Sharing};
pub use verdict::{Found, Verdict};
