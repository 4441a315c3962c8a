//! Every refusal has its code, its reason and, where a field is wrong, its name (S18, S19).

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_client::proto::{
    BreakLockRequest, CheckTokenRequest, ExtendLeaseRequest, GetHoldRequest, GetLockRequest,
    HoldLeaseRequest, LeaseSpec, ListLocksRequest, LockKey, LockSelector, LockState,
    ReleaseLeaseRequest, ReportProgressRequest, ResolvePathRequest, Resume, WatchLockRequest,
    WatchLocksRequest, hold_lease_request::Start, list_locks_request::Under, lock_selector,
    watch_locks_request,
};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::grpc::rig::{Account, Sidecar, by_key, by_path, fields, key, reason, seconds, spec};

/// Specs with one mistake, and the field that is to be named.
fn wrong_specs() -> Vec<(&'static str, LeaseSpec)> {
    let with = |change: fn(&mut LeaseSpec)| {
        let mut spec = spec("nightly");
        change(&mut spec);
        spec
    };
    let key_with = |change: fn(&mut LockKey)| {
        let mut spec = spec("nightly");
        change(spec.key.as_mut().unwrap());
        spec
    };
    let long = || Some(prost_types::Duration { seconds: 86_401, nanos: 0 });
    assert_eq!(long().unwrap().seconds, 24 * 60 * 60 + 1);
    vec![
        ("spec.key", LeaseSpec::default()),
        ("spec.key.function", key_with(|key| key.function.clear())),
        ("spec.key.function", key_with(|key| key.function = "x".repeat(1_025))),
        ("spec.key.function", key_with(|key| key.function = "a\nb".to_owned())),
        ("spec.key.scope", key_with(|key| key.scope = "x".repeat(1_025))),
        ("spec.key.scope", key_with(|key| key.scope = "\u{7f}".to_owned())),
        ("spec.key.mode", key_with(|key| key.mode = 7)),
        ("spec.key.host_id", key_with(|key| key.host_id = Some("Not-Lower".to_owned()))),
        ("spec.key.host_id", key_with(|key| key.host_id = Some("x".repeat(33)))),
        ("spec.key.host_id", key_with(|key| key.host_id = Some(String::new()))),
        ("spec.key.host_type", key_with(|key| key.host_type = Some(String::new()))),
        ("spec.key.host_type", key_with(|key| key.host_type = Some("x".repeat(257)))),
        ("spec.lease_duration", with(|spec| spec.lease_duration = seconds(14))),
        ("spec.lease_duration", with(|spec| spec.lease_duration = seconds(61))),
        ("spec.lease_duration", with(|spec| spec.lease_duration = seconds(-20))),
        ("spec.lease_duration", with(|spec| spec.lease_duration = seconds(i64::MIN))),
        ("spec.wait", with(|spec| spec.wait = seconds(i64::MIN))),
        (
            "spec.wait",
            with(|spec| {
                spec.wait = Some(prost_types::Duration { seconds: i64::MIN, nanos: i32::MIN });
            }),
        ),
        (
            "spec.lease_duration",
            with(|spec| {
                spec.lease_duration = Some(prost_types::Duration { seconds: 20, nanos: 1 });
            }),
        ),
        ("spec.wait", with(|spec| spec.wait = seconds(86_401))),
        ("spec.wait", with(|spec| spec.wait = seconds(-1))),
        ("spec.max_hold", with(|spec| spec.max_hold = seconds(0))),
        ("spec.max_hold", with(|spec| spec.max_hold = seconds(86_401))),
        ("spec.min_hold", with(|spec| spec.min_hold = seconds(86_401))),
        ("spec.min_hold", with(|spec| spec.min_hold = seconds(601))),
        ("spec.progress_timeout", with(|spec| spec.progress_timeout = seconds(0))),
        ("spec.progress_timeout", with(|spec| spec.progress_timeout = seconds(86_401))),
        ("spec.request_id", with(|spec| spec.request_id = "x".repeat(129))),
        ("spec.request_id", with(|spec| spec.request_id = "\0".to_owned())),
        ("spec.holder", with(|spec| spec.holder = "x".repeat(257))),
        ("spec.holder", with(|spec| spec.holder = "a\tb".to_owned())),
        ("spec.permits", with(|spec| spec.permits = Some(0))),
        ("spec.permits", with(|spec| spec.permits = Some(33))),
        ("spec.labels", with(|spec| spec.labels = labels(17))),
        (
            "spec.labels",
            with(|spec| spec.labels = BTreeMap::from([("a b".to_owned(), String::new())])),
        ),
        (
            "spec.labels",
            with(|spec| spec.labels = BTreeMap::from([("a".to_owned(), "x".repeat(1_025))])),
        ),
    ]
}

