//! How holds and attempts end: nothing stays leased that nobody has (S4, S6, S13, S14).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::rig::{
    Account, LEASE, MINUTE, SECOND, granted, next, next_but_renewals, pass, request, settle,
    waiting,
};
use crate::coordinator::{
    CallError, HeldEvent, HoldEvent, HoldRequest, LossReason, NoObserver, Outcome, Released,
};
use crate::store::{LeaseState, LeaseStoreExt as _};
use crate::testing::FaultPlan;
use crate::time::Clock as _;

/// Answers late, and loses some.
fn slow_and_lossy() -> FaultPlan {
    FaultPlan {
        lose_request: 50,
        lose_answer: 100,
        delay_request: 500,
        delay_answer: 500,
        longest_delay: Duration::from_millis(300),
        longest_silence: Duration::from_millis(300),
        ..FaultPlan::default()
    }
}

/// No lease is held, though none has expired yet.
async fn assert_nothing_leased(account: &Account, what: &str) {
    match account.store.read_record(&super::rig::path("nightly")).await {
        Ok(stored) => assert_eq!(stored.lease, LeaseState::Available, "{what}"),
        // It never came to the store.
        Err(error) => assert!(matches!(error, crate::store::StoreError::NotFound), "{error}"),
    }
}

#[tokio::test(start_paused = true)]
async fn s6_an_acquire_cancelled_at_any_moment_leaves_no_lease() {
    for millis in (0..1_500).step_by(7) {
        let account = Account::new();
        let observer = Arc::new(NoObserver);
        let sidecar = account.sidecar_with(observer, millis, |_| {});
        sidecar.faults().set_plan(slow_and_lossy());
        let unary = sidecar.ask(waiting("nightly", MINUTE));
        if let Ok(answer) = timeout(Duration::from_millis(millis), unary).await {
            let Outcome::Granted(grant) = answer.unwrap() else {
                panic!("nobody else has the lock");
            };
            sidecar.release(&grant).await;
        }
        pass(20 * SECOND).await;
        sidecar.assert_idle();
        assert_nothing_leased(&account, &format!("cancelled after {millis} ms")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn s6_a_stream_dropped_at_any_moment_leaves_no_lease() {
    for millis in (0..1_500).step_by(7) {
        let account = Account::new();
        let observer = Arc::new(NoObserver);
        let sidecar = account.sidecar_with(observer, millis, |_| {});
        sidecar.faults().set_plan(slow_and_lossy());
        let stream = sidecar.coordinator.hold(&waiting("nightly", MINUTE)).unwrap();
        pass(Duration::from_millis(millis)).await;
        drop(stream);
        pass(20 * SECOND).await;
        sidecar.assert_idle();
        assert_nothing_leased(&account, &format!("dropped after {millis} ms")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn s6_an_answer_that_nobody_read_gives_the_lock_back() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut call = Box::pin(sidecar.ask(request("nightly")));
    // The call is sent, and then not looked at again while it is answered.
    assert!(futures_util::poll!(call.as_mut()).is_pending());
    settle().await;
    assert_eq!(sidecar.coordinator.gauges().holds, 1);
    drop(call);
    settle().await;
    sidecar.assert_idle();
    assert_eq!(account.lease("nightly").await, LeaseState::Available);
}

#[tokio::test(start_paused = true)]
async fn s4_a_hold_that_cannot_be_renewed_is_lost_by_the_clock() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let (mut stream, grant) = sidecar.hold(&request("nightly")).await;
    let until = account.now() + grant.validity.valid_for;
    sidecar.faults().go_down(Duration::MAX);
    assert!(matches!(next(&mut stream).await, HoldEvent::Held(HeldEvent::AtRisk { .. })));
    assert_eq!(sidecar.coordinator.gauges().at_risk, 1);
    let HoldEvent::Held(HeldEvent::Lost { reason, .. }) = next(&mut stream).await else {
        panic!("not lost")
    };
    assert_eq!(reason, LossReason::Expired);
    assert!(
        account.now() <= until + Duration::from_millis(2),
        "late by {:?}",
        account.now() - until
    );
    assert!(stream.next().await.is_none(), "nothing comes after the last event");
    let released =
        sidecar.coordinator.release(grant.lease_id, Some(grant.generation)).await.unwrap();
    assert_eq!(released, Released::AlreadyLost { reason });
    let refused = sidecar
        .coordinator
        .extend(grant.lease_id, Some(grant.generation), MINUTE)
        .await
        .unwrap_err();
    assert!(matches!(refused, CallError::HoldLost { reason: LossReason::Expired }));
}

#[tokio::test(start_paused = true)]
async fn s3_after_a_suspend_past_the_validity_the_hold_is_lost_and_not_renewed() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let (mut stream, _) = sidecar.hold(&request("nightly")).await;
    settle().await;
    // Timers stood still, the boot clock did not.
    account.clock.advance(2 * MINUTE);
    let woken = account.now();
    sidecar.counts();
    let lost = next_but_renewals(&mut stream).await;
    assert!(
        matches!(lost, HoldEvent::Held(HeldEvent::Lost { reason: LossReason::Expired, .. })),
        "{lost:?}"
    );
    assert!(account.now() - woken <= SECOND);
    assert_eq!(sidecar.counts().of(crate::store::Operation::Renew), 0);
}

#[tokio::test(start_paused = true)]
async fn s3_who_asks_after_a_suspend_is_told_that_the_hold_is_lost() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let grant = sidecar.acquire(request("nightly")).await;
    account.clock.advance(2 * MINUTE);
    let answer = sidecar.coordinator.get_hold(grant.lease_id, Some(grant.generation)).await;
    assert!(matches!(answer, Err(CallError::HoldLost { reason: LossReason::Expired })));
}

#[tokio::test(start_paused = true)]
async fn s13_a_release_is_answered_when_the_store_has_it() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let grant = sidecar.acquire(request("nightly")).await;
    sidecar.faults().go_down(10 * SECOND);
    let asked = account.now();
    let released =
        sidecar.coordinator.release(grant.lease_id, Some(grant.generation)).await.unwrap();
    assert_eq!(released, Released::Released);
    assert!(account.now() - asked >= 10 * SECOND);
    assert_eq!(account.lease("nightly").await, LeaseState::Available);
    let again = sidecar.coordinator.release(grant.lease_id, Some(grant.generation)).await.unwrap();
    assert_eq!(again, Released::AlreadyReleased);
}

#[tokio::test(start_paused = true)]
async fn s13_a_release_that_never_reaches_the_store_is_told_as_not_confirmed_when_the_lease_is_over()
 {
    let account = Account::new();
    let sidecar = account.sidecar();
    let grant = sidecar.acquire(request("nightly")).await;
    sidecar.faults().go_down(Duration::MAX);
    let asked = account.now();
    let (one, two) = tokio::join!(
        sidecar.coordinator.release(grant.lease_id, Some(grant.generation)),
        sidecar.coordinator.release(grant.lease_id, Some(grant.generation))
    );
    assert_eq!((one.unwrap(), two.unwrap()), (Released::NotConfirmed, Released::NotConfirmed));
    let waited = account.now() - asked;
    assert!(waited >= LEASE && waited <= LEASE + 2 * SECOND, "{waited:?}");
    settle().await;
    sidecar.assert_idle();
}

#[tokio::test(start_paused = true)]
async fn s13_a_late_release_never_touches_a_later_hold() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let first = sidecar.acquire(request("nightly")).await;
    sidecar.release(&first).await;
    let second = sidecar.acquire(request("nightly")).await;
    sidecar.release(&first).await;
    settle().await;
    let left =
        sidecar.coordinator.get_hold(second.lease_id, Some(second.generation)).await.unwrap();
    assert!(left.validity.valid_for > 50 * SECOND);
    assert!(second.token > first.token);
}

