//! The section `telemetry`, and OpenTelemetry's own variables.

use super::*;
use crate::telemetry::{Sampler, TraceSettings};

fn traces(file: &str, variables: &[(&str, &str)]) -> Option<TraceSettings> {
    Config::load(&sources(file, variables, &[])).unwrap().traces
}

const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317");

#[test]
fn traces_are_off_unless_a_collector_is_named() {
    assert!(traces("", &[]).is_none());
    assert!(traces("", &[("OTEL_SERVICE_NAME", "orders")]).is_none());
    assert!(traces("", &[ENDPOINT]).is_some());
    for off in [
        ("OTEL_SDK_DISABLED", "True"),
        ("OTEL_TRACES_EXPORTER", "none"),
        ("OTEL_TRACES_EXPORTER", "zipkin"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("LEASEHOLD_TELEMETRY_TRACES_ENABLED", "false"),
    ] {
        assert!(traces("", &[ENDPOINT, off]).is_none(), "{off:?}");
    }
    assert!(traces("", &[ENDPOINT, ("OTEL_TRACES_EXPORTER", "console, otlp")]).is_some());
    let forced = "telemetry.traces.enabled = true";
    assert!(traces(forced, &[ENDPOINT, ("OTEL_SDK_DISABLED", "true")]).is_some());
}

#[test]
fn variables_for_traces_go_before_those_for_everything_and_settings_before_both() {
    let variables = [
        ENDPOINT,
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://traces:443"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=1"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "b=2"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=by-attribute,team=blue"),
        ("OTEL_TRACES_SAMPLER", "traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
        ("POD_NAME", "pod-1"),
    ];
    let read = traces("", &variables).unwrap();
    assert_eq!(read.collector.as_str(), "https://traces:443");
    assert_eq!(read.headers, [("b".to_owned(), "2".to_owned())]);
    assert_eq!(read.timeout, std::time::Duration::from_millis(2_500));
    assert_eq!((read.service_name.as_str(), read.instance.as_str()), ("by-attribute", "pod-1"));
    assert_eq!((read.sampler, read.ratio.get()), (Sampler::TraceIdRatio, 0.25));
    assert!(read.resource.contains(&("team".to_owned(), "blue".to_owned())));
    let file = "[telemetry.traces]\nendpoint = \"http://mine:4317\"\nservice_name = \"mine\"\nsampler = \"always_on\"\n";
    let read = traces(file, &variables).unwrap();
    assert_eq!((read.collector.as_str(), read.service_name.as_str()), ("http://mine:4317", "mine"));
    assert_eq!(read.sampler, Sampler::AlwaysOn);
}

#[test]
fn a_variable_that_cannot_be_used_is_passed_over_and_a_setting_is_a_mistake() {
    let others = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/v1/traces"),
        ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
        ("OTEL_TRACES_SAMPLER_ARG", "many"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
    ];
    let config = Config::load(&sources("", &others, &[])).unwrap();
    assert!(config.traces.is_none());
    assert!(config.traces_ignored[0].contains("must have no path"));
    let [_, rest @ ..] = others;
    let read = traces("telemetry.traces.endpoint = 'http://mine:4317'", &rest).unwrap();
    assert_eq!((read.sampler, read.ratio.get()), (Sampler::ParentBasedAlwaysOn, 1.0));
    assert_eq!(read.timeout, std::time::Duration::from_secs(10));
    for wrong in [
        "endpoint = 'ftp://x'",
        "sampler = 'some'",
        "ratio = '2'",
        "headers = 'hunter2'",
        "headers = 'a b=hunter2'",
        "resource_attributes = 'team'",
    ] {
        let file = format!("[telemetry.traces]\n{wrong}\n");
        let error = Config::load(&sources(&file, &[ENDPOINT], &[])).unwrap_err().to_string();
        assert!(
            error.contains("telemetry.traces") && !error.contains("hunter2"),
            "{wrong}: {error}"
        );
    }
}

#[test]
fn a_variable_that_is_meant_for_others_stops_no_sidecar() {
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector:4317");
    let long = "x".repeat(2_000);
    for (name, wrong) in [
        ("OTEL_EXPORTER_OTLP_HEADERS", "hunter2"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a b=hunter2"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "key-bin=hunter2"),
        ("OTEL_RESOURCE_ATTRIBUTES", "team"),
        ("OTEL_RESOURCE_ATTRIBUTES", &long),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/missing/ca.pem"),
    ] {
        let config = Config::load(&sources("", &[endpoint, (name, wrong)], &[])).unwrap();
        let read = config.traces.unwrap();
        assert_eq!((read.headers, read.resource, read.ca), (Vec::new(), Vec::new(), None));
        let [why] = config.traces_ignored.as_slice() else { panic!("{name}={wrong}") };
        assert!(why.starts_with(name) && !why.contains("hunter2"), "{why}");
    }
    for wrong in [" ", &long] {
        let read = traces("", &[endpoint, ("OTEL_SERVICE_NAME", wrong)]).unwrap();
        assert_eq!(read.service_name, "leasehold");
    }
}

#[test]
fn a_collector_without_a_scheme_is_asked_by_https_unless_that_is_not_wanted() {
    let named = ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317");
    assert_eq!(traces("", &[named]).unwrap().collector.as_str(), "https://collector:4317");
    let insecure = ("OTEL_EXPORTER_OTLP_INSECURE", "true");
    assert_eq!(traces("", &[named, insecure]).unwrap().collector.as_str(), "http://collector:4317");
}

#[test]
fn s20_a_password_in_the_endpoint_is_not_repeated() {
    let url = "http://me:hunter2@collector:4317";
    let config = Config::load(&sources("", &[("OTEL_EXPORTER_OTLP_ENDPOINT", url)], &[])).unwrap();
    let said = format!("{:?} {config:?} {}", config.traces_ignored, config.print());
    assert!(said.contains("must have no user") && !said.contains("hunter2"), "{said}");
    let file = format!("telemetry.traces.endpoint = '{url}'");
    let error = Config::load(&sources(&file, &[], &[])).unwrap_err().to_string();
    assert!(error.contains("must have no user") && !error.contains("hunter2"), "{error}");
}

#[test]
fn s20_headers_are_masked() {
    let variables = [ENDPOINT, ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=hunter2")];
    let config = Config::load(&sources("", &variables, &[])).unwrap();
    assert!(!format!("{config:?} {}", config.print()).contains("hunter2"));
}
