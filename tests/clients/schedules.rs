//! Scenarios of schedules: each occurrence is granted until one run of it is recorded, never after, never two
//! at once (T2).

use leasehold::time::{BootClock, Clock as _};
use serde_json::{Value, json};

use crate::clients::checkpoints::another;
use crate::clients::driver::Driver;
use crate::clients::sidecar::Sidecar;

/// The shortest span of a schedule in milliseconds (T15).
const SHORTEST: u64 = 10_000;
/// Long enough for a second attempt before the next occurrence is due.
const LONGER: u64 = 30_000;

pub(crate) async fn run_on_a_schedule(driver: &mut Driver, _: &mut Sidecar) {
    driver.subscribe("a", "scheduled", SHORTEST).await;
    let first = driver.run("a").await;
    assert_eq!(first.at % 10, 0, "T1: {first:?}");
    assert_eq!(first.attempt, 1, "T11: {first:?}");
    assert_eq!(driver.complete("a", "SUCCEEDED").await, "RECORDED", "T8");
    let second = driver.run("a").await;
    assert!(second.at > first.at && second.token > first.token, "T2: {first:?}, {second:?}");
    assert_eq!(second.attempt, 1, "T11: {second:?}");
    assert_eq!(driver.complete("a", "SUCCEEDED").await, "RECORDED", "T8");
    driver.unsubscribe("a").await;
}

pub(crate) async fn run_again_after_a_failure(driver: &mut Driver, _: &mut Sidecar) {
    driver.subscribe("a", "failing", LONGER).await;
    let first = driver.run("a").await;
    assert_eq!(driver.complete("a", "FAILED").await, "RECORDED", "T8");
    let second = driver.run("a").await;
    assert_eq!((second.at, second.attempt), (first.at, 2), "T11: {first:?}, {second:?}");
    assert!(second.token > first.token, "S5: {first:?}, {second:?}");
    assert_eq!(driver.complete("a", "SUCCEEDED").await, "RECORDED", "T8");
    let third = driver.run("a").await;
    assert!(third.at > second.at && third.attempt == 1, "T2: {second:?}, {third:?}");
    assert_eq!(driver.complete("a", "RETURNED").await, "RECORDED", "T8");
    driver.unsubscribe("a").await;
}

pub(crate) async fn share_a_schedule(driver: &mut Driver, sidecar: &mut Sidecar) {
    // Another process, of another language if there is one.
    let mut other = Driver::start(another(driver.language()), &sidecar.endpoint()).await;
    driver.subscribe("a", "shared", SHORTEST).await;
    other.subscribe("b", "shared", SHORTEST).await;
    let mut runs: Vec<Run> = Vec::new();
    for _ in 0..3 {
        let run = tokio::select! {
            run = driver.run("a") => {
                assert_eq!(driver.complete("a", "SUCCEEDED").await, "RECORDED", "T8");
                run
            }
            run = other.run("b") => {
                assert_eq!(other.complete("b", "SUCCEEDED").await, "RECORDED", "T8");
                run
            }
        };
        let is_new =
            runs.last().is_none_or(|before| run.at > before.at && run.token > before.token);
        assert!(is_new, "T2: {run:?} after {runs:?}");
        runs.push(run);
    }
    driver.unsubscribe("a").await;
    // The other one goes on alone.
    let last = other.run("b").await;
    assert!(runs.iter().all(|run| run.at < last.at), "T2: {last:?} after {runs:?}");
    assert_eq!(other.complete("b", "SUCCEEDED").await, "RECORDED", "T8");
    other.unsubscribe("b").await;
}

pub(crate) async fn run_across_a_restart(driver: &mut Driver, sidecar: &mut Sidecar) {
    driver.subscribe("a", "restarted", LONGER).await;
    let run = driver.run("a").await;
    sidecar.kill();
    driver.event("a", "interrupted").await;
    sidecar.restart().await;
    driver.event("a", "resumed").await;
    assert_eq!(driver.complete("a", "SUCCEEDED").await, "RECORDED", "S16, T8");
    let next = driver.run("a").await;
    assert!(next.at > run.at && next.attempt == 1, "T2: {run:?}, {next:?}");
    assert_eq!(driver.complete("a", "SUCCEEDED").await, "RECORDED", "T8");
    driver.unsubscribe("a").await;
}

