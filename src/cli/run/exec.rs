//! The hidden command that becomes the command of `run`: it dies with `run`, however that dies.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use super::terminal;
use crate::cli::exit::Exit;
use crate::cli::output;

/// What the child needs to become the command.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// The process id of `run`.
    #[arg(long)]
    parent: i32,
    /// The command and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Runs the command: comes back only if it cannot.
pub(in crate::cli) fn run(args: Args) -> anyhow::Result<Exit> {
    // The kernel keeps this over the exec, unless the program is set-user-ID.
    set_parent_process_death_signal(Some(Signal::KILL))
        .context("cannot tie the command to its parent")?;
    let Some(parent) = getppid().filter(|parent| Some(*parent) == Pid::from_raw(args.parent))
    else {
        // It had died before the line above; nobody would be told.
        return Ok(Exit::by_signal(Signal::KILL.as_raw()));
    };
    terminal::take_from(parent);
    let mut words = args.command.into_iter();
    let program = words.next().context("no command is given")?;
    let error = Command::new(&program).args(words).exec();
    output::note(&format!("cannot run {}: {error}", program.display()));
    Ok(Exit::Code(if error.kind() == ErrorKind::NotFound { 127 } else { 126 }))
}
