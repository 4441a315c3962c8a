//! Ways around the rules of access that a reader has found.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Once};

use leasehold::access::{HostIds, Right, Rule};
use leasehold::lock::HostId;
use leasehold::store::MemoryStore;
use leasehold::testing::SimClock;
use leasehold_client::proto::acquire_lease_response::Outcome;
use leasehold_client::proto::hold_lease_request::Start;
use leasehold_client::proto::{
    AcquireLeaseRequest, BreakLockRequest, BreakLockResponse, HoldLeaseRequest, LeaseSpec, LockKey,
    ResolvePathRequest, Resume, hold_lease_response,
};
use tonic::metadata::MetadataValue;
use tonic::{Code, Request};

use crate::grpc::access::{by_token, client, functions, is_denied, serve, with};
use crate::grpc::listeners::Running;
use crate::grpc::rig::{Account, HOST_ID, by_key, key, spec};

/// A resume token is not signed, so it opens no lock that the rules close.
#[tokio::test]
async fn a_resume_token_gives_no_more_than_the_rules() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut rules = ["owner", "guest"].map(|name| by_token(name, &[Right::Acquire]));
    rules[1].functions = functions(&["sandbox"]);
    let running = serve(&sidecar, rules.to_vec()).await;
    let mut client = client(&running);
    let start = HoldLeaseRequest { start: Some(Start::Spec(spec("payroll"))), needs: 0 };
    let mut stream = client.hold_lease(with("owner", start)).await.unwrap().into_inner();
    let first = stream.message().await.unwrap().unwrap().event;
    let Some(hold_lease_response::Event::Granted(granted)) = first else { panic!("{first:?}") };
    let resume = Resume {
        resume_token: granted.resume_token,
        attempt_id: "x".to_owned(),
        told_valid_until: None,
    };
    let start = HoldLeaseRequest { start: Some(Start::Resume(resume)), needs: 0 };
    let refused = client.hold_lease(with("guest", start.clone())).await.unwrap_err();
    assert!(is_denied(&refused), "{refused:?}");
    client.hold_lease(with("owner", start)).await.unwrap();
}

/// The digest of nothing is easily put into a rule, by a variable that is not set.
#[tokio::test]
async fn an_empty_token_is_none() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let running = serve(&sidecar, vec![by_token("", &[Right::Acquire])]).await;
    let mut request = Request::new(ResolvePathRequest { key: Some(key("nightly")) });
    request.metadata_mut().insert("authorization", MetadataValue::from_static("Bearer "));
    let refused = client(&running).resolve_path(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated, "{refused:?}");
}

/// A request id that somebody else has used is no way to that caller's lease id, and takes no place in the
/// queue.
#[tokio::test]
async fn a_request_id_is_its_caller_s_own() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let rules = ["owner", "guest"].map(|name| by_token(name, &[Right::Acquire]));
    let running = serve(&sidecar, rules.into()).await;
    let ask = async |token: &str| {
        let spec = LeaseSpec { request_id: "r-1".to_owned(), ..spec("nightly") };
        let request = AcquireLeaseRequest { spec: Some(spec), needs: 0 };
        let answer = client(&running).acquire_lease(with(token, request)).await.unwrap();
        match answer.into_inner().outcome.unwrap() {
            Outcome::Granted(grant) => Some(grant.lease_id),
            Outcome::Busy(_) | Outcome::AlreadyDone(_) | Outcome::Skipped(_) => None,
        }
    };
    let granted = ask("owner").await;
    assert!(granted.is_some());
    assert_eq!(ask("guest").await, None, "another caller is refused");
    assert_eq!(ask("owner").await, granted, "its own is repeated");
    let unlimited = LeaseSpec { request_id: "r-1".to_owned(), ..spec("nightly") };
    sidecar.busy(unlimited).await;
}

async fn break_idle(running: &Running, token: &str) -> BreakLockResponse {
    let reason = "a look".to_owned();
    let request =
        BreakLockRequest { lock: by_key("nightly"), reason, ..BreakLockRequest::default() };
    client(running).break_lock(with(token, request)).await.unwrap().into_inner()
}

/// A break of a lock that nobody holds does nothing, so it must show nothing.
#[tokio::test]
async fn a_break_shows_the_record_to_those_who_may_read_it() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let grant = sidecar.acquire(spec("nightly")).await;
    sidecar.release(&grant.lease_id).await;
    let rules =
        vec![by_token("breaker", &[Right::Break]), by_token("both", &[Right::Break, Right::Read])];
    let running = serve(&sidecar, rules).await;
    assert_eq!(break_idle(&running, "breaker").await.record, None);
    let shown = break_idle(&running, "both").await.record.unwrap();
    assert_eq!(shown.key.unwrap().function, "nightly");
}

