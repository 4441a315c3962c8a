//! What an operator sees of how holds end: the log line, the series, and the alert that fires (S4, S13).

use std::time::Duration;

use tokio::time::sleep;

use super::Format;
use super::rig::{Captured, Rig, request};
use crate::coordinator::{BreakRequest, Grant, LockSelector, Released};
use crate::store::{BreakPeriod, Operation};

const SECOND: Duration = Duration::from_secs(1);
const RULES: &str = include_str!("../../helm/leasehold/templates/prometheus-rule.yaml");

/// What was logged of a lock, by level and message, and which of the chart's alerts on holds fire.
type Seen = (Vec<String>, Vec<&'static str>);

/// The chart's alerts that are about the end of a hold.
const ALERTS: [&str; 3] =
    ["LeaseholdLockLost", "LeaseholdReleaseNotConfirmed", "LeaseholdJobCutShort"];

/// Whether the chart's alert of this name fires: whether one of its series has grown, from the 0 that each
/// begins with.
fn fires(rig: &Rig, alert: &str) -> bool {
    let (_, rule) = RULES.split_once(&format!("- alert: {alert}\n")).unwrap();
    let expression = rule.lines().next().unwrap();
    let (_, series) = expression.split_once("increase(").unwrap();
    let (metric, labels) = series.split_once('{').unwrap();
    let (labels, _) = labels.rsplit_once("\"}[").unwrap();
    let (_, matcher) = labels.rsplit_once(',').unwrap();
    let (label, values) = matcher.split_once("=~\"").unwrap();
    values.split('|').any(|value| rig.value(&format!("{metric}{{{label}=\"{value}\"}}")) > 0.0)
}

/// What is seen while `story` goes on, which ends `grant` of one sidecar.
async fn seen<F: Future<Output = ()>>(rig: &Rig, story: F) -> Seen {
    let captured = Captured::default();
    let subscriber = captured.subscriber(Format::Json, "info");
    let guard = tracing::subscriber::set_default(subscriber);
    story.await;
    drop(guard);
    let mut logged = Vec::new();
    for line in captured.text().lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        if line["holder"] == "keeper-a-0" {
            let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            let told = [text("level"), text("message"), text("why"), text("reason")];
            logged.push(told.join(" ").trim_end().to_owned());
        }
    }
    let alerts = ALERTS.into_iter().filter(|alert| fires(rig, alert)).collect();
    (logged, alerts)
}

