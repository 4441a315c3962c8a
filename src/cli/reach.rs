//! What is at an endpoint where no sidecar answers as one: told when a command has failed for it.

use std::fs;
use std::io::{Error as IoError, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use leasehold_client::{Code, Error as ClientError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};

use super::exit::UnavailableError;

/// How long each step of a look may take: it comes after the error that it explains.
const LOOK: Duration = Duration::from_secs(1);
/// Bytes of an answer that are read.
const READ: usize = 4_096;

/// The one endpoint that a command asks.
static ASKED: OnceLock<String> = OnceLock::new();

/// Notes where the sidecar is said to be.
pub(super) fn asks(endpoint: &str) {
    // A command has one endpoint, however often it connects.
    let _ = ASKED.set(endpoint.to_owned());
}

/// The error, or what is at the endpoint instead of a sidecar, where that is known.
pub(super) async fn explained(error: anyhow::Error) -> anyhow::Error {
    let client = error.chain().find_map(|cause| cause.downcast_ref::<ClientError>());
    let Some(endpoint) = ASKED.get().filter(|_| client.is_some_and(is_of_connection)) else {
        return error;
    };
    match found(endpoint).await {
        Some(found) => UnavailableError(found).into(),
        None => error,
    }
}

fn is_of_connection(error: &ClientError) -> bool {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the client's errors may grow")]
    match error {
        ClientError::Unreachable { .. } => true,
        // What a sidecar says has a reason.
        ClientError::Refused(refusal) => {
            let codes = [Code::Unavailable, Code::Unknown, Code::Internal, Code::Unimplemented];
            refusal.reason.is_none() && codes.contains(&refusal.code)
        }
        _ => false,
    }
}

async fn found(endpoint: &str) -> Option<String> {
    if let Some(path) = endpoint.strip_prefix("unix://") {
        return of_socket(Path::new(path)).await;
    }
    let is_secure = endpoint.starts_with("https://");
    let (_, rest) = endpoint.split_once("://")?;
    let address = rest.trim_end_matches('/');
    match (peer(address).await?, is_secure) {
        (Peer::Admin, _) => Some(format!(
            "{endpoint} is the admin port of a sidecar (admin.listen), which serves health, metrics and the page: give the \
             address of its listen.tcp, by default {}",
            leasehold_client::DEFAULT_ENDPOINT
        )),
        (Peer::Http(server), _) => {
            let server = server.map(|server| format!(" ({server})")).unwrap_or_default();
            Some(format!(
                "an HTTP server{server} answers at {endpoint}, and no sidecar: say where the sidecar is with --endpoint or \
                 LEASEHOLD_ENDPOINT"
            ))
        }
        (Peer::Tls, false) => Some(format!(
            "what answers at {endpoint} speaks TLS: write https://{address}, with --ca-file for the authority of its certificate"
        )),
        (Peer::Grpc, true) => Some(format!(
            "what answers at {endpoint} does not speak TLS: write http://{address}, or set listen.tls at the sidecar"
        )),
        (Peer::Tls, true) | (Peer::Grpc, false) | (Peer::Other, _) => None,
    }
}

/// What listens at a TCP address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// A sidecar's admin port.
    Admin,
    /// An HTTP server, by the name that it gives itself.
    Http(Option<String>),
    /// A server that takes TLS only.
    Tls,
    /// A server of HTTP/2 only, as of gRPC.
    Grpc,
    /// Something else, or nobody who says anything.
    Other,
}

/// Asks as a health probe does, and then as a client of gRPC; none where nobody listens.
pub(super) async fn peer(address: &str) -> Option<Peer> {
    let probe = format!("GET /livez HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let known = of_answer(&answer_to(probe.as_bytes(), address).await?);
    if known != Peer::Other {
        return Some(known);
    }
    Some(of_answer(&answer_to(PREFACE, address).await?))
}

/// What a client of HTTP/2 begins with: the preface, and an empty frame SETTINGS.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// The first bytes that come back.
async fn answer_to(question: &[u8], address: &str) -> Option<Vec<u8>> {
    let connected = tokio::time::timeout(LOOK, TcpStream::connect(address)).await;
    let mut stream = connected.ok()?.ok()?;
    let mut answer = Vec::new();
    let asking = async {
        stream.write_all(question).await?;
        while answer.len() < READ && stream.read_buf(&mut answer).await? > 0 {
            // A frame of HTTP/2 tells enough, and nothing ends its connection.
            if question == PREFACE {
                break;
            }
        }
        Ok::<_, IoError>(())
    };
    // What has come by then tells enough.
    let _ = tokio::time::timeout(LOOK, asking).await;
    Some(answer)
}

fn of_answer(answer: &[u8]) -> Peer {
    // A TLS alert, and a frame SETTINGS or GOAWAY of HTTP/2.
    match answer {
        [0x15, 0x03, ..] => return Peer::Tls,
        [0, _, _, 0x4 | 0x7, ..] => return Peer::Grpc,
        _ => {}
    }
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n").filter(|_| text.starts_with("HTTP/1."))
    else {
        return Peer::Other;
    };
    let mut lines = head.lines();
    let is_good = lines.next().is_some_and(|status| status.contains(" 200"));
    if is_good && body.trim() == "alive" {
        return Peer::Admin;
    }
    let server = lines.filter_map(|line| line.split_once(':')).find_map(|(name, value)| {
        name.eq_ignore_ascii_case("server")
            .then(|| crate::text::printable(value.trim()).into_owned())
    });
    Peer::Http(server)
}

/// Why a socket that is there cannot be connected to.
async fn of_socket(path: &Path) -> Option<String> {
    let shown = path.display();
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => of_folder(path),
        Err(_) => None,
        Ok(there) if !there.file_type().is_socket() => Some(format!(
            "{shown} is there, and is not a socket: give the path of the sidecar's listen.unix"
        )),
        Ok(there) => match UnixStream::connect(path).await {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Some(format!(
                "the socket {shown} may not be opened: {}: run the command as that user or in that group",
                Access::of(&there).text(&Names::of_system())
            )),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Some(format!(
                "nobody listens on the socket {shown}: its sidecar has ended; start one with `leasehold serve`"
            )),
            Ok(_) | Err(_) => None,
        },
    }
}

