//! `leasehold info`: what a sidecar is.

use leasehold_client::{Client, ServerInfo};
use serde::Serialize;

use super::connection::ConnectionArgs;
use super::exit::Exit;
use super::output::{self, OutputArgs};
use super::times::span;

/// Shows what the sidecar is: its version, its host id, its limits and what it can do.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
struct InfoView {
    version: String,
    features: Vec<String>,
    host_id: String,
    host_type: String,
    layout: String,
    store: String,
    revision: u32,
    limits: LimitsView,
}

#[derive(Serialize)]
struct LimitsView {
    wait_seconds: f64,
    max_hold_seconds: f64,
    default_max_hold_seconds: f64,
    default_lease_duration_seconds: f64,
    holds: u32,
    waiters: u32,
    streams_per_connection: u32,
    permits: u32,
    checkpoint_bytes: u32,
}

impl From<ServerInfo> for InfoView {
    fn from(info: ServerInfo) -> Self {
        let limits = info.limits;
        Self {
            version: info.version,
            features: info.features,
            host_id: info.host_id,
            host_type: info.host_type,
            layout: info.layout,
            store: info.store,
            revision: info.revision,
            limits: LimitsView {
                wait_seconds: limits.wait.as_secs_f64(),
                max_hold_seconds: limits.max_hold.as_secs_f64(),
                default_max_hold_seconds: limits.default_max_hold.as_secs_f64(),
                default_lease_duration_seconds: limits.default_lease_duration.as_secs_f64(),
                holds: limits.holds,
                waiters: limits.waiters,
                streams_per_connection: limits.streams_per_connection,
                permits: limits.permits,
                checkpoint_bytes: limits.checkpoint_bytes,
            },
        }
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
    let text = text(&info);
    output::result(args.output.output, || text, &InfoView::from(info))?;
    Ok(Exit::Success)
}
