//! The sections `listen` and `limits`: where callers come in, who may, and how many.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::setting::{Key, Setting, settings};
use super::values::Values;
use crate::access::Rule;

/// Where callers come in, and who may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The TCP address. Default: 127.0.0.1:50951.
    pub tcp: Option<SocketAddr>,
    /// The Unix socket. Default: none. At least one of the two is there.
    pub unix: Option<UnixSocket>,
    /// TLS on the TCP address. Default: none.
    pub tls: Option<Tls>,
    /// A file of bearer tokens, one a line: callers must show one. Default: none.
    pub token_file: Option<PathBuf>,
    /// Whether strangers may come in on an address other than loopback, or tokens be sent there in plain text. Default: false.
    pub insecure: bool,
    /// Whether nothing is between callers and the TCP address, such as a proxy. Default: false.
    pub direct: bool,
}

/// What strangers can do at an address that other machines reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// Acquire and release locks.
    Everybody,
    /// Read what callers send: tokens and lease ids.
    PlainText,
}

impl Listen {
    /// What strangers can do, with these rules of `access`; none where they can do nothing, or only on this machine.
    #[must_use]
    pub fn exposure(&self, access: &[Rule]) -> Option<Exposure> {
        self.tcp.filter(|address| !address.ip().is_loopback())?;
        let guarded = self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some())
            || self.token_file.is_some()
            || !access.is_empty();
        match (guarded, &self.tls) {
            (false, _) => Some(Exposure::Everybody),
            (true, None) => Some(Exposure::PlainText),
            (true, Some(_)) => None,
        }
    }
}

/// A Unix domain socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixSocket {
    /// Where it is made: absolute, at most 107 bytes.
    pub path: PathBuf,
    /// The users who may come in; if there are none, whoever the socket's mode 0660 lets in.
    pub allowed_uids: Vec<u32>,
}

/// Certificates, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The file of the server's certificate chain.
    pub certificate: PathBuf,
    /// The file of its private key.
    pub key: PathBuf,
    /// The file of the authorities whose clients may come in; without, clients show no certificate.
    pub client_ca: Option<PathBuf>,
    /// The file of lists of clients' certificates that were revoked, by those authorities.
    pub crl: Option<PathBuf>,
}

/// How many may come in at once; what is over is refused, not queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once. Default: 128.
    pub connections: usize,
    /// Streams a connection. Default: 256.
    pub streams_per_connection: usize,
    /// Holds at once. Default: 20,000.
    pub holds: usize,
    /// Waiting callers at once. Default: 20,000.
    pub waiters: usize,
    /// Locks that are remembered while nobody uses them. Default: 5,000.
    pub remembered_locks: usize,
    /// Bytes that the headers of a call have at the most. Default: 16 KiB.
    pub header_list_bytes: usize,
    /// Threads that serve callers. Default: 1.
    pub worker_threads: usize,
}

/// Bytes that a Unix socket's path has at the most, by the system.
const MAX_SOCKET_PATH: usize = 107;

settings! {
    TCP: Option<SocketAddr> = Key::new(
        "listen.tcp",
        "127.0.0.1:50951",
        "The TCP address for callers. Any other than loopback needs TLS, and `listen.tls.client_ca`, `listen.token_file` \
         or rules of `access`; or `listen.insecure`.",
    );
    UNIX: PathBuf = Key::optional(
        "listen.unix",
        "The path of a Unix socket for callers of this machine, created with mode 0660.",
    );
    UNIX_ALLOWED_UIDS: Vec<u32> = Key::new(
        "listen.unix_allowed_uids",
        "[]",
        "The user ids that may connect to the Unix socket. Empty: all users that the socket's mode allows.",
    );
    CERTIFICATE: PathBuf = Key::optional(
        "listen.tls.certificate",
        "The PEM file of the server's certificate chain.",
    );
    KEY: PathBuf = Key::optional(
        "listen.tls.key",
        "The PEM file of the private key of `listen.tls.certificate`.",
    );
    CLIENT_CA: PathBuf = Key::optional(
        "listen.tls.client_ca",
        "The PEM file of the authorities that sign clients' certificates; then every TCP client must present one.",
    );
    CRL: PathBuf = Key::optional(
        "listen.tls.crl",
        "The PEM file of certificate revocation lists: one of each authority that signs clients' certificates, or signs \
         an authority between. A certificate in them is refused, and its open connections are closed.",
    );
    TOKEN_FILE: PathBuf = Key::optional(
        "listen.token_file",
        "A file of bearer tokens, one per line; then every TCP caller must send one (`authorization: Bearer …`).",
    );
    INSECURE: bool = Key::new(
        "listen.insecure",
        "false",
        "Whether clients may connect to an address other than loopback without TLS, so that whoever is on the way can read \
         their tokens and lease ids; and, without tokens or rules, whether any client may acquire and release locks. The \
         sidecar logs a warning at each start.",
    );
    DIRECT: bool = Key::new(
        "listen.direct",
        "false",
        "Whether TCP callers reach the sidecar without a proxy in between: then a stream that its client cancels or \
         closes over the network releases its lock at once, instead of when its validity ends.",
    );
    CONNECTIONS: usize = Key::<usize>::new(
        "limits.connections",
        "128",
        "The greatest number of connections at once.",
    ).within(1, 65_536);
    STREAMS: usize = Key::<usize>::new(
        "limits.streams_per_connection",
        "256",
        "The greatest number of calls and streams at once on one connection.",
    ).within(1, 65_536);
    HOLDS: usize = Key::<usize>::new(
        "limits.holds",
        "20000",
        "The greatest number of locks held through this sidecar at once.",
    ).within(1, 1_000_000);
    WAITERS: usize = Key::<usize>::new(
        "limits.waiters",
        "20000",
        "The greatest number of callers waiting for locks at this sidecar at once.",
    ).within(1, 1_000_000);
    REMEMBERED_LOCKS: usize = Key::<usize>::new(
        "limits.remembered_locks",
        "5000",
        "The greatest number of locks that are remembered while nobody uses them. The least recently used one is \
         forgotten first, and costs one more request when it is acquired again.",
    ).within(0, 1_000_000);
    HEADER_LIST_BYTES: usize = Key::<usize>::new(
        "limits.header_list_bytes",
        "16384",
        "The greatest size of a call's headers, in bytes.",
    ).within(4_096, 1_048_576);
    WORKER_THREADS: usize = Key::<usize>::new(
        "limits.worker_threads",
        "1",
        "How many threads serve callers. One is best for most sidecars. A second one helps if many concurrent callers \
         keep the first one busy, above all with TLS, and if a core is free for it (docs/performance.md).",
    ).within(1, 64);
}

