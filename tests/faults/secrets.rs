//! Everything that a sidecar writes and shows, searched for what must not be in it.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use leasehold::testing::Azurite;
use leasehold_client::proto::{HoldLeaseRequest, hold_lease_response::Event};
use leasehold_client::proto::{Resume, SaveCheckpointRequest, hold_lease_request::Start};
use rustix::process::Signal;

use crate::faults::process::{Sidecar, event, patient, spec};

const BEARER: &str = "open-sesame-5c1f";
/// As much as anybody can ask for.
const ALL: &str =
    "log.filter=trace,h2=trace,hyper=trace,reqwest=trace,azure_core=trace,typespec=trace";

/// What was found, by where.
type Texts = BTreeMap<&'static str, String>;

pub(crate) fn get(address: &str, page: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {page} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The value of a field of the line that says where it listens.
pub(crate) fn listening(log: &str, field: &str) -> String {
    let line = log.lines().find(|line| line.contains("\"listening\"")).unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    line.get(field).unwrap().as_str().unwrap().to_owned()
}

/// Lives through what a sidecar does, and gives back what it wrote and showed, and its secrets by name.
async fn live(environment: (&'static str, String)) -> (Texts, Vec<(&'static str, String)>) {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens");
    std::fs::write(&tokens, BEARER).unwrap();
    let tokens = format!("listen.token_file={}", tokens.display());
    let more = ["listen.tcp=127.0.0.1:0", "admin.listen=127.0.0.1:0", &tokens, ALL];
    let mut sidecar = Sidecar::start("Secrets", &more, vec![environment]).await;

    let held = sidecar.granted(patient("unary")).await;
    let (grant, stream) = sidecar.hold(patient("stream")).await;
    drop(stream);
    let resume = Resume {
        resume_token: grant.resume_token.clone(),
        told_valid_until: None,
        attempt_id: "attempt-1".to_owned(),
    };
    let request = HoldLeaseRequest { start: Some(Start::Resume(resume)), needs: 0 };
    let mut resumed = sidecar.rpc().await.hold_lease(request).await.unwrap().into_inner();
    // Granted again or, if the stream's end was seen first, lost: both are lived through.
    let first = event(&mut resumed).await;
    assert!(matches!(first, Event::Granted(_) | Event::Lost(_)), "{first:?}");
    drop(resumed);
    let busy = sidecar.acquire(spec("unary")).await;
    assert!(busy.granted().is_none());
    let client = sidecar.client().await;
    client.extend(held.lease_id.clone(), std::time::Duration::from_secs(60)).await.unwrap();
    // Told in the log at its deepest level, whatever else the machine has time for.
    let lease_id = held.lease_id.clone();
    let save = SaveCheckpointRequest { lease_id, generation: 0, value: b"page 7".to_vec() };
    sidecar.rpc().await.save_checkpoint(save).await.unwrap();
    client.release(held.lease_id.clone()).await.unwrap();
    let endpoint = listening(&sidecar.log(), "endpoints");
    let endpoint = endpoint.split(' ').find(|one| one.starts_with("http://")).unwrap();
    for (token, allowed) in [(BEARER, true), ("wrong-sesame-77aa", false)] {
        let client = leasehold_client::Client::builder(endpoint).bearer_token(token);
        let answer = client.connect().await.unwrap().acquire(spec("by-tcp")).await;
        assert_eq!(answer.is_ok(), allowed, "{answer:?}");
    }

    let proc = |file: &str| {
        let read = std::fs::read(format!("/proc/{}/{file}", sidecar.pid())).unwrap();
        String::from_utf8_lossy(&read).into_owned()
    };
    let admin = listening(&sidecar.log(), "admin");
    let admin = admin.strip_prefix("http://").unwrap();
    let mut texts = Texts::from([
        ("/proc/PID/cmdline", proc("cmdline")),
        ("/proc/PID/comm", proc("comm")),
        ("/metrics", get(admin, "/metrics")),
        ("/readyz", get(admin, "/readyz")),
        ("/livez", get(admin, "/livez")),
    ]);
    sidecar.signal(Signal::TERM);
    assert!(sidecar.ended().await.success());
    texts.insert("the log", sidecar.log());

    let mut secrets = vec![
        ("a bearer token", BEARER.to_owned()),
        ("a refused bearer token", "wrong-sesame-77aa".to_owned()),
    ];
    for id in [held.lease_id, grant.lease_id] {
        secrets.push(("a lease id without its dashes", id.replace('-', "")));
        secrets.push(("a lease id", id));
    }
    assert!(!grant.resume_token.is_empty());
    secrets.push(("a resume token", grant.resume_token));
    (texts, secrets)
}

fn found(texts: &Texts, secrets: &[(&str, String)]) -> Vec<String> {
    let everywhere = texts.iter().flat_map(|text| secrets.iter().map(move |secret| (text, secret)));
    everywhere
        .filter(|((_, text), (_, secret))| text.contains(secret.as_str()))
        .map(|((place, _), (name, secret))| format!("{place} shows {name}: {secret}"))
        .collect()
}

#[tokio::test]
async fn s20_nothing_that_a_sidecar_writes_or_shows_has_a_secret_in_it() {
    let azurite = Azurite::shared();
    let connection = azurite.connection_string();
    let sas = azurite.sas_url();
    let key = connection.split(';').find_map(|part| part.strip_prefix("AccountKey="));
    let signature = sas.split('&').find_map(|part| part.strip_prefix("sig=")).unwrap();
    let decoded = percent_decoded(signature);
    let ways = [
        ("LEASEHOLD_STORE_AZURE_CONNECTION_STRING", &connection),
        ("LEASEHOLD_STORE_AZURE_SAS_URL", &sas),
    ];
    for (variable, value) in ways {
        let (texts, mut secrets) = live((variable, value.clone())).await;
        secrets.push(("the account key", key.unwrap().to_owned()));
        secrets.push(("the signature of a SAS", signature.to_owned()));
        secrets.push(("the signature of a SAS, decoded", decoded.clone()));
        secrets.push(("a signature of a request", "SharedKey devstoreaccount1:".to_owned()));
        for (place, text) in &texts {
            assert!(!text.is_empty(), "{place} shows nothing");
        }
        assert!(texts.get("the log").unwrap().contains("\"DEBUG\""), "the log is not complete");
        assert_eq!(found(&texts, &secrets), [""; 0], "with {variable}");
    }
}

fn percent_decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8().unwrap().into_owned()
}

#[test]
fn the_search_finds_what_is_there() {
    let texts = Texts::from([("the log", "lease 5c1f is had".to_owned())]);
    assert_eq!(found(&texts, &[("an id", "5c1f".to_owned())]), ["the log shows an id: 5c1f"]);
}
