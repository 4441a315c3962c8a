//! Scenarios of checkpoints: a holder saves, and the next one goes on from there.

use std::time::Duration;

use serde_json::{Value, json};

use crate::clients::driver::Driver;
use crate::clients::scenarios::{LONG, SHORT};
use crate::clients::sidecar::Sidecar;

/// Longer than a release takes, and much shorter than a long lease.
const SOON: u64 = 20_000;
/// The most bytes that a checkpoint may have (S23).
const MOST: usize = 2_048;

pub(crate) async fn save_and_read_back(driver: &mut Driver, sidecar: &mut Sidecar) {
    let granted = driver.hold("a", "saved", LONG).await;
    assert_eq!(granted["checkpoint"], Value::Null, "S23: {granted}");
    let mut before = 0;
    // An empty one is not the same as none.
    for value in ["one", "", "three \u{2713}"] {
        let version = driver.save("a", value).await;
        assert!(version > before, "S23: {version} after {before}");
        before = version;
    }
    assert!(before > granted["token"].as_u64().unwrap(), "S23: {before}");
    driver.release("a").await;

    // Another process, of another language if there is one.
    let mut next = Driver::start(another(driver.language()), &sidecar.endpoint()).await;
    let granted = next.hold("b", "saved", LONG).await;
    assert_eq!(granted["checkpoint"], "three \u{2713}", "S25: {}", next.language());
    assert!(next.save("b", "").await > before, "S23: {}", next.language());
    next.release("b").await;

    // Of a lock that was held here before.
    let granted = driver.hold("c", "saved", LONG).await;
    assert_eq!(granted["checkpoint"], "", "S25");
    driver.release("c").await;
}

pub(crate) async fn checkpoint_too_large(driver: &mut Driver, _: &mut Sidecar) {
    driver.hold("a", "large", LONG).await;
    let largest = "m".repeat(MOST);
    driver.save("a", &largest).await;
    let refused = driver.save_refused("a", &"x".repeat(MOST + 1)).await;
    assert_eq!(refused, "INVALID_FIELD", "S23");
    driver.release("a").await;
    let granted = driver.hold("b", "large", LONG).await;
    assert_eq!(granted["checkpoint"], largest, "S19");
    driver.release("b").await;
}

pub(crate) async fn late_save(driver: &mut Driver, sidecar: &mut Sidecar) {
    driver.hold("a", "late", SHORT).await;
    driver.save("a", "in time").await;
    // Behind the sidecar's back its lease becomes another's: only the store knows.
    assert_eq!(sidecar.change_store("UPDATE locks SET lease_id = randomblob(16)", "late"), 1);
    assert_eq!(driver.save_refused("a", "too late").await, "HOLD_LOST", "S24");
    let lost = driver.event("a", "lost").await;
    assert_eq!(lost["reason"], "TAKEN", "S24: {lost}");
    assert_eq!(driver.save_refused("a", "later still").await, "HOLD_LOST", "S24");
    driver.tell("k", "break", json!({ "function": "late", "reason": "to see", "now": true })).await;
    driver.event("k", "broken").await;
    // S13: not before the validity that was told last is over.
    driver.tell("b", "hold", json!({ "function": "late", "wait_ms": 50_000 })).await;
    let granted = driver.event("b", "granted").await;
    assert_eq!(granted["checkpoint"], "in time", "S24");
    driver.release("b").await;
}

pub(crate) async fn release_with_checkpoint(driver: &mut Driver, _: &mut Sidecar) {
    driver.hold("a", "last word", LONG).await;
    driver.save("a", "first").await;
    assert_eq!(driver.release_with("a", "last").await, "saved", "S26");
    // Nobody waits: it was released, and did not expire.
    let granted = driver.hold("b", "last word", LONG).await;
    assert_eq!(granted["checkpoint"], "last", "S26");
    // Handed on to one who waits, it goes from memory.
    driver.tell("c", "hold", json!({ "function": "last word", "wait_ms": SOON })).await;
    driver.event("c", "waiting").await;
    assert_eq!(driver.release_with("b", "").await, "saved", "S26");
    assert_eq!(driver.event("c", "granted").await["checkpoint"], "", "S25");
    driver.release("c").await;
}

