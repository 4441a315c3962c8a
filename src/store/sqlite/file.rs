//! The file: making it, opening it, and knowing it again.

use std::fs::{Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, FileControl, MAIN_DB, OpenFlags};

use super::error::{SqliteError, may_be_opened};

/// Which file it is, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

/// A file as it was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileSeen {
    pub(super) id: FileId,
    pub(super) bytes: u64,
    owner: u32,
    mode: u32,
}

impl FileSeen {
    fn of(metadata: &Metadata) -> Self {
        Self {
            id: FileId { device: metadata.dev(), inode: metadata.ino() },
            bytes: metadata.len(),
            owner: metadata.uid(),
            mode: metadata.mode() & 0o7777,
        }
    }
}

/// The file, and what SQLite keeps beside it: its write-ahead log, and the log's index. A commit may be in
/// the log only.
#[derive(Clone, Copy, Debug)]
pub(super) struct Files {
    pub(super) file: Option<FileSeen>,
    pub(super) log: Option<FileSeen>,
    index: Option<FileSeen>,
}

impl Files {
    /// What is there under the name of the file. The file last: whoever makes them makes it first.
    pub(super) fn look(file: &Path) -> Result<Self, SqliteError> {
        let index = look(&beside(file, "-shm"))?;
        let log = look(&beside(file, "-wal"))?;
        Ok(Self { file: look(file)?, log, index })
    }

    /// Which files they are: to go on with others than those that were opened would be to hold locks that
    /// nobody sees.
    pub(super) fn ids(&self) -> [Option<FileId>; 3] {
        [self.file, self.log, self.index].map(|seen| seen.map(|seen| seen.id))
    }

    /// S1: SQLite takes an empty file for a new one, and throws its log away. The leases that are in it were
    /// granted.
    pub(super) fn check_not_emptied(&self) -> Result<(), SqliteError> {
        let is_empty = self.file.is_none_or(|file| file.bytes == 0);
        match self.log {
            Some(log) if is_empty && log.bytes > 0 => Err(SqliteError::Emptied),
            Some(_) | None => Ok(()),
        }
    }

    /// That the file is as long as it was.
    pub(super) fn check_length(&self, was: u64) -> Result<(), SqliteError> {
        let is = self.file.map_or(0, |file| file.bytes);
        if is < was { Err(SqliteError::Shortened { is, was }) } else { Ok(()) }
    }

    /// S13, S20: the leases in them are capabilities, so nobody but this user may read or write them.
    pub(super) fn check_private(&self, file: &Path) -> Result<(), SqliteError> {
        let user = rustix::process::geteuid().as_raw();
        let names = ["", "-wal", "-shm"].map(|ending| beside(file, ending));
        for (name, seen) in names.into_iter().zip([self.file, self.log, self.index]) {
            let Some(FileSeen { owner, mode, .. }) = seen else { continue };
            if owner != user {
                return Err(SqliteError::OthersFile { name, owner, user });
            }
            if mode & 0o077 != 0 {
                return Err(SqliteError::OpenToOthers { name, mode });
            }
        }
        Ok(())
    }
}

/// What has this name itself: a link is not followed.
fn look(file: &Path) -> Result<Option<FileSeen>, SqliteError> {
    match std::fs::symlink_metadata(file) {
        Ok(metadata) if metadata.is_file() => Ok(Some(FileSeen::of(&metadata))),
        Ok(metadata) if metadata.is_symlink() => Err(SqliteError::Link(file.to_owned())),
        Ok(_) => Err(SqliteError::NoFile),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(SqliteError::file(error)),
    }
}

fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// How long an operation waits for another process's, which take milliseconds. S7 cuts a try off after 2.5 s
/// at the shortest lease.
const BUSY_WAIT: Duration = Duration::from_secs(2);
/// How long it waits before it looks again.
const BUSY_PAUSE: Duration = Duration::from_millis(1);
/// Pages kept in memory, in KiB: what a batch of callers with a lock each touches fits, so that none of it is
/// written out and read again before the batch is done.
const CACHE_KIB: i64 = 1_024;
/// Pages that the write-ahead log collects before they go into the file, which waits for the disk twice:
/// under load some five times a second. The log takes some 8 MiB of disk.
const WRITE_AHEAD_PAGES: i64 = 2_000;
/// The file is a multiple of this long, so that it is not cut where its last page in use ends.
const CHUNK_BYTES: i32 = 256 * 1_024;

/// Makes the file if it is not there.
pub(super) fn make(file: &Path) -> Result<(), SqliteError> {
    // Closing a file drops SQLite's locks of this process on it: so only one that was made just now is opened
    // here.
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(SqliteError::file(error)),
    }
}

/// Waits for a moment for another process's turn to end, if it has not waited for so many already. SQLite's
/// own waits grow to a tenth of a second: they seldom meet the moment between two transactions of a process
/// that is busy.
fn wait_for_turn(waited: i32) -> bool {
    let goes_on = u32::try_from(waited).is_ok_and(|waited| BUSY_PAUSE * waited < BUSY_WAIT);
    if goes_on {
        std::thread::park_timeout(BUSY_PAUSE);
    }
    goes_on
}

/// Opens the file that was made.
pub(super) fn connect(file: &Path) -> Result<Connection, SqliteError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    // SQLite refuses a link anywhere in the name; those of folders are an administrator's own.
    let folder = file.parent().map_or(Ok(PathBuf::new()), Path::canonicalize);
    let whole = folder.map_err(SqliteError::file)?.join(file.file_name().unwrap_or_default());
    let mut connection = Connection::open_with_flags(whole, flags)?;
    // SQLite opens what it may not write for reading, without a word.
    if connection.is_readonly(MAIN_DB)? {
        // For lack of a file descriptor, too, if one has come free just then.
        return Err(if may_be_opened(file) { SqliteError::NotOpen } else { SqliteError::ReadOnly });
    }
    connection.busy_handler(Some(wait_for_turn))?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update(None, "wal_autocheckpoint", WRITE_AHEAD_PAGES)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.file_control(Some(MAIN_DB), FileControl::ChunkSize(&mut { CHUNK_BYTES }))?;
    // The log keeps its place on the disk when the last process ends.
    connection.file_control(Some(MAIN_DB), FileControl::PersistWal(&mut 1))?;
    Ok(connection)
}
