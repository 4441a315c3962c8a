//! `leasehold man`: manual pages.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Command;

use super::exit::Exit;
use super::manual;
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
    let mut all = super::command_line().disable_help_subcommand(true);
    all.build();
    write(&all, &args.directory)
        .with_context(|| format!("cannot write manual pages to {}", args.directory.display()))?;
    output::print(&format!("manual pages are in {}", args.directory.display()))?;
    Ok(Exit::Success)
}

fn write(command: &Command, directory: &Path) -> io::Result<()> {
    for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
        write(child, directory)?;
    }
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let mut file = BufWriter::new(File::create(directory.join(format!("{name}.1")))?);
    manual::write_page(command, &mut file)?;
    file.flush()
}
