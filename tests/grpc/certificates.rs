//! TLS, with and without certificates of clients.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::grpc::{RELOAD_INTERVAL, Server, Settings, TcpSettings, Tls};
use leasehold::time::UnixMillis;
use leasehold_client::proto::{
    HoldLeaseRequest, LockState, ResolvePathRequest, hold_lease_request::Start,
};
use leasehold_client::{Client, ClientBuilder, Error, LeaseSpec, LockKey, Tls as ClientTls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use crate::grpc::listeners::loopback;
use crate::grpc::rig::{Account, LIMITS, Sidecar, key, spec};

pub(crate) type Issuer = CertifiedIssuer<'static, KeyPair>;

/// A certificate authority of the test's own.
pub(crate) fn authority() -> Issuer {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // A name of its own, so that others do not pass for it.
    static NUMBERS: AtomicU32 = AtomicU32::new(0);
    let name = format!("authority {}", NUMBERS.fetch_add(1, Ordering::Relaxed));
    params.distinguished_name.push(DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate for the loopback address, and its key.
pub(crate) fn issued(by: &Issuer) -> (String, String) {
    issued_as(by, CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap())
}

/// A certificate with what `params` say, and its key.
pub(crate) fn issued_as(by: &Issuer, params: CertificateParams) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, by).unwrap().pem(), key.serialize_pem())
}

pub(crate) fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

pub(crate) fn settings(tls: Tls) -> Settings {
    Settings { tcp: Some(TcpSettings { tls: Some(tls), ..loopback() }), ..limits() }
}

fn limits() -> Settings {
    Settings {
        tcp: None,
        unix: None,
        connections: 8,
        streams_per_connection: 8,
        header_list_bytes: 16_384,
        ..Settings::default()
    }
}

/// A server with a certificate by `issuer`, for clients of `clients`; where it is.
pub(crate) async fn serve(sidecar: &Sidecar, issuer: &Issuer, clients: Option<&Issuer>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = issued(issuer);
    let tls = Tls {
        certificate: write(folder.path(), "certificate", &certificate),
        key: write(folder.path(), "key", &key),
        client_ca: clients.map(|issuer| write(folder.path(), "clients", &issuer.pem())),
        crl: None,
        reload_interval: RELOAD_INTERVAL,
    };
    let server = Server::bind(settings(tls)).await.unwrap();
    let endpoint = server.endpoints().remove(0);
    tokio::spawn(server.run(sidecar.scheduler.clone(), LIMITS, CancellationToken::new()));
    endpoint
}

pub(crate) async fn resolved(client: ClientBuilder) -> Result<String, Error> {
    let key = LockKey::new("nightly", "");
    Ok(client.connect().await?.resolve_path(key).await?.lock_path)
}

#[tokio::test]
async fn calls_are_encrypted_and_the_sidecar_shows_its_certificate() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let issuer = authority();
    let endpoint = serve(&sidecar, &issuer, None).await;
    assert!(endpoint.starts_with("https://127.0.0.1:"), "{endpoint}");
    let trusting = |issuer: &Issuer| Client::builder(&endpoint).tls(ClientTls::new(issuer.pem()));
    resolved(trusting(&issuer)).await.unwrap();
    let other = authority();
    let refused = resolved(trusting(&other)).await.unwrap_err();
    assert!(matches!(refused, Error::Unreachable { .. }), "{refused}");
    let plain = Client::builder(endpoint.replace("https", "http"));
    assert!(resolved(plain).await.is_err(), "TLS is not left out for who does not ask for it");
}

#[tokio::test]
async fn clients_without_a_certificate_of_the_right_authority_do_not_come_in() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let (servers, clients, strangers) = (authority(), authority(), authority());
    let endpoint = serve(&sidecar, &servers, Some(&clients)).await;
    let client = |tls: ClientTls| resolved(Client::builder(&endpoint).tls(tls));
    let trusting = || ClientTls::new(servers.pem());
    let (certificate, key) = issued(&strangers);
    for tls in [trusting(), trusting().with_certificate(certificate, key)] {
        let refused = client(tls).await.unwrap_err();
        assert!(matches!(refused, Error::CertificateRefused { .. }), "{refused:?}");
        let told = refused.to_string();
        assert!(told.contains("wants a client certificate that it trusts"), "{told}");
    }
    let (certificate, key) = issued(&clients);
    client(trusting().with_certificate(certificate, key)).await.unwrap();
}

