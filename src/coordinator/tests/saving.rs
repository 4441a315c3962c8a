//! Checkpoints through the coordinator: what calls are answered, and what they cost (S23 to S27).

use std::sync::Arc;

use super::rig::{
    Account, MINUTE, SECOND, Sidecar, by_key, counts, granted, next_but_renewals, pass, request,
    settle, waiting,
};
use crate::coordinator::{
    BreakPeriod, CallError, CheckpointOutcome, Concluding, Grant, HoldRequest, HoldStream,
    LossReason, NoObserver, Released, ResumeRequest, Saved, StoreFailureKind,
};
use crate::lock::Layout;
use crate::record::CheckpointValue;
use crate::store::Operation;
use crate::testing::FaultPlan;

fn value(text: &str) -> CheckpointValue {
    CheckpointValue::new(text.as_bytes()).unwrap()
}

async fn save(sidecar: &Sidecar, grant: &Grant, text: &str) -> Result<Saved, CallError> {
    sidecar.coordinator.save(grant.lease_id, Some(grant.generation), value(text)).await
}

async fn resumed(sidecar: &Sidecar, grant: &Grant) -> (HoldStream, Grant) {
    let request = ResumeRequest {
        resume_token: grant.resume_token.clone(),
        attempt_id: "try".to_owned(),
        told_valid_until: None,
        trace_context: None,
    };
    let mut stream = sidecar.coordinator.resume(&request).unwrap();
    let grant = granted(&mut stream).await;
    (stream, grant)
}

fn text(grant: &Grant) -> Option<String> {
    let checkpoint = grant.checkpoint.as_ref()?;
    Some(String::from_utf8_lossy(checkpoint.value.as_bytes()).into_owned())
}

#[tokio::test(start_paused = true)]
async fn s23_a_save_costs_one_request_and_a_grant_with_a_checkpoint_no_more_than_one_without() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let first = here.acquire(request("nightly")).await;
    here.counts();
    let saved = save(&here, &first, "page 7").await.unwrap();
    assert_eq!(saved.version, first.token.value());
    assert!(saved.validity.valid_for > SECOND);
    assert_eq!(here.counts(), counts([(Operation::WriteRecord, 1)]));
    here.release(&first).await;
    here.counts();
    let second = there.acquire(request("nightly")).await;
    assert_eq!(text(&second).as_deref(), Some("page 7"));
    let asked = there.counts();
    let expected =
        [(Operation::Acquire, 1), (Operation::ReadRecord, 1), (Operation::WriteRecord, 1)];
    assert_eq!(asked, counts(expected));
    there.release(&second).await;
    settle().await;
    there.counts();
    let third = there.acquire(request("nightly")).await;
    assert_eq!(text(&third).as_deref(), Some("page 7"));
    assert_eq!(there.counts(), counts([(Operation::Acquire, 1), (Operation::WriteRecord, 1)]));
}

#[tokio::test(start_paused = true)]
async fn s26_a_release_with_a_save_costs_two_requests() {
    let sidecar = Account::new().sidecar();
    let grant = sidecar.acquire(request("nightly")).await;
    sidecar.counts();
    let generation = Some(grant.generation);
    let answer = sidecar.release_saving(grant.lease_id, generation, value("end")).await;
    let Concluding { released, checkpoint: saved, .. } = answer.unwrap();
    assert_eq!(released, Released::Released);
    assert!(matches!(saved, Some(CheckpointOutcome::Saved { .. })), "{saved:?}");
    assert_eq!(sidecar.counts(), counts([(Operation::WriteRecord, 1), (Operation::Release, 1)]));
}

#[tokio::test(start_paused = true)]
async fn s25_a_hand_off_with_a_checkpoint_costs_nothing() {
    let sidecar = Account::new().sidecar();
    let (stream, first) = sidecar.hold(&request("nightly")).await;
    let mut waits = sidecar.coordinator.hold(&waiting("nightly", MINUTE)).unwrap();
    settle().await;
    save(&sidecar, &first, "page 7").await.unwrap();
    sidecar.counts();
    sidecar.release(&first).await;
    let second = granted(&mut waits).await;
    assert_eq!(text(&second).as_deref(), Some("page 7"));
    assert_eq!(sidecar.counts(), counts([]));
    drop(stream);
}

