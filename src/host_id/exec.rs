//! `exec`: what a command prints.

use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::{HostIdProvider, HostIdentity, ProviderError, host_type_of};
use crate::lock::{HostId, HostType};

/// The time a command has.
const LIMIT: Duration = Duration::from_secs(5);
/// What is kept of each output: a host id has 32 characters, and an error message is for people.
const KEPT_BYTES: usize = 1_024;

/// Returns what a command prints on its standard output, trimmed. No shell is involved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exec {
    program: String,
    arguments: Vec<String>,
    host_type: Option<HostType>,
    limit: Duration,
}

/// What a command wrote until both its outputs ended and it exited.
struct Output {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Exec {
    /// The provider that runs `program`, for at most 5 s. Without a `host_type`, the host id stands for it.
    #[must_use]
    pub const fn new(program: String, arguments: Vec<String>, host_type: Option<HostType>) -> Self {
        Self { program, arguments, host_type, limit: LIMIT }
    }

    fn run(&self) -> Result<String, ProviderError> {
        let not_started =
            |source| ProviderError::NotStarted { command: self.program.clone(), source };
        // A group of its own, so that what the command started can be killed with it.
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(not_started)?;
        let output = watch(&mut child).map(|output| output.recv_timeout(self.limit));
        let Ok(Ok(output)) = output else {
            kill_group(&child);
            child.wait().map_err(not_started)?;
            return Err(match output {
                Err(source) => not_started(source),
                Ok(_) => {
                    ProviderError::TimedOut { command: self.program.clone(), limit: self.limit }
                }
            });
        };
        let status = child.wait().map_err(not_started)?;
        if !status.success() {
            return Err(ProviderError::Failed {
                command: self.program.clone(),
                status,
                stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            });
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

impl HostIdProvider for Exec {
    fn provide(&self) -> Result<HostIdentity, ProviderError> {
        let host_id = HostId::parse(&self.run()?)
            .map_err(|source| ProviderError::HostId { provider: "exec", source })?;
        let host_type = match &self.host_type {
            Some(host_type) => host_type.clone(),
            None => host_type_of("exec", host_id.as_str())?,
        };
        Ok(HostIdentity { host_id, host_type, provider: "exec".to_owned(), warnings: Vec::new() })
    }
}

/// Answers once, when both outputs have ended and the command has exited. It is not reaped here, so that its
/// process id stays its own until it is killed or waited for.
fn watch(child: &mut Child) -> io::Result<mpsc::Receiver<Output>> {
    let (sender, receiver) = mpsc::channel();
    let pid = Pid::from_child(child);
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    thread::Builder::new().name("host-id-command".to_owned()).spawn(move || {
        let stderr = thread::spawn(move || head(stderr));
        let stdout = head(stdout);
        let stderr = stderr.join().unwrap_or_default();
        let exited = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let waited =
            rustix::io::retry_on_intr(|| rustix::process::waitid(WaitId::Pid(pid), exited));
        if waited.is_ok() {
            // Nobody listens any more when the time was over.
            let _ = sender.send(Output { stdout, stderr });
        }
    })?;
    Ok(receiver)
}

/// The first bytes; the rest is read too, so that the command is not stopped by a full pipe.
fn head(output: Option<impl Read>) -> Vec<u8> {
    let mut kept = Vec::new();
    let Some(mut output) = output else { return kept };
    let limit = u64::try_from(KEPT_BYTES).unwrap_or(u64::MAX);
    // An output that cannot be read is an output that has ended.
    if output.by_ref().take(limit).read_to_end(&mut kept).is_ok() {
        let _ = io::copy(&mut output, &mut io::sink());
    }
    kept
}

fn kill_group(child: &Child) {
    // Fails only when the whole group is gone already.
    let _ = rustix::process::kill_process_group(Pid::from_child(child), Signal::KILL);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Exec {
        Exec::new("/bin/sh".to_owned(), vec!["-c".to_owned(), script.to_owned()], None)
    }

    #[test]
    fn the_host_id_is_the_trimmed_output() {
        let identity = shell("echo noise >&2; echo '  keeper-a '").provide().unwrap();
        assert_eq!(identity.host_id.as_str(), "keeper-a");
        assert_eq!(identity.host_type.as_str(), "keeper-a");
        let host_type = HostType::parse("Keeper").unwrap();
        let named = Exec { host_type: Some(host_type.clone()), ..shell("echo keeper-a") };
        assert_eq!(named.provide().unwrap().host_type, host_type);
    }

    #[test]
    fn arguments_are_passed_as_they_are() {
        let echo = Exec::new("/bin/echo".to_owned(), vec!["$HOME".to_owned()], None);
        let error = echo.provide().unwrap_err();
        let rule = std::error::Error::source(&error).unwrap().to_string();
        assert!(rule.starts_with("\"$HOME\" is not a host id: it must match"), "{rule}");
    }

    #[test]
    fn a_failure_names_exit_code_and_stderr() {
        let error = shell("echo keeper-a; echo 'no such vault' >&2; exit 3").provide().unwrap_err();
        let text = error.to_string();
        assert!(text.contains("exit status: 3") && text.contains("no such vault"), "{text}");
    }

    #[test]
    fn a_flood_of_output_is_bounded_and_does_not_block() {
        let flood = "head -c 1000000 /dev/zero | tr '\\0' x";
        let error = shell(&format!("{flood} >&2; exit 1")).provide().unwrap_err();
        let ProviderError::Failed { stderr, .. } = error else { panic!("{error}") };
        assert_eq!(stderr.len(), KEPT_BYTES);
        assert!(matches!(shell(flood).provide(), Err(ProviderError::HostId { .. })));
    }

    #[test]
    fn a_missing_command_is_named() {
        let error = Exec::new("/nowhere/host-id".to_owned(), vec![], None).provide().unwrap_err();
        assert!(
            matches!(&error, ProviderError::NotStarted { command, .. } if command == "/nowhere/host-id")
        );
    }

    #[test]
    fn a_command_that_takes_too_long_is_killed_with_what_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}; echo keeper-a", file.display());
        let slow = Exec { limit: Duration::from_secs(2), ..shell(&script) };
        assert!(matches!(slow.provide(), Err(ProviderError::TimedOut { .. })));
        let text = std::fs::read_to_string(&file).unwrap();
        let pid = Pid::from_raw(text.trim().parse().unwrap()).unwrap();
        let is_gone = || {
            let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
            // Whoever inherits it may take its time to reap it.
            state.map_or(true, |state| state.contains(") Z "))
        };
        let mut polls = 0;
        while !is_gone() {
            polls += 1;
            assert!(polls < 5_000_000, "the command's child still runs");
            thread::yield_now();
        }
    }
}
