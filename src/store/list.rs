//! Pages of locks.

use super::StoredLock;
use crate::lock::{Container, LockPath};

/// Asks for a page of locks.
#[derive(Clone, Debug)]
pub struct List {
    /// The container that is listed.
    pub container: Container,
    /// What the names in the container begin with.
    pub prefix: String,
    /// Where the page before ended; `None` for the first.
    pub continuation: Option<String>,
    /// Locks a page has at the most, 1 to 1,000.
    pub limit: usize,
}

/// A page of locks.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The locks, in the order of their names.
    pub locks: Vec<(LockPath, StoredLock)>,
    /// Where the next page begins; `None` at the end.
    pub continuation: Option<String>,
}
