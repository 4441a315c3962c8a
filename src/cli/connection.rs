//! Flags that say where the locks are asked for: at a sidecar, or in the store without one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use leasehold_client::{
    Client, ClientBuilder, DEFAULT_ENDPOINT, ENDPOINT_VARIABLE, Error as ClientError, LockSelector,
    Tls,
};

use super::engine::{self, Engine};
use super::exit::UsageError;
use super::output::OutputArgs;
use super::spec::SelectorArgs;
use super::{gc, reach};
use crate::config::{Config, ConfigError, Flag, Origin, Sources};
use crate::telemetry::{self, EventLines, Filter, Format};

/// Flags of a configuration.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ConfigArgs {
    /// The store that keeps the locks: embedded, azure or memory; short for `--set store.kind=KIND`.
    #[arg(long, value_name = "KIND")]
    store: Option<String>,
    /// The file of settings (TOML). Default: the file that the variable LEASEHOLD_CONFIG names, if it is set.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Sets one setting, such as locks.lease_duration=30s; may be repeated. Secrets are refused here.
    #[arg(long, value_name = "KEY=VALUE", value_parser = Flag::set)]
    set: Vec<Flag>,
}

impl ConfigArgs {
    /// Whether none was given.
    pub(crate) const fn is_empty(&self) -> bool {
        self.store.is_none() && self.config.is_none() && self.set.is_empty()
    }

    /// The same flags, for another command.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let mut arguments = Vec::new();
        if let Some(store) = &self.store {
            arguments.extend(["--store".into(), store.into()]);
        }
        if let Some(config) = &self.config {
            arguments.extend(["--config".into(), config.into()]);
        }
        for flag in &self.set {
            arguments.extend(["--set".into(), format!("{}={}", flag.key, flag.value).into()]);
        }
        arguments
    }

    /// Loads the configuration.
    ///
    /// # Errors
    /// All mistakes in it.
    pub(crate) fn load(self) -> Result<Config, ConfigError> {
        let kind = self.store.map(|value| Flag {
            name: "--store".to_owned(),
            key: "store.kind".to_owned(),
            value,
        });
        let flags = self.set.into_iter().chain(kind).collect();
        Config::load(&Sources::of_process(self.config.as_deref(), flags)?)
    }
}

/// Where a sidecar is, and how to get in.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct EndpointArgs {
    /// Where the sidecar is: unix:///path, http://host:port or https://host:port. Default: what
    /// LEASEHOLD_ENDPOINT says, else http://127.0.0.1:50951.
    #[arg(long, value_name = "URL", help_heading = SIDECAR)]
    endpoint: Option<String>,
    /// The certificate authorities to trust (PEM), for https.
    #[arg(long, value_name = "FILE", help_heading = SIDECAR)]
    ca_file: Option<PathBuf>,
    /// The client certificate (PEM), for https.
    #[arg(long, value_name = "FILE", requires = "key_file", help_heading = SIDECAR)]
    certificate_file: Option<PathBuf>,
    /// The private key of the client certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "certificate_file", help_heading = SIDECAR)]
    key_file: Option<PathBuf>,
    /// The name that the sidecar's certificate must have. Default: the host of the endpoint.
    #[arg(long, value_name = "NAME", help_heading = SIDECAR)]
    server_name: Option<String>,
    /// The file of the bearer token to send.
    #[arg(long, value_name = "FILE", help_heading = SIDECAR)]
    token_file: Option<PathBuf>,
}

const SIDECAR: &str = "Through a sidecar";
const DIRECT: &str = "Without a sidecar";

impl EndpointArgs {
    /// How to reach the sidecar.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(crate) fn builder(&self) -> anyhow::Result<ClientBuilder> {
        let variable = std::env::var(ENDPOINT_VARIABLE).ok().filter(|text| !text.is_empty());
        let endpoint = self.endpoint.clone().or(variable);
        let endpoint = endpoint.unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
        reach::asks(&endpoint);
        let mut builder = Client::builder(endpoint);
        if let Some(tls) = self.tls()? {
            // Read again for each connection: certificates are renewed while a command runs.
            let files = self.clone();
            let newest = move || Ok(files.tls().ok().flatten().unwrap_or_else(|| tls.clone()));
            builder = builder.tls_with(newest);
        }
        if let Some(name) = &self.server_name {
            builder = builder.server_name(name);
        }
        if let Some(path) = &self.token_file {
            read("--token-file", path)?;
            let path = path.clone();
            builder = builder.bearer_token_with(move || {
                std::fs::read_to_string(&path).map(|text| first_line(&text).to_owned())
            });
        }
        Ok(builder)
    }

    /// The certificates as they are in the files now, if any are given.
    fn tls(&self) -> Result<Option<Tls>, UsageError> {
        let Some(ca) = &self.ca_file else {
            if self.certificate_file.is_some() {
                let problem = "--certificate-file needs --ca-file, the authorities to trust";
                return Err(UsageError(problem.to_owned()));
            }
            return Ok(None);
        };
        let tls = Tls::new(read("--ca-file", ca)?);
        Ok(Some(match (&self.certificate_file, &self.key_file) {
            (Some(certificate), Some(key)) => {
                let certificate = read("--certificate-file", certificate)?;
                tls.with_certificate(certificate, read("--key-file", key)?)
            }
            (_, _) => tls,
        }))
    }

    /// Whether any flag was given.
    pub(crate) const fn is_given(&self) -> bool {
        self.endpoint.is_some()
            || self.ca_file.is_some()
            || self.certificate_file.is_some()
            || self.server_name.is_some()
            || self.token_file.is_some()
    }
}

