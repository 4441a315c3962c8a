//! The connection to the file, and transactions on it.

use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::error::SqliteError;
use super::file::{self, FileId};
use super::locks::{Locks, Moment};
use super::schema;
use crate::store::GRACE_AFTER_LOSS;
use crate::time::{Clock, Instant};

/// The file as the store's thread has it open.
pub(super) struct Session {
    file: PathBuf,
    clock: Arc<dyn Clock>,
    opened: Option<Opened>,
    /// The database that was opened last.
    known: Option<Known>,
    /// Nothing is granted before (S18).
    grants_from: Instant,
}

struct Opened {
    connection: Connection,
    /// Which file was opened: another may have its name by now.
    id: FileId,
    /// Whether commits reach the disk before they are answered.
    synced: bool,
    /// Only with a write-ahead log does a commit that was not synced endanger nothing but itself and what follows it.
    write_ahead: bool,
}

/// What a database is known by: its file, and its own id, since a new file may be given the place of a deleted one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    file: FileId,
    database: String,
}

/// What a power failure may undo. A process that crashes undoes nothing in either case.
///
/// | write | | why |
/// | --- | --- | --- |
/// | record, break, delete | `Record` | tokens, promises and notes are in it (S5, S11, S17) |
/// | acquire, making a lock | `Lease` | no grant without the record written after it (S5), whose sync takes along what came before |
/// | renew | `Lease` | the next boot counts the lease's whole duration from first sight, whichever renewal was last |
/// | release | `Lease` | undone, it keeps the lock from others for one duration more |
/// | first sight of a lease of another boot | `Lease` | undone, the boot after that sees it first |
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Durability {
    /// This write, and later ones of this kind: not worth waiting for the disk at each renewal.
    Lease,
    /// Nothing.
    Record,
}

/// What a transaction is for; the least waiting first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Access {
    /// Everything that it reads is of one state of the file.
    Read,
    /// Done as a whole or, when it fails, not at all.
    Write(Durability),
}

impl Access {
    /// Immediate: a transaction that begins by reading could not wait for another that writes.
    const fn behavior(self) -> TransactionBehavior {
        match self {
            Self::Read => TransactionBehavior::Deferred,
            Self::Write(_) => TransactionBehavior::Immediate,
        }
    }
}

impl Session {
    pub(super) fn new(file: PathBuf, clock: Arc<dyn Clock>) -> Self {
        Self { file, clock, opened: None, known: None, grants_from: Instant::default() }
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
        let moment = Moment::read(&*self.clock);
        let now = moment.now();
        let database = Locks::new(&connection, moment, now).database_id()?;
        let found = Known { file: id, database };
        // The leases of the one before are not in this one.
        if self.known.as_ref().is_some_and(|known| *known != found) {
            self.grants_from = now + GRACE_AFTER_LOSS;
        }
        self.known = Some(found);
        self.opened = Some(Opened { connection, id, synced: true, write_ahead });
        Ok(())
    }

    fn transaction(&mut self, access: Access) -> Result<(Transaction<'_>, Instant), SqliteError> {
        self.open()?;
        let grants_from = self.grants_from;
        let opened = self.opened.as_mut().ok_or(SqliteError::NotOpen)?;
        let synced = access == Access::Write(Durability::Record) || !opened.write_ahead;
        if opened.synced != synced && access != Access::Read {
            let level = if synced { "FULL" } else { "NORMAL" };
            opened.connection.pragma_update(None, "synchronous", level)?;
            opened.synced = synced;
        }
        Ok((opened.connection.transaction_with_behavior(access.behavior())?, grants_from))
    }

    /// Looks at the leases of another boot, if there are any, so that their time begins to run.
    pub(super) fn see_leases(&mut self) -> Result<(), SqliteError> {
        self.run(Access::Write(Durability::Lease), |locks| locks.see_leases())
    }

    /// Does `operation` in one transaction.
    ///
    /// What meets leases of another boot is done again after they were written down as seen, so that whatever it is
    /// answered, and whoever looks next, their time has begun to run.
    pub(super) fn run<T>(
        &mut self,
        access: Access,
        mut operation: impl FnMut(&Locks<'_>) -> Result<T, SqliteError>,
    ) -> Result<T, SqliteError> {
        let mut answer = self.attempt(access, &mut operation);
        if let Ok(Attempt::FirstSight) = answer {
            let seen = self.see_leases();
            answer = seen.and_then(|()| self.attempt(access, &mut operation));
        }
        let answer = match answer {
            Ok(Attempt::Done(answer)) => Ok(answer),
            // A process that reads another boot id than this one's uses the file at the same time.
            Ok(Attempt::FirstSight) => Err(SqliteError::AnotherBoot),
            Err(error) => Err(error),
        };
        self.close_after(&answer);
        answer
    }

    fn attempt<T>(
        &mut self,
        access: Access,
        operation: &mut impl FnMut(&Locks<'_>) -> Result<T, SqliteError>,
    ) -> Result<Attempt<T>, SqliteError> {
        let clock = Arc::clone(&self.clock);
        let (transaction, grants_from) = self.transaction(access)?;
        let locks = Locks::new(&transaction, Moment::read(&*clock), grants_from);
        let answer = operation(&locks);
        if locks.met_another_boot() {
            return Ok(Attempt::FirstSight);
        }
        let answer = answer?;
        transaction.commit()?;
        Ok(Attempt::Done(answer))
    }

    /// After a failure of the file the next operation begins with a fresh look at it.
    fn close_after<T>(&mut self, answer: &Result<T, SqliteError>) {
        if answer.as_ref().is_err_and(SqliteError::is_of_the_file) {
            self.opened = None;
        }
    }
}

/// What became of a transaction.
enum Attempt<T> {
    Done(T),
    /// Nothing was done: it met leases of another boot.
    FirstSight,
}

#[cfg(test)]
impl Session {
    pub(super) fn write<T>(
        &mut self,
        durability: Durability,
        operation: impl Fn(&Locks<'_>) -> Result<T, SqliteError>,
    ) -> Result<T, SqliteError> {
        self.run(Access::Write(durability), operation)
    }

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
