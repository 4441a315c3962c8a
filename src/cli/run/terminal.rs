//! The terminal: lent to the command while it runs, so that it can read, and so that Ctrl-C reaches it.

use std::io::{Stdin, stdin};

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Pid, getpgid, getpgrp};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The command's group is in the foreground. Dropped, ours is again.
#[derive(Debug)]
pub(super) struct Foreground {
    terminal: Stdin,
    ours: Pid,
}

impl Foreground {
    /// Puts `group` into the foreground, if standard input is a terminal and we are in its foreground, or were until it took
    /// its place itself.
    pub(super) fn lend(group: Pid) -> Option<Self> {
        let terminal = stdin();
        let ours = getpgrp();
        let foreground = tcgetpgrp(&terminal).ok()?;
        if foreground != ours && foreground != group {
            return None;
        }
        // It is not waked here: a person may have stopped it by now, and is to be told.
        set_foreground(&terminal, group);
        Some(Self { terminal, ours })
    }
}

/// Puts our own group into the foreground if `parent`'s has it: what a person types goes to the command from its first
/// moment on, however long its parent takes to lend the terminal.
pub(super) fn take_from(parent: Pid) {
    let terminal = stdin();
    if tcgetpgrp(&terminal).is_ok_and(|foreground| getpgid(Some(parent)) == Ok(foreground)) {
        set_foreground(&terminal, getpgrp());
    }
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
