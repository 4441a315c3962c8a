//! `leasehold watch`: one lock's record as it changes.

use super::connection::LockArgs;
use super::exit::{Exit, UnavailableError};
use super::output;
use super::record;
use crate::view::LockView;

/// Shows one lock now and at each change, a line each, until it is interrupted. Changes made through other
/// sidecars are seen some seconds late.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    one: LockArgs,
}

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let lock = args.one.lock.selector()?;
    let link = args.one.connection.link().await?;
    let mut watch = link.client.watch_lock(lock).await?;
    while let Some(record) = watch.next().await? {
        let text = || record::doing_text(&record);
        output::next_result(args.one.output.output, text, &LockView::from(&record))?;
    }
    Err(UnavailableError("the sidecar ended the watch: start it again".to_owned()).into())
}
