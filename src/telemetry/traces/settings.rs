//! Where the collector is, and what it is sent with each batch.

use std::fmt;
use std::str::FromStr as _;
use std::time::Duration;

use tonic::transport::Uri;

use super::Sampler;
use super::export::metadata;

/// How traces are sent.
#[derive(Clone, PartialEq)]
pub struct TraceSettings {
    /// The collector that spans are sent to.
    pub collector: Collector,
    /// Metadata of each request: an access key, say (S20).
    pub headers: Vec<(String, String)>,
    /// How long one request may take.
    pub timeout: Duration,
    /// The certificate authorities that a collector by `https` is trusted by, as PEM; else those of the
    /// system.
    pub ca: Option<Vec<u8>>,
    /// `service.name` of the resource.
    pub service_name: String,
    /// `service.instance.id` of the resource.
    pub instance: String,
    /// Further attributes of the resource.
    pub resource: Vec<(String, String)>,
    /// Which traces are recorded.
    pub sampler: Sampler,
    /// Which part of them, if the sampler takes a part.
    pub ratio: Ratio,
}

/// S20: headers are secrets.
impl fmt::Debug for TraceSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TraceSettings")
            .field("collector", &self.collector)
            .field("service_name", &self.service_name)
            .field("sampler", &self.sampler)
            .field("ratio", &self.ratio)
            .finish_non_exhaustive()
    }
}

/// The URL of a collector that speaks OTLP over gRPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    text: String,
}

impl Collector {
    /// Reads `http://host:port` or `https://host:port`; `host:port` is the former.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            || "must be the URL of a collector, such as \"http://localhost:4317\"".to_owned();
        let text = text.trim();
        let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let uri = Uri::from_str(&text).map_err(|_| wrong())?;
        let authority = uri.authority().filter(|authority| !authority.host().is_empty());
        let authority = authority.ok_or_else(wrong)?;
        if authority.as_str().contains('@') {
            return Err("must have no user and password: set telemetry.traces.headers".to_owned());
        }
        let scheme = uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https"));
        let scheme = scheme.ok_or_else(wrong)?;
        if uri.path() != "/" || uri.query().is_some() {
            return Err("must have no path: OTLP over gRPC has one of its own; is this the URL of OTLP over HTTP?".to_owned());
        }
        Ok(Self { text: format!("{scheme}://{authority}") })
    }

    /// The URL as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the connection is encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.text.starts_with("https:")
    }
}

/// A part of all traces: from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio {
    text: String,
    ratio: f64,
}

impl Ratio {
    /// Reads a decimal number.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn parse(text: &str) -> Result<Self, String> {
        let ratio = text.trim().parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
        let ratio = ratio.ok_or("must be a number from 0 to 1, such as \"0.1\"")?;
        Ok(Self { text: text.trim().to_owned(), ratio })
    }

    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The part of the traces, from 0 to 1.
    #[must_use]
    pub const fn get(&self) -> f64 {
        self.ratio
    }
}

/// Reads `key=value,key=value`, as OpenTelemetry's variables have headers and attributes: values are
/// percent-encoded.
///
/// # Errors
/// What is wrong with it, for people; without the text, which may be a secret.
pub fn parse_pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    let pair = |(number, item): (usize, &str)| {
        let pair = item.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
        let (key, value) = pair.filter(|(key, _)| !key.is_empty()).ok_or_else(|| {
            format!("must be key=value pairs separated by commas: pair {number} is not one")
        })?;
        let value = percent_encoding::percent_decode_str(value).decode_utf8();
        let value = value.map_err(|_| format!("has a value that is not UTF-8: that of {key}"))?;
        Ok((key.to_owned(), value.into_owned()))
    };
    (1..).zip(items).map(pair).collect()
}

/// Reads pairs that are headers.
///
/// # Errors
/// What is wrong with them, for people; without the text, which may be a secret.
pub fn parse_headers(text: &str) -> Result<Vec<(String, String)>, String> {
    let headers = parse_pairs(text)?;
    metadata(&headers).map(|_| headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_a_url_without_a_path() {
        for (given, read) in [
            ("http://localhost:4317", "http://localhost:4317"),
            ("https://collector.example:443/", "https://collector.example:443"),
            ("localhost:4317", "http://localhost:4317"),
            ("[::1]:4317", "http://[::1]:4317"),
            ("HTTPS://collector.example", "https://collector.example"),
        ] {
            assert_eq!(Collector::parse(given).unwrap().as_str(), read);
        }
        for wrong in
            ["", "http://", "unix:///run/s", "http://h:4318/v1/traces", "http://u:p@h", "a b"]
        {
            assert!(Collector::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_ratio_is_between_none_and_all() {
        assert_eq!(Ratio::parse(" 0.25").unwrap().get(), 0.25);
        for wrong in ["", "-0.1", "1.1", "NaN", "half"] {
            assert!(Ratio::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn pairs_are_read_as_the_variables_have_them_and_mistakes_do_not_show_values() {
        let read = parse_pairs("api-key=abc%3D1, tenant = a ,").unwrap();
        let expected = [("api-key", "abc=1"), ("tenant", "a")];
        assert_eq!(read, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let problem = parse_pairs("good=1,hunter2").unwrap_err();
        assert!(problem.contains("pair 2") && !problem.contains("hunter2"), "{problem}");
    }
}
