//! The queue's other end: batches to the collector, from a task of their own.

use std::error::Error as _;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{MetadataKey, MetadataMap, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Status};

use super::settings::TraceSettings;
use super::wire::{
    ExportRequest, ExportResponse, KeyValue, Resource, ResourceSpans, Scope, ScopeSpans, Span,
};
use super::{Dropped, Families, TracesError};

/// Spans of one request at the most.
const BATCH: usize = 512;
/// How long a span waits for others.
const LINGER: Duration = Duration::from_secs(1);
/// How often a batch is sent at the most, and the time after the first try; it doubles.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The method of the collector.
const METHOD: PathAndQuery =
    PathAndQuery::from_static("/opentelemetry.proto.collector.trace.v1.TraceService/Export");

/// Sends what is recorded.
#[derive(Debug)]
pub(super) struct Export {
    spans: mpsc::Receiver<Span>,
    channel: Channel,
    headers: MetadataMap,
    resource: Resource,
    timeout: Duration,
    counts: Families,
    stop: CancellationToken,
    /// The last batch was not accepted, and that is in the log.
    is_failing: bool,
}

impl Export {
    pub(super) fn new(
        settings: &TraceSettings,
        spans: mpsc::Receiver<Span>,
        counts: Families,
        stop: CancellationToken,
    ) -> Result<Self, TracesError> {
        let failed = |problem: String| TracesError {
            collector: settings.collector.as_str().to_owned(),
            problem,
        };
        let channel = channel(settings).map_err(|error| failed(chain(&error)))?;
        Ok(Self {
            spans,
            channel,
            headers: metadata(&settings.headers)
                .map_err(|problem| failed(format!("telemetry.traces.headers {problem}")))?,
            resource: resource(settings),
            timeout: settings.timeout,
            counts,
            stop,
            is_failing: false,
        })
    }

    /// Until it is told to stop, and then until the queue is empty.
    pub(super) async fn run(mut self) {
        let stop = self.stop.clone();
        loop {
            let mut batch = Vec::new();
            tokio::select! {
                biased;
                received = self.spans.recv_many(&mut batch, BATCH) => if received == 0 { return },
                () = stop.cancelled() => return,
            }
            let linger = tokio::time::sleep(LINGER);
            tokio::pin!(linger);
            while batch.len() < BATCH {
                let room = BATCH - batch.len();
                tokio::select! {
                    biased;
                    received = self.spans.recv_many(&mut batch, room) => if received == 0 { break },
                    () = stop.cancelled() => break,
                    () = &mut linger => break,
                }
            }
            self.export(batch).await;
        }
    }

    async fn export(&mut self, batch: Vec<Span>) {
        let spans = batch.len() as u64;
        let request = self.request(batch);
        let mut pause = FIRST_PAUSE;
        for attempt in 1..=ATTEMPTS {
            match self.send(request.clone()).await {
                Ok(response) => return self.accepted(spans, response),
                Err(status) => {
                    self.note_failure(&status);
                    if !is_worth_another_try(&status)
                        || attempt == ATTEMPTS
                        || self.stop.is_cancelled()
                    {
                        break;
                    }
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.stop.cancelled() => {}
            }
            pause *= 2;
        }
        self.counts.dropped(Dropped::ExportFailed, spans);
    }

    fn accepted(&mut self, spans: u64, response: ExportResponse) {
        let refused = response.partial_success.unwrap_or_default();
        let rejected = u64::try_from(refused.rejected_spans).unwrap_or(0).min(spans);
        self.counts.exported(spans - rejected);
        if rejected > 0 {
            self.counts.dropped(Dropped::ExportFailed, rejected);
            let status = Status::invalid_argument(refused.error_message);
            return self.note_failure(&status);
        }
        if std::mem::take(&mut self.is_failing) {
            tracing::info!("traces are sent again");
        }
    }

    /// One line for each time that it begins to fail.
    fn note_failure(&mut self, status: &Status) {
        if !std::mem::replace(&mut self.is_failing, true) {
            let (code, why) = (status.code(), status.message());
            tracing::warn!(
                ?code,
                why,
                "traces cannot be sent; spans are dropped while this lasts, and no lock waits for it"
            );
        }
    }

    fn request(&self, spans: Vec<Span>) -> ExportRequest {
        let scope =
            Scope { name: "leasehold".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
        ExportRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(self.resource.clone()),
                scope_spans: vec![ScopeSpans { scope: Some(scope), spans }],
            }],
        }
    }

    async fn send(&self, request: ExportRequest) -> Result<ExportResponse, Status> {
        let mut request = tonic::Request::new(request);
        *request.metadata_mut() = self.headers.clone();
        let mut client = tonic::client::Grpc::new(self.channel.clone());
        let sending = async {
            let ready = client.ready().await;
            ready.map_err(|error| Status::unavailable(chain(&error)))?;
            let codec = tonic_prost::ProstCodec::<ExportRequest, ExportResponse>::default();
            client.unary(request, METHOD, codec).await
        };
        let answer = tokio::time::timeout(self.timeout, sending).await;
        let late = |_| Err(Status::deadline_exceeded("no answer in time"));
        let answer = answer.unwrap_or_else(late).map_err(unavailable_if_broken);
        answer.map(tonic::Response::into_inner)
    }
}

