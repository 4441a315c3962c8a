//! `leasehold checkpoint`: read and replace the value that is stored with a lock (S23).

mod get;
mod set;

use clap::Subcommand;

use super::exit::Exit;
use super::manual::{About, about};

/// Reads or replaces the checkpoint of a lock: the value from which the next holder goes on.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: CheckpointCommand,
}

#[derive(Debug, Subcommand)]
enum CheckpointCommand {
    /// Print the checkpoint of a lock.
    Get(get::Args),
    /// Replace the checkpoint of a lock.
    Set(set::Args),
}

/// What each command of the group is for, in full.
pub(super) const ABOUT: &[About] =
    &[("checkpoint get", about::<get::Args>), ("checkpoint set", about::<set::Args>)];

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    match args.what {
        CheckpointCommand::Get(args) => get::run(args).await,
        CheckpointCommand::Set(args) => set::run(args).await,
    }
}