/// The layout `hashed` has the host type in its names: another host type is another deployment's lock.
#[tokio::test]
async fn a_rule_for_the_sidecar_s_own_host_id_is_for_its_own_host_type() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let own = HostIds::Listed(vec![HostId::parse(HOST_ID).unwrap()]);
    let rules = vec![
        by_token("own", &[Right::Read]),
        Rule { host_ids: own, ..by_token("listed", &[Right::Read]) },
        Rule { host_ids: HostIds::Any, ..by_token("any", &[Right::Read]) },
    ];
    let running = serve(&sidecar, rules).await;
    for (token, host_id, host_type, allowed) in [
        ("own", None, Some("Keeper-A"), true),
        ("own", Some(HOST_ID), Some("Keeper-A"), true),
        ("own", Some(HOST_ID), Some("Keeper-B"), false),
        ("own", None, Some("Keeper-B"), false),
        ("listed", Some(HOST_ID), Some("Keeper-B"), true),
        ("listed", None, Some("Keeper-B"), false),
        ("any", Some(HOST_ID), Some("Keeper-B"), true),
    ] {
        let [host_id, host_type] = [host_id, host_type].map(|text| text.map(str::to_owned));
        let key = LockKey { host_id, host_type, ..key("nightly") };
        let request = with(token, ResolvePathRequest { key: Some(key.clone()) });
        let answer = client(&running).resolve_path(request).await;
        let denied = answer.as_ref().is_err_and(is_denied);
        assert_eq!(!denied, allowed, "{token} {key:?}: {answer:?}");
    }
}

thread_local! {
    /// What was logged on this thread, which is that of one test and of all its tasks.
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Notes what is logged on this thread, from now on. By one subscriber for all tests: events of which another
/// thread has just asked whether anybody wants them are not seen by one of a single thread.
pub(crate) fn log() {
    struct Log;
    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            LOG.with_borrow_mut(|log| log.extend_from_slice(bytes));
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(|| Log).finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
    LOG.with_borrow_mut(Vec::clear);
}

/// The lines with this in them.
pub(crate) fn lines_with(part: &str) -> Vec<String> {
    let text = LOG.with_borrow(|log| String::from_utf8(log.clone()).unwrap());
    text.lines().filter(|line| line.contains(part)).map(str::to_owned).collect()
}

/// Somebody who tries tokens leaves a trace, and no token in it; nobody fills the log.
#[tokio::test]
async fn s20_who_is_not_recognised_is_logged_once_in_a_while() {
    // A clock that stands still, however slow the machine is.
    let clock = Arc::new(SimClock::new());
    let store = Arc::new(MemoryStore::new(Arc::clone(&clock) as _));
    let account = Account { clock, store };
    let sidecar = account.sidecar();
    log();
    let running = serve(&sidecar, vec![by_token("shop", &[Right::Read])]).await;
    let ask = async |token: &str| {
        let request = ResolvePathRequest { key: Some(key("nightly")) };
        client(&running).resolve_path(with(token, request)).await.map(drop)
    };
    for guess in ["guess-1", "guess-2", "guess-3"] {
        assert_eq!(ask(guess).await.unwrap_err().code(), Code::Unauthenticated);
    }
    let lines = lines_with("not recognised");
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert!(line.contains("client=127.0.0.1:") && line.contains("bearer token"), "{line}");
    account.clock.advance(std::time::Duration::from_secs(11));
    ask("guess-4").await.unwrap_err();
    let lines = lines_with("not recognised");
    assert!(lines.len() == 2 && lines[1].contains("more=2"), "{lines:?}");
    assert!(lines_with("guess").is_empty());
}

/// `broken_by` is what the caller says of itself: the log has who it was.
#[tokio::test]
async fn a_break_is_logged_with_who_did_it() {
    let account = Account::new();
    let sidecar = account.sidecar();
    log();
    let running = serve(&sidecar, vec![by_token("operators", &[Right::Break])]).await;
    for (function, token, caller) in
        [("nightly", Some("operators"), "operators"), ("weekly", None, "in this process")]
    {
        sidecar.acquire(spec(function)).await;
        let request = BreakLockRequest {
            lock: by_key(function),
            reason: "stuck".to_owned(),
            broken_by: "somebody else".to_owned(),
            mode: leasehold_client::proto::BreakMode::Now.into(),
            fencing_token: None,
        };
        match token {
            Some(token) => client(&running).break_lock(with(token, request)).await.unwrap(),
            None => sidecar.client.clone().break_lock(request).await.unwrap(),
        };
        let lines = lines_with("lock broken");
        let line = lines.last().unwrap();
        assert!(line.contains("caller=") && line.contains(caller), "{caller}: {line}");
    }
}
