use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use super::super::rig::{Rig, request, resume};
use super::*;
use crate::coordinator::{
    AcquireResult, EndFacts, HoldEnd, HoldEvent, HoldRequest, HoldStream, LockEvent, LockEventKind,
    LossReason, NotConfirmed, Outcome, RenewalFailure,
};
use crate::hold::StoreFailureKind;
use crate::lock::Permits;
use crate::record::{Labels as LockLabels, Priority};
use crate::testing::SimClock;
use crate::time::SignSource;

#[tokio::test(start_paused = true)]
async fn acquires_are_counted_by_result_and_timed() {
    let rig = Rig::paused();
    let grant = rig.granted(request("f", "")).await;
    assert!(matches!(rig.coordinator.acquire(request("f", "")).await, Ok(Outcome::Busy(_))));
    assert_eq!(rig.value("leasehold_holds"), 1.0);
    let patient = HoldRequest { wait: Duration::from_secs(3_600), ..request("f", "") };
    let waiting = tokio::spawn({
        let coordinator = rig.coordinator.clone();
        async move { coordinator.acquire(patient).await }
    });
    rig.pass(30).await;
    assert_eq!(rig.value("leasehold_waiters"), 1.0);
    assert_eq!(rig.value("leasehold_lock_paths"), 1.0);
    waiting.abort();
    rig.pass(1).await;
    assert_eq!(rig.value("leasehold_waiters"), 0.0);
    rig.coordinator.release(grant.lease_id, Some(grant.generation)).await.unwrap();
    for result in ["granted", "busy", "left"] {
        let series = format!("leasehold_acquires_total{{result=\"{result}\"}}");
        assert_eq!(rig.value(&series), 1.0, "{result}");
    }
    assert_eq!(rig.value("leasehold_acquire_wait_seconds_count{granted=\"true\"}"), 1.0);
    assert_eq!(rig.value("leasehold_acquire_wait_seconds_count{granted=\"false\"}"), 2.0);
    assert!(rig.value("leasehold_acquire_wait_seconds_sum{granted=\"false\"}") >= 30.0);
    assert_eq!(rig.value("leasehold_hold_duration_seconds_count{end=\"released\"}"), 1.0);
    assert!(rig.value("leasehold_hold_duration_seconds_sum{end=\"released\"}") >= 31.0);
    assert_eq!(rig.value("leasehold_holds"), 0.0);
    rig.pass(1).await;
    assert_eq!(rig.value("leasehold_locks_remembered"), 1.0);
}

#[tokio::test(start_paused = true)]
async fn refusals_because_of_limits_and_shutdown_are_acquires_too() {
    let rig = Rig::with_settings(SimClock::following_tokio(), |settings| settings.max_holds = 1);
    let grant = rig.granted(request("f", "")).await;
    rig.coordinator.acquire(request("g", "")).await.unwrap_err();
    assert_eq!(rig.value("leasehold_acquires_total{result=\"over_limit\"}"), 1.0);
    rig.coordinator.release(grant.lease_id, Some(grant.generation)).await.unwrap();
    assert_eq!(rig.value("leasehold_draining"), 0.0);
    rig.coordinator.drain(Duration::from_secs(1)).await;
    rig.coordinator.acquire(request("g", "")).await.unwrap_err();
    assert_eq!(rig.value("leasehold_acquires_total{result=\"shutting_down\"}"), 1.0);
    assert_eq!(rig.value("leasehold_draining"), 1.0);
}

