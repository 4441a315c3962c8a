//! `leasehold schedule`: when schedules are due (T14, T15).

mod next;

use clap::Subcommand;

use super::exit::Exit;
use super::output::Format;

/// Tells when a schedule is due.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Print the next occurrences of an expression, with their local times.
    Next(next::Args),
}

impl Args {
    /// How its result looks.
    pub(super) const fn format(&self) -> Format {
        match &self.what {
            What::Next(args) => args.output.output,
        }
    }
}

/// Runs the command.
pub(super) fn run(args: Args) -> anyhow::Result<Exit> {
    match args.what {
        What::Next(args) => next::run(args),
    }
}
