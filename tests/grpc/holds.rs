//! Unary holds: acquire, release, extend, report.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_client::proto::{
    BusyReason, ExtendLeaseRequest, GetHoldRequest, LockState, LossReason, ReleaseLeaseRequest,
    ReleaseOutcome, ReportProgressRequest,
};
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::grpc::rig::{Account, LIMITS, reason, seconds, spec};

#[tokio::test(start_paused = true)]
async fn a_grant_tells_everything_that_a_holder_needs() {
    let account = Account::new();
    let grant = account.sidecar().acquire(spec("nightly")).await;
    let path = format!("leasehold/locks/{}/nightly/~/FUNCTION", crate::grpc::rig::HOST_ID);
    assert_eq!(grant.lock_path, path);
    assert_eq!(grant.host_id, crate::grpc::rig::HOST_ID);
    assert!(grant.fencing_token > 0);
    assert_eq!(grant.resume_token, "", "only streams can be resumed");
    assert_eq!(grant.lease_id.len(), 36);
    let validity = grant.validity.unwrap();
    let until = validity.valid_until.unwrap();
    assert_eq!(until.boot_id, "sim-boot");
    let valid_for = Duration::try_from(validity.valid_for.unwrap()).unwrap();
    assert_eq!(valid_for, Duration::from_millis(58_300), "S2: D less 2 % and 500 ms");
    let since_boot = Duration::try_from(until.since_boot.unwrap()).unwrap();
    assert_eq!(since_boot, Duration::from_millis(1_058_300));
    let span = grant.expires_at.unwrap().seconds - grant.acquired_at.unwrap().seconds;
    assert_eq!(span, 58);
}

#[tokio::test(start_paused = true)]
async fn s1_a_busy_answer_names_the_holder() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let mut first = spec("nightly");
    first.holder = "pod-7 of Keeper-A".to_owned();
    first.labels = BTreeMap::from([("run".to_owned(), "42".to_owned())]);
    let grant = here.acquire(first).await;
    for sidecar in [&here, &there] {
        let busy = sidecar.busy(spec("nightly")).await;
        assert_eq!(busy.reason(), BusyReason::Held);
        assert!(Duration::try_from(busy.retry_after.unwrap()).unwrap() > Duration::ZERO);
        let record = busy.record.unwrap();
        assert_eq!(record.lock_path, grant.lock_path);
        assert_eq!(record.host_id, grant.host_id);
        assert_eq!(record.holder, "pod-7 of Keeper-A");
        assert_eq!(record.host_type, "Keeper-A");
        assert_eq!(record.labels["run"], "42");
        assert_eq!(record.fencing_token, Some(grant.fencing_token));
        assert_eq!(record.key.unwrap().function, "nightly");
        assert_eq!(record.state, i32::from(LockState::Held));
    }
}

#[tokio::test(start_paused = true)]
async fn s13_a_release_says_what_became_of_the_hold() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let first = sidecar.acquire(spec("nightly")).await;
    assert_eq!(sidecar.release(&first.lease_id).await, ReleaseOutcome::Released);
    assert_eq!(sidecar.release(&first.lease_id).await, ReleaseOutcome::AlreadyReleased);
    let second = sidecar.acquire(spec("nightly")).await;
    assert!(second.fencing_token > first.fencing_token, "S5");
    assert_eq!(sidecar.release(&first.lease_id).await, ReleaseOutcome::AlreadyReleased);
    assert!(sidecar.record("nightly").await.held_here, "a late release touches no later hold");
}

#[tokio::test(start_paused = true)]
async fn s13_to_release_what_was_lost_is_no_error() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let bounded = sidecar.acquire({
        let mut bounded = spec("nightly");
        bounded.max_hold = seconds(5);
        bounded
    });
    let lease_id = bounded.await.lease_id;
    tokio::time::sleep(Duration::from_secs(6)).await;
    let request = ReleaseLeaseRequest { lease_id, ..ReleaseLeaseRequest::default() };
    let answer = sidecar.client.clone().release_lease(request).await.unwrap().into_inner();
    let result = answer.result.unwrap();
    assert_eq!(result.outcome(), ReleaseOutcome::AlreadyLost);
    assert_eq!(result.loss_reason(), LossReason::MaxHoldReached);
}

#[tokio::test(start_paused = true)]
async fn s11_a_release_before_min_hold_lets_the_lock_rest_for_everybody() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let mut first = spec("nightly");
    first.min_hold = seconds(30);
    let grant = here.acquire(first).await;
    let request =
        ReleaseLeaseRequest { lease_id: grant.lease_id, ..ReleaseLeaseRequest::default() };
    let answer = here.client.clone().release_lease(request).await.unwrap().into_inner();
    let result = answer.result.unwrap();
    assert_eq!(result.outcome(), ReleaseOutcome::Resting);
    assert_eq!(result.resting_until.unwrap().seconds, 1_800_000_030);
    assert_eq!(here.busy(spec("nightly")).await.reason(), BusyReason::Resting);
    assert_eq!(here.record("nightly").await.state(), LockState::Resting);
    // From elsewhere a lease that is kept for a rest looks like any other.
    there.busy(spec("nightly")).await;
    let record = there.record("nightly").await;
    assert_eq!(record.state(), LockState::Held);
    assert_eq!(record.resting_until.unwrap().seconds, 1_800_000_030);
    tokio::time::sleep(Duration::from_secs(35)).await;
    there.acquire(spec("nightly")).await;
}

