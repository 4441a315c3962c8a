//! Looking at locks, and acting on them.

use std::time::Duration;

use leasehold::lock::LeaseId;
use leasehold::store::{Acquire, LeaseStoreExt as _};
use leasehold_client::proto::{
    BreakLockRequest, BreakMode, BreakOutcome, CheckTokenRequest, GetLockRequest, ListLocksRequest,
    LockKey, LockMode, LockState, LossReason, ReleaseLeaseRequest, ResolvePathRequest, TokenStatus,
    list_locks_request::Under,
};
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::grpc::rig::{Account, HOST_ID, by_key, by_path, fields, key, reason, spec};

/// The states of locks that somebody holds.
fn taken() -> Vec<i32> {
    [LockState::Held, LockState::Breaking].map(i32::from).to_vec()
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_named_by_its_key_or_by_its_path() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let grant = sidecar.acquire(spec("nightly")).await;
    for lock in [by_key("nightly"), by_path(&grant.lock_path)] {
        let answer = sidecar
            .client
            .clone()
            .get_lock(GetLockRequest { lock, ..GetLockRequest::default() })
            .await
            .unwrap();
        let record = answer.into_inner().record.unwrap();
        assert_eq!(record.lock_path, grant.lock_path);
        assert_eq!(record.fencing_token, Some(grant.fencing_token));
        assert_eq!(record.holder, "the-pod");
        assert!(record.held_here && record.acquired_at.is_some());
    }
}

