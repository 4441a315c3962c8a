//! A server on several threads: connections are dealt to them, and locks are everybody's.

use std::time::Duration;

use leasehold::coordinator::{CallError, StoreFailureKind};
use leasehold::grpc::{Server, Settings, Workers};
use leasehold::lock::LeaseId;
use leasehold::store::{LeaseState, LeaseStoreExt as _};
use leasehold_client::proto::lease_service_client::LeaseServiceClient;
use leasehold_client::proto::{
    AcquireLeaseRequest, AcquireLeaseResponse, Grant, HoldLeaseRequest, ReleaseLeaseRequest,
    acquire_lease_response, hold_lease_request::Start,
};
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

use crate::grpc::listeners::{connect, loopback, run};
use crate::grpc::rig::{Account, Event, next, seconds, spec};

const THREADS: usize = 2;
const CONNECTIONS: usize = 6;

async fn acquire(channel: &Channel, function: &str, wait: i64) -> Grant {
    let mut spec = spec(function);
    spec.wait = seconds(wait);
    let mut client = LeaseServiceClient::new(channel.clone());
    let answer =
        client.acquire_lease(AcquireLeaseRequest { spec: Some(spec), needs: 0 }).await.unwrap();
    let AcquireLeaseResponse { outcome } = answer.into_inner();
    match outcome.unwrap() {
        acquire_lease_response::Outcome::Granted(grant) => grant,
        other => panic!("{other:?}"),
    }
}

async fn release(channel: &Channel, grant: &Grant) {
    let lease_id = grant.lease_id.clone();
    let request = ReleaseLeaseRequest { lease_id, ..ReleaseLeaseRequest::default() };
    LeaseServiceClient::new(channel.clone()).release_lease(request).await.unwrap();
}

#[tokio::test]
async fn connections_are_dealt_evenly_to_threads_and_share_the_locks() {
    let sidecar = Account::new().sidecar();
    let settings = Settings {
        tcp: Some(loopback()),
        unix: None,
        connections: CONNECTIONS + 1,
        streams_per_connection: 8,
        header_list_bytes: 16_384,
        ..Settings::default()
    };
    let workers = Workers::start(THREADS).unwrap();
    let runtimes = workers.runtimes().to_vec();
    let server = Server::bind(settings).await.unwrap().on(workers);
    let folder = tempfile::tempdir().unwrap();
    let running = run(server, &sidecar.scheduler, folder, CancellationToken::new()).await;
    let mut channels = vec![running.channel.clone()];
    while channels.len() < CONNECTIONS {
        channels.push(connect(&running.endpoint).await);
    }
    // Each is open once it has answered.
    let mut held = Vec::new();
    for (number, channel) in channels.iter().enumerate() {
        held.push(acquire(channel, &format!("of-{number}"), 0).await);
    }
    // On each thread: its server, a task for each of its connections, and one for each of their locks.
    let each = 1 + 2 * CONNECTIONS / THREADS;
    for runtime in &runtimes {
        assert!(runtime.metrics().num_alive_tasks() >= each, "{runtimes:?}");
    }
    for (channel, grant) in channels.iter().rev().zip(&held) {
        // From another connection than it was acquired on.
        release(channel, grant).await;
    }
    let first = acquire(&channels[0], "shared", 0).await;
    let waits = async {
        let second = acquire(&channels[1], "shared", 60).await;
        assert!(second.fencing_token > first.fencing_token);
        second
    };
    let releases = async {
        while sidecar.coordinator.gauges().waiters == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        release(&channels[2], &first).await;
    };
    let (second, ()) = tokio::join!(waits, releases);
    release(&channels[0], &second).await;
    running.stop.cancel();
    running.server.await.unwrap();
}

/// As by a second signal (S15): what goes on elsewhere hears of the end of a stream, and its client was told
/// nothing.
#[tokio::test]
async fn s13_a_thread_that_ends_releases_no_lock_of_its_clients() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let settings = Settings {
        tcp: Some(loopback()),
        unix: None,
        connections: CONNECTIONS,
        streams_per_connection: 8,
        header_list_bytes: 16_384,
        ..Settings::default()
    };
    let server = Server::bind(settings).await.unwrap().on(Workers::start(THREADS).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let running = run(server, &sidecar.scheduler, folder, CancellationToken::new()).await;
    // The lock's task is on this thread, which goes on.
    let first = sidecar.acquire(spec("nightly")).await;
    let mut waits = spec("nightly");
    waits.wait = seconds(60);
    let request = HoldLeaseRequest { start: Some(Start::Spec(waits)), needs: 0 };
    let mut client = LeaseServiceClient::new(running.channel.clone());
    let mut stream = client.hold_lease(request).await.unwrap().into_inner();
    assert!(matches!(next(&mut stream).await, Event::Waiting(_)));
    sidecar.release_of(&first).await;
    let Event::Granted(grant) = next(&mut stream).await else { panic!("not granted") };
    running.server.abort();
    let lease_id = LeaseId::parse(&grant.lease_id).unwrap();
    let told = loop {
        match sidecar.coordinator.report_progress(lease_id, None).await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            Err(error) => break error,
        }
    };
    let CallError::StoreFailure(failure) = told else { panic!("{told}") };
    assert_eq!(failure.kind, StoreFailureKind::Unavailable, "it can be resumed");
    let path = grant.lock_path.parse().unwrap();
    let lease = account.store.read_record(&path).await.unwrap().lease;
    assert_eq!(lease, LeaseState::Leased);
}
