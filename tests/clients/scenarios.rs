//! What a client must do, whatever its language.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::clients::driver::Driver;
use crate::clients::sidecar::Sidecar;

/// The shortest lease, so that its end is not far.
pub(crate) const SHORT: u64 = 15_000;
pub(crate) const LONG: u64 = 60_000;

fn token(told: &Value) -> u64 {
    told["token"].as_u64().unwrap()
}

pub(crate) async fn acquire(driver: &mut Driver, _: &mut Sidecar) {
    let granted = driver.hold("a", "acquire", LONG).await;
    let (valid, remaining) = driver.validity("a").await;
    assert!(valid && (1..=LONG).contains(&remaining), "{remaining}");
    driver.tell("r", "resolve", json!({ "function": "acquire" })).await;
    assert_eq!(driver.event("r", "resolved").await["lock_path"], granted["lock_path"]);
    driver.tell("l", "list", json!({})).await;
    let listed = driver.event("l", "listed").await;
    assert!(listed["paths"].as_array().unwrap().contains(&granted["lock_path"]), "{listed}");
    for (token, status) in [(token(&granted), "CURRENT"), (1, "STALE")] {
        driver.tell("c", "check", json!({ "function": "acquire", "token": token })).await;
        assert_eq!(driver.event("c", "checked").await["status"], status);
    }
    driver.release("a").await;
}

pub(crate) async fn busy(driver: &mut Driver, _: &mut Sidecar) {
    let granted = driver.hold("a", "busy", LONG).await;
    driver.tell("b", "hold", json!({ "function": "busy" })).await;
    let busy = driver.event("b", "busy").await;
    assert_eq!(busy["token"], granted["token"]);
    assert!(!busy["holder"].as_str().unwrap().is_empty(), "{busy}");
    driver.release("a").await;
}

pub(crate) async fn wait(driver: &mut Driver, _: &mut Sidecar) {
    let first = driver.hold("a", "wait", LONG).await;
    driver.tell("b", "hold", json!({ "function": "wait", "wait_ms": 50_000 })).await;
    assert_eq!(driver.event("b", "waiting").await["place"], 1);
    driver.release("a").await;
    let second = driver.event("b", "granted").await;
    assert!(token(&second) > token(&first), "S5");
    driver.release("b").await;
}

pub(crate) async fn wait_without_end(driver: &mut Driver, _: &mut Sidecar) {
    // Longer than the sidecar allows to wait at once.
    driver.hold("a", "endless", LONG).await;
    driver.tell("b", "hold", json!({ "function": "endless", "wait_ms": -1 })).await;
    driver.event("b", "waiting").await;
    driver.release("a").await;
    driver.event("b", "granted").await;
    driver.release("b").await;
}

pub(crate) async fn cancel_while_waiting(driver: &mut Driver, _: &mut Sidecar) {
    driver.hold("a", "cancel", LONG).await;
    driver.tell("b", "hold", json!({ "function": "cancel", "wait_ms": 50_000 })).await;
    driver.event("b", "waiting").await;
    driver.tell("b", "cancel", json!({})).await;
    driver.event("b", "aborted").await;
    driver.tell("c", "hold", json!({ "function": "cancel", "wait_ms": 50_000 })).await;
    // Sooner or later b has left the queue, and c is served first.
    driver.event("c", "waiting").await;
    driver.release("a").await;
    driver.event("c", "granted").await;
    driver.release("c").await;
}

pub(crate) async fn exception_in_the_block(driver: &mut Driver, _: &mut Sidecar) {
    driver.hold("a", "exception", LONG).await;
    driver.tell("a", "fail", json!({})).await;
    assert_eq!(driver.event("a", "failed").await["error"], "boom");
    // Released on the way out: nobody waits.
    driver.hold("b", "exception", LONG).await;
    driver.release("b").await;
}

pub(crate) async fn bad_input(driver: &mut Driver, _: &mut Sidecar) {
    for (command, field) in [
        (json!({ "function": "" }), "spec.key"),
        (json!({ "function": "f", "lease_ms": 1_000 }), "spec.lease_duration"),
    ] {
        driver.tell("a", "hold", command).await;
        let error = driver.event("a", "error").await;
        assert_eq!(
            (&error["code"], &error["reason"]),
            (&"INVALID_ARGUMENT".into(), &"INVALID_FIELD".into()),
            "{error}"
        );
        let fields = error["fields"].as_array().unwrap();
        assert!(fields.iter().any(|name| name.as_str().unwrap().starts_with(field)), "{error}");
        assert!(!error["message"].as_str().unwrap().is_empty());
    }
}

