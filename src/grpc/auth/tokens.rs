//! Bearer tokens of a file.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};

/// The tokens of a file, one a line, which is read again when it has changed. Only their digests are kept,
/// and those are what is compared, so that the time that a comparison takes says nothing about a token (S20).
pub(in crate::grpc) struct Tokens {
    path: PathBuf,
    read: Mutex<Read>,
}

#[derive(Default)]
struct Read {
    version: Option<Version>,
    digests: Vec<[u8; 32]>,
    /// Whether the file could not be read, which is said once.
    is_unreadable: bool,
}

/// What changes when a file is written or replaced.
type Version = (Option<SystemTime>, u64, u64);

impl std::fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Tokens").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Tokens {
    pub(in crate::grpc) fn open(path: &Path) -> io::Result<Self> {
        let (version, digests) = read(path)?;
        if digests.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it contains no token"));
        }
        let read = Mutex::new(Read { version: Some(version), digests, is_unreadable: false });
        Ok(Self { path: path.to_owned(), read })
    }

    /// Whether a token with this digest is in the file now.
    pub(in crate::grpc) fn contain(&self, digest: &[u8; 32]) -> bool {
        let mut known = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let version = fs::metadata(&self.path).map(|metadata| version(&metadata)).ok();
        if version.is_none() || version != known.version {
            *known = self.read_again(known.is_unreadable);
        }
        known.digests.contains(digest)
    }

    /// A file that cannot be read accepts nobody: deleting it revokes its tokens.
    fn read_again(&self, was_unreadable: bool) -> Read {
        match read(&self.path) {
            Ok((version, digests)) => {
                let tokens = digests.len();
                tracing::info!(file = %self.path.display(), tokens, "the token file has changed and is used");
                Read { version: Some(version), digests, is_unreadable: false }
            }
            Err(error) => {
                if !was_unreadable {
                    tracing::error!(file = %self.path.display(), %error, "the token file cannot be read: none of its tokens is accepted");
                }
                Read { is_unreadable: true, ..Read::default() }
            }
        }
    }
}

fn read(path: &Path) -> io::Result<(Version, Vec<[u8; 32]>)> {
    let version = version(&fs::metadata(path)?);
    let text = fs::read_to_string(path)?;
    let tokens = text.lines().map(str::trim).filter(|token| !token.is_empty());
    Ok((version, tokens.map(digest).collect()))
}

fn version(metadata: &fs::Metadata) -> Version {
    (metadata.modified().ok(), metadata.len(), metadata.ino())
}

/// The SHA-256 of a token.
pub(in crate::grpc) fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn s20_the_tokens_of_now_are_known() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "first-token\n\n  second-token  ").unwrap();
        let tokens = Tokens::open(file.path()).unwrap();
        let known = |token: &str| tokens.contain(&digest(token));
        assert!(!known("first") && !known("") && known("second-token"));
        writeln!(file, "third-token").unwrap();
        assert!(known("third-token"));
        drop(file);
        assert!(!known("third-token"));
        assert!(!format!("{tokens:?}").contains("token\""), "{tokens:?}");
    }

    #[test]
    fn a_token_file_without_a_token_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(Tokens::open(file.path()).is_err());
    }
}
