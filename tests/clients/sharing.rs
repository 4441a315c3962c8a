//! Scenarios of holders that give their locks up to others, and of locks that are spread (S33, S34).

use serde_json::{Value, json};

use crate::clients::driver::Driver;
use crate::clients::scenarios::LONG;
use crate::clients::sidecar::Sidecar;

/// A lease as short as may be: it is how long a newer version waits before it takes over.
const SHORT: u64 = 15_000;

/// What a version with this number asks for.
fn version(number: u32) -> Value {
    json!({ "function": "versions", "lease_ms": SHORT, "priority": number, "yields": true })
}

pub(crate) async fn greater_priority_takes_over(driver: &mut Driver, _: &mut Sidecar) {
    driver.tell("old", "hold", version(1)).await;
    let first = driver.event("old", "granted").await;
    let mut waits = version(2);
    waits["wait_forever"] = true.into();
    driver.tell("new", "hold", waits).await;
    driver.event("new", "waiting").await;
    let revoked = driver.event("old", "revoked").await;
    assert_eq!(revoked["for_priority"], 2, "S33: {revoked}");
    // It is not lost yet: there is time to finish.
    assert!(driver.validity("old").await.0, "S33: {}", driver.story());
    driver.save("old", "nearly").await;
    assert_eq!(driver.release_with("old", "finished").await, "saved", "S33");
    let next = driver.event("new", "granted").await;
    assert_eq!(next["checkpoint"], "finished", "S25: {next}");
    assert!(next["token"].as_u64() > first["token"].as_u64(), "S5: {next}");

    // It never swings back. The reservation for the newer one may have passed, on a busy machine.
    driver.tell("again", "hold", version(1)).await;
    let busy = driver.event("again", "busy").await;
    let status = busy["priority_status"].as_str();
    assert!(matches!(status, Some("RESERVED" | "NOT_GREATER")), "S33: {busy}");
    assert_eq!((&busy["priority"], &busy["yields"]), (&2.into(), &true.into()), "S33: {busy}");
    driver.release("new").await;
}

pub(crate) async fn share_is_said_back(driver: &mut Driver, _: &mut Sidecar) {
    let spec = json!({
        "function": "queue-1", "lease_ms": LONG,
        "priority": 7, "yields": true, "share": "queues", "rebalance": true,
    });
    driver.tell("w", "watch_locks", json!({ "share": "queues" })).await;
    driver.event("w", "listed").await;
    let alone = driver.hold("alone", "no-queue", LONG).await["lock_path"].clone();
    // A client that misses its echo releases the hold and fails (S37).
    driver.tell("a", "hold", spec.clone()).await;
    let path = driver.event("a", "granted").await["lock_path"].clone();
    let is_held = |told: &Value| told["path"] == path && told["state"] == "HELD";
    let told = driver.outcome_with("w", &["lock_changed"], is_held).await;
    assert_place(&told);
    driver.tell("b", "hold", spec.clone()).await;
    let busy = driver.event("b", "busy").await;
    assert_place(&busy);
    assert_eq!(busy["sidecar"], told["sidecar"], "S36: {busy}");
    assert_eq!(busy["priority_status"], "NOT_GREATER", "S33: {busy}");

    driver.tell("list", "list", json!({ "share": "queues" })).await;
    assert_eq!(driver.event("list", "listed").await["paths"], json!([path]), "S34");
    let of_another =
        |line: &str| line.contains("lock_changed") && line.contains(&alone.to_string());
    assert!(!driver.story().lines().any(of_another), "S34: {}", driver.story());

    let refusals =
        [("permits", json!(2), "spec.share"), ("yields", json!(false), "spec.rebalance")];
    for (option, value, field) in refusals {
        let mut wrong = spec.clone();
        wrong[option] = value;
        driver.tell("wrong", "hold", wrong).await;
        let refused = driver.event("wrong", "error").await;
        assert_eq!(refused["code"], "INVALID_ARGUMENT", "{refused}");
        let fields = refused["fields"].as_array().unwrap();
        assert!(fields.iter().any(|one| one == field), "{refused}");
    }
    for id in ["a", "alone"] {
        driver.release(id).await;
    }
    driver.tell("w", "cancel", json!({})).await;
}

/// The record's holder has the place that it asked for.
fn assert_place(told: &Value) {
    let place = json!([told["share"], told["priority"], told["yields"]]);
    assert_eq!(place, json!(["queues", 7, true]), "S36: {told}");
    assert!(told["sidecar"].as_str().is_some_and(|name| !name.is_empty()), "S36: {told}");
}
