//! `leasehold schedule pause`, `resume` and `trigger`: what people say to a schedule (T18).

use leasehold_client::Schedule;
use serde::Serialize;

use super::text;
use super::view::ScheduleView;
use crate::cli::connection::ConnectionArgs;
use crate::cli::exit::Exit;
use crate::cli::output::{self, OutputArgs};
use crate::cli::spec::SelectorArgs;

/// Changes one schedule, by the name or the path of its lock, if the sidecar's `admin.allow_schedule_changes` is set. May be
/// repeated.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    lock: SelectorArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Runs a schedule by hand, once, if the sidecar's `admin.allow_schedule_changes` is set. It starts at once where somebody
/// subscribes at this sidecar, and elsewhere within 10 minutes.
#[derive(Debug, clap::Args)]
pub(super) struct TriggerArgs {
    /// The id of the run: a repeated command with the same id triggers only one run. 1 to 64 of A-Z a-z 0-9 . _ -. Default: a new one,
    /// which is printed.
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    #[command(flatten)]
    lock: SelectorArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// What changed.
#[derive(Serialize)]
struct Changed {
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    /// Null if the caller may not read it.
    schedule: Option<ScheduleView>,
}

/// Runs `pause`.
pub(super) async fn pause(args: Args) -> anyhow::Result<Exit> {
    let lock = args.lock.selector()?;
    let link = args.connection.link().await?;
    let schedule = link.client.pause_schedule(lock).await?;
    link.close().await;
    tell(args.output, None, schedule.as_ref(), "paused")
}

/// Runs `resume`.
pub(super) async fn resume(args: Args) -> anyhow::Result<Exit> {
    let lock = args.lock.selector()?;
    let link = args.connection.link().await?;
    let schedule = link.client.resume_schedule(lock).await?;
    link.close().await;
    tell(args.output, None, schedule.as_ref(), "resumed")
}

/// Runs `trigger`.
pub(super) async fn trigger(args: TriggerArgs) -> anyhow::Result<Exit> {
    let lock = args.lock.selector()?;
    let request_id = args.request_id.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    let link = args.connection.link().await?;
    let schedule = link.client.trigger_schedule(lock, request_id.clone()).await?;
    link.close().await;
    let done = format!("request {request_id}");
    tell(args.output, Some(request_id), schedule.as_ref(), &done)
}

fn tell(
    output: OutputArgs,
    request_id: Option<String>,
    schedule: Option<&Schedule>,
    done: &str,
) -> anyhow::Result<Exit> {
    let view = Changed { request_id, schedule: schedule.map(ScheduleView::from) };
    let text = || match schedule {
        Some(schedule) => format!("{done}\n{}", text::schedule(schedule)),
        None => done.to_owned(),
    };
    output::result(output.output, text, &view)?;
    Ok(Exit::Success)
}
