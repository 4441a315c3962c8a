//! The command's processes: one group, whose leader is the command.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use anyhow::Context as _;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process_group,
    set_child_subreaper, test_kill_process_group, waitid, waitpgid, waitpid,
};
use tokio::process::Child;

use super::terminal::Foreground;

/// This program, also when its file was replaced meanwhile.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// What a person is told who presses Ctrl-Z.
pub(super) const NOT_SUSPENDED: &str = "a command that holds a lock cannot be suspended";

/// The command and all that it starts and that stays in its process group. Dropped, it is killed.
#[derive(Debug)]
pub(super) struct Group {
    leader: Child,
    id: Pid,
    sentinel: std::process::Child,
    foreground: Option<Foreground>,
    leader_ended: bool,
}

impl Group {
    /// Starts `command` with `environment` added to ours.
    ///
    /// # Errors
    /// When no process can be started. That the command cannot be run shows in its exit code, 126 or 127.
    pub(super) fn start(
        command: &[OsString],
        environment: &[(&'static str, OsString)],
    ) -> anyhow::Result<Self> {
        // What the command leaves behind becomes our child, so that its end can be waited for.
        set_child_subreaper(Some(getpid())).context("cannot supervise the command's processes")?;
        let mut leader = std::process::Command::new(THIS_PROGRAM);
        leader
            .arg0("leasehold")
            .args([super::EXEC, "--parent", &getpid().as_raw_nonzero().to_string(), "--"])
            .args(command)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .process_group(0);
        let leader = tokio::process::Command::from(leader)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start a process for the command")?;
        let id = leader
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?))
            .context("the command's process has no id")?;
        let sentinel = std::process::Command::new(THIS_PROGRAM)
            .arg0("leasehold")
            .args([super::SENTINEL, "--group", &id.as_raw_nonzero().to_string()])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let sentinel = match sentinel {
            Ok(sentinel) => sentinel,
            Err(error) => {
                let _ = kill_process_group(id, Signal::KILL);
                return Err(error).context("cannot start the process that supervises the command");
            }
        };
        let foreground = Foreground::lend(id);
        Ok(Self { leader, id, sentinel, foreground, leader_ended: false })
    }

    /// Waits for the command itself.
    pub(super) async fn leader_end(&mut self) -> std::io::Result<ExitStatus> {
        let status = self.leader.wait().await;
        self.leader_ended = true;
        status
    }

    /// Sends a signal to all of it. One that has gone meanwhile needs none.
    pub(super) fn signal(&self, number: i32) {
        if let Some(signal) = Signal::from_named_raw(number) {
            let _ = kill_process_group(self.id, signal);
        }
    }

    /// Kills all of it; whether we may. What runs as another user meanwhile cannot be killed by us.
    pub(super) fn kill(&self) -> bool {
        kill_process_group(self.id, Signal::KILL) != Err(Errno::PERM)
    }

    /// Whether nothing of it is left.
    pub(super) fn is_gone(&self) -> bool {
        if !self.leader_ended {
            return false;
        }
        // Those that have ended and are our children now are still counted until they are waited for.
        while let Ok(Some(_)) = waitpgid(self.id, WaitOptions::NOHANG) {}
        is_gone(test_kill_process_group(self.id))
    }

    /// Waits for those that have left the group and lost their parent: they are our children now, and would
    /// stay as zombies.
    pub(super) fn reap_adopted(&self) {
        let known =
            [self.id.as_raw_nonzero().get(), i32::try_from(self.sentinel.id()).unwrap_or(0)];
        for id in children().filter(|id| !known.contains(id)) {
            if process_state(id) == Some('Z') {
                let _ = waitpid(Pid::from_raw(id), WaitOptions::NOHANG);
            }
        }
    }

    /// Goes on with a command that a person stopped at the terminal: a lock is not to be slept on.
    pub(super) fn undo_stop(&self) {
        if self.foreground.is_none() || self.leader_ended {
            return;
        }
        if self.leader_was_stopped() || self.leader_starts_a_stopped_process() {
            super::output::note(NOT_SUSPENDED);
            let _ = kill_process_group(self.id, Signal::CONT);
        }
    }

    fn leader_was_stopped(&self) -> bool {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        waitid(WaitId::Pid(self.id), options).is_ok_and(|status| {
            status.is_some_and(|status| status.stopping_signal() == Some(Signal::TSTP.as_raw()))
        })
    }

    /// Whether the command waits in vfork for a process that was stopped before its exec. The command itself
    /// cannot be stopped meanwhile, and nobody is told of the stop of its child.
    fn leader_starts_a_stopped_process(&self) -> bool {
        let id = self.id.as_raw_nonzero().get();
        let thread = format!("/proc/{id}/task/{id}");
        process_state(id) == Some('D')
            && children_of(thread.as_ref()).into_iter().any(|id| process_state(id) == Some('T'))
    }

    /// The group is gone: its sentinel may go, and the terminal is ours again.
    pub(super) fn dismiss(mut self) {
        self.foreground = None;
        self.relieve_sentinel();
    }

    fn relieve_sentinel(&mut self) {
        if let Some(mut pipe) = self.sentinel.stdin.take() {
            // One that has gone already needs no word.
            let _ = pipe.write_all(super::sentinel::ALL_IS_WELL);
            drop(pipe);
            let _ = self.sentinel.wait();
        }
    }
}

/// The processes whose parent is this one: each of its threads has its own.
fn children() -> impl Iterator<Item = i32> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads.flat_map(|thread| children_of(&thread.path()))
}

/// The processes that this thread, by its folder in /proc, is the parent of.
fn children_of(thread: &Path) -> Vec<i32> {
    let ids = std::fs::read_to_string(thread.join("children")).unwrap_or_default();
    ids.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

/// The letter of a process's state; none if it has gone.
fn process_state(id: i32) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The state is behind the name, which is in parentheses and may contain some.
    text.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Whether a group that answers a test like this has nobody left. One with processes that we may not signal,
/// because they run as another user, is still there.
fn is_gone(tested: rustix::io::Result<()>) -> bool {
    tested == Err(Errno::SRCH)
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.is_gone() {
            self.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s13_a_group_that_may_not_be_signalled_is_not_gone() {
        assert!(!is_gone(Err(Errno::PERM)));
        assert!(!is_gone(Ok(())));
        assert!(is_gone(Err(Errno::SRCH)));
    }
}