pub(crate) async fn calls_of_their_own(driver: &mut Driver, _: &mut Sidecar) {
    driver.tell("a", "acquire", json!({ "function": "unary" })).await;
    let granted = driver.event("a", "granted").await;
    driver.tell("b", "acquire", json!({ "function": "unary" })).await;
    driver.event("b", "busy").await;
    let lease = json!({ "lease_id": granted["lease_id"], "max_hold_ms": 60_000 });
    driver.tell("e", "extend", lease.clone()).await;
    driver.event("e", "extended").await;
    driver.tell("r", "release_lease", lease.clone()).await;
    assert_eq!(driver.event("r", "released").await["outcome"], "RELEASED");
    driver.tell("e", "extend", lease).await;
    let late = driver.event("e", "error").await;
    assert_eq!(late["reason"], "HOLD_RELEASED", "{late}");
}

pub(crate) async fn progress(driver: &mut Driver, _: &mut Sidecar) {
    let command =
        json!({ "function": "progress", "progress_timeout_ms": 3_000, "lease_ms": SHORT });
    driver.tell("a", "hold", command).await;
    driver.event("a", "granted").await;
    driver.tell("a", "progress", json!({})).await;
    driver.event("a", "progressed").await;
    assert!(driver.validity("a").await.0);
    driver.event("a", "cancelled").await;
    let lost = driver.event("a", "lost").await;
    // The client's own clock may be the first to say that it is over.
    assert!(["NO_PROGRESS", "EXPIRED"].contains(&lost["reason"].as_str().unwrap()), "{lost}");
    assert!(!driver.validity_after_loss("a").await);
}

pub(crate) async fn watch(driver: &mut Driver, _: &mut Sidecar) {
    driver.hold("a", "watch", LONG).await;
    driver.tell("w", "watch", json!({ "function": "watch" })).await;
    assert_eq!(driver.event("w", "watched").await["state"], "HELD");
    driver.release("a").await;
    while driver.event("w", "watched").await["state"] != "AVAILABLE" {}
    driver.tell("w", "cancel", json!({})).await;
}

pub(crate) async fn loss_by_break(driver: &mut Driver, _: &mut Sidecar) {
    driver.hold("a", "broken", SHORT).await;
    driver.tell("b", "break", json!({ "function": "broken", "reason": "a scenario" })).await;
    driver.event("b", "broken").await;
    driver.event("a", "cancelled").await;
    let lost = driver.event("a", "lost").await;
    assert_eq!(lost["reason"], "BROKEN", "{lost}");
    assert!(!driver.validity_after_loss("a").await);
}

pub(crate) async fn release_says_already_lost(driver: &mut Driver, sidecar: &mut Sidecar) {
    // By a call, and by leaving the language's scope form (`with`, `defer`, `using`, try-with-resources, a
    // closure).
    for form in ["call", "scope"] {
        let function = format!("robbed-{form}");
        let command = json!({ "function": function, "lease_ms": LONG, "form": form });
        driver.tell(form, "hold", command).await;
        driver.event(form, "granted").await;
        // Behind the sidecar's back its lease becomes another's, long before the next renewal would find
        // that.
        let robbed = "UPDATE locks SET lease_id = randomblob(16)";
        assert_eq!(sidecar.change_store(robbed, &function), 1);
        driver.tell(form, "release", json!({})).await;
        let lost = driver.event(form, "lost").await;
        assert_eq!(lost["reason"], "TAKEN", "S13: {lost}");
    }
}

pub(crate) async fn at_risk_and_recovered(driver: &mut Driver, sidecar: &mut Sidecar) {
    driver.hold("a", "risk", SHORT).await;
    // Nobody else can write to the store.
    let store = sidecar.open_store();
    store.execute_batch("BEGIN EXCLUSIVE").unwrap();
    driver.event("a", "at_risk").await;
    let (is_valid, remaining) = driver.validity("a").await;
    assert!(is_valid, "at risk is not lost: {remaining}\n{}", driver.story());
    store.execute_batch("COMMIT").unwrap();
    driver.event("a", "recovered").await;
    assert!(driver.validity("a").await.0);
    driver.release("a").await;
}

