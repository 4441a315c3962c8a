//! Runs a command while it holds a lock, kills it when the lock is lost, and passes on its exit code:
//! `cargo run --example run -- FUNCTION -- COMMAND…`. 75 if somebody else has the lock, 76 if it was lost.
#![expect(clippy::print_stderr, reason = "a sample says what happened")]

use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};

use leasehold_client::{Client, LeaseSpec, Outcome};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Command;

const BUSY: u8 = 75;
const LOST: u8 = 76;

/// As shells number it.
fn code(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|signal| signal + 128);
    status.code().or(signal).and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [function, separator, program, rest @ ..] = arguments.as_slice() else {
        return Err("usage: run FUNCTION -- COMMAND…".into());
    };
    if separator != "--" {
        return Err("usage: run FUNCTION -- COMMAND…".into());
    }

    let client = Client::from_env().await?;
    let Outcome::Granted(hold) = client.hold(LeaseSpec::new(function)).await? else {
        eprintln!("somebody else has the lock");
        return Ok(BUSY.into());
    };
    let mut command = Command::new(program)
        .args(rest)
        .env("LEASEHOLD_FENCING_TOKEN", hold.fencing_token().to_string())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let group = command.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    tokio::select! {
        status = command.wait() => {
            let status = status?;
            hold.release().await?;
            Ok(code(status).into())
        }
        loss = hold.lost() => {
            // All that the command has started goes with it.
            if let Some(group) = group {
                kill_process_group(group, Signal::KILL)?;
            }
            command.wait().await?;
            eprintln!("lost: {loss}");
            Ok(LOST.into())
        }
    }
}
