//! Rules of access: each rpc, and the right that it needs.

use std::path::Path;

use leasehold::access::{CertificateName, FunctionPattern, HostIds, Right, Rule, Who};
use leasehold::grpc::{RELOAD_INTERVAL, Server, Settings, TcpSettings, Tls, UnixSettings};
use leasehold::lock::HostId;
use leasehold_client::Client as EasyClient;
use leasehold_client::proto::*;
use leasehold_client::proto::{hold_lease_request::Start, list_locks_request::Under};
use rcgen::{CertificateParams, DnType, SanType};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;
use tonic::metadata::MetadataValue;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;

use crate::grpc::certificates::{authority, issued_as, write};
use crate::grpc::listeners::{Running, connect, loopback, on_tcp, run};
use crate::grpc::rig::{
    Account, Client, HOST_ID, LIMITS, Sidecar, by_key, by_path, key, reason, spec,
};

pub(crate) fn by_token(token: &str, rights: &[Right]) -> Rule {
    Rule {
        name: token.to_owned(),
        who: Who::TokenDigest(Sha256::digest(token).into()),
        host_ids: HostIds::Own,
        functions: Vec::new(),
        rights: rights.to_vec(),
    }
}

pub(crate) fn functions(patterns: &[&str]) -> Vec<FunctionPattern> {
    patterns.iter().map(|pattern| FunctionPattern::parse(pattern).unwrap()).collect()
}

pub(crate) async fn serve(sidecar: &Sidecar, access: Vec<Rule>) -> Running {
    on_tcp(sidecar, TcpSettings { access, ..loopback() }).await
}

pub(crate) fn with<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let value = MetadataValue::try_from(format!("Bearer {token}")).unwrap();
    request.metadata_mut().insert("authorization", value);
    request
}

pub(crate) fn client(running: &Running) -> Client {
    Client::new(running.channel.clone())
}

pub(crate) fn is_denied(status: &Status) -> bool {
    status.code() == Code::PermissionDenied
        && reason(status) == (Code::PermissionDenied, "ACCESS_DENIED".to_owned())
}

/// Calls one rpc with a token; whether the rules let it through, whatever came of it then.
async fn is_let_through(running: &Running, rpc: &str, token: &str) -> bool {
    let mut client = client(running);
    let lease_id = "5b1c6e1a-0b0e-4c7e-9d1c-1f2a3b4c5d6e".to_owned();
    let generation = 0;
    let max_hold = crate::grpc::rig::seconds(60);
    let lock = by_key("nightly");
    let answer: Result<(), Status> = match rpc {
        "AcquireLease" => {
            let request = AcquireLeaseRequest { spec: Some(spec("nightly")), needs: 0 };
            client.acquire_lease(with(token, request)).await.map(drop)
        }
        "HoldLease" => {
            let request = HoldLeaseRequest { start: Some(Start::Spec(spec("nightly"))), needs: 0 };
            client.hold_lease(with(token, request)).await.map(drop)
        }
        "HoldLease (resume)" => {
            let resume = Resume {
                resume_token: "x".to_owned(),
                attempt_id: "x".to_owned(),
                ..Resume::default()
            };
            let request = HoldLeaseRequest { start: Some(Start::Resume(resume)), needs: 0 };
            client.hold_lease(with(token, request)).await.map(drop)
        }
        "ReleaseLease" => {
            let request = ReleaseLeaseRequest { lease_id, ..ReleaseLeaseRequest::default() };
            client.release_lease(with(token, request)).await.map(drop)
        }
        "ExtendLease" => {
            let request = ExtendLeaseRequest { lease_id, generation, max_hold };
            client.extend_lease(with(token, request)).await.map(drop)
        }
        "ReportProgress" => {
            let request = ReportProgressRequest { lease_id, generation };
            client.report_progress(with(token, request)).await.map(drop)
        }
        "GetHold" => {
            let request = GetHoldRequest { lease_id, generation };
            client.get_hold(with(token, request)).await.map(drop)
        }
        "SaveCheckpoint" => {
            let request = SaveCheckpointRequest { lease_id, generation, value: Vec::new() };
            client.save_checkpoint(with(token, request)).await.map(drop)
        }
        "GetLock" => {
            let request = GetLockRequest { lock, ..GetLockRequest::default() };
            client.get_lock(with(token, request)).await.map(drop)
        }
        "WatchLock" => client.watch_lock(with(token, WatchLockRequest { lock })).await.map(drop),
        "WatchLocks" => {
            client.watch_locks(with(token, WatchLocksRequest::default())).await.map(drop)
        }
        "ListLocks" => client.list_locks(with(token, ListLocksRequest::default())).await.map(drop),
        "ResolvePath" => {
            let request = ResolvePathRequest { key: Some(key("nightly")) };
            client.resolve_path(with(token, request)).await.map(drop)
        }
        "CheckToken" => {
            let request = CheckTokenRequest { lock, fencing_token: 1 };
            client.check_token(with(token, request)).await.map(drop)
        }
        "BreakLock" => {
            let reason = "test".to_owned();
            let request = BreakLockRequest { lock, reason, ..BreakLockRequest::default() };
            client.break_lock(with(token, request)).await.map(drop)
        }
        other => panic!("{other}"),
    };
    !answer.is_err_and(|status| is_denied(&status))
}

