//! What `build.rs` made of `proto/leasehold/v1`: the messages, the server's trait, and the descriptor.

#![expect(
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::clone_on_ref_ptr,
    clippy::large_enum_variant,
    clippy::too_many_lines,
    unused_qualifications,
    reason = "generated code is written for every reader's lints, not for ours"
)]

tonic::include_proto!("leasehold.v1");

/// The files of the API with all they import, encoded: for server reflection.
pub const DESCRIPTOR: &[u8] = tonic::include_file_descriptor_set!("leasehold_descriptor");