#[tokio::test(start_paused = true)]
async fn s26_of_many_saves_at_once_one_a_second_reaches_the_store() {
    let sidecar = Account::new().sidecar();
    let grant = sidecar.acquire(request("nightly")).await;
    sidecar.counts();
    let texts: Vec<String> = (0..20).map(|number| format!("page {number}")).collect();
    let saves = texts.iter().map(|text| save(&sidecar, &grant, text));
    let versions: Vec<u64> = futures_util::future::join_all(saves)
        .await
        .into_iter()
        .map(|saved| saved.unwrap().version)
        .collect();
    assert_eq!(sidecar.counts(), counts([(Operation::WriteRecord, 2)]));
    let newest = versions.iter().max().copied();
    assert_eq!(versions.last().copied(), newest);
    assert!(versions[1..].iter().all(|version| Some(*version) == newest), "{versions:?}");
    sidecar.release(&grant).await;
    let next = sidecar.acquire(request("nightly")).await;
    assert_eq!(text(&next).as_deref(), Some("page 19"));
}

#[tokio::test(start_paused = true)]
async fn s24_a_hold_that_is_over_saves_nothing() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let grant = sidecar.acquire(request("nightly")).await;
    sidecar.release(&grant).await;
    sidecar.counts();
    let late = save(&sidecar, &grant, "late").await.unwrap_err();
    assert!(matches!(late, CallError::HoldReleased), "{late}");
    assert_eq!(sidecar.counts(), counts([]));
    let lost = sidecar.acquire(request("nightly")).await;
    account.store.locks().delete_lock(&super::rig::path("nightly"));
    let late = save(&sidecar, &lost, "late").await.unwrap_err();
    let CallError::HoldLost { reason } = late else { panic!("{late}") };
    assert_eq!(reason, LossReason::LockDeleted);
    let elsewhere = account.sidecar();
    let stray = save(&elsewhere, &lost, "stray").await.unwrap_err();
    assert!(matches!(stray, CallError::UnknownLease), "{stray}");
}

#[tokio::test(start_paused = true)]
async fn s27_an_outcome_that_stays_unknown_is_told_as_that() {
    let sidecar = Account::new().sidecar();
    let grant = sidecar.acquire(request("nightly")).await;
    sidecar.faults().set_plan(FaultPlan { lose_answer: 1_000, ..FaultPlan::default() });
    let unknown = save(&sidecar, &grant, "page 7").await.unwrap_err();
    assert!(matches!(unknown, CallError::CheckpointUnknown), "{unknown}");
    sidecar.faults().set_plan(FaultPlan::default());
    let next = sidecar.acquire(waiting("nightly", 5 * MINUTE)).await;
    assert_eq!(text(&next).as_deref(), Some("page 7"), "it was done, as it happens");
}

#[tokio::test(start_paused = true)]
async fn s27_answers_that_are_lost_for_a_while_cost_no_save() {
    let sidecar = Account::new().sidecar();
    let grant = sidecar.acquire(request("nightly")).await;
    sidecar.faults().set_plan(FaultPlan { lose_answer: 1_000, ..FaultPlan::default() });
    let saving = save(&sidecar, &grant, "page 7");
    let mending = async {
        pass(8 * SECOND).await;
        sidecar.faults().set_plan(FaultPlan::default());
    };
    let (saved, ()) = tokio::join!(saving, mending);
    assert_eq!(saved.unwrap().version, grant.token.value());
}

