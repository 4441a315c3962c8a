//! The Azure storage emulator, started by the tests themselves.

use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::store::azure::{EMULATOR_ACCOUNT, EMULATOR_KEY};

/// A running Azurite on a free port of the loopback, with its data in memory. Ends when it is dropped, or
/// when the process that started it ends in whatever way.
#[derive(Debug)]
pub struct Azurite {
    endpoint: String,
    child: Child,
    log: Log,
}

/// Why there is no emulator.
#[derive(Debug, thiserror::Error)]
pub enum AzuriteError {
    /// It is not installed, and could not be.
    #[error(
        "the Azure storage emulator is not there and tests/tools/install.sh could not install it ({problem}); \
         run that script, or name azurite's script azurite-blob in LEASEHOLD_AZURITE"
    )]
    Missing {
        /// What went wrong.
        problem: String,
    },
    /// It was started, and is not ready.
    #[error("the Azure storage emulator {} did not start ({problem}); it wrote:\n{log}", script.display())]
    NotStarted {
        /// The script that Node.js runs.
        script: PathBuf,
        /// What went wrong.
        problem: String,
        /// What it wrote.
        log: String,
    },
}

/// The last lines that the emulator wrote.
type Log = Arc<Mutex<Vec<String>>>;

const LOG_LINES: usize = 200;
/// A busy machine may take its time to start node.
const START_BOUND: Duration = Duration::from_secs(60);
/// Runs the script that is named next, and ends with the pipe to it: an emulator never outlives who started
/// it.
const RUN_UNTIL_ORPHANED: &str = "process.stdin.resume().on('close', () => process.exit(0)); \
                                  require(process.argv[1])";
const READY: &str = "successfully listens on ";

impl Azurite {
    /// The emulator that all tests of this process share.
    ///
    /// # Panics
    /// When it cannot be started: a test without it must fail.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Result<Azurite, AzuriteError>> = OnceLock::new();
        match SHARED.get_or_init(Self::start) {
            Ok(azurite) => azurite,
            Err(error) => panic!("{error}"),
        }
    }

    /// Starts an emulator of one's own.
    ///
    /// # Errors
    /// What keeps it from starting, and what to do.
    pub fn start() -> Result<Self, AzuriteError> {
        let script = script()?;
        let failed = |problem: String, log: &Log| AzuriteError::NotStarted {
            script: script.clone(),
            problem,
            log: lines(log).join("\n"),
        };
        let log = Log::default();
        let mut child = Command::new("node")
            .args(["-e", RUN_UNTIL_ORPHANED])
            .arg(&script)
            .args(["--blobHost", "127.0.0.1", "--blobPort", "0"])
            .args(["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| failed(format!("node: {error}"), &log))?;
        let (ready, endpoint) = mpsc::channel();
        if let Some(output) = child.stdout.take() {
            keep(output, &log, ready.clone());
        }
        if let Some(output) = child.stderr.take() {
            keep(output, &log, ready);
        }
        let mut azurite = Self { endpoint: String::new(), child, log };
        azurite.endpoint = endpoint.recv_timeout(START_BOUND).map_err(|error| {
            let problem = match error {
                RecvTimeoutError::Timeout => format!("not ready after {START_BOUND:?}"),
                RecvTimeoutError::Disconnected => "it ended".to_owned(),
            };
            failed(problem, &azurite.log)
        })?;
        Ok(azurite)
    }

    /// The URL of its blob service, the account included.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("{}/{EMULATOR_ACCOUNT}", self.endpoint)
    }

    /// How to sign in to it.
    #[must_use]
    pub fn connection_string(&self) -> String {
        format!(
            "AccountName={EMULATOR_ACCOUNT};AccountKey={EMULATOR_KEY};BlobEndpoint={}",
            self.endpoint()
        )
    }

    /// The URL of its blob service with an account SAS that allows everything until 2100.
    #[must_use]
    pub fn sas_url(&self) -> String {
        self.sas_url_for("rwdlac")
    }

    /// The same with these permissions only, such as `rwl`.
    #[must_use]
    pub fn sas_url_for(&self, permissions: &str) -> String {
        const VERSION: &str = "2025-11-05";
        const END: &str = "2100-01-01T00:00:00Z";
        let text = format!("{EMULATOR_ACCOUNT}\n{permissions}\nb\nsco\n\n{END}\n\n\n{VERSION}\n\n");
        let key = STANDARD.decode(EMULATOR_KEY).unwrap_or_default();
        let signature = Hmac::<Sha256>::new_from_slice(&key).map(|mut mac| {
            mac.update(text.as_bytes());
            STANDARD.encode(mac.finalize().into_bytes())
        });
        let signature = signature.unwrap_or_default().replace('+', "%2B").replace('/', "%2F");
        let endpoint = self.endpoint();
        format!(
            "{endpoint}?sv={VERSION}&ss=b&srt=sco&sp={permissions}&se={END}&sig={}",
            signature.replace('=', "%3D")
        )
    }

    /// The last lines that it wrote: its requests and answers, for a test that fails.
    #[must_use]
    pub fn log(&self) -> String {
        lines(&self.log).join("\n")
    }
}

impl Drop for Azurite {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(log: &Log) -> MutexGuard<'_, Vec<String>> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps what is written, and tells the endpoint when it is there.
fn keep(output: impl Read + Send + 'static, log: &Log, ready: Sender<String>) {
    let log = Arc::clone(log);
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some((_, endpoint)) = line.split_once(READY) {
                // Nobody listens any more when the start was given up.
                let _ = ready.send(endpoint.trim().to_owned());
            }
            let mut lines = lines(&log);
            if lines.len() == LOG_LINES {
                lines.remove(0);
            }
            lines.push(line);
        }
    });
}

fn script() -> Result<PathBuf, AzuriteError> {
    if let Some(script) = std::env::var_os("LEASEHOLD_AZURITE") {
        let script = PathBuf::from(script);
        return script.canonicalize().map_err(|error| AzuriteError::Missing {
            problem: format!("LEASEHOLD_AZURITE names {}: {error}", script.display()),
        });
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Quick when everything is there, and the only one that knows whether it is what the lock file pins.
    let installed = Command::new(root.join("tests/tools/install.sh")).output();
    let problem = match installed {
        Ok(output) if output.status.success() => {
            let script = root.join(".tools/node_modules/azurite/dist/src/blob/main.js");
            match script.canonicalize() {
                Ok(script) => return Ok(script),
                Err(error) => format!("{}: {error}", script.display()),
            }
        }
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(AzuriteError::Missing { problem })
}