/// S14: the fate of the connection under the encryption counts.
#[tokio::test]
async fn s14_a_local_client_that_is_gone_gives_its_lock_back_through_tls_too() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let issuer = authority();
    let endpoint = serve(&sidecar, &issuer, None).await;
    let client = || Client::builder(&endpoint).tls(ClientTls::new(issuer.pem()));
    let channel = client().channel().await.unwrap();
    let mut dying = leasehold_client::proto::lease_service_client::LeaseServiceClient::new(channel);
    let start = HoldLeaseRequest { start: Some(Start::Spec(spec("nightly"))), needs: 0 };
    let mut request = tonic::Request::new(start);
    request.metadata_mut().insert("leasehold-boot-id", "sim-boot".parse().unwrap());
    let mut stream = dying.hold_lease(request).await.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    drop((stream, dying));
    let patient = LeaseSpec::new("nightly").with_wait(Duration::from_secs(3_600));
    let next = client().connect().await.unwrap();
    let bound = Duration::from_secs(50);
    let answer = tokio::time::timeout(bound, next.acquire(patient)).await;
    assert!(answer.unwrap().unwrap().granted().is_some());
}

#[tokio::test]
async fn files_that_are_no_certificates_are_told_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str, text: &str| write(folder.path(), name, text);
    let (certificate, key) = issued(&authority());
    let (_, other_key) = issued(&authority());
    let good = || Tls {
        certificate: path("c", &certificate),
        key: path("k", &key),
        client_ca: None,
        crl: None,
        reload_interval: RELOAD_INTERVAL,
    };
    Server::bind(settings(good())).await.unwrap();
    let cases = [
        (Tls { certificate: path("empty", ""), ..good() }, "listen.tls.certificate"),
        (Tls { key: path("text", "no key"), ..good() }, "listen.tls.key"),
        (Tls { key: path("other", &other_key), ..good() }, "it is not the key of the certificate"),
        (Tls { key: folder.path().join("missing"), ..good() }, "listen.tls.key"),
        (Tls { client_ca: Some(folder.path().join("gone")), ..good() }, "listen.tls.client_ca"),
        (
            Tls {
                client_ca: Some(path("c", &certificate)),
                crl: Some(path("l", "no list")),
                ..good()
            },
            "listen.tls.crl",
        ),
    ];
    for (tls, key) in cases {
        let error = Server::bind(settings(tls.clone())).await.unwrap_err().to_string();
        assert!(error.contains(key), "{tls:?}: {error}");
    }
}

/// The certificate, its key and the authorities are replaced while the server runs, by those of others: each
/// takes its turn until the new ones are used.
#[tokio::test]
async fn files_that_are_replaced_are_used_for_new_connections_and_old_ones_go_on() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = (authority(), authority());
    let install = |issuer: &Issuer| {
        let (certificate, key) = issued(issuer);
        Tls {
            certificate: write(folder.path(), "tls.crt", &certificate),
            key: write(folder.path(), "tls.key", &key),
            client_ca: Some(write(folder.path(), "ca.crt", &issuer.pem())),
            crl: None,
            reload_interval: Duration::from_millis(5),
        }
    };
    let server = Server::bind(settings(install(&before))).await.unwrap();
    let (endpoint, not_after) = (server.endpoints().remove(0), server.certificate_not_after());
    tokio::spawn(server.run(sidecar.scheduler.clone(), LIMITS, CancellationToken::new()));
    let trusting = |issuer: &Issuer| {
        let (certificate, key) = issued(issuer);
        let tls = ClientTls::new(issuer.pem()).with_certificate(certificate, key);
        Client::builder(&endpoint).tls(tls)
    };
    let old = trusting(&before).connect().await.unwrap();
    let nightly = || LockKey::new("nightly", "");
    old.resolve_path(nightly()).await.unwrap();
    let mut not_after = not_after.unwrap();
    not_after.mark_unchanged();
    install(&after);
    let replaced = tokio::time::timeout(Duration::from_secs(60), not_after.changed());
    replaced.await.expect("the files are looked at").unwrap();
    resolved(trusting(&after)).await.unwrap();
    assert!(resolved(trusting(&before)).await.is_err(), "the former ones are not used any more");
    old.resolve_path(nightly()).await.expect("a connection that is open goes on");
}

