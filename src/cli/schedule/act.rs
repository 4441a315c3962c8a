//! `leasehold schedule pause`, `resume`, `trigger`, `rm` and `reset`: what people say to a schedule (T18,
//! T25).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_client::{Client, Error, LockSelector, Schedule};
use serde::Serialize;

use super::text;
use crate::cli::connection::LockArgs;
use crate::cli::exit::Exit;
use crate::cli::output;
use crate::timetable::UtcSecond;
use crate::view::ScheduleView;

/// Changes one schedule, by the name or the path of its lock, if the sidecar's `admin.allow_schedule_changes`
/// is set. May be repeated.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    one: LockArgs,
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
    one: LockArgs,
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
    one: LockArgs,
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
    one: LockArgs,
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
    change(args.one, "paused", None, async |client, lock| client.pause_schedule(lock).await).await
}

/// Lets a schedule go on, as `leasehold schedule resume`.
pub(super) async fn resume(args: Args) -> anyhow::Result<Exit> {
    change(args.one, "resumed", None, async |client, lock| client.resume_schedule(lock).await).await
}

/// Removes a schedule, as `leasehold schedule rm`.
pub(super) async fn remove(RemoveArgs { reason, force, one }: RemoveArgs) -> anyhow::Result<Exit> {
    let remove = async |client: &Client, lock| client.remove_schedule(lock, reason, force).await;
    change(one, "removed", None, remove).await
}

/// Lets a schedule begin anew, as `leasehold schedule reset`.
pub(super) async fn reset(args: ResetArgs) -> anyhow::Result<Exit> {
    let ResetArgs { reason, watermark, revision, one } = args;
    let reset = async |client: &Client, lock| {
        client.reset_schedule(lock, reason, watermark, revision).await
    };
    change(one, "reset", None, reset).await
}

/// Asks for a run by hand, as `leasehold schedule trigger`.
pub(super) async fn trigger(args: TriggerArgs) -> anyhow::Result<Exit> {
    let id = args.request_id.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    let (done, request) = (format!("request {id}"), id.clone());
    let trigger = async |client: &Client, lock| client.trigger_schedule(lock, request).await;
    change(args.one, &done, Some(id), trigger).await
}

/// Says something to a schedule, and then that it is done.
async fn change(
    args: LockArgs,
    done: &str,
    request_id: Option<String>,
    change: impl AsyncFnOnce(&Client, LockSelector) -> Result<Option<Schedule>, Error>,
) -> anyhow::Result<Exit> {
    let format = args.output.output;
    let schedule = args.ask(change).await?;
    let view = Changed { request_id, schedule: schedule.as_ref().map(ScheduleView::from) };
    let text = || match &schedule {
        Some(schedule) => format!("{done}\n{}", text::schedule(schedule)),
        None => done.to_owned(),
    };
    output::result(format, text, &view)?;
    Ok(Exit::Success)
}
