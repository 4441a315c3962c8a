//! Many locks in one stream.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_client::proto::{
    LockState, WatchLocksRequest, WatchLocksResponse, watch_locks_request::Under,
    watch_locks_response::Event,
};
use tonic::{Code, Streaming};

use crate::grpc::rig::{Account, Sidecar, reason, spec};

async fn watch(sidecar: &Sidecar, request: WatchLocksRequest) -> Streaming<WatchLocksResponse> {
    sidecar.client.clone().watch_locks(request).await.unwrap().into_inner()
}

async fn next(stream: &mut Streaming<WatchLocksResponse>) -> Event {
    stream.message().await.unwrap().expect("the watch goes on").event.expect("always set")
}

async fn changed(stream: &mut Streaming<WatchLocksResponse>) -> (String, LockState) {
    match next(stream).await {
        Event::Changed(record) => (record.key.clone().unwrap().function, record.state()),
        other => panic!("{other:?}"),
    }
}

fn labelled(function: &str, tier: &str) -> leasehold_client::proto::LeaseSpec {
    let mut spec = spec(function);
    spec.labels = BTreeMap::from([("tier".to_owned(), tier.to_owned())]);
    spec
}

#[tokio::test(start_paused = true)]
async fn all_locks_of_the_host_are_told_and_what_changes() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let grant = here.acquire(spec("a")).await;
    there.acquire(spec("b")).await;
    let mut stream = watch(&here, WatchLocksRequest::default()).await;
    let held = |name: &str| (name.to_owned(), LockState::Held);
    assert_eq!(changed(&mut stream).await, held("a"));
    assert_eq!(changed(&mut stream).await, held("b"));
    let Event::Listed(listed) = next(&mut stream).await else { panic!() };
    assert_eq!(listed.locks, 2);
    assert!(listed.at.is_some());
    here.release(&grant.lease_id).await;
    assert_eq!(changed(&mut stream).await, ("a".to_owned(), LockState::Available));
    let Event::Listed(_) = next(&mut stream).await else { panic!() };
}

/// A client that has to watch again, at another sidecar or the next one, compares what it is told with what
/// it was told.
#[tokio::test(start_paused = true)]
async fn a_lock_that_was_let_go_is_told_alike_by_every_sidecar() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let mut stream = watch(&here, WatchLocksRequest::default()).await;
    let Event::Listed(_) = next(&mut stream).await else { panic!() };
    let grant = here.acquire(spec("a")).await;
    assert_eq!(changed(&mut stream).await, ("a".to_owned(), LockState::Held));
    here.release(&grant.lease_id).await;
    let Event::Changed(told_here) = next(&mut stream).await else { panic!() };
    let mut stream = watch(&there, WatchLocksRequest::default()).await;
    let Event::Changed(told_there) = next(&mut stream).await else { panic!() };
    assert_eq!(told_here, told_there);
}

#[tokio::test(start_paused = true)]
async fn a_prefix_and_labels_choose_among_them() {
    let account = Account::new();
    let sidecar = account.sidecar();
    sidecar.acquire(labelled("a", "gold")).await;
    let plain = sidecar.acquire(labelled("b", "plain")).await;
    let under = Some(Under::Prefix("leasehold/locks/".to_owned()));
    let labels = BTreeMap::from([("tier".to_owned(), "plain".to_owned())]);
    let mut stream =
        watch(&sidecar, WatchLocksRequest { under, labels, ..WatchLocksRequest::default() }).await;
    assert_eq!(changed(&mut stream).await.0, "b");
    let Event::Listed(listed) = next(&mut stream).await else { panic!() };
    assert_eq!(listed.locks, 1);
    sidecar.release(&plain.lease_id).await;
    assert_eq!(changed(&mut stream).await, ("b".to_owned(), LockState::Available));
    sidecar.acquire(labelled("b", "gold")).await;
    let Event::Gone(path) = next(&mut stream).await else { panic!() };
    assert_eq!(path, plain.lock_path);
}

#[tokio::test(start_paused = true)]
async fn s15_a_watch_ends_when_the_sidecar_does() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = watch(&sidecar, WatchLocksRequest::default()).await;
    let Event::Listed(_) = next(&mut stream).await else { panic!() };
    sidecar.coordinator.drain(Duration::from_secs(1)).await;
    let ended = stream.message().await.unwrap_err();
    assert_eq!(reason(&ended), (Code::Unavailable, "SHUTTING_DOWN".to_owned()));
}
