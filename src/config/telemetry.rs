//! The section `telemetry`: where traces go. What is not set comes from OpenTelemetry's own variables.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::setting::{Key, settings};
use super::sources::Context;
use super::value::{Choice, Given, Value};
use super::values::Values;
use crate::store::Secret;
use crate::telemetry::{Collector, Ratio, Sampler, TraceSettings, parse_headers, parse_pairs};

impl Choice for Sampler {
    const CHOICES: &'static [(&'static str, Self)] = &Self::NAMES;
}

/// The longest time that one request to the collector may take.
const MAX_TIMEOUT: Duration = Duration::from_secs(60);

settings! {
    ENABLED: bool = Key::found(
        "telemetry.traces.enabled",
        "`false` if `OTEL_SDK_DISABLED` is `true` or `OTEL_TRACES_EXPORTER` does not name `otlp`, else `true`",
        |context| Some(is_enabled(context).to_string()),
        "Whether traces are sent to the collector, if one is configured; see [Traces](operations.md#traces).",
    );
    ENDPOINT: Collector = Key::found(
        "telemetry.traces.endpoint",
        "`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, else `OTEL_EXPORTER_OTLP_ENDPOINT` (without a scheme by `https`, or by `http` if \
         `OTEL_EXPORTER_OTLP_INSECURE` is `true`), unless \
         `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL` or `OTEL_EXPORTER_OTLP_PROTOCOL` is another than `grpc`; else none: no traces",
        |context| speaks_grpc(context).then(|| collector(context)).flatten(),
        "The URL of a collector that speaks OTLP over gRPC, such as `http://localhost:4317`.",
    );
    HEADERS: Secret = Key::<Secret>::found(
        "telemetry.traces.headers",
        "`OTEL_EXPORTER_OTLP_TRACES_HEADERS`, else `OTEL_EXPORTER_OTLP_HEADERS`, else none",
        |context| of_exporter(context, "HEADERS"),
        "Headers of each request to the collector, as `key=value` pairs separated by commas.",
    ).masked();
    TIMEOUT: Duration = Key::<Duration>::found(
        "telemetry.traces.timeout",
        "`OTEL_EXPORTER_OTLP_TRACES_TIMEOUT`, else `OTEL_EXPORTER_OTLP_TIMEOUT` (milliseconds), else `10s`",
        |context| {
            let milliseconds = of_exporter(context, "TIMEOUT").and_then(|text| text.parse().ok());
            let timeout = milliseconds.map(Duration::from_millis);
            let timeout = timeout.filter(|timeout| !timeout.is_zero());
            let timeout = timeout.map(|timeout| timeout.min(MAX_TIMEOUT).as_millis());
            Some(timeout.map_or_else(|| "10s".to_owned(), |timeout| format!("{timeout}ms")))
        },
        "How long one request to the collector may take. No lock waits for it.",
    ).within(Duration::from_millis(1), MAX_TIMEOUT);
    CA_FILE: PathBuf = Key::found(
        "telemetry.traces.ca_file",
        "`OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE`, else `OTEL_EXPORTER_OTLP_CERTIFICATE`, else the system's authorities",
        |context| of_exporter(context, "CERTIFICATE"),
        "The PEM file of the authorities that sign the collector's certificate, for `https`.",
    );
    SERVICE_NAME: String = Key::found(
        "telemetry.traces.service_name",
        "`OTEL_SERVICE_NAME`, else `service.name` of the resource attributes, else `leasehold`",
        |context| {
            let of_resource = || {
                let pairs = parse_pairs(&resource_text(context)?).ok()?;
                let named = pairs.into_iter().find(|(key, _)| key == "service.name");
                named.map(|(_, name)| name)
            };
            let named = context.variable("OTEL_SERVICE_NAME").filter(|name| is_text(name));
            let named = named.or_else(|| of_resource().filter(|name| is_text(name)));
            Some(named.unwrap_or_else(|| "leasehold".to_owned()))
        },
        "The name of the service in the traces.",
    );
    RESOURCE_ATTRIBUTES: String = Key::found(
        "telemetry.traces.resource_attributes",
        "`OTEL_RESOURCE_ATTRIBUTES`, else none",
        |context| context.variable("OTEL_RESOURCE_ATTRIBUTES"),
        "Further resource attributes of this sidecar in the traces, as `key=value` pairs separated by commas.",
    );
    SAMPLER: Sampler = Key::found(
        "telemetry.traces.sampler",
        "`OTEL_TRACES_SAMPLER` if it is one of these, else `parentbased_always_on`",
        |context| {
            let named = context.variable("OTEL_TRACES_SAMPLER");
            let known = named.filter(|name| Sampler::NAMES.iter().any(|(known, _)| known == name));
            Some(known.unwrap_or_else(|| Sampler::ParentBasedAlwaysOn.word().to_owned()))
        },
        "Which traces are recorded. Samplers that begin with `parentbased_` follow the caller's decision if the caller \
         is in a trace.",
    );
    RATIO: Ratio = Key::found(
        "telemetry.traces.ratio",
        "`OTEL_TRACES_SAMPLER_ARG` if it is such a number, else `1`",
        |context| {
            let given = context.variable("OTEL_TRACES_SAMPLER_ARG");
            Some(given.filter(|text| Ratio::parse(text).is_ok()).unwrap_or_else(|| "1".to_owned()))
        },
        "The share of traces that a sampler that ends with `traceidratio` records.",
    );
}

