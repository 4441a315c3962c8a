//! The trace that a caller is in, as W3C Trace Context: with the feature `otel`.

use opentelemetry::Context;
use opentelemetry::trace::TraceContextExt as _;
use tonic::metadata::{MetadataMap, MetadataValue};

/// Adds the current context's trace; nothing where there is none.
pub(super) fn add(metadata: &mut MetadataMap) {
    let context = Context::current();
    let span = context.span().span_context().clone();
    if !span.is_valid() {
        return;
    }
    let flags = if span.is_sampled() { "01" } else { "00" };
    let parent = format!("00-{}-{}-{flags}", span.trace_id(), span.span_id());
    let headers = [("traceparent", parent), ("tracestate", span.trace_state().header())];
    for (name, value) in headers {
        // Whatever cannot be sent is left out: a call does not fail for its trace.
        if !value.is_empty()
            && let Ok(value) = MetadataValue::try_from(value)
        {
            metadata.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::{
        FutureExt as _, SpanContext, SpanId, TraceFlags, TraceId, TraceState,
    };

    use super::*;
    use crate::LeaseSpec;
    use crate::fake::Bench;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn traced() -> Context {
        let trace = TraceId::from_hex("4bf92f3577b34da6a3ce929d0e0e4736").unwrap();
        let span = SpanId::from_hex("00f067aa0ba902b7").unwrap();
        let state = TraceState::from_key_value([("vendor", "1")]).unwrap();
        let span = SpanContext::new(trace, span, TraceFlags::SAMPLED, false, state);
        Context::new().with_remote_span_context(span)
    }

    #[test]
    fn a_context_without_a_trace_sends_nothing() {
        let mut metadata = MetadataMap::new();
        add(&mut metadata);
        assert!(metadata.is_empty());
        let _within = traced().attach();
        add(&mut metadata);
        assert_eq!(metadata.get("traceparent").unwrap(), PARENT);
        assert_eq!(metadata.get("tracestate").unwrap(), "vendor=1");
    }

    #[tokio::test]
    async fn a_hold_is_in_the_trace_in_which_it_is_asked_for() {
        let mut bench = Bench::new();
        let client = bench.client.clone();
        let asked = async move { client.hold(LeaseSpec::new("f")).await };
        let asked = tokio::spawn(asked.with_context(traced()));
        let stream = bench.opened().await;
        assert_eq!(stream.asked.metadata("traceparent"), PARENT);
        stream.tell(&serde_json::json!({"busy": {}}));
        asked.await.unwrap().unwrap();
    }
}
