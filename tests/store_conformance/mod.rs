//! Every store against the one suite of its contract. A backend is a bench and a line here.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it knows"
)]

mod azure;
mod memory;
mod processes;
mod recordings;
mod sqlite;
mod wrapped;