#[tokio::test]
async fn each_rpc_needs_its_right_and_no_other() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let rules = Right::ALL.map(|(name, right)| by_token(name, &[right]));
    let running = serve(&sidecar, rules.into()).await;
    for (rpc, needed) in [
        ("AcquireLease", Right::Acquire),
        ("HoldLease", Right::Acquire),
        ("HoldLease (resume)", Right::Acquire),
        ("ReleaseLease", Right::Acquire),
        ("ExtendLease", Right::Acquire),
        ("ReportProgress", Right::Acquire),
        ("GetHold", Right::Acquire),
        ("SaveCheckpoint", Right::Acquire),
        ("GetLock", Right::Read),
        ("WatchLock", Right::Read),
        ("ListLocks", Right::Read),
        ("WatchLocks", Right::Read),
        ("ResolvePath", Right::Read),
        ("CheckToken", Right::Check),
        ("BreakLock", Right::Break),
    ] {
        for (token, right) in Right::ALL {
            let expected = right == needed;
            assert_eq!(is_let_through(&running, rpc, token).await, expected, "{rpc} with {token}");
        }
    }
}

#[tokio::test]
async fn a_refusal_says_who_was_recognised_what_was_refused_and_what_would_allow_it() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let rule = Rule { functions: functions(&["orders.*"]), ..by_token("shop", &[Right::Acquire]) };
    let running = serve(&sidecar, vec![rule]).await;
    let ask = async |function: &str, host_id: Option<&str>| {
        let key = LockKey { host_id: host_id.map(str::to_owned), ..key(function) };
        let spec = LeaseSpec { key: Some(key), ..LeaseSpec::default() };
        let request = AcquireLeaseRequest { spec: Some(spec), needs: 0 };
        client(&running).acquire_lease(with("shop", request)).await
    };
    ask("orders.close", None).await.unwrap();
    ask("orders.open", Some(HOST_ID)).await.expect("its own host id may be named");
    for (function, host_id, setting) in [
        ("nightly", None, "access.functions"),
        ("orders.close", Some("another"), "access.host_ids"),
    ] {
        let refused = ask(function, host_id).await.unwrap_err();
        assert!(is_denied(&refused), "{refused}");
        let details = refused.get_details_error_info().unwrap().metadata;
        assert_eq!(details["setting"], setting);
        assert_eq!(details["right"], "acquire");
        assert_eq!(details["function"], function);
        assert_eq!(details["host_id"], host_id.unwrap_or(HOST_ID));
        let words = ["\"shop\"", "\"acquire\"", function, "access"];
        assert!(words.iter().all(|word| refused.message().contains(word)), "{refused}");
    }
    let request =
        with("shop", GetLockRequest { lock: by_key("orders.close"), ..GetLockRequest::default() });
    let refused = client(&running).get_lock(request).await.unwrap_err();
    let details = refused.get_details_error_info().unwrap().metadata;
    assert_eq!(details["setting"], "access.rights");
}

#[tokio::test]
async fn s20_who_is_not_recognised_is_unauthenticated() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let running = serve(&sidecar, vec![by_token("shop", &[Right::Read])]).await;
    let lock = || GetLockRequest { lock: by_key("nightly"), ..GetLockRequest::default() };
    let unknown = (Code::Unauthenticated, "UNAUTHENTICATED".to_owned());
    let refused = client(&running).get_lock(lock()).await.unwrap_err();
    assert_eq!(reason(&refused), unknown);
    let refused = client(&running).get_lock(with("other", lock())).await.unwrap_err();
    assert_eq!(reason(&refused), unknown);
    client(&running).get_lock(with("shop", lock())).await.unwrap();
}

