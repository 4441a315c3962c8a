//! What happened in SQLite, and what the caller can do about it.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::ErrorCode;
use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::store::StoreError;
use crate::store::descriptors::NoDescriptor;

/// What can go wrong with the file.
#[derive(Debug, thiserror::Error)]
pub(super) enum SqliteError {
    /// An answer by the contract, not a fault.
    #[error(transparent)]
    Answer(#[from] StoreError),
    #[error(transparent)]
    Sqlite(rusqlite::Error),
    #[error(transparent)]
    NoDescriptor(NoDescriptor),
    #[error("the file cannot be opened or created")]
    File(#[source] io::Error),
    #[error("it is not a regular file")]
    NoFile,
    #[error("the file may be read but not written")]
    ReadOnly,
    #[error("it is the database of another program")]
    Foreign,
    #[error("its tables have version {found}, and {known} is the newest that this program knows")]
    Newer { found: i64, known: i64 },
    #[error("a stored value cannot be read")]
    Value(#[from] serde_json::Error),
    #[error("the thread of the store cannot be started")]
    Thread(#[source] io::Error),
    #[error("the thread of the store has ended")]
    ThreadGone { begun: bool },
    #[error("the file is not open")]
    NotOpen,
    #[error(
        "another process uses the file under another boot id: both must see the kernel's, or neither"
    )]
    AnotherBoot,
    #[error("it is a symbolic link")]
    Link(PathBuf),
    #[error("{} belongs to user {owner}, and this process runs as user {user}", name.display())]
    OthersFile { name: PathBuf, owner: u32, user: u32 },
    #[error("other users may read or write {} (mode {mode:04o}), and the leases in it", name.display())]
    OpenToOthers { name: PathBuf, mode: u32 },
    #[error("it is missing or empty, and its log is not: leases that were granted are in it")]
    Emptied,
    #[error("it has {is} bytes, and had {was}: a part of it was cut off")]
    Shortened { is: u64, was: u64 },
    #[error("the disk has no room for another lock")]
    NoRoom(#[source] rusqlite::Error),
    #[error("another process uses the log, which cannot be begun anew")]
    LogInUse,
    #[error("the file was deleted and created again")]
    Recreated { remaining: Duration },
    /// What failed for all operations of a transaction.
    #[error(transparent)]
    Together(Arc<Self>),
}

/// What the caller can do about it.
enum Remedy {
    /// Another process has the file, or the operation certainly was not done.
    Wait {
        sent: bool,
    },
    Permit,
    Descriptors(NoDescriptor),
    Change(String),
    Settle(Duration),
}

impl From<rusqlite::Error> for SqliteError {
    /// SQLite does not say why it cannot open a file. This is asked at once: another may close one.
    fn from(error: rusqlite::Error) -> Self {
        let cannot_open = error.sqlite_error_code() == Some(ErrorCode::CannotOpen);
        match NoDescriptor::now().filter(|_| cannot_open) {
            Some(none) => Self::NoDescriptor(none),
            None => Self::Sqlite(error),
        }
    }
}

impl SqliteError {
    /// What the system says of a file.
    pub(super) fn file(error: io::Error) -> Self {
        NoDescriptor::of(&error).map_or(Self::File(error), Self::NoDescriptor)
    }

    /// Whether the file, not the request, is at fault, so that it should be opened afresh.
    pub(super) fn is_of_the_file(&self) -> bool {
        match self {
            Self::Answer(_) => false,
            Self::Sqlite(error) => !matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
            ),
            Self::File(_)
            | Self::NoDescriptor(_)
            | Self::NoFile
            | Self::ReadOnly
            | Self::Foreign
            | Self::Newer { .. }
            | Self::Value(_)
            | Self::Thread(_)
            | Self::ThreadGone { .. }
            | Self::NotOpen
            | Self::Link(_)
            | Self::OthersFile { .. }
            | Self::OpenToOthers { .. }
            | Self::Emptied
            | Self::Shortened { .. } => true,
            Self::Recreated { .. } | Self::AnotherBoot | Self::NoRoom(_) | Self::LogInUse => false,
            Self::Together(error) => error.is_of_the_file(),
        }
    }

    /// Whether another file could not be opened: what is given up, another may take.
    pub(super) fn is_for_lack_of_descriptors(&self) -> bool {
        matches!(self, Self::NoDescriptor(_))
            || matches!(self, Self::Together(error) if error.is_for_lack_of_descriptors())
    }

    /// Whether nothing more fits on the disk, or into the file.
    pub(super) fn is_for_lack_of_space(&self) -> bool {
        let is_full =
            |error: &rusqlite::Error| error.sqlite_error_code() == Some(ErrorCode::DiskFull);
        matches!(self, Self::Sqlite(error) if is_full(error))
    }

    /// Whether the file may be usable again without anybody doing anything about it.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self.remedy(Path::new("")), Remedy::Wait { .. } | Remedy::Descriptors(_))
    }

    /// The error for callers, naming the file and what to do.
    pub(super) fn into_store_error(self, file: &Path) -> StoreError {
        let remedy = self.remedy(file);
        if let Self::Answer(answer) = self {
            return answer;
        }
        let source = Box::new(self);
        match remedy {
            Remedy::Wait { sent } => StoreError::Unavailable { sent, source },
            Remedy::Permit => StoreError::Denied {
                operation: "use the file of locks",
                advice: format!(
                    "give the user of this process permission to read and write {} and its folder",
                    file.display()
                ),
                source,
            },
            Remedy::Descriptors(none) => StoreError::NoDescriptors {
                operation: format!("open the file {}", file.display()),
                advice: none.advice(),
                source,
            },
            Remedy::Change(advice) => StoreError::Fatal { advice, source },
            Remedy::Settle(retry_after) => {
                StoreError::Recreated { what: format!("file {}", file.display()), retry_after }
            }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "std's kinds, of which new ones may come")]
    fn remedy(&self, path: &Path) -> Remedy {
        let file = path.display();
        let change = |advice: String| Remedy::Change(advice);
        match self {
            Self::Sqlite(error) => sqlite_remedy(error, path),
            Self::NoDescriptor(none) => Remedy::Descriptors(*none),
            Self::File(error) => match error.kind() {
                ErrorKind::PermissionDenied => Remedy::Permit,
                ErrorKind::ReadOnlyFilesystem => change(format!(
                    "the file system of {file} is read-only: mount a volume that can be written there, or name another file"
                )),
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                    change(format!("free space on the disk of {file}"))
                }
                ErrorKind::NotFound | ErrorKind::NotADirectory => {
                    change(format!("create the folder of {file}, or name another file"))
                }
                _ => Remedy::Wait { sent: false },
            },
            Self::NoFile => change(format!(
                "{file} is not a regular file; name a file, which is created if it does not exist"
            )),
            Self::ReadOnly => Remedy::Permit,
            Self::Foreign => change(foreign(&file.to_string())),
            Self::Newer { .. } => change(format!(
                "{file} was written by a newer version; run that one, or name another file"
            )),
            Self::Value(_) => change(damaged(&file.to_string())),
            Self::Thread(_) => change("raise the limit of threads of this process".to_owned()),
            Self::ThreadGone { begun } => Remedy::Wait { sent: *begun },
            Self::NotOpen | Self::AnotherBoot | Self::LogInUse | Self::Answer(_) => {
                Remedy::Wait { sent: false }
            }
            Self::Link(link) => change(format!(
                "{} must be the file itself: name the one it links to",
                link.display()
            )),
            Self::OthersFile { name, user, .. } => change(format!(
                "run as the user that {} belongs to, or make it this one's: chown {user} {0}",
                name.display()
            )),
            Self::OpenToOthers { name, .. } => {
                change(format!("make it this user's alone: chmod 600 {}", name.display()))
            }
            Self::Emptied | Self::Shortened { .. } => change(cut(&file.to_string())),
            Self::NoRoom(_) => change(format!(
                "free space on the disk of {file}; the locks that are in it can be used meanwhile"
            )),
            Self::Recreated { remaining } => Remedy::Settle(*remaining),
            Self::Together(error) => error.remedy(path),
        }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "SQLite's codes, of which new ones may come")]
