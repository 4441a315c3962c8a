//! What is shown of locks: one, many, and as they change. Nothing here changes a lock.

pub(super) mod followed;
pub(super) mod following;
pub(super) mod here;
pub(super) mod merged;
pub(super) mod page_token;
pub(super) mod records;