/// A sidecar's token file may have several tokens, one a line; any of them will do.
fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}

fn read(flag: &str, path: &Path) -> Result<String, UsageError> {
    std::fs::read_to_string(path)
        .map_err(|error| UsageError(format!("{flag}: cannot read {}: {error}", path.display())))
}

/// Where the locks are asked for.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ConnectionArgs {
    #[command(flatten)]
    endpoint: EndpointArgs,
    #[command(flatten, next_help_heading = DIRECT)]
    config: ConfigArgs,
}

/// One lock, where to ask about it, and how the answer looks.
#[derive(Debug, clap::Args)]
pub(crate) struct LockArgs {
    #[command(flatten)]
    pub(crate) lock: SelectorArgs,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl LockArgs {
    /// What one question about the lock is answered.
    ///
    /// # Errors
    /// As [`ConnectionArgs::ask`], and when no lock is named.
    pub(crate) async fn ask<Answer>(
        self,
        question: impl AsyncFnOnce(&Client, LockSelector) -> Result<Answer, ClientError>,
    ) -> anyhow::Result<Answer> {
        let lock = self.lock.selector()?;
        self.connection.ask(async |client| question(client, lock).await).await
    }
}

/// A client, and what answers it if that is in this process.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) client: Client,
    engine: Option<Engine>,
}

impl ConnectionArgs {
    /// What one question is answered there.
    ///
    /// # Errors
    /// As [`Self::link`], and when it is refused.
    pub(crate) async fn ask<Answer, Error: Into<anyhow::Error>>(
        self,
        question: impl AsyncFnOnce(&Client) -> Result<Answer, Error>,
    ) -> anyhow::Result<Answer> {
        let link = self.link().await?;
        let answer = question(&link.client).await.map_err(Into::into)?;
        link.close().await;
        Ok(answer)
    }

    /// Connects to the sidecar, or starts the engine in this process where `--store` was given.
    ///
    /// # Errors
    /// When the sidecar cannot be reached, or the store not be opened.
    pub(crate) async fn link(self) -> anyhow::Result<Link> {
        if self.config.store.is_none() {
            if self.config.config.is_some() || !self.config.set.is_empty() {
                let problem = "--config and --set have no effect on a running sidecar; to work without one, add --store";
                return Err(UsageError(problem.to_owned()).into());
            }
            let client = self.endpoint.builder()?.connect().await?;
            return Ok(Link { client, engine: None });
        }
        if self.endpoint.is_given() {
            let problem = "--store works without a sidecar, and flags that say how to reach one were given: remove \
                one or the other";
            return Err(UsageError(problem.to_owned()).into());
        }
        let config = self.config.load()?;
        init_quiet_logs(&config)?;
        let engine = start_engine(&config)?;
        Ok(Link { client: engine.client(), engine: Some(engine) })
    }
}

fn start_engine(config: &Config) -> anyhow::Result<Engine> {
    let identity = engine::identify(config)?;
    // A command comes often, and has nobody to be warned each time; `doctor` and `serve` say it.
    for warning in &identity.warnings {
        tracing::info!("{warning}");
    }
    let clock = engine::clock();
    let opened = engine::open_named_store(config, &clock)?;
    if let Some(embedded) = opened.embedded {
        tokio::spawn(async move { gc::make_room(&embedded).await });
    }
    Ok(Engine::start(config, identity, opened.store, clock, Arc::new(EventLines)))
}

/// A command's own logs: what concerns people only, unless somebody asked for more.
pub(crate) fn init_quiet_logs(config: &Config) -> anyhow::Result<()> {
    let chosen = config
        .shown()
        .iter()
        .any(|shown| shown.key == "log.filter" && shown.origin != Origin::Default);
    let filter = if chosen { config.log.filter.clone() } else { "warn".parse::<Filter>()? };
    let format = match config.log.format {
        // Beside a command's output a person reads them, wherever they go.
        Format::Auto => Format::Human,
        format @ (Format::Human | Format::Json) => format,
    };
    telemetry::init(format, &filter).context("cannot log")
}

impl Link {
    /// Ends it, once what it does in the background is done.
    pub(crate) async fn close(self) {
        drop(self.client);
        if let Some(engine) = self.engine {
            engine.close().await;
        }
    }
}