fn sqlite_remedy(error: &rusqlite::Error, path: &Path) -> Remedy {
    let file = &path.display().to_string();
    let Some(code) = error.sqlite_error_code() else {
        // A column that is not what the schema says.
        return Remedy::Change(damaged(file));
    };
    match code {
        // The transaction had not begun, so nothing was done.
        ErrorCode::DatabaseBusy
        | ErrorCode::DatabaseLocked
        | ErrorCode::FileLockingProtocolFailed => Remedy::Wait { sent: false },
        // It may have been the commit that failed.
        ErrorCode::SystemIoFailure
        | ErrorCode::OutOfMemory
        | ErrorCode::OperationAborted
        | ErrorCode::OperationInterrupted => Remedy::Wait { sent: true },
        // Then it was something that may pass, such as a lack of memory.
        ErrorCode::CannotOpen if may_be_opened(path) => Remedy::Wait { sent: false },
        ErrorCode::PermissionDenied
        | ErrorCode::ReadOnly
        | ErrorCode::CannotOpen
        | ErrorCode::AuthorizationForStatementDenied => Remedy::Permit,
        ErrorCode::DiskFull => Remedy::Change(format!("free space on the disk of {file}")),
        ErrorCode::NotADatabase => Remedy::Change(foreign(file)),
        _ => Remedy::Change(damaged(file)),
    }
}

/// Whether this process has the permission to write the file, and others beside it.
pub(super) fn may_be_opened(file: &Path) -> bool {
    let may = |path: &Path, access| accessat(CWD, path, access, AtFlags::EACCESS).is_ok();
    let writes = Access::READ_OK | Access::WRITE_OK;
    may(file, writes) && file.parent().is_some_and(|folder| may(folder, writes | Access::EXEC_OK))
}

fn foreign(file: &str) -> String {
    format!("{file} is not a Leasehold database; move it, or name another file")
}

fn cut(file: &str) -> String {
    format!(
        "put {file} back as it was, if there is a copy; else stop every sidecar that uses it, wait for a minute, and \
         move it and its -wal and -shm files away: the next start makes a new one, in which all locks are free and \
         tokens go on growing"
    )
}

fn damaged(file: &str) -> String {
    format!(
        "{file} is damaged; stop every sidecar that uses it, then move it and its -wal and -shm files away: \
         the next start makes a new one, in which all locks are free and tokens go on growing"
    )
}
