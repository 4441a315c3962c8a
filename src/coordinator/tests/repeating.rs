//! Repeated unary calls (`request_id`).

use std::time::Duration;

use futures_util::poll;

use super::rig::{Account, LEASE, MINUTE, SECOND, pass, request, settle, waiting};
use crate::coordinator::{CallError, HoldRequest, Outcome};
use crate::store::LeaseState;

fn repeated(wait: Duration) -> HoldRequest {
    HoldRequest { request_id: "run-42".to_owned(), ..waiting("nightly", wait) }
}

#[tokio::test(start_paused = true)]
async fn a_repeated_call_gets_the_same_grant_with_the_validity_of_now() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let first = sidecar.acquire(repeated(Duration::ZERO)).await;
    pass(30 * SECOND).await;
    let second = sidecar.acquire(repeated(Duration::ZERO)).await;
    assert_eq!((second.lease_id, second.token), (first.lease_id, first.token));
    assert_eq!(second.acquired_at, first.acquired_at);
    assert!(second.validity.valid_until.since_boot > first.validity.valid_until.since_boot);
    let wall = crate::time::Clock::wall(account.clock.as_ref());
    assert_eq!(second.expires_at, wall + second.validity.valid_for);
    assert_eq!(sidecar.coordinator.gauges().holds, 1);
    sidecar.release(&second).await;
    settle().await;
    sidecar.assert_idle();
    // It was for that hold only.
    let third = sidecar.acquire(repeated(Duration::ZERO)).await;
    assert!(third.token > first.token);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_call_takes_the_place_of_the_one_that_waits() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let holder = sidecar.acquire(request("nightly")).await;
    let caller = sidecar.clone();
    let first = tokio::spawn(async move { caller.ask(repeated(MINUTE)).await });
    settle().await;
    let caller = sidecar.clone();
    let second = tokio::spawn(async move { caller.ask(repeated(MINUTE)).await });
    assert!(matches!(first.await.unwrap(), Err(CallError::Superseded)));
    assert_eq!(sidecar.coordinator.gauges().waiters, 1);
    sidecar.release(&holder).await;
    assert!(matches!(second.await.unwrap(), Ok(Outcome::Granted(_))));
    assert_eq!(sidecar.coordinator.gauges().waiters, 0);
}

#[tokio::test(start_paused = true)]
async fn s6_a_shared_grant_lives_while_one_call_has_it_or_may_get_it() {
    let account = Account::new();
    let sidecar = account.sidecar();
    // Neither looks at its answer.
    let mut first = Box::pin(sidecar.ask(repeated(MINUTE)));
    assert!(poll!(first.as_mut()).is_pending());
    settle().await;
    let mut second = Box::pin(sidecar.ask(repeated(MINUTE)));
    assert!(poll!(second.as_mut()).is_pending());
    settle().await;
    drop(first);
    settle().await;
    assert_eq!(sidecar.coordinator.gauges().holds, 1, "the second may have it");
    drop(second);
    settle().await;
    sidecar.assert_idle();
    assert_eq!(account.lease("nightly").await, LeaseState::Available);
}

#[tokio::test(start_paused = true)]
async fn s6_a_repeated_call_that_goes_away_does_not_end_the_hold_of_who_has_the_grant() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let grant = sidecar.acquire(repeated(MINUTE)).await;
    let mut second = Box::pin(sidecar.ask(repeated(MINUTE)));
    assert!(poll!(second.as_mut()).is_pending());
    settle().await;
    drop(second);
    pass(2 * LEASE).await;
    let left = sidecar.coordinator.get_hold(grant.lease_id, Some(grant.generation)).await.unwrap();
    assert!(left.validity.valid_for > SECOND);
    assert_eq!(account.lease("nightly").await, LeaseState::Leased);
}

#[tokio::test(start_paused = true)]
async fn s14_a_unary_hold_without_max_hold_gets_the_default() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let grant = sidecar.acquire(request("nightly")).await;
    pass(10 * MINUTE - SECOND).await;
    sidecar.coordinator.get_hold(grant.lease_id, Some(grant.generation)).await.unwrap();
    pass(SECOND).await;
    let over =
        sidecar.coordinator.get_hold(grant.lease_id, Some(grant.generation)).await.unwrap_err();
    assert!(matches!(over, CallError::HoldLost { .. }), "{over}");
    // S13: a clock elsewhere may be slow.
    pass(SECOND).await;
    sidecar.assert_idle();
}
