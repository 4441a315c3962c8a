//! The connection to the file, and transactions on it.

use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::error::SqliteError;
use super::file::{self, FileId, Files};
use super::locks::{Locks, Moment, Terms};
use super::schema;
use crate::store::GRACE_AFTER_LOSS;
use crate::time::{Clock, Instant};

/// The file as the store's thread has it open.
pub(super) struct Session {
    file: PathBuf,
    clock: Arc<dyn Clock>,
    opened: Option<Opened>,
    /// The database that was opened last.
    known: Option<KnownDatabase>,
    /// The file was found to be cut since the last one was opened.
    cut: bool,
    /// The boot id under which it was used.
    used_under: Option<String>,
    terms: Terms,
}

struct Opened {
    connection: Connection,
    /// Which files were opened: others may have their names by now.
    ids: [Option<FileId>; 3],
    /// The file is at least as long.
    bytes: u64,
    /// Whether commits reach the disk before they are answered.
    synced: bool,
    /// Only with a write-ahead log does a commit that was not synced endanger nothing but itself and what
    /// follows it.
    write_ahead: bool,
}

/// What a database is known by: its files, and its own id, since a new file may be given the place of a
/// deleted one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KnownDatabase {
    ids: [Option<FileId>; 3],
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
    /// No write that was answered is lost.
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
    pub(super) fn new(file: PathBuf, clock: Arc<dyn Clock>, most: Option<u64>) -> Self {
        let terms = Terms { grants_from: Instant::default(), most };
        Self { file, clock, opened: None, known: None, cut: false, used_under: None, terms }
    }

    /// Opens the file, if it is not open or is not the one of that name any more.
    ///
    /// To go on with a file that was deleted or replaced would be to hold locks that nobody else can see.
    pub(super) fn open(&mut self) -> Result<(), SqliteError> {
        let there = Files::look(&self.file)?;
        if let Some(opened) = self.opened.take_if(|opened| opened.ids != there.ids()) {
            opened.close_as_it_is();
        }
        if let Some(opened) = &self.opened {
            let whole = there.check_length(opened.bytes);
            return whole.inspect_err(|_| self.found_cut());
        }
        there.check_not_emptied().inspect_err(|_| self.cut = true)?;
        there.check_private(&self.file)?;
        if there.file.is_none() {
            file::make(&self.file)?;
        }
        let mut connection = file::connect(&self.file)?;
        leave_as_it_is(&connection, true)?;
        let write_ahead = schema::prepare(&mut connection)?;
        let moment = Moment::read(&*self.clock);
        let now = moment.now();
        let locks = Locks::new(&connection, moment, self.terms);
        let (database, bytes) = (locks.database_id()?, locks.least_bytes()?);
        // Looked at after that was read: another process may have made it longer meanwhile.
        let there = Files::look(&self.file)?;
        there.check_length(bytes).inspect_err(|_| self.cut = true)?;
        leave_as_it_is(&connection, false)?;
        let found = KnownDatabase { ids: there.ids(), database };
        // The leases of the one before are not in this one.
        if self.cut || self.known.as_ref().is_some_and(|known| *known != found) {
            self.terms.grants_from = now + GRACE_AFTER_LOSS;
        }
        self.cut = false;
        self.known = Some(found);
        self.opened =
            Some(Opened { connection, ids: there.ids(), bytes, synced: true, write_ahead });
        Ok(())
    }

    /// Nothing is done with what is left of the file, and what it says is not believed when it is whole
    /// again.
    fn found_cut(&mut self) {
        self.cut = true;
        if let Some(opened) = self.opened.take() {
            opened.close_as_it_is();
        }
    }

    fn transaction(&mut self, access: Access) -> Result<(Transaction<'_>, Terms), SqliteError> {
        self.open()?;
        let terms = self.terms;
        let opened = self.opened.as_mut().ok_or(SqliteError::NotOpen)?;
        let synced = access == Access::Write(Durability::Record) || !opened.write_ahead;
        if opened.synced != synced && access != Access::Read {
            let level = if synced { "FULL" } else { "NORMAL" };
            opened.connection.pragma_update(None, "synchronous", level)?;
            opened.synced = synced;
        }
        Ok((opened.connection.transaction_with_behavior(access.behavior())?, terms))
    }

    /// Looks at the leases of another boot, if there are any, so that their time begins to run.
    pub(super) fn see_leases(&mut self) -> Result<(), SqliteError> {
        let used_under = self.used_under.clone();
        self.run(Access::Write(Durability::Lease), |locks| locks.see_leases(used_under.as_deref()))
    }

    /// Takes the room on the disk that the locks which are there may need (S18).
    pub(super) fn take_room(&mut self) -> Result<(), SqliteError> {
        let log = Files::look(&self.file)?.log.map_or(0, |log| log.bytes);
        self.run(Access::Write(Durability::Lease), |locks| locks.take_room(log))
    }

    /// Does `operation` in one transaction.
    ///
    /// What meets leases of another boot is done again after they were written down as seen, so that whatever
    /// it is answered, and whoever looks next, their time has begun to run. What finds the disk full is done
    /// again after the log was begun anew.
    pub(super) fn run<T>(
        &mut self,
        access: Access,
        mut operation: impl FnMut(&Locks<'_>) -> Result<T, SqliteError>,
    ) -> Result<T, SqliteError> {
        let (mut has_seen, mut has_begun_anew) = (false, access == Access::Read);
        let answer = loop {
            match self.attempt(access, &mut operation) {
                Ok(Attempt::Done(answer)) => break Ok(answer),
                // A process that reads another boot id than this one's uses the file at the same time.
                Ok(Attempt::FirstSight) if has_seen => break Err(SqliteError::AnotherBoot),
                Ok(Attempt::FirstSight) => {
                    has_seen = true;
                    if let Err(error) = self.see_leases() {
                        break Err(error);
                    }
                }
                Err(error) if error.is_for_lack_of_space() && !has_begun_anew => {
                    has_begun_anew = true;
                    if self.begin_log_anew().is_err() {
                        break Err(error);
                    }
                }
                Err(error) => break Err(error),
            }
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
        let (transaction, terms) = self.transaction(access)?;
        let locks = Locks::new(&transaction, Moment::read(&*clock), terms);
        if access != Access::Read {
            locks.free_pages()?;
        }
        let answer = operation(&locks);
        if locks.met_another_boot() {
            return Ok(Attempt::FirstSight);
        }
        let (answer, grown) = (answer?, locks.grown.get());
        let boot_id = locks.into_boot_id();
        transaction.commit()?;
        self.used_under = Some(boot_id);
        if let Some(opened) = &mut self.opened {
            opened.bytes = opened.bytes.max(grown);
        }
        Ok(Attempt::Done(answer))
    }

    /// Moves what is in the log into the file, which has the room, so that the log is written from its
    /// beginning again and needs no more of the disk than it has.
    fn begin_log_anew(&mut self) -> Result<(), SqliteError> {
        let opened = self.opened.as_ref().ok_or(SqliteError::NotOpen)?;
        let busy: i64 =
            opened.connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| row.get(0))?;
        if busy == 0 { Ok(()) } else { Err(SqliteError::LogInUse) }
    }

    /// After a failure of the file the next operation begins with a fresh look at it. Not on a full disk, nor
    /// when there are no file descriptors: what it gives up, another may take.
    fn close_after<T>(&mut self, answer: &Result<T, SqliteError>) {
        let is_over = |error: &SqliteError| {
            error.is_of_the_file()
                && !error.is_for_lack_of_space()
                && !error.is_for_lack_of_descriptors()
        };
        if answer.as_ref().is_err_and(is_over) {
            self.opened = None;
        }
    }
}

impl Opened {
    /// Without moving the log into the file.
    fn close_as_it_is(self) {
        // Where that fails, the file is one that cannot be written either.
        let _ = leave_as_it_is(&self.connection, true);
    }
}

/// Whether the last connection to close leaves the log where it is.
fn leave_as_it_is(connection: &Connection, leave: bool) -> Result<(), SqliteError> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, leave)?;
    Ok(())
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

    /// Pages that nothing needs yet.
    pub(super) fn spare_pages(&mut self) -> Result<u64, SqliteError> {
        self.run(Access::Read, |locks| locks.spare_pages())
    }

    /// The file is at least as long.
    pub(super) fn least_bytes(&mut self) -> Result<u64, SqliteError> {
        self.run(Access::Read, |locks| locks.least_bytes())
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
