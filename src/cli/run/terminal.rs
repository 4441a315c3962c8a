//! The terminal: lent to the command while it runs, so that it can read, and so that Ctrl-C reaches it.

use std::io::{Stdin, stdin};

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Pid, getpgrp};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The command's group is in the foreground. Dropped, ours is again.
#[derive(Debug)]
pub(super) struct Foreground {
    terminal: Stdin,
    ours: Pid,
}

impl Foreground {
    /// Puts `group` into the foreground, if standard input is a terminal and we are in its foreground.
    pub(super) fn lend(group: Pid) -> Option<Self> {
        let terminal = stdin();
        let ours = getpgrp();
        if tcgetpgrp(&terminal).ok()? != ours {
            return None;
        }
        tcsetpgrp(&terminal, group).ok()?;
        // It may have asked for input before it was in the foreground, and been stopped for that.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::CONT);
        Some(Self { terminal, ours })
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        // From the background this would stop us, unless the signal that does so is blocked.
        let mut blocked = SigSet::empty();
        blocked.add(Signal::SIGTTOU);
        if blocked.thread_block().is_ok() {
            // A terminal that has gone is nobody's.
            let _ = tcsetpgrp(&self.terminal, self.ours);
        }
    }
}
