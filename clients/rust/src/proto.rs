//! The messages as they are on the wire, generated from `proto/leasehold/v1`. `make proto` makes them anew.
#![expect(
    clippy::allow_attributes_without_reason,
    clippy::large_enum_variant,
    unused_qualifications,
    reason = "generated code is written for every reader's lints, not for ours"
)]
#![cfg_attr(
    test,
    expect(
        clippy::allow_attributes,
        clippy::clone_on_ref_ptr,
        clippy::items_after_test_module,
        clippy::too_many_lines,
        reason = "as above, for the server that only the tests have"
    )
)]

include!("../gen/leasehold.v1.rs");
