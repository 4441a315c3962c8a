//! The file: making it, opening it, and knowing it again.

use std::fs::{Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::error::SqliteError;

/// Which file it is, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// How long an operation waits for another process's, which take milliseconds. S7 cuts a try off after 2.5 s at the
/// shortest lease.
const BUSY_WAIT: Duration = Duration::from_secs(2);
/// How long it waits before it looks again.
const BUSY_PAUSE: Duration = Duration::from_millis(1);
/// Pages kept in memory, in KiB: the locks in use fit, and an idle sidecar stays small.
const CACHE_KIB: i64 = 256;
/// Pages that the write-ahead log collects before they go into the file, which waits for the disk twice: under load some
/// ten times a second. The log takes up to 4 MiB of disk.
const WRITE_AHEAD_PAGES: i64 = 1_000;

/// The file that has this name; `None` if none has.
pub(super) fn identify(file: &Path) -> Result<Option<FileId>, SqliteError> {
    match std::fs::metadata(file) {
        Ok(metadata) if metadata.is_file() => Ok(Some(FileId::of(&metadata))),
        Ok(_) => Err(SqliteError::NoFile),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(SqliteError::File(error)),
    }
}

/// Makes the file if it is not there: leases in it are capabilities, so nobody but this user may read it (S13, S20).
pub(super) fn make(file: &Path) -> Result<FileId, SqliteError> {
    if let Some(id) = identify(file)? {
        return Ok(id);
    }
    // Closing a file drops SQLite's locks of this process on it: so only one that was made just now is opened here.
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Ok(made) => Ok(FileId::of(&made.metadata().map_err(SqliteError::File)?)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            identify(file)?.ok_or(SqliteError::File(error))
        }
        Err(error) => Err(SqliteError::File(error)),
    }
}

/// Waits for a moment for another process's turn to end, if it has not waited for so many already. SQLite's own waits
/// grow to a tenth of a second: they seldom meet the moment between two transactions of a process that is busy.
fn wait_for_turn(waited: i32) -> bool {
    let goes_on = u32::try_from(waited).is_ok_and(|waited| BUSY_PAUSE * waited < BUSY_WAIT);
    if goes_on {
        std::thread::park_timeout(BUSY_PAUSE);
    }
    goes_on
}

/// Opens the file that was made.
pub(super) fn connect(file: &Path) -> Result<Connection, SqliteError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(file, flags)?;
    // SQLite opens what it may not write for reading, without a word.
    if connection.is_readonly("main")? {
        return Err(SqliteError::ReadOnly);
    }
    connection.busy_handler(Some(wait_for_turn))?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update(None, "wal_autocheckpoint", WRITE_AHEAD_PAGES)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}