/// Specs with a character in one field that nobody sees.
fn specs_with_the_unseen() -> Vec<(&'static str, LeaseSpec)> {
    let with = |change: fn(&mut LeaseSpec)| {
        let mut spec = spec("nightly");
        change(&mut spec);
        spec
    };
    let key_with = |change: fn(&mut LockKey)| {
        let mut spec = spec("nightly");
        change(spec.key.as_mut().unwrap());
        spec
    };
    vec![
        ("spec.key.function", key_with(|key| key.function = "night\u{200b}ly".to_owned())),
        ("spec.key.scope", key_with(|key| key.scope = "\u{202e}7-tnanet".to_owned())),
        ("spec.key.host_type", key_with(|key| key.host_type = Some("a\u{2060}".to_owned()))),
        ("spec.holder", with(|spec| spec.holder = "pod\u{2066}-1".to_owned())),
        ("spec.share", with(|spec| spec.share = "sha\u{ad}re".to_owned())),
        (
            "spec.labels",
            with(|spec| spec.labels = BTreeMap::from([("a".to_owned(), "\u{202e}x".to_owned())])),
        ),
    ]
}

fn labels(count: usize) -> BTreeMap<String, String> {
    (0..count).map(|number| (format!("label-{number}"), "x".to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn s19_each_wrong_field_of_a_spec_is_named_and_nothing_reaches_the_store() {
    let account = Account::new();
    let sidecar = account.sidecar();
    sidecar.link.go_down(Duration::MAX);
    for (field, spec) in wrong_specs().into_iter().chain(specs_with_the_unseen()) {
        let refused = sidecar.ask(spec.clone()).await.unwrap_err();
        assert_eq!(fields(&refused), [field], "{spec:?}");
        let streamed = sidecar.start(Start::Spec(spec.clone())).await;
        // A stream has no default and no ceiling of max_hold, so these are right there.
        let unary_only = [seconds(86_401), None].contains(&spec.max_hold)
            && ["spec.max_hold"].contains(&field)
            || spec.min_hold == seconds(601);
        match streamed {
            Ok(_) => assert!(unary_only, "{field}"),
            Err(refused) => assert_eq!(fields(&refused), [field], "{spec:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s19_all_mistakes_are_named_at_once() {
    let account = Account::new();
    let mut spec = spec("");
    spec.wait = seconds(-1);
    spec.holder = "x".repeat(300);
    let refused = account.sidecar().ask(spec).await.unwrap_err();
    assert_eq!(fields(&refused), ["spec.key.function", "spec.wait", "spec.holder"]);
}

macro_rules! refused {
    ($client:ident, $refusals:ident, $rpc:ident, $($field:literal: $request:expr),+) => {
        $($refusals.push(($field, $client.$rpc($request).await.unwrap_err()));)+
    };
}

async fn refusals(sidecar: &Sidecar) -> Vec<(&'static str, Status)> {
    let mut client = sidecar.client.clone();
    let id = || "no-such-id".to_owned();
    let mut refusals = of_lists(sidecar).await;
    refused!(client, refusals, acquire_lease, "spec": leasehold_client::proto::AcquireLeaseRequest { spec: None, needs: 0 });
    refused!(client, refusals, hold_lease,
        "start": HoldLeaseRequest { start: None, needs: 0 },
        "resume.resume_token": HoldLeaseRequest { start: Some(Start::Resume(Resume {
            attempt_id: "attempt-1".to_owned(), ..Resume::default() })), needs: 0 },
        "resume.attempt_id": HoldLeaseRequest { start: Some(Start::Resume(Resume {
            resume_token: "made up".to_owned(), ..Resume::default() })), needs: 0 },
        "resume.attempt_id": HoldLeaseRequest { start: Some(Start::Resume(Resume {
            resume_token: "made up".to_owned(), attempt_id: "x".repeat(65), ..Resume::default() })), needs: 0 },
        "resume.resume_token": HoldLeaseRequest { start: Some(Start::Resume(Resume {
            resume_token: "made up".to_owned(), told_valid_until: None, attempt_id: "attempt-1".to_owned() })), needs: 0 });
    refused!(client, refusals, release_lease,
        "lease_id": ReleaseLeaseRequest::default(),
        "lease_id": ReleaseLeaseRequest { lease_id: id(), ..ReleaseLeaseRequest::default() });
    refused!(client, refusals, extend_lease,
        "lease_id": ExtendLeaseRequest { lease_id: id(), max_hold: seconds(1), generation: 0 },
        "max_hold": ExtendLeaseRequest { lease_id: uuid(), max_hold: None, generation: 0 },
        "max_hold": ExtendLeaseRequest { lease_id: uuid(), max_hold: seconds(86_401), generation: 0 });
    refused!(client, refusals, report_progress,
        "lease_id": ReportProgressRequest { lease_id: id(), generation: 0 });
    refused!(client, refusals, get_hold,
        "lease_id": GetHoldRequest::default(),
        "lease_id": GetHoldRequest { lease_id: id(), generation: 0 });
    refused!(client, refusals, get_lock,
        "lock": GetLockRequest::default(),
        "lock": GetLockRequest { lock: Some(LockSelector::default()), ..GetLockRequest::default() },
        "lock.lock_path": GetLockRequest { lock: by_path("no-slash"), ..GetLockRequest::default() },
        "lock.key.function": GetLockRequest { lock: Some(LockSelector {
            lock: Some(lock_selector::Lock::Key(LockKey::default())), permit: 0 }),
            ..GetLockRequest::default() },
        "lock.permit": GetLockRequest { lock: by_key("nightly").map(|lock| LockSelector {
            permit: 32, ..lock }), ..GetLockRequest::default() },
        "lock.permit": GetLockRequest { lock: by_path("leasehold/a/b").map(|lock| LockSelector {
            permit: 1, ..lock }), ..GetLockRequest::default() });
    refused!(client, refusals, watch_lock, "lock": WatchLockRequest { lock: None });
    refused!(client, refusals, check_token,
        "fencing_token": CheckTokenRequest { lock: by_key("nightly"), fencing_token: 0 },
        "fencing_token": CheckTokenRequest { lock: by_key("nightly"), fencing_token: 1 << 53 });
    refused!(client, refusals, break_lock,
        "reason": BreakLockRequest { lock: by_key("nightly"), ..BreakLockRequest::default() },
        "reason": BreakLockRequest { lock: by_key("nightly"), reason: "x".repeat(513),
            ..BreakLockRequest::default() },
        "mode": BreakLockRequest { lock: by_key("nightly"), reason: "why".to_owned(), mode: 9,
            ..BreakLockRequest::default() },
        "broken_by": BreakLockRequest { lock: by_key("nightly"), reason: "why".to_owned(),
            broken_by: "x".repeat(257), ..BreakLockRequest::default() });
    refused!(client, refusals, resolve_path, "key": ResolvePathRequest { key: None });
    refusals
}

/// The refusals of what asks for many locks.
async fn of_lists(sidecar: &Sidecar) -> Vec<(&'static str, Status)> {
    let mut client = sidecar.client.clone();
    let mut refusals = Vec::new();
    refused!(client, refusals, list_locks,
        "host_id": ListLocksRequest { under: Some(Under::HostId("UPPER".to_owned())),
            ..ListLocksRequest::default() },
        "labels": ListLocksRequest { labels: [("a b".to_owned(), String::new())].into(),
            ..ListLocksRequest::default() },
        "states[1]": ListLocksRequest { states: vec![LockState::Held.into(), 9],
            ..ListLocksRequest::default() },
        "states[0]": ListLocksRequest { states: vec![0], ..ListLocksRequest::default() },
        "page_token": ListLocksRequest { page_token: "made up".to_owned(),
            ..ListLocksRequest::default() },
        "page_token": ListLocksRequest { page_token: "x".repeat(10_000),
            ..ListLocksRequest::default() });
    refused!(client, refusals, watch_locks,
        "labels": WatchLocksRequest { labels: [("a b".to_owned(), String::new())].into(),
            ..WatchLocksRequest::default() },
        "prefix": WatchLocksRequest { under: Some(watch_locks_request::Under::Prefix(
            "elsewhere/".to_owned())), ..WatchLocksRequest::default() },
        "host_id": WatchLocksRequest { under: Some(watch_locks_request::Under::HostId(
            "UPPER".to_owned())), ..WatchLocksRequest::default() });
    refusals
}

fn uuid() -> String {
    "00000000-0000-4000-8000-000000000000".to_owned()
}

#[tokio::test(start_paused = true)]
async fn s19_each_wrong_field_of_each_rpc_is_named() {
    let account = Account::new();
    let sidecar = account.sidecar();
    for (field, status) in refusals(&sidecar).await {
        assert_eq!(fields(&status), [field], "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn s19_a_lease_id_that_nobody_was_given_is_not_found() {
    let account = Account::new();
    let mut client = account.sidecar().client;
    let lease_id = uuid();
    let release =
        ReleaseLeaseRequest { lease_id: lease_id.clone(), ..ReleaseLeaseRequest::default() };
    let get = GetHoldRequest { lease_id: lease_id.clone(), generation: 0 };
    let extend =
        ExtendLeaseRequest { lease_id: lease_id.clone(), max_hold: seconds(1), generation: 0 };
    let report = ReportProgressRequest { lease_id, generation: 0 };
    let refusals = [
        client.release_lease(release).await.unwrap_err(),
        client.extend_lease(extend).await.unwrap_err(),
        client.report_progress(report).await.unwrap_err(),
        client.get_hold(get).await.unwrap_err(),
    ];
    for refused in refusals {
        assert_eq!(reason(&refused), (Code::NotFound, "UNKNOWN_LEASE".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_released_hold_can_neither_be_extended_nor_report() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let lease_id = sidecar.acquire(spec("nightly")).await.lease_id;
    sidecar.release(&lease_id).await;
    let request = ExtendLeaseRequest { lease_id, max_hold: seconds(1), generation: 0 };
    let refused = sidecar.client.clone().extend_lease(request).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::FailedPrecondition, "HOLD_RELEASED".to_owned()));
    let metadata = refused.get_details_error_info().unwrap().metadata;
    assert_eq!(metadata.get("loss_reason"), None, "a release is no loss");
}

#[tokio::test(start_paused = true)]
async fn overrides_are_refused_where_the_operator_forbids_them() {
    let account = Account::new();
    let sidecar = account.sidecar_with(|settings| settings.host.allow_override = false);
    let mut foreign = spec("nightly");
    foreign.key = Some(LockKey { host_id: Some("other".to_owned()), ..key("nightly") });
    let refused = sidecar.ask(foreign).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::PermissionDenied, "OVERRIDE_FORBIDDEN".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn s18_a_store_that_is_gone_is_unavailable_with_a_delay_and_comes_back() {
    let account = Account::new();
    let sidecar = account.sidecar();
    sidecar.link.go_down(Duration::from_secs(30));
    let refused = sidecar.ask(spec("nightly")).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::Unavailable, "STORE_UNAVAILABLE".to_owned()));
    let retry = refused.get_details_retry_info().unwrap().retry_delay.unwrap();
    assert!(retry > Duration::ZERO);
    let request = GetLockRequest { lock: by_key("nightly"), ..GetLockRequest::default() };
    let refused = sidecar.client.clone().get_lock(request).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::Unavailable, "STORE_UNAVAILABLE".to_owned()));
    let mut patient = spec("nightly");
    patient.wait = seconds(60);
    sidecar.acquire(patient).await;
}

#[tokio::test(start_paused = true)]
async fn s18_a_missing_container_and_refused_credentials_are_told_apart() {
    let account = Account::new();
    let sidecar = account.sidecar();
    account.store.locks().require_containers();
    let refused = sidecar.ask(spec("nightly")).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::FailedPrecondition, "CONTAINER_MISSING".to_owned()));
    assert!(refused.message().contains("leasehold"), "{refused}");
    let denying = leasehold::testing::FaultPlan { deny: 1_000, ..Default::default() };
    sidecar.link.set_plan(denying);
    let refused = sidecar.ask(spec("nightly")).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::PermissionDenied, "STORE_DENIED".to_owned()));
    let throttling = leasehold::testing::FaultPlan { throttle: 1_000, ..Default::default() };
    sidecar.link.set_plan(throttling);
    let refused = sidecar.ask(spec("nightly")).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::Unavailable, "STORE_THROTTLED".to_owned()));
    assert!(refused.get_details_retry_info().is_some());
}

