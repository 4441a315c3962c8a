//! `leasehold doctor`: what would keep a sidecar from working, and what to do about it.
//!
//! `report.rs` has the findings and how they are shown, `store.rs` the checks that hold for every store,
//! `file.rs` those of the embedded one, `azure.rs` those of Azure's, `listen.rs` those of where callers come
//! in, `exclusion.rs` the one that needs a sidecar.

mod azure;
mod exclusion;
mod file;
mod listen;
pub(super) use file::{excludes_only, in_a_pod};
mod report;
mod store;

use super::connection::{ConfigArgs, EndpointArgs, init_quiet_logs};
use super::engine::{self, Opened};
use super::exit::{Exit, UsageError};
use super::output::{self, OutputArgs};
use super::retry::Wait;
use crate::config::{Config, Store};
use crate::host_id::HostIdentity;
use report::{Finding, Report};

/// Checks configuration, host id, store, permissions, latency and clocks, and says what to do. It acquires,
/// renews and deletes one lock of its own.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Also acquire a lock through the sidecar, and check that the store refuses it to this process until it
    /// is released.
    #[arg(long)]
    exclusion: bool,
    /// How long to try again while the sidecar is away, such as while it is being replaced; `forever` sets no
    /// limit.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "0s",
        requires = "exclusion",
        allow_hyphen_values = true
    )]
    wait: Wait,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    endpoint: EndpointArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    if args.endpoint.is_given() && !args.exclusion {
        let problem = "doctor contacts a sidecar only with --exclusion: add it, or remove the flags for the sidecar";
        return Err(UsageError(problem.to_owned()).into());
    }
    let sidecar = args.exclusion.then_some((args.endpoint, args.wait));
    let mut report = Report::default();
    match args.config.load() {
        Ok(config) => {
            init_quiet_logs(&config)?;
            report.add(Finding::good("configuration", "no errors"));
            listen::examine(&config, &mut report).await;
            examine(&config, sidecar, &mut report).await;
        }
        Err(error) => {
            let advice = "correct it; docs/configuration.md lists all settings";
            let finding = Finding::bad("configuration", error.to_string(), advice);
            report.fail(finding, Exit::Misconfigured);
        }
    }
    output::result(args.output.output, || report.text(), &report)?;
    Ok(report.exit())
}

async fn examine(config: &Config, sidecar: Option<(EndpointArgs, Wait)>, report: &mut Report) {
    let identity = match engine::identify(config) {
        Ok(identity) => identity,
        Err(error) => {
            let advice = "correct the section host_id; docs/paths.md describes the providers";
            report.fail(Finding::bad("host id", format!("{error:#}"), advice), Exit::Misconfigured);
            return;
        }
    };
    report.add(of_identity(&identity));
    let clock = engine::clock();
    let opened = engine::open_named_store(config, &clock);
    // The file is looked at when it is there: opening makes it.
    if let Store::Embedded { path, .. } = &config.store {
        file::examine(path, report);
    }
    match opened {
        Ok(Opened { store: opened, place, account, .. }) => {
            report.add(Finding::good(
                "store",
                format!("{place}, container {}", config.paths.container),
            ));
            if let Some(account) = &account {
                report.add(azure::of_route(&account.route()));
                azure::examine_signature(account, clock.wall(), report);
            }
            store::examine(opened.as_ref(), clock.as_ref(), config, &identity, report).await;
            if let Some((sidecar, wait)) = sidecar
                && report.exit() == Exit::Success
            {
                exclusion::examine(&sidecar, wait, opened.as_ref(), report).await;
            }
            if let Some(account) = account
                && report.exit() == Exit::Success
            {
                azure::examine(&account, &config.paths.container, report).await;
            }
        }
        Err(error) => {
            let away = super::exit::of_error(&error) == Exit::Unavailable;
            let exit = if away { Exit::Unavailable } else { Exit::Misconfigured };
            let advice = "correct the section store, or the file or account that it names";
            report.fail(Finding::bad("store", format!("{error:#}"), advice), exit);
        }
    }
}

fn of_identity(identity: &HostIdentity) -> Finding {
    let HostIdentity { host_id, host_type, provider, warnings } = identity;
    let detail = format!("{host_id}, of host type {host_type}, from provider {provider}");
    if warnings.is_empty() {
        return Finding::good("host id", detail);
    }
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    Finding::warning("host id", detail, warnings.join("; "))
}
