//! The real binary under callers that say nothing, say half, or ask for all there is (S38): others are
//! served, and its memory stays within its limit. `LEASEHOLD_TEST_DOOR_SECONDS=120` is the long form, and
//! `LEASEHOLD_TEST_PROGRAM` names another program than the tests' own, such as the released one.

mod crowd;
mod descriptors;
mod fleet;
mod floods;
mod memory;

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use leasehold_client::proto::lease_service_client::LeaseServiceClient;
use leasehold_client::proto::{
    Grant, HoldLeaseRequest, HoldLeaseResponse, LeaseSpec, LockKey, ReleaseLeaseRequest,
    ReleaseOutcome, ResolvePathRequest, hold_lease_request, hold_lease_response,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

use crate::faults::process::{event, program, until};

const MIB: u64 = 1024 * 1024;

/// A sidecar with an address, a socket, a socket for probes, and admin HTTP.
struct Sidecar {
    folder: tempfile::TempDir,
    child: Child,
    address: SocketAddr,
    admin: SocketAddr,
    /// By which clients know it, and it knows them.
    tls: Option<Certificates>,
}

impl Sidecar {
    async fn start(settings: &[&str]) -> Self {
        Self::start_by(Command::new(program()), settings).await
    }

    /// The same by a command that becomes it.
    async fn start_by(command: Command, settings: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), command, settings, None).await
    }

    /// One whose clients by TCP must show a certificate.
    async fn with_certificates(settings: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let certificates = Certificates::new(folder.path());
        let command = Command::new(program());
        Self::start_in(folder, command, settings, Some(certificates)).await
    }

    async fn start_in(
        folder: tempfile::TempDir,
        mut command: Command,
        settings: &[&str],
        tls: Option<Certificates>,
    ) -> Self {
        // Both at once, so that they are two.
        let free = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let [address, admin] = free.map(|free| free.local_addr().unwrap());
        let log = File::create(folder.path().join("log")).unwrap();
        command.arg("serve");
        let at = |name: &str| folder.path().join(name).display().to_string();
        let mut ours = vec![
            format!("listen.tcp={address}"),
            format!("listen.unix={}", at("s")),
            format!("listen.probes={}", at("p")),
            format!("admin.listen={admin}"),
            "host_id.host_type=door".to_owned(),
        ];
        if !settings.iter().any(|setting| setting.starts_with("store.")) {
            ours.push("store.kind=memory".to_owned());
        }
        if tls.is_some() {
            ours.extend(
                ["certificate", "key"].map(|name| format!("listen.tls.{name}={}", at(name))),
            );
            ours.push(format!("listen.tls.client_ca={}", at("authority")));
        }
        for setting in ours.iter().map(String::as_str).chain(settings.iter().copied()) {
            command.args(["--set", setting]);
        }
        let child = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = child.spawn().unwrap();
        let sidecar = Self { folder, child, address, admin, tls };
        let probe = || {
            let mut probe = Command::new(program());
            let endpoint = format!("unix://{}", sidecar.socket("p").display());
            probe.args(["probe", "--endpoint", &endpoint]).stderr(Stdio::null());
            probe.stdout(Stdio::null()).status().unwrap().success().then_some(())
        };
        until("the sidecar is up", || sidecar.log(), probe).await;
        sidecar
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn unix(&self) -> Way {
        Way::Unix(self.socket("s"))
    }

    fn probes(&self) -> Way {
        Way::Unix(self.socket("p"))
    }

    /// Over TCP from one of this machine's addresses, with whatever a caller needs.
    fn tcp(&self, last: u8) -> Way {
        let socket = Way::Tcp { from: Ipv4Addr::new(127, 0, 0, last), to: self.address };
        match &self.tls {
            None => socket,
            Some(tls) => Way::Tls(Box::new(socket), Arc::clone(&tls.known)),
        }
    }

    /// A socket of its TCP listener, or of admin HTTP.
    fn bare(&self, last: u8, admin: bool) -> Way {
        let to = if admin { self.admin } else { self.address };
        Way::Tcp { from: Ipv4Addr::new(127, 0, 0, last), to }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// A line of its status, in bytes.
    fn memory(&self, what: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
        let kib: u64 = line.trim_matches([':', ' ', '\t', 'k', 'B']).parse().unwrap();
        kib * 1024
    }

    /// The value of a series.
    async fn metric(&self, series: &str) -> u64 {
        let metrics = get(self.admin, 5, "/metrics").await.unwrap();
        let line = metrics.lines().find_map(|line| line.strip_prefix(series));
        line.unwrap_or_else(|| panic!("there is no {series}")).trim().parse().unwrap()
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("a sidecar wrote:\n{}", self.log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What clients of TLS are let in by.
struct Certificates {
    /// Of a client that shows a certificate.
    known: Arc<ClientConfig>,
    /// Of one that shows none.
    unknown: Arc<ClientConfig>,
}

impl Certificates {
    /// An authority of the test's own, with the sidecar's files in this folder.
    fn new(folder: &Path) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let issued = || {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
            (params.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem())
        };
        let (certificate, key) = issued();
        let files = [("authority", issuer.pem()), ("certificate", certificate), ("key", key)];
        for (name, text) in files {
            std::fs::write(folder.join(name), text).unwrap();
        }
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(issuer.pem().as_bytes()).unwrap()).unwrap();
        let builder = || {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let builder = ClientConfig::builder_with_provider(provider);
            let builder = builder.with_safe_default_protocol_versions().unwrap();
            builder.with_root_certificates(roots.clone())
        };
        let over_http2 = |mut config: ClientConfig| {
            config.alpn_protocols = vec![b"h2".to_vec()];
            Arc::new(config)
        };
        let (certificate, key) = issued();
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        Self {
            known: over_http2(builder().with_client_auth_cert(chain, key).unwrap()),
            unknown: over_http2(builder().with_no_client_auth()),
        }
    }
}

/// A way to a listener.
#[derive(Clone, Debug)]
enum Way {
    Tcp { from: Ipv4Addr, to: SocketAddr },
    Unix(PathBuf),
    Tls(Box<Self>, Arc<ClientConfig>),
}

/// A connection of any kind.
trait Line: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Line for S {}

impl Way {
    async fn connect(&self) -> std::io::Result<Box<dyn Line>> {
        Ok(match self {
            Self::Tcp { from, to } => Box::new(tcp(*from, *to).await?),
            Self::Unix(path) => Box::new(UnixStream::connect(path).await?),
            Self::Tls(socket, config) => {
                let socket = Box::pin(socket.connect()).await?;
                let name = ServerName::try_from("127.0.0.1").unwrap();
                Box::new(TlsConnector::from(Arc::clone(config)).connect(name, socket).await?)
            }
        })
    }

    async fn channel(&self) -> Result<Channel, tonic::transport::Error> {
        let way = self.clone();
        let connector = tower::service_fn(move |_| {
            let way = way.clone();
            async move { way.connect().await.map(TokioIo::new) }
        });
        Endpoint::from_static("http://sidecar").connect_with_connector(connector).await
    }
}

async fn tcp(from: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    // Else a flood of connections uses up the ports of the address.
    socket.set_zero_linger()?;
    socket.bind(SocketAddr::new(IpAddr::V4(from), 0))?;
    socket.connect(to).await
}

fn key(function: &str) -> LockKey {
    LockKey { function: function.to_owned(), ..LockKey::default() }
}

async fn ask(channel: Channel) -> Result<(), Status> {
    let request = ResolvePathRequest { key: Some(key("honest")) };
    LeaseServiceClient::new(channel).resolve_path(request).await.map(drop)
}

async fn ask_anew(way: &Way) -> Result<(), String> {
    let channel = way.channel().await.map_err(|error| format!("{error:?}"))?;
    ask(channel).await.map_err(|status| status.to_string())
}

async fn probe_anew(way: &Way) -> Result<(), String> {
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;
    let channel = way.channel().await.map_err(|error| format!("{error:?}"))?;
    let asked = HealthClient::new(channel).check(HealthCheckRequest::default()).await;
    asked.map(drop).map_err(|status| status.to_string())
}

/// The body of a page of admin HTTP.
async fn get(admin: SocketAddr, from: u8, page: &str) -> Result<String, String> {
    let asked = async {
        let mut stream = tcp(Ipv4Addr::new(127, 0, 0, from), admin).await?;
        let request =
            format!("GET {page} HTTP/1.1\r\nhost: localhost\r\naccept: text/plain\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = asked.await.map_err(|error| error.to_string())?;
    let (head, body) =
        answer.split_once("\r\n\r\n").ok_or_else(|| format!("answered {answer:?}"))?;
    if head.starts_with("HTTP/1.1 200") { Ok(body.to_owned()) } else { Err(head.to_owned()) }
}

/// A hold that its holder releases by the same connection.
struct Held {
    client: LeaseServiceClient<Channel>,
    grant: Grant,
}

impl Held {
    async fn release(mut self) {
        let Grant { lease_id, generation, .. } = self.grant;
        let request =
            ReleaseLeaseRequest { lease_id, generation, ..ReleaseLeaseRequest::default() };
        let answer = self.client.release_lease(request).await.unwrap().into_inner();
        assert_eq!(answer.result.unwrap().outcome(), ReleaseOutcome::Released);
    }
}

async fn hold(way: &Way, spec: LeaseSpec) -> (Held, Streaming<HoldLeaseResponse>) {
    hold_over(way.channel().await.unwrap(), spec).await
}

async fn hold_over(channel: Channel, spec: LeaseSpec) -> (Held, Streaming<HoldLeaseResponse>) {
    let mut client = LeaseServiceClient::new(channel);
    let request = HoldLeaseRequest { start: Some(hold_lease_request::Start::Spec(spec)), needs: 0 };
    let mut stream = client.hold_lease(request).await.unwrap().into_inner();
    let hold_lease_response::Event::Granted(grant) = event(&mut stream).await else {
        panic!("not granted");
    };
    (Held { client, grant }, stream)
}
