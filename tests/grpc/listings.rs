//! Listings by callers who may read some of the locks: what a page token gives away, and how far one call
//! looks.

use leasehold::access::{HostIds, Right, Rule};
use leasehold::lock::HostId;
use leasehold_client::proto::{ListLocksRequest, ListLocksResponse, list_locks_request::Under};
use tonic::Status;

use crate::grpc::access::{by_token, client, functions, is_denied, serve, with};
use crate::grpc::listeners::Running;
use crate::grpc::rig::{Account, HOST_ID, Sidecar, fields, spec};

fn shop() -> Rule {
    Rule { functions: functions(&["orders.*"]), ..by_token("shop", &[Right::Read]) }
}

async fn serve_shop(sidecar: &Sidecar) -> Running {
    serve(sidecar, vec![shop(), by_token("all", &[Right::Read])]).await
}

fn under(prefix: impl Into<String>) -> Option<Under> {
    Some(Under::Prefix(prefix.into()))
}

/// A page of one record, by one who may read orders.
async fn page(running: &Running, page_token: &str) -> Result<ListLocksResponse, Status> {
    let page_token = page_token.to_owned();
    let request = ListLocksRequest { page_size: 1, page_token, ..ListLocksRequest::default() };
    client(running).list_locks(with("shop", request)).await.map(tonic::Response::into_inner)
}

fn shown(page: &ListLocksResponse) -> Vec<String> {
    let records = page.records.iter();
    records.map(|record| record.key.clone().unwrap_or_default().function).collect()
}

fn is_page_token(refused: &Status) -> bool {
    fields(refused) == ["page_token"] && refused.message().contains("first page")
}

#[tokio::test]
async fn a_page_token_does_not_show_where_the_page_ended() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let long = "secret.".repeat(20);
    for function in ["orders.close", "orders.open", "secret", &long] {
        sidecar.acquire(spec(function)).await;
    }
    let running = serve_shop(&sidecar).await;
    let first = page(&running, "").await.unwrap();
    let second = page(&running, &first.next_page_token).await.unwrap();
    assert_eq!(
        (shown(&first), shown(&second)),
        (vec!["orders.close".into()], vec!["orders.open".into()])
    );
    let last = page(&running, &second.next_page_token).await.unwrap();
    assert!(last.records.is_empty() && last.next_page_token.is_empty(), "{last:?}");
    // One who may read everything stops at a short name, and at a long one.
    let mut tokens = vec![first.next_page_token, second.next_page_token];
    for _ in 0..2 {
        let page_token = tokens.last().unwrap().clone();
        let request = ListLocksRequest { page_size: 1, page_token, ..ListLocksRequest::default() };
        let page = client(&running).list_locks(with("all", request)).await.unwrap().into_inner();
        tokens.extend(Some(page.next_page_token).filter(|token| !token.is_empty()));
    }
    assert_eq!(tokens.len(), 3, "{tokens:?}");
    for token in &tokens {
        use base64::Engine as _;
        let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(token).unwrap();
        for text in [token.as_bytes(), &bytes] {
            let text = String::from_utf8_lossy(text);
            assert!(["secret", "orders"].iter().all(|name| !text.contains(name)), "{text}");
        }
        assert_eq!(token.len(), tokens[0].len(), "its length says nothing of the name either");
    }
}

#[tokio::test]
async fn a_page_token_is_good_for_one_listing_of_one_sidecar_and_cannot_be_made() {
    let account = Account::new();
    let sidecar = account.sidecar();
    for function in ["orders.close", "orders.open", "secret"] {
        sidecar.acquire(spec(function)).await;
    }
    let running = serve_shop(&sidecar).await;
    let token = page(&running, "").await.unwrap().next_page_token;
    page(&running, &token).await.unwrap();
    let mut changed = token.clone();
    changed.replace_range(..1, if token.starts_with('A') { "B" } else { "A" });
    let mut end = token.clone();
    end.truncate(token.len() - 1);
    for made_up in [changed.as_str(), &end, "A", "secret", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"]
    {
        let refused = page(&running, made_up).await.unwrap_err();
        assert!(is_page_token(&refused), "{made_up}: {refused:?}");
    }
    let under = under(format!("leasehold/locks/{HOST_ID}/orders"));
    let request =
        ListLocksRequest { under, page_token: token.clone(), ..ListLocksRequest::default() };
    let refused = client(&running).list_locks(with("shop", request)).await.unwrap_err();
    assert!(is_page_token(&refused), "of another listing: {refused:?}");
    // So it is after a restart, too.
    let other = account.sidecar();
    let refused = page(&serve_shop(&other).await, &token).await.unwrap_err();
    assert!(is_page_token(&refused), "of another sidecar: {refused:?}");
}

/// Who may read little does not page through what it may not read; and one call does not read a whole
/// container.
#[tokio::test]
async fn one_call_passes_over_what_the_caller_may_not_read_up_to_a_bound() {
    let account = Account::new();
    let sidecar = account.sidecar();
    for number in 0..3 {
        sidecar.acquire(spec(&format!("before.{number}"))).await;
    }
    sidecar.acquire(spec("orders.close")).await;
    for number in 0..30 {
        sidecar.acquire(spec(&format!("over.{number:02}"))).await;
    }
    let running = serve_shop(&sidecar).await;
    let first = page(&running, "").await.unwrap();
    assert_eq!(shown(&first), ["orders.close"]);
    let mut pages = 0;
    let mut token = first.next_page_token;
    while !token.is_empty() {
        let next = page(&running, &token).await.unwrap();
        assert!(next.records.is_empty(), "{next:?}");
        token = next.next_page_token;
        pages += 1;
    }
    assert!(
        (2..10).contains(&pages),
        "{pages} calls for 30 locks, of which each read more than one"
    );
}

#[tokio::test]
async fn a_prefix_needs_a_rule_for_a_host_id_under_it() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let listed = ["another", "third"].map(|text| HostId::parse(text).unwrap());
    let listed = HostIds::Listed(listed.into());
    let any = Rule { host_ids: HostIds::Any, ..by_token("any", &[Right::Read]) };
    let listed = Rule { host_ids: listed, ..by_token("listed", &[Right::Read]) };
    let running = serve(&sidecar, vec![shop(), any, listed]).await;
    let own = &HOST_ID[..5];
    for (token, inside, allowed) in [
        ("shop", "", true),
        ("shop", own, true),
        ("shop", HOST_ID, true),
        ("shop", &format!("{HOST_ID}/orders"), true),
        ("shop", "another/", false),
        ("shop", "another/orders", false),
        ("shop", "an", false),
        ("shop", &format!("{own}/"), false),
        ("shop", "No host id/", false),
        ("listed", "an", true),
        ("listed", "third/", true),
        ("listed", "t", true),
        ("listed", HOST_ID, false),
        ("any", "another/", true),
        ("any", "No host id/", true),
    ] {
        let under = under(format!("leasehold/locks/{inside}"));
        let request = with(token, ListLocksRequest { under, ..ListLocksRequest::default() });
        let answer = client(&running).list_locks(request).await;
        let denied = answer.as_ref().is_err_and(is_denied);
        assert_eq!(!denied, allowed, "{token} {inside:?}: {answer:?}");
    }
    let request = ListLocksRequest { under: under("elsewhere/"), ..ListLocksRequest::default() };
    let refused = client(&running).list_locks(with("shop", request)).await.unwrap_err();
    assert_eq!(fields(&refused), ["prefix"]);
}
