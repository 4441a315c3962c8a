//! `leasehold acquire`: acquire a lock for a script.

use std::time::Duration;

use leasehold_client::{
    Client, Error, Grant, LeaseSpec, LockKey, LockSelector, LockState, Outcome, Reason,
};
use serde::Serialize;
use tokio::time::interval;

use super::acquire_retry::{collision, not_asked};
use super::connection::EndpointArgs;
use super::exit::Exit;
use super::grant::{BusyView, GrantView};
use super::output::{self, OutputArgs};
use super::record;
use super::retry::{Patience, TOLD_AGAIN};
use super::shell;
use super::spec::SpecArgs;

/// Acquires a lock; the sidecar renews it until `release`, `--max-hold` (the sidecar's default: 10 min) or
/// shutdown, whether or not anybody still works. Prefer `run` where a command can be given.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    spec: SpecArgs,
    /// Makes the call repeatable: the same id gives the same grant while that hold lives.
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    #[command(flatten)]
    endpoint: EndpointArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
struct BusyDocument {
    busy: BusyView,
}

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let mut patience = Patience::new(args.spec.wait);
    // One that is tried again after a lost answer must get the same hold, and not wait for itself.
    let request_id = args.request_id.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    let spec = args.spec.spec()?.with_request_id(request_id);
    let format = args.output.output;
    let client = loop {
        match args.endpoint.builder()?.connect().await {
            Ok(client) => break client,
            Err(error) => patience.after(error.into()).await?,
        }
    };
    let key = spec.key.clone();
    let outcome = acquire(&client, spec, &mut patience);
    match with_notes(outcome, &client, &key).await? {
        Outcome::Granted(grant) => {
            output::result(format, || shell::grant_text(&grant), &GrantView::from(&grant))?;
            Ok(Exit::Success)
        }
        Outcome::Busy(busy) => {
            let document = BusyDocument { busy: BusyView::from(busy.as_ref()) };
            match format {
                output::Format::Text => {
                    let collision = collision(&client, &key, busy.record.as_ref()).await;
                    output::note(&format!("{}{collision}", record::busy_text(&busy)));
                }
                output::Format::Json => output::result(format, String::new, &document)?,
            }
            Ok(Exit::Busy)
        }
        Outcome::AlreadyDone(_) | Outcome::Skipped { .. } => Err(not_asked()),
    }
}

/// How long a call waits before it says so: most are answered sooner.
const TOLD_AFTER: Duration = Duration::from_secs(1);

/// Waits for `outcome`, and says what for, soon and then each minute: a script that only waits looks like one
/// that hangs.
async fn with_notes<T>(outcome: impl Future<Output = T>, client: &Client, key: &LockKey) -> T {
    let mut outcome = std::pin::pin!(outcome);
    let mut again = interval(TOLD_AGAIN);
    again.reset_after(TOLD_AFTER);
    let mut note = async || {
        again.tick().await;
        // Where nobody can say who has the lock, the wait goes on in silence.
        if let Ok(record) = client.get_lock(LockSelector::Key(key.clone())).await
            && record.state != LockState::Available
        {
            output::note(&record::waiting_text(&record));
        }
    };
    loop {
        tokio::select! {
            biased;
            outcome = &mut outcome => return outcome,
            () = note() => {}
        }
    }
}

/// One wait of those that make up a wait without end.
const ROUND: Duration = Duration::from_secs(3_600);
/// Sidecars that do not even allow this allow no wait at all.
const SHORTEST_ROUND: Duration = Duration::from_secs(1);

/// Asks until the wait is over.
async fn acquire(
    client: &Client,
    spec: LeaseSpec,
    patience: &mut Patience,
) -> anyhow::Result<Outcome<Grant>> {
    let mut round = ROUND;
    loop {
        let left = patience.left();
        match client.acquire(spec.clone().with_wait(left.unwrap_or(round))).await {
            Ok(Outcome::Busy(_)) if left.is_none() => {}
            Ok(outcome) => return Ok(outcome),
            Err(error) if left.is_none() && is_too_long(&error) && round > SHORTEST_ROUND => {
                round /= 2;
            }
            Err(error) => patience.after(error.into()).await?,
        }
    }
}

/// Whether only the wait was too long for the sidecar (`locks.wait_ceiling`).
fn is_too_long(error: &Error) -> bool {
    let Error::Refused(refusal) = error else { return false };
    refusal.reason == Some(Reason::InvalidField)
        && !refusal.violations.is_empty()
        && refusal.violations.iter().all(|violation| violation.field.ends_with("wait"))
}