/// A host that leaves no record may have taken the lock since, as WebJobs hosts do.
#[tokio::test(start_paused = true)]
async fn beside_webjobs_a_holder_elsewhere_is_only_the_last_recorded_one() {
    for webjobs in [true, false] {
        let account = Account::new();
        let sidecar = account.sidecar_with(|settings| settings.function_instance = webjobs);
        let grant = sidecar.acquire(spec("nightly")).await;
        let record = sidecar.record("nightly").await;
        assert!(record.held_here && !record.holder_is_last_recorded, "it is known");
        sidecar.release(&grant.lease_id).await;
        let record = sidecar.record("nightly").await;
        assert_eq!(record.state(), LockState::Available);
        assert!(!record.holder_is_last_recorded, "nobody has it");
        let acquire = Acquire {
            lease_id: LeaseId::parse("3f0c6a2e-0000-4000-8000-000000000001").unwrap(),
            duration: Duration::from_secs(60),
            if_match: None,
        };
        account.store.acquire(&grant.lock_path.parse().unwrap(), acquire).await.unwrap();
        let busy = sidecar.busy(spec("nightly")).await;
        let list = ListLocksRequest::default();
        let listed = sidecar.client.clone().list_locks(list).await.unwrap().into_inner().records;
        let busy = busy.record.unwrap();
        for record in [&busy, &sidecar.record("nightly").await, &listed[0]] {
            assert_eq!(record.state(), LockState::Held);
            assert_eq!(record.holder, "the-pod");
            assert_eq!(record.holder_is_last_recorded, webjobs, "{record:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_never_taken_is_available_and_no_error() {
    let account = Account::new();
    let record = account.sidecar().record("never").await;
    assert_eq!(record.state(), LockState::Available);
    assert_eq!(record.fencing_token, None);
    assert!(record.key.is_none() && record.written_at.is_none());
}

#[tokio::test(start_paused = true)]
async fn s19_a_path_outside_the_sidecar_s_own_is_refused() {
    let account = Account::new();
    let sidecar = account.sidecar();
    for path in ["other/locks/x", "leasehold/elsewhere/x", "leasehold/locksmith/x"] {
        let request = GetLockRequest { lock: by_path(path), ..GetLockRequest::default() };
        let refused = sidecar.client.clone().get_lock(request).await.unwrap_err();
        assert_eq!(fields(&refused), ["lock.lock_path"]);
    }
}

async fn list(
    sidecar: &crate::grpc::rig::Sidecar,
    request: ListLocksRequest,
) -> (Vec<(String, LockState)>, String) {
    let page = sidecar.client.clone().list_locks(request).await.unwrap().into_inner();
    let records = page.records.iter();
    let records = records
        .map(|record| (record.key.clone().unwrap_or_default().function, record.state()))
        .collect();
    (records, page.next_page_token)
}

#[tokio::test(start_paused = true)]
async fn locks_are_listed_by_host_id_or_prefix_a_page_at_a_time() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    for function in ["a", "b", "c", "d"] {
        here.acquire(spec(function)).await;
    }
    let released = there.acquire(spec("e")).await;
    there.release(&released.lease_id).await;
    let mut foreign = spec("f");
    foreign.key = Some(LockKey { host_id: Some("other-host".to_owned()), ..key("f") });
    there.acquire(foreign).await;

    let held = |functions: &[&str]| {
        let states = functions.iter().map(|name| ((*name).to_owned(), LockState::Held));
        states.collect::<Vec<_>>()
    };
    let (first, token) =
        list(&there, ListLocksRequest { page_size: 2, ..ListLocksRequest::default() }).await;
    assert_eq!(first, held(&["a", "b"]));
    let request =
        ListLocksRequest { page_size: 2, page_token: token, ..ListLocksRequest::default() };
    let (second, token) = list(&there, request).await;
    assert_eq!(second, held(&["c", "d"]));
    let request =
        ListLocksRequest { page_size: 2, page_token: token, ..ListLocksRequest::default() };
    let (third, token) = list(&there, request).await;
    assert_eq!(third, [("e".to_owned(), LockState::Available)]);
    assert_eq!(token, "");

    let request = ListLocksRequest { states: taken(), ..ListLocksRequest::default() };
    assert_eq!(list(&there, request).await.0, held(&["a", "b", "c", "d"]));
    let under = Some(Under::HostId("other-host".to_owned()));
    let request = ListLocksRequest { under, ..ListLocksRequest::default() };
    assert_eq!(list(&there, request).await.0, held(&["f"]));
    let under = Some(Under::Prefix("leasehold/locks/".to_owned()));
    let request = ListLocksRequest { under, states: taken(), ..ListLocksRequest::default() };
    assert_eq!(list(&there, request).await.0, held(&["a", "b", "c", "d", "f"]));
    let under = Some(Under::Prefix(format!("leasehold/locks/{HOST_ID}/b")));
    let request = ListLocksRequest { under, ..ListLocksRequest::default() };
    assert_eq!(list(&there, request).await.0, held(&["b"]));
}

#[tokio::test(start_paused = true)]
async fn s19_a_prefix_outside_the_sidecar_s_own_is_refused() {
    let account = Account::new();
    let sidecar = account.sidecar();
    for prefix in ["", "leasehold", "leasehold/", "leasehold/lock", "other/locks/"] {
        let under = Some(Under::Prefix(prefix.to_owned()));
        let request = ListLocksRequest { under, ..ListLocksRequest::default() };
        let refused = sidecar.client.clone().list_locks(request).await.unwrap_err();
        assert_eq!(fields(&refused), ["prefix"], "{prefix}");
        assert!(refused.message().contains("leasehold/locks/"), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn s5_a_token_is_current_stale_or_unknown() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let check = async |token| {
        let request = CheckTokenRequest { lock: by_key("nightly"), fencing_token: token };
        let answer = there.client.clone().check_token(request).await.unwrap().into_inner();
        (answer.status(), answer.newest_fencing_token)
    };
    assert_eq!(check(1).await, (TokenStatus::Unknown, None));
    let first = here.acquire(spec("nightly")).await;
    here.release(&first.lease_id).await;
    let second = here.acquire(spec("nightly")).await.fencing_token;
    assert_eq!(check(first.fencing_token).await, (TokenStatus::Stale, Some(second)));
    assert_eq!(check(second).await, (TokenStatus::Current, Some(second)));
    assert_eq!(check(second + 1).await, (TokenStatus::Unknown, Some(second)));
}

fn breaking(function: &str, mode: BreakMode) -> BreakLockRequest {
    BreakLockRequest {
        lock: by_key(function),
        reason: "stuck".to_owned(),
        mode: mode.into(),
        broken_by: String::new(),
        fencing_token: None,
    }
}

#[tokio::test(start_paused = true)]
async fn s17_a_break_is_refused_once_another_has_the_lock() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let first = here.acquire(spec("nightly")).await;
    let shown = there.record("nightly").await.fencing_token;
    assert_eq!(shown, Some(first.fencing_token));
    here.release(&first.lease_id).await;
    let second = here.acquire(spec("nightly")).await;
    let request = BreakLockRequest { fencing_token: shown, ..breaking("nightly", BreakMode::Now) };
    let refused = there.client.clone().break_lock(request.clone()).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::FailedPrecondition, "OTHER_HOLDER".to_owned()));
    let tokens = refused.get_details_error_info().unwrap().metadata;
    assert_eq!(tokens["named_token"], first.fencing_token.to_string());
    assert_eq!(tokens["newest_token"], second.fencing_token.to_string());
    let fencing_token = Some(second.fencing_token);
    let request = BreakLockRequest { fencing_token, ..request };
    let answer = there.client.clone().break_lock(request).await.unwrap().into_inner();
    assert_eq!(answer.outcome(), BreakOutcome::Broken);
}

#[tokio::test(start_paused = true)]
async fn s17_a_break_now_frees_the_lock_at_once_and_the_holder_learns_it() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let first = here.acquire(spec("nightly")).await;
    let request = breaking("nightly", BreakMode::Now);
    let answer = there.client.clone().break_lock(request).await.unwrap().into_inner();
    assert_eq!(answer.outcome(), BreakOutcome::Broken);
    assert!(answer.free_in.is_none());
    let note = answer.record.unwrap().break_note.unwrap();
    assert_eq!(note.broken_by, "the-pod", "the sidecar's own name, if nobody is named");
    assert_eq!(note.fencing_token, Some(first.fencing_token));
    let second = there.acquire(spec("nightly")).await;
    assert!(second.fencing_token > first.fencing_token);
    tokio::time::sleep(Duration::from_secs(30)).await;
    let request =
        ReleaseLeaseRequest { lease_id: first.lease_id, ..ReleaseLeaseRequest::default() };
    let answer = here.client.clone().release_lease(request).await.unwrap().into_inner();
    assert_ne!(answer.result.unwrap().loss_reason(), LossReason::Unspecified);
    assert!(there.record("nightly").await.held_here);
}

