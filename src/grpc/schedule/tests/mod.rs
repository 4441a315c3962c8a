//! What comes in, told field by field: here subscriptions, in `asking` the other calls.

mod asking;

use std::collections::BTreeSet;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::from_proto;
use crate::grpc::proto::{self, schedule_spec::Timeout, schedule_spec::Timetable};
use crate::schedule::{CatchUp, Occasion, Overlap, RunId, RunTimeout};
use crate::timetable::UtcSecond;

const MINUTE: Duration = Duration::from_secs(60);

fn cron(expression: &str) -> proto::ScheduleSpec {
    let timetable = Some(Timetable::Cron(expression.to_owned()));
    proto::ScheduleSpec { timetable, ..proto::ScheduleSpec::default() }
}

fn nightly() -> proto::ScheduleSpec {
    cron("30 2 * * *")
}

const fn seconds(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

fn key(function: &str) -> Option<proto::LockKey> {
    Some(proto::LockKey { function: function.to_owned(), ..proto::LockKey::default() })
}

fn request(spec: proto::ScheduleSpec) -> proto::SubscribeScheduleRequest {
    let key = key("nightly");
    proto::SubscribeScheduleRequest { key, spec: Some(spec), ..Default::default() }
}

fn run_id() -> RunId {
    RunId {
        path: "locks/host/nightly".parse().unwrap(),
        occasion: Occasion::Scheduled(UtcSecond(1_800_000_000)),
        attempt: 2,
        token: crate::lock::FencingToken::from_u64(7).unwrap(),
    }
}

/// The fields that a refusal names, each with its problem.
fn violations(status: &Status) -> Vec<(String, String)> {
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let details = status.get_details_bad_request().expect("fields are named");
    details.field_violations.into_iter().map(|one| (one.field, one.description)).collect()
}

fn refused(spec: proto::ScheduleSpec) -> Vec<(String, String)> {
    violations(&from_proto::subscribe(request(spec)).unwrap_err())
}

type Row = (proto::ScheduleSpec, &'static str, &'static str);

/// Each spec is refused for one field, with these words.
fn assert_refused(table: impl IntoIterator<Item = Row>) {
    for (spec, field, problem) in table {
        let found = refused(spec.clone());
        let [(named, told)] = found.as_slice() else { panic!("{spec:?}: {found:?}") };
        assert_eq!(named, field, "{spec:?}: {told}");
        assert!(told.contains(problem), "{field}: {told}");
    }
}

fn changed(change: fn(&mut proto::ScheduleSpec)) -> proto::ScheduleSpec {
    let mut spec = nightly();
    change(&mut spec);
    spec
}

const HALF: Option<prost_types::Duration> =
    Some(prost_types::Duration { seconds: 1, nanos: 500_000_000 });

#[test]
fn s19_a_wrong_timetable_is_named_with_what_is_allowed() {
    assert_refused([
        (proto::ScheduleSpec::default(), "spec.cron", "set cron or every"),
        (cron(""), "spec.cron", "is empty"),
        (cron("* * * *"), "spec.cron", "has 4 fields"),
        (cron(&"* ".repeat(60)), "spec.cron", "has 60 fields"),
        (cron(&"1,".repeat(600)), "spec.cron", "at most 256"),
        (cron("\u{0} 2 * * *"), "spec.cron", "character"),
        (cron("30 2 \u{fffd} * *"), "spec.cron", "character"),
        (cron("99 2 * * *"), "spec.cron", "minute"),
        (cron("*/5 * * * * *"), "spec.cron", "every 5.0 s on average"),
        (cron("0 0 30 2 *"), "spec.cron", "never fires"),
        (cron("@dayly"), "spec.cron", "did you mean @daily?"),
        (
            proto::ScheduleSpec { timetable: seconds(9).map(Timetable::Every), ..cron("") },
            "spec.every",
            "10s",
        ),
        (
            proto::ScheduleSpec { timetable: seconds(-1).map(Timetable::Every), ..cron("") },
            "spec.every",
            "negative",
        ),
        (
            proto::ScheduleSpec { timetable: HALF.map(Timetable::Every), ..cron("") },
            "spec.every",
            "whole seconds",
        ),
        (
            changed(|spec| spec.time_zone = "Europe/Kopenhagen".to_owned()),
            "spec.time_zone",
            "did you mean Europe/Copenhagen?",
        ),
        (changed(|spec| spec.time_zone = "local".to_owned()), "spec.time_zone", "IANA"),
    ]);
}

#[test]
fn s19_a_wrong_policy_is_named_with_what_is_allowed() {
    let all = proto::CatchUp::All.into();
    assert_refused([
        (changed(|spec| spec.catch_up = 9), "spec.catch_up", "9 is not a policy"),
        (
            proto::ScheduleSpec { catch_up: all, ..nightly() },
            "spec.catch_up_max",
            "is required with catch_up ALL",
        ),
        (
            proto::ScheduleSpec { catch_up: all, catch_up_max: 101, ..nightly() },
            "spec.catch_up_max",
            "1 to 100",
        ),
        (changed(|spec| spec.catch_up_max = 1), "spec.catch_up_max", "only with catch_up ALL"),
        (changed(|spec| spec.catch_up_window = seconds(59)), "spec.catch_up_window", "60 s"),
        (changed(|spec| spec.grace = seconds(1)), "spec.grace", "from 40 s"),
        (
            changed(|spec| {
                (spec.grace, spec.lease_duration) = (seconds(129), seconds(60));
            }),
            "spec.grace",
            "from 130 s",
        ),
        (changed(|spec| spec.stop_grace = seconds(3_601)), "spec.stop_grace", "to 3600 s"),
        (changed(|spec| spec.progress_timeout = seconds(0)), "spec.progress_timeout", "from 1 s"),
        (
            changed(|spec| {
                (spec.grace, spec.lease_duration) = (seconds(39), seconds(15));
            }),
            "spec.grace",
            "from 40 s",
        ),
        (changed(|spec| spec.grace = seconds(7 * 86_400 + 1)), "spec.grace", "to 604800 s"),
        (changed(|spec| spec.overlap = -1), "spec.overlap", "FOLLOW or SKIP"),
        (changed(|spec| spec.max_attempts = 101), "spec.max_attempts", "1 to 100"),
        (changed(|spec| spec.backoff = seconds(0)), "spec.backoff", "from 1 s to 600 s"),
        (
            proto::ScheduleSpec { backoff: HALF, ..nightly() },
            "spec.backoff",
            "is 1.5s; a whole number of seconds",
        ),
        (
            changed(|spec| spec.timeout = seconds(0).map(Timeout::RunTimeout)),
            "spec.run_timeout",
            "from 1 s",
        ),
        (
            changed(|spec| spec.timeout = Some(Timeout::NoRunTimeout(false))),
            "spec.no_run_timeout",
            "must be true",
        ),
        (changed(|spec| spec.spread = seconds(86_401)), "spec.spread", "from 0 s to 86400 s"),
        (proto::ScheduleSpec { spread: seconds(-1), ..nightly() }, "spec.spread", "negative"),
        (changed(|spec| spec.takeover_check = seconds(601)), "spec.takeover_check", "1 s to 600 s"),
        (changed(|spec| spec.lease_duration = seconds(61)), "spec.lease_duration", "15 s to 60 s"),
    ]);
}

#[test]
fn s19_all_wrong_fields_are_named_at_once() {
    let mut wrong = proto::SubscribeScheduleRequest {
        key: key(&"x".repeat(257)),
        spec: Some(proto::ScheduleSpec {
            time_zone: "Mars".to_owned(),
            catch_up: proto::CatchUp::All.into(),
            catch_up_max: 200,
            catch_up_window: seconds(1),
            // What the least is depends on the lease duration, which is wrong.
            grace: seconds(1),
            max_attempts: 101,
            backoff: seconds(700),
            timeout: seconds(0).map(Timeout::RunTimeout),
            spread: seconds(100_000),
            takeover_check: seconds(0),
            lease_duration: seconds(1),
            overlap: 7,
            ..cron("not")
        }),
        holder: "\n".to_owned(),
        labels: [("not allowed".to_owned(), String::new())].into(),
        run_id: "x".to_owned(),
        ..Default::default()
    };
    let fields = |request| -> BTreeSet<String> {
        let found = violations(&from_proto::subscribe(request).unwrap_err());
        found.into_iter().map(|(field, _)| field).collect()
    };
    let named = |names: &[&str]| -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    };
    let policies = [
        "spec.backoff",
        "spec.catch_up_max",
        "spec.catch_up_window",
        "spec.cron",
        "spec.lease_duration",
        "spec.max_attempts",
        "spec.overlap",
        "spec.run_timeout",
        "spec.spread",
        "spec.takeover_check",
        "spec.time_zone",
    ];
    let mut expected = named(&policies);
    expected.extend(named(&["holder", "key.function", "labels", "run_id"]));
    assert_eq!(fields(wrong.clone()), expected);

    wrong.resume = Some(proto::Resume::default());
    wrong.run_id = String::new();
    expected.extend(named(&["resume.attempt_id", "resume.resume_token"]));
    assert_eq!(fields(wrong), expected, "the id of the run is required");
    let nothing = proto::SubscribeScheduleRequest::default();
    assert_eq!(fields(nothing), named(&["key", "spec"]));
}