#[tokio::test]
async fn other_host_ids_need_a_rule_that_names_them() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let listed = HostIds::Listed(vec![HostId::parse("another").unwrap()]);
    let running = serve(
        &sidecar,
        vec![
            Rule { host_ids: listed, ..by_token("one", &[Right::Read]) },
            Rule { host_ids: HostIds::Any, ..by_token("any", &[Right::Read]) },
        ],
    )
    .await;
    for (token, host_id, allowed) in [
        ("one", Some("another"), true),
        ("one", None, false),
        ("one", Some("third"), false),
        ("any", Some("third"), true),
        ("any", None, true),
    ] {
        let key = LockKey { host_id: host_id.map(str::to_owned), ..key("nightly") };
        let request = with(token, ResolvePathRequest { key: Some(key) });
        let answer = client(&running).resolve_path(request).await;
        assert_eq!(!answer.is_err_and(|status| is_denied(&status)), allowed, "{token} {host_id:?}");
        let under = host_id.map(|host_id| Under::HostId(host_id.to_owned()));
        let request = with(token, ListLocksRequest { under, ..ListLocksRequest::default() });
        let answer = client(&running).list_locks(request).await;
        assert_eq!(!answer.is_err_and(|status| is_denied(&status)), allowed, "{token} {host_id:?}");
    }
}

#[tokio::test]
async fn a_lock_that_is_named_by_its_path_is_the_same_lock() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let rule = Rule { functions: functions(&["orders*"]), ..by_token("shop", &[Right::Read]) };
    let everything = Rule { host_ids: HostIds::Any, ..by_token("all", &[Right::Read]) };
    let running = serve(&sidecar, vec![rule, everything]).await;
    let own = format!("leasehold/locks/{HOST_ID}");
    let long = format!("orders{}", "x".repeat(300));
    let request = ResolvePathRequest { key: Some(key(&long)) };
    let cut = sidecar.client.clone().resolve_path(request).await.unwrap().into_inner().lock_path;
    for (token, path, allowed) in [
        ("shop", format!("{own}/orders/~/FUNCTION"), true),
        ("shop", format!("{own}/orders%20open/~/FUNCTION"), true),
        ("shop", format!("{own}/nightly/~/FUNCTION"), false),
        ("shop", "leasehold/locks/another/orders/~/FUNCTION".to_owned(), false),
        ("shop", cut.clone(), false),
        ("all", cut, true),
        ("all", "leasehold/locks/another/orders/~/FUNCTION".to_owned(), true),
    ] {
        let request =
            with(token, GetLockRequest { lock: by_path(&path), ..GetLockRequest::default() });
        let answer = client(&running).get_lock(request).await;
        assert_eq!(!answer.is_err_and(|status| is_denied(&status)), allowed, "{token} {path}");
    }
}

fn certificate_rule(name: &str) -> Rule {
    let who = Who::Certificate(CertificateName::parse(name).unwrap());
    Rule { who, ..by_token("", &[Right::Read]) }
}

#[tokio::test]
async fn callers_are_recognised_by_the_names_in_their_certificates() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let issuer = authority();
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = crate::grpc::certificates::issued(&issuer);
    let tls = Tls {
        certificate: write(folder.path(), "c", &certificate),
        key: write(folder.path(), "k", &key),
        client_ca: Some(write(folder.path(), "ca", &issuer.pem())),
        crl: None,
        reload_interval: RELOAD_INTERVAL,
    };
    let names = ["cn:orders", "dns:orders.shop.svc", "uri:spiffe://c/ns/shop/sa/orders"];
    let mut params = CertificateParams::new(vec!["Orders.Shop.svc".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, "orders");
    let uri = "spiffe://c/ns/shop/sa/orders".try_into().unwrap();
    params.subject_alt_names.push(SanType::URI(uri));
    let (certificate, key) = issued_as(&issuer, params);
    let others = ["cn:orders2", "dns:orders.shop", "uri:spiffe://c/ns/shop/sa/order"];
    let cases = names.into_iter().chain(["*"]).map(|name| (name, true));
    for (name, allowed) in cases.chain(others.map(|name| (name, false))) {
        let access = vec![certificate_rule(name)];
        let tcp = TcpSettings { tls: Some(tls.clone()), access, ..loopback() };
        let server = Server::bind(listening(Some(tcp), None)).await.unwrap();
        let endpoint = server.endpoints().remove(0);
        tokio::spawn(server.run(sidecar.scheduler.clone(), LIMITS, CancellationToken::new()));
        let shown = leasehold_client::Tls::new(issuer.pem())
            .with_certificate(certificate.clone(), key.clone());
        let client = EasyClient::builder(&endpoint).tls(shown);
        let answer = crate::grpc::certificates::resolved(client).await;
        assert_eq!(answer.is_ok(), allowed, "{name}: {answer:?}");
        if let Err(refused) = answer {
            let refused = refused.to_string();
            assert!(names.iter().all(|name| refused.contains(name)), "{refused}");
            assert!(refused.contains("no rule of access"), "{refused}");
        }
    }
}

