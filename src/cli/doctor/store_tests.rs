use std::sync::Arc;

use super::*;
use crate::config::Sources;
use crate::host_id::HostIdProvider as _;
use crate::store::MemoryStore;
use crate::testing::{FaultPlan, FaultyStore, SimClock};

fn config() -> Config {
    Config::load(&Sources {
        file: None,
        variables: vec![("LEASEHOLD_STORE_KIND".into(), "memory".into())],
        flags: vec![],
        host_name: None,
        read_file: |path| std::fs::read(path),
    })
    .unwrap()
}

/// What the doctor finds at `store`: check and status of each finding, and the exit code.
async fn findings(store: &dyn LeaseStore, clock: &SimClock) -> (Vec<(String, String)>, Exit) {
    let config = config();
    let identity = config.host_id.provider.provide().unwrap();
    let mut report = Report::default();
    examine(store, clock, &config, &identity, &mut report).await;
    let json = serde_json::to_value(&report).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let found = json["checks"].as_array().unwrap().iter();
    (found.map(|one| (text(&one["check"]), text(&one["status"]))).collect(), report.exit())
}

#[tokio::test]
async fn a_store_that_lets_us_do_everything_is_well_and_nothing_is_left() {
    let clock = Arc::new(SimClock::new());
    let store = MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>);
    let (found, exit) = findings(&store, &clock).await;
    assert_eq!(exit, Exit::Success, "{found:?}");
    assert!(found.iter().all(|(_, status)| status == "good"), "{found:?}");
    let checks: Vec<&str> = found.iter().map(|(check, _)| check.as_str()).collect();
    assert!(checks.contains(&"break a lease") && checks.len() >= 9, "{checks:?}");
    let container = config().paths.container;
    let list = List { container, prefix: String::new(), continuation: None, limit: 10 };
    assert!(store.list(list).await.unwrap().locks.is_empty());
}

#[tokio::test]
async fn s18_a_store_that_is_away_ends_in_unavailable() {
    let clock = Arc::new(SimClock::new());
    let memory = Arc::new(MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>));
    let quiet = FaultPlan::default();
    let store = FaultyStore::new(memory, Arc::clone(&clock) as Arc<dyn Clock>, 1, quiet);
    store.go_down(Duration::from_secs(60));
    let (found, exit) = findings(&store, &clock).await;
    assert_eq!(exit, Exit::Unavailable);
    assert_eq!(found, [("reach".to_owned(), "bad".to_owned())]);
}

#[tokio::test]
async fn refused_credentials_have_to_be_corrected() {
    let clock = Arc::new(SimClock::new());
    let memory = Arc::new(MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>));
    let plan = FaultPlan { deny: 1_000, ..FaultPlan::default() };
    let store = FaultyStore::new(memory, Arc::clone(&clock) as Arc<dyn Clock>, 1, plan);
    let (_, exit) = findings(&store, &clock).await;
    assert_eq!(exit, Exit::Misconfigured);
}

/// A finding of a store that refuses to break leases, with and without `admin.allow_break`.
#[test]
fn s17_that_leases_may_not_be_broken_matters_where_locks_are_broken() {
    let refused = || StoreError::Denied {
        operation: "break the lease",
        advice: "add the permission".to_owned(),
        source: "refused".into(),
    };
    for (allow_break, status, exit) in
        [(false, "warning", Exit::Success), (true, "bad", Exit::Misconfigured)]
    {
        let mut report = Report::default();
        note_break(&mut report, allow_break, Err(refused()));
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!((json["checks"][0]["status"].as_str(), report.exit()), (Some(status), exit));
        assert!(json["checks"][0]["detail"].to_string().contains("add the permission"), "{json}");
    }
    let away = StoreError::Unavailable { sent: true, source: "away".into() };
    let mut report = Report::default();
    note_break(&mut report, false, Err(away));
    assert_eq!(report.exit(), Exit::Unavailable);
}

#[test]
fn clocks_that_are_apart_are_told_with_the_direction() {
    let json = |ahead| serde_json::to_value(of_clocks(ahead)).unwrap();
    assert_eq!(json(400)["status"], "good");
    assert_eq!(json(-90_000)["status"], "warning");
    assert!(json(-90_000)["detail"].to_string().contains("90.0 s behind"));
    let span = Duration::from_secs(2);
    assert_eq!(difference(UnixMillis(10_000), UnixMillis(11_000), span), 0);
}

#[test]
fn a_slow_store_is_told_with_a_warning() {
    let json = |slowest| serde_json::to_value(of_latency(slowest, slowest)).unwrap();
    assert_eq!(json(Duration::from_millis(12))["status"], "good");
    assert_eq!(json(Duration::from_secs(2))["status"], "warning");
}
