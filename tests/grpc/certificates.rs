//! TLS, with and without certificates of clients.

use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold::grpc::{Server, Settings, TcpSettings, Tls};
use leasehold_client::proto::{HoldLeaseRequest, hold_lease_request::Start};
use leasehold_client::{Client, ClientBuilder, Error, LeaseSpec, LockKey, Tls as ClientTls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_util::sync::CancellationToken;

use crate::rig::{Account, LIMITS, Sidecar, spec};

type Issuer = CertifiedIssuer<'static, KeyPair>;

/// A certificate authority of the test's own.
fn authority() -> Issuer {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate for the loopback address, and its key.
fn issued(by: &Issuer) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    (params.signed_by(&key, by).unwrap().pem(), key.serialize_pem())
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn settings(tls: Tls) -> Settings {
    let address = "127.0.0.1:0".parse().unwrap();
    let tcp = Some(TcpSettings { address, tls: Some(tls), token_file: None, direct: false });
    Settings {
        tcp,
        unix: None,
        connections: 8,
        streams_per_connection: 8,
        header_list_bytes: 16_384,
    }
}

/// A server with a certificate by `issuer`, for clients of `clients`; where it is.
async fn serve(sidecar: &Sidecar, issuer: &Issuer, clients: Option<&Issuer>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = issued(issuer);
    let tls = Tls {
        certificate: write(folder.path(), "certificate", &certificate),
        key: write(folder.path(), "key", &key),
        client_ca: clients.map(|issuer| write(folder.path(), "clients", &issuer.pem())),
    };
    let server = Server::bind(settings(tls)).await.unwrap();
    let endpoint = server.endpoints().remove(0);
    tokio::spawn(server.run(sidecar.coordinator.clone(), LIMITS, CancellationToken::new()));
    endpoint
}

async fn resolved(client: ClientBuilder) -> Result<String, Error> {
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
    let start = HoldLeaseRequest { start: Some(Start::Spec(spec("nightly"))) };
    let mut request = tonic::Request::new(start);
    request.metadata_mut().insert("leasehold-boot-id", "sim-boot".parse().unwrap());
    let mut stream = dying.hold_lease(request).await.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    drop((stream, dying));
    let patient = LeaseSpec::new("nightly", "").with_wait(Duration::from_secs(3_600));
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
    let good =
        || Tls { certificate: path("c", &certificate), key: path("k", &key), client_ca: None };
    Server::bind(settings(good())).await.unwrap();
    let cases = [
        (Tls { certificate: path("empty", ""), ..good() }, "listen.tls.certificate"),
        (Tls { key: path("text", "no key"), ..good() }, "listen.tls.key"),
        (Tls { key: path("other", &other_key), ..good() }, "listen.tls.certificate"),
        (Tls { key: folder.path().join("missing"), ..good() }, "listen.tls.key"),
        (Tls { client_ca: Some(folder.path().join("gone")), ..good() }, "listen.tls.client_ca"),
    ];
    for (tls, key) in cases {
        let error = Server::bind(settings(tls.clone())).await.unwrap_err().to_string();
        assert!(error.contains(key), "{tls:?}: {error}");
    }
}
