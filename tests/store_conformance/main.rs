//! Every store against the one suite of its contract. A backend is a bench and a line here.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod azure;
mod memory;
mod processes;
mod sqlite;
mod wrapped;
