//! Who may connect: by a bearer token over TCP, by user id over the Unix socket.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};
use tonic::service::Interceptor;
use tonic::{Request, Status};

use super::connection::peer_of;
use super::status;

/// Admits callers, or says what they lack.
#[derive(Clone, Debug)]
pub(super) enum Guard {
    /// Whoever reached the listener.
    Everybody,
    /// Processes of these users.
    Users(Arc<[u32]>),
    /// Callers with one of the file's tokens.
    Tokens(Arc<Tokens>),
}

impl Interceptor for Guard {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        match self {
            Self::Everybody => Ok(request),
            Self::Users(allowed) => match peer_of(&request).and_then(|peer| peer.user) {
                Some(user) if allowed.contains(&user) => Ok(request),
                user => {
                    let user = user.map_or_else(|| "unknown".to_owned(), |user| user.to_string());
                    let problem = format!(
                        "processes of user id {user} may not use this socket (listen.unix_allowed_uids)"
                    );
                    Err(status::user_not_allowed(&problem))
                }
            },
            Self::Tokens(tokens) => {
                let sent = request.metadata().get("authorization");
                let sent = sent.and_then(|value| value.to_str().ok());
                match sent.and_then(|value| value.strip_prefix("Bearer ")) {
                    None => Err(status::unauthenticated(
                        "send a token of listen.token_file as metadata: authorization: Bearer TOKEN",
                    )),
                    Some(token) if tokens.know(token) => Ok(request),
                    Some(_) => {
                        Err(status::unauthenticated("the bearer token is not in listen.token_file"))
                    }
                }
            }
        }
    }
}

/// The tokens of a file, one a line, which is read again when it has changed. Only their digests are kept, and those
/// are what is compared, so that the time that a comparison takes says nothing about a token (S20).
pub(super) struct Tokens {
    path: PathBuf,
    read: Mutex<Read>,
}

#[derive(Default)]
struct Read {
    version: Option<Version>,
    digests: Vec<[u8; 32]>,
}

/// What changes when a file is written or replaced.
type Version = (Option<SystemTime>, u64, u64);

impl std::fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Tokens").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Tokens {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let (version, digests) = read(path)?;
        if digests.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it contains no token"));
        }
        let read = Mutex::new(Read { version: Some(version), digests });
        Ok(Self { path: path.to_owned(), read })
    }

    fn know(&self, token: &str) -> bool {
        let mut known = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let version = fs::metadata(&self.path).map(|metadata| version(&metadata)).ok();
        if version.is_none() || version != known.version {
            // A file that cannot be read admits nobody: removing it revokes its tokens.
            *known = match read(&self.path) {
                Ok((version, digests)) => Read { version: Some(version), digests },
                Err(error) => {
                    tracing::error!(file = %self.path.display(), %error, "the token file cannot be read: every TCP caller is refused");
                    Read::default()
                }
            };
        }
        known.digests.contains(&digest(token))
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

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn ask(guard: &mut Guard, authorization: Option<&str>) -> Result<(), tonic::Code> {
        let mut request = Request::new(());
        if let Some(value) = authorization {
            request.metadata_mut().insert("authorization", value.parse().unwrap());
        }
        guard.call(request).map(drop).map_err(|status| status.code())
    }

    #[test]
    fn s20_a_caller_needs_one_of_the_tokens_of_now() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "first-token\n\n  second-token  ").unwrap();
        let mut guard = Guard::Tokens(Arc::new(Tokens::open(file.path()).unwrap()));
        let refused = Err(tonic::Code::Unauthenticated);
        assert_eq!(ask(&mut guard, None), refused);
        assert_eq!(ask(&mut guard, Some("Bearer first")), refused);
        assert_eq!(ask(&mut guard, Some("first-token")), refused);
        assert_eq!(ask(&mut guard, Some("Bearer ")), refused);
        assert_eq!(ask(&mut guard, Some("Bearer second-token")), Ok(()));
        writeln!(file, "third-token").unwrap();
        assert_eq!(ask(&mut guard, Some("Bearer third-token")), Ok(()));
        drop(file);
        assert_eq!(ask(&mut guard, Some("Bearer third-token")), refused);
        assert!(!format!("{guard:?}").contains("token\""), "{guard:?}");
    }

    #[test]
    fn a_token_file_without_a_token_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(Tokens::open(file.path()).is_err());
    }

    #[test]
    fn only_the_users_allowed_come_in_by_the_socket() {
        let mut guard = Guard::Users(Arc::new([7]));
        let come = |guard: &mut Guard, user| {
            use super::super::connection::{Connection, Origin};
            use tonic::transport::server::Connected as _;
            let connection = Connection::new((), Origin::Socket).by_user(user);
            let mut request = Request::new(());
            request.extensions_mut().insert(connection.connect_info());
            guard.call(request).map(drop).map_err(|status| status.code())
        };
        assert_eq!(come(&mut guard, Some(7)), Ok(()));
        assert_eq!(come(&mut guard, Some(8)), Err(tonic::Code::PermissionDenied));
        assert_eq!(come(&mut guard, None), Err(tonic::Code::PermissionDenied));
    }
}
