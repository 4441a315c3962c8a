//! Traces, as a collector gets them from the real sidecar.

mod collector;
mod text;

use leasehold_client::proto::lease_service_client::LeaseServiceClient;
use leasehold_client::proto::{
    AcquireLeaseRequest, Grant, HoldLeaseRequest, HoldLeaseResponse, LeaseSpec, LockKey,
    ReleaseLeaseRequest, SaveCheckpointRequest, acquire_lease_response, hold_lease_request,
    hold_lease_response,
};
use rustix::process::Signal;
use tonic::transport::Channel;
use tonic::{Request, Streaming};

use crate::cli::rig::{Home, Sidecar, eventually};
use collector::{Collector, Mode};
use text::assert_documented;

/// What the two callers' own spans are in: the trace, and the place of each in it.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const FIRST: &str = "00f067aa0ba902b7";
const SECOND: &str = "53995c3f42cd8ad8";

type Stub = LeaseServiceClient<Channel>;

async fn stub(sidecar: &Sidecar) -> Stub {
    let builder = leasehold_client::Client::builder(sidecar.home.endpoint());
    LeaseServiceClient::new(builder.channel().await.unwrap())
}

fn spec(holder: &str, wait: i64) -> LeaseSpec {
    LeaseSpec {
        key: Some(LockKey { function: "nightly".to_owned(), ..LockKey::default() }),
        holder: holder.to_owned(),
        wait: Some(prost_types::Duration { seconds: wait, nanos: 0 }),
        labels: [("secret".to_owned(), "label-value".to_owned())].into(),
        ..LeaseSpec::default()
    }
}

fn within<T>(message: T, span: &str, flags: &str) -> Request<T> {
    let mut request = Request::new(message);
    let parent = format!("00-{TRACE}-{span}-{flags}").parse().unwrap();
    request.metadata_mut().insert("traceparent", parent);
    request.metadata_mut().insert("tracestate", "vendor=1".parse().unwrap());
    request
}

async fn acquire(stub: &mut Stub, flags: &str) -> Grant {
    let request = AcquireLeaseRequest { spec: Some(spec("pod-1", 0)), needs: 0 };
    let answer = stub.acquire_lease(within(request, FIRST, flags)).await.unwrap().into_inner();
    let outcome = answer.outcome.unwrap();
    let acquire_lease_response::Outcome::Granted(grant) = outcome else { panic!("{outcome:?}") };
    grant
}

async fn release(stub: &mut Stub, grant: &Grant) {
    let lease_id = grant.lease_id.clone();
    stub.release_lease(ReleaseLeaseRequest { lease_id, ..Default::default() }).await.unwrap();
}

async fn next(stream: &mut Streaming<HoldLeaseResponse>) -> hold_lease_response::Event {
    stream.message().await.unwrap().expect("the stream goes on").event.unwrap()
}

/// A sidecar that sends its traces to this collector, as OpenTelemetry's variables say.
async fn sidecar_of(collector: &str, variables: &[(&str, &str)]) -> Sidecar {
    let mut home = Home::new();
    home.set("OTEL_EXPORTER_OTLP_ENDPOINT", collector);
    for (name, value) in variables {
        home.set(name, value);
    }
    Sidecar::start_in(home, &[]).await
}

async fn stop(mut sidecar: Sidecar) {
    sidecar.signal(Signal::TERM);
    assert_eq!(sidecar.process.wait().await.unwrap().code(), Some(0));
}

/// The secrets of two holds.
struct Secrets(Vec<String>);

/// A lock that a unary caller holds is handed on to one that waits by stream, and both are in one trace.
async fn hand_off(sidecar: &Sidecar) -> Secrets {
    let mut stub = stub(sidecar).await;
    let first = acquire(&mut stub, "01").await;
    let save = SaveCheckpointRequest {
        lease_id: first.lease_id.clone(),
        value: b"checkpoint-value".to_vec(),
        ..Default::default()
    };
    stub.save_checkpoint(save).await.unwrap();
    let start = hold_lease_request::Start::Spec(spec("pod-2", 60));
    let request = within(HoldLeaseRequest { start: Some(start), needs: 0 }, SECOND, "01");
    let mut stream = stub.hold_lease(request).await.unwrap().into_inner();
    assert!(matches!(next(&mut stream).await, hold_lease_response::Event::Waiting(_)));
    release(&mut stub, &first).await;
    let second = loop {
        let event = next(&mut stream).await;
        if let hold_lease_response::Event::Granted(grant) = event {
            break grant;
        }
        assert!(matches!(event, hold_lease_response::Event::Waiting(_)), "{event:?}");
    };
    release(&mut stub, &second).await;
    let secrets = [first, second].map(|grant| [grant.lease_id, grant.resume_token]);
    let secrets = secrets.into_iter().flatten().filter(|secret| !secret.is_empty());
    let others = ["label-value", "checkpoint-value", "hunter2"].map(str::to_owned);
    Secrets(secrets.chain(others).collect())
}

