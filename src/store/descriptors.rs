//! File descriptors that are missing: to open a file or a connection needs one, and a process may have only
//! so many.

use std::error::Error;
use std::fmt;
use std::io;
use std::os::unix::net::UnixDatagram;

use rustix::io::Errno;

/// Who has no file descriptor left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoDescriptor {
    /// This process has as many as it may.
    Process,
    /// All processes of the machine together have as many as they may.
    Machine,
}

impl NoDescriptor {
    fn of_io(error: &io::Error) -> Option<Self> {
        match Errno::from_io_error(error) {
            Some(Errno::MFILE) => Some(Self::Process),
            Some(Errno::NFILE) => Some(Self::Machine),
            Some(_) | None => None,
        }
    }

    /// Whether this is what an error comes from.
    pub(super) fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut error = Some(error);
        while let Some(this) = error {
            let io = this.downcast_ref::<io::Error>();
            if let Some(none) = io.and_then(Self::of_io) {
                return Some(none);
            }
            // Its source is that of what is in it.
            let inner = io.and_then(|io| io.get_ref());
            error = inner.map(|inner| inner as _).or_else(|| this.source());
        }
        None
    }

    /// Whether there is none at this moment, for errors that do not say what they come from.
    pub(super) fn now() -> Option<Self> {
        UnixDatagram::unbound().err().and_then(|error| Self::of_io(&error))
    }

    /// What the operator can do.
    pub(super) const fn advice(self) -> &'static str {
        match self {
            Self::Process => {
                "raise the limit of open files of this process (LimitNOFILE= of a systemd unit, ulimits of a container, \
                 ulimit -n of a shell), or lower limits.connections"
            }
            Self::Machine => {
                "raise the limit of open files of the machine (sysctl fs.file-max), or find out which process has so many"
            }
        }
    }
}

impl fmt::Display for NoDescriptor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Process => "this process has too many open files",
            Self::Machine => "the machine has too many open files",
        })
    }
}

impl Error for NoDescriptor {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s18_what_an_error_comes_from_is_found_wherever_it_stands() {
        let os = |errno: Errno| io::Error::from_raw_os_error(errno.raw_os_error());
        let within = |error| io::Error::other(io::Error::other(error));
        assert_eq!(NoDescriptor::of(&os(Errno::MFILE)), Some(NoDescriptor::Process));
        assert_eq!(NoDescriptor::of(&within(os(Errno::NFILE))), Some(NoDescriptor::Machine));
        assert_eq!(NoDescriptor::of(&within(os(Errno::CONNREFUSED))), None);
        assert_eq!(NoDescriptor::now(), None);
    }
}
