//! `leasehold release`: release what `acquire` acquired.

use std::io::Read as _;

use leasehold_client::{LossReason, ReleaseOutcome};
use serde::Serialize;

use super::connection::EndpointArgs;
use super::exit::{Exit, UsageError};
use super::output::{self, OutputArgs};
use super::times::moment;

/// Releases a lock that `acquire` acquired, and waits until the store has it. Stop acting on the lock before.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    endpoint: EndpointArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Which hold is meant.
#[derive(Debug, clap::Args)]
pub(super) struct LeaseArgs {
    /// The lease id, from `acquire`; `-` reads it from standard input. Default: the variable
    /// LEASEHOLD_LEASE_ID, which the process list does not show.
    #[arg(value_name = "LEASE_ID")]
    lease_id: Option<String>,
}

/// The variable that has a lease id.
pub(super) const LEASE_ID_VARIABLE: &str = "LEASEHOLD_LEASE_ID";

impl LeaseArgs {
    /// The lease id.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn lease_id(self) -> anyhow::Result<String> {
        let text = match self.lease_id.as_deref() {
            Some("-") => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text)?;
                text
            }
            Some(lease_id) => lease_id.to_owned(),
            None => std::env::var(LEASE_ID_VARIABLE).unwrap_or_default(),
        };
        match text.trim() {
            "" => {
                let problem =
                    format!("no lease id: give it, or - to read it, or set {LEASE_ID_VARIABLE}");
                Err(UsageError(problem).into())
            }
            lease_id => Ok(lease_id.to_owned()),
        }
    }
}

#[derive(Serialize)]
struct ReleasedView {
    outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resting_until: Option<String>,
}

/// What is said of a release that the store has not confirmed (S13).
pub(super) const NOT_CONFIRMED: &str = "the lock is available: its lease has expired, and the store did not confirm the release before";

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let lease_id = args.lease.lease_id()?;
    let client = args.endpoint.builder()?.connect().await?;
    let result = client.release(lease_id).await?;
    let lost = result.outcome == ReleaseOutcome::AlreadyLost;
    let released = ReleasedView {
        outcome: result.outcome.as_str().to_ascii_lowercase(),
        loss_reason: result.loss_reason.map(LossReason::as_str),
        resting_until: moment(result.resting_until),
    };
    let text = || match (&released.loss_reason, &released.resting_until) {
        _ if result.outcome == ReleaseOutcome::NotConfirmed => NOT_CONFIRMED.to_owned(),
        (Some(reason), _) => format!("nothing to release: the lock had been lost ({reason})"),
        (None, Some(until)) => {
            format!("released; nobody is granted the lock before {until} (min_hold)")
        }
        (None, None) => released.outcome.replace('_', " "),
    };
    output::result(args.output.output, text, &released)?;
    Ok(if lost { Exit::Lost } else { Exit::Success })
}
