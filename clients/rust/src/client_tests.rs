use super::*;
use crate::fake::{Bench, OURS, seconds, validity};
use crate::proto::hold_lease_response::Event;

#[tokio::test]
async fn every_unary_call_reaches_the_sidecar() {
    let bench = Bench::new().await;
    let client = &bench.client;
    let lock = || LockSelector::path("locks/a");
    assert_eq!(client.get_lock(lock()).await.unwrap().lock_path, "locks/a");
    let by_key = client.get_lock(LockKey::new("f", "s")).await.unwrap();
    assert_eq!(by_key.lock_path, "f/s");
    let page = client
        .list_locks(ListLocksRequest {
            page_token: "next".to_owned(),
            ..ListLocksRequest::default()
        })
        .await
        .unwrap();
    assert_eq!(page.next_page_token, "next");
    let token = client.check_token(lock(), 7).await.unwrap();
    assert_eq!(token.newest_fencing_token, Some(8));
    let broken = client
        .break_lock(BreakLockRequest { lock: Some(lock()), ..BreakLockRequest::default() })
        .await
        .unwrap();
    assert_eq!(broken.record.unwrap().lock_path, "locks/a");
    let path = client.resolve_path(LockKey::new("f", "")).await.unwrap();
    assert_eq!(path.lock_path, "f");
    let extended = client.extend("lease-1", seconds(90)).await.unwrap();
    assert_eq!(extended.validity, Some(validity(OURS, 1_090, 90)));
    client.release("lease-1").await.unwrap();
    assert!(bench.sidecar.asked().contains(&"release lease-1 of generation 0".to_owned()));
}

#[tokio::test]
async fn a_watch_gives_records_until_the_stream_ends() {
    let bench = Bench::new().await;
    let mut watch = bench.client.watch_lock(LockKey::new("f", "s")).await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap().lock_path, "f/s");
    assert_eq!(watch.next().await.unwrap(), None);
}

#[tokio::test]
async fn an_acquire_is_granted_or_busy_and_nothing_else() {
    let bench = Bench::new().await;
    let acquire = || bench.client.acquire(LeaseSpec::new("f", ""));
    assert!(matches!(acquire().await, Err(Error::Protocol(_))));
    let Event::Granted(grant) = crate::fake::grant(validity(OURS, 1_058, 58)) else {
        unreachable!("it is a grant");
    };
    let answer = |outcome| bench.sidecar.script.lock().unwrap().acquire = Some(outcome);
    answer(acquire_lease_response::Outcome::Granted(grant.clone()));
    assert_eq!(acquire().await.unwrap().granted(), Some(grant));
    answer(acquire_lease_response::Outcome::Busy(Busy::default()));
    assert!(matches!(acquire().await.unwrap(), Outcome::Busy(_)));
}

#[tokio::test]
async fn s14_the_bearer_token_and_the_kernel_go_with_each_call() {
    let bench = Bench::new().await;
    let client = bench.another().bearer_token("secret\n").connect().await.unwrap();
    let _outcome = client.acquire(LeaseSpec::new("f", "")).await;
    let asked = bench.sidecar.asked();
    assert_eq!(asked, [format!("acquire Bearer secret {OURS}")]);
}

#[tokio::test]
async fn an_error_of_the_sidecar_has_its_code() {
    let bench = Bench::new().await;
    let error = bench.client.report_progress("x", true).await.unwrap_err();
    assert_eq!(error.code(), Some(tonic::Code::Unavailable));
    assert_eq!(error.reason(), None);
    assert_eq!(error.to_string(), "not now");
}
