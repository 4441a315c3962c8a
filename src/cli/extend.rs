//! `leasehold extend`: set how long a hold may still last.

use std::time::Duration;

use serde::Serialize;

use super::connection::EndpointArgs;
use super::exit::Exit;
use super::grant::ValidityView;
use super::output::{self, OutputArgs};
use super::release::LeaseArgs;
use super::spec::duration;
use super::times::moment;

/// Sets a new bound of a hold that `acquire` acquired, counted from now.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    lease: LeaseArgs,
    /// How long the hold may still last.
    #[arg(long, value_parser = duration, value_name = "DURATION", allow_hyphen_values = true)]
    max_hold: Duration,
    #[command(flatten)]
    endpoint: EndpointArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
struct Extended {
    max_hold_ends_at: Option<String>,
    validity: ValidityView,
}

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let lease_id = args.lease.lease_id()?;
    let client = args.endpoint.builder()?.connect().await?;
    let answer = client.extend(lease_id, args.max_hold).await?;
    let extended = Extended {
        max_hold_ends_at: moment(answer.max_hold_ends_at),
        validity: ValidityView::from(&answer.validity),
    };
    let text = || {
        let ends = extended.max_hold_ends_at.as_deref().unwrap_or("then");
        format!("the hold may last until {ends}")
    };
    output::result(args.output.output, text, &extended)?;
    Ok(Exit::Success)
}