fn as_seen(logged: &[&str], alerts: &[&'static str]) -> Seen {
    (logged.iter().map(|line| (*line).to_owned()).collect(), alerts.to_vec())
}

async fn release(rig: &Rig, grant: &Grant) -> Released {
    rig.coordinator.release(grant.lease_id, Some(grant.generation)).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn s13_a_release_that_the_store_has_is_logged_as_that_and_alerts_nobody() {
    let rig = Rig::paused();
    let seen = seen(&rig, async {
        let grant = rig.granted(request("f", "")).await;
        assert_eq!(release(&rig, &grant).await, Released::Released);
    });
    let expected = as_seen(&["INFO lock granted", "INFO lock released"], &[]);
    assert_eq!(seen.await, expected);
}

#[tokio::test(start_paused = true)]
async fn s13_a_release_that_was_not_confirmed_is_a_warning_and_an_alert_of_its_own() {
    let rig = Rig::paused();
    let seen = seen(&rig, async {
        let grant = rig.granted(request("f", "")).await;
        sleep(10 * SECOND).await;
        rig.store.go_down(Duration::MAX);
        assert_eq!(release(&rig, &grant).await, Released::NotConfirmed);
        assert_eq!(release(&rig, &grant).await, Released::NotConfirmed, "again");
    });
    let expected = as_seen(
        &["INFO lock granted", "WARN release not confirmed no_answer"],
        &["LeaseholdReleaseNotConfirmed"],
    );
    assert_eq!(seen.await, expected);
    let ended = "leasehold_hold_duration_seconds_count{end=\"release_not_confirmed\"}";
    assert_eq!(rig.value(ended), 1.0);
    assert_eq!(rig.value("leasehold_hold_duration_seconds_count{end=\"released\"}"), 0.0);
}

/// The job had stopped in time; the lease ran out while the store was away.
#[tokio::test(start_paused = true)]
async fn s13_a_late_release_that_finds_the_lease_gone_is_no_loss() {
    let rig = Rig::paused();
    let other = rig.beside();
    let seen = seen(&rig, async {
        let grant = rig.granted(request("f", "")).await;
        // A renewal fails, so the sidecar has to wait for the end of the lease that it may have brought.
        sleep(17 * SECOND).await;
        rig.store.go_down(Duration::MAX);
        sleep(7 * SECOND).await;
        let let_go = rig.store.hold_before(Operation::Release);
        let releasing = tokio::spawn({
            let coordinator = rig.coordinator.clone();
            async move { coordinator.release(grant.lease_id, Some(grant.generation)).await }
        });
        sleep(SECOND).await;
        rig.store.go_down(Duration::ZERO);
        sleep(36 * SECOND).await;
        other.granted(request("f", "")).await;
        // What was sent before the lease may have run out has been given up.
        sleep(6 * SECOND).await;
        let_go.notify_one();
        assert_eq!(releasing.await.unwrap().unwrap(), Released::NotConfirmed);
    });
    let (logged, alerts) = seen.await;
    assert!(logged.contains(&"WARN release not confirmed lease_gone".to_owned()), "{logged:?}");
    assert!(!logged.iter().any(|line| line.contains("lost")), "{logged:?}");
    assert_eq!(alerts, ["LeaseholdReleaseNotConfirmed"]);
    assert_eq!(rig.value("leasehold_losses_total{reason=\"taken\"}"), 0.0);
}

/// It was taken while the job worked, which only its release has shown.
#[tokio::test(start_paused = true)]
async fn s13_a_release_that_finds_the_lease_taken_from_under_its_holder_is_a_loss() {
    let rig = Rig::paused();
    let other = rig.beside();
    let seen = seen(&rig, async {
        let grant = rig.granted(request("f", "")).await;
        let broken = BreakRequest {
            token: None,
            lock: LockSelector::Path(grant.path.clone()),
            period: BreakPeriod::Now,
            reason: "hangs".to_owned(),
            by: None,
            caller: String::new(),
        };
        other.coordinator.break_lock(broken).await.unwrap();
        other.granted(request("f", "")).await;
        let released = release(&rig, &grant).await;
        assert!(matches!(released, Released::AlreadyLost { .. }), "{released:?}");
    });
    let (logged, alerts) = seen.await;
    assert!(logged.contains(&"WARN lock lost  taken".to_owned()), "{logged:?}");
    assert_eq!(alerts, ["LeaseholdLockLost"]);
}

#[tokio::test(start_paused = true)]
async fn s4_a_hold_that_expires_is_a_loss_and_its_release_after_that_is_counted_no_more() {
    let rig = Rig::paused();
    let seen = seen(&rig, async {
        let grant = rig.granted(request("f", "")).await;
        rig.store.go_down(Duration::MAX);
        sleep(59 * SECOND).await;
        let released = release(&rig, &grant).await;
        assert!(matches!(released, Released::AlreadyLost { .. }), "{released:?}");
        sleep(60 * SECOND).await;
    });
    let (logged, alerts) = seen.await;
    let ends: Vec<_> = logged.iter().filter(|line| !line.contains("at risk")).collect();
    assert_eq!(ends, ["INFO lock granted", "WARN lock lost  expired"]);
    assert_eq!(alerts, ["LeaseholdLockLost"]);
}

#[tokio::test(start_paused = true)]
async fn s10_who_gave_the_lock_back_is_logged_before_who_has_it_next() {
    let rig = Rig::paused();
    let seen = seen(&rig, async {
        let grant = rig.granted(request("f", "")).await;
        let waits = crate::coordinator::HoldRequest { wait: 60 * SECOND, ..request("f", "") };
        let waiting = tokio::spawn({
            let coordinator = rig.coordinator.clone();
            async move { coordinator.acquire(waits).await }
        });
        sleep(SECOND).await;
        assert_eq!(release(&rig, &grant).await, Released::Released);
        waiting.await.unwrap().unwrap();
    });
    let expected = as_seen(&["INFO lock granted", "INFO lock released", "INFO lock granted"], &[]);
    assert_eq!(seen.await, expected);
}
