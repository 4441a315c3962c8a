//! The terminal: lent to the command while it runs, so that it can read, and so that Ctrl-C reaches it.

use std::io::{Stdin, stdin};

use nix::sys::signal::{SigSet, Signal};
use rustix::process::Pid;
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The command's group is in the foreground. Dropped, ours is again.
#[derive(Debug)]
pub(super) struct Foreground {
    terminal: Stdin,
    ours: Pid,
}

impl Foreground {
    /// Puts `group` into the foreground, if standard input is a terminal and we are in its foreground, or
    /// were until it took its place itself.
    pub(super) fn lend(group: Pid) -> Option<Self> {
        let terminal = stdin();
        let ours = group_of(None)?;
        let foreground = tcgetpgrp(&terminal).ok()?;
        if foreground != ours && foreground != group {
            return None;
        }
        // It is not waked here: a person may have stopped it by now, and is to be told.
        set_foreground(&terminal, group);
        Some(Self { terminal, ours })
    }
}

/// Puts our own group into the foreground if `parent`'s has it: what a person types goes to the command from
/// its first moment on, however long its parent takes to lend the terminal.
pub(super) fn take_from(parent: Pid) {
    let terminal = stdin();
    let (foreground, group) = (tcgetpgrp(&terminal).ok(), group_of(Some(parent)));
    if let (true, Some(ours)) = (group.is_some() && foreground == group, group_of(None)) {
        set_foreground(&terminal, ours);
    }
}

/// The group of this process or another one; none if that has gone, or its group is in another PID namespace,
/// and has no id here.
fn group_of(process: Option<Pid>) -> Option<Pid> {
    let process = process.map(|pid| nix::unistd::Pid::from_raw(pid.as_raw_nonzero().get()));
    Pid::from_raw(nix::unistd::getpgid(process).ok()?.as_raw())
}

/// From the background this would stop us, unless the signal that does so is blocked.
fn set_foreground(terminal: &Stdin, group: Pid) {
    let mut blocked = SigSet::empty();
    blocked.add(Signal::SIGTTOU);
    if blocked.thread_block().is_ok() {
        // A terminal that has gone is nobody's.
        let _ = tcsetpgrp(terminal, group);
        let _ = blocked.thread_unblock();
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        set_foreground(&self.terminal, self.ours);
    }
}
