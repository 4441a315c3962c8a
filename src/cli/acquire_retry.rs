//! Asks for a lock as long as a command waits for it, also while its sidecar is away.

use leasehold_client::{Client, Hold, HoldEvent, LeaseSpec, LockKey, LockRecord, Outcome};
use tokio::sync::mpsc::UnboundedSender;

use super::connection::{ConnectionArgs, Link};
use super::record::printable;
use super::retry::Patience;

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
) -> anyhow::Result<Outcome<Hold>> {
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

/// What there is to say of a busy lock whose holder is of another host type than the caller: two deployments
/// share a host id, perhaps by accident. Empty otherwise, and where the sidecar does not say what it is.
pub(crate) async fn collision(
    client: &Client,
    key: &LockKey,
    record: Option<&LockRecord>,
) -> String {
    let Some(record) = record.filter(|record| !record.host_type.is_empty()) else {
        return String::new();
    };
    let own = match &key.host_type {
        Some(own) => own.clone(),
        None => client.get_server_info().await.map(|info| info.host_type).unwrap_or_default(),
    };
    if own.is_empty() || own == record.host_type {
        return String::new();
    }
    let (own, other) = (printable(&own), printable(&record.host_type));
    format!(
        "; its holder is of the host type {other}, and this caller of {own}: both share the host id {}, so give one of them \
         another if that is an accident (docs/paths.md)",
        record.host_id
    )
}

/// A sidecar has answered about an occurrence, and none was named.
pub(crate) fn not_asked() -> anyhow::Error {
    anyhow::anyhow!("the sidecar has answered about an occurrence, and none was named")
}
