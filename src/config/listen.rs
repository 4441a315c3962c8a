//! The sections `listen` and `limits`: where callers come in, who may, and how many.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::memory::{self, Bytes};
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
    /// A Unix socket that answers health probes only. Default: none.
    pub probes: Option<PathBuf>,
    /// TLS on the TCP address. Default: none.
    pub tls: Option<Tls>,
    /// A file of bearer tokens, one a line: callers must show one. Default: none.
    pub token_file: Option<PathBuf>,
    /// Whether strangers may come in on an address other than loopback, or tokens be sent there in plain
    /// text. Default: false.
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
    /// What strangers can do, with these rules of `access`; none where they can do nothing, or only on this
    /// machine.
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
    /// Memory that the process may use. Default: three quarters of the container's, else 256 MiB.
    pub memory: Bytes,
    /// Connections at each listener that make calls. This default and the next four fit into `memory`.
    pub connections: usize,
    /// Streams a connection, 256 at the least and by default.
    pub streams_per_connection: usize,
    /// Holds at once.
    pub holds: usize,
    /// Holds that were resumed here, beside those. Default: as many as `holds`.
    pub resumes: usize,
    /// Waiting callers and subscribers of schedules at once.
    pub waiters: usize,
    /// Watches of locks at once.
    pub watchers: usize,
    /// Locks that are remembered while nobody uses them. Default: 5,000.
    pub remembered_locks: usize,
    /// Runs of schedules that are started in a second at the most (T13). Default: 50.
    pub starts_per_second: usize,
    /// Bytes that the headers of a call have at the most. Default: 16 KiB.
    pub header_list_bytes: usize,
    /// Bytes of the records that are kept for watches of many locks; they follow from `memory`.
    pub followed_bytes: usize,
    /// Bytes of all requests together that are not complete; they follow from `memory`.
    pub unfinished_bytes: usize,
    /// Bytes of all calls under way and answers that are not read, which last for a moment; they follow from
    /// `memory`.
    pub unread_bytes: usize,
    /// Threads that serve callers. Default: 1.
    pub worker_threads: usize,
}

impl Limits {
    /// Calls that hold, wait or watch at once, and such whose last answer is not read: a replica that comes
    /// back for its run waits beyond `waiters` (T20).
    #[must_use]
    pub const fn lasting_calls(&self) -> usize {
        let holds = self.holds.saturating_add(self.resumes);
        holds.saturating_mul(2).saturating_add(self.waiters).saturating_add(self.watchers)
    }

    /// What they need together at the most, if that is more than `memory`.
    #[must_use]
    pub fn excess(&self) -> Option<Bytes> {
        memory::excess(self)
    }
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
    PROBES: PathBuf = Key::optional(
        "listen.probes",
        "The path of a Unix socket that answers health probes and nothing else, so that callers, however many, do not keep \
         probes waiting. Put it where only the sidecar's container reaches it.",
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
    MEMORY: Bytes = Key::found(
        "limits.memory",
        "three quarters of the container's limit, else `256MiB`",
        memory::memory,
        "How much memory the sidecar may use. The defaults of the limits below fit into it together, whatever callers do \
         (docs/sizing.md). Set it where no container limits the process.",
    );
    CONNECTIONS: usize = Key::<usize>::found(
        "limits.connections",
        "what fits into `limits.memory`, at most 4,096",
        memory::connections,
        "The greatest number of connections at each listener that have made a call. Others have places of their own, and \
         go first (docs/operations.md).",
    ).within(1, 65_536);
    STREAMS: usize = Key::<usize>::new(
        "limits.streams_per_connection",
        "256",
        "The greatest number of calls and streams at once on one connection. Clients put up to 100 holds on one, each with \
         room for a call about it (S38).",
    ).within(256, 65_536);
    HOLDS: usize = Key::<usize>::found(
        "limits.holds",
        "what fits into `limits.memory`, at most 20,000",
        memory::holds,
        "The greatest number of locks held through this sidecar at once. Locks that rest (`min_hold`) are limited with them: to as \
         many as can be held, resumed and waited for.",
    ).within(1, 1_000_000);
    RESUMES: usize = Key::<usize>::found(
        "limits.resumes",
        "as many as `limits.holds`",
        memory::resumes,
        "How many more holds there may be if their clients resume them here, as after a restart of another sidecar.",
    ).within(1, 1_000_000);
    WAITERS: usize = Key::<usize>::found(
        "limits.waiters",
        "what fits into `limits.memory`, at most 20,000",
        memory::waiters,
        "The greatest number of callers at this sidecar at once that wait for locks or subscribe to schedules, also \
         while they have a run.",
    ).within(1, 1_000_000);
    WATCHERS: usize = Key::<usize>::found(
        "limits.watchers",
        "what fits into `limits.memory`, at most 4,096",
        memory::watchers,
        "The greatest number of watches of locks at this sidecar at once.",
    ).within(1, 65_536);
    REMEMBERED_LOCKS: usize = Key::<usize>::new(
        "limits.remembered_locks",
        "5000",
        "The greatest number of locks that are remembered while nobody uses them. The least recently used one is \
         forgotten first, and costs one more request when it is acquired again.",
    ).within(0, 1_000_000);
    STARTS_PER_SECOND: usize = Key::<usize>::new(
        "limits.starts_per_second",
        "50",
        "How many runs of schedules this sidecar starts in a second at the most, so that many that are due at once do not \
         stand in the way of renewals. What is due beyond that is late, which is logged and counted.",
    ).within(1, 1_000);
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
    let probes = probes(values, unix.as_ref());
    let token_file = values.get(&TOKEN_FILE);
    if let Some(path) = &token_file {
        check_file(values, &TOKEN_FILE.setting, path);
    }
    let listen = Listen {
        tcp: values.get(&TCP)?,
        unix,
        probes,
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
    let memory = values.get(&MEMORY)?;
    Some(Limits {
        memory,
        connections: values.get(&CONNECTIONS)?,
        streams_per_connection: values.get(&STREAMS)?,
        holds: values.get(&HOLDS)?,
        resumes: values.get(&RESUMES)?,
        waiters: values.get(&WAITERS)?,
        watchers: values.get(&WATCHERS)?,
        remembered_locks: values.get(&REMEMBERED_LOCKS)?,
        starts_per_second: values.get(&STARTS_PER_SECOND)?,
        header_list_bytes: values.get(&HEADER_LIST_BYTES)?,
        followed_bytes: memory::followed(memory),
        unfinished_bytes: memory::under_way(memory),
        unread_bytes: 2 * memory::under_way(memory),
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
    check_socket(values, &UNIX.setting, &path);
    Some(UnixSocket { path, allowed_uids })
}

fn probes(values: &mut Values<'_>, unix: Option<&UnixSocket>) -> Option<PathBuf> {
    let path = values.get(&PROBES)?;
    check_socket(values, &PROBES.setting, &path);
    if unix.is_some_and(|unix| unix.path == path) {
        let problem = "listen.probes is the same socket as listen.unix: choose another path";
        values.conflict(PROBES.setting.key, problem.to_owned());
    }
    Some(path)
}

fn check_socket(values: &mut Values<'_>, setting: &Setting, path: &Path) {
    if !path.is_absolute() || path.as_os_str().len() > MAX_SOCKET_PATH {
        let problem = format!("must be an absolute path of at most {MAX_SOCKET_PATH} bytes");
        values.bad(setting.key, Some(path.display().to_string()), problem);
    }
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
