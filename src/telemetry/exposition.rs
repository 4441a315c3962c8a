//! The two text formats in which metrics are read: OpenMetrics, and Prometheus' own that came before.

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// OpenMetrics 1.0, with exemplars.
    OpenMetrics,
    /// Prometheus' text format 0.0.4: what people see in a browser, and older programs read.
    Prometheus,
}

impl Exposition {
    /// The format that fits a request's `Accept` best: OpenMetrics where it is named and liked no less than
    /// `text/plain` (or `text/html`, which browsers ask for). Who names nothing gets what every program
    /// reads.
    #[must_use]
    pub fn for_accept(accept: &str) -> Self {
        let (mut open_metrics, mut text) = (None, None);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let liked = match parts.next().map(str::to_ascii_lowercase).as_deref() {
                Some("application/openmetrics-text") => &mut open_metrics,
                Some("text/plain" | "text/html" | "text/*") => &mut text,
                Some(_) | None => continue,
            };
            let quality =
                parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok()).unwrap_or(1.0);
            *liked = Some(liked.map_or(quality, |best: f32| best.max(quality)));
        }
        match open_metrics {
            Some(liked) if liked > 0.0 && liked >= text.unwrap_or(0.0) => Self::OpenMetrics,
            Some(_) | None => Self::Prometheus,
        }
    }

    /// Its media type.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// What is written in OpenMetrics, in this format.
    pub(super) fn convert(self, text: String) -> String {
        match self {
            Self::OpenMetrics => text,
            Self::Prometheus => prometheus(&text),
        }
    }
}

/// The older format names a counter and an info with their suffix, has no type for an info, no units and no
/// end.
fn prometheus(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help = "";
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').map_or("", |(_name, help)| help);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                other => ("", other),
            };
            for part in ["# HELP ", name, suffix, " ", help, "\n# TYPE ", name, suffix, " ", kind] {
                text.push_str(part);
            }
            text.push('\n');
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_what_the_client_likes_best() {
        for (accept, expected) in [
            ("", Exposition::Prometheus),
            ("*/*", Exposition::Prometheus),
            ("text/plain", Exposition::Prometheus),
            ("TEXT/PLAIN; version=0.0.4", Exposition::Prometheus),
            ("application/openmetrics-text", Exposition::OpenMetrics),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                 application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;q=0.3,\
                 text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
                Exposition::OpenMetrics,
            ),
            ("text/plain;q=0.9, application/openmetrics-text;q=0.3", Exposition::Prometheus),
            ("text/html,application/xhtml+xml,*/*;q=0.8", Exposition::Prometheus),
            ("text/plain;q=0, */*", Exposition::Prometheus),
            ("application/openmetrics-text;q=0", Exposition::Prometheus),
            ("text/plain;q=nonsense;;,,;", Exposition::Prometheus),
        ] {
            assert_eq!(Exposition::for_accept(accept), expected, "{accept}");
        }
    }

    #[test]
    fn the_older_format_has_suffixes_in_its_names_and_nothing_it_does_not_know() {
        let text = "# HELP a_b Requests so far.\n# TYPE a_b counter\na_b_total{x=\"y\"} 1\n\
                    # HELP c_seconds A time.\n# TYPE c_seconds gauge\n# UNIT c_seconds seconds\nc_seconds 2.5\n\
                    # HELP d Which.\n# TYPE d info\nd_info{version=\"1\"} 1\n# EOF\n";
        let expected = "# HELP a_b_total Requests so far.\n# TYPE a_b_total counter\na_b_total{x=\"y\"} 1\n\
                        # HELP c_seconds A time.\n# TYPE c_seconds gauge\nc_seconds 2.5\n\
                        # HELP d_info Which.\n# TYPE d_info gauge\nd_info{version=\"1\"} 1\n";
        assert_eq!(Exposition::Prometheus.convert(text.to_owned()), expected);
        assert_eq!(Exposition::OpenMetrics.convert(text.to_owned()), text);
    }
}
