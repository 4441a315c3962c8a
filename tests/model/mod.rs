//! An independent model of the lock, written from the rules alone and explored in full: one lock in a store,
//! two sidecars, a client that moves between them, a client that waits at each, and a network that loses,
//! repeats and delays.
//!
//! - `LEASEHOLD_TEST_MODEL_LONGER=0` explores the large worlds too, and `LEASEHOLD_TEST_MODEL_LONGER=1` all
//!   of them with leases a tick longer; `LEASEHOLD_TEST_MODEL_WORLD="moving twice"` one of them only.
//! - `LEASEHOLD_TEST_MODEL_MISTAKE=HandsOnLeft` plants one mistake only, and prints how it was found.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that fails says where")]

mod choices;
mod client;
mod explore;
mod hand_over;
mod normal;
mod operator;
mod rules;
mod run;
mod sidecar;
mod state;
mod store;
mod traces;