/// T24: a function that never returns is told that its run is lost at the deadline, and from then on nothing
/// is given to it.
pub(crate) async fn function_that_hangs(driver: &mut Driver, sidecar: &mut Sidecar) {
    let mut other = Driver::start(another(driver.language()), &sidecar.endpoint()).await;
    let spec = json!({
        "function": "hung", "every_ms": SHORTEST, "backoff_ms": 1_000, "run_timeout_ms": 1_000,
    });
    driver.tell("a", "every", spec.clone()).await;
    let hung = driver.run("a").await;
    other.tell("b", "runs", spec).await;
    other.event("b", "subscribed").await;
    let lost = driver.event("a", "lost").await;
    // By the sidecar's word, or by its own clock.
    let reasons = ["MAX_HOLD_REACHED", "EXPIRED"];
    assert!(reasons.contains(&lost["reason"].as_str().unwrap()), "T12: {lost}");
    let mut last = hung.at;
    for _ in 0..3 {
        let run = other.run("b").await;
        assert!(run.at > last && run.attempt == 1, "T24: {run:?} after {last}");
        assert_eq!(other.complete("b", "SUCCEEDED").await, "RECORDED", "T8");
        last = run.at;
    }
    let shown = sidecar.schedule("hung");
    let ended = shown["state"]["ended"].as_array().unwrap();
    let of = |run: &Value| (run["outcome"].as_str().unwrap().to_owned(), run["attempt"].as_u64());
    let outcomes: Vec<_> = ended.iter().map(of).collect();
    let succeeded = ("succeeded".to_owned(), Some(1));
    let (first, others) = outcomes.split_last().unwrap();
    assert_eq!(*first, ("timed_out".to_owned(), Some(1)), "T12: {shown}");
    assert!(others.iter().all(|run| *run == succeeded), "T24: {shown}");
    other.unsubscribe("b").await;
    // It returns, and its client says so: so it is given the next one.
    driver.tell("a", "complete", json!({ "outcome": "SUCCEEDED" })).await;
    let next = driver.run("a").await;
    assert!(next.at > last && next.attempt == 1, "T24: {next:?} after {last}");
    driver.tell("a", "complete", json!({ "outcome": "SUCCEEDED" })).await;
    driver.unsubscribe("a").await;
}

pub(crate) async fn named_occurrence(driver: &mut Driver, _: &mut Sidecar) {
    let now = BootClock::new().wall().0 / 1_000;
    let first = driver.occurrence(now, None).await;
    assert_eq!(first["attempt"], 1, "T2: {first}");
    // It was released without an outcome, as if its holder had died.
    let second = driver.occurrence(now, Some("FAILED")).await;
    assert_eq!(
        (&second["attempt"], &second["recorded"]),
        (&json!(2), &json!(true)),
        "T8: {second}"
    );
    let third = driver.occurrence(now, Some("SUCCEEDED")).await;
    assert_eq!((&third["attempt"], &third["recorded"]), (&json!(3), &json!(true)), "T8: {third}");
    let done = driver.occurrence(now, Some("SUCCEEDED")).await;
    assert_eq!(
        (&done["event"], &done["outcome"]),
        (&json!("over"), &json!("SUCCEEDED")),
        "T2: {done}"
    );
    let skipped = driver.occurrence(now - 60, Some("SUCCEEDED")).await;
    assert_eq!(
        (&skipped["event"], &skipped["outcome"]),
        (&json!("over"), &Value::Null),
        "T2: {skipped}"
    );
}

/// What is told of a run.
#[derive(Debug)]
struct Run {
    /// The occurrence in seconds since 1970.
    at: u64,
    attempt: u64,
    token: u64,
}

impl Driver {
    /// Takes part in a schedule of a span, which is understood then.
    async fn subscribe(&mut self, id: &str, function: &str, every_ms: u64) {
        // A second attempt soon.
        let spec = json!({ "function": function, "every_ms": every_ms, "backoff_ms": 1_000 });
        self.tell(id, "runs", spec).await;
        self.event(id, "subscribed").await;
    }

    async fn unsubscribe(&mut self, id: &str) {
        self.tell(id, "cancel", json!({})).await;
        self.event(id, "aborted").await;
    }

    /// Waits for the next run.
    async fn run(&mut self, id: &str) -> Run {
        let told = self.event(id, "run").await;
        let number = |name: &str| told[name].as_u64().unwrap();
        Run { at: number("at"), attempt: number("attempt"), token: number("token") }
    }

    /// Says how the run ended; what became of that.
    async fn complete(&mut self, id: &str, outcome: &str) -> String {
        self.tell(id, "complete", json!({ "outcome": outcome })).await;
        self.event(id, "completed").await["result"].as_str().unwrap().to_owned()
    }

    /// Holds a lock for a named occurrence, and releases it with the outcome; what was told last.
    async fn occurrence(&mut self, at: u64, outcome: Option<&str>) -> Value {
        let spec = json!({ "function": "named", "at": at, "outcome": outcome });
        self.tell("o", "occurrence", spec).await;
        self.outcome("o", &["released", "over"]).await
    }
}