/// A connection that broke has no status of the collector: what was sent by it is sent again.
fn unavailable_if_broken(status: Status) -> Status {
    match status.source() {
        Some(cause) if cause.is::<tonic::transport::Error>() => Status::unavailable(chain(cause)),
        Some(_) | None => status,
    }
}

/// As the specification of OTLP has it.
fn is_worth_another_try(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unavailable
            | Code::DeadlineExceeded
            | Code::Cancelled
            | Code::Aborted
            | Code::OutOfRange
            | Code::DataLoss
            | Code::ResourceExhausted
    )
}

/// Connects when there is something to send.
fn channel(settings: &TraceSettings) -> Result<Channel, tonic::transport::Error> {
    let mut endpoint = Endpoint::from_shared(settings.collector.as_str().to_owned())?
        .connect_timeout(settings.timeout);
    if settings.collector.is_encrypted() {
        let tls = ClientTlsConfig::new();
        let tls = match &settings.ca {
            Some(pem) => tls.ca_certificate(Certificate::from_pem(pem)),
            None => tls.with_native_roots(),
        };
        endpoint = endpoint.tls_config(tls)?;
    }
    Ok(endpoint.connect_lazy())
}

/// Headers as they are sent.
pub(super) fn metadata(headers: &[(String, String)]) -> Result<MetadataMap, String> {
    let mut metadata = MetadataMap::new();
    for (name, value) in headers {
        let key = MetadataKey::from_bytes(name.to_lowercase().as_bytes());
        let key =
            key.map_err(|_| format!("has a pair whose key is no name of a header: {name:?}"))?;
        let value = MetadataValue::try_from(value.as_str());
        let mut value = value.map_err(|_| {
            format!("has a value with characters that a header cannot have: that of {name}")
        })?;
        value.set_sensitive(true);
        metadata.insert(key, value);
    }
    Ok(metadata)
}

/// What is said of the sidecar with each batch. What an attribute of ours says, another cannot.
fn resource(settings: &TraceSettings) -> Resource {
    let ours = [
        ("service.name", settings.service_name.as_str()),
        ("service.version", env!("CARGO_PKG_VERSION")),
    ];
    let given = |key: &str| settings.resource.iter().any(|(name, _)| name == key);
    let mut attributes: Vec<KeyValue> =
        ours.iter().map(|(key, value)| KeyValue::text(key, *value)).collect();
    if !given("service.instance.id") {
        attributes.push(KeyValue::text("service.instance.id", settings.instance.as_str()));
    }
    let others = settings.resource.iter().filter(|(key, _)| ours.iter().all(|(own, _)| own != key));
    attributes.extend(others.map(|(key, value)| KeyValue::text(key, value.as_str())));
    Resource { attributes }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
#[path = "export_tests.rs"]
mod tests;
