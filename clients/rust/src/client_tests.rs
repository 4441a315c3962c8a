use serde_json::json;
use tokio::sync::mpsc::unbounded_channel;
use tonic::Status;

use super::{Client, LeaseSpec, ListLocks, LockKey, Outcome, WatchLocks, io};
use crate::fake::{Bench, OURS, grant, seconds, soon, status, validity};
use crate::messages::Code;
use crate::proto::acquire_lease_response::Outcome as Wire;
use crate::proto::watch_locks_response::Event;
use crate::proto::*;

fn record(path: &str) -> LockRecord {
    LockRecord { lock_path: path.to_owned(), ..LockRecord::default() }
}

#[tokio::test(start_paused = true)]
async fn every_call_about_locks_reaches_the_sidecar() {
    let bench = Bench::new();
    let (client, sidecar) = (&bench.client, &bench.sidecar);
    let lock = || crate::LockSelector::path("locks/a");
    let wire = || Some(lock().into_wire());
    let checkpoint = Some(Checkpoint { value: b"x".to_vec(), ..Checkpoint::default() });
    let records = Some(LockRecord { checkpoint, ..record("locks/a") });
    sidecar.always("get_lock", Ok(GetLockResponse { record: records }));
    assert_eq!(client.get_lock(LockKey::new("f", "s")).await.unwrap().lock_path, "locks/a");
    let asked: GetLockRequest = sidecar.last("get_lock");
    assert_eq!(asked.lock, Some(crate::LockSelector::from(LockKey::new("f", "s")).into_wire()));
    assert_eq!(client.get_checkpoint(lock()).await.unwrap().unwrap().value, b"x");
    let asked: GetLockRequest = sidecar.last("get_lock");
    assert_eq!(asked, GetLockRequest { lock: wire(), with_checkpoint: true });

    let (records, next_page_token) = (vec![record("a")], "next".to_owned());
    sidecar.answer("list_locks", ListLocksResponse { records, next_page_token });
    let page = client.list_locks(ListLocks::default().page("first").in_share("queues")).await;
    let page = page.unwrap();
    assert_eq!((page.next_page_token.as_str(), page.records.len()), ("next", 1));
    let asked: ListLocksRequest = sidecar.last("list_locks");
    assert_eq!((asked.page_token.as_str(), asked.share.as_str()), ("first", "queues"));

    let (status, newest_fencing_token) = (TokenStatus::Stale.into(), Some(8));
    sidecar.answer("check_token", CheckTokenResponse { status, newest_fencing_token });
    let token = client.check_token(lock(), 7).await.unwrap();
    assert_eq!((token.status, token.newest_fencing_token), (crate::TokenStatus::Stale, Some(8)));
    let asked: CheckTokenRequest = sidecar.last("check_token");
    assert_eq!(asked, CheckTokenRequest { lock: wire(), fencing_token: 7 });

    let (outcome, record) = (BreakOutcome::Breaking.into(), Some(record("locks/a")));
    sidecar.answer("break_lock", BreakLockResponse { outcome, free_in: None, record });
    let broken = client.break_lock(crate::BreakLock::new(lock(), "a test")).await.unwrap();
    assert_eq!(broken.outcome, crate::BreakOutcome::Breaking);
    assert_eq!(sidecar.last::<BreakLockRequest>("break_lock").reason, "a test");

    let (lock_path, version) = ("locks/f".to_owned(), "9.8.7".to_owned());
    sidecar.answer("resolve_path", ResolvePathResponse { lock_path, ..Default::default() });
    assert_eq!(client.resolve_path(LockKey::new("f", "")).await.unwrap().lock_path, "locks/f");
    let features = vec!["notice".to_owned()];
    let info = GetServerInfoResponse { version, features, ..GetServerInfoResponse::default() };
    sidecar.answer("get_server_info", info);
    let info = client.get_server_info().await.unwrap();
    assert_eq!((info.version.as_str(), info.features), ("9.8.7", vec!["notice".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn every_call_about_a_hold_reaches_the_sidecar() {
    let bench = Bench::new();
    let (client, sidecar) = (&bench.client, &bench.sidecar);
    let validity = Some(validity(1_090, 90));
    let answer = ExtendLeaseResponse { validity: validity.clone(), ..Default::default() };
    sidecar.answer("extend_lease", answer);
    let expected = crate::Validity::from_wire(&validity.clone().unwrap());
    assert_eq!(client.extend("lease-9", seconds(90)).await.unwrap().validity, expected);
    sidecar.answer("report_progress", ReportProgressResponse { validity });
    assert_eq!(client.report_progress("lease-9").await.unwrap(), expected);
    sidecar.answer("get_hold", GetHoldResponse { permit: 2, ..GetHoldResponse::default() });
    assert_eq!(client.get_hold("lease-9").await.unwrap().permit, 2);
    sidecar.answer("save_checkpoint", SaveCheckpointResponse { version: 4, validity: None });
    assert_eq!(client.save_checkpoint("lease-9", "x").await.unwrap(), 4);
    let error = client.release_with_checkpoint("lease-9", "x").await.unwrap_err();
    assert!(matches!(error, crate::Error::CheckpointNotSaved(_)), "{error}");
    let outcome = crate::RunOutcome::Succeeded;
    let error = client.release_with_outcome("lease-9", outcome).await.unwrap_err();
    assert!(matches!(error, crate::Error::OutcomeNotRecorded(_)), "{error}");
    let released = client.release("lease-9").await.unwrap();
    assert_eq!(released.outcome, crate::ReleaseOutcome::Released);
    let asked: ReleaseLeaseRequest = sidecar.last("release_lease");
    assert_eq!(asked, ReleaseLeaseRequest { lease_id: "lease-9".to_owned(), ..asked.clone() });
    let asked = ["extend_lease 0 90000", "report_progress 0", "get_hold 0", "save_checkpoint 0 x"];
    assert_eq!(bench.asked(), [asked.as_slice(), &["release 0"; 3]].concat());
}

#[tokio::test(start_paused = true)]
async fn an_acquire_is_granted_or_busy_and_nothing_else() {
    let bench = Bench::new();
    let acquire = async |outcome| {
        bench.sidecar.answer("acquire_lease", AcquireLeaseResponse { outcome });
        bench.client.acquire(LeaseSpec::new("f")).await
    };
    assert!(matches!(acquire(None).await, Err(crate::Error::Protocol(_))));
    let granted = acquire(Some(Wire::Granted(grant()))).await.unwrap().granted();
    assert_eq!(granted, Some(crate::Grant::from_wire(grant())));
    let busy = acquire(Some(Wire::Busy(Busy::default()))).await.unwrap();
    assert!(matches!(busy, Outcome::Busy(_)));
    assert_eq!(bench.sidecar.last::<AcquireLeaseRequest>("acquire_lease").needs, 1, "S37");
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_sidecar_has_its_code_and_reason() {
    let bench = Bench::new();
    let told = json!({"code": "RESOURCE_EXHAUSTED", "reason": "STORE_THROTTLED"});
    bench.sidecar.refuse("report_progress", status(&told));
    let error = bench.client.report_progress("x").await.unwrap_err();
    let reason = error.reason().map(crate::Reason::as_str);
    assert_eq!((error.code(), reason), (Some(Code::ResourceExhausted), Some("STORE_THROTTLED")));
    assert_eq!(error.to_string(), "so it is");
}

#[tokio::test(start_paused = true)]
async fn s14_the_kernel_a_fresh_token_and_what_interceptors_add_go_with_each_call() {
    struct Named;
    impl crate::Interceptor for Named {
        fn intercept(&self, call: &mut crate::Call) -> io::Result<()> {
            let method = call.method().to_owned();
            call.add("of-a-test", method);
            Ok(())
        }
    }
    let read = std::sync::atomic::AtomicU64::new(0);
    let token = move || Ok(format!("{}\n", read.fetch_add(1, std::sync::atomic::Ordering::SeqCst)));
    let builder = Client::builder("a test").interceptor(Named).bearer_token_with(token);
    let bench = Bench::of(builder);
    for token in 0..2 {
        bench.sidecar.refuse("get_hold", Status::unavailable("not now"));
        bench.client.get_hold("x").await.unwrap_err();
        let asked = &bench.sidecar.taken()[0];
        let names = ["authorization", "leasehold-boot-id", "of-a-test"];
        let expected = [&format!("Bearer {token}"), OURS, "GetHold"];
        assert_eq!(names.map(|name| asked.metadata(name)), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_opened_again_and_repeats_nothing() {
    let mut bench = Bench::new();
    let client = bench.client.clone();
    let watching = client.watch_lock(LockKey::new("f", ""));
    let (watch, mut stream) = tokio::join!(watching, bench.opened());
    let mut watch = watch.unwrap();
    let (sender, mut seen) = unbounded_channel();
    tokio::spawn(async move {
        while let Some(record) = watch.next().await.unwrap() {
            sender.send(record.lock_path).unwrap();
        }
    });
    for (told, is_new) in [
        (Some("one"), true),
        (Some("one"), false),
        (Some("two"), true),
        (None, false),
        (Some("two"), false),
        (Some("three"), true),
    ] {
        let Some(path) = told else {
            stream.fail(Status::unavailable("the network broke"));
            stream = bench.opened().await;
            continue;
        };
        stream.tell(WatchLockResponse { record: Some(record(path)) });
        tokio::time::sleep(seconds(1)).await;
        assert_eq!(seen.try_recv().ok(), told.filter(|_| is_new).map(str::to_owned));
    }
    // The sidecar has ended it for good.
    drop(stream);
    assert_eq!(soon(seen.recv()).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_many_locks_is_opened_again_and_tells_what_is_gone_since() {
    let mut bench = Bench::new();
    let changed = |path: &str| Event::Changed(record(path));
    let listed = || Event::Listed(Listed { locks: 1, at: None });
    let client = bench.client.clone();
    let watching = client.watch_locks(WatchLocks::default().in_share("queues"));
    let (watch, stream) = tokio::join!(watching, bench.opened());
    assert_eq!(stream.asked.request::<WatchLocksRequest>().share, "queues");
    let mut watch = watch.unwrap();
    let telling = async {
        let tell = |stream: &crate::fake::Opened, event| {
            stream.tell(WatchLocksResponse { event: Some(event) });
        };
        for event in [changed("a"), changed("b"), listed(), changed("b")] {
            tell(&stream, event);
        }
        stream.fail(Status::unavailable("shutting down"));
        let stream = bench.opened().await;
        for event in [changed("b"), changed("c"), listed()] {
            tell(&stream, event);
        }
    };
    let hearing = async {
        let mut told = Vec::new();
        while let Some(event) = watch.next().await.unwrap() {
            told.push(match event {
                crate::LocksEvent::Changed(record) => format!("changed {}", record.lock_path),
                crate::LocksEvent::Gone(path) => format!("gone {path}"),
                crate::LocksEvent::Listed { locks, .. } => format!("listed {locks}"),
            });
        }
        told
    };
    let (told, ()) = tokio::join!(hearing, telling);
    // What has not changed is not told again.
    let again = ["changed c", "gone a", "listed 1"];
    assert_eq!(told, [&["changed a", "changed b", "listed 1"], again.as_slice()].concat());
}

/// Everything that is public, but for the module of stubs and what is behind the feature `unstable-wire`.
#[test]
fn no_type_of_grpc_or_of_the_wire_is_public() {
    fn sources(folder: &std::path::Path, all: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, all);
            } else {
                let text = std::fs::read_to_string(&path).unwrap();
                all.push((path.display().to_string(), text));
            }
        }
    }
    let mut all = Vec::new();
    sources(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut all);
    for (path, text) in all.iter().filter(|(path, _)| !path.ends_with("/proto.rs")) {
        let mut is_hidden = false;
        for line in text.lines().map(str::trim) {
            is_hidden |= line.contains("unstable-wire");
            let is_public = line.starts_with("pub ") || line.starts_with("impl From<");
            let names = ["tonic", "prost", "proto::", "Status", "Channel", "rustls", "hyper"];
            if is_public && !std::mem::take(&mut is_hidden) {
                let named = names.iter().find(|name| line.contains(**name));
                let is_ours = line.contains("TokenStatus") || line.contains("PriorityStatus");
                assert_eq!(named.filter(|_| !is_ours), None, "{path}: {line}");
            }
        }
    }
}
