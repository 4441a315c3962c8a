//! `leasehold probe`: a sidecar's health, for containers that have neither shell nor curl.

use std::time::Duration;

use leasehold_client::{Code, Error, Health};

use super::connection::EndpointArgs;
use super::exit::{Exit, UnavailableError};
use super::output;
use super::spec::duration;
use crate::time::{BootClock, Clock as _};

/// Asks a sidecar by the standard gRPC health service whether it is ready: it answers and can use its store.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How long to wait until it is ready; 0s asks once.
    #[arg(long, value_parser = duration, value_name = "DURATION", default_value = "0s", allow_hyphen_values = true)]
    wait: Duration,
    /// The service to ask about: leasehold.v1.LeaseService, leasehold.v1.ScheduleService, or the whole server
    /// when empty.
    #[arg(long, value_name = "NAME", default_value = "")]
    service: String,
    /// Ask only whether it is alive: it answers, whether or not it can use its store. For liveness probes,
    /// which must not restart holders because the store is away.
    #[arg(long, conflicts_with = "service")]
    live: bool,
    #[command(flatten)]
    endpoint: EndpointArgs,
}

/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(200);
/// A question that is not answered in this time is asked again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let clock = BootClock::new();
    let end = clock.now() + args.wait;
    loop {
        let asked = tokio::time::timeout(ANSWER_TIMEOUT, ask(&args)).await;
        let problem = match asked {
            Ok(Ok(())) => {
                output::print(if args.live { "alive" } else { "ready" })?;
                return Ok(Exit::Success);
            }
            Ok(Err(error)) => error,
            Err(_elapsed) => {
                UnavailableError("the sidecar did not answer in time".to_owned()).into()
            }
        };
        let hopeless = matches!(problem.downcast_ref::<Error>(), Some(Error::Endpoint { .. }));
        if hopeless || clock.now() + PAUSE > end {
            return Err(problem);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn ask(args: &Args) -> anyhow::Result<()> {
    let client = args.endpoint.builder()?.connect().await?;
    let service = args.service.as_str();
    let health = client.health(service).await.map_err(|error| match error.code() {
        Some(Code::NotFound) => UnavailableError(format!(
            "the sidecar knows no service {service:?}; try leasehold.v1.LeaseService"
        ))
        .into(),
        Some(Code::Unimplemented) => UnavailableError(
            "the server at this endpoint has no health service, so it is not a sidecar".to_owned(),
        )
        .into(),
        _ => anyhow::Error::from(error).context("the sidecar does not answer"),
    })?;
    if health == Health::Serving || args.live {
        return Ok(());
    }
    let problem = "the sidecar answers and is not ready: it cannot use its store, or is shutting down; its log and \
                   /readyz say why";
    Err(UnavailableError(problem.to_owned()).into())
}