/// The variable of this name for traces, else the one for everything that OTLP exports.
fn of_exporter(context: &Context<'_>, name: &str) -> Option<String> {
    let of_traces = context.variable(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"));
    of_traces.or_else(|| context.variable(&format!("OTEL_EXPORTER_OTLP_{name}")))
}

/// The collector that a variable names. One without a scheme is asked by https, so that a key is not sent in
/// the clear, unless another variable says that it may be.
fn collector(context: &Context<'_>) -> Option<String> {
    let named = of_exporter(context, "ENDPOINT")?;
    let insecure = of_exporter(context, "INSECURE");
    let insecure = insecure.is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let scheme = match (named.contains("://"), insecure) {
        (true, _) => "",
        (false, true) => "http://",
        (false, false) => "https://",
    };
    Some(format!("{scheme}{}", named.trim()))
}

fn speaks_grpc(context: &Context<'_>) -> bool {
    of_exporter(context, "PROTOCOL").is_none_or(|protocol| protocol == "grpc")
}

fn is_enabled(context: &Context<'_>) -> bool {
    let disabled = context.variable("OTEL_SDK_DISABLED");
    let disabled = disabled.is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let exporters = context.variable("OTEL_TRACES_EXPORTER");
    let is_chosen = |names: String| names.split(',').any(|name| name.trim() == "otlp");
    !disabled && exporters.is_none_or(is_chosen)
}

/// Whether a setting could have this text.
fn is_text(text: &str) -> bool {
    String::parse(&SERVICE_NAME.setting, &Given::Word(text.to_owned())).is_ok()
}

/// What is set, or else the variable.
fn resource_text(context: &Context<'_>) -> Option<String> {
    let given = context.given(RESOURCE_ATTRIBUTES.setting.key).map(str::to_owned);
    given.or_else(|| context.variable("OTEL_RESOURCE_ATTRIBUTES"))
}

/// What is said of traces.
pub(super) struct Traces {
    /// How they are sent; none if they are off.
    pub(super) settings: Option<TraceSettings>,
    /// Which variables are not used, and why. No mistakes: they may be meant for others.
    pub(super) ignored: Vec<String>,
}

/// `holder` is the name of this sidecar for people.
pub(super) fn read(values: &mut Values<'_>, holder: Option<&str>) -> Option<Traces> {
    if !values.get(&ENABLED)? {
        return Some(Traces { settings: None, ignored: Vec::new() });
    }
    let mut ignored = Vec::new();
    let Some(collector) = values.get(&ENDPOINT) else {
        ignore_wrong(values, &ENDPOINT, "OTEL_EXPORTER_OTLP_ENDPOINT", &mut ignored);
        return Some(Traces { settings: None, ignored });
    };
    let settings = Some(settings_of(values, collector, holder, &mut ignored)?);
    Some(Traces { settings, ignored })
}

/// Says that a variable is passed over, if it is. S20: not what is in it, which may be a password.
fn ignore_wrong<T: Value>(
    values: &Values<'_>,
    key: &Key<T>,
    variable: &str,
    ignored: &mut Vec<String>,
) {
    if !values.is_mistaken(key.setting.key)
        && let Some(problem) = values.wrong_default(key)
    {
        ignored.push(format!("{variable} {problem}"));
    }
}

/// What was read: a mistake if a setting cannot be, nothing if a variable cannot be.
fn read_or_ignore<T>(
    values: &mut Values<'_>,
    key: &'static str,
    variable: &str,
    read: Result<T, String>,
    ignored: &mut Vec<String>,
) -> Option<T> {
    match read {
        Ok(read) => return Some(read),
        Err(problem) if values.is_given(key) => values.bad(key, None, problem),
        Err(problem) => ignored.push(format!("{variable} {problem}")),
    }
    None
}

/// The authorities in a file.
fn authorities(values: &Values<'_>, path: &Path) -> Result<Vec<u8>, String> {
    match values.bytes_of(path) {
        Ok(bytes) if bytes.trim_ascii().is_empty() => Err("names a file that is empty".to_owned()),
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(format!("names a file that cannot be read: {error}: {}", path.display())),
    }
}

fn settings_of(
    values: &mut Values<'_>,
    collector: Collector,
    holder: Option<&str>,
    ignored: &mut Vec<String>,
) -> Option<TraceSettings> {
    let headers = values.get(&HEADERS).and_then(|headers| {
        let variable = "OTEL_EXPORTER_OTLP_HEADERS";
        let read = parse_headers(headers.expose());
        read_or_ignore(values, HEADERS.setting.key, variable, read, ignored)
    });
    let of_resource = "OTEL_RESOURCE_ATTRIBUTES";
    ignore_wrong(values, &RESOURCE_ATTRIBUTES, of_resource, ignored);
    let resource = values.get(&RESOURCE_ATTRIBUTES).and_then(|text| {
        let key = RESOURCE_ATTRIBUTES.setting.key;
        read_or_ignore(values, key, of_resource, parse_pairs(&text), ignored)
    });
    let ca_file = values.get(&CA_FILE).filter(|_| collector.is_encrypted());
    let ca = ca_file.and_then(|path| {
        let variable = "OTEL_EXPORTER_OTLP_CERTIFICATE";
        let read = authorities(values, &path);
        read_or_ignore(values, CA_FILE.setting.key, variable, read, ignored)
    });
    Some(TraceSettings {
        collector,
        headers: headers.unwrap_or_default(),
        timeout: values.get(&TIMEOUT)?,
        ca,
        service_name: values.get(&SERVICE_NAME)?,
        instance: holder.unwrap_or_default().to_owned(),
        resource: resource.unwrap_or_default(),
        sampler: values.get(&SAMPLER)?,
        ratio: values.get(&RATIO)?,
    })
}
