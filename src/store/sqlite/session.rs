//! The connection to the file, and transactions on it.

use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::error::SqliteError;
use super::file::{self, FileId};
use super::locks::{Locks, Moment};
use super::schema;
use crate::lock::LockPath;
use crate::store::{Acquire, Acquired, StoreError};
use crate::time::Clock;

/// The file as the store's thread has it open.
pub(super) struct Session {
    file: PathBuf,
    clock: Arc<dyn Clock>,
    opened: Option<Opened>,
}

struct Opened {
    connection: Connection,
    /// Which file was opened: another may have its name by now.
    id: FileId,
    /// Whether commits reach the disk before they are answered.
    synced: bool,
    /// Only with a write-ahead log does a commit that was not synced endanger nothing but itself.
    write_ahead: bool,
}

/// What a power failure may undo. A process that crashes undoes nothing in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// The lease alone: no lease outlives the boot, so it is not worth waiting for the disk at each renewal.
    Lease,
    /// Nothing: tokens and promises are in it (S5, S11).
    Record,
}

impl Session {
    pub(super) fn new(file: PathBuf, clock: Arc<dyn Clock>) -> Self {
        Self { file, clock, opened: None }
    }

    /// Opens the file, if it is not open or is not the one of that name any more.
    ///
    /// To go on with a file that was deleted or replaced would be to hold locks that nobody else can see.
    pub(super) fn open(&mut self) -> Result<(), SqliteError> {
        let there = file::identify(&self.file)?;
        if self.opened.as_ref().is_some_and(|opened| Some(opened.id) == there) {
            return Ok(());
        }
        self.opened = None;
        let id = file::make(&self.file)?;
        let mut connection = file::connect(&self.file)?;
        let write_ahead = schema::prepare(&mut connection)?;
        self.opened = Some(Opened { connection, id, synced: true, write_ahead });
        Ok(())
    }

    fn transaction(
        &mut self,
        behavior: TransactionBehavior,
        durability: Durability,
    ) -> Result<Transaction<'_>, SqliteError> {
        self.open()?;
        let opened = self.opened.as_mut().ok_or(SqliteError::NotOpen)?;
        let synced = durability == Durability::Record || !opened.write_ahead;
        if opened.synced != synced {
            let level = if synced { "FULL" } else { "NORMAL" };
            opened.connection.pragma_update(None, "synchronous", level)?;
            opened.synced = synced;
        }
        Ok(opened.connection.transaction_with_behavior(behavior)?)
    }

    /// Does `operation` as a whole or, when it fails, not at all.
    pub(super) fn write<T>(
        &mut self,
        durability: Durability,
        operation: impl FnOnce(&Locks<'_>) -> Result<T, SqliteError>,
    ) -> Result<T, SqliteError> {
        let clock = Arc::clone(&self.clock);
        let run = || {
            // Immediate: a transaction that begins by reading could not wait for another that writes.
            let transaction = self.transaction(TransactionBehavior::Immediate, durability)?;
            let answer = operation(&Locks::new(&transaction, Moment::read(&*clock)))?;
            transaction.commit()?;
            Ok(answer)
        };
        let answer = run();
        self.close_after(&answer);
        answer
    }

    /// Reads everything `operation` reads from one state of the file.
    pub(super) fn read<T>(
        &mut self,
        operation: impl FnOnce(&Locks<'_>) -> Result<T, SqliteError>,
    ) -> Result<T, SqliteError> {
        let clock = Arc::clone(&self.clock);
        let run = || {
            let transaction = self.transaction(TransactionBehavior::Deferred, Durability::Lease)?;
            operation(&Locks::new(&transaction, Moment::read(&*clock)))
        };
        let answer = run();
        self.close_after(&answer);
        answer
    }

    /// After a failure of the file the next operation begins with a fresh look at it.
    fn close_after<T>(&mut self, answer: &Result<T, SqliteError>) {
        if answer.as_ref().is_err_and(SqliteError::is_of_the_file) {
            self.opened = None;
        }
    }

    /// Leasing a lock that is there changes no record, making one does: so the disk is waited for only when the first
    /// look finds no lock. Another process may have made it by the second.
    pub(super) fn acquire(
        &mut self,
        path: &LockPath,
        request: &Acquire,
    ) -> Result<Acquired, SqliteError> {
        let absent = |answer: &Result<_, _>| {
            matches!(answer, Err(SqliteError::Answer(StoreError::NotFound)))
        };
        let leased = self.write(Durability::Lease, |locks| locks.acquire(path, request));
        if !absent(&leased) {
            return leased;
        }
        self.write(Durability::Record, |locks| {
            let leased = locks.acquire(path, request);
            if absent(&leased) { locks.make(path, request) } else { leased }
        })
    }
}

#[cfg(test)]
impl Session {
    pub(super) fn read_pragma(&mut self, name: &str) -> Result<i64, SqliteError> {
        let opened = self.opened.as_ref().ok_or(SqliteError::NotOpen)?;
        Ok(opened.connection.pragma_query_value(None, name, |row| row.get(0))?)
    }

    /// As a disk of that size would; SQLite takes what is in use already as the least.
    pub(super) fn limit_pages(&mut self, pages: i64) -> Result<(), SqliteError> {
        let opened = self.opened.as_ref().ok_or(SqliteError::NotOpen)?;
        let told =
            opened
                .connection
                .pragma_update_and_check(None, "max_page_count", pages, |row| row.get::<_, i64>(0));
        Ok(told.map(drop)?)
    }

    /// As a mount that was made read-only would.
    pub(super) fn forbid_writing(&mut self) -> Result<(), SqliteError> {
        let opened = self.opened.as_ref().ok_or(SqliteError::NotOpen)?;
        Ok(opened.connection.pragma_update(None, "query_only", true)?)
    }
}
