//! `leasehold schedule import`: a schedule begins where a timer of WebJobs or Azure Functions has stopped
//! (T22).

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use clap::ArgGroup;
use serde::Serialize;

use crate::cli::connection::{ConfigArgs, init_quiet_logs};
use crate::cli::engine::{self, Engine};
use crate::cli::exit::{Exit, UsageError};
use crate::cli::output::{self, OutputArgs};
use crate::cli::spec::{KeyArgs, host_id};
use crate::config::{Config, Store};
use crate::coordinator::KeyRequest;
use crate::lock::{Container, HostId, HostType, LockKey, LockMode, TimerPath};
use crate::schedule::{MAX_STATUS_BYTES, TakeOver, TimerStatus, TimerStatusError};
use crate::scheduler::{ImportRequest, Imported};
use crate::store::{DocumentPath, LeaseStoreExt as _};
use crate::telemetry::EventLines;
use crate::timetable::{IsoError, LocalZone};

/// Lets a schedule begin where a timer of WebJobs or Azure Functions has stopped: what was missed since the
/// timer's last run counts as missed when somebody first subscribes. Works on the store itself. Stop the .NET
/// host first, and start the replicas of the schedule afterwards.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("source").required(true).args(["status", "timer"])))]
pub(super) struct Args {
    #[command(flatten)]
    key: KeyArgs,
    /// The file with the timer's status; - for standard input.
    #[arg(long, value_name = "FILE")]
    status: Option<PathBuf>,
    /// Read the status of this timer from the storage account of --store azure: {namespace}.{class}.{method},
    /// and Host.Functions.{function} in Azure Functions.
    #[arg(long, value_name = "NAME")]
    timer: Option<String>,
    /// The host id of the .NET app. Default: that of the configuration.
    #[arg(long, value_name = "ID", requires = "timer", value_parser = host_id)]
    timer_host_id: Option<HostId>,
    /// The container of the .NET app's blobs.
    #[arg(long, value_name = "NAME", default_value = TIMERS, requires = "timer", value_parser = container)]
    timer_container: Container,
    /// The zone of times without an offset from UTC, which older SDKs wrote, such as Europe/Copenhagen.
    #[arg(long, value_name = "ZONE")]
    status_tz: Option<LocalZone>,
    /// Import even if the schedule already exists; its progress never goes backwards.
    #[arg(long)]
    replace: bool,
    /// Only print what would be written.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Where WebJobs and Azure Functions keep their blobs.
const TIMERS: &str = "azure-webjobs-hosts";

#[derive(Serialize)]
struct ImportView {
    dry_run: bool,
    lock_path: String,
    /// False: it stood there already.
    changed: bool,
    done_up_to: String,
    timer_next_at: Option<String>,
}

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let key = request(args.key)?;
    let config = args.config.load()?;
    init_quiet_logs(&config)?;
    let text = match (&args.status, args.timer) {
        (Some(file), _) => read(file)?,
        (None, Some(timer)) => {
            stored(&config, args.timer_host_id, &args.timer_container, timer).await?
        }
        (None, None) => String::new(),
    };
    let status = TimerStatus::parse(&text, args.status_tz.as_ref());
    let status = status.map_err(|error| refused(&error))?;
    let TimerStatus { done_up_to, next } = status;
    let take_over = TakeOver { done_up_to, next, replace: args.replace };
    let request = ImportRequest { key, take_over, dry_run: args.dry_run };
    let Imported { path, is_new } = import(&config, request).await?;
    let done = ImportView {
        dry_run: args.dry_run,
        lock_path: path.to_string(),
        changed: is_new,
        done_up_to: done_up_to.to_string(),
        timer_next_at: next.map(|next| next.to_string()),
    };
    output::result(args.output.output, || done.text(), &done)?;
    Ok(Exit::Success)
}

async fn import(config: &Config, request: ImportRequest) -> anyhow::Result<Imported> {
    let clock = engine::clock();
    let store = engine::open_store(config, &clock)?;
    let identity = engine::identify(config)?;
    let engine = Engine::start(config, identity, store, clock, Arc::new(EventLines));
    let imported = engine.scheduler.import_schedule(request).await;
    engine.close().await;
    Ok(imported?)
}

/// The lock that is named.
fn request(key: KeyArgs) -> Result<KeyRequest, UsageError> {
    let key = key.key()?;
    let wrong = |what: &str, error: &dyn std::fmt::Display| UsageError(format!("{what}: {error}"));
    let mode = match key.mode {
        leasehold_client::LockMode::Listener => LockMode::Listener,
        leasehold_client::LockMode::Function | _ => LockMode::Function,
    };
    let host_id = key.host_id.as_deref().map(HostId::parse).transpose();
    let host_type = key.host_type.as_deref().map(HostType::parse).transpose();
    Ok(KeyRequest {
        host_id: host_id.map_err(|error| wrong("--host-id", &error))?,
        host_type: host_type.map_err(|error| wrong("--host-type", &error))?,
        key: LockKey::new(&key.function, &key.scope, mode)
            .map_err(|error| wrong("the lock", &error))?,
    })
}

fn container(text: &str) -> Result<Container, String> {
    Container::parse(text).map_err(|error| error.to_string())
}

/// What the file has, and no more of it than tells that it is too long.
fn read(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let most = u64::try_from(MAX_STATUS_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let read = if file == Path::new("-") {
        std::io::stdin().take(most).read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(most).read_to_string(&mut text))
    };
    read.map_err(|error| UsageError(format!("--status: cannot read {}: {error}", file.display())))?;
    Ok(text)
}

/// What the timer's blob has.
async fn stored(
    config: &Config,
    host_id: Option<HostId>,
    container: &Container,
    timer: String,
) -> anyhow::Result<String> {
    let Store::Azure(settings) = &config.store else {
        let problem = "--timer reads the status from a storage account: give --store azure; or save the blob to a \
                       file and give --status FILE";
        return Err(UsageError(problem.to_owned()).into());
    };
    let host_id = match host_id {
        Some(host_id) => host_id,
        None => engine::identify(config)?.host_id,
    };
    let blob = TimerPath { container: container.clone(), host_id, timer };
    let account = engine::open_azure(settings, &engine::clock())?;
    let read = account.read_document(DocumentPath::TimerStatus(blob.clone())).await;
    let read = read.with_context(|| format!("cannot read {blob}"))?;
    read.document.map(|status| status.text).ok_or_else(|| {
        let problem = format!(
            "there is no blob {blob} at {}: check --timer, --timer-host-id and the storage account; a timer that \
             runs more than once a minute has none, and a WebJob without AddTimersStorage keeps a local file, which \
             --status takes",
            account.host()
        );
        UsageError(problem).into()
    })
}

/// An error that a zone would mend says so.
fn refused(error: &TimerStatusError) -> UsageError {
    let no_offset =
        matches!(error, TimerStatusError::Time { source: IsoError::NoOffset { .. }, .. });
    let advice = if no_offset {
        "; give --status-tz, the zone of the .NET host, such as Europe/Copenhagen"
    } else {
        ""
    };
    UsageError(format!("{error}{advice}"))
}

impl ImportView {
    fn text(&self) -> String {
        let what = match (self.changed, self.dry_run) {
            (true, true) => "would be written",
            (true, false) => "written",
            (false, _) => "stands there already",
        };
        output::fields(&[
            ("lock path", self.lock_path.clone()),
            ("done up to", self.done_up_to.clone()),
            ("timer's next", self.timer_next_at.clone().unwrap_or_default()),
            ("result", what.to_owned()),
        ])
    }
}
