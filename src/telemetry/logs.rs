//! Logs: to standard error, for people on a terminal and as JSON otherwise, never with the secrets that
//! libraries would log (S20).

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt;
use std::io::IsTerminal as _;
use std::str::FromStr;

use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::{EnvFilter, FilterExt as _, FilterFn, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{Layer as _, Registry};

use super::stderr::Stderr;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people when standard error is a terminal, else JSON.
    #[default]
    Auto,
    /// Lines for people.
    Human,
    /// One JSON object a line.
    Json,
}

/// Which events are logged: a checked list of `target=level`, as `tracing_subscriber` reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(String);

/// Why a text is no filter.
#[derive(Debug, thiserror::Error)]
#[error("not a log filter, which is a list such as \"info,leasehold=debug\": {0}")]
pub struct FilterError(#[source] tracing_subscriber::filter::ParseError);

/// Why logs could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("logs could not be set up: something else in this process has set up its own")]
pub struct LogsError(#[source] tracing::subscriber::SetGlobalDefaultError);

impl Filter {
    /// Everything from `info` on. Libraries that the filter does not name log from `warn` on only.
    pub const DEFAULT: &'static str = "info";

    /// The filter as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn parse(text: &str) -> Result<EnvFilter, FilterError> {
        EnvFilter::builder().parse(text).map_err(FilterError)
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text).map(|_| Self(text.to_owned()))
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Sends the whole process's logs to standard error, panics included, and never waits for who reads it.
/// Called once, first thing.
///
/// # Errors
/// When the process has logs already.
pub fn init(format: Format, filter: &Filter) -> Result<(), LogsError> {
    let format = match format {
        Format::Auto if std::io::stderr().is_terminal() => Format::Human,
        Format::Auto => Format::Json,
        Format::Human | Format::Json => format,
    };
    let subscriber = subscriber(format, filter, || Stderr);
    tracing::subscriber::set_global_default(subscriber).map_err(LogsError)?;
    // The standard hook writes to standard error itself, and waits for its reader.
    std::panic::set_hook(Box::new(|panic| {
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            tracing::error!(%backtrace, "{panic}");
        } else {
            tracing::error!("{panic}");
        }
    }));
    Ok(())
}

/// A subscriber that logs to `writer`; [`Format::Auto`] is JSON, because it cannot know what a writer is.
pub fn subscriber<W>(
    format: Format,
    filter: &Filter,
    writer: W,
) -> impl Subscriber + Send + Sync + use<W>
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    // A `Filter` has been parsed once; were it not to parse again, errors would still be logged.
    let chosen = Filter::parse(filter.as_str()).unwrap_or_else(|_| EnvFilter::new("error"));
    // Its own complaints go to standard error directly, and panic where they cannot.
    let layer = tracing_subscriber::fmt::layer().with_writer(writer).log_internal_errors(false);
    let layer = match format {
        Format::Human => layer.with_ansi(colours()).boxed(),
        Format::Auto | Format::Json => layer.with_ansi(false).json().flatten_event(true).boxed(),
    };
    Registry::default().with(layer.with_filter(chosen.and(of_libraries(filter.as_str()))))
}

/// Whether people see colours: on a terminal, unless they asked for none (no-color.org).
fn colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::io::stderr().is_terminal()
}

/// Libraries that at `info` say each request that fails, which is a line a request in an outage, and below
/// `info` log requests whole: lease ids, authorization headers, URLs with signatures.
const LIBRARIES: &[&str] = &[
    "azure_core",
    "azure_identity",
    "azure_storage_blob",
    "h2",
    "hyper",
    "hyper_util",
    "reqwest",
    "rustls",
    "typespec",
    "typespec_client_core",
];

/// These libraries log from `warn` on; those that a user's filter names, as the filter says, but never below
/// `info` (S20).
fn of_libraries(filter: &str) -> FilterFn<impl Fn(&Metadata<'_>) -> bool + use<>> {
    let named: Vec<&str> =
        LIBRARIES.iter().copied().filter(|library| is_named(filter, library)).collect();
    filter_fn(move |metadata: &Metadata<'_>| {
        let target = metadata.target();
        let library = target.split("::").next().unwrap_or(target);
        let most = match (LIBRARIES.contains(&library), named.contains(&library)) {
            (true, true) => Level::INFO,
            (true, false) => Level::WARN,
            (false, _) => Level::TRACE,
        };
        *metadata.level() <= most
    })
}

