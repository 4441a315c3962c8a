use serde_json::{Value, json};
use tonic::Status;

use super::{Client, LeaseSpec, ListLocks, LockKey, Outcome, io};
use crate::fake::{Bench, OURS, granted, seconds, validity};
use crate::proto::{AcquireLeaseRequest, GetLockRequest, ListLocksRequest};

#[tokio::test(start_paused = true)]
async fn a_lock_its_checkpoint_and_pages_of_locks_are_read() {
    let bench = Bench::new();
    let (client, sidecar) = (&bench.client, &bench.sidecar);
    let lock = || crate::LockSelector::path("locks/a");
    let wire = || Some(lock().into_wire());
    let record = json!({"lock_path": "locks/a", "checkpoint": {"value": "x"}});
    sidecar.always("get_lock", Ok(json!({"record": record})));
    assert_eq!(client.get_lock(LockKey::new("f", "s")).await.unwrap().lock_path, "locks/a");
    let asked: GetLockRequest = sidecar.last("get_lock");
    assert_eq!(asked.lock, Some(crate::LockSelector::from(LockKey::new("f", "s")).into_wire()));
    assert_eq!(client.get_checkpoint(lock()).await.unwrap().unwrap().value, b"x");
    let asked: GetLockRequest = sidecar.last("get_lock");
    assert_eq!(asked, GetLockRequest { lock: wire(), with_checkpoint: true });

    let page = json!({"records": [{"lock_path": "a"}], "next_page_token": "next"});
    sidecar.answer("list_locks", &page);
    let page = client.list_locks(ListLocks::default().page("first").in_share("queues")).await;
    let page = page.unwrap();
    assert_eq!((page.next_page_token.as_str(), page.records.len()), ("next", 1));
    let asked: ListLocksRequest = sidecar.last("list_locks");
    assert_eq!((asked.page_token.as_str(), asked.share.as_str()), ("first", "queues"));
}

#[tokio::test(start_paused = true)]
async fn every_call_about_a_hold_reaches_the_sidecar() {
    let bench = Bench::new();
    let (client, sidecar) = (&bench.client, &bench.sidecar);
    let answer = json!({"until": 90_000, "for": 90_000});
    sidecar.answer("extend_lease", &answer);
    let expected = crate::Validity::from_wire(&validity(1_090, 90));
    assert_eq!(client.extend("lease-9", seconds(90)).await.unwrap().validity, expected);
    sidecar.answer("report_progress", &answer);
    assert_eq!(client.report_progress("lease-9").await.unwrap(), expected);
    sidecar.answer("get_hold", &json!({"permit": 2}));
    assert_eq!(client.get_hold("lease-9").await.unwrap().permit, 2);
    sidecar.answer("save_checkpoint", &json!({"version": 4}));
    assert_eq!(client.save_checkpoint("lease-9", "x").await.unwrap(), 4);
    let error = client.release_with_checkpoint("lease-9", "x").await.unwrap_err();
    assert!(matches!(error, crate::Error::CheckpointNotSaved(_)), "{error}");
    let outcome = crate::RunOutcome::Succeeded;
    let error = client.release_with_outcome("lease-9", outcome).await.unwrap_err();
    assert!(matches!(error, crate::Error::OutcomeNotRecorded(_)), "{error}");
    let released = client.release("lease-9").await.unwrap();
    assert_eq!(released.outcome, crate::ReleaseOutcome::Released);
    let asked = [
        "extend_lease 0 lease-9 90000",
        "report_progress 0 lease-9",
        "get_hold 0 lease-9",
        "save_checkpoint 0 lease-9 x",
        "release 0 lease-9 x",
        "release 0 lease-9 SUCCEEDED",
        "release 0 lease-9",
    ];
    assert_eq!(bench.asked(), asked);
}

#[tokio::test(start_paused = true)]
async fn an_acquire_is_granted_or_busy_and_nothing_else() {
    let bench = Bench::new();
    let acquire = async |outcome| {
        bench.sidecar.answer("acquire_lease", &outcome);
        bench.client.acquire(LeaseSpec::new("f")).await
    };
    assert!(matches!(acquire(json!({})).await, Err(crate::Error::Protocol(_))));
    let granted = acquire(granted(Value::Null)).await.unwrap().granted().unwrap();
    assert_eq!((granted.lease_id.as_str(), granted.fencing_token), ("lease-1", 65_536));
    assert_eq!(granted.validity, crate::Validity::from_wire(&validity(1_058, 58)));
    let busy = acquire(json!({"busy": {}})).await.unwrap();
    assert!(matches!(busy, Outcome::Busy(_)));
    assert_eq!(bench.sidecar.last::<AcquireLeaseRequest>("acquire_lease").needs, 1, "S37");
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
    let telling = async {
        for before_the_next_break in [["one", "one", "two"], ["two", "three", "three"]] {
            for path in before_the_next_break {
                stream.tell(&json!({"record": {"lock_path": path}}));
            }
            stream.fail(Status::unavailable("the network broke"));
            stream = bench.opened().await;
        }
        // The sidecar has ended it for good.
        drop(stream);
    };
    let hearing = async {
        let mut seen = Vec::new();
        while let Some(record) = watch.next().await.unwrap() {
            seen.push(record.lock_path);
        }
        seen
    };
    let (seen, ()) = tokio::join!(hearing, telling);
    assert_eq!(seen, ["one", "two", "three"]);
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
