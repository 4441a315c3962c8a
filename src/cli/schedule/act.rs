//! `leasehold schedule pause`, `resume`, `trigger`, `rm` and `reset`: what people say to a schedule (T18,
//! T25).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_client::Schedule;
use serde::Serialize;

use super::text;
use crate::cli::connection::ConnectionArgs;
use crate::cli::exit::Exit;
use crate::cli::output::{self, OutputArgs};
use crate::cli::spec::SelectorArgs;
use crate::timetable::UtcSecond;
use crate::view::ScheduleView;

/// Changes one schedule, by the name or the path of its lock, if the sidecar's `admin.allow_schedule_changes`
/// is set. May be repeated.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    lock: SelectorArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs a schedule by hand, once, if the sidecar's `admin.allow_schedule_changes` is set. It starts at once
/// where somebody subscribes at this sidecar, and elsewhere within 10 minutes.
#[derive(Debug, clap::Args)]
pub(super) struct TriggerArgs {
    /// The id of the run: a repeated command with the same id triggers only one run. 1 to 64 of A-Z a-z 0-9 .
    /// _ -. Default: a new one, which is printed.
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    #[command(flatten)]
    lock: SelectorArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Removes a schedule, if the sidecar's `admin.allow_schedule_changes` is set. Its subscribers are told
/// within 10 minutes, and end; one that is started after that begins the schedule anew. What its runs have
/// decided is deleted by `leasehold gc`.
#[derive(Debug, clap::Args)]
pub(super) struct RemoveArgs {
    /// Why: for its subscribers, the log and the next operator.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Also if this sidecar has subscribers. Subscribers at other sidecars cannot be seen from here.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    lock: SelectorArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Lets a schedule begin anew, if the sidecar's `admin.allow_schedule_changes` is set: after a clock that was
/// wrong, a store that was restored from a copy, or a deployment with a higher revision that was rolled back.
#[derive(Debug, clap::Args)]
pub(super) struct ResetArgs {
    /// Why: for the log and the next operator.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// After which instant it begins (RFC 3339): occurrences up to it are done, later ones are caught up.
    /// Default: now, by the store's clock.
    #[arg(long, value_name = "TIME", value_parser = time)]
    watermark: Option<SystemTime>,
    /// The revision that its definition has from then on, so that a deployment with a lower one can replace
    /// it.
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    revision: Option<u64>,
    #[command(flatten)]
    lock: SelectorArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    output: OutputArgs,
}

fn time(text: &str) -> Result<SystemTime, String> {
    let at: UtcSecond = text.parse().map_err(|error| format!("{error}"))?;
    let since = Duration::from_secs(u64::try_from(at.0).unwrap_or_default());
    UNIX_EPOCH.checked_add(since).ok_or_else(|| "too late".to_owned())
}

/// What a command has changed, as JSON shows it.
#[derive(Serialize)]
struct Changed {
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    /// Null if the caller may not read it.
    schedule: Option<ScheduleView>,
}

/// Pauses a schedule, as `leasehold schedule pause`.
pub(super) async fn pause(args: Args) -> anyhow::Result<Exit> {
    let lock = args.lock.selector()?;
    let link = args.connection.link().await?;
    let schedule = link.client.pause_schedule(lock).await?;
    link.close().await;
    tell(args.output, None, schedule.as_ref(), "paused")
}

/// Lets a schedule go on, as `leasehold schedule resume`.
pub(super) async fn resume(args: Args) -> anyhow::Result<Exit> {
    let lock = args.lock.selector()?;
    let link = args.connection.link().await?;
    let schedule = link.client.resume_schedule(lock).await?;
    link.close().await;
    tell(args.output, None, schedule.as_ref(), "resumed")
}

/// Removes a schedule, as `leasehold schedule rm`.
pub(super) async fn remove(args: RemoveArgs) -> anyhow::Result<Exit> {
    let lock = args.lock.selector()?;
    let link = args.connection.link().await?;
    let schedule = link.client.remove_schedule(lock, args.reason, args.force).await?;
    link.close().await;
    tell(args.output, None, schedule.as_ref(), "removed")
}

/// Lets a schedule begin anew, as `leasehold schedule reset`.
pub(super) async fn reset(args: ResetArgs) -> anyhow::Result<Exit> {
    let lock = args.lock.selector()?;
    let link = args.connection.link().await?;
    let reset = link.client.reset_schedule(lock, args.reason, args.watermark, args.revision);
    let schedule = reset.await?;
    link.close().await;
    tell(args.output, None, schedule.as_ref(), "reset")
}

/// Asks for a run by hand, as `leasehold schedule trigger`.
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
