//! Checkpoints and notices as callers see them (S22 to S27).

use std::sync::Arc;

use leasehold::lock::Layout;
use leasehold_client::proto::{
    BreakLockRequest, BreakMode, CheckpointOutcome, GetHoldRequest, GetLockRequest, Grant,
    HoldState, ListLocksRequest, LockRecord, LockState, LossReason, ReleaseLeaseRequest,
    ReleaseOutcome, ReleaseResult, SaveCheckpointRequest, SaveCheckpointResponse,
};
use tonic::{Code, Status};

use crate::grpc::rig::{Account, Event, Sidecar, by_key, fields, granted, next, reason, spec};

async fn save(
    sidecar: &Sidecar,
    grant: &Grant,
    value: &[u8],
) -> Result<SaveCheckpointResponse, Status> {
    let request = SaveCheckpointRequest {
        lease_id: grant.lease_id.clone(),
        generation: grant.generation,
        value: value.to_vec(),
    };
    sidecar.client.clone().save_checkpoint(request).await.map(tonic::Response::into_inner)
}

async fn release(
    sidecar: &Sidecar,
    grant: &Grant,
    checkpoint: &[u8],
) -> Result<ReleaseResult, Status> {
    let request = ReleaseLeaseRequest {
        lease_id: grant.lease_id.clone(),
        generation: grant.generation,
        checkpoint: Some(checkpoint.to_vec()),
        ..ReleaseLeaseRequest::default()
    };
    let answer = sidecar.client.clone().release_lease(request).await?;
    Ok(answer.into_inner().result.unwrap())
}

async fn record(sidecar: &Sidecar, with_checkpoint: bool) -> LockRecord {
    let request = GetLockRequest { lock: by_key("nightly"), with_checkpoint };
    sidecar.client.clone().get_lock(request).await.unwrap().into_inner().record.unwrap()
}

async fn break_softly(sidecar: &Sidecar, mode: BreakMode) {
    let request = BreakLockRequest {
        lock: by_key("nightly"),
        reason: "it hangs".to_owned(),
        broken_by: "ann".to_owned(),
        mode: mode.into(),
        fencing_token: None,
    };
    sidecar.client.clone().break_lock(request).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn s23_s25_what_is_saved_the_next_holder_gets() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let first = here.acquire(spec("nightly")).await;
    assert_eq!(first.checkpoint, None);
    let saved = save(&here, &first, b"page 7").await.unwrap();
    assert_eq!(saved.version, first.fencing_token);
    assert!(saved.validity.unwrap().valid_for.unwrap().seconds > 0);
    let result = release(&here, &first, b"page 8").await.unwrap();
    assert_eq!(result.outcome(), ReleaseOutcome::Released);
    assert_eq!(result.checkpoint_outcome(), CheckpointOutcome::Saved);
    assert_eq!(result.checkpoint_version, saved.version + 1);
    let second = there.acquire(spec("nightly")).await;
    let checkpoint = second.checkpoint.unwrap();
    assert_eq!(checkpoint.value, b"page 8");
    assert_eq!(
        (checkpoint.version, checkpoint.fencing_token),
        (saved.version + 1, first.fencing_token)
    );
    assert!(checkpoint.saved_at.is_some());
}

#[tokio::test(start_paused = true)]
async fn s23_a_record_says_how_large_its_checkpoint_is_and_shows_it_on_request_only() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    assert_eq!(record(&here, true).await.checkpoint, None);
    let grant = here.acquire(spec("nightly")).await;
    let version = save(&here, &grant, b"").await.unwrap().version;
    for sidecar in [&here, &there] {
        let plain = record(sidecar, false).await;
        assert_eq!((plain.checkpoint_version, plain.checkpoint_size), (Some(version), Some(0)));
        assert_eq!(plain.checkpoint, None);
        let whole = record(sidecar, true).await.checkpoint.unwrap();
        assert_eq!(
            (whole.value.as_slice(), whole.version),
            (&b""[..], version),
            "empty is not none"
        );
    }
    let listed = there.client.clone().list_locks(ListLocksRequest::default()).await.unwrap();
    let listed = &listed.get_ref().records[0];
    assert_eq!((listed.checkpoint_version, &listed.checkpoint), (Some(version), &None));
}

