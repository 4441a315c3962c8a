//! Traces of holds, sent to a collector by OTLP over gRPC; off unless a collector is named.
//!
//! Rules: S20 (no lease id, resume token, checkpoint or label's value in any span). Nothing of the sidecar
//! waits for the collector: spans go into a bounded queue, and one that finds it full is dropped and counted.
//! May import: coordinator, store, lock, time's Clock. To record more of a hold: a method of the
//! coordinator's `HoldTrace`, and what it makes of it in `hold.rs`; docs/operations.md lists every span and
//! attribute.
//!
//! | file | what it does |
//! | --- | --- |
//! | `hold.rs` | one hold as spans |
//! | `context.rs` | the trace that a caller is in |
//! | `sampler.rs` | which traces are recorded |
//! | `export.rs` | the queue's other end: batches to the collector |
//! | `settings.rs` | where the collector is, and what it is sent with each batch |
//! | `wire.rs` | the messages of OTLP |

mod context;
mod export;
mod hold;
mod sampler;
mod settings;
mod wire;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use sampler::Sampler;
pub use settings::{Collector, Ratio, TraceSettings, parse_headers, parse_pairs};

use export::Export;
use hold::HoldSpans;
use wire::Span;

use super::Metrics;
use super::metrics::traces::{Dropped, Families};
use crate::coordinator::{Asked, LockEvent, Observer, TraceHandle, TraceId};
use crate::time::Clock;

/// Spans that wait for the collector at the most: about 2 MiB.
const QUEUE: usize = 2_048;
/// How long the last spans may take when the sidecar ends.
const LAST_EXPORT: Duration = Duration::from_secs(2);

/// Traces that are being recorded and sent.
#[derive(Debug)]
pub struct Traces {
    recorder: Recorder,
    sampler: Sampler,
    ratio: f64,
    stop: CancellationToken,
    exporting: Mutex<Option<JoinHandle<()>>>,
}

/// Why traces cannot be sent.
#[derive(Debug, thiserror::Error)]
#[error("cannot send traces to {collector} (telemetry.traces.endpoint): {problem}")]
pub struct TracesError {
    collector: String,
    problem: String,
}

impl Traces {
    /// Records from now on, and sends what is recorded from a task of the current runtime. The collector is
    /// not asked for anything before there is something to send.
    ///
    /// # Errors
    /// When the settings name no collector that could be reached.
    pub fn start(
        settings: &TraceSettings,
        clock: Arc<dyn Clock>,
        metrics: &Metrics,
    ) -> Result<Self, TracesError> {
        let stop = CancellationToken::new();
        let counts = metrics.trace_counts();
        let (queue, spans) = mpsc::channel(QUEUE);
        let export = Export::new(settings, spans, counts.clone(), stop.clone())?;
        let exporting = Mutex::new(Some(tokio::spawn(export.run())));
        let random = SystemRandom::new();
        let recorder =
            Recorder { inner: Arc::new(SharedRecorder { queue, clock, counts, random }) };
        Ok(Self {
            recorder,
            sampler: settings.sampler,
            ratio: settings.ratio.get(),
            stop,
            exporting,
        })
    }

    /// Sends what waits, for two seconds at the most. What is recorded after that is dropped.
    pub async fn flush(&self) {
        self.stop.cancel();
        let exporting = self.exporting.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut exporting) = exporting else { return };
        if tokio::time::timeout(LAST_EXPORT, &mut exporting).await.is_err() {
            exporting.abort();
            tracing::warn!(
                "the last spans of traces were not sent: the collector has not answered in time"
            );
        }
    }
}

impl Observer for Traces {
    /// Traces follow single holds.
    fn observe(&self, _event: &LockEvent<'_>) {}

    /// Records a hold, if its trace is one of those that are.
    fn follow(&self, asked: &Asked<'_>) -> Option<TraceHandle> {
        let parent = asked.context.and_then(context::read);
        let trace = match &parent {
            Some(parent) => parent.id.trace,
            None => self.recorder.random()?,
        };
        let recorded = parent.as_ref().map(|parent| parent.sampled);
        if !self.sampler.records(self.ratio, trace, recorded) {
            return None;
        }
        let id = TraceId { trace, span: self.recorder.span_id() };
        Some(TraceHandle::new(HoldSpans::new(&self.recorder, id, parent, asked)))
    }
}

/// Takes in what is recorded. The clones are one.
#[derive(Clone, Debug)]
struct Recorder {
    inner: Arc<SharedRecorder>,
}

#[derive(Debug)]
struct SharedRecorder {
    queue: mpsc::Sender<Span>,
    clock: Arc<dyn Clock>,
    counts: Families,
    random: SystemRandom,
}

impl Recorder {
    fn clock(&self) -> &dyn Clock {
        self.inner.clock.as_ref()
    }

    /// Queues a span, or drops it: nobody waits for the collector.
    fn record(&self, span: Span) {
        if self.inner.queue.try_send(span).is_err() {
            self.inner.counts.dropped(Dropped::QueueFull, 1);
        }
    }

    /// The id of a new span. The system's randomness does not fail after the start; a collector leaves a span
    /// out whose id is zero.
    fn span_id(&self) -> [u8; 8] {
        self.random().unwrap_or_default()
    }

    fn random<const N: usize>(&self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.inner.random.fill(&mut bytes).ok()?;
        Some(bytes)
    }
}
