//! The hidden command that outlives `run`: should `run` be killed, it kills the whole group of its command,
//! of which the kernel kills only the first process.

use std::io::Read as _;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::cli::exit::Exit;

/// What `run` says when its command's group is gone.
pub(super) const ALL_IS_WELL: &[u8] = b".";

/// Kills `group` when standard input ends without a word.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// The process group.
    #[arg(long)]
    group: i32,
}

/// Runs the command.
pub(in crate::cli) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut word = Vec::new();
    // Whatever ends the pipe, only the word says that all is well.
    let _ = std::io::stdin().take(1).read_to_end(&mut word);
    if word != ALL_IS_WELL
        && let Some(group) = Pid::from_raw(args.group)
    {
        let _ = kill_process_group(group, Signal::KILL);
    }
    Ok(Exit::Success)
}