#[tokio::test(start_paused = true)]
async fn s19_s23_a_value_that_is_too_long_is_refused_and_nothing_is_released() {
    let sidecar = Account::new().sidecar();
    let grant = sidecar.acquire(spec("nightly")).await;
    save(&sidecar, &grant, &[7; 2_048]).await.unwrap();
    let refused = save(&sidecar, &grant, &[7; 2_049]).await.unwrap_err();
    assert_eq!(fields(&refused), ["value"]);
    let refused = release(&sidecar, &grant, &[7; 2_049]).await.unwrap_err();
    assert_eq!(fields(&refused), ["checkpoint"]);
    assert_eq!(record(&sidecar, false).await.state(), LockState::Held);
}

#[tokio::test(start_paused = true)]
async fn s23_locks_that_webjobs_share_have_no_checkpoints() {
    let account = Account::new();
    let sidecar = account.sidecar_with(|settings| settings.host.namespace.layout = Layout::WebJobs);
    let grant = sidecar.acquire(spec("nightly")).await;
    let refused = save(&sidecar, &grant, b"page 7").await.unwrap_err();
    assert_eq!(fields(&refused), ["value"]);
    let refused = release(&sidecar, &grant, b"page 7").await.unwrap_err();
    assert_eq!(fields(&refused), ["checkpoint"]);
}

#[tokio::test(start_paused = true)]
async fn s24_a_hold_that_is_over_or_elsewhere_saves_nothing() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let grant = here.acquire(spec("nightly")).await;
    let stray = save(&there, &grant, b"stray").await.unwrap_err();
    assert_eq!(reason(&stray), (Code::NotFound, "UNKNOWN_LEASE".to_owned()));
    here.release(&grant.lease_id).await;
    let late = save(&here, &grant, b"late").await.unwrap_err();
    assert_eq!(reason(&late), (Code::FailedPrecondition, "HOLD_RELEASED".to_owned()));
    let again = release(&here, &grant, b"late").await.unwrap();
    assert_eq!(again.outcome(), ReleaseOutcome::AlreadyReleased);
    assert_eq!(again.checkpoint_outcome(), CheckpointOutcome::Unknown);
    assert_eq!(record(&here, true).await.checkpoint, None);
}

#[tokio::test(start_paused = true)]
async fn s22_a_holder_is_told_how_and_by_whom_its_lock_was_broken() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let mut stream = here.hold(spec("nightly")).await;
    let grant = granted(&mut stream).await;
    break_softly(&here, BreakMode::RunOut).await;
    let Event::Revoked(revoked) = next(&mut stream).await else { panic!("no notice") };
    assert_eq!(
        revoked.validity.unwrap().valid_until,
        grant.validity.clone().unwrap().valid_until,
        "unchanged"
    );
    let note = revoked.break_note.unwrap();
    assert_eq!((note.reason.as_str(), note.broken_by.as_str()), ("it hangs", "ann"));
    assert_eq!(note.mode(), BreakMode::RunOut);
    let ask = GetHoldRequest { lease_id: grant.lease_id.clone(), generation: grant.generation };
    let hold = here.client.clone().get_hold(ask).await.unwrap().into_inner();
    assert_eq!(hold.state(), HoldState::Revoked);
    assert_eq!(hold.break_note.unwrap().reason, "it hangs");
    for sidecar in [&here, &there] {
        let shown = record(sidecar, false).await;
        assert_eq!(shown.state(), LockState::Breaking);
        assert_eq!(shown.break_note.unwrap().mode(), BreakMode::RunOut);
    }
    let result = release(&here, &grant, b"page 7").await.unwrap();
    assert_eq!(result.checkpoint_outcome(), CheckpointOutcome::Saved);
    assert_eq!(there.acquire(spec("nightly")).await.checkpoint.unwrap().value, b"page 7");
}

#[tokio::test(start_paused = true)]
async fn s22_at_the_deadline_the_hold_is_lost_as_broken() {
    let sidecar = Arc::new(Account::new().sidecar());
    let mut stream = sidecar.hold(spec("nightly")).await;
    granted(&mut stream).await;
    break_softly(&sidecar, BreakMode::RunOut).await;
    assert!(matches!(next(&mut stream).await, Event::Revoked(_)));
    let Event::Lost(lost) = next(&mut stream).await else { panic!("not lost") };
    assert_eq!(lost.reason(), LossReason::Broken);
    assert_eq!(lost.break_note.unwrap().reason, "it hangs");
    // At once, without a notice.
    let mut stream = sidecar.hold(spec("other")).await;
    granted(&mut stream).await;
    let request = BreakLockRequest {
        lock: by_key("other"),
        reason: "it is dead".to_owned(),
        mode: BreakMode::Now.into(),
        ..BreakLockRequest::default()
    };
    sidecar.client.clone().break_lock(request).await.unwrap();
    assert!(matches!(next(&mut stream).await, Event::Lost(_)));
}
