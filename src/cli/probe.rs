//! `leasehold probe`: a sidecar's health, for containers that have neither shell nor curl.

use std::time::Duration;

use leasehold_client::{ClientBuilder, Code};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::connection::EndpointArgs;
use super::exit::{Exit, UnavailableError};
use super::output;
use super::spec::span;
use crate::time::{BootClock, Clock as _};

/// Asks a sidecar by the standard gRPC health service whether it is ready: it answers and can use its store.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 ready (or alive), 69 not.")]
pub(super) struct Args {
    /// How long to wait until it is ready; 0s asks once.
    #[arg(long, value_parser = span, value_name = "DURATION", default_value = "0s", allow_hyphen_values = true)]
    wait: Duration,
    /// The service to ask about: leasehold.v1.LeaseService, or the whole server when empty.
    #[arg(long, value_name = "NAME", default_value = "")]
    service: String,
    /// Ask only whether it is alive: it answers, whether or not it can use its store. For liveness probes, which must not
    /// restart holders because the store is away.
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
    let builder = args.endpoint.builder()?;
    let clock = BootClock::new();
    let end = clock.now() + args.wait;
    loop {
        let asked = tokio::time::timeout(ANSWER_TIMEOUT, ask(&builder, &args)).await;
        let problem = match asked {
            Ok(Ok(())) => {
                output::print(if args.live { "alive" } else { "ready" })?;
                return Ok(Exit::Success);
            }
            Ok(Err(error)) => error,
            Err(_elapsed) => {
                UnavailableError("the sidecar does not answer in time".to_owned()).into()
            }
        };
        let hopeless = matches!(
            problem.downcast_ref::<leasehold_client::Error>(),
            Some(leasehold_client::Error::Endpoint { .. })
        );
        if hopeless || clock.now() + PAUSE > end {
            return Err(problem);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn ask(builder: &ClientBuilder, args: &Args) -> anyhow::Result<()> {
    let channel = builder.channel().await?;
    let service = args.service.as_str();
    let request = HealthCheckRequest { service: service.to_owned() };
    let answer = HealthClient::new(channel).check(request).await.map_err(|status| {
        let problem = if status.code() == Code::NotFound {
            format!("the sidecar knows no service {service:?}; try leasehold.v1.LeaseService")
        } else if status.code() == Code::Unimplemented {
            "what answers there has no health service, so it is no sidecar".to_owned()
        } else {
            format!("the sidecar does not answer: {}", status.message())
        };
        UnavailableError(problem)
    })?;
    match answer.into_inner().status() {
        ServingStatus::Serving => Ok(()),
        ServingStatus::NotServing if args.live => Ok(()),
        ServingStatus::NotServing | ServingStatus::Unknown | ServingStatus::ServiceUnknown => {
            let problem = "the sidecar answers and is not ready: it cannot use its store, or is shutting down; \
                           its log and /readyz say why";
            Err(UnavailableError(problem.to_owned()).into())
        }
    }
}
