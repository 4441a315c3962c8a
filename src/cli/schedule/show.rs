//! `leasehold schedule show`: one schedule.

use super::text;
use crate::cli::connection::LockArgs;
use crate::cli::exit::Exit;
use crate::cli::output;
use crate::view::ScheduleView;

/// Shows one schedule, by the name or the path of its lock.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    one: LockArgs,
}

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let format = args.one.output.output;
    let schedule = args.one.ask(async |client, lock| client.get_schedule(lock).await).await?;
    let view = ScheduleView::from(&schedule);
    output::result(format, || text::schedule(&schedule), &view)?;
    Ok(Exit::Success)
}
