//! `leasehold man`: manual pages.

use std::path::PathBuf;

use anyhow::Context as _;

use super::exit::Exit;
use super::output;

/// Writes manual pages, one for each command, such as `leasehold man /usr/local/share/man/man1`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The directory to which they are written. It must exist.
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    clap_mangen::generate_to(super::command_line(), &args.directory)
        .with_context(|| format!("cannot write manual pages to {}", args.directory.display()))?;
    output::print(&format!("manual pages are in {}", args.directory.display()))?;
    Ok(Exit::Success)
}
