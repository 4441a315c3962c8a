//! `leasehold show`: one lock's record.

use super::connection::LockArgs;
use super::exit::Exit;
use super::output;
use super::record;
use crate::view::LockView;

/// Shows one lock, by its name or its path. A lock that was never taken is available.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    one: LockArgs,
}

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let format = args.one.output.output;
    let record = args.one.ask(async |client, lock| client.get_lock(lock).await).await?;
    let view = LockView::from(&record);
    output::result(format, || record::lock_text(&record), &view)?;
    Ok(Exit::Success)
}
