//! Malicious and badly broken callers: they are refused, while others are served.

use std::time::Duration;

use leasehold::grpc::{Server, Settings, UnixSettings};
use leasehold_client::proto::lease_service_client::LeaseServiceClient;
use leasehold_client::proto::{
    HoldLeaseRequest, LockKey, ReleaseLeaseRequest, ResolvePathRequest, hold_lease_request::Start,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;
use tonic::Code;

use crate::grpc::listeners::{Running, connect, run};
use crate::grpc::rig::{Account, Event, Sidecar, key, next, reason, seconds, spec};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const BOUND: Duration = Duration::from_secs(60);

async fn on_socket(sidecar: &Sidecar, connections: usize) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let unix = UnixSettings { path: folder.path().join("s"), allowed_uids: Vec::new() };
    let settings = Settings {
        tcp: None,
        unix: Some(unix),
        connections,
        streams_per_connection: 64,
        header_list_bytes: 16_384,
        ..Settings::default()
    };
    let server = Server::bind(settings).await.unwrap();
    run(server, &sidecar.scheduler, folder, CancellationToken::new()).await
}

async fn raw(running: &Running) -> UnixStream {
    let path = running.endpoint.strip_prefix("unix://").unwrap();
    UnixStream::connect(path).await.unwrap()
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Somebody who minds their own business is served on a connection of their own.
async fn others_are_served(running: &Running) {
    let channel = connect(&running.endpoint).await;
    let request = ResolvePathRequest { key: Some(key("honest")) };
    let mut client = LeaseServiceClient::new(channel);
    let served = tokio::time::timeout(BOUND, client.resolve_path(request)).await;
    served.unwrap().unwrap();
}

#[tokio::test]
async fn streams_that_are_opened_and_reset_without_end_cost_their_connection_only() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let running = on_socket(&sidecar, 8).await;
    let mut hostile = raw(&running).await;
    hostile.write_all(PREFACE).await.unwrap();
    hostile.write_all(&frame(4, 0, 0, &[])).await.unwrap();
    // :method POST, :scheme http, :path / from the static table of HPACK.
    let headers = [0x83, 0x86, 0x84];
    let mut closed = false;
    for number in 0..100_000_u32 {
        let stream = number * 2 + 1;
        let mut bytes = frame(1, 0x4, stream, &headers);
        bytes.extend(frame(3, 0, stream, &8_u32.to_be_bytes()));
        if hostile.write_all(&bytes).await.is_err() {
            closed = true;
            break;
        }
    }
    assert!(closed, "a hundred thousand resets were borne");
    others_are_served(&running).await;
    assert_eq!(sidecar.coordinator.gauges().waiters, 0);
}

#[tokio::test]
async fn bytes_that_are_no_http_are_not_answered_for_long() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let running = on_socket(&sidecar, 8).await;
    for rubbish in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4_096], &frame(0, 0, 1, &[0; 100])] {
        let mut hostile = raw(&running).await;
        let _ = hostile.write_all(rubbish).await;
        let mut answer = Vec::new();
        let read = tokio::time::timeout(BOUND, hostile.read_to_end(&mut answer)).await;
        assert!(read.is_ok(), "the connection is left open");
    }
    others_are_served(&running).await;
}