/// The first folder above that may not be entered.
fn of_folder(path: &Path) -> Option<String> {
    let mut above: Vec<PathBuf> = path.ancestors().skip(1).map(Path::to_owned).collect();
    above.reverse();
    let denied = |inside: &Path| {
        let looked = fs::symlink_metadata(inside.join("."));
        looked.is_err_and(|error: IoError| error.kind() == ErrorKind::PermissionDenied)
    };
    let folder = above.into_iter().find(|folder| denied(folder))?;
    let there = fs::symlink_metadata(&folder).ok()?;
    Some(format!(
        "the folder {} of the socket may not be entered: {}: run the command as that user or in that group",
        folder.display(),
        Access::of(&there).text(&Names::of_system())
    ))
}

/// Who may open something, and who we are.
struct Access {
    owner: u32,
    group: u32,
    mode: u32,
    user: u32,
}

impl Access {
    fn of(there: &fs::Metadata) -> Self {
        let user = rustix::process::geteuid().as_raw();
        Self { owner: there.uid(), group: there.gid(), mode: there.mode() & 0o7777, user }
    }

    fn text(&self, names: &Names) -> String {
        format!(
            "it belongs to user {} and group {}, with mode {:04o}, and this process runs as user {}",
            name(&names.users, self.owner),
            name(&names.groups, self.group),
            self.mode,
            name(&names.users, self.user)
        )
    }
}

/// The names of users and groups: `/etc/passwd` and `/etc/group`, as far as they can be read.
struct Names {
    users: String,
    groups: String,
}

impl Names {
    fn of_system() -> Self {
        let read = |file| fs::read_to_string(file).unwrap_or_default();
        Self { users: read("/etc/passwd"), groups: read("/etc/group") }
    }
}

/// A number with its name, if it has one.
fn name(table: &str, number: u32) -> String {
    let name = table.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(number)).then(|| crate::text::printable(name).into_owned())
    });
    name.map_or_else(|| number.to_string(), |name| format!("{name} ({number})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_answers_is_known_by_its_first_bytes() {
        let admin = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nalive\n";
        assert_eq!(of_answer(admin), Peer::Admin);
        let nginx = b"HTTP/1.1 404 Not Found\r\nServer: nginx/1.27\r\n\r\n<html>";
        assert_eq!(of_answer(nginx), Peer::Http(Some("nginx/1.27".to_owned())));
        let other = b"HTTP/1.1 200 OK\r\n\r\nhello";
        assert_eq!(of_answer(other), Peer::Http(None));
        assert_eq!(of_answer(&[0x15, 0x03, 0x03, 0, 2, 2, 40]), Peer::Tls);
        assert_eq!(of_answer(&[0, 0, 24, 4, 0, 0, 0, 0, 0]), Peer::Grpc);
        assert_eq!(of_answer(b"SSH-2.0-OpenSSH\r\n"), Peer::Other);
        assert_eq!(of_answer(b""), Peer::Other);
    }

    #[test]
    fn whoever_may_open_a_socket_is_named() {
        let names = Names {
            users: "root:x:0:0:root:/root:/bin/sh\nkeeper:x:70:70::/:/bin/false".to_owned(),
            groups: "root:x:0:\nlocks:x:71:keeper".to_owned(),
        };
        let access = Access { owner: 70, group: 71, mode: 0o660, user: 4_711 };
        assert_eq!(
            access.text(&names),
            "it belongs to user keeper (70) and group locks (71), with mode 0660, and this process runs as user 4711"
        );
    }
}
