//! Listings and watches show what their caller may read.

use leasehold::access::{Right, Rule};
use leasehold_client::proto::{
    ListLocksRequest, WatchLocksRequest, list_locks_request::Under, watch_locks_response,
};

use crate::grpc::access::{by_token, client, functions, serve, with};
use crate::grpc::rig::{Account, spec};

#[tokio::test]
async fn a_listing_shows_what_the_caller_may_read() {
    let account = Account::new();
    let sidecar = account.sidecar();
    for function in ["orders.close", "orders.open", "nightly"] {
        sidecar.acquire(spec(function)).await;
    }
    let rule = Rule { functions: functions(&["orders.*"]), ..by_token("shop", &[Right::Read]) };
    let running = serve(&sidecar, vec![rule]).await;
    for under in [None, Some(Under::Prefix("leasehold/locks/".to_owned()))] {
        let request = with("shop", ListLocksRequest { under, ..ListLocksRequest::default() });
        let listed = client(&running).list_locks(request).await.unwrap().into_inner().records;
        let functions: Vec<_> =
            listed.into_iter().map(|record| record.key.unwrap_or_default().function).collect();
        assert_eq!(functions, ["orders.close", "orders.open"]);
    }
}

#[tokio::test]
async fn a_watch_of_many_locks_shows_what_the_caller_may_read() {
    let account = Account::new();
    let sidecar = account.sidecar();
    for function in ["nightly", "orders.close"] {
        sidecar.acquire(spec(function)).await;
    }
    let rule = Rule { functions: functions(&["orders.*"]), ..by_token("shop", &[Right::Read]) };
    let running = serve(&sidecar, vec![rule]).await;
    let request = with("shop", WatchLocksRequest::default());
    let mut stream = client(&running).watch_locks(request).await.unwrap().into_inner();
    let mut functions = Vec::new();
    loop {
        match stream.message().await.unwrap().unwrap().event.unwrap() {
            watch_locks_response::Event::Changed(record) => {
                functions.push(record.key.unwrap_or_default().function);
            }
            watch_locks_response::Event::Gone(path) => panic!("{path}"),
            watch_locks_response::Event::Listed(listed) => {
                assert_eq!(listed.locks, 1);
                break;
            }
        }
    }
    assert_eq!(functions, ["orders.close"]);
}