#[tokio::test]
async fn ten_thousand_streams_are_never_open_at_once_and_all_of_them_are_cleaned_up() {
    let account = Account::new();
    let sidecar = account.sidecar_with(|settings| settings.max_waiters = 50);
    let running = on_socket(&sidecar, 64).await;
    let held = sidecar.acquire(spec("wanted")).await;
    let mut patient = spec("wanted");
    patient.wait = seconds(3_600);
    let mut attempts = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let channel = connect(&running.endpoint).await;
        let patient = patient.clone();
        attempts.spawn(async move {
            let mut refused = 0;
            let mut streams = Vec::new();
            for _ in 0..250 {
                let start =
                    HoldLeaseRequest { start: Some(Start::Spec(patient.clone())), needs: 0 };
                let mut client = LeaseServiceClient::new(channel.clone());
                let opened =
                    tokio::time::timeout(Duration::from_millis(50), client.hold_lease(start));
                match opened.await {
                    Ok(Ok(stream)) => streams.push(stream),
                    Ok(Err(status)) => {
                        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
                        refused += 1;
                    }
                    // The connection has as many streams as it may have.
                    Err(_) => {}
                }
            }
            (refused, streams)
        });
    }
    let mut refused = 0;
    let mut kept = Vec::new();
    while let Some(done) = attempts.join_next().await {
        let (count, streams) = done.unwrap();
        refused += count;
        kept.push(streams);
    }
    // How many wait for a place in their connection instead is for the machine's load. Whoever comes to a
    // full sidecar is refused.
    let mut late = LeaseServiceClient::new(connect(&running.endpoint).await);
    let full = async {
        while refused == 0 {
            let start = HoldLeaseRequest { start: Some(Start::Spec(patient.clone())), needs: 0 };
            match late.hold_lease(start).await {
                Ok(stream) => kept.push(vec![stream]),
                Err(status) => {
                    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
                    refused += 1;
                }
            }
        }
    };
    tokio::time::timeout(BOUND, full).await.expect("somebody is refused");
    assert!(sidecar.coordinator.gauges().waiters <= 50);
    others_are_served(&running).await;
    drop(kept);
    let gone = async {
        while sidecar.coordinator.gauges().waiters > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(BOUND, gone).await.unwrap();
    sidecar.release(&held.lease_id).await;
}

#[tokio::test]
async fn s19_lease_ids_are_not_guessed_and_guessing_ends_nobodys_hold() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let held = sidecar.acquire(spec("nightly")).await;
    let mut guess = held.lease_id.clone().into_bytes();
    for place in 0..guess.len() {
        let right = guess[place];
        if right == b'-' {
            continue;
        }
        guess[place] = if right == b'0' { b'1' } else { b'0' };
        let lease_id = String::from_utf8(guess.clone()).unwrap();
        let refused = sidecar
            .client
            .clone()
            .release_lease(ReleaseLeaseRequest { lease_id, ..ReleaseLeaseRequest::default() })
            .await;
        assert_eq!(reason(&refused.unwrap_err()), (Code::NotFound, "UNKNOWN_LEASE".to_owned()));
        guess[place] = right;
    }
    assert_eq!(sidecar.coordinator.gauges().holds, 1);
    sidecar.release(&held.lease_id).await;
}

#[tokio::test]
async fn s19_no_name_leads_out_of_the_sidecars_own_place() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let prefix = format!("leasehold/locks/{}/", crate::grpc::rig::HOST_ID);
    for name in
        ["..", "../../other", "a/../../b", "%2e%2e", "..%2f..", "/etc/passwd", "a\\..\\b", "~"]
    {
        for (function, scope) in [(name, ""), ("job", name)] {
            let key = LockKey {
                function: function.to_owned(),
                scope: scope.to_owned(),
                ..LockKey::default()
            };
            let request = ResolvePathRequest { key: Some(key) };
            // Refused, or encoded: never another place.
            if let Ok(resolved) = sidecar.client.clone().resolve_path(request).await {
                let path = resolved.into_inner().lock_path;
                let rest = path.strip_prefix(&prefix).unwrap_or_else(|| panic!("{path}"));
                let parts: Vec<_> = rest.split('/').collect();
                assert_eq!(parts.len(), 3, "{path}");
                assert!(parts.iter().all(|part| !["", ".", ".."].contains(part)), "{path}");
            }
        }
    }
}

