//! `leasehold info`: what a sidecar is.

use leasehold_client::{Client, ServerInfo, ServerLimits};
use serde::Serialize;

use super::connection::ConnectionArgs;
use super::exit::Exit;
use super::output::{self, OutputArgs};
use super::times::span;
use crate::view::document;

/// Shows what the sidecar is: its version, its host id, its limits and what it can do.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    output: OutputArgs,
}

document! {
    #[derive(Serialize)]
    struct InfoView of info: ServerInfo {
        version: String = info.version.clone(),
        features: Vec<String> = info.features.clone(),
        host_id: String = info.host_id.clone(),
        host_type: String = info.host_type.clone(),
        layout: String = info.layout.clone(),
        store: String = info.store.clone(),
        revision: u32 = info.revision,
        limits: LimitsView = LimitsView::from(&info.limits),
    }
}

document! {
    #[derive(Serialize)]
    struct LimitsView of limits: ServerLimits {
        wait_seconds: f64 = limits.wait.as_secs_f64(),
        max_hold_seconds: f64 = limits.max_hold.as_secs_f64(),
        default_max_hold_seconds: f64 = limits.default_max_hold.as_secs_f64(),
        default_lease_duration_seconds: f64 = limits.default_lease_duration.as_secs_f64(),
        holds: u32 = limits.holds,
        waiters: u32 = limits.waiters,
        streams_per_connection: u32 = limits.streams_per_connection,
        permits: u32 = limits.permits,
        checkpoint_bytes: u32 = limits.checkpoint_bytes,
    }
}

/// The store, and whom its locks exclude where that is not everybody.
fn store_text(store: &str) -> String {
    match store {
        "embedded" => "embedded: its locks exclude callers on this one machine only".to_owned(),
        "memory" => {
            "memory: its locks exclude callers of this one sidecar only, and end with it".to_owned()
        }
        other => other.to_owned(),
    }
}

fn text(info: &ServerInfo) -> String {
    let limits = &info.limits;
    output::fields(&[
        ("version", info.version.clone()),
        ("revision of requests", info.revision.to_string()),
        ("features", info.features.join(", ")),
        ("host id", info.host_id.clone()),
        ("host type", info.host_type.clone()),
        ("layout", info.layout.clone()),
        ("store", store_text(&info.store)),
        ("longest wait", span(limits.wait)),
        ("longest max_hold", span(limits.max_hold)),
        ("default max_hold", span(limits.default_max_hold)),
        ("default lease duration", span(limits.default_lease_duration)),
        ("holds", limits.holds.to_string()),
        ("waiters", limits.waiters.to_string()),
        ("permits of a lock", limits.permits.to_string()),
        ("bytes of a checkpoint", limits.checkpoint_bytes.to_string()),
    ])
}

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let info = args.connection.ask(Client::get_server_info).await?;
    output::result(args.output.output, || text(&info), &InfoView::from(&info))?;
    Ok(Exit::Success)
}
