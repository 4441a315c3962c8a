//! Permits as callers see them (S28 to S32).

use leasehold::lock::Layout;
use leasehold_client::proto::{
    BreakLockRequest, GetHoldRequest, GetLockRequest, GetServerInfoRequest, LeaseSpec,
    ListLocksRequest, LockRecord, LockSelector, LockState,
};

use crate::grpc::rig::{Account, Event, Sidecar, by_key, fields, granted, next, spec};

fn of(permits: u32) -> LeaseSpec {
    LeaseSpec { permits: Some(permits), ..spec("nightly") }
}

fn by_permit(permit: u32) -> Option<LockSelector> {
    by_key("nightly").map(|lock| LockSelector { permit, ..lock })
}

async fn record(sidecar: &Sidecar, permit: u32) -> LockRecord {
    let request = GetLockRequest { lock: by_permit(permit), ..GetLockRequest::default() };
    sidecar.client.clone().get_lock(request).await.unwrap().into_inner().record.unwrap()
}

#[tokio::test(start_paused = true)]
async fn s28_each_holder_is_told_its_permit_and_who_finds_none_how_many_are_held() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let plain = here.acquire(spec("nightly")).await;
    let mut stream = there.hold(of(2)).await;
    let second = granted(&mut stream).await;
    assert_eq!((plain.permit, second.permit), (0, 1));
    assert_eq!(second.lock_path, format!("{}~1", plain.lock_path));
    for sidecar in [&here, &there] {
        assert_eq!(sidecar.busy(of(2)).await.held_permits, 2);
        assert_eq!(sidecar.busy(spec("nightly")).await.held_permits, 1);
    }
    let request =
        GetHoldRequest { lease_id: second.lease_id.clone(), generation: second.generation };
    let held = there.client.clone().get_hold(request).await.unwrap().into_inner();
    assert_eq!((held.permit, &held.lock_path), (1, &second.lock_path));
}

#[tokio::test(start_paused = true)]
async fn s29_a_record_says_which_permit_it_is_and_of_how_many() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    here.acquire(spec("nightly")).await;
    let second = there.acquire(of(2)).await;
    for sidecar in [&here, &there] {
        let (first, other) = (record(sidecar, 0).await, record(sidecar, 1).await);
        assert_eq!((first.permit, first.permits), (0, 0), "a plain lock does not say");
        assert_eq!((other.permit, other.permits), (1, 2));
        assert_eq!((other.state(), &other.lock_path), (LockState::Held, &second.lock_path));
        assert_eq!(other.fencing_token, Some(second.fencing_token));
        assert_eq!(record(sidecar, 2).await.state(), LockState::Available);
    }
    let listed = here.client.clone().list_locks(ListLocksRequest::default()).await.unwrap();
    let permits = listed.get_ref().records.iter().map(|record| record.permit);
    assert_eq!(permits.collect::<Vec<_>>(), [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn s17_s28_one_permit_is_broken_by_its_number() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let plain = sidecar.acquire(spec("nightly")).await;
    let mut stream = sidecar.hold(of(2)).await;
    granted(&mut stream).await;
    let request = BreakLockRequest {
        lock: by_permit(1),
        reason: "one too many".to_owned(),
        ..BreakLockRequest::default()
    };
    sidecar.client.clone().break_lock(request).await.unwrap();
    let Event::Revoked(revoked) = next(&mut stream).await else { panic!("no notice") };
    assert_eq!(revoked.break_note.unwrap().reason, "one too many");
    assert_eq!(record(&sidecar, 1).await.state(), LockState::Breaking);
    assert_eq!(record(&sidecar, 0).await.fencing_token, Some(plain.fencing_token));
    assert_eq!(record(&sidecar, 0).await.state(), LockState::Held);
}

#[tokio::test(start_paused = true)]
async fn s19_s28_a_number_of_permits_is_1_to_32_and_1_in_the_layout_webjobs() {
    let account = Account::new();
    let sidecar = account.sidecar();
    for permits in [0, 33, u32::MAX] {
        assert_eq!(fields(&sidecar.ask(of(permits)).await.unwrap_err()), ["spec.permits"]);
    }
    assert!(sidecar.acquire(of(32)).await.permit < 32);
    let shared = account.sidecar_with(|settings| settings.host.namespace.layout = Layout::WebJobs);
    assert_eq!(fields(&shared.ask(of(2)).await.unwrap_err()), ["spec.permits"]);
    let request = GetLockRequest { lock: by_permit(1), ..GetLockRequest::default() };
    let refused = shared.client.clone().get_lock(request).await.unwrap_err();
    assert_eq!(fields(&refused), ["lock.permit"]);
    assert_eq!(shared.acquire(of(1)).await.permit, 0);
    for (sidecar, expected) in [(&sidecar, 32), (&shared, 1)] {
        let request = GetServerInfoRequest::default();
        let about = sidecar.client.clone().get_server_info(request).await.unwrap().into_inner();
        assert_eq!(about.limits.unwrap().permits, expected);
        assert_eq!(about.features.iter().any(|feature| feature == "permits"), expected > 1);
    }
}
