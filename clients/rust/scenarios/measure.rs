//! Hold and release through the client, beside the same through the generated stub.

use std::time::Duration;

use leasehold_client::proto::hold_lease_request::Start;
use leasehold_client::proto::hold_lease_response::Event;
use leasehold_client::proto::lease_service_client::LeaseServiceClient;
use leasehold_client::proto::{
    HoldLeaseRequest, LeaseSpec as WireSpec, LockKey as WireKey, ReleaseLeaseRequest,
};
use leasehold_client::{BootInstant, Client, Error, Outcome};
use serde_json::json;
use tonic::transport::Channel;

use crate::{Command, emit};

/// Holds of the one before it is the other's turn.
const TURN: usize = 50;

pub(crate) async fn measure(client: &Client, command: &Command) -> Result<(), Error> {
    let endpoint = std::env::var("LEASEHOLD_ENDPOINT").unwrap_or_default();
    let channel = Client::builder(endpoint).channel().await?;
    let mut stub = LeaseServiceClient::new(channel);
    let (mut by_client, mut by_stub) = (Duration::ZERO, Duration::ZERO);
    let mut done = 0;
    while done < command.times {
        let turn = TURN.min(command.times - done);
        let began = BootInstant::now();
        for _ in 0..turn {
            let Outcome::Granted(hold) = client.hold(command.spec()).await? else {
                return Err(Error::Protocol("the lock is busy"));
            };
            hold.release().await?;
        }
        let between = BootInstant::now();
        for _ in 0..turn {
            hold_by_stub(&mut stub, command).await?;
        }
        by_client += between.saturating_since(began);
        by_stub += BootInstant::now().saturating_since(between);
        done += turn;
    }
    let times = f64::from(u32::try_from(command.times).unwrap_or(u32::MAX));
    let more = json!({
        "client_per_second": times / by_client.as_secs_f64(), "stub_per_second": times / by_stub.as_secs_f64(),
    });
    emit(&command.id, "measured", more);
    Ok(())
}

async fn hold_by_stub(
    stub: &mut LeaseServiceClient<Channel>,
    command: &Command,
) -> Result<(), Error> {
    let request = HoldLeaseRequest { start: Some(Start::Spec(command.wire_spec())), needs: 1 };
    let mut stream = stub.hold_lease(request).await.map_err(failed)?.into_inner();
    while let Some(message) = stream.message().await.map_err(failed)? {
        match message.event {
            Some(Event::Granted(grant)) => {
                let release = ReleaseLeaseRequest {
                    lease_id: grant.lease_id,
                    ..ReleaseLeaseRequest::default()
                };
                stub.release_lease(release).await.map_err(failed)?;
            }
            Some(Event::Released(_)) => return Ok(()),
            _ => {}
        }
    }
    Err(Error::Protocol("the stream ended without Released"))
}

fn failed(_: tonic::Status) -> Error {
    Error::Protocol("a call of the stub failed")
}

impl Command {
    /// The same for the stub.
    fn wire_spec(&self) -> WireSpec {
        let key = WireKey {
            function: self.function.clone(),
            scope: self.scope.clone(),
            ..WireKey::default()
        };
        WireSpec { key: Some(key), ..WireSpec::default() }
    }
}
