use std::net::TcpListener;

use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::super::wire::PartialSuccess;
use super::*;
use crate::telemetry::{Collector, Ratio, Sampler};

fn settings(collector: &str) -> TraceSettings {
    TraceSettings {
        collector: Collector::parse(collector).unwrap(),
        headers: vec![("API-Key".to_owned(), "hunter2".to_owned())],
        timeout: Duration::from_secs(1),
        ca: None,
        service_name: "orders".to_owned(),
        instance: "pod-1".to_owned(),
        resource: vec![
            ("service.name".to_owned(), "other".to_owned()),
            ("deployment.environment.name".to_owned(), "test".to_owned()),
        ],
        sampler: Sampler::AlwaysOn,
        ratio: Ratio::parse("1").unwrap(),
    }
}

fn export(settings: &TraceSettings, stop: &CancellationToken) -> (mpsc::Sender<Span>, Export) {
    let (queue, spans) = mpsc::channel(10);
    (
        queue,
        Export::new(settings, spans, Families::new(&mut Registry::default()), stop.clone())
            .unwrap(),
    )
}

/// The address of nobody.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[tokio::test(start_paused = true)]
async fn what_a_collector_that_is_gone_does_not_take_is_counted_after_some_tries() {
    let stop = CancellationToken::new();
    let (queue, export) = export(&settings(&nobody()), &stop);
    let counts = export.counts.clone();
    for _ in 0..3 {
        queue.try_send(Span::default()).unwrap();
    }
    drop(queue);
    export.run().await;
    assert_eq!(counts.counts(), (0, 0, 3));
}

#[tokio::test]
async fn at_the_end_what_waits_is_tried_once() {
    let stop = CancellationToken::new();
    let (queue, export) = export(&settings(&nobody()), &stop);
    let counts = export.counts.clone();
    queue.try_send(Span::default()).unwrap();
    stop.cancel();
    export.run().await;
    assert_eq!(counts.counts(), (0, 0, 1));
    assert!(queue.is_closed(), "and nothing more is taken");
}

#[tokio::test]
async fn a_batch_says_whose_it_is_and_headers_are_secrets() {
    let stop = CancellationToken::new();
    let settings = settings("http://localhost:4317");
    let (_queue, export) = export(&settings, &stop);
    let request = export.request(vec![Span::default()]);
    let resource = request.resource_spans[0].resource.clone().unwrap();
    let names: Vec<&str> = resource.attributes.iter().map(|it| it.key.as_str()).collect();
    let expected =
        ["service.name", "service.version", "service.instance.id", "deployment.environment.name"];
    assert_eq!(names, expected);
    assert_eq!(resource.attributes[0], KeyValue::text("service.name", "orders"));
    assert_eq!(export.headers.get("api-key").unwrap(), "hunter2");
    assert!(!format!("{settings:?} {export:?}").contains("hunter2"));
}

#[tokio::test]
async fn headers_that_are_none_are_refused_without_their_values() {
    for (name, value) in [("a b", "hunter2"), ("key", "hunter2\n")] {
        let headers = vec![(name.to_owned(), value.to_owned())];
        let settings = TraceSettings { headers, ..settings("http://localhost:4317") };
        let (_, spans) = mpsc::channel(1);
        let refused = Export::new(
            &settings,
            spans,
            Families::new(&mut Registry::default()),
            CancellationToken::new(),
        );
        let problem = refused.unwrap_err().to_string();
        assert!(
            problem.contains("telemetry.traces.headers") && !problem.contains("hunter2"),
            "{problem}"
        );
    }
}

#[tokio::test]
async fn a_collector_that_refuses_spans_again_and_again_is_said_once() {
    let stop = CancellationToken::new();
    let (_queue, mut export) = export(&settings("http://localhost:4317"), &stop);
    let refused = PartialSuccess { rejected_spans: 2, error_message: "too many".to_owned() };
    for _ in 0..2 {
        export.accepted(3, ExportResponse { partial_success: Some(refused.clone()) });
        assert!(export.is_failing);
    }
    assert_eq!(export.counts.counts(), (2, 0, 4));
    export.accepted(3, ExportResponse::default());
    assert!(!export.is_failing);
}

#[tokio::test]
async fn a_batch_whose_connection_breaks_is_tried_again() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    // Each caller gets so far as to send its request.
    let breaking = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await;
            let _ = stream.read(&mut [0; 1_024]).await;
        }
    });
    let (_queue, export) = export(&settings(&url), &CancellationToken::new());
    let request = export.request(vec![Span::default()]);
    let status = export.send(request).await.unwrap_err();
    assert!(is_worth_another_try(&status), "{status:?}");
    breaking.abort();
}

#[test]
fn what_may_pass_is_tried_again_and_a_refusal_is_not() {
    for (status, again) in [
        (Status::unavailable(""), true),
        (Status::deadline_exceeded(""), true),
        (Status::invalid_argument(""), false),
        (Status::unauthenticated(""), false),
        (Status::unimplemented(""), false),
    ] {
        assert_eq!(is_worth_another_try(&status), again, "{status}");
    }
}
