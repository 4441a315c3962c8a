//! `leasehold break`: end the lease of a lock that somebody else has (S17).

use std::io::IsTerminal as _;

use leasehold_client::{BreakLock, BreakMode, BreakOutcome};
use serde::Serialize;

use super::connection::ConnectionArgs;
use super::exit::{Exit, UsageError};
use super::output::{self, OutputArgs};
use super::record;
use super::spec::SelectorArgs;
use super::view::LockView;

/// Breaks the lease of a lock that somebody else holds. The lease is not renewed any more, and nobody is granted the lock
/// before it has expired; the holder is told at its next renewal at the latest. The sidecar must allow it (admin.allow_break).
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    lock: SelectorArgs,
    /// Why: stored with the lock, and told to the holder.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Who breaks it, shown to people. Default: the name of the sidecar's pod or host.
    #[arg(long, value_name = "TEXT")]
    by: Option<String>,
    /// Make the lock available at once. TWO HOLDERS ARE POSSIBLE until the old one notices, up to one lease duration: only for a
    /// holder that is known to be dead, or where resources check fencing tokens.
    #[arg(long)]
    now: bool,
    /// Do not ask before `--now`.
    #[arg(long, requires = "now")]
    yes: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Serialize)]
struct Broken {
    outcome: String,
    free_in_seconds: Option<f64>,
    lock: Option<LockView>,
}

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let lock = args.lock.selector()?;
    if args.now && !args.yes {
        confirm(&record::selector_text(&lock))?;
    }
    let mode = if args.now { BreakMode::Now } else { BreakMode::RunOut };
    let request = BreakLock::new(lock, args.reason)
        .with_mode(mode)
        .with_broken_by(args.by.unwrap_or_default());
    let link = args.connection.link().await?;
    let answer = link.client.break_lock(request).await?;
    link.close().await;
    let free_in = answer.free_in;
    #[expect(clippy::wildcard_enum_match_arm, reason = "the client's outcomes may grow")]
    let text = match answer.outcome {
        BreakOutcome::Breaking => {
            let free_in = record::whole_millis(free_in.unwrap_or_default());
            let free_in = humantime::format_duration(free_in);
            format!("broken: the lock is available in {free_in}")
        }
        BreakOutcome::NotHeld => "nobody held the lock, so nothing was broken".to_owned(),
        _ => "broken: the lock is available".to_owned(),
    };
    let broken = Broken {
        outcome: answer.outcome.as_str().to_ascii_lowercase(),
        free_in_seconds: free_in.map(|span| span.as_secs_f64()),
        lock: answer.record.as_ref().map(LockView::from),
    };
    output::result(args.output.output, || text, &broken)?;
    Ok(Exit::Success)
}

/// S17: whoever frees a lock at once must know what that means.
fn confirm(lock: &str) -> Result<(), UsageError> {
    let danger = format!(
        "--now frees the lock {lock} at once, and two holders are possible until the old one notices, up to one lease \
         duration"
    );
    if !std::io::stdin().is_terminal() {
        return Err(UsageError(format!("{danger}: add --yes to confirm")));
    }
    output::note(&format!("{danger}. Continue? [y/N]"));
    let mut answer = String::new();
    // An answer that cannot be read is no yes.
    let _ = std::io::stdin().read_line(&mut answer);
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        Ok(())
    } else {
        Err(UsageError("not broken".to_owned()))
    }
}