#[tokio::test(start_paused = true)]
async fn s14_a_silent_holder_keeps_everybody_out_until_its_validity_is_over() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let (stream, grant) = sidecar.hold(&request("nightly")).await;
    let believed = account.now() + grant.validity.valid_for;
    pass(5 * SECOND).await;
    stream.disconnected();
    let mut next = sidecar.coordinator.hold(&waiting("nightly", 2 * MINUTE)).unwrap();
    let second = granted(&mut next).await;
    assert!(account.now() >= believed);
    assert!(account.now() <= believed + SECOND, "and no longer");
    assert!(second.token > grant.token);
}

#[tokio::test(start_paused = true)]
async fn s14_a_holder_that_does_not_read_is_taken_for_silent() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let lease_duration = Some(15 * SECOND);
    let (mut stream, grant) =
        sidecar.hold(&HoldRequest { lease_duration, ..request("nightly") }).await;
    // Renewals may be missed: a newer one comes.
    pass(10 * MINUTE).await;
    assert_eq!(sidecar.coordinator.gauges().holds, 1);
    let mut last = None;
    while let Ok(Some(event)) = timeout(Duration::from_millis(1), stream.next()).await {
        assert!(matches!(event, HoldEvent::Held(HeldEvent::Renewed(_))), "{event:?}");
        last = Some(event);
    }
    assert!(last.is_some());
    sidecar.release(&grant).await;
    assert!(matches!(next(&mut stream).await, HoldEvent::Released(Released::Released)));
}

#[tokio::test(start_paused = true)]
async fn s11_a_rest_outlives_its_sidecar_and_is_kept_by_all() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let min_hold = 30 * SECOND;
    let began = account.clock.now();
    let grant = here.acquire(HoldRequest { min_hold, ..request("nightly") }).await;
    let released = here.coordinator.release(grant.lease_id, Some(grant.generation)).await.unwrap();
    assert!(matches!(released, Released::Resting { .. }), "{released:?}");
    here.coordinator.drain(SECOND).await;
    let busy = there.busy(request("nightly")).await;
    assert_eq!(busy.record.state, crate::coordinator::LockState::Resting);
    let mut stream = there.coordinator.hold(&waiting("nightly", 2 * MINUTE)).unwrap();
    granted(&mut stream).await;
    let waited = account.clock.now() - began;
    assert!(waited >= min_hold && waited <= min_hold + 6 * SECOND, "{waited:?}");
}