/// Whether a directive of the filter is about this library: its target is the library's name, a module of it,
/// or what the name begins with, as the filter matches targets.
fn is_named(filter: &str, library: &str) -> bool {
    let targets = filter.split(',').filter_map(|directive| directive.split(['=', '[']).next());
    targets.map(str::trim).any(|target| {
        let first = target.split("::").next().unwrap_or(target);
        !target.is_empty() && (first == library || library.starts_with(target))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::rig::{Captured, Rig};
    use super::*;
    use crate::store::Secret;
    use crate::store::azure::{AzureCredential, AzureSettings, AzureStore};
    use crate::testing::{Reply, ScriptedHttp, SimClock};

    fn logged(format: Format, filter: &str, say: impl FnOnce()) -> String {
        let captured = Captured::default();
        tracing::subscriber::with_default(captured.subscriber(format, filter), say);
        captured.text()
    }

    fn say_secrets() {
        tracing::debug!(target: "azure_core::http::policies::logging", "secret 1");
        tracing::trace!(target: "typespec_client_core::http", "secret 2");
        tracing::debug!(target: "azure_identity", "secret 3");
        tracing::debug!(target: "reqwest::connect", "secret 4");
        tracing::trace!(target: "hyper::proto::h1::io", "secret 5");
        tracing::trace!(target: "h2::codec", "secret 6");
        tracing::debug!(target: "azure_storage_blob::clients", "secret 7");
        tracing::warn!(target: "azure_core::credentials", "told");
    }

    #[test]
    fn s20_no_filter_opens_what_libraries_log_of_secrets() {
        for filter in [
            "trace",
            "debug,azure_core=trace,typespec_client_core=debug",
            "azure_core::http::policies::logging=trace,azure_core=info,hyper=trace,h2=trace",
            "info,[]=trace",
            "trace,azure_identity=debug,reqwest=trace,azure_storage_blob=trace",
        ] {
            let text = logged(Format::Json, filter, say_secrets);
            assert!(!text.contains("secret"), "{filter}: {text}");
            assert!(text.contains("told"), "{filter}: {text}");
        }
    }

    #[test]
    fn libraries_say_what_concerns_an_operator_unless_the_filter_names_them() {
        let say = || {
            tracing::info!(target: "typespec_client_core::http::policies::logging", "Failed response");
            tracing::debug!(target: "h2::codec", "frame");
            tracing::warn!(target: "azure_identity", "told");
        };
        for filter in [Filter::DEFAULT, "info", "debug", "trace", "leasehold=debug,info"] {
            let text = logged(Format::Json, filter, say);
            assert!(!text.contains("Failed") && !text.contains("frame"), "{filter}: {text}");
            assert!(text.contains("told"), "{filter}: {text}");
        }
        for filter in [
            "info,typespec_client_core=info",
            "typespec_client_core::http=debug,warn",
            "warn,typespec=info",
        ] {
            let text = logged(Format::Json, filter, say);
            assert!(text.contains("Failed") && !text.contains("frame"), "{filter}: {text}");
        }
        for filter in ["off", "error", "error,typespec_client_core=off"] {
            assert_eq!(logged(Format::Json, filter, say), "", "{filter}");
        }
    }

    #[test]
    fn the_filter_chooses_among_the_rest() {
        let say = || {
            tracing::debug!(target: "leasehold::coordinator", "fine");
            tracing::info!(target: "leasehold::store", "coarse");
        };
        let text = logged(Format::Json, "info,leasehold::coordinator=debug", say);
        assert!(text.contains("fine") && text.contains("coarse"), "{text}");
        let text = logged(Format::Json, Filter::DEFAULT, say);
        assert!(!text.contains("fine") && text.contains("coarse"), "{text}");
    }

    #[test]
    fn programs_read_one_json_object_a_line() {
        for format in [Format::Json, Format::Auto] {
            let text = logged(format, Filter::DEFAULT, || {
                tracing::warn!(lock_path = "leasehold/locks/x", "the lock is lost");
                tracing::info!("two");
            });
            let lines: Vec<serde_json::Value> =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!(lines.len(), 2);
            let told = ["level", "message", "lock_path"].map(|field| &lines[0][field]);
            assert_eq!(told, ["WARN", "the lock is lost", "leasehold/locks/x"]);
            assert!(lines[0]["timestamp"].is_string());
        }
    }

    #[test]
    fn s18_an_outage_is_logged_once_when_it_begins_and_once_when_it_ends() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let text = logged(Format::Json, Filter::DEFAULT, || {
            runtime.block_on(async {
                let rig = Rig::new(SimClock::new());
                for span in [Duration::ZERO, Duration::MAX, Duration::ZERO] {
                    rig.store.go_down(span);
                    for _ in 0..3 {
                        rig.clock.advance(Duration::from_secs(5));
                        rig.coordinator.check().await;
                    }
                }
            });
        });
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let [begun, ended] = lines.as_slice() else { panic!("{text}") };
        assert_eq!(begun["message"], "the store cannot be used");
        assert!(begun["cause"].as_str().unwrap().starts_with("the store is unavailable: "));
        assert_eq!(
            (begun["level"].as_str(), ended["level"].as_str()),
            (Some("WARN"), Some("INFO"))
        );
        assert_eq!(ended["message"], "the store can be used again");
        assert_eq!(ended["seconds"], 15);
    }

    /// What is logged while a service in Azure's words hangs up on 30 checks and answers 30 more, one a
    /// second.
    fn logged_in_an_outage_of_azure(filter: &str) -> String {
        let date = ("date", "Fri, 15 Jan 2027 08:00:00 GMT");
        let headers = [("x-ms-request-id", "r-1"), date, ("x-ms-error-code", "BlobNotFound")];
        let replies = [vec![Reply::Close; 30], vec![Reply::new(404, &headers); 30]].concat();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        logged(Format::Json, filter, || {
            runtime.block_on(async {
                let service = ScriptedHttp::start(replies).await;
                let endpoint = format!("{}/account", service.endpoint());
                let key = AzureCredential::AccountKey(Secret::new("c2VjcmV0"));
                let settings = AzureSettings {
                    account: Some("account".to_owned()),
                    endpoint: Some(endpoint),
                    ..AzureSettings::new(key)
                };
                let clock: Arc<SimClock> = Arc::new(SimClock::new());
                let store = AzureStore::new(&settings, Arc::clone(&clock) as _).unwrap();
                let coordinator = Rig::over(Arc::new(store), &clock);
                for _ in 0..60 {
                    clock.advance(Duration::from_secs(1));
                    coordinator.check().await;
                }
            });
        })
    }

    #[test]
    fn s18_the_libraries_lines_about_each_request_are_not_logged() {
        for filter in [Filter::DEFAULT, "debug", "leasehold=info,warn"] {
            let text = logged_in_an_outage_of_azure(filter);
            let lines: Vec<&str> =
                text.lines().filter(|line| !line.contains("\"DEBUG\"")).collect();
            let [begun, ended] = lines.as_slice() else { panic!("{filter}: {text}") };
            assert!(begun.contains("the store cannot be used"), "{begun}");
            assert!(ended.contains("the store can be used again"), "{ended}");
        }
        let named = logged_in_an_outage_of_azure("info,typespec_client_core=info");
        assert!(named.lines().count() > 30, "whoever asks for them gets them: {named}");
    }

    /// What the files of a folder say.
    fn sources(folder: &Path) -> String {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let texts = entries.map(|path| match path.is_dir() {
            true => sources(&path),
            false => fs::read_to_string(path).unwrap_or_default(),
        });
        texts.collect()
    }

    #[test]
    fn the_documentation_quotes_what_is_logged() {
        let document = include_str!("../../docs/operations.md");
        let (_, rest) = document.split_once("| logged |").expect("the table of log lines");
        let rows = rest.split("\n\n").next().unwrap().lines().skip(2);
        let sources = sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")));
        for row in rows.clone() {
            let message = row.split('`').nth(1).unwrap_or_else(|| panic!("{row}"));
            let known = [format!("\"{message}\""), format!("\"{message}: ")];
            assert!(known.iter().any(|known| sources.contains(known)), "{message} is not logged");
        }
        assert!(rows.count() >= 8, "few lines are quoted");
    }

    #[test]
    fn people_read_lines() {
        let text = logged(Format::Human, Filter::DEFAULT, || tracing::info!("started"));
        assert!(text.contains("INFO") && text.trim_end().ends_with("started"), "{text}");
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_err());
    }

    #[test]
    fn a_text_that_is_no_filter_says_so() {
        assert!("leasehold=verbose".parse::<Filter>().is_err());
        assert!(Filter::DEFAULT.parse::<Filter>().is_ok());
    }
}
