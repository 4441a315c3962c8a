//! The trace that a caller is in, as the metadata of its call has it.

use tonic::metadata::MetadataMap;

use crate::coordinator::TraceContext;

/// Bytes of a header that are looked at, at the most; the standard needs 55 and 512.
const MAX_HEADER: usize = 1_024;

/// The headers of W3C Trace Context, if the caller sent them. Where an interceptor has added its own to those
/// of the client, the last ones count: its span is the nearer one.
pub(super) fn context(metadata: &MetadataMap) -> Option<Box<TraceContext>> {
    let all = |name: &str| -> Option<Vec<&str>> {
        metadata.get_all(name).iter().map(|text| text.to_str().ok()).collect()
    };
    let fits = |text: &str| text.len() <= MAX_HEADER;
    let parents = all("traceparent")?;
    let parent = parents.last().copied().filter(|parent| fits(parent))?.to_owned();
    // The lines of one sender are one list, as the standard has it.
    let state = match (all("tracestate").unwrap_or_default(), parents.len()) {
        (states, 1) => states.join(","),
        (states, _) => states.last().copied().unwrap_or_default().to_owned(),
    };
    let state = if fits(&state) { state } else { String::new() };
    Some(Box::new(TraceContext { parent, state }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(headers: &[(&'static str, &str)]) -> MetadataMap {
        let mut metadata = MetadataMap::new();
        for (name, value) in headers {
            metadata.append(*name, value.parse().unwrap());
        }
        metadata
    }

    #[test]
    fn both_headers_are_taken_and_a_state_alone_is_nothing() {
        let both = [("traceparent", "00-1"), ("tracestate", "a=1"), ("traceparent", "00-2")];
        let found = context(&metadata(&both)).unwrap();
        assert_eq!((found.parent.as_str(), found.state.as_str()), ("00-2", "a=1"));
        let lines = [("traceparent", "00-1"), ("tracestate", "a=1"), ("tracestate", "b=2")];
        assert_eq!(context(&metadata(&lines)).unwrap().state, "a=1,b=2");
        assert_eq!(context(&metadata(&[("tracestate", "a=1")])), None);
        let long = "x".repeat(MAX_HEADER + 1);
        assert_eq!(context(&metadata(&[("traceparent", &long)])), None);
        let found = context(&metadata(&[("traceparent", "00-1"), ("tracestate", &long)])).unwrap();
        assert_eq!(found.state, "");
    }
}
