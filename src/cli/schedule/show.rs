//! `leasehold schedule show`: one schedule.

use super::text;
use crate::cli::connection::ConnectionArgs;
use crate::cli::exit::Exit;
use crate::cli::output::{self, OutputArgs};
use crate::cli::spec::SelectorArgs;
use crate::view::ScheduleView;

/// Shows one schedule, by the name or the path of its lock.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    lock: SelectorArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let lock = args.lock.selector()?;
    let link = args.connection.link().await?;
    let schedule = link.client.get_schedule(lock).await?;
    link.close().await;
    let view = ScheduleView::from(&schedule);
    output::result(args.output.output, || text::schedule(&schedule), &view)?;
    Ok(Exit::Success)
}
