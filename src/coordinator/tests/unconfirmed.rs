//! Releases that the store does not confirm: they are told once the lease can no longer be valid, whenever
//! the last renewal was really sent (S13).

use std::time::Duration;

use super::rig::{Account, MINUTE, SECOND, Sidecar, pass, path, request, settle};
use crate::coordinator::{Grant, HoldRequest, NoObserver};
use crate::store::{LeaseStoreExt as _, Operation};
use crate::testing::FaultPlan;

/// Nothing that is asked is answered, and no request arrives if `lost`.
fn silent(sidecar: &Sidecar, lost: bool) {
    let (lose_request, lose_answer) = if lost { (1_000, 0) } else { (0, 1_000) };
    let longest_silence = 60 * MINUTE;
    sidecar.faults().set_plan(FaultPlan {
        lose_request,
        lose_answer,
        longest_silence,
        ..FaultPlan::default()
    });
}

/// Releases, and looks at the lease as soon as that is told.
async fn release(account: Account, sidecar: Sidecar, name: String, grant: Grant) -> bool {
    let released = sidecar.coordinator.release(grant.lease_id, Some(grant.generation)).await;
    assert!(released.is_ok(), "{released:?}");
    account.store.read_record(&path(&name)).await.unwrap().lease.is_held()
}

#[tokio::test(start_paused = true)]
async fn s13_a_renewal_that_was_sent_just_before_it_was_given_up_counts_until_its_lease_is_over() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let grant = sidecar.acquire(request("nightly")).await;
    sidecar.counts();
    let sent = sidecar.faults().hold_before(Operation::Renew);
    while sidecar.counts().of(Operation::Renew) == 0 {
        pass(SECOND / 100).await;
    }
    silent(&sidecar, true);
    let (account, other) = (account.clone(), sidecar.clone());
    let releasing = tokio::spawn(release(account.clone(), other, "nightly".to_owned(), grant));
    pass(SECOND * 47 / 10).await;
    // It is sent only now, and is done; nobody hears of it.
    silent(&sidecar, false);
    sent.notify_one();
    settle().await;
    silent(&sidecar, true);
    assert!(!releasing.await.unwrap(), "released is told while the lease goes on");
}

/// Renewals wait in the budget's queue for their turn.
#[tokio::test(start_paused = true)]
async fn s13_renewals_that_waited_in_the_budgets_queue_count_from_when_they_were_sent() {
    const HOLDS: usize = 60;
    let lease = 15 * SECOND;
    let account = Account::new();
    let sidecar = account.sidecar_with(std::sync::Arc::new(NoObserver), 1, |_| {});
    let mut grants = Vec::new();
    for number in 0..HOLDS {
        let name = format!("job-{number}");
        let lease_duration = Some(lease);
        let grant = sidecar.acquire(HoldRequest { lease_duration, ..request(&name) }).await;
        grants.push((name, grant));
    }
    sidecar.counts();
    sidecar.faults().accept_at_most(Some(20));
    silent(&sidecar, false);
    while sidecar.counts().of(Operation::Renew) == 0 {
        pass(SECOND / 100).await;
    }
    let mut waited = 0;
    for _ in 0..25 {
        pass(SECOND / 10).await;
        waited = waited.max(sidecar.coordinator.pace().waiting);
    }
    assert!(waited > 10, "{waited} had to wait");
    sidecar.faults().go_down(Duration::MAX);
    let releasing: Vec<_> = grants
        .into_iter()
        .map(|(name, grant)| release(account.clone(), sidecar.clone(), name, grant))
        .map(tokio::spawn)
        .collect();
    let mut too_soon = 0;
    for one in releasing {
        too_soon += usize::from(one.await.unwrap());
    }
    assert_eq!(too_soon, 0, "told while the lease goes on");
}