/// What a client does its handshakes with that trusts `servers` and shows this certificate, if any.
fn client_config(
    servers: &Issuer,
    shown: Option<(String, String)>,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> rustls::ClientConfig {
    let mut trusted = rustls::RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(servers.pem().as_bytes());
    trusted.add(authority.unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(trusted);
    let mut config = match shown {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = CertificateDer::from_pem_slice(certificate.as_bytes());
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
            config.with_client_auth_cert(vec![chain.unwrap()], key.unwrap()).unwrap()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

async fn encrypted(
    endpoint: &str,
    config: &Arc<rustls::ClientConfig>,
) -> tokio_rustls::client::TlsStream<tokio::net::TcpStream> {
    let address = endpoint.strip_prefix("https://").unwrap();
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::clone(config));
    let name = rustls::pki_types::ServerName::try_from("127.0.0.1").unwrap();
    connector.connect(name, stream).await.unwrap()
}

/// A session that is resumed is not asked for its certificate again, which may have expired since.
#[tokio::test]
async fn a_client_shows_its_certificate_at_each_connection() {
    use rustls::HandshakeKind::{Full, Resumed};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let account = Account::new();
    let sidecar = account.sidecar();
    let (servers, clients) = (authority(), authority());
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        for (client_ca, again) in [(None, Resumed), (Some(&clients), Full)] {
            let endpoint = serve(&sidecar, &servers, client_ca).await;
            let shown = client_ca.map(issued);
            let config = Arc::new(client_config(&servers, shown, &[version]));
            for expected in [Full, again] {
                let mut stream = encrypted(&endpoint, &config).await;
                // What a session is resumed with comes before the first bytes of HTTP/2.
                stream
                    .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
                    .await
                    .unwrap();
                stream.flush().await.unwrap();
                stream.read_exact(&mut [0; 9]).await.unwrap();
                let kind = stream.get_ref().1.handshake_kind().unwrap();
                assert_eq!(kind, expected, "{version:?}, {}", client_ca.is_some());
            }
        }
    }
}

/// A connection that outlives its client's certificate serves no call more, and what it held is not released
/// by that: its client resumes with its next certificate.
#[tokio::test]
async fn a_connection_ends_when_its_client_s_certificate_expires() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let (servers, clients) = (authority(), authority());
    crate::grpc::loopholes::log();
    let endpoint = serve(&sidecar, &servers, Some(&clients)).await;
    let with_certificate = |not_after| {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.not_after = not_after;
        let (certificate, key) = issued_as(&clients, params);
        let tls = ClientTls::new(servers.pem()).with_certificate(certificate, key);
        Client::builder(&endpoint).tls(tls)
    };
    let year_4000 = UnixMillis(64_060_588_800_000);
    let short = with_certificate(rcgen::date_time_ymd(4_000, 1, 1));
    let channel = short.channel().await.unwrap();
    let mut short = leasehold_client::proto::lease_service_client::LeaseServiceClient::new(channel);
    let resolve = || ResolvePathRequest { key: Some(key("nightly")) };
    let start = HoldLeaseRequest { start: Some(Start::Spec(spec("nightly"))), needs: 0 };
    let mut stream = short.hold_lease(start).await.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    account.clock.set_wall(UnixMillis(year_4000.0 - 3_600_000));
    short.resolve_path(resolve()).await.expect("it is valid until then");
    account.clock.set_wall(UnixMillis(year_4000.0 + 1_000));
    let refused = short.resolve_path(resolve()).await.unwrap_err();
    assert_ne!(refused.code(), Code::Unauthenticated, "its client connects again: {refused:?}");
    stream.message().await.unwrap_err();
    let lines = crate::grpc::loopholes::lines_with("certificate has expired");
    assert!(lines.len() == 1 && lines[0].contains("client=127.0.0.1:"), "{lines:?}");
    let record = sidecar.record("nightly").await;
    // Its holder is away, so that it is held here no more once that is noticed.
    assert_eq!(record.state(), LockState::Held, "the end of the connection releases nothing");
    resolved(with_certificate(rcgen::date_time_ymd(4_001, 1, 1))).await.unwrap();
}

/// Signed by `issuer`: what it has revoked.
fn revoking(issuer: &Issuer, serials: &[u64]) -> String {
    let revoked = serials.iter().map(|serial| rcgen::RevokedCertParams {
        serial_number: (*serial).into(),
        revocation_time: rcgen::date_time_ymd(2026, 1, 1),
        reason_code: None,
        invalidity_date: None,
    });
    let list = rcgen::CertificateRevocationListParams {
        this_update: rcgen::date_time_ymd(2026, 1, 1),
        next_update: rcgen::date_time_ymd(2100, 1, 1),
        crl_number: 1_u64.into(),
        issuing_distribution_point: None,
        revoked_certs: revoked.collect(),
        key_identifier_method: rcgen::KeyIdMethod::Sha256,
    };
    list.signed_by(issuer).unwrap().pem().unwrap()
}

/// A server that looks at its files often, its files, and the authorities of its own certificate and of
/// clients'.
struct Revoking {
    folder: tempfile::TempDir,
    servers: Issuer,
    clients: Issuer,
    endpoint: String,
    looked: tokio::sync::watch::Receiver<Option<UnixMillis>>,
}

impl Revoking {
    async fn serve(sidecar: &Sidecar) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (servers, clients) = (authority(), authority());
        let (certificate, key) = issued(&servers);
        let tls = Tls {
            certificate: write(folder.path(), "tls.crt", &certificate),
            key: write(folder.path(), "tls.key", &key),
            client_ca: Some(write(folder.path(), "ca.crt", &clients.pem())),
            crl: Some(write(folder.path(), "ca.crl", &revoking(&clients, &[]))),
            reload_interval: Duration::from_millis(5),
        };
        let server = Server::bind(settings(tls)).await.unwrap();
        let endpoint = server.endpoints().remove(0);
        let looked = server.certificate_not_after().unwrap();
        tokio::spawn(server.run(sidecar.scheduler.clone(), LIMITS, CancellationToken::new()));
        Self { folder, servers, clients, endpoint, looked }
    }

    /// Writes a file, and waits until the server uses it.
    async fn install(&mut self, name: &str, text: &str) {
        self.looked.mark_unchanged();
        write(self.folder.path(), name, text);
        let used = tokio::time::timeout(Duration::from_secs(60), self.looked.changed());
        used.await.expect("the files are looked at").unwrap();
    }

    /// A client with a certificate by `issuer` of this number.
    fn client(&self, issuer: &Issuer, serial: u64) -> ClientBuilder {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.serial_number = Some(serial.into());
        let (certificate, key) = issued_as(issuer, params);
        let tls = ClientTls::new(self.servers.pem()).with_certificate(certificate, key);
        Client::builder(&self.endpoint).tls(tls)
    }
}