#[tokio::test(start_paused = true)]
async fn s5_a_lock_that_fell_back_to_an_older_copy_is_not_granted() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let path = sidecar.acquire(spec("nightly")).await;
    sidecar.release(&path.lease_id).await;
    let lock_path = path.lock_path.parse().unwrap();
    let copy = account.store.locks().copy_record(&lock_path).unwrap();
    let later = sidecar.acquire(spec("nightly")).await;
    sidecar.release(&later.lease_id).await;
    account.store.locks().rewind_record(&lock_path, copy);
    account.clock.set_wall(leasehold::time::UnixMillis(1_000_000_000_000));
    let refused = sidecar.ask(spec("nightly")).await;
    match refused {
        Err(refused) => {
            assert_eq!(reason(&refused), (Code::DataLoss, "TOKEN_NOT_GROWING".to_owned()));
        }
        Ok(answer) => panic!("{answer:?}"),
    }
}

/// A text of nearly the size of the greatest message, of letters that take nine bytes each in a status'
/// message.
fn huge() -> String {
    "日".repeat(20_000)
}

async fn refusals_of_huge_input(sidecar: &Sidecar) -> Vec<(&'static str, Status)> {
    let mut client = sidecar.client.clone();
    let mut refusals = Vec::new();
    let changes: [fn(&mut LeaseSpec); 9] = [
        |spec| spec.key.as_mut().unwrap().function = huge(),
        |spec| spec.key.as_mut().unwrap().scope = huge(),
        |spec| spec.key.as_mut().unwrap().host_id = Some(huge()),
        |spec| spec.key.as_mut().unwrap().host_type = Some(huge()),
        |spec| spec.request_id = huge(),
        |spec| spec.holder = huge(),
        |spec| spec.share = huge(),
        |spec| spec.labels = BTreeMap::from([(huge(), String::new())]),
        |spec| spec.labels = BTreeMap::from([("日".repeat(300), String::new())]),
    ];
    for change in changes {
        let mut spec = spec("nightly");
        change(&mut spec);
        refusals.push(("spec", sidecar.ask(spec).await.unwrap_err()));
    }
    refused!(client, refusals, get_lock,
        "lock.lock_path": GetLockRequest { lock: by_path(&huge()), ..GetLockRequest::default() },
        "lock.lock_path": GetLockRequest { lock: by_path(&format!("leasehold/{}", huge())),
            ..GetLockRequest::default() },
        "lock.lock_path": GetLockRequest { lock: by_path(&format!("elsewhere/{}", "x".repeat(1_024))),
            ..GetLockRequest::default() });
    refused!(client, refusals, list_locks,
        "host_id": ListLocksRequest { under: Some(Under::HostId(huge())), ..ListLocksRequest::default() },
        "prefix": ListLocksRequest { under: Some(Under::Prefix(huge())), ..ListLocksRequest::default() },
        "page_token": ListLocksRequest { page_token: huge(), ..ListLocksRequest::default() },
        "states": ListLocksRequest { states: vec![9; 30_000], ..ListLocksRequest::default() });
    refused!(client, refusals, break_lock,
        "reason": BreakLockRequest { lock: by_key("nightly"), reason: huge(), ..BreakLockRequest::default() });
    refused!(client, refusals, release_lease,
        "lease_id": ReleaseLeaseRequest { lease_id: huge(), ..ReleaseLeaseRequest::default() });
    refused!(client, refusals, hold_lease,
        "resume": HoldLeaseRequest { start: Some(Start::Resume(Resume {
            resume_token: huge(), attempt_id: "a".to_owned(), told_valid_until: None })), needs: 0 });
    refusals
}

/// A status travels in headers: its message percent-encoded, its details once more. Clients take 8 KiB of
/// them.
#[tokio::test(start_paused = true)]
async fn s19_no_refusal_repeats_much_of_what_was_sent() {
    let account = Account::new();
    let sidecar = account.sidecar();
    for (field, refused) in refusals_of_huge_input(&sidecar).await {
        assert_eq!(refused.code(), Code::InvalidArgument, "{field}: {refused}");
        let encoded: usize =
            refused.message().bytes().map(|byte| if byte.is_ascii() { 1 } else { 3 }).sum();
        let bytes = encoded + refused.details().len() * 4 / 3;
        assert!(bytes < 8_000, "{field}: {bytes} bytes: {}", refused.message());
    }
}