#[tokio::test(start_paused = true)]
async fn s12_a_caller_that_waits_has_the_lock_when_it_falls_free() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let grant = here.acquire(spec("nightly")).await;
    let mut patient = spec("nightly");
    patient.wait = seconds(60);
    let waiting = there.acquire(patient);
    let release = async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        here.release(&grant.lease_id).await
    };
    let (second, released) = tokio::join!(waiting, release);
    assert_eq!(released, ReleaseOutcome::Released);
    assert!(second.fencing_token > grant.fencing_token);
}

#[tokio::test(start_paused = true)]
async fn s11_extend_sets_a_new_bound_counted_from_now() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut bounded = spec("nightly");
    bounded.max_hold = seconds(10);
    let lease_id = sidecar.acquire(bounded).await.lease_id;
    tokio::time::sleep(Duration::from_secs(8)).await;
    let request =
        ExtendLeaseRequest { lease_id: lease_id.clone(), max_hold: seconds(30), generation: 0 };
    let answer = sidecar.client.clone().extend_lease(request).await.unwrap().into_inner();
    assert_eq!(answer.max_hold_ends_at.unwrap().seconds, 1_800_000_038);
    let valid_for = Duration::try_from(answer.validity.unwrap().valid_for.unwrap()).unwrap();
    assert_eq!(valid_for, Duration::from_secs(30), "validity never reaches past max_hold");
    tokio::time::sleep(Duration::from_secs(28)).await;
    assert!(sidecar.record("nightly").await.held_here);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let request = ExtendLeaseRequest { lease_id, max_hold: seconds(30), generation: 0 };
    let refused = sidecar.client.clone().extend_lease(request).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::FailedPrecondition, "HOLD_LOST".to_owned()));
    let info = refused.get_details_error_info().unwrap();
    assert_eq!(info.metadata["loss_reason"], "MAX_HOLD_REACHED");
}

#[tokio::test(start_paused = true)]
async fn s11_a_job_that_reports_progress_keeps_its_lock_and_one_that_hangs_does_not() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut watched = spec("nightly");
    watched.progress_timeout = seconds(10);
    let lease_id = sidecar.acquire(watched).await.lease_id;
    let report = || {
        let request = ReportProgressRequest { lease_id: lease_id.clone(), generation: 0 };
        let mut client = sidecar.client.clone();
        async move { client.report_progress(request).await }
    };
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(8)).await;
        let validity = report().await.unwrap().into_inner().validity.unwrap();
        let valid_for = Duration::try_from(validity.valid_for.unwrap()).unwrap();
        assert!(valid_for <= Duration::from_secs(10), "{valid_for:?}");
    }
    tokio::time::sleep(Duration::from_secs(8)).await;
    let request = GetHoldRequest { lease_id: lease_id.clone(), generation: 0 };
    sidecar.client.clone().get_hold(request).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let refused = report().await.unwrap_err();
    let info = refused.get_details_error_info().unwrap();
    assert_eq!(
        info.metadata["loss_reason"], "NO_PROGRESS",
        "asking for the validity is no progress"
    );
}

#[tokio::test(start_paused = true)]
async fn a_repeated_acquire_with_its_request_id_gets_the_same_grant() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut repeatable = spec("nightly");
    repeatable.request_id = "8b7f".to_owned();
    let first = sidecar.acquire(repeatable.clone()).await;
    let second = sidecar.acquire(repeatable.clone()).await;
    assert_eq!(first.lease_id, second.lease_id);
    assert_eq!(first.fencing_token, second.fencing_token);
    sidecar.release(&first.lease_id).await;
    let third = sidecar.acquire(repeatable).await;
    assert_ne!(first.lease_id, third.lease_id, "that hold is over");
}

#[tokio::test(start_paused = true)]
async fn s14_a_unary_hold_without_max_hold_ends_at_the_default() {
    let account = Account::new();
    let sidecar = account.sidecar();
    sidecar.acquire(spec("nightly")).await;
    tokio::time::sleep(LIMITS.max_hold_default - Duration::from_secs(1)).await;
    assert!(sidecar.record("nightly").await.held_here, "renewed all the while");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!sidecar.record("nightly").await.held_here);
}

#[tokio::test(start_paused = true)]
async fn without_auto_renew_a_hold_lasts_one_lease_duration() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut once = spec("nightly");
    once.auto_renew = Some(false);
    once.lease_duration = seconds(15);
    let lease_id = sidecar.acquire(once).await.lease_id;
    tokio::time::sleep(Duration::from_secs(16)).await;
    let request = ReleaseLeaseRequest { lease_id, ..ReleaseLeaseRequest::default() };
    let answer = sidecar.client.clone().release_lease(request).await.unwrap().into_inner();
    assert_eq!(answer.result.unwrap().loss_reason(), LossReason::MaxHoldReached);
    sidecar.acquire(spec("nightly")).await;
}

#[tokio::test(start_paused = true)]
async fn s6_a_call_over_its_deadline_leaves_no_lease_behind() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let grant = here.acquire(spec("nightly")).await;
    let mut patient = spec("nightly");
    patient.wait = seconds(3_600);
    let request = leasehold_client::proto::AcquireLeaseRequest { spec: Some(patient), needs: 0 };
    let mut request = tonic::Request::new(request);
    request.set_timeout(Duration::from_secs(10));
    let ended = there.client.clone().acquire_lease(request).await.unwrap_err();
    assert!(matches!(ended.code(), Code::DeadlineExceeded | Code::Cancelled), "{ended}");
    here.release(&grant.lease_id).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(here.record("nightly").await.state(), LockState::Available);
    assert_eq!(there.coordinator.gauges().waiters, 0);
}