/// Its connection ends without a release, as that of a client whose certificate has expired.
#[tokio::test]
async fn s20_a_client_whose_certificate_is_revoked_is_refused_and_its_connection_ended() {
    use leasehold_client::proto::lease_service_client::LeaseServiceClient;
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut server = Revoking::serve(&sidecar).await;
    let with = |server: &Revoking, serial| server.client(&server.clients, serial);
    let mut one = LeaseServiceClient::new(with(&server, 7).channel().await.unwrap());
    let mut two = LeaseServiceClient::new(with(&server, 8).channel().await.unwrap());
    let resolve = || ResolvePathRequest { key: Some(key("nightly")) };
    let start = HoldLeaseRequest { start: Some(Start::Spec(spec("nightly"))), needs: 0 };
    let mut stream = one.hold_lease(start).await.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    two.resolve_path(resolve()).await.unwrap();

    let list = revoking(&server.clients, &[7]);
    server.install("ca.crl", &list).await;
    one.resolve_path(resolve()).await.unwrap_err();
    stream.message().await.unwrap_err();
    let record = sidecar.record("nightly").await;
    // Its holder is away, so that it is held here no more once that is noticed.
    assert_eq!(record.state(), LockState::Held, "the end of the connection releases nothing");
    assert!(resolved(with(&server, 7)).await.is_err());
    two.resolve_path(resolve()).await.expect("another client's connection goes on");
    resolved(with(&server, 9)).await.unwrap();
}

