//! Who calls, and what that caller may do. Uses `serve` for what a connection shows of its client.

pub(super) mod caller;
pub(super) mod guard;
pub(super) mod permission;
pub(super) mod tokens;
