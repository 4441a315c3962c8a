//! Ways around the rules of access that a reader has found.

use leasehold::access::Right;
use leasehold_client::proto::hold_lease_request::Start;
use leasehold_client::proto::{HoldLeaseRequest, ResolvePathRequest, Resume, hold_lease_response};
use tonic::metadata::MetadataValue;
use tonic::{Code, Request};

use crate::access::{by_token, client, functions, is_denied, serve, with};
use crate::rig::{Account, key, spec};

/// A resume token is not signed, so it opens no lock that the rules close.
#[tokio::test]
async fn a_resume_token_gives_no_more_than_the_rules() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut rules = ["owner", "guest"].map(|name| by_token(name, &[Right::Acquire]));
    rules[1].functions = functions(&["sandbox"]);
    let running = serve(&sidecar, rules.to_vec()).await;
    let mut client = client(&running);
    let start = HoldLeaseRequest { start: Some(Start::Spec(spec("payroll"))) };
    let mut stream = client.hold_lease(with("owner", start)).await.unwrap().into_inner();
    let first = stream.message().await.unwrap().unwrap().event;
    let Some(hold_lease_response::Event::Granted(granted)) = first else { panic!("{first:?}") };
    let resume = Resume {
        resume_token: granted.resume_token,
        attempt_id: "x".to_owned(),
        told_valid_until: None,
    };
    let start = HoldLeaseRequest { start: Some(Start::Resume(resume)) };
    let refused = client.hold_lease(with("guest", start.clone())).await.unwrap_err();
    assert!(is_denied(&refused), "{refused:?}");
    client.hold_lease(with("owner", start)).await.unwrap();
}

/// The digest of nothing is easily put into a rule, by a variable that is not set.
#[tokio::test]
async fn an_empty_token_is_none() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let running = serve(&sidecar, vec![by_token("", &[Right::Acquire])]).await;
    let mut request = Request::new(ResolvePathRequest { key: Some(key("nightly")) });
    request.metadata_mut().insert("authorization", MetadataValue::from_static("Bearer "));
    let refused = client(&running).resolve_path(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated, "{refused:?}");
}
