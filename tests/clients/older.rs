//! A sidecar that is too old for what is asked (S37): the real one, which is told to be of a lower revision
//! than any request needs.

use serde_json::json;

use crate::clients::driver::Driver;
use crate::clients::proxy::Proxy;
use crate::clients::scenarios::LONG;
use crate::clients::sidecar::Sidecar;

pub(crate) async fn older_sidecar(shared: &mut Driver, _: &mut Sidecar) {
    let older = Sidecar::start_older().await;
    let mut asking = Driver::start(shared.language(), &older.endpoint()).await;
    let requests = [
        ("hold", json!({ "function": "older", "lease_ms": LONG })),
        ("hold", json!({ "function": "older", "lease_ms": LONG, "wait_ms": 300 })),
        ("acquire", json!({ "function": "older", "max_hold_ms": LONG })),
        ("acquire", json!({ "function": "older", "max_hold_ms": LONG, "wait_ms": 300 })),
        ("occurrence", json!({ "function": "older", "at": 1_700_000_000 })),
    ];
    for (what, request) in requests {
        asking.tell("asks", what, request).await;
        let refused = asking.event("asks", "error").await;
        assert_eq!(refused["reason"], "UNSUPPORTED", "S37: {refused}");
        let message = refused["message"].as_str().unwrap();
        let has_both = message.contains("revision 1") && message.contains("revision 0");
        assert!(has_both, "S37, {what}: {message}");
    }
    let runs = json!({ "function": "older", "every_ms": 60_000, "backoff_ms": 10_000 });
    asking.tell("s", "runs", runs).await;
    asking.event("s", "interrupted").await;
    asking.tell("l", "list", json!({})).await;
    assert_eq!(asking.event("l", "listed").await["paths"], json!([]), "S37: the store has nothing");
}

/// Both are behind one address, and new connections meet the newer one at last.
pub(crate) async fn older_sidecar_beside_a_newer(shared: &mut Driver, _: &mut Sidecar) {
    let (older, newer) = (Sidecar::start_older().await, Sidecar::start_with_tcp().await);
    let network = Proxy::start(older.tcp().unwrap()).await;
    let mut asking = Driver::start(shared.language(), &network.endpoint()).await;
    asking.tell("a", "hold", json!({ "function": "a", "wait_ms": 60_000 })).await;
    network.until_asked_again(3).await;
    network.lead_to(newer.tcp().unwrap());
    asking.event("a", "granted").await;
    // It ends where it is.
    asking.release("a").await;
    asking.tell("a", "hold", json!({ "function": "a" })).await;
    asking.event("a", "granted").await;
    asking.release("a").await;
}

pub(crate) async fn resume_past_an_older_sidecar(shared: &mut Driver, _: &mut Sidecar) {
    let mut sidecar = Sidecar::start_with_tcp().await;
    let network = Proxy::start(sidecar.tcp().unwrap()).await;
    let mut holding = Driver::start(shared.language(), &network.endpoint()).await;
    let granted = holding.hold("a", "older", LONG).await;
    sidecar.replace(Some(0)).await;
    network.until_asked_again(3).await;
    assert!(holding.validity("a").await.0, "S37: {}", holding.story());
    sidecar.replace(None).await;
    holding.event("a", "resumed").await;
    let check = json!({ "function": "older", "token": granted["token"] });
    holding.tell("c", "check", check).await;
    assert_eq!(holding.event("c", "checked").await["status"], "CURRENT", "S16");
    holding.release("a").await;
}
