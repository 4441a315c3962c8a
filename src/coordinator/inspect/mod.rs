//! What is shown of locks: one, many, and as they change. Nothing here changes a lock.

pub(super) mod local;
pub(super) mod records;
pub(super) mod watch_many;
