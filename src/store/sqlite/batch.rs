//! Group commit: what came while the thread was busy goes to the file together, in one transaction, and waits
//! for the disk once.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::error::SqliteError;
use super::locks::Locks;
use super::session::{Access, Session};

/// Operations that one transaction takes in: its answers wait for the last of them.
pub(super) const LARGEST: usize = 256;

/// An operation with the way back of its answer.
pub(super) trait QueuedOperation: Send {
    fn access(&self) -> Access;

    /// Whether its caller is still there.
    fn is_wanted(&self) -> bool;

    /// Does it, and keeps its answer until the transaction is committed.
    ///
    /// # Errors
    /// Whatever makes the transaction not worth committing; the contract's answers are none.
    fn perform(&mut self, locks: &Locks<'_>) -> Result<(), SqliteError>;

    /// Answers what was performed, now that this became of its transaction.
    fn answer(self: Box<Self>, committed: Result<(), SqliteError>);
}

/// A [`QueuedOperation`] whose answer is a `T`.
pub(super) struct Queued<T, F> {
    access: Access,
    operation: F,
    performed: Option<Result<T, SqliteError>>,
    answer: oneshot::Sender<Result<T, SqliteError>>,
}

impl<T, F> Queued<T, F> {
    pub(super) const fn new(
        access: Access,
        operation: F,
        answer: oneshot::Sender<Result<T, SqliteError>>,
    ) -> Self {
        Self { access, operation, performed: None, answer }
    }
}

impl<T, F> QueuedOperation for Queued<T, F>
where
    T: Send,
    F: FnMut(&Locks<'_>) -> Result<T, SqliteError> + Send,
{
    fn access(&self) -> Access {
        self.access
    }

    fn is_wanted(&self) -> bool {
        !self.answer.is_closed()
    }

    fn perform(&mut self, locks: &Locks<'_>) -> Result<(), SqliteError> {
        let before = locks.changes();
        match (self.operation)(locks) {
            // Half of an operation is never committed, whatever stopped it.
            Err(error) if error.is_of_the_file() || locks.changes() != before => Err(error),
            performed => {
                self.performed = Some(performed);
                Ok(())
            }
        }
    }

    fn answer(self: Box<Self>, committed: Result<(), SqliteError>) {
        let Self { performed, answer, .. } = *self;
        let unperformed = Err(SqliteError::ThreadGone { begun: false });
        // A caller that has gone meanwhile needs no answer.
        let _ = answer.send(committed.and_then(|()| performed.unwrap_or(unperformed)));
    }
}

/// Does all of them, in one transaction for each kind of access: what only reads waits for no other process
/// that writes, and what need not reach the disk for nothing that must. As all of them are under way at once,
/// any order is one that their callers may see.
pub(super) fn perform(session: &mut Session, operations: Vec<Box<dyn QueuedOperation>>) {
    let mut groups = BTreeMap::<Access, Vec<_>>::new();
    for operation in operations.into_iter().filter(|operation| operation.is_wanted()) {
        groups.entry(operation.access()).or_default().push(operation);
    }
    for (access, group) in groups {
        commit(session, access, group);
    }
}

fn commit(session: &mut Session, access: Access, mut group: Vec<Box<dyn QueuedOperation>>) {
    let committed = session
        .run(access, |locks| group.iter_mut().try_for_each(|operation| operation.perform(locks)));
    match committed {
        Ok(()) => group.into_iter().for_each(|operation| operation.answer(Ok(()))),
        // One alone: whoever is at fault is told so, and nobody else.
        Err(error) if group.len() > 1 && !error.may_pass() => {
            for operation in group {
                commit(session, operation.access(), vec![operation]);
            }
        }
        Err(error) => {
            let error = Arc::new(error);
            for operation in group {
                operation.answer(Err(SqliteError::Together(Arc::clone(&error))));
            }
        }
    }
}
