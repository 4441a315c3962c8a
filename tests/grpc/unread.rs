//! Answers that their callers do not read: they keep nobody else out (S38).

use http_body_util::Full;
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use leasehold::grpc::{Server, Settings, UnixSettings};
use leasehold_client::proto::{AcquireLeaseRequest, HoldLeaseRequest, hold_lease_request::Start};
use prost::Message;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use crate::grpc::door::serves;
use crate::grpc::listeners::{Running, connect, run};
use crate::grpc::rig::{Account, Sidecar, spec};

/// Enough for 32 calls at once.
const CALLS: usize = 32 * 12 * 1024;

async fn with(sidecar: &Sidecar, change: impl FnOnce(&mut Settings)) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let unix = UnixSettings { path: folder.path().join("s"), allowed_uids: Vec::new() };
    let mut settings = Settings { unix: Some(unix), ..Settings::default() };
    change(&mut settings);
    let server = Server::bind(settings).await.unwrap();
    run(server, &sidecar.scheduler, folder, CancellationToken::new()).await
}

/// A connection whose client has no room for what is in an answer.
async fn without_room(running: &Running) -> SendRequest<Full<Bytes>> {
    let path = running.endpoint.strip_prefix("unix://").unwrap();
    let stream = TokioIo::new(UnixStream::connect(path).await.unwrap());
    let mut builder = Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(0);
    let (sender, connection) = builder.handshake(stream).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    sender
}

fn call(path: &str, message: &impl Message) -> Request<Full<Bytes>> {
    let mut bytes = vec![0];
    bytes.extend(u32::try_from(message.encoded_len()).unwrap().to_be_bytes());
    bytes.extend(message.encode_to_vec());
    Request::post(format!("http://sidecar{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(Bytes::from(bytes)))
        .unwrap()
}

/// What was answered, as far as it comes without room; and which of it refuses.
async fn answers(
    sender: &mut SendRequest<Full<Bytes>>,
    requests: impl Iterator<Item = Request<Full<Bytes>>>,
) -> (Vec<hyper::Response<Incoming>>, usize) {
    let mut answers = Vec::new();
    for request in requests {
        answers.push(sender.send_request(request).await.unwrap());
    }
    let is_refused = |answer: &&hyper::Response<Incoming>| {
        answer.headers().get("grpc-status").is_some_and(|status| status == "8")
    };
    let refused = answers.iter().filter(is_refused).count();
    (answers, refused)
}

#[tokio::test]
async fn s38_what_anybody_may_ask_takes_nothing_from_calls_though_nobody_reads_its_answer() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let running = with(&sidecar, |settings| settings.unread_bytes = CALLS).await;
    let mut crowd = Vec::new();
    for number in 0..16 {
        let mut sender = without_room(&running).await;
        let requests = (0..16).map(|_| match number % 2 {
            0 => Request::get("http://sidecar/").body(Full::default()).unwrap(),
            _ => call("/grpc.health.v1.Health/Check", &()),
        });
        let (answers, refused) = answers(&mut sender, requests).await;
        assert_eq!(refused, 15, "a connection has one at a time");
        crowd.push((sender, answers));
    }
    serves(&connect(&running.endpoint).await).await;
}

#[tokio::test]
async fn s38_calls_that_last_have_a_place_until_their_last_answer_was_read() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let running = with(&sidecar, |settings| settings.lasting_calls = 20).await;
    let _held = sidecar.acquire(spec("busy")).await;
    let start = || Some(Start::Spec(spec("busy")));
    let acquire = AcquireLeaseRequest { spec: Some(spec("busy")), needs: 0 };
    for (path, request) in [
        (
            "HoldLease",
            call(
                "/leasehold.v1.LeaseService/HoldLease",
                &HoldLeaseRequest { start: start(), needs: 0 },
            ),
        ),
        ("AcquireLease", call("/leasehold.v1.LeaseService/AcquireLease", &acquire)),
    ] {
        let mut sender = without_room(&running).await;
        let (unread, refused) = answers(&mut sender, (0..50).map(|_| request.clone())).await;
        assert_eq!(refused, 30, "{path}");
        drop((unread, sender));
    }
}
