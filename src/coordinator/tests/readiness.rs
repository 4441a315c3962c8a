//! A store that cannot be reached (S18).

use std::time::Duration;

use super::breaking::breaking_late;
use super::rig::{
    Account, LEASE, MINUTE, SECOND, counts, granted, next, pass, request, settle, waiting,
};
use crate::coordinator::{
    BreakPeriod, CallError, HeldEvent, HoldEvent, StoreFailureKind, StoreStatus,
};
use crate::store::Operation;
use crate::testing::FaultPlan;

#[tokio::test(start_paused = true)]
async fn s18_calls_fail_with_the_cause_while_the_store_is_down_and_work_again_after() {
    let sidecar = Account::new().sidecar();
    let status = sidecar.coordinator.store_status();
    assert_eq!(*status.borrow(), StoreStatus::Unknown);
    sidecar.faults().go_down(Duration::MAX);
    let CallError::StoreFailure(store_failure) = sidecar.ask(request("nightly")).await.unwrap_err()
    else {
        panic!("no trouble")
    };
    assert_eq!(store_failure.kind, StoreFailureKind::Unavailable);
    assert!(store_failure.message.contains("connection refused"), "{}", store_failure.message);
    let StoreStatus::NotReady { cause, .. } = status.borrow().clone() else { panic!("ready") };
    assert!(cause.contains("connection refused"), "{cause}");
    sidecar.faults().go_down(Duration::ZERO);
    sidecar.acquire(waiting("nightly", MINUTE)).await;
    assert_eq!(*status.borrow(), StoreStatus::Ready);
}

#[tokio::test(start_paused = true)]
async fn s18_who_waits_is_served_when_the_store_is_back() {
    let account = Account::new();
    let sidecar = account.sidecar();
    sidecar.faults().go_down(20 * SECOND);
    let began = account.now();
    sidecar.acquire(waiting("nightly", MINUTE)).await;
    let waited = account.now() - began;
    assert!(waited >= 20 * SECOND && waited <= 27 * SECOND, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn s9_a_hold_lives_through_an_outage_that_is_shorter_than_its_validity() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let (mut stream, _) = sidecar.hold(&request("nightly")).await;
    assert!(matches!(next(&mut stream).await, HoldEvent::Held(HeldEvent::Renewed(_))));
    sidecar.faults().go_down(LEASE * 4 / 5);
    let HoldEvent::Held(HeldEvent::AtRisk { kind, detail, validity }) = next(&mut stream).await
    else {
        panic!("not warned")
    };
    assert_eq!(kind, StoreFailureKind::Unavailable);
    assert!(detail.contains("connection refused"), "{detail}");
    assert!(validity.valid_for < LEASE / 3);
    assert_eq!(sidecar.coordinator.gauges().at_risk, 1);
    assert!(matches!(next(&mut stream).await, HoldEvent::Held(HeldEvent::Recovered(_))));
    assert_eq!(sidecar.coordinator.gauges().at_risk, 0);
}

#[tokio::test(start_paused = true)]
async fn s18_a_missing_container_is_no_missing_lock() {
    let account = Account::new();
    account.store.locks().require_containers();
    let sidecar = account.sidecar();
    let CallError::StoreFailure(store_failure) =
        sidecar.ask(waiting("nightly", MINUTE)).await.unwrap_err()
    else {
        panic!("no trouble")
    };
    assert_eq!(store_failure.kind, StoreFailureKind::ContainerMissing);
    assert!(store_failure.message.contains("leasehold"), "{}", store_failure.message);
    let container = crate::lock::Container::parse("leasehold").unwrap();
    account.store.locks().create_container(&container);
    sidecar.acquire(request("nightly")).await;
}

#[tokio::test(start_paused = true)]
async fn s18_an_idle_store_is_checked_every_half_minute_while_it_is_well() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let keeper = sidecar.clone();
    let checking = tokio::spawn(async move { keeper.coordinator.keep_checking().await });
    settle().await;
    assert_eq!(*sidecar.coordinator.store_status().borrow(), StoreStatus::Ready);
    sidecar.counts();
    pass(10 * MINUTE).await;
    let asked = sidecar.counts();
    let checks = asked.of(Operation::Check);
    assert_eq!(asked, counts([(Operation::Check, checks)]));
    assert!((17..=21).contains(&checks), "{checks}");
    // Real requests are as good.
    let (mut stream, _) = sidecar.hold(&request("nightly")).await;
    let reading = tokio::spawn(async move { while stream.next().await.is_some() {} });
    pass(10 * MINUTE).await;
    assert!(sidecar.counts().of(Operation::Check) <= 1);
    reading.abort();
    settle().await;
    // An outage is noticed though nobody asks anything, and so is its end.
    sidecar.faults().go_down(Duration::MAX);
    pass(41 * SECOND).await;
    let status = sidecar.coordinator.store_status();
    assert!(matches!(*status.borrow(), StoreStatus::NotReady { .. }));
    sidecar.faults().go_down(Duration::ZERO);
    pass(6 * SECOND).await;
    assert_eq!(*status.borrow(), StoreStatus::Ready);
    checking.abort();
}

/// Breaking takes a right that nothing else takes: the documented role may lack it.
#[tokio::test(start_paused = true)]
async fn s18_a_break_that_is_refused_leaves_the_sidecar_ready() {
    let sidecar = Account::new().sidecar();
    let _stream = sidecar.hold(&request("nightly")).await;
    let (under_way, answer) = breaking_late(&sidecar, None, BreakPeriod::RunOut);
    settle().await;
    let refuses = FaultPlan { deny: 1_000, ..FaultPlan::default() };
    sidecar.faults().set_plan(refuses.clone());
    under_way.notify_waiters();
    answer.await.unwrap().unwrap_err();
    let status = sidecar.coordinator.store_status();
    assert_eq!(*status.borrow(), StoreStatus::Ready);
    // Whether it is refused everything is asked then.
    let checking = sidecar.clone();
    let checking = tokio::spawn(async move { checking.coordinator.keep_checking().await });
    settle().await;
    assert!(matches!(*status.borrow(), StoreStatus::NotReady { .. }));
    checking.abort();
}

#[tokio::test(start_paused = true)]
async fn s18_a_store_that_never_answers_does_not_hang_a_call() {
    let account = Account::new();
    let sidecar = account.sidecar();
    sidecar.faults().set_plan(FaultPlan {
        lose_request: 1_000,
        longest_silence: 1_000 * MINUTE,
        ..FaultPlan::default()
    });
    let began = account.now();
    let refused = sidecar.ask(request("nightly")).await.unwrap_err();
    assert!(matches!(refused, CallError::StoreFailure(_)), "{refused}");
    assert!(account.now() - began <= 10 * SECOND);
    let began = account.now();
    let refused = sidecar.coordinator.get(&super::rig::by_key("nightly")).await.unwrap_err();
    assert!(matches!(refused, CallError::StoreFailure(_)), "{refused}");
    assert!(account.now() - began <= 2 * SECOND, "it is known by now");
    sidecar.faults().set_plan(FaultPlan::default());
    let mut stream = sidecar.coordinator.hold(&waiting("nightly", MINUTE)).unwrap();
    granted(&mut stream).await;
}
