//! Where to listen: what an address can be refused for, and the file of a Unix socket.

use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{
    FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{FlockOperation, OFlags, flock};
use tokio::net::{TcpListener, UnixListener};

/// Why the sidecar cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Something else has the address.
    #[error(
        "{address} is in use by another process, perhaps another Leasehold; stop it, or set listen.tcp to another \
         address"
    )]
    AddressInUse {
        /// The address that was to be listened to.
        address: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address} (listen.tcp): {source}")]
    Address {
        /// The address that was to be listened to.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Another process listens on the socket.
    #[error(
        "another process listens on the socket {}; stop it, or set listen.unix to another path", path.display()
    )]
    SocketInUse {
        /// The path of the socket.
        path: PathBuf,
    },
    /// There is a file that is not a socket at the path of the socket.
    #[error("{} exists and is not a socket; remove it, or set listen.unix to another path", path.display())]
    NotASocket {
        /// The path of the socket.
        path: PathBuf,
    },
    /// The socket cannot be created.
    #[error("cannot create the socket {} (listen.unix): {source}", path.display())]
    Socket {
        /// The path of the socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file beside the socket that says that its process lives cannot be opened.
    #[error(
        "cannot open {} (listen.unix), which must be no symbolic link, and this user's: {source}; remove it, or set \
         listen.unix to a path in a folder that only this user can write", path.display()
    )]
    LockFile {
        /// The path of that file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others may open that file, and could keep the sidecar from starting.
    #[error(
        "{} (listen.unix) belongs to user {owner} and has the mode {mode:04o}, and must be private to user {user}, who \
         runs this process: remove it, or set listen.unix to a path in a folder that only this user can write",
        path.display()
    )]
    LockFileOfOthers {
        /// The path of that file.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// The mode that it has.
        mode: u32,
        /// Who runs this process.
        user: u32,
    },
    /// A file that listening needs cannot be read.
    #[error("cannot read {} ({key}): {source}", path.display())]
    File {
        /// The setting that names the file.
        key: &'static str,
        /// The file that was to be read.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A certificate or key cannot be used.
    #[error("{} ({key}) cannot be used: {problem}", path.display())]
    Certificates {
        /// The setting that names the file.
        key: &'static str,
        /// The file that was read.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

/// Connections that the system keeps until they are accepted, if it allows so many. A client of a Unix socket
/// is refused when there are more.
const BACKLOG: i32 = 4_096;

/// Listens on an address.
pub(in crate::grpc) async fn listen_on(address: SocketAddr) -> Result<TcpListener, ListenError> {
    let failed = |source: io::Error| {
        if source.kind() == io::ErrorKind::AddrInUse {
            ListenError::AddressInUse { address }
        } else {
            ListenError::Address { address, source }
        }
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    rustix::net::listen(&listener, BACKLOG).map_err(|error| failed(error.into()))?;
    Ok(listener)
}

/// The place of a Unix socket, ours alone: the lock on a file beside it says that its process lives. When it
/// is dropped, the socket is removed.
#[derive(Debug)]
pub(in crate::grpc) struct SocketFile {
    path: PathBuf,
    /// The device and inode of our socket, once it is there.
    made: OnceLock<(u64, u64)>,
    _lock: File,
}

impl SocketFile {
    /// Claims `path`. A socket that a dead process left there is replaced.
    pub(in crate::grpc) fn claim(path: &Path) -> Result<Self, ListenError> {
        let failed = |source| ListenError::Socket { path: path.to_owned(), source };
        let lock = open_lock(beside(path, ".lock"))?;
        let in_use = || ListenError::SocketInUse { path: path.to_owned() };
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(in_use()),
            Err(error) => return Err(failed(error.into())),
        }
        match fs::symlink_metadata(path) {
            Ok(there) if !there.file_type().is_socket() => {
                return Err(ListenError::NotASocket { path: path.to_owned() });
            }
            // Something that does not know of our lock file may listen there.
            Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => return Err(in_use()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        Ok(Self { path: path.to_owned(), made: OnceLock::new(), _lock: lock })
    }

    pub(in crate::grpc) fn path(&self) -> &Path {
        &self.path
    }

    /// Listens on the socket, once.
    pub(in crate::grpc) fn listen(&self) -> Result<UnixListener, ListenError> {
        let failed = |source| ListenError::Socket { path: self.path.clone(), source };
        self.make().map_err(failed)
    }

    /// The socket gets its mode under another name, so that nobody connects before.
    fn make(&self) -> io::Result<UnixListener> {
        let new = beside(&self.path, ".new");
        match fs::remove_file(&new) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let listener = UnixListener::bind(&new)?;
        rustix::net::listen(&listener, BACKLOG)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(SOCKET_MODE))?;
        let metadata = fs::symlink_metadata(&new)?;
        fs::rename(&new, &self.path)?;
        // Made once: `listen` is called once.
        let _ = self.made.set((metadata.dev(), metadata.ino()));
        Ok(listener)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let there = fs::symlink_metadata(&self.path).map(|there| (there.dev(), there.ino()));
        if there.ok().as_ref() == self.made.get() && self.made.get().is_some() {
            // A socket that stays is taken for stale by whoever comes next.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Who may open the socket: its user and its group.
const SOCKET_MODE: u32 = 0o660;

/// Opens the lock file, or makes it. It must be this user's alone: another who could open it could keep the
/// sidecar from starting, and one who could put a link there would have it make a file elsewhere.
fn open_lock(path: PathBuf) -> Result<File, ListenError> {
    let no_follow = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let opened = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(LOCK_MODE)
        .custom_flags(no_follow)
        .open(&path)
        .and_then(|lock| Ok((lock.metadata()?, lock)));
    let (there, lock) = match opened {
        Ok(opened) => opened,
        Err(source) => return Err(ListenError::LockFile { path, source }),
    };
    let user = rustix::process::geteuid().as_raw();
    let mode = there.mode() & 0o7777;
    if !there.is_file() || there.uid() != user || mode & !LOCK_MODE != 0 {
        return Err(ListenError::LockFileOfOthers { path, owner: there.uid(), mode, user });
    }
    Ok(lock)
}

/// Who may open the lock file: its user.
const LOCK_MODE: u32 = 0o600;

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The error of a file that could not be read.
pub(in crate::grpc) fn unreadable<'path>(
    key: &'static str,
    path: &'path Path,
) -> impl FnOnce(io::Error) -> ListenError + use<'path> {
    move |source| ListenError::File { key, path: path.to_owned(), source }
}

#[cfg(test)]
#[path = "listen_tests.rs"]
mod tests;