#[test]
fn t3_function_and_scope_of_a_schedule_have_256_bytes() {
    let mut named = request(nightly());
    let key = named.key.as_mut().unwrap();
    (key.function, key.scope) = ("f".repeat(200), "s".repeat(56));
    assert!(from_proto::subscribe(named.clone()).is_ok());
    named.key.as_mut().unwrap().scope.push('s');
    let found = violations(&from_proto::subscribe(named).unwrap_err());
    assert_eq!(found[0].0, "key.function");
    assert!(found[0].1.contains("257 bytes"), "{found:?}");
}

#[test]
fn t16_a_spec_is_read_as_it_is_written_and_what_is_unset_stays_so() {
    let read = |spec| from_proto::subscribe(request(spec)).unwrap();
    let plain = read(nightly());
    assert!(plain.is_new && plain.resume.is_none() && plain.holder.is_none());
    let definition = plain.definition;
    assert_eq!(definition.lease_duration, None, "the sidecar's is no part of it");
    assert_eq!(definition.catch_up_window, None);
    assert_eq!((definition.catch_up, definition.overlap), (CatchUp::Latest, Overlap::Follow));
    assert_eq!(definition.run_timeout, RunTimeout::NextDue);
    assert_eq!((definition.max_attempts(), definition.revision), (3, 0));

    let full = read(proto::ScheduleSpec {
        time_zone: "europe/copenhagen".to_owned(),
        revision: u64::MAX,
        catch_up: proto::CatchUp::All.into(),
        catch_up_max: 100,
        catch_up_window: seconds(60),
        grace: seconds(40),
        overlap: proto::Overlap::Skip.into(),
        max_attempts: 100,
        backoff: seconds(600),
        timeout: Some(Timeout::NoRunTimeout(true)),
        spread: seconds(86_400),
        takeover_check: seconds(1),
        lease_duration: seconds(15),
        stop_grace: seconds(20),
        progress_timeout: seconds(30),
        timetable: seconds(90).map(Timetable::Every),
    });
    let definition = full.definition;
    assert_eq!(definition.timetable.canonical(), "@every 1m30s");
    assert_eq!(definition.timetable.zone(), "Europe/Copenhagen");
    assert_eq!(definition.revision, u64::MAX);
    assert_eq!((definition.catch_up, definition.overlap), (CatchUp::All(100), Overlap::Skip));
    assert_eq!(definition.run_timeout, RunTimeout::None);
    let spans = [
        (definition.catch_up_window.unwrap(), 60),
        (definition.grace(MINUTE), 40),
        (definition.stop_grace(), 20),
        (definition.progress_timeout.unwrap(), 30),
        (definition.first_backoff(), 600),
        (definition.spread, 86_400),
        (definition.takeover_check.unwrap(), 1),
        (definition.lease_duration.unwrap(), 15),
    ];
    for (span, seconds) in spans {
        assert_eq!(span, Duration::from_secs(seconds));
    }
}

#[test]
fn t16_who_reconnects_or_resumes_does_not_come_for_the_first_time() {
    let read = |request| from_proto::subscribe(request).unwrap();
    let again = proto::SubscribeScheduleRequest { reconnected: true, ..request(nightly()) };
    assert!(!read(again).is_new);
    let resume = proto::Resume {
        resume_token: "token".to_owned(),
        attempt_id: "one".to_owned(),
        told_valid_until: None,
    };
    let (resume, run_id) = (Some(resume), run_id());
    let resumed = proto::SubscribeScheduleRequest {
        resume,
        run_id: run_id.to_string(),
        ..request(nightly())
    };
    let resumed = read(resumed);
    assert!(!resumed.is_new);
    assert_eq!(resumed.resume.unwrap().run_id, run_id);
}