/// S4: who does not read does not keep others from being told, nor the sidecar's memory.
#[tokio::test]
async fn a_holder_that_does_not_read_its_stream_keeps_nobody_waiting() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let running = on_socket(&sidecar, 8).await;
    let channel = connect(&running.endpoint).await;
    let start = HoldLeaseRequest { start: Some(Start::Spec(spec("slow"))), needs: 0 };
    let mut slow = LeaseServiceClient::new(channel).hold_lease(start).await.unwrap().into_inner();
    let Event::Granted(grant) = next(&mut slow).await else { panic!("not granted") };
    for _ in 0..200 {
        let request = leasehold_client::proto::ExtendLeaseRequest {
            lease_id: grant.lease_id.clone(),
            max_hold: seconds(3_600),
            generation: 0,
        };
        sidecar.client.clone().extend_lease(request).await.unwrap();
    }
    others_are_served(&running).await;
    sidecar.release(&grant.lease_id).await;
    assert_eq!(sidecar.coordinator.gauges().holds, 0);
}

/// What a client that speaks HTTP/2 and no gRPC is answered: the status, and gRPC's if there is one.
async fn asked(
    running: &Running,
    request: http::Request<tonic::body::Body>,
) -> (u16, Option<String>) {
    use tower::Service as _;
    let mut channel = running.channel.clone();
    std::future::poll_fn(|context| channel.poll_ready(context)).await.unwrap();
    let answer = channel.call(request).await.unwrap();
    let status = answer.headers().get("grpc-status");
    let status = status.map(|status| status.to_str().unwrap().to_owned());
    (answer.status().as_u16(), status)
}

fn posted(
    content_type: Option<&str>,
    path: &str,
    body: &'static [u8],
) -> http::Request<tonic::body::Body> {
    let mut request = http::Request::post(format!("http://sidecar{path}"));
    if let Some(content_type) = content_type {
        request = request.header("content-type", content_type);
    }
    let body = http_body_util::Full::new(bytes::Bytes::from_static(body));
    request.body(tonic::body::Body::new(body)).unwrap()
}

const RESOLVE: &str = "/leasehold.v1.LeaseService/ResolvePath";
const HEALTH: &str = "/grpc.health.v1.Health/Check";
const EMPTY: &[u8] = b"\0\0\0\0\0";

#[tokio::test]
async fn s19_what_is_no_grpc_is_refused_in_the_words_of_http() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let running = on_socket(&sidecar, 8).await;
    for path in [RESOLVE, HEALTH, "/", "/leasehold.v1.Nothing/Here"] {
        for wrong in
            [None, Some("application/json"), Some("application/grpc-web"), Some("text/plain")]
        {
            let answer = asked(&running, posted(wrong, path, EMPTY)).await;
            assert_eq!(answer, (415, None), "{path} {wrong:?}");
        }
        for method in ["GET", "PUT", "DELETE", "OPTIONS"] {
            let mut request = posted(Some("application/grpc"), path, EMPTY);
            *request.method_mut() = method.parse().unwrap();
            assert_eq!(asked(&running, request).await, (405, None), "{method} {path}");
        }
    }
    for good in ["application/grpc", "application/grpc+proto"] {
        let unknown = posted(Some(good), "/leasehold.v1.LeaseService/StealLock", EMPTY);
        assert_eq!(asked(&running, unknown).await, (200, Some("12".to_owned())), "{good}");
    }
    others_are_served(&running).await;
}

/// The first field of a message, cut short; a tag that is none; and a field inside a field, cut short.
#[tokio::test]
async fn s19_bytes_that_are_no_message_are_the_callers_mistake() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let running = on_socket(&sidecar, 8).await;
    let hold = "/leasehold.v1.LeaseService/HoldLease";
    for path in [RESOLVE, hold, "/leasehold.v1.ScheduleService/GetSchedule"] {
        for body in [&b"\0\0\0\0\x02\x0a\x7f"[..], b"\0\0\0\0\x01\xff", b"\0\0\0\0\x03\x0a\x01\x0a"]
        {
            let answer = asked(&running, posted(Some("application/grpc"), path, body)).await;
            assert_eq!(answer, (200, Some("3".to_owned())), "{path} {body:?}");
        }
    }
}
