//! A shutdown after which a replacement follows (S15, S16).

use super::rig::{
    Account, MINUTE, SECOND, Sidecar, counts, granted, next, next_but_renewals, pass, request,
    settle, waiting,
};
use crate::coordinator::{
    CallError, Grant, HeldEvent, HoldEvent, HoldStream, LossReason, ResumeRequest, StoreFailureKind,
};
use crate::store::{LeaseState, Operation};
use crate::time::Clock as _;

const TOGETHER: std::time::Duration = std::time::Duration::from_secs(20);

fn is_to_come_again(error: &CallError) -> bool {
    matches!(error, CallError::StoreFailure(failure) if failure.kind == StoreFailureKind::ShuttingDown)
}

/// How the stream ended; the end of the validity that was told last.
async fn interrupted(stream: &mut HoldStream, grant: &Grant) -> std::time::Duration {
    let mut until = grant.validity.valid_until.since_boot;
    loop {
        match next(stream).await {
            HoldEvent::Held(HeldEvent::Renewed(validity)) => {
                until = validity.valid_until.since_boot
            }
            HoldEvent::Failed(error) => {
                assert!(is_to_come_again(&error), "{error}");
                return until;
            }
            other => panic!("{other:?}"),
        }
    }
}

async fn resume(account: &Account, sidecar: &Sidecar, grant: &Grant) -> Result<Grant, LossReason> {
    let told = account.clock.boot_reading(account.now() + 20 * SECOND);
    let request = ResumeRequest {
        resume_token: grant.resume_token.clone(),
        attempt_id: "one".to_owned(),
        told_valid_until: Some(told),
        trace_context: None,
    };
    let mut stream = sidecar.coordinator.resume(&request).unwrap();
    match next(&mut stream).await {
        HoldEvent::Granted(again) => {
            stream.disconnected();
            Ok(*again)
        }
        HoldEvent::Held(HeldEvent::Lost { reason, .. }) => Err(reason),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn s15_s16_a_hold_goes_on_at_the_replacement_with_its_token() {
    let account = Account::new();
    let old = account.sidecar();
    let (mut held, grant) = old.hold(&request("held")).await;
    let mut waits = old.coordinator.hold(&waiting("held", MINUTE)).unwrap();
    pass(7 * SECOND).await;
    old.counts();
    let began = account.now();
    old.coordinator.hand_over(TOGETHER).await;
    assert!(account.now() - began < 2 * SECOND, "it ends soon after the renewals were answered");
    let until = interrupted(&mut held, &grant).await;
    assert_eq!(until, (crate::hold::valid_until(began, MINUTE)).since_boot(), "renewed once more");
    assert!(matches!(next(&mut waits).await, HoldEvent::Waiting { .. }));
    let HoldEvent::Failed(error) = next(&mut waits).await else { panic!("still waits") };
    assert!(is_to_come_again(&error), "{error}");
    assert_eq!(old.counts(), counts([(Operation::Renew, 1)]), "nothing is released");
    old.assert_idle();
    // What comes in before the process has ended.
    assert!(is_to_come_again(&old.ask(request("new")).await.unwrap_err()));
    let late = old.coordinator.release(grant.lease_id, Some(grant.generation)).await;
    assert!(is_to_come_again(&late.unwrap_err()));
    let late = old.coordinator.get_hold(grant.lease_id, Some(1)).await;
    assert!(is_to_come_again(&late.unwrap_err()));
    let late = old.coordinator.extend(grant.lease_id, Some(1), MINUTE).await;
    assert!(is_to_come_again(&late.unwrap_err()));
    drop(held);
    settle().await;
    assert_eq!(account.lease("held").await, LeaseState::Leased);

    pass(30 * SECOND).await;
    let new = account.sidecar();
    let again = resume(&account, &new, &grant).await.unwrap();
    assert_eq!((again.token, again.generation), (grant.token, 2));
    assert_eq!(again.lease_id, grant.lease_id);
}

#[tokio::test(start_paused = true)]
async fn s15_s21_a_client_elsewhere_asks_after_the_last_renewal_and_is_answered() {
    let account = Account::new();
    let old = account.sidecar();
    let (mut held, grant) = old.hold(&request("held")).await;
    pass(7 * SECOND).await;
    let ending = old.coordinator.clone();
    let began = account.now();
    let handing_over = tokio::spawn(async move { ending.hand_over(TOGETHER).await });
    let HoldEvent::Held(HeldEvent::Renewed(told)) = next(&mut held).await else {
        panic!("it is not renewed")
    };
    pass(SECOND / 2).await;
    let answer = old.coordinator.get_hold(grant.lease_id, Some(1)).await.unwrap().validity;
    assert_eq!(answer.valid_until, told.valid_until);
    assert!(answer.valid_until.since_boot > began.since_boot() + 58 * SECOND);
    handing_over.await.unwrap();
    assert!(matches!(next(&mut held).await, HoldEvent::Failed(error) if is_to_come_again(&error)));
}

#[tokio::test(start_paused = true)]
async fn s15_s13_what_nobody_resumes_runs_out_and_is_anybodys_then() {
    let account = Account::new();
    let (old, other) = (account.sidecar(), account.sidecar());
    let (mut held, grant) = old.hold(&request("held")).await;
    let mut waits = other.coordinator.hold(&waiting("held", 5 * MINUTE)).unwrap();
    pass(SECOND).await;
    old.coordinator.hand_over(TOGETHER).await;
    let until = interrupted(&mut held, &grant).await;
    held.disconnected();
    let next = granted(&mut waits).await;
    assert!(next.token > grant.token);
    assert!(account.now().since_boot() > until, "not while its holder may believe");
    let too_late = resume(&account, &account.sidecar(), &grant).await;
    assert_eq!(too_late.unwrap_err(), LossReason::Taken);
}

#[tokio::test(start_paused = true)]
async fn s14_s15_a_unary_hold_is_renewed_once_more_and_runs_out() {
    let account = Account::new();
    let (old, new) = (account.sidecar(), account.sidecar());
    let unary = old.acquire(request("unary")).await;
    pass(3 * SECOND).await;
    old.coordinator.hand_over(TOGETHER).await;
    old.assert_idle();
    assert!(unary.resume_token.is_empty());
    // Another sidecar knows nothing of its lease id, so its holder can neither release nor resume it there.
    let there = new.coordinator.release(unary.lease_id, Some(unary.generation)).await;
    assert!(matches!(there, Err(CallError::UnknownLease)));
    pass(58 * SECOND).await;
    assert_eq!(account.lease("unary").await, LeaseState::Leased);
    pass(3 * SECOND).await;
    assert_eq!(account.lease("unary").await, LeaseState::Expired);
}

#[tokio::test(start_paused = true)]
async fn s15_a_store_that_does_not_answer_holds_nobody_up() {
    let account = Account::new();
    let old = account.sidecar();
    let (mut held, grant) = old.hold(&request("held")).await;
    let (_other, released) = old.hold(&request("released")).await;
    pass(3 * SECOND).await;
    old.faults().go_down(10 * MINUTE);
    let releasing = old.coordinator.clone();
    let release = tokio::spawn(async move {
        releasing.release(released.lease_id, Some(released.generation)).await
    });
    settle().await;
    let began = account.now();
    old.coordinator.hand_over(TOGETHER).await;
    assert!(account.now() - began <= TOGETHER + SECOND);
    interrupted(&mut held, &grant).await;
    assert!(is_to_come_again(&release.await.unwrap().unwrap_err()), "not told as released (S13)");
    // The replacement reaches the store.
    let again = resume(&account, &account.sidecar(), &grant).await.unwrap();
    assert_eq!(again.token, grant.token);
}

#[tokio::test(start_paused = true)]
async fn s15_a_release_under_way_is_answered_and_an_idle_sidecar_ends_at_once() {
    let account = Account::new();
    let old = account.sidecar();
    let (mut held, grant) = old.hold(&request("held")).await;
    let ending = old.coordinator.clone();
    let (released, ()) = tokio::join!(
        old.coordinator.release(grant.lease_id, Some(grant.generation)),
        ending.hand_over(TOGETHER)
    );
    assert_eq!(released.unwrap(), crate::coordinator::Released::Released);
    assert!(matches!(next_but_renewals(&mut held).await, HoldEvent::Released(_)));
    assert_eq!(account.lease("held").await, LeaseState::Available);
    let began = account.now();
    account.sidecar().coordinator.hand_over(TOGETHER).await;
    assert_eq!(account.now(), began);
}

#[tokio::test(start_paused = true)]
async fn s15_an_acquire_under_way_is_refused_and_leaves_no_lease() {
    for millis in 0..40 {
        let account = Account::new();
        let sidecar = account.sidecar();
        sidecar.delay_everything();
        let mut stream = sidecar.coordinator.hold(&request("nightly")).unwrap();
        pass(std::time::Duration::from_millis(millis)).await;
        sidecar.coordinator.hand_over(5 * SECOND).await;
        let known = account.store.locks().copy_record(&super::rig::path("nightly")).is_some();
        match next(&mut stream).await {
            HoldEvent::Granted(grant) => {
                interrupted(&mut stream, &grant).await;
                let again = resume(&account, &account.sidecar(), &grant).await.unwrap();
                assert_eq!(again.token, grant.token, "{millis} ms");
            }
            HoldEvent::Failed(error) => {
                assert!(is_to_come_again(&error), "{error}");
                let is_free = !known || account.lease("nightly").await == LeaseState::Available;
                assert!(is_free, "{millis} ms");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(sidecar.coordinator.gauges().waiters, 0);
    }
}
