//! `leasehold break`: end the lease of a lock that somebody else has (S17).

use std::io::IsTerminal as _;

use leasehold_client::{
    BreakLock, BreakMode, BreakOutcome, Client, Error as ClientError, LockSelector, Reason,
};
use serde::Serialize;

use super::connection::ConnectionArgs;
use super::exit::{Exit, UsageError};
use super::output::{self, OutputArgs};
use super::record;
use super::spec::SelectorArgs;
use super::times::span;
use crate::view::LockView;

/// Breaks the lease of a lock that somebody else holds. The lease is not renewed any more, and nobody is
/// granted the lock before it has expired; the holder is told at its next renewal at the latest. The sidecar
/// must allow it (admin.allow_break).
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
    /// Break this grant only, by the token that `ls`, `show` or the status page has shown. Default: the one
    /// that this command shows first. If another holder has the lock by then, nothing is broken.
    #[arg(long, value_name = "TOKEN", value_parser = clap::value_parser!(u64).range(1..))]
    token: Option<u64>,
    /// Make the lock available at once. TWO HOLDERS ARE POSSIBLE until the old one notices, up to one lease
    /// duration: only for a holder that is known to be dead, or where resources check fencing tokens.
    #[arg(long)]
    now: bool,
    /// Do not ask before `--now`.
    #[arg(long, requires = "now")]
    yes: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    output: OutputArgs,
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
    let link = args.connection.link().await?;
    // S17: what is broken is what was shown.
    let token = match args.token {
        Some(token) => Some(token),
        None => shown(&link.client, &lock).await?,
    };
    if args.now && !args.yes {
        confirm(&record::selector_text(&lock))?;
    }
    let mode = if args.now { BreakMode::Now } else { BreakMode::RunOut };
    let mut request = BreakLock::new(lock, args.reason)
        .with_mode(mode)
        .with_broken_by(args.by.unwrap_or_default());
    request.fencing_token = token;
    let answer = link.client.break_lock(request).await?;
    link.close().await;
    let kept = answer.record.as_ref().and_then(record::kept_text);
    let kept = kept.map(|kept| format!("; this sidecar: {kept}")).unwrap_or_default();
    let free_in = answer.free_in;
    #[expect(clippy::wildcard_enum_match_arm, reason = "the client's outcomes may grow")]
    let text = match answer.outcome {
        BreakOutcome::Breaking => {
            let free_in = span(free_in.unwrap_or_default());
            format!("broken: the lock is available in {free_in}{kept}")
        }
        BreakOutcome::NotHeld => "nobody held the lock, so nothing was broken".to_owned(),
        BreakOutcome::Broken => format!("broken: the lock is available{kept}"),
        _ => format!("the sidecar is newer than this program: look at the lock{kept}"),
    };
    let broken = Broken {
        outcome: answer.outcome.as_str().to_ascii_lowercase(),
        free_in_seconds: free_in.map(|span| span.as_secs_f64()),
        lock: answer.record.as_ref().map(LockView::from),
    };
    output::result(args.output.output, || text, &broken)?;
    Ok(Exit::Success)
}

/// Shows who has the lock; the token of that grant. None if there is none, or the caller may not read the
/// lock.
async fn shown(client: &Client, lock: &LockSelector) -> anyhow::Result<Option<u64>> {
    match client.get_lock(lock.clone()).await {
        Ok(record) => {
            output::note(&format!("{}: {}", record.lock_path, record::doing_text(&record)));
            Ok(record.fencing_token)
        }
        Err(ClientError::Refused(refusal)) if refusal.reason == Some(Reason::AccessDenied) => {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
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
