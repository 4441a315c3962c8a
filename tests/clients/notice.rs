//! Scenarios of a hold that is told before it ends (S22).

use std::time::Duration;

use leasehold::time::{BootClock, Clock as _};
use serde_json::json;

use crate::clients::driver::Driver;
use crate::clients::scenarios::LONG;
use crate::clients::sidecar::Sidecar;

pub(crate) async fn notice(driver: &mut Driver, sidecar: &mut Sidecar) {
    let first = driver.hold("a", "told", LONG).await;
    driver.save("a", "begun").await;
    // Not by this client.
    sidecar.break_lock(&first["lock_path"], &[]);
    let revoked = driver.event("a", "revoked").await;
    assert_eq!(revoked["reason"], "a scenario", "S22: {revoked}");
    assert!(driver.validity("a").await.0, "S22: {}", driver.story());
    driver.tell("a", "info", json!({})).await;
    assert_eq!(driver.event("a", "info").await["state"], "REVOKED");
    driver.save("a", "nearly").await;
    // The release makes it available long before the lease could have expired.
    driver.tell("b", "hold", json!({ "function": "told", "wait_ms": 20_000 })).await;
    driver.event("b", "waiting").await;
    assert_eq!(driver.release_with("a", "finished").await, "saved", "S22");
    let next = driver.event("b", "granted").await;
    assert_eq!(next["checkpoint"], "finished", "S25");
    assert!(next["token"].as_u64() > first["token"].as_u64(), "S5");
    driver.release("b").await;
}

pub(crate) async fn broken_during_the_notice(driver: &mut Driver, sidecar: &mut Sidecar) {
    let path = driver.hold("a", "cut short", LONG).await["lock_path"].clone();
    sidecar.break_lock(&path, &[]);
    driver.event("a", "revoked").await;
    let clock = BootClock::new();
    let asked = clock.now();
    let (is_valid, remaining) = driver.validity("a").await;
    assert!(is_valid, "S22");
    sidecar.break_lock(&path, &["--now", "--yes"]);
    driver.event("a", "cancelled").await;
    let lost = driver.event("a", "lost").await;
    assert_eq!(lost["reason"], "BROKEN", "S22: {lost}");
    // It learned this, and did not only come to the end that it knew before.
    let took = clock.now().saturating_since(asked);
    assert!(took < Duration::from_millis(remaining), "S22: {}", driver.story());
    let refused = json!({ "value": "too late" });
    driver.tell("a", "save", refused).await;
    assert_eq!(driver.event("a", "save_failed").await["reason"], "HOLD_LOST", "S24");
}