#[tokio::test]
async fn a_hand_off_is_one_trace_with_its_storage_requests_and_no_secret() {
    let collector = Collector::start(Mode::Answers).await;
    let variables =
        [("OTEL_SERVICE_NAME", "orders"), ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=hunter2")];
    let sidecar = sidecar_of(&collector.url, &variables).await;
    let secrets = hand_off(&sidecar).await;
    eventually("both holds are there", || async {
        (collector.spans_named("hold").len() == 2).then_some(())
    })
    .await;
    let spans = collector.spans();
    assert!(spans.iter().all(|span| span.trace == TRACE), "{spans:#?}");
    let holds = collector.spans_named("hold");
    let by = |holder: &str| {
        let of = |span: &&collector::Seen| span.attribute("leasehold.holder") == holder;
        holds.iter().find(of).unwrap_or_else(|| panic!("no hold of {holder}"))
    };
    let (first, second) = (by("pod-1"), by("pod-2"));
    assert_eq!((first.parent.as_str(), second.parent.as_str()), (FIRST, SECOND));
    assert_eq!(first.links, [(second.id.clone(), "handed_on_to".to_owned())]);
    assert_eq!(second.links, [(first.id.clone(), "handed_on_from".to_owned())]);
    let below = |parent: &str| -> Vec<String> {
        let spans = spans.iter().filter(|span| span.parent == parent);
        spans.map(|span| span.name.clone()).collect()
    };
    for name in ["store acquire", "store write_record", "wait"] {
        assert!(below(&first.id).iter().any(|found| found == name), "{name}: {spans:#?}");
    }
    assert_eq!(below(&second.id), ["wait", "store release"]);
    assert_eq!(collector.services(), ["orders"]);
    assert_eq!(collector.header("api-key").as_deref(), Some("hunter2"));
    let everything = collector.everything();
    for secret in &secrets.0 {
        assert!(!everything.contains(secret), "{secret} is in {everything}");
    }
    let is_id = |word: &str| word.len() == 36 && uuid::Uuid::parse_str(word).is_ok();
    let mut words = everything.split(|letter: char| !(letter.is_ascii_hexdigit() || letter == '-'));
    assert!(!words.any(is_id), "a lease id of the store is in {everything}");
    assert!(is_id(&secrets.0[0]), "which look so");
    assert_documented(&spans);
    stop(sidecar).await;
}

#[tokio::test]
async fn what_is_not_sampled_is_not_sent() {
    let collector = Collector::start(Mode::Answers).await;
    for variables in [
        &[("OTEL_TRACES_SAMPLER", "always_off")][..],
        &[("OTEL_SDK_DISABLED", "true")],
        &[("OTEL_TRACES_EXPORTER", "none")],
        &[("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")],
        &[("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0")],
    ] {
        let sidecar = sidecar_of(&collector.url, variables).await;
        let ran = sidecar.leasehold(&["run", "-f", "job", "--", "true"]).await;
        assert_eq!(ran.code, 0, "{ran:?}");
        stop(sidecar).await;
        assert_eq!(collector.everything(), "", "{variables:?}");
    }
    let sidecar = sidecar_of(&collector.url, &[]).await;
    let mut stub = stub(&sidecar).await;
    let grant = acquire(&mut stub, "00").await;
    release(&mut stub, &grant).await;
    let ran = sidecar.leasehold(&["run", "-f", "job", "--", "true"]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    stop(sidecar).await;
    let holds = collector.spans_named("hold");
    assert_eq!(holds.len(), 1, "the caller that records nothing is not recorded: {holds:#?}");
    assert_ne!(holds[0].trace, TRACE);
}

#[tokio::test]
async fn what_was_recorded_last_is_sent_at_the_end() {
    let collector = Collector::start(Mode::Answers).await;
    let home = Home::new();
    let endpoint = format!("telemetry.traces.endpoint={}", collector.url);
    let name = "telemetry.traces.service_name=by-setting";
    let sidecar = Sidecar::start_in(home, &[endpoint.as_str(), name, "drain.period=1s"]).await;
    let _held = acquire(&mut stub(&sidecar).await, "01").await;
    stop(sidecar).await;
    let holds = collector.spans_named("hold");
    let lost = holds.iter().find(|hold| hold.attribute("leasehold.holder") == "pod-1").unwrap();
    assert_eq!(lost.attribute("leasehold.loss_reason"), "shutdown");
    assert!(lost.is_error);
    assert!(lost.events.contains(&"draining".to_owned()), "{lost:#?}");
    assert_eq!(collector.services(), ["by-setting"]);
}

#[tokio::test]
async fn locks_wait_for_no_collector_be_it_gone_or_silent() {
    let silent = Collector::start(Mode::NeverAnswers).await;
    let gone = Collector::start(Mode::Answers).await.stop().await;
    for url in [&silent.url, &gone] {
        let sidecar = sidecar_of(url, &[]).await;
        let mut stub = stub(&sidecar).await;
        let grant = acquire(&mut stub, "01").await;
        release(&mut stub, &grant).await;
        if *url == silent.url {
            eventually("it was asked", || async { silent.was_asked().then_some(()) }).await;
        }
        for _ in 0..50 {
            let grant = acquire(&mut stub, "01").await;
            release(&mut stub, &grant).await;
        }
        stop(sidecar).await;
    }
    assert!(silent.was_asked());
}
