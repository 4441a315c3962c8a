//! A fault inside one lock's task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::rig::{
    Account, LEASE, MINUTE, granted, next, next_but_renewals, pass, request, settle, waiting,
};
use crate::coordinator::{
    CallError, HoldEvent, LossReason, Observation, Observer, Released, StoreFailureKind,
};

/// Panics once at a renewal, when it was told to.
#[derive(Debug, Default)]
struct Faulty(AtomicBool);

impl Observer for Faulty {
    fn observe(&self, observation: &Observation) {
        let renewal = matches!(observation, Observation::Renewal { .. });
        assert!(!(renewal && self.0.swap(false, Ordering::Relaxed)), "a fault for the test");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_task_of_one_lock_harms_no_other() {
    let account = Account::new();
    let faulty = Arc::new(Faulty::default());
    let sidecar = account.sidecar_with(Arc::clone(&faulty) as _, 1, |_| {});
    let (mut failing, first) = sidecar.hold(&request("failing")).await;
    let believed = account.now() + first.validity.valid_for;
    let mut waits = sidecar.coordinator.hold(&waiting("failing", 10 * MINUTE)).unwrap();
    assert!(matches!(next(&mut waits).await, HoldEvent::Waiting { .. }));
    pass(LEASE / 6).await;
    let (mut sound, _) = sidecar.hold(&request("sound")).await;
    faulty.0.store(true, Ordering::Relaxed);
    let HoldEvent::Lost { reason, detail, .. } = next(&mut failing).await else {
        panic!("the holder is not told")
    };
    assert_eq!(reason, LossReason::Expired);
    assert!(detail.contains("failed inside"), "{detail}");
    let HoldEvent::Failed(CallError::StoreFailure(store_failure)) = next(&mut waits).await else {
        panic!("the waiter is not told")
    };
    assert_eq!(store_failure.kind, StoreFailureKind::Unavailable);
    assert!(!faulty.0.load(Ordering::Relaxed), "the fault has come");
    let gauges = sidecar.coordinator.gauges();
    assert_eq!((gauges.holds, gauges.waiters, gauges.paths), (1, 0, 1));
    let late = sidecar.coordinator.release(first.lease_id, Some(first.generation)).await.unwrap();
    assert_eq!(late, Released::AlreadyLost { reason });
    // S13, S5: it is granted again when nobody can believe in it any more, with a greater token.
    let mut again = sidecar.coordinator.hold(&waiting("failing", 2 * MINUTE)).unwrap();
    let second = granted(&mut again).await;
    assert!(account.now() >= believed);
    assert!(second.token > first.token);
    for stream in [&mut sound, &mut again] {
        assert!(matches!(next(stream).await, HoldEvent::Renewed(_)));
    }
    drop((sound, again, failing, waits));
    settle().await;
    sidecar.assert_idle();
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_on_their_way_to_a_task_that_panics_are_answered() {
    let account = Account::new();
    let faulty = Arc::new(Faulty::default());
    let sidecar = account.sidecar_with(Arc::clone(&faulty) as _, 1, |_| {});
    let (mut failing, grant) = sidecar.hold(&request("failing")).await;
    // The release waits for the store while the fault comes.
    sidecar.faults().go_down(std::time::Duration::MAX);
    faulty.0.store(true, Ordering::Relaxed);
    let caller = sidecar.clone();
    let lost = next_but_renewals(&mut failing).await;
    assert!(matches!(lost, HoldEvent::Lost { .. }), "{lost:?}");
    let released =
        caller.coordinator.release(grant.lease_id, Some(grant.generation)).await.unwrap();
    assert_eq!(released, Released::AlreadyLost { reason: LossReason::Expired });
    let refused = sidecar
        .coordinator
        .extend(grant.lease_id, Some(grant.generation), MINUTE)
        .await
        .unwrap_err();
    assert!(matches!(refused, CallError::HoldLost { .. }), "{refused}");
    settle().await;
    sidecar.assert_idle();
}