pub(crate) async fn save_across_a_restart(driver: &mut Driver, sidecar: &mut Sidecar) {
    driver.hold("a", "carried", LONG).await;
    let first = driver.save("a", "before").await;
    sidecar.kill();
    driver.event("a", "interrupted").await;
    // It waits for the resume, and carries the generation of that.
    driver.tell("a", "save", json!({ "value": "meanwhile" })).await;
    sidecar.restart().await;
    let second = driver.saved("a").await;
    driver.event("a", "resumed").await;
    let third = driver.save("a", "after").await;
    assert!(first < second && second < third, "S23: {first}, {second}, {third}");
    assert!(driver.validity("a").await.0, "S16");
    driver.release("a").await;
    let granted = driver.hold("b", "carried", LONG).await;
    assert_eq!(granted["checkpoint"], "after", "S16");
    driver.release("b").await;
}

pub(crate) async fn checkpoint_unknown(driver: &mut Driver, sidecar: &mut Sidecar) {
    driver.hold("a", "unknown", SHORT).await;
    driver.save("a", "before").await;
    let store = sidecar.open_store();
    store.execute_batch("BEGIN EXCLUSIVE").unwrap();
    driver.tell("a", "save", json!({ "value": "perhaps" })).await;
    // By then the sidecar has been trying for long to store it; it ends before it has told what became of it.
    driver.event("a", "at_risk").await;
    sidecar.kill();
    let reason = driver.outcome("a", &["saved", "save_failed"]).await["reason"].clone();
    assert_eq!(reason, "CHECKPOINT_UNKNOWN", "S27: {}", driver.story());
    driver.event("a", "lost").await;
    store.execute_batch("COMMIT").unwrap();
    sidecar.restart().await;
    let next = json!({ "function": "unknown", "wait_ms": 50_000 });
    let stands = driver.hold_once_it_answers("b", next).await["checkpoint"].clone();
    assert!(stands == "before" || stands == "perhaps", "S27: {stands}");
    driver.release("b").await;
}

/// The language after this one, of those that run.
pub(crate) fn another(language: &'static str) -> &'static str {
    let languages = crate::clients::languages();
    let after = languages.iter().position(|one| *one == language).unwrap() + 1;
    languages[after % languages.len()]
}

impl Driver {
    /// Saves a checkpoint of a hold; its version.
    pub(crate) async fn save(&mut self, id: &str, value: &str) -> u64 {
        self.tell(id, "save", json!({ "value": value })).await;
        self.saved(id).await
    }

    /// Waits until a save is done; its version.
    async fn saved(&mut self, id: &str) -> u64 {
        let told = self.outcome(id, &["saved", "save_failed"]).await;
        assert_eq!(told["event"], "saved", "{}: {told}\n{}", self.language(), self.story());
        told["version"].as_u64().unwrap()
    }

    /// Saves a checkpoint that cannot be saved; why.
    pub(crate) async fn save_refused(&mut self, id: &str, value: &str) -> String {
        self.tell(id, "save", json!({ "value": value })).await;
        let told = self.outcome(id, &["saved", "save_failed"]).await;
        assert_eq!(told["event"], "save_failed", "{}: {told}", self.language());
        told["reason"].as_str().unwrap_or_default().to_owned()
    }

    /// Takes a lock of a sidecar that has just started: nothing has brought the client to connect anew yet.
    async fn hold_once_it_answers(&mut self, id: &str, spec: Value) -> Value {
        loop {
            self.tell(id, "hold", spec.clone()).await;
            let told = self.outcome(id, &["granted", "waiting", "error"]).await;
            match told["event"].as_str().unwrap() {
                "granted" => return told,
                "waiting" => return self.event(id, "granted").await,
                _ => assert_eq!(told["code"], "UNAVAILABLE", "{told}"),
            }
        }
    }

    /// Leaves the block with a checkpoint; what became of that.
    pub(crate) async fn release_with(&mut self, id: &str, value: &str) -> String {
        self.tell(id, "release", json!({ "checkpoint": value })).await;
        let told = self.event(id, "released").await;
        told["checkpoint"].as_str().unwrap_or_default().to_owned()
    }
}

impl Sidecar {
    /// Its file of locks, which others may be writing to.
    pub(crate) fn open_store(&self) -> rusqlite::Connection {
        let store = rusqlite::Connection::open(self.store()).unwrap();
        store.busy_timeout(Duration::from_secs(20)).unwrap();
        store
    }

    /// Changes the row of a function's lock behind the sidecar's back; how many rows that were.
    pub(crate) fn change_store(&self, change: &str, function: &str) -> usize {
        let of_the_lock = format!("{change} WHERE name LIKE '%/' || ?1 || '/%'");
        self.open_store().execute(&of_the_lock, [function]).unwrap()
    }
}
