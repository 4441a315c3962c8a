//! Asks for a lock as long as a command waits for it, also while its sidecar is away.

use leasehold_client::{HoldEvent, HoldGuard, LeaseSpec, Outcome};
use tokio::sync::mpsc::UnboundedSender;

use super::connection::{ConnectionArgs, Link};
use super::patience::Patience;

/// Connects, while the wait lasts.
pub(crate) async fn link(
    connection: &ConnectionArgs,
    patience: &mut Patience,
) -> anyhow::Result<Link> {
    loop {
        match connection.clone().link().await {
            Ok(link) => return Ok(link),
            Err(error) => patience.after(error).await?,
        }
    }
}

/// Asks for the lock until it is granted or the wait is over, also through a restart of the sidecar.
pub(crate) async fn ask(
    link: &Link,
    spec: LeaseSpec,
    events: UnboundedSender<HoldEvent>,
    patience: &mut Patience,
) -> anyhow::Result<Outcome<HoldGuard>> {
    loop {
        let left = patience.left();
        let spec = spec.clone().with_wait(left.unwrap_or_default());
        let holding = link.client.hold(spec).events(events.clone());
        let asked = match left {
            Some(_) => holding.await,
            None => holding.until_answered().await,
        };
        match asked {
            Ok(outcome) => return Ok(outcome),
            Err(error) => patience.after(error.into()).await?,
        }
    }
}

/// A sidecar has answered about an occurrence, and none was named.
pub(crate) fn not_asked() -> anyhow::Error {
    anyhow::anyhow!("the sidecar has answered about an occurrence, and none was named")
}
