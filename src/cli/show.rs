//! `leasehold show`: one lock's record.

use super::connection::ConnectionArgs;
use super::exit::Exit;
use super::output::{self, OutputArgs};
use super::record;
use super::spec::SelectorArgs;
use crate::view::LockView;

/// Shows one lock, by its name or its path. A lock that was never taken is available.
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
    let record = link.client.get_lock(lock).await?;
    link.close().await;
    let view = LockView::from(&record);
    output::result(args.output.output, || record::lock_text(&record), &view)?;
    Ok(Exit::Success)
}
