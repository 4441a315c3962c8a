//! A shared access signature without the permission `d`, before the emulator: there, writing is enough to
//! break a lease, so a proxy refuses that as an account does.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use leasehold::testing::Azurite;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::cli::rig::{Home, Sidecar};

type Answer = Result<Response<Full<Bytes>>, std::io::Error>;

/// An account that refuses to break leases. It ends when it is dropped.
struct Account {
    address: SocketAddr,
    listening: JoinHandle<()>,
}

impl Account {
    async fn start() -> Self {
        // An error says that it is there already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let http = reqwest::Client::new();
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, http.clone()));
            }
        });
        Self { address, listening }
    }

    /// The settings of a sidecar or command with a SAS that has these permissions.
    fn settings(&self, home: &Home, permissions: &str) -> Vec<String> {
        let through = format!("http://{}", self.address);
        let url = Azurite::shared().sas_url_for(permissions).replace(&emulator(), &through);
        settings(home, &url)
    }
}

/// A container of its own: without `d`, the doctor's lock remains.
fn settings(home: &Home, sas_url: &str) -> Vec<String> {
    std::fs::write(home.path("sas"), sas_url).unwrap();
    vec![
        "store.kind=azure".to_owned(),
        "store.azure.create_container=true".to_owned(),
        format!("store.azure.sas_url_file={}", home.path("sas").display()),
        "paths.container=sas".to_owned(),
    ]
}

impl Drop for Account {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// The emulator's URL, without the account.
fn emulator() -> String {
    Azurite::shared().endpoint().rsplit_once('/').unwrap().0.to_owned()
}

async fn serve(stream: TcpStream, http: reqwest::Client) {
    let answer = service_fn(move |request| pass(http.clone(), request));
    // An error is a client that has closed its connection.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}

async fn pass(http: reqwest::Client, request: Request<Incoming>) -> Answer {
    let (parts, body) = request.into_parts();
    if parts.headers.get("x-ms-lease-action").is_some_and(|action| action == "break") {
        let refusal = Response::builder()
            .status(403)
            .header("x-ms-request-id", "r-1")
            .header("x-ms-error-code", "AuthorizationPermissionMismatch");
        return refusal.body(Full::default()).map_err(std::io::Error::other);
    }
    let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let url = format!("{}{}", emulator(), parts.uri);
    let mut sent = http.request(parts.method, url).body(body);
    for (name, value) in parts.headers.iter().filter(|(name, _)| is_passed_on(name.as_str())) {
        sent = sent.header(name, value);
    }
    let answer = sent.send().await.map_err(std::io::Error::other)?;
    let mut response = Response::builder().status(answer.status());
    for (name, value) in answer.headers().iter().filter(|(name, _)| is_passed_on(name.as_str())) {
        response = response.header(name, value);
    }
    let body = answer.bytes().await.map_err(std::io::Error::other)?;
    response.body(Full::new(body)).map_err(std::io::Error::other)
}

fn is_passed_on(header: &str) -> bool {
    !matches!(header, "host" | "connection" | "keep-alive" | "transfer-encoding")
}

/// What the doctor found by this check: its status, and the whole of it.
fn finding(report: &serde_json::Value, check: &str) -> (String, String) {
    let found = report["checks"].as_array().unwrap().iter().find(|one| one["check"] == check);
    let found = found.unwrap_or_else(|| panic!("no check {check} in {report}"));
    (found["status"].as_str().unwrap().to_owned(), found.to_string())
}

async fn doctor(settings: &[String], home: &Home) -> (i32, serde_json::Value) {
    let mut words = vec!["doctor", "--output", "json"];
    settings.iter().for_each(|setting| words.extend(["--set", setting.as_str()]));
    let report = home.leasehold(&words).await;
    (report.code, report.json())
}

#[tokio::test]
async fn s17_doctor_finds_that_a_sas_may_not_break_leases() {
    let (account, home) = (Account::start().await, Home::new());
    let mut settings = account.settings(&home, "rwl");
    let (code, report) = doctor(&settings, &home).await;
    let (status, text) = finding(&report, "break a lease");
    assert_eq!((code, status.as_str()), (0, "warning"), "nobody may break here: {report}");
    for wanted in ["break the lease", "delete (d)", "admin.allow_break"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert_eq!(finding(&report, "delete a lock").0, "warning", "{report}");

    settings.push("admin.allow_break=true".to_owned());
    let (code, report) = doctor(&settings, &home).await;
    assert_eq!((code, finding(&report, "break a lease").0.as_str()), (78, "bad"), "{report}");
}

#[tokio::test]
async fn doctor_is_content_with_a_sas_that_has_every_permission() {
    let home = Home::new();
    let settings = settings(&home, &Azurite::shared().sas_url_for("rwld"));
    let (code, report) = doctor(&settings, &home).await;
    assert_eq!(code, 0, "{report}");
    for check in ["break a lease", "delete a lock"] {
        assert_eq!(finding(&report, check).0, "good", "{report}");
    }
}

#[tokio::test]
async fn s17_a_break_that_the_sas_does_not_permit_says_so_and_breaks_nothing() {
    let (account, home) = (Account::start().await, Home::new());
    let mut settings = account.settings(&home, "rwl");
    settings.push("admin.allow_break=true".to_owned());
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let sidecar = Sidecar::start_in(home, &settings).await;
    let acquired = sidecar.leasehold(&["acquire", "job", "--max-hold", "5m"]).await;
    assert_eq!(acquired.code, 0, "{acquired:?}");
    let broken = sidecar.leasehold(&["break", "-f", "job", "--reason", "it hangs"]).await;
    assert_eq!(broken.code, 77, "{broken:?}");
    let path = sidecar.lock("job").await["lock_path"].as_str().unwrap().to_owned();
    for wanted in [path.as_str(), "break the lease", "delete (d)", "rwld"] {
        assert!(broken.stderr.contains(wanted), "{wanted}: {broken:?}");
    }
    assert_eq!(sidecar.lock("job").await["state"], "held");
}

#[tokio::test]
async fn s20_doctor_says_when_a_signature_ends() {
    let home = Home::new();
    let settings = settings(&home, &Azurite::shared().sas_url_for("rwld"));
    let (code, report) = doctor(&settings, &home).await;
    let (status, text) = finding(&report, "signature");
    assert_eq!((code, status.as_str()), (0, "good"), "{report}");
    assert!(text.contains("ends in") && text.contains("2100-01-01T00:00:00Z"), "{text}");
    // It has ended, so that the service takes it no more: both are said.
    let soon = Azurite::shared().sas_url_for("rwld").replace("2100-01-01", "2026-01-01");
    let (_, report) = doctor(&self::settings(&home, &soon), &home).await;
    let (status, text) = finding(&report, "signature");
    assert_eq!(status, "warning", "{report}");
    assert!(text.contains("ended at 2026-01-01T00:00:00Z"), "{text}");
}

#[tokio::test]
async fn s20_a_signature_for_another_container_is_refused_with_both_names() {
    let home = Home::new();
    let url = "https://one.blob.core.windows.net/other?sr=c&sv=2025-11-05&sig=c2VjcmV0";
    let settings = settings(&home, url);
    let (code, report) = doctor(&settings, &home).await;
    let (status, text) = finding(&report, "configuration");
    assert_eq!((code, status.as_str()), (78, "bad"), "{report}");
    assert!(text.contains("\\\"other\\\"") && text.contains("\\\"sas\\\""), "{text}");
    assert!(!report.to_string().contains("c2VjcmV0"), "{report}");
}
