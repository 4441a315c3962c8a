//! `leasehold acquire`: take a lock by a call of its own.

use leasehold_client::{LeaseSpec, Outcome};
use serde::Serialize;

use super::connection::EndpointArgs;
use super::exit::Exit;
use super::output::{self, OutputArgs};
use super::record::{self, BusyView, GrantView};
use super::spec::SpecArgs;

/// Takes a lock; the sidecar renews it until `release`, `--max-hold` (the sidecar's default: 10 min) or shutdown,
/// whether or not anybody still works. Prefer `run` where a command can be given.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 granted, 75 busy.")]
pub(super) struct Args {
    #[command(flatten)]
    spec: SpecArgs,
    /// Makes the call repeatable: the same id gives the same grant while that hold lives.
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    #[command(flatten)]
    endpoint: EndpointArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Serialize)]
struct NotHad {
    busy: BusyView,
}

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let spec = LeaseSpec { request_id: args.request_id.unwrap_or_default(), ..args.spec.spec()? };
    let client = args.endpoint.builder()?.connect().await?;
    let format = args.output.output;
    match client.acquire(spec).await? {
        Outcome::Granted(grant) => {
            output::result(format, || record::grant_text(&grant), &GrantView::from(&grant))?;
            Ok(Exit::Success)
        }
        Outcome::Busy(busy) => {
            let document = NotHad { busy: BusyView::from(busy.as_ref()) };
            match format {
                output::Format::Text => output::note(&record::busy_text(&busy)),
                output::Format::Json => output::result(format, String::new, &document)?,
            }
            Ok(Exit::NotHad)
        }
    }
}
