//! Scenarios of those who stay: leaders, watchers of many locks, and callers that wait without end.

use serde_json::{Value, json};

use crate::clients::driver::Driver;
use crate::clients::scenarios::{LONG, SHORT};
use crate::clients::sidecar::Sidecar;

/// Longer than a release takes, and much shorter than a long lease.
const SOON: u64 = 20_000;

pub(crate) async fn lead(driver: &mut Driver, sidecar: &mut Sidecar) {
    let leader = json!({ "function": "leader", "lease_ms": SHORT });
    driver.tell("l", "lead", leader.clone()).await;
    let first = driver.event("l", "leading").await["token"].as_u64();
    driver.tell("k", "break", json!({ "function": "leader", "reason": "next", "now": true })).await;
    driver.event("k", "broken").await;
    driver.event("l", "term_ended").await;
    let second = driver.event("l", "leading").await["token"].as_u64();
    assert!(second > first, "S5: {first:?}, {second:?}");

    // Another one waits for its first term, also while the sidecar is away.
    driver.tell("m", "lead", leader).await;
    sidecar.kill();
    sidecar.restart().await;
    driver.tell("c", "check", json!({ "function": "leader", "token": second })).await;
    assert_eq!(driver.event("c", "checked").await["status"], "CURRENT", "S16");
    driver.tell("l", "stop_leading", json!({})).await;
    driver.event("l", "stopped_leading").await;
    let third = driver.event("m", "leading").await["token"].as_u64();
    assert!(third > second, "S5: {second:?}, {third:?}");
    driver.tell("m", "stop_leading", json!({})).await;
    driver.event("m", "stopped_leading").await;
    // Nobody waits: it was released, and did not expire.
    driver.hold("b", "leader", LONG).await;
    driver.release("b").await;
}

pub(crate) async fn stop_waiting_to_lead(driver: &mut Driver, _: &mut Sidecar) {
    driver.hold("a", "led", LONG).await;
    driver.tell("l", "lead", json!({ "function": "led" })).await;
    driver.tell("l", "stop_leading", json!({})).await;
    driver.event("l", "stopped_leading").await;
    driver.release("a").await;
    driver.tell("b", "hold", json!({ "function": "led", "wait_ms": SOON })).await;
    driver.event("b", "granted").await;
    driver.release("b").await;
}

pub(crate) async fn watch_locks(driver: &mut Driver, sidecar: &mut Sidecar) {
    let path = |granted: &Value| granted["lock_path"].as_str().unwrap().to_owned();
    let stays = path(&driver.hold("a", "stays", LONG).await);
    driver.release("a").await;
    let goes = path(&driver.hold("a", "goes", LONG).await);
    driver.release("a").await;
    let prefix = stays.split("stays").next().unwrap();

    driver.tell("w", "watch_locks", json!({ "prefix": prefix })).await;
    driver.lock_is("w", &stays, "AVAILABLE").await;
    driver.lock_is("w", &goes, "AVAILABLE").await;
    let listed = driver.event("w", "listed").await["locks"].as_u64().unwrap();
    assert!(listed >= 2, "{listed}");
    let comes = path(&driver.hold("a", "comes", LONG).await);
    driver.lock_is("w", &comes, "HELD").await;

    // What happens while the connection is broken is told afterwards, and nothing else again.
    let told_before = driver.told_of_lock(&stays);
    sidecar.kill();
    assert_eq!(sidecar.change_store("DELETE FROM locks", "goes"), 1);
    sidecar.restart().await;
    driver.lock_gone("w", &goes).await;
    driver.release("a").await;
    driver.lock_is("w", &comes, "AVAILABLE").await;
    assert_eq!(driver.told_of_lock(&stays), told_before, "{}", driver.story());

    // And what happens while it is not.
    assert_eq!(sidecar.change_store("DELETE FROM locks", "comes"), 1);
    driver.lock_gone("w", &comes).await;
    driver.tell("w", "cancel", json!({})).await;
}

pub(crate) async fn what_a_sidecar_says(driver: &mut Driver, _: &mut Sidecar) {
    driver.tell("s", "server_info", json!({})).await;
    let info = driver.event("s", "server_info").await;
    assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
    let features = info["features"].as_array().unwrap();
    for feature in ["checkpoints", "notice", "permits", "sharing", "wait-without-end", "break"] {
        assert!(features.iter().any(|one| one == feature), "{feature} is not in {features:?}");
    }
    assert!(!features.iter().any(|one| one == "hand-over"), "it was not asked for: {features:?}");
    let granted = driver.hold("a", "informed", LONG).await;
    driver.tell("a", "info", json!({})).await;
    let info = driver.event("a", "info").await;
    assert_eq!((&info["state"], &info["token"]), (&"HELD".into(), &granted["token"]), "{info}");
    driver.release("a").await;
}

pub(crate) async fn wait_forever_across_a_restart(driver: &mut Driver, sidecar: &mut Sidecar) {
    driver.hold("a", "forever", LONG).await;
    let forever = json!({ "function": "forever", "wait_forever": true });
    driver.tell("b", "hold", forever.clone()).await;
    driver.event("b", "waiting").await;
    driver.tell("c", "hold", forever).await;
    driver.event("c", "waiting").await;
    sidecar.kill();
    driver.event("a", "interrupted").await;
    sidecar.restart().await;
    driver.event("a", "resumed").await;
    // In the queue of the new one.
    driver.event("b", "waiting").await;
    driver.event("c", "waiting").await;
    driver.tell("b", "cancel", json!({})).await;
    driver.event("b", "aborted").await;
    driver.release("a").await;
    driver.event("c", "granted").await;
    driver.release("c").await;
    // b is not in the queue any more, or this would be granted to nobody.
    driver.tell("d", "hold", json!({ "function": "forever", "wait_ms": SOON })).await;
    driver.event("d", "granted").await;
    driver.release("d").await;
}

impl Driver {
    /// Waits until that lock is told to be in that state.
    async fn lock_is(&mut self, id: &str, path: &str, state: &str) {
        let is_it = |told: &Value| told["path"] == path && told["state"] == state;
        self.outcome_with(id, &["lock_changed"], is_it).await;
    }

    /// Waits until that lock is told to be gone.
    async fn lock_gone(&mut self, id: &str, path: &str) {
        self.outcome_with(id, &["lock_gone"], |told| told["path"] == path).await;
    }

    /// How often anything was told of that lock by a watch of many.
    fn told_of_lock(&self, path: &str) -> usize {
        let of_it = |line: &&str| line.contains("\"lock_") && line.contains(&format!("{path:?}"));
        self.story().lines().filter(of_it).count()
    }
}