pub(crate) async fn restart_with_resume(driver: &mut Driver, sidecar: &mut Sidecar) {
    let granted = driver.hold("a", "resumed", LONG).await;
    sidecar.kill();
    driver.event("a", "interrupted").await;
    sidecar.restart().await;
    driver.event("a", "resumed").await;
    assert!(driver.validity("a").await.0);
    let check = json!({ "function": "resumed", "token": granted["token"] });
    driver.tell("c", "check", check).await;
    assert_eq!(driver.event("c", "checked").await["status"], "CURRENT", "S16");
    driver.release("a").await;
}

pub(crate) async fn release_carries_the_newest_generation(
    driver: &mut Driver,
    sidecar: &mut Sidecar,
) {
    driver.hold("a", "generation", LONG).await;
    for _ in 0..2 {
        sidecar.kill();
        driver.event("a", "interrupted").await;
        sidecar.restart().await;
        driver.event("a", "resumed").await;
    }
    driver.release("a").await;
    // An older generation would have let it run out, and nobody waits here.
    driver.hold("b", "generation", LONG).await;
    driver.release("b").await;
}

pub(crate) async fn sidecar_stopped_past_the_lease(driver: &mut Driver, sidecar: &mut Sidecar) {
    driver.hold("a", "stopped", SHORT).await;
    sidecar.signal(Signal::STOP);
    driver.event("a", "cancelled").await;
    let lost = driver.event("a", "lost").await;
    sidecar.signal(Signal::CONT);
    assert_eq!(lost["reason"], "EXPIRED", "{lost}");
    assert!(!driver.validity_after_loss("a").await);
}

pub(crate) async fn client_stopped_past_its_validity(driver: &mut Driver, _: &mut Sidecar) {
    let granted = driver.hold("a", "frozen", SHORT).await;
    let (_, remaining) = driver.validity("a").await;
    driver.signal(Signal::STOP);
    // Nothing to wait for: this is how long it stands still, while its sidecar renews.
    tokio::time::sleep(Duration::from_millis(remaining + 1_000)).await;
    driver.signal(Signal::CONT);
    driver.event("a", "cancelled").await;
    let lost = driver.event("a", "lost").await;
    assert_eq!(lost["reason"], "EXPIRED", "S4: {lost}");
    assert!(!driver.validity_after_loss("a").await);
    driver.tell("b", "hold", json!({ "function": "frozen", "wait_ms": 50_000 })).await;
    assert!(token(&driver.event("b", "granted").await) > token(&granted));
    driver.release("b").await;
}

/// Locks one after the other; each is written to the disk twice, by all languages at once.
const QUICK: usize = 250;

pub(crate) async fn quick_locks(driver: &mut Driver, _: &mut Sidecar) {
    driver.tell("q", "quick", json!({ "function": "quick", "times": QUICK })).await;
    let done = driver.event("q", "done").await;
    let tokens: Vec<u64> =
        done["tokens"].as_array().unwrap().iter().map(|token| token.as_u64().unwrap()).collect();
    assert_eq!(tokens.len(), QUICK);
    assert!(tokens.is_sorted_by(|before, after| before < after), "S5");
}

pub(crate) async fn sidecar_gone_for_good(driver: &mut Driver, sidecar: &mut Sidecar) {
    driver.hold("a", "gone", SHORT).await;
    sidecar.kill();
    driver.event("a", "cancelled").await;
    let lost = driver.event("a", "lost").await;
    assert_eq!(lost["reason"], "EXPIRED", "{lost}");
    driver.tell("b", "hold", json!({ "function": "gone" })).await;
    let nobody = driver.event("b", "error").await;
    assert_eq!(nobody["code"], "UNAVAILABLE", "{nobody}");
}

impl Driver {
    /// What a hold that is lost says of itself, if there is anybody left to ask.
    async fn validity_after_loss(&mut self, id: &str) -> bool {
        self.tell(id, "validity", json!({})).await;
        // A driver that has let go of the hold says nothing, or that nothing is held; then another command
        // answers.
        self.tell("after", "resolve", json!({ "function": "after" })).await;
        self.event("after", "resolved").await;
        self.told_valid(id)
    }
}