#[tokio::test(start_paused = true)]
async fn s23_locks_that_are_shared_with_webjobs_have_no_checkpoints() {
    let account = Account::new();
    let shared = account.sidecar_with(Arc::new(NoObserver), 1, |settings| {
        settings.host.namespace.layout = Layout::WebJobs;
    });
    let grant = shared.acquire(request("nightly")).await;
    let refused = save(&shared, &grant, "page 7").await.unwrap_err();
    assert!(matches!(refused, CallError::NoCheckpoints { field: "value" }), "{refused}");
    let generation = Some(grant.generation);
    let refused = shared.release_saving(grant.lease_id, generation, value("end")).await;
    let refused = refused.unwrap_err();
    assert!(matches!(refused, CallError::NoCheckpoints { field: "checkpoint" }), "{refused}");
    assert!(shared.coordinator.get_hold(grant.lease_id, generation).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn s26_a_save_that_the_store_refuses_is_told_and_the_hold_goes_on() {
    let sidecar = Account::new().sidecar();
    let grant = sidecar.acquire(request("nightly")).await;
    sidecar.faults().set_plan(FaultPlan { deny: 1_000, ..FaultPlan::default() });
    let refused = save(&sidecar, &grant, "page 7").await.unwrap_err();
    let CallError::StoreFailure(failure) = refused else { panic!("{refused}") };
    assert_eq!(failure.kind, StoreFailureKind::Denied);
    sidecar.faults().set_plan(FaultPlan::default());
    save(&sidecar, &grant, "page 8").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn s16_a_save_from_before_a_resume_is_told_that_it_was_superseded() {
    let sidecar = Account::new().sidecar();
    let (stream, first) = sidecar.hold(&request("nightly")).await;
    stream.disconnected();
    let (_stream, second) = resumed(&sidecar, &first).await;
    sidecar.counts();
    let old = save(&sidecar, &first, "old").await.unwrap_err();
    assert!(matches!(old, CallError::ResumedSince), "{old}");
    assert_eq!(sidecar.counts(), counts([]));
    save(&sidecar, &second, "new").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn s25_a_repeated_acquire_has_the_checkpoint_of_now() {
    let sidecar = Account::new().sidecar();
    let repeated = HoldRequest { request_id: "run-42".to_owned(), ..request("nightly") };
    let first = sidecar.acquire(repeated.clone()).await;
    save(&sidecar, &first, "page 7").await.unwrap();
    let again = sidecar.acquire(repeated).await;
    assert_eq!((again.lease_id, again.token), (first.lease_id, first.token));
    assert_eq!(text(&again).as_deref(), Some("page 7"));
}

#[tokio::test(start_paused = true)]
async fn s26_a_repeated_release_does_not_say_that_a_checkpoint_was_not_saved_which_was() {
    let sidecar = Account::new().sidecar();
    let grant = sidecar.acquire(request("nightly")).await;
    let generation = Some(grant.generation);
    sidecar.faults().set_plan(FaultPlan {
        delay_answer: 1_000,
        longest_delay: 2 * SECOND,
        ..FaultPlan::default()
    });
    let release = || sidecar.release_saving(grant.lease_id, generation, value("end"));
    let repeated = async {
        // The save is done by then, and the release under way.
        while sidecar.link.counts().of(Operation::Release) == 0 {
            pass(SECOND / 100).await;
        }
        release().await
    };
    let (first, second) = tokio::join!(release(), repeated);
    let (first, second) = (first.unwrap(), second.unwrap());
    assert!(matches!(first.checkpoint, Some(CheckpointOutcome::Saved { .. })), "{first:?}");
    assert_eq!(second.released, Released::Released);
    assert!(!matches!(second.checkpoint, Some(CheckpointOutcome::NotSaved { .. })), "{second:?}");
}

#[tokio::test(start_paused = true)]
async fn s17_s24_a_save_that_meets_a_break_tells_it_with_its_reason() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let (mut stream, grant) = here.hold(&request("nightly")).await;
    super::breaking::broken(&there, BreakPeriod::Now).await.unwrap();
    let late = save(&here, &grant, "late").await.unwrap_err();
    let CallError::HoldLost { reason } = late else { panic!("{late}") };
    assert_eq!(reason, LossReason::Broken);
    super::breaking::assert_lost_by_the_break(&next_but_renewals(&mut stream).await);
}

#[tokio::test(start_paused = true)]
async fn s23_s16_a_checkpoint_is_read_from_the_store_also_where_the_hold_has_left() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let (_stream, first) = here.hold(&request("nightly")).await;
    let (_moved, second) = resumed(&there, &first).await;
    save(&there, &second, "page 7").await.unwrap();
    here.counts();
    let lock = here.coordinator.get_with_checkpoint(&by_key("nightly")).await.unwrap();
    let read = lock.checkpoint.map(|checkpoint| checkpoint.value);
    assert_eq!(read, Some(value("page 7")));
    assert_eq!(here.counts(), counts([(Operation::ReadRecord, 1)]));
    here.coordinator.get_with_checkpoint(&by_key("weekly")).await.unwrap();
}
