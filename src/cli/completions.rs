//! `leasehold completions`: scripts for shells.

use clap_complete::Shell;

use super::exit::Exit;
use super::output;

/// Prints a script that completes this command line, such as `source <(leasehold completions bash)`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell.
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::command_line(), "leasehold", &mut script);
    output::print(&String::from_utf8(script)?)?;
    Ok(Exit::Success)
}