fn listening(tcp: Option<TcpSettings>, unix: Option<UnixSettings>) -> Settings {
    Settings {
        tcp,
        unix,
        connections: 8,
        streams_per_connection: 8,
        header_list_bytes: 16_384,
        ..Settings::default()
    }
}

/// Whom the socket's mode lets in is of this machine, and may do everything.
#[tokio::test]
async fn rules_are_for_tcp_and_not_for_the_unix_socket() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let folder = tempfile::tempdir().unwrap();
    let unix = UnixSettings { path: folder.path().join("s"), allowed_uids: Vec::new() };
    let tcp = TcpSettings { access: vec![by_token("shop", &[Right::Check])], ..loopback() };
    let server = Server::bind(listening(Some(tcp), Some(unix))).await.unwrap();
    let socket = server.endpoints().remove(1);
    let running = run(server, &sidecar.scheduler, folder, CancellationToken::new()).await;
    let lock = || GetLockRequest { lock: by_key("nightly"), ..GetLockRequest::default() };
    let refused = client(&running).get_lock(with("shop", lock())).await.unwrap_err();
    assert!(is_denied(&refused), "{refused}");
    Client::new(connect(&socket).await).get_lock(lock()).await.unwrap();
}

#[tokio::test]
async fn the_tokens_of_a_rule_are_those_that_its_file_has_now() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "tokens", "one\ntwo\n");
    let rule = Rule { who: Who::TokenFile(file.clone()), ..by_token("", &[Right::Read]) };
    let running = serve(&sidecar, vec![rule]).await;
    let ask = async |token: &str| {
        let request =
            with(token, GetLockRequest { lock: by_key("nightly"), ..GetLockRequest::default() });
        client(&running).get_lock(request).await.map(drop).map_err(|status| status.code())
    };
    assert_eq!((ask("one").await, ask("two").await), (Ok(()), Ok(())));
    replace(&file, "three, which is longer\n");
    assert_eq!(ask("one").await, Err(Code::Unauthenticated));
    assert_eq!(ask("three, which is longer").await, Ok(()));
    let missing = Rule { who: Who::TokenFile("/missing".into()), ..by_token("", &[Right::Read]) };
    let tcp = TcpSettings { access: vec![missing], ..loopback() };
    let error = Server::bind(listening(Some(tcp), None)).await.unwrap_err().to_string();
    assert!(error.contains("/missing") && error.contains("access"), "{error}");
}

fn replace(file: &Path, text: &str) {
    let new = file.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, file).unwrap();
}

/// A waiting caller's stream and a unary hold go on in their own way: rules are asked at the call.
#[tokio::test]
async fn a_holder_releases_with_its_lease_id() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let rule = Rule { functions: functions(&["orders"]), ..by_token("shop", &[Right::Acquire]) };
    let running = serve(&sidecar, vec![rule]).await;
    let request = with("shop", AcquireLeaseRequest { spec: Some(spec("orders")), needs: 0 });
    let answer = client(&running).acquire_lease(request).await.unwrap().into_inner();
    let Some(acquire_lease_response::Outcome::Granted(grant)) = answer.outcome else {
        panic!("busy")
    };
    let request = ReleaseLeaseRequest {
        lease_id: grant.lease_id,
        generation: grant.generation,
        ..ReleaseLeaseRequest::default()
    };
    let released = client(&running).release_lease(with("shop", request)).await.unwrap();
    assert_eq!(released.into_inner().result.unwrap().outcome(), ReleaseOutcome::Released);
}
