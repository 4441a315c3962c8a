//! What is over a limit is refused, not queued without end.

use leasehold_client::proto::{AcquireLeaseRequest, LeaseSpec};
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::grpc::rig::{Account, reason, seconds, spec};

#[tokio::test(start_paused = true)]
async fn holds_and_waiters_over_their_limits_are_refused_and_counted_right() {
    let account = Account::new();
    let sidecar = account.sidecar_with(|settings| {
        settings.max_holds = 2;
        settings.max_waiters = 1;
    });
    let first = sidecar.acquire(spec("a")).await;
    let waiting = {
        let mut patient = spec("a");
        patient.wait = seconds(600);
        sidecar.hold(patient).await
    };
    let refused = sidecar.ask(spec("b")).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::ResourceExhausted, "TOO_MANY_WAITERS".to_owned()));
    assert!(refused.get_details_retry_info().is_some());
    drop(waiting);
    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    let second = sidecar.acquire(spec("b")).await;
    let refused = sidecar.ask(spec("c")).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::ResourceExhausted, "TOO_MANY_HOLDS".to_owned()));
    sidecar.release(&first.lease_id).await;
    sidecar.release(&second.lease_id).await;
    for _ in 0..5 {
        let grant = sidecar.acquire(spec("c")).await;
        sidecar.release(&grant.lease_id).await;
    }
    assert_eq!(sidecar.coordinator.gauges().holds, 0);
    assert_eq!(sidecar.coordinator.gauges().waiters, 0);
}

#[tokio::test(start_paused = true)]
async fn s19_a_request_over_64_kib_is_refused_before_it_is_read() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let spec = LeaseSpec { holder: "x".repeat(70 * 1024), ..spec("nightly") };
    let request = AcquireLeaseRequest { spec: Some(spec), needs: 0 };
    let refused = sidecar.client.clone().acquire_lease(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange, "{refused}");
    sidecar.acquire(crate::grpc::rig::spec("nightly")).await;
}
