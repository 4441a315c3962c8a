//! Shutdown (S15).

use super::rig::{
    Account, MINUTE, SECOND, counts, granted, next, next_but_renewals, pass, request, settle,
    waiting,
};
use crate::coordinator::{CallError, HeldEvent, HoldEvent, LossReason, Outcome, StoreFailureKind};
use crate::store::{LeaseState, Operation};

fn is_shutting_down(error: &CallError) -> bool {
    matches!(error, CallError::StoreFailure(store_failure) if store_failure.kind == StoreFailureKind::ShuttingDown)
}

#[tokio::test(start_paused = true)]
async fn s15_an_idle_sidecar_drains_at_once() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let grant = sidecar.acquire(request("nightly")).await;
    sidecar.release(&grant).await;
    settle().await;
    let began = account.now();
    sidecar.coordinator.drain(20 * SECOND).await;
    assert_eq!(account.now(), began);
    assert!(*sidecar.coordinator.draining().borrow());
}

#[tokio::test(start_paused = true)]
async fn s15_waiters_and_new_callers_are_refused_and_holders_are_told() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let (mut held, grant) = sidecar.hold(&request("held")).await;
    let unary = sidecar.acquire(request("unary")).await;
    let mut waits = sidecar.coordinator.hold(&waiting("held", MINUTE)).unwrap();
    let caller = sidecar.clone();
    let waits_too = tokio::spawn(async move { caller.ask(waiting("held", MINUTE)).await });
    settle().await;
    let draining = sidecar.coordinator.clone();
    let drain = tokio::spawn(async move { draining.drain(20 * SECOND).await });
    let HoldEvent::Held(HeldEvent::Draining { time_left }) = next(&mut held).await else {
        panic!("not told")
    };
    assert_eq!(time_left, 20 * SECOND);
    assert!(matches!(next(&mut waits).await, HoldEvent::Waiting { .. }));
    let HoldEvent::Failed(error) = next(&mut waits).await else { panic!("still waits") };
    assert!(is_shutting_down(&error), "{error}");
    assert!(is_shutting_down(&waits_too.await.unwrap().unwrap_err()));
    assert!(is_shutting_down(&sidecar.ask(request("new")).await.unwrap_err()));
    assert!(is_shutting_down(&sidecar.coordinator.hold(&request("new")).unwrap_err()));
    // Both release their locks, and the drain is over early.
    sidecar.release(&unary).await;
    drop(held);
    let began = account.now();
    drain.await.unwrap();
    assert!(account.now() - began <= SECOND);
    assert_eq!(account.lease("unary").await, LeaseState::Available);
    assert_eq!(account.lease("held").await, LeaseState::Available);
    sidecar.assert_idle();
    assert!(grant.token.value() > 0);
}

#[tokio::test(start_paused = true)]
async fn s15_holds_are_renewed_to_the_end_of_the_drain_and_then_lost() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let (mut closes, _) = sidecar.hold(&request("closes")).await;
    let (mut stays, grant) = sidecar.hold(&request("stays")).await;
    let believed = account.now() + grant.validity.valid_for;
    sidecar.counts();
    let draining = sidecar.coordinator.clone();
    let drain = tokio::spawn(async move { draining.drain(90 * SECOND).await });
    for stream in [&mut closes, &mut stays] {
        assert!(matches!(next(stream).await, HoldEvent::Held(HeldEvent::Draining { .. })));
        let event = next_but_renewals(stream).await;
        assert!(
            matches!(event, HoldEvent::Held(HeldEvent::Lost { reason: LossReason::Shutdown, .. })),
            "{event:?}"
        );
    }
    assert!(account.now() > believed, "it was renewed meanwhile");
    // Whoever answers by closing is released; the lease of the other runs out (S13).
    closes.closed_by_client();
    drain.await.unwrap();
    assert_eq!(account.lease("closes").await, LeaseState::Available);
    assert_eq!(account.lease("stays").await, LeaseState::Leased);
    let asked = sidecar.counts();
    let renewals = asked.of(Operation::Renew);
    assert!(renewals >= 8, "{asked}");
    assert_eq!(asked, counts([(Operation::Renew, renewals), (Operation::Release, 1)]));
    pass(MINUTE).await;
    assert_eq!(account.lease("stays").await, LeaseState::Expired);
    drop(stays);
}

#[tokio::test(start_paused = true)]
async fn s15_another_sidecar_takes_over_what_was_released() {
    let account = Account::new();
    let (old, new) = (account.sidecar(), account.sidecar());
    let (mut held, first) = old.hold(&request("nightly")).await;
    let mut waits = new.coordinator.hold(&waiting("nightly", MINUTE)).unwrap();
    settle().await;
    let drain = tokio::spawn(async move { old.coordinator.drain(20 * SECOND).await });
    assert!(matches!(
        next_but_renewals(&mut held).await,
        HoldEvent::Held(HeldEvent::Draining { .. })
    ));
    drop(held);
    let second = granted(&mut waits).await;
    assert!(second.token > first.token);
    drain.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn s15_an_acquire_under_way_is_refused_and_leaves_no_lease() {
    for millis in 0..40 {
        let account = Account::new();
        let sidecar = account.sidecar();
        sidecar.delay_everything();
        let caller = sidecar.clone();
        let call = tokio::spawn(async move { caller.ask(request("nightly")).await });
        pass(std::time::Duration::from_millis(millis)).await;
        sidecar.coordinator.drain(5 * SECOND).await;
        match call.await.unwrap() {
            Ok(Outcome::Granted(_)) => {}
            Ok(
                other @ (Outcome::Busy(_)
                | Outcome::Settled { .. }
                | Outcome::AlreadyDone(_)
                | Outcome::Skipped { .. }),
            ) => panic!("{other:?}"),
            Err(error) => {
                assert!(is_shutting_down(&error), "{error}");
                let known = account.store.locks().copy_record(&super::rig::path("nightly"));
                if known.is_some() {
                    assert_eq!(
                        account.lease("nightly").await,
                        LeaseState::Available,
                        "{millis} ms"
                    );
                }
            }
        }
        assert_eq!(sidecar.coordinator.gauges().waiters, 0);
    }
}
