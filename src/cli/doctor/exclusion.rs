//! Whether a lock that the sidecar grants is refused to others by the store itself.

use std::time::Duration;

use leasehold_client::{Client, LeaseSpec, LockKey, Outcome};

use super::report::{Finding, Report};
use super::store::{exit_of, limited, of_error};
use crate::cli::acquire_retry::not_asked;
use crate::cli::connection::EndpointArgs;
use crate::cli::exit::{self, Exit};
use crate::cli::record;
use crate::cli::retry::{Patience, Wait};
use crate::lock::{LeaseId, LockPath};
use crate::store::{
    Acquire, Acquired, LeaseStore, LeaseStoreExt as _, MIN_LEASE_DURATION, StoreError,
};

const CHECK: &str = "exclusion";
/// The sidecar's hold ends by itself after this, should this process be killed before it releases it.
const MAX_HOLD: Duration = Duration::from_secs(60);
const TWO_STORES: &str =
    "the sidecar and this command use different stores: give both the same store and container";

/// Takes a lock through the sidecar, and tries to take the same lock in `store`, before its release and
/// after. Tries again while the sidecar is away, for as long as `wait` says: its replacement may be on its
/// way.
pub(super) async fn examine(
    sidecar: &EndpointArgs,
    wait: Wait,
    store: &dyn LeaseStore,
    report: &mut Report,
) {
    let mut patience = Patience::new(wait);
    loop {
        match tried(sidecar, store, &mut patience).await {
            Ok(Some(found)) => return report.append(found),
            Ok(None) => {}
            Err(Failed { finding, exit }) => return report.fail(finding, exit),
        }
    }
}

/// What ended the check.
struct Failed {
    finding: Finding,
    exit: Exit,
}

/// One try: what was found. `None`: the sidecar was away, and another try may find it.
async fn tried(
    sidecar: &EndpointArgs,
    store: &dyn LeaseStore,
    patience: &mut Patience,
) -> Result<Option<Report>, Failed> {
    let (sidecar, lease_id, path) = match held(sidecar).await {
        Ok(held) => held,
        Err(error) => {
            return again(patience, error).await.map_err(|error| {
                let detail = format!("no lock was acquired through the sidecar: {error:#}");
                let advice =
                    "say where the sidecar is with --endpoint; its log says what is wrong with it";
                let exit = exit::of_error(&error);
                Failed { finding: Finding::bad(CHECK, detail, advice), exit }
            });
        }
    };
    let mut found = Report::default();
    let refused = refuses(store, &path, &mut found).await;
    if let Err(error) = sidecar.release(lease_id).await {
        // Of a sidecar that ends between the two calls, the hold ends too, by MAX_HOLD at the latest.
        return again(patience, error.into()).await.map_err(|error| {
            let finding = Finding::bad(CHECK, format!("{error:#}"), ASK_AGAIN);
            Failed { finding, exit: Exit::Unavailable }
        });
    }
    if refused {
        grants(store, &path, &mut found).await;
    }
    Ok(Some(found))
}

/// Waits for another try, where one may help.
async fn again<T>(patience: &mut Patience, error: anyhow::Error) -> anyhow::Result<Option<T>> {
    patience.after(error).await.map(|()| None)
}

const ASK_AGAIN: &str = "the sidecar's log says why; run doctor again";

/// A lock of this command's own, held by the sidecar: the sidecar, the lease and the lock's path.
async fn held(sidecar: &EndpointArgs) -> anyhow::Result<(Client, String, LockPath)> {
    let sidecar = sidecar.builder()?.connect().await?;
    let scope = uuid::Uuid::new_v4().to_string();
    let spec = LeaseSpec::new(LockKey::new("leasehold.doctor", scope)).with_max_hold(MAX_HOLD);
    match sidecar.acquire(spec).await? {
        Outcome::Granted(grant) => {
            let path = grant.lock_path.parse()?;
            Ok((sidecar, grant.lease_id, path))
        }
        Outcome::Busy(busy) => {
            anyhow::bail!(
                "{}, although only this doctor knows its name; run doctor again, and report a bug if it happens again",
                record::busy_text(&busy)
            )
        }
        Outcome::AlreadyDone(_) | Outcome::Skipped { .. } => Err(not_asked()),
    }
}

/// Whether the store refuses the lock, which the sidecar holds.
async fn refuses(store: &dyn LeaseStore, path: &LockPath, report: &mut Report) -> bool {
    let lease_id = LeaseId::from_uuid(uuid::Uuid::new_v4());
    match acquire(store, path, lease_id).await {
        Err(StoreError::Contended) => {
            let detail = "the store refuses a lock that the sidecar holds";
            report.add(Finding::good(CHECK, detail));
            true
        }
        Ok(acquired) => {
            let detail = format!("the store granted {path} while the sidecar held it");
            report.fail(Finding::bad(CHECK, detail, TWO_STORES), Exit::Misconfigured);
            clean_up(store, path, lease_id, acquired).await;
            false
        }
        Err(error) => {
            report.fail(of_error(CHECK, &error), exit_of(&error));
            false
        }
    }
}

/// Sees that the lock, which the sidecar released, is available.
async fn grants(store: &dyn LeaseStore, path: &LockPath, report: &mut Report) {
    let check = "release through the sidecar";
    let lease_id = LeaseId::from_uuid(uuid::Uuid::new_v4());
    match acquire(store, path, lease_id).await {
        Ok(acquired) => {
            report.add(Finding::good(check, "the store then grants the lock"));
            clean_up(store, path, lease_id, acquired).await;
        }
        Err(error) => report.fail(of_error(check, &error), exit_of(&error)),
    }
}

async fn acquire(
    store: &dyn LeaseStore,
    path: &LockPath,
    lease_id: LeaseId,
) -> Result<Acquired, StoreError> {
    let request = Acquire { lease_id, duration: MIN_LEASE_DURATION, if_match: None };
    limited(store.acquire(path, request)).await
}

/// Leaves nothing behind. What is not allowed here was told by the trial in `store.rs`.
async fn clean_up(store: &dyn LeaseStore, path: &LockPath, lease_id: LeaseId, acquired: Acquired) {
    let _released = limited(store.release(path, lease_id, None)).await;
    let _deleted = limited(store.delete(path, acquired.etag)).await;
}
