//! The process of a sidecar that a test has started.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::SidecarError;

/// How often a condition is looked at.
pub(super) const LOOK: Duration = Duration::from_millis(10);

/// Linux takes 107 bytes, macOS 103.
const LONGEST_SOCKET_PATH: usize = 100;

/// Stops a process until its own standard input is closed, which it is also when the test process dies.
const PAUSE: &str = r#"
kill -STOP "$1" || exit 1
while :; do
    case $(cat "/proc/$1/stat" 2>/dev/null || ps -o stat= -p "$1") in
    *') T '* | T*) break ;;
    '' | *') Z '* | Z*) exit 1 ;;
    esac
done
echo paused
read -r _
kill -CONT "$1" 2>/dev/null
"#;

/// A `leasehold serve` in a folder of its own. It ends with this process, however that ends: the system
/// closes this end of its standard input.
#[derive(Debug)]
pub(super) struct Process {
    folder: TempDir,
    program: PathBuf,
    words: Vec<String>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: Option<Child>,
    pausing: Option<Child>,
}

impl Process {
    pub(super) fn new(program: PathBuf, settings: &[(String, String)]) -> io::Result<Self> {
        let usual = std::env::temp_dir();
        let fits = usual.join("lh-123456").join("s").as_os_str().len() <= LONGEST_SOCKET_PATH;
        let place = if fits { usual } else { PathBuf::from("/tmp") };
        let folder = tempfile::Builder::new().prefix("lh-").tempdir_in(place)?;
        let mut words = vec!["serve".to_owned(), "--exit-on-stdin-close".to_owned()];
        let unix = folder.path().join("s").display().to_string();
        let defaults = [
            ("store.kind", "memory"),
            ("listen.unix", &unix),
            ("listen.tcp", ""),
            ("admin.listen", ""),
            ("admin.allow_break", "true"),
            ("host_id.host_type", "test"),
            ("locks.lease_duration", "15s"),
        ];
        let settings = settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        // The last one of a setting counts.
        for (key, value) in defaults.into_iter().chain(settings) {
            words.extend(["--set".to_owned(), format!("{key}={value}")]);
        }
        Ok(Self { folder, program, words, state: Mutex::default() })
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder().join("s")
    }

    pub(super) fn log(&self) -> String {
        let log = std::fs::read(self.folder().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn id(&self) -> Option<u32> {
        self.state().running.as_ref().map(Child::id)
    }

    pub(super) fn check_answers(&self) -> Result<(), SidecarError> {
        let state = self.state();
        if state.running.is_none() {
            return Err(SidecarError::NotRunning);
        }
        if state.pausing.is_some() { Err(SidecarError::Paused) } else { Ok(()) }
    }

    /// Starts it, and waits until it listens.
    pub(super) async fn start(&self, timeout: Duration) -> Result<(), SidecarError> {
        self.spawn()?;
        let listening = async {
            while tokio::net::UnixStream::connect(self.socket()).await.is_err() {
                if let Some(status) =
                    self.ended().map_err(|cause| self.failed("wait for", cause))?
                {
                    let command = format!("{} {}", self.program.display(), self.words.join(" "));
                    return Err(SidecarError::Ended { command, status, log: self.log() });
                }
                tokio::time::sleep(LOOK).await;
            }
            Ok(())
        };
        let late = || SidecarError::NotInTime {
            timeout,
            what: format!("the sidecar listens. Its log:\n{}", self.log()),
        };
        tokio::time::timeout(timeout, listening).await.map_err(|_| late())?
    }

    fn spawn(&self) -> Result<(), SidecarError> {
        let mut state = self.state();
        if state.running.is_some() {
            return Err(SidecarError::Running);
        }
        let log = File::options().create(true).append(true).open(self.folder().join("log"));
        let log = log.map_err(|cause| self.failed("log what is said by", cause))?;
        let errors = log.try_clone().map_err(|cause| self.failed("log what is said by", cause))?;
        let mut command = Command::new(&self.program);
        // Settings come from the test alone, whatever the environment has for the code under test.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("LEASEHOLD_") {
                command.env_remove(name);
            }
        }
        command.args(&self.words).current_dir(self.folder());
        // Ctrl-C at a terminal, which ends the tests, is not for the sidecar: it ends after them.
        command.stdin(Stdio::piped()).stdout(log).stderr(errors).process_group(0);
        state.running = Some(command.spawn().map_err(|cause| self.failed("start", cause))?);
        Ok(())
    }

    fn failed(&self, what: &'static str, cause: io::Error) -> SidecarError {
        SidecarError::Io { what, program: self.program.clone(), cause }
    }

    /// How it has ended, if it has; then it is forgotten.
    fn ended(&self) -> io::Result<Option<String>> {
        let mut state = self.state();
        let Some(child) = &mut state.running else { return Ok(Some("nothing".to_owned())) };
        let status = child.try_wait()?;
        if status.is_some() {
            self.forget(&mut state);
        }
        Ok(status.map(|status| status.to_string()))
    }

    fn forget(&self, state: &mut State) {
        state.running = None;
        // What is left of a sidecar that was killed would be taken for one that listens.
        let _ = std::fs::remove_file(self.socket());
    }

    pub(super) fn pause(&self) -> Result<(), SidecarError> {
        self.check_answers()?;
        let mut state = self.state();
        let Some(running) = &state.running else { return Err(SidecarError::NotRunning) };
        let mut command = Command::new("/bin/sh");
        command.args(["-c", PAUSE, "sh", &running.id().to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut pausing = command.spawn().map_err(|cause| self.failed("pause", cause))?;
        let mut said = String::new();
        let read = pausing.stdout.take().map(|stdout| BufReader::new(stdout).read_line(&mut said));
        state.pausing = Some(pausing);
        drop(state);
        if matches!(read, Some(Ok(1..))) {
            return Ok(());
        }
        self.resume();
        let ended = io::Error::other(format!("it has ended. Its log:\n{}", self.log()));
        Err(self.failed("pause", ended))
    }

    pub(super) fn resume(&self) {
        let pausing = self.state().pausing.take();
        if let Some(mut pausing) = pausing {
            // Waiting closes its standard input first. It has ended then, also if that cannot be told.
            let _ = pausing.wait();
        }
    }

    /// Has it shut down, as at SIGTERM, and waits for that.
    pub(super) async fn stop(&self, timeout: Duration) -> Result<(), SidecarError> {
        let id = self.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let id = id.ok_or(SidecarError::NotRunning)?;
        kill_process(id, Signal::TERM).map_err(|cause| self.failed("stop", cause.into()))?;
        self.resume();
        let ended = async {
            while self.ended().map_err(|cause| self.failed("wait for", cause))?.is_none() {
                tokio::time::sleep(LOOK).await;
            }
            Ok(())
        };
        let what = "the sidecar has shut down; it waits for holders, up to drain.period. Its log";
        let late = || SidecarError::NotInTime { timeout, what: format!("{what}:\n{}", self.log()) };
        tokio::time::timeout(timeout, ended).await.map_err(|_| late())?
    }

    /// Ends it as a crash does.
    pub(super) fn kill(&self) {
        let mut state = self.state();
        if let Some(running) = &mut state.running {
            let _ = running.kill();
            let _ = running.wait();
            self.forget(&mut state);
        }
        drop(state);
        self.resume();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
