//! `leasehold checkpoint get`: read a checkpoint, without the lock.

use std::path::PathBuf;

use anyhow::Context as _;
use serde::Serialize;

use crate::cli::connection::ConnectionArgs;
use crate::cli::exit::Exit;
use crate::cli::grant::CheckpointView;
use crate::cli::output::{self, Format, OutputArgs};
use crate::cli::record;
use crate::cli::spec::SelectorArgs;

/// Prints the value of a lock's checkpoint as it is, read from the store. The lock need not be held.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    lock: SelectorArgs,
    /// Write the value to this file instead. Without a checkpoint, the file stays unchanged.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
struct Document {
    checkpoint: Option<CheckpointView>,
}

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let lock = args.lock.selector()?;
    let name = record::selector_text(&lock);
    let checkpoint = args.connection.ask(async |client| client.get_checkpoint(lock).await).await?;
    let exit = if checkpoint.is_some() { Exit::Success } else { Exit::NoCheckpoint };
    if let (Some(path), Some(checkpoint)) = (&args.file, &checkpoint) {
        std::fs::write(path, &checkpoint.value)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    match (args.output.output, &checkpoint) {
        (Format::Json, checkpoint) => {
            let checkpoint = checkpoint.as_ref().map(CheckpointView::from);
            output::result(Format::Json, String::new, &Document { checkpoint })?;
        }
        (Format::Text, None) => output::note(&format!("the lock {name} has no checkpoint")),
        (Format::Text, Some(checkpoint)) if args.file.is_none() => output::raw(&checkpoint.value)?,
        (Format::Text, Some(_)) => {}
    }
    Ok(exit)
}
