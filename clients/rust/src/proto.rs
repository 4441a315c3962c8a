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
        clippy::too_many_lines,
        reason = "as above, for the server that only the tests have"
    )
)]
#![cfg_attr(
    not(feature = "unstable-wire"),
    expect(
        unreachable_pub,
        unnameable_types,
        reason = "public with the feature unstable-wire only"
    )
)]

include!("../gen/leasehold.v1.rs");

/// For the sidecar, which shows what a client is told, and for tests that ask it by stub.
#[cfg(feature = "unstable-wire")]
mod of_ours {
    impl From<crate::LeaseSpec> for super::LeaseSpec {
        fn from(spec: crate::LeaseSpec) -> Self {
            spec.into_wire()
        }
    }

    impl From<crate::LockKey> for super::LockKey {
        fn from(key: crate::LockKey) -> Self {
            key.into_wire()
        }
    }

    impl From<super::LockRecord> for crate::LockRecord {
        fn from(record: super::LockRecord) -> Self {
            Self::from_wire(record)
        }
    }

    impl From<super::Schedule> for crate::Schedule {
        fn from(schedule: super::Schedule) -> Self {
            Self::from_wire(schedule)
        }
    }
}