pub(super) fn read(values: &mut Values<'_>, access: &[Rule]) -> Option<Listen> {
    let (unix, tls) = (unix(values), tls(values));
    let token_file = values.get(&TOKEN_FILE);
    if let Some(path) = &token_file {
        check_file(values, &TOKEN_FILE.setting, path);
    }
    let listen = Listen {
        tcp: values.get(&TCP)?,
        unix,
        tls,
        token_file,
        insecure: values.get(&INSECURE)?,
        direct: values.get(&DIRECT)?,
    };
    if !values.is_mistaken("listen") && !values.is_mistaken("access") {
        check_together(values, &listen, access);
    }
    Some(listen)
}

pub(super) fn read_limits(values: &Values<'_>) -> Option<Limits> {
    Some(Limits {
        connections: values.get(&CONNECTIONS)?,
        streams_per_connection: values.get(&STREAMS)?,
        holds: values.get(&HOLDS)?,
        waiters: values.get(&WAITERS)?,
        remembered_locks: values.get(&REMEMBERED_LOCKS)?,
        header_list_bytes: values.get(&HEADER_LIST_BYTES)?,
        worker_threads: values.get(&WORKER_THREADS)?,
    })
}

fn unix(values: &mut Values<'_>) -> Option<UnixSocket> {
    let allowed_uids = values.get(&UNIX_ALLOWED_UIDS).unwrap_or_default();
    let Some(path) = values.get(&UNIX) else {
        if !allowed_uids.is_empty() && !values.is_mistaken(UNIX.setting.key) {
            let problem = "listen.unix_allowed_uids is set, and listen.unix is not: set it";
            values.conflict(UNIX_ALLOWED_UIDS.setting.key, problem.to_owned());
        }
        return None;
    };
    if !path.is_absolute() || path.as_os_str().len() > MAX_SOCKET_PATH {
        let problem = format!("must be an absolute path of at most {MAX_SOCKET_PATH} bytes");
        values.bad(UNIX.setting.key, Some(path.display().to_string()), problem);
    }
    Some(UnixSocket { path, allowed_uids })
}

fn tls(values: &mut Values<'_>) -> Option<Tls> {
    let rows = [CERTIFICATE, KEY, CLIENT_CA, CRL];
    if values.is_mistaken("listen.tls") || rows.iter().all(|row| values.get(row).is_none()) {
        return None;
    }
    let certificate = values.require(&CERTIFICATE, "TLS needs a certificate");
    let key = values.require(&KEY, "TLS needs the certificate's private key");
    for row in &rows {
        if let Some(path) = values.get(row) {
            check_file(values, &row.setting, &path);
        }
    }
    let (client_ca, crl) = (values.get(&CLIENT_CA), values.get(&CRL));
    if client_ca.is_none() && crl.is_some() {
        let problem = "listen.tls.crl is about clients' certificates, and no client has to present one: set listen.tls.client_ca";
        values.conflict(CRL.setting.key, problem.to_owned());
    }
    Some(Tls { certificate: certificate?, key: key?, client_ca, crl })
}

pub(super) fn check_file(values: &mut Values<'_>, setting: &Setting, path: &Path) {
    let Some(bytes) = values.read_file(setting.key, path) else { return };
    if bytes.trim_ascii().is_empty() {
        let problem = "names a file that is empty".to_owned();
        values.bad(setting.key, Some(path.display().to_string()), problem);
    }
}

fn check_together(values: &mut Values<'_>, listen: &Listen, access: &[Rule]) {
    let Some(address) = listen.tcp else {
        if listen.unix.is_none() {
            let problem = "no client can connect: listen.tcp is off and listen.unix is not set; set one of them";
            values.conflict(TCP.setting.key, problem.to_owned());
        }
        if listen.tls.is_some() {
            let problem =
                "listen.tls is for listen.tcp, which is off: set an address, or remove listen.tls";
            values.conflict(CERTIFICATE.setting.key, problem.to_owned());
        }
        return;
    };
    let problem = match listen.exposure(access) {
        Some(Exposure::Everybody) => {
            "require client certificates (listen.tls.certificate, listen.tls.key, listen.tls.client_ca) or bearer tokens \
             (listen.token_file), or write rules (access), or allow every client to acquire and release locks \
             (listen.insecure = true)"
        }
        Some(Exposure::PlainText) => {
            "its callers' tokens would be sent in plain text: encrypt them (listen.tls.certificate, listen.tls.key), or \
             allow that (listen.insecure = true) where something else encrypts, such as a mesh"
        }
        None => return,
    };
    if !listen.insecure {
        values.conflict(
            TCP.setting.key,
            format!("listen.tcp = {address} can be reached from other machines: {problem}"),
        );
    }
}