#[tokio::test]
async fn s20_of_an_authority_without_a_list_nobody_knows_what_it_revoked() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut server = Revoking::serve(&sidecar).await;
    let unlisted = authority();
    let both = format!("{}{}", server.clients.pem(), unlisted.pem());
    server.install("ca.crt", &both).await;
    assert!(resolved(server.client(&unlisted, 1)).await.is_err());
    resolved(server.client(&server.clients, 1)).await.unwrap();
    let lists = format!("{}{}", revoking(&server.clients, &[]), revoking(&unlisted, &[2]));
    server.install("ca.crl", &lists).await;
    resolved(server.client(&unlisted, 1)).await.unwrap();
    assert!(resolved(server.client(&unlisted, 2)).await.is_err());
}

/// A client that goes on sending reads why it was refused, and not only that the connection was reset.
#[tokio::test]
async fn a_client_that_is_refused_is_told_why() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let account = Account::new();
    let sidecar = account.sidecar();
    let (servers, clients, strangers) = (authority(), authority(), authority());
    let endpoint = serve(&sidecar, &servers, Some(&clients)).await;
    let stranger = issued(&strangers);
    for (shown, alert) in [(None, "CertificateRequired"), (Some(stranger), "UnknownCA")] {
        let config = client_config(&servers, shown, rustls::DEFAULT_VERSIONS);
        let mut stream = encrypted(&endpoint, &Arc::new(config)).await;
        // The server has said why by then. A connection that it had closed would be reset by what comes
        // first.
        stream.get_ref().0.peek(&mut [0]).await.unwrap();
        for _ in 0..3 {
            stream.write_all(&[0; 4_096]).await.expect("the server reads on");
            stream.flush().await.expect("the server reads on");
        }
        let error = stream.read(&mut [0; 16]).await.unwrap_err().to_string();
        assert!(error.contains(alert), "{alert}: {error}");
    }
}

#[tokio::test]
async fn what_clients_are_given_is_a_name_that_they_can_connect_to() {
    let any = || TcpSettings { address: "0.0.0.0:0".parse().unwrap(), ..loopback() };
    let folder = tempfile::tempdir().unwrap();
    let issuer = authority();
    let endpoint = async |tls: Option<Tls>| {
        let tcp = Some(TcpSettings { tls, ..any() });
        let server = Server::bind(Settings { tcp, ..limits() }).await.unwrap();
        let port = server.address().unwrap().port();
        server.endpoints().remove(0).replace(&port.to_string(), "PORT")
    };
    assert_eq!(endpoint(None).await, "http://localhost:PORT");
    for (name, expected) in [
        ("locks.shop.svc", "https://locks.shop.svc:PORT"),
        ("*.shop.svc", "https://localhost:PORT"),
    ] {
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let (certificate, key) = issued_as(&issuer, params);
        let tls = Tls {
            certificate: write(folder.path(), "c", &certificate),
            key: write(folder.path(), "k", &key),
            client_ca: None,
            crl: None,
            reload_interval: RELOAD_INTERVAL,
        };
        assert_eq!(endpoint(Some(tls)).await, expected);
    }
}
