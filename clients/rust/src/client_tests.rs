use super::*;
use crate::fake::{Bench, OURS, seconds, validity};
use crate::messages::Code;
use crate::proto::acquire_lease_response::Outcome as Wire;
use crate::proto::hold_lease_response::Event;

#[tokio::test]
async fn every_unary_call_reaches_the_sidecar() {
    let bench = Bench::new().await;
    let client = &bench.client;
    let lock = || LockSelector::path("locks/a");
    assert_eq!(client.get_lock(lock()).await.unwrap().lock_path, "locks/a");
    let by_key = client.get_lock(LockKey::new("f", "s")).await.unwrap();
    assert_eq!(by_key.lock_path, "f/s");
    let page = client.list_locks(ListLocks::default().page("next")).await.unwrap();
    assert_eq!(page.next_page_token, "next");
    let token = client.check_token(lock(), 7).await.unwrap();
    assert_eq!(token.newest_fencing_token, Some(8));
    let broken = client.break_lock(BreakLock::new(lock(), "a test")).await.unwrap();
    assert_eq!(broken.record.unwrap().lock_path, "locks/a");
    let path = client.resolve_path(LockKey::new("f", "")).await.unwrap();
    assert_eq!(path.lock_path, "f");
    let extended = client.extend("lease-1", seconds(90)).await.unwrap();
    assert_eq!(extended.validity, crate::Validity::from_wire(&validity(OURS, 1_090, 90)));
    client.release("lease-1").await.unwrap();
    assert!(bench.sidecar.asked().contains(&"release lease-1 of generation 0".to_owned()));
}

#[tokio::test]
async fn a_watch_gives_records_until_the_stream_ends() {
    let bench = Bench::new().await;
    let mut watch = bench.client.watch_lock(LockKey::new("f", "s")).await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap().lock_path, "f/s");
    assert_eq!(watch.next().await.unwrap(), None);
}

#[tokio::test]
async fn an_acquire_is_granted_or_busy_and_nothing_else() {
    let bench = Bench::new().await;
    let acquire = || bench.client.acquire(LeaseSpec::new("f"));
    assert!(matches!(acquire().await, Err(Error::Protocol(_))));
    let Event::Granted(grant) = crate::fake::grant(validity(OURS, 1_058, 58)) else {
        unreachable!("it is a grant");
    };
    let answer = |outcome| bench.sidecar.script.lock().unwrap().acquire = Some(outcome);
    answer(Wire::Granted(grant.clone()));
    assert_eq!(acquire().await.unwrap().granted(), Some(Grant::from_wire(grant)));
    answer(Wire::Busy(proto::Busy::default()));
    assert!(matches!(acquire().await.unwrap(), Outcome::Busy(_)));
}

#[tokio::test]
async fn s14_the_bearer_token_and_the_kernel_go_with_each_call() {
    let bench = Bench::new().await;
    let client = bench.another().bearer_token("secret\n").connect().await.unwrap();
    let _outcome = client.acquire(LeaseSpec::new("f")).await;
    let asked = bench.sidecar.asked();
    assert_eq!(asked, [format!("acquire Bearer secret {OURS} none")]);
}

#[tokio::test]
async fn an_error_of_the_sidecar_has_its_code() {
    let bench = Bench::new().await;
    let error = bench.client.report_progress("x").await.unwrap_err();
    assert_eq!(error.code(), Some(Code::Unavailable));
    assert_eq!(error.reason(), None);
    assert_eq!(error.to_string(), "not now");
}

#[tokio::test]
async fn a_watch_is_opened_again_and_repeats_nothing() {
    let bench = Bench::new().await;
    let record = |path: &str| {
        let lock_path = path.to_owned();
        let record = proto::LockRecord { lock_path, ..proto::LockRecord::default() };
        Ok(proto::WatchLockResponse { record: Some(record) })
    };
    let broken = || Err(Status::unavailable("the network broke"));
    bench.sidecar.script.lock().unwrap().watches = vec![
        vec![record("two"), record("three")],
        vec![record("one"), broken()],
        vec![record("one"), record("one"), record("two"), broken()],
    ];
    let mut watch = bench.client.watch_lock(LockKey::new("f", "")).await.unwrap();
    let mut seen = Vec::new();
    while let Some(record) = watch.next().await.unwrap() {
        seen.push(record.lock_path);
    }
    assert_eq!(seen, ["one", "two", "one", "two", "three"]);
}

#[tokio::test]
async fn an_interceptor_sees_each_call_and_a_token_is_read_for_each() {
    struct Named;
    impl crate::Interceptor for Named {
        fn intercept(&self, call: &mut crate::Call) -> io::Result<()> {
            let method = call.method().to_owned();
            call.add("of-a-test", method);
            Ok(())
        }
    }
    let bench = Bench::new().await;
    let read = std::sync::atomic::AtomicU64::new(0);
    let token = move || Ok(read.fetch_add(1, std::sync::atomic::Ordering::SeqCst).to_string());
    let builder = bench.another().interceptor(Named).bearer_token_with(token);
    let client = builder.connect().await.unwrap();
    for _ in 0..2 {
        let _outcome = client.acquire(LeaseSpec::new("f")).await;
    }
    let expected = [1, 2].map(|token| format!("acquire Bearer {token} {OURS} AcquireLease"));
    assert_eq!(bench.sidecar.asked(), expected);
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

#[tokio::test]
async fn a_watch_of_many_locks_is_opened_again_and_tells_what_is_gone_since() {
    let bench = Bench::new().await;
    let changed = |path: &str| {
        let lock_path = path.to_owned();
        let record = proto::LockRecord { lock_path, ..proto::LockRecord::default() };
        let event = Some(proto::watch_locks_response::Event::Changed(record));
        Ok(proto::WatchLocksResponse { event })
    };
    let listed = || {
        let listed = proto::Listed { locks: 1, at: None };
        let event = Some(proto::watch_locks_response::Event::Listed(listed));
        Ok(proto::WatchLocksResponse { event })
    };
    bench.sidecar.script.lock().unwrap().listings = vec![
        vec![changed("b"), changed("c"), listed()],
        vec![
            changed("a"),
            changed("b"),
            listed(),
            changed("b"),
            Err(Status::unavailable("shutting down")),
        ],
    ];
    let mut watch = bench.client.watch_locks(WatchLocks::default()).await.unwrap();
    let mut told = Vec::new();
    while let Some(event) = watch.next().await.unwrap() {
        told.push(match event {
            crate::LocksEvent::Changed(record) => format!("changed {}", record.lock_path),
            crate::LocksEvent::Gone(path) => format!("gone {path}"),
            crate::LocksEvent::Listed { locks, .. } => format!("listed {locks}"),
        });
    }
    // What has not changed is not told again.
    let again = ["changed c", "gone a", "listed 1"];
    assert_eq!(told, [&["changed a", "changed b", "listed 1"], again.as_slice()].concat());
}

#[tokio::test]
async fn a_sidecar_says_what_it_is() {
    let bench = Bench::new().await;
    let info = bench.client.get_server_info().await.unwrap();
    assert_eq!((info.version.as_str(), info.features), ("9.8.7", vec!["notice".to_owned()]));
}
