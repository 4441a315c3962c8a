//! A receiver of OTLP, made from that project's own types.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::metadata::MetadataMap;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

/// What it does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Answers,
    NeverAnswers,
}

/// A collector, and what it was sent.
pub(super) struct Collector {
    pub(super) url: String,
    received: Received,
    serving: JoinHandle<()>,
}

type Received = Arc<Mutex<Vec<(MetadataMap, ExportTraceServiceRequest)>>>;

/// A span, as far as the tests look at it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) trace: String,
    pub(super) id: String,
    pub(super) parent: String,
    pub(super) name: String,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) attributes: Vec<(String, String)>,
    /// Where each leads to, and what it is.
    pub(super) links: Vec<(String, String)>,
    pub(super) events: Vec<String>,
    pub(super) is_error: bool,
}

struct Receiver {
    mode: Mode,
    received: Received,
}

#[tonic::async_trait]
impl TraceService for Receiver {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let (metadata, _, message) = request.into_parts();
        self.received.lock().unwrap().push((metadata, message));
        if self.mode == Mode::NeverAnswers {
            std::future::pending::<()>().await;
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    pub(super) async fn start(mode: Mode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Received::default();
        let receiver = Receiver { mode, received: Arc::clone(&received) };
        let server = Server::builder().add_service(TraceServiceServer::new(receiver));
        let serving = server.serve_with_incoming(TcpListenerStream::new(listener));
        let serving = tokio::spawn(async move { serving.await.unwrap() });
        Self { url, received, serving }
    }

    /// Ends it; the address where nobody is any more.
    pub(super) async fn stop(self) -> String {
        self.serving.abort();
        assert!(self.serving.await.unwrap_err().is_cancelled());
        self.url
    }

    pub(super) fn was_asked(&self) -> bool {
        !self.received.lock().unwrap().is_empty()
    }

    fn requests(&self) -> Vec<ExportTraceServiceRequest> {
        self.received.lock().unwrap().iter().map(|(_, request)| request.clone()).collect()
    }

    /// Every span, in the order in which they began.
    pub(super) fn spans(&self) -> Vec<Seen> {
        let resources = self.requests().into_iter().flat_map(|request| request.resource_spans);
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        let mut spans: Vec<Seen> = scopes.flat_map(|scope| scope.spans).map(Seen::from).collect();
        spans.sort_by(|one, other| (one.start, &one.name).cmp(&(other.start, &other.name)));
        spans
    }

    pub(super) fn spans_named(&self, name: &str) -> Vec<Seen> {
        self.spans().into_iter().filter(|span| span.name == name).collect()
    }

    /// The services that have sent something.
    pub(super) fn services(&self) -> Vec<String> {
        let resources = self.requests().into_iter().flat_map(|request| request.resource_spans);
        let attributes = resources.flat_map(|resource| resource.resource.unwrap().attributes);
        let names = attributes.filter(|attribute| attribute.key == "service.name");
        let mut names: Vec<String> = names.map(|name| text(name.value)).collect();
        names.dedup();
        names
    }

    pub(super) fn header(&self, name: &str) -> Option<String> {
        let received = self.received.lock().unwrap();
        let (metadata, _) = received.first()?;
        Some(metadata.get(name)?.to_str().unwrap().to_owned())
    }

    /// Every text that has come, in whichever field, a line each request.
    pub(super) fn everything(&self) -> String {
        let mut everything = String::new();
        for request in self.requests() {
            writeln!(everything, "{request:?}").unwrap();
            // Bytes are numbers there.
            everything.push_str(&String::from_utf8_lossy(&prost::Message::encode_to_vec(&request)));
            everything.push('\n');
        }
        everything
    }
}

impl Seen {
    pub(super) fn attribute(&self, key: &str) -> &str {
        let found = self.attributes.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }
}

impl From<Span> for Seen {
    fn from(span: Span) -> Self {
        let pair = |pair: KeyValue| (pair.key, text(pair.value));
        let links = span.links.into_iter();
        let link = |attributes: Vec<KeyValue>| attributes.into_iter().map(|it| text(it.value));
        Self {
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            name: span.name,
            start: span.start_time_unix_nano,
            end: span.end_time_unix_nano,
            attributes: span.attributes.into_iter().map(pair).collect(),
            links: links.map(|it| (hex(&it.span_id), link(it.attributes).collect())).collect(),
            events: span.events.into_iter().map(|event| event.name).collect(),
            is_error: span.status.is_some_and(|status| status.code == 2),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn text(value: Option<AnyValue>) -> String {
    let value = value.unwrap().value.unwrap();
    if let Value::StringValue(text) = value {
        text
    } else if let Value::IntValue(number) = value {
        number.to_string()
    } else if let Value::BoolValue(switch) = value {
        switch.to_string()
    } else {
        panic!("{value:?}")
    }
}