#[tokio::test(start_paused = true)]
async fn renewals_are_counted_and_the_smallest_validity_is_shown() {
    let rig = Rig::paused();
    assert!(rig.value("leasehold_smallest_validity_seconds").is_nan(), "without holds");
    rig.granted(request("f", "")).await;
    rig.pass(10).await;
    rig.granted(request("g", "")).await;
    let smallest = rig.value("leasehold_smallest_validity_seconds");
    assert!((45.0..50.0).contains(&smallest), "the older one's: {smallest}");
    rig.pass(60).await;
    let renewed = rig.value("leasehold_renewals_total{result=\"succeeded\",cause=\"none\"}");
    assert!((4.0..=7.0).contains(&renewed), "each 20 s, of two: {renewed}");
    assert_eq!(rig.value("leasehold_renewal_latency_seconds_count"), renewed);
    assert_eq!(rig.value("leasehold_renewal_lateness_seconds_count"), renewed);
    assert_eq!(rig.value("leasehold_at_risk_total"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn s9_a_hold_that_cannot_be_renewed_is_shown_at_risk_and_then_lost() {
    let rig = Rig::paused();
    rig.granted(request("f", "")).await;
    assert_eq!(rig.value("leasehold_store_ready"), 1.0);
    rig.store.go_down(Duration::MAX);
    rig.pass(45).await;
    assert_eq!(rig.value("leasehold_at_risk_total"), 1.0);
    assert_eq!(rig.value("leasehold_holds_at_risk"), 1.0);
    assert_eq!(rig.value("leasehold_store_ready"), 0.0);
    let failed = "leasehold_renewals_total{result=\"failed\",cause=\"store_unavailable\"}";
    assert!(rig.value(failed) >= 1.0);
    let smallest = rig.value("leasehold_smallest_validity_seconds");
    assert!(smallest < 20.0, "{smallest}");
    rig.pass(20).await;
    assert_eq!(rig.value("leasehold_losses_total{reason=\"expired\"}"), 1.0);
    assert_eq!(rig.value("leasehold_hold_duration_seconds_count{end=\"lost\"}"), 1.0);
    assert_eq!(rig.value("leasehold_holds_at_risk"), 0.0);
    assert_eq!(rig.value("leasehold_holds"), 0.0);
}

/// A hold of a stream, and what resumes it.
async fn streamed(rig: &Rig) -> (HoldStream, String) {
    let mut stream = rig.coordinator.hold(&request("f", "")).unwrap();
    loop {
        match stream.next().await {
            Some(HoldEvent::Granted(grant)) => return (stream, grant.resume_token),
            Some(_) => {}
            None => panic!("the stream ended before the grant"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s16_a_resume_that_comes_too_late_is_a_loss_without_a_hold() {
    let rig = Rig::paused();
    let (stream, resume_token) = streamed(&rig).await;
    drop(stream);
    rig.pass(2).await;
    let mut resumed = rig.coordinator.resume(&resume(resume_token, None)).unwrap();
    while resumed.next().await.is_some() {}
    assert_eq!(rig.value("leasehold_acquires_total{result=\"resume_lost\"}"), 1.0);
    let losses = LossReason::ALL.map(|reason| {
        rig.value(&format!("leasehold_losses_total{{reason=\"{}\"}}", reason.as_str()))
    });
    assert_eq!(losses.iter().sum::<f64>(), 1.0);
    assert_eq!(rig.value("leasehold_hold_duration_seconds_count{end=\"lost\"}"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn s15_s16_a_hold_that_goes_on_elsewhere_is_not_counted_as_released() {
    let rig = Rig::paused();
    let (_stream, resume_token) = streamed(&rig).await;
    let other = rig.beside();
    let told = Some(rig.clock.boot_reading(rig.clock.now() + Duration::from_secs(30)));
    let _resumed = other.coordinator.resume(&resume(resume_token, told)).unwrap();
    rig.pass(40).await;
    let count = |rig: &Rig, end: &str| {
        rig.value(&format!("leasehold_hold_duration_seconds_count{{end=\"{end}\"}}"))
    };
    assert_eq!(count(&rig, "resumed_elsewhere"), 1.0);
    other.coordinator.hand_over(Duration::from_secs(20)).await;
    assert_eq!(count(&other, "handed_over"), 1.0);
    for rig in [&rig, &other] {
        assert_eq!(count(rig, "released"), 0.0);
    }
}

#[tokio::test]
async fn the_end_of_the_certificate_is_shown_and_follows_a_renewal() {
    let rig = Rig::new(SimClock::new());
    let series = "leasehold_tls_certificate_not_after_timestamp_seconds";
    assert!(rig.value(series).is_nan(), "without TLS");
    let (sender, not_after) = watch::channel(Some(UnixMillis(1_900_000_000_000)));
    rig.metrics.follow_certificate(not_after);
    assert_eq!(rig.value(series), 1_900_000_000.0);
    sender.send_replace(Some(UnixMillis(1_910_000_000_000)));
    assert_eq!(rig.value(series), 1_910_000_000.0);
}

#[tokio::test]
async fn the_end_of_the_signature_is_shown_and_follows_a_renewal() {
    let rig = Rig::new(SimClock::new());
    let series = "leasehold_store_signature_not_after_timestamp_seconds";
    assert!(rig.value(series).is_nan(), "without a signature");
    let (sender, end) = watch::channel(Some(UnixMillis(1_900_000_000_000)));
    rig.metrics.follow_signature(end);
    assert_eq!(rig.value(series), 1_900_000_000.0);
    sender.send_replace(None);
    assert!(rig.value(series).is_nan());
}

#[tokio::test]
async fn every_event_moves_its_series_and_no_other() {
    let span = Duration::from_secs(1);
    let acquire = |result| LockEventKind::NotGranted { result, waited: span, busy: None };
    let ended = |end| {
        let held = Some(span);
        LockEventKind::Ended(EndFacts { end, held, waited: span, detail: "", is_run: false })
    };
    let lost = |reason| ended(HoldEnd::Lost(reason));
    let renewal = |failure| LockEventKind::Renewal { failure, latency: None, lateness: span };
    let overruled = |moves| LockEventKind::Overruled { priority: Priority::NONE, moves };
    let collision = LockEventKind::Collision { stored: "a", ours: "b", is_new: false };
    let (others, ours) = (Permits::ONE, Permits::ONE);
    let permits = LockEventKind::PermitsDiffer { others, ours, is_new: false };
    let reason = LossReason::Taken;
    let refused = LockEventKind::ResumeRefused { reason, detail: "", unsaid: None };
    let at_risk = LockEventKind::AtRisk { cause: StoreFailureKind::Unavailable, detail: "" };
    let mut expected = vec![
        (at_risk, "leasehold_at_risk_total".to_owned()),
        (collision, "leasehold_host_type_collisions_total".to_owned()),
        (permits, "leasehold_permits_differ_total".to_owned()),
        (overruled(false), "leasehold_broken_for_caller_total{why=\"priority\"}".to_owned()),
        (overruled(true), "leasehold_broken_for_caller_total{why=\"balance\"}".to_owned()),
        (LockEventKind::Forgotten, "leasehold_locks_forgotten_total".to_owned()),
        (refused, "leasehold_resumes_refused_total".to_owned()),
        (LockEventKind::ForgottenRead, "leasehold_forgotten_locks_read_total".to_owned()),
        (
            LockEventKind::TokenNotGrowing { next: None },
            "leasehold_tokens_not_growing_total".to_owned(),
        ),
        (LockEventKind::PauseSuspected, "leasehold_pauses_suspected_total".to_owned()),
        (
            LockEventKind::ClockNotHeard { source: SignSource::WallClock },
            "leasehold_clocks_not_heard_total{clock=\"wall_clock\"}".to_owned(),
        ),
        (renewal(None), "leasehold_renewals_total{result=\"succeeded\",cause=\"none\"}".to_owned()),
    ];
    for result in AcquireResult::ALL {
        let series = format!("leasehold_acquires_total{{result=\"{}\"}}", result.as_str());
        expected.push((acquire(result), series));
    }
    for reason in LossReason::ALL {
        let series = format!("leasehold_losses_total{{reason=\"{}\"}}", reason.as_str());
        expected.push((lost(reason), series));
    }
    for why in NotConfirmed::ALL {
        let series = format!("leasehold_releases_not_confirmed_total{{why=\"{}\"}}", why.as_str());
        expected.push((ended(HoldEnd::NotConfirmed(why)), series));
    }
    for failure in RenewalFailure::EXPECTED {
        let cause = failure.as_str();
        let series = format!("leasehold_renewals_total{{result=\"failed\",cause=\"{cause}\"}}");
        expected.push((renewal(Some(failure)), series));
    }
    for (kind, series) in expected {
        let rig = Rig::new(SimClock::new());
        rig.metrics.observe(&LockEvent::of_sidecar(kind));
        let text = rig.text();
        let moved: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("leasehold_") && line.contains("_total"))
            .filter(|line| !line.ends_with(" 0"))
            .collect();
        assert_eq!(moved, [format!("{series} 1")], "{kind:?}");
    }
}

#[test]
fn every_store_failure_is_among_the_results_of_acquires() {
    let kinds = [
        StoreFailureKind::Unavailable,
        StoreFailureKind::Throttled,
        StoreFailureKind::Denied,
        StoreFailureKind::ContainerMissing,
        StoreFailureKind::StoreFailed,
        StoreFailureKind::Full,
        StoreFailureKind::TokenNotGrowing,
        StoreFailureKind::ShuttingDown,
    ];
    for kind in kinds {
        assert!(AcquireResult::ALL.contains(&AcquireResult::Failed(kind)), "{kind:?}");
    }
    let names: BTreeSet<&str> = AcquireResult::ALL.map(AcquireResult::as_str).into();
    assert_eq!(names.len(), AcquireResult::ALL.len(), "each has its own name");
}

#[tokio::test]
async fn the_start_is_shown_by_the_wall_clock_and_the_version_by_its_name() {
    let rig = Rig::new(SimClock::new());
    rig.clock.advance(Duration::from_secs(500));
    assert_eq!(rig.value("process_start_time_seconds"), 1_800_000_000.0);
    let build = concat!("leasehold_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"}");
    assert_eq!(rig.value(build), 1.0);
}

#[tokio::test(start_paused = true)]
async fn s20_nothing_that_a_caller_says_becomes_a_label() {
    let rig = Rig::paused();
    let labels = BTreeMap::from([("said-label".to_owned(), "said-value".to_owned())]);
    let told = HoldRequest {
        request_id: "said-request".to_owned(),
        holder: Some("said-holder".to_owned()),
        labels: LockLabels::new(labels).unwrap(),
        ..request("said-function", "said-scope")
    };
    let grant = rig.granted(told.clone()).await;
    let again = HoldRequest { request_id: String::new(), ..told };
    assert!(matches!(rig.coordinator.acquire(again).await, Ok(Outcome::Busy(_))));
    rig.store.go_down(Duration::MAX);
    rig.coordinator.acquire(request("said-other", "said-scope")).await.unwrap_err();
    rig.pass(70).await;
    for exposition in [Exposition::OpenMetrics, Exposition::Prometheus] {
        let text = rig.metrics.encode(&rig.scheduler, exposition);
        assert!(text.contains("leasehold_losses_total{reason=\"expired\"} 1"), "{text}");
        let private =
            ["said", grant.path.as_str(), grant.host_id.as_str(), &grant.lease_id.to_string()];
        for word in private {
            assert!(!text.contains(word), "{word} is in\n{text}");
        }
    }
}

/// A family as it is written: its type, its unit, its help, and the values of its labels.
#[derive(Debug, Default)]
struct Shown {
    kind: String,
    unit: Option<String>,
    help: String,
    labels: BTreeMap<String, BTreeSet<String>>,
    samples: usize,
}

/// Reads a text in OpenMetrics strictly: what is before what, and whose sample is whose.
fn parse(text: &str) -> Vec<(String, Shown)> {
    let body = text.strip_suffix("# EOF\n").expect("the end is marked");
    let mut families: Vec<(String, Shown)> = Vec::new();
    let mut seen = BTreeSet::new();
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(families.iter().all(|(other, _)| other != name), "{name} comes twice");
            families.push((name.to_owned(), Shown { help: help.to_owned(), ..Shown::default() }));
            continue;
        }
        let (name, shown) = families.last_mut().expect("help comes first");
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (typed, kind) = rest.split_once(' ').unwrap();
            assert_eq!((typed, shown.kind.as_str()), (name.as_str(), ""));
            shown.kind = kind.to_owned();
        } else if let Some(rest) = line.strip_prefix("# UNIT ") {
            let unit = rest.strip_prefix(&format!("{name} ")).unwrap();
            assert!(name.ends_with(&format!("_{unit}")), "{name} ends with its unit");
            shown.unit = Some(unit.to_owned());
        } else {
            assert!(seen.insert(line.rsplit_once(' ').unwrap().0.to_owned()), "{line} is double");
            shown.add(name, line);
        }
    }
    families
}

impl Shown {
    fn add(&mut self, family: &str, line: &str) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        value.parse::<f64>().unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let suffixes: &[&str] = match self.kind.as_str() {
            "counter" => &["_total"],
            "gauge" => &[""],
            "info" => &["_info"],
            "histogram" => &["_bucket", "_sum", "_count"],
            other => panic!("{family} is a {other}"),
        };
        let suffix = name.strip_prefix(family).unwrap();
        assert!(suffixes.contains(&suffix), "{name} of {family}");
        let labels = labels.strip_suffix('}').unwrap();
        for (label, value) in labels.split(',').filter_map(|label| label.split_once('=')) {
            let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap();
            self.labels.entry(label.to_owned()).or_default().insert(value.to_owned());
        }
        self.samples += 1;
    }
}

#[tokio::test]
async fn the_text_is_valid_and_every_series_is_there_from_the_start() {
    let rig = Rig::new(SimClock::new());
    let families = parse(&rig.text());
    for (name, shown) in &families {
        assert!(name.starts_with("leasehold_") || name.starts_with("process_"), "{name}");
        assert!(shown.help.ends_with('.') && !shown.help.ends_with(".."), "{name}: {}", shown.help);
        assert!(shown.samples > 0, "{name} has no series at the start");
        let unit =
            ["seconds", "bytes"].into_iter().find(|unit| name.ends_with(&format!("_{unit}")));
        assert_eq!(shown.unit.as_deref(), unit, "{name}");
    }
    let series = rig.text().lines().filter(|line| !line.starts_with('#')).count();
    assert!(series < 750, "{series} series are many for one sidecar");
}

const BEGIN: &str = "<!-- metrics: this table is checked against the code -->\n";
const END: &str = "<!-- end of metrics -->\n";

#[tokio::test]
async fn the_documentation_has_every_metric_and_no_other() {
    let rig = Rig::new(SimClock::new());
    let mut table =
        String::from("| metric | type | labels | what it is |\n| --- | --- | --- | --- |\n");
    for (name, shown) in parse(&rig.text()) {
        let name = match shown.kind.as_str() {
            "counter" => name + "_total",
            "info" => name + "_info",
            _ => name,
        };
        let mut labels = String::new();
        for (label, values) in shown.labels.iter().filter(|(label, _)| *label != "le") {
            let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
            let values =
                if label == "version" { "such as `0.1.0`".to_owned() } else { values.join(", ") };
            let separator = if labels.is_empty() { "" } else { "; " };
            write!(labels, "{separator}`{label}`: {values}").unwrap();
        }
        writeln!(table, "| `{name}` | {} | {labels} | {} |", shown.kind, shown.help).unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operations.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the table's beginning");
    let (_, after) = rest.split_once(END).expect("the table's end");
    let expected = format!("{before}{BEGIN}{table}{END}{after}");
    if std::env::var_os("LEASEHOLD_TEST_UPDATE").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap();
    assert!(
        found == expected,
        "docs/operations.md is not up to date: run this test with LEASEHOLD_TEST_UPDATE=1\n{table}"
    );
    assert_names_are_metrics(&found, &table);
}

/// What the rest of the document calls a metric is one.
fn assert_names_are_metrics(document: &str, table: &str) {
    let words = document.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    for word in words.filter(|word| word.starts_with("leasehold_")) {
        let name = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| word.strip_suffix(suffix))
            .unwrap_or(word);
        assert!(table.contains(&format!("`{name}`")), "{word} is documented, and is no metric");
    }
}
