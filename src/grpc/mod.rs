//! The wire: what comes in over gRPC, and how connections are listened for. No decisions.
//!
//! Rules: S14, S15, S19, S20. May import: coordinator. To add an rpc: see `proto/leasehold/v1/lease_service.proto`.

pub mod proto;