#[tokio::test(start_paused = true)]
async fn s17_a_break_of_what_nobody_holds_says_so() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let request = breaking("never", BreakMode::RunOut);
    let refused = sidecar.client.clone().break_lock(request).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::NotFound, "UNKNOWN_LOCK".to_owned()));
    let grant = sidecar.acquire(spec("nightly")).await;
    sidecar.release(&grant.lease_id).await;
    let request = breaking("nightly", BreakMode::RunOut);
    let answer = sidecar.client.clone().break_lock(request).await.unwrap().into_inner();
    assert_eq!(answer.outcome(), BreakOutcome::NotHeld);
    assert!(answer.record.unwrap().break_note.is_none());
}

#[tokio::test(start_paused = true)]
async fn s17_breaking_is_refused_unless_the_operator_enabled_it() {
    let account = Account::new();
    let sidecar = account.sidecar_with(|settings| settings.allow_break = false);
    let request = breaking("nightly", BreakMode::RunOut);
    let refused = sidecar.client.clone().break_lock(request).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::FailedPrecondition, "BREAK_NOT_ENABLED".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_path_is_resolved_without_asking_the_store() {
    let account = Account::new();
    let sidecar = account.sidecar();
    sidecar.link.go_down(Duration::MAX);
    let resolve = async |key| {
        let request = ResolvePathRequest { key: Some(key) };
        sidecar.client.clone().resolve_path(request).await.unwrap().into_inner()
    };
    let own = resolve(LockKey {
        scope: "order 7".to_owned(),
        mode: LockMode::Listener.into(),
        ..key("sync")
    })
    .await;
    assert_eq!(own.lock_path, format!("leasehold/locks/{HOST_ID}/sync/order%207/LISTENER"));
    assert_eq!(own.host_id, HOST_ID);
    assert_eq!((own.provider.as_str(), own.layout.as_str()), ("host-type", "readable"));
    assert_eq!(own.host_type, "Keeper-A");
    let typed = resolve(LockKey { host_type: Some("Keeper-B".to_owned()), ..key("sync") }).await;
    assert_ne!(typed.host_id, HOST_ID);
    assert_eq!((typed.provider.as_str(), typed.host_type.as_str()), ("request", "Keeper-B"));
    let named = resolve(LockKey { host_id: Some("shared".to_owned()), ..key("sync") }).await;
    assert_eq!(named.lock_path, "leasehold/locks/shared/sync/~/FUNCTION");
    assert_eq!(named.provider, "request");
}

#[tokio::test(start_paused = true)]
async fn hosts_of_different_types_do_not_exclude_each_other() {
    let account = Account::new();
    let here = account.sidecar();
    let there = account.sidecar_with(|settings| {
        settings.host.host_id = leasehold::lock::HostId::parse("another").unwrap();
    });
    here.acquire(spec("nightly")).await;
    there.acquire(spec("nightly")).await;
    there.busy(spec("nightly")).await;
}
