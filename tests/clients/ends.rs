//! Scenarios in which something ends that is not the lease: the network, the process, the caller's patience.
//!
//! Each starts a driver of its own, because it needs an environment of its own or ends it.

use rustix::process::Signal;
use serde_json::json;

use crate::clients::driver::Driver;
use crate::clients::proxy::Proxy;
use crate::clients::scenarios::{LONG, SHORT};
use crate::clients::sidecar::{Place, Sidecar};

/// The keep-alive interval of the driver whose network falls silent: by default there is none on loopback.
const KEEP_ALIVE: (&str, &str) = ("LEASEHOLD_DRIVER_KEEP_ALIVE_MS", "10000");
/// The release timeout of the driver whose sidecar does not answer.
const RELEASE_TIMEOUT: (&str, &str) = ("LEASEHOLD_DRIVER_RELEASE_TIMEOUT_MS", "2000");

/// What a holder may be told when its stream ends or its work must.
const STOPS: [&str; 4] = ["interrupted", "draining", "cancelled", "lost"];

pub(crate) async fn silent_network(shared: &mut Driver, _: &mut Sidecar) {
    let sidecar = Sidecar::start_with_tcp().await;
    let proxy = Proxy::start(sidecar.tcp().unwrap()).await;
    let environment = [KEEP_ALIVE];
    let mut driver = Driver::start_with(shared.language(), &proxy.endpoint(), &environment).await;

    let held = driver.hold("a", "silent", LONG).await;
    driver.tell("w", "watch", json!({ "function": "silent" })).await;
    assert_eq!(driver.event("w", "watched").await["state"], "HELD");
    driver.tell("u", "acquire", json!({ "function": "taken", "max_hold_ms": 600_000 })).await;
    let taken = driver.event("u", "granted").await["lease_id"].clone();
    // A short lease: the sidecar may grant the lock to the silent connection, and then it must run out.
    let waiting = json!({ "function": "taken", "wait_ms": -1, "lease_ms": SHORT });
    driver.tell("b", "hold", waiting).await;
    driver.event("b", "waiting").await;

    proxy.silence();
    driver.tell("r", "resolve", json!({ "function": "silent" })).await;
    let resolved = driver.outcome("r", &["resolved", "error"]).await;
    assert!(
        resolved["event"] == "resolved" || resolved["code"] == "UNAVAILABLE",
        "the call found no end of its own: {resolved}"
    );
    driver.tell("r2", "resolve", json!({ "function": "silent" })).await;
    assert_eq!(driver.event("r2", "resolved").await["lock_path"], held["lock_path"]);
    driver.event("a", "resumed").await;
    assert!(driver.validity("a").await.0, "S16\n{}", driver.story());

    driver.tell("u2", "release_lease", json!({ "lease_id": taken })).await;
    driver.event("u2", "released").await;
    driver.event("b", "granted").await;
    driver.release("b").await;
    driver.release("a").await;
    while driver.event("w", "watched").await["state"] != "AVAILABLE" {}
}

/// The sidecar is told to end, and another one follows at its address.
pub(crate) async fn hand_over(shared: &mut Driver, _: &mut Sidecar) {
    for place in [Place::Here, Place::OtherMachine] {
        let mut sidecar = Sidecar::start_that_hands_over(place).await;
        let mut driver = Driver::start(shared.language(), &sidecar.clients_endpoint()).await;
        let granted = driver.hold("a", "handed over", LONG).await;
        sidecar.signal(Signal::TERM);
        sidecar.wait_until_ended().await;
        assert_eq!(driver.outcome("a", &STOPS).await["event"], "interrupted", "{place:?}: S15");
        assert!(driver.validity("a").await.0);
        sidecar.restart().await;
        let resumed = driver.outcome("a", &[&STOPS[1..], &["resumed"]].concat()).await;
        assert_eq!(resumed["event"], "resumed", "{place:?}: {}", driver.story());
        let check = json!({ "function": "handed over", "token": granted["token"] });
        driver.tell("c", "check", check).await;
        assert_eq!(driver.event("c", "checked").await["status"], "CURRENT", "S16");
        driver.release("a").await;
        // Granted at once, so that it was released, and did not expire.
        driver.hold("b", "handed over", LONG).await;
        driver.release("b").await;
    }
}

pub(crate) async fn exit_with_an_open_iterator(shared: &mut Driver, sidecar: &mut Sidecar) {
    let mut driver = Driver::start(shared.language(), &sidecar.endpoint()).await;
    driver.tell("w", "exit_with_open_watch", json!({ "function": "open" })).await;
    driver.event("w", "watched").await;
    // Its stdin is still open: nothing but its own end ends it.
    assert_eq!(driver.exit_code().await, Some(0), "{}", driver.story());
}

pub(crate) async fn interrupt_from_outside(driver: &mut Driver, _: &mut Sidecar) {
    driver.hold("a", "interrupt", LONG).await;
    driver.tell("a", "interrupt", json!({})).await;
    driver.event("a", "interrupted_outside").await;
    // Granted long before the lease could run out, so it was released on the way out.
    driver.tell("b", "hold", json!({ "function": "interrupt", "wait_ms": 20_000 })).await;
    driver.event("b", "granted").await;
    driver.release("b").await;
}

pub(crate) async fn release_is_bounded(shared: &mut Driver, _: &mut Sidecar) {
    let sidecar = Sidecar::start().await;
    let environment = [RELEASE_TIMEOUT];
    let mut driver = Driver::start_with(shared.language(), &sidecar.endpoint(), &environment).await;
    driver.hold("a", "bounded", LONG).await;
    sidecar.signal(Signal::STOP);
    driver.tell("a", "release", json!({})).await;
    driver.event("a", "release_unconfirmed").await;
    sidecar.signal(Signal::CONT);
}
