//! Occurrences that callers name, as they see them (T1, T2, S37).

use leasehold_client::proto::acquire_lease_response::Outcome;
use leasehold_client::proto::{
    AcquireLeaseRequest, Grant, LeaseSpec, ListSchedulesRequest, OutcomeResult,
    ReleaseLeaseRequest, ReleaseResult, RunOutcome,
};
use tonic::{Code, Status};

use crate::grpc::rig::{Account, Event, Sidecar, fields, granted, next, seconds, spec};
use crate::grpc::schedules_rig::schedules;

/// The simulated wall clock begins here.
const NOW: i64 = 1_800_000_000;

fn at(second: i64) -> Option<prost_types::Timestamp> {
    Some(prost_types::Timestamp { seconds: NOW + second, nanos: 0 })
}

fn of(second: i64) -> LeaseSpec {
    LeaseSpec { occurrence_at: at(second), ..spec("nightly") }
}

async fn ask(sidecar: &Sidecar, spec: LeaseSpec) -> Result<Outcome, Status> {
    let request = AcquireLeaseRequest { spec: Some(spec), needs: 0 };
    let answer = sidecar.client.clone().acquire_lease(request).await?;
    Ok(answer.into_inner().outcome.expect("an outcome is always set"))
}

async fn conclude(
    sidecar: &Sidecar,
    grant: &Grant,
    outcome: RunOutcome,
) -> Result<ReleaseResult, Status> {
    let request = ReleaseLeaseRequest {
        lease_id: grant.lease_id.clone(),
        generation: grant.generation,
        outcome: outcome.into(),
        ..ReleaseLeaseRequest::default()
    };
    let answer = sidecar.client.clone().release_lease(request).await?;
    Ok(answer.into_inner().result.unwrap())
}

#[tokio::test(start_paused = true)]
async fn t2_an_occurrence_is_granted_until_its_outcome_is_recorded() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let first = here.acquire(of(0)).await;
    assert_eq!(first.attempt, 1);
    let failed = conclude(&here, &first, RunOutcome::Failed).await.unwrap();
    assert_eq!(failed.outcome_result(), OutcomeResult::Recorded);
    let second = there.acquire(of(0)).await;
    assert_eq!(second.attempt, 2);
    conclude(&there, &second, RunOutcome::Succeeded).await.unwrap();

    let Ok(Outcome::AlreadyDone(done)) = ask(&here, of(0)).await else { panic!("granted again") };
    let run = done.run.unwrap();
    assert_eq!((run.outcome(), run.attempt, run.scheduled_at), (RunOutcome::Succeeded, 2, at(0)));
    assert_eq!(run.fencing_token, Some(second.fencing_token));
    let mut stream = there.hold(of(0)).await;
    assert!(matches!(next(&mut stream).await, Event::AlreadyDone(_)));
    assert!(stream.message().await.unwrap().is_none(), "the last event");

    let Ok(Outcome::Skipped(skipped)) = ask(&here, of(-60)).await else { panic!("not skipped") };
    assert_eq!(skipped.watermark, at(0));
    let mut stream = there.hold(of(-60)).await;
    assert!(matches!(next(&mut stream).await, Event::Skipped(_)));
}

#[tokio::test(start_paused = true)]
async fn a_record_shows_the_occurrences_and_they_are_no_schedule() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = sidecar.hold(of(0)).await;
    let grant = granted(&mut stream).await;
    let state = sidecar.record("nightly").await.schedule.unwrap();
    assert_eq!((state.watermark, state.run.unwrap().attempt), (None, 1));
    conclude(&sidecar, &grant, RunOutcome::FailedFinal).await.unwrap();
    let state = sidecar.record("nightly").await.schedule.unwrap();
    assert_eq!((state.watermark, state.run.is_some()), (at(0), false));
    assert_eq!(state.watermark_outcome(), RunOutcome::FailedFinal);
    assert_eq!(state.ended.len(), 1);
    let listed = schedules(&sidecar).list_schedules(ListSchedulesRequest::default()).await;
    assert!(listed.unwrap().into_inner().schedules.is_empty());
}

#[tokio::test(start_paused = true)]
async fn s19_what_does_not_go_with_an_occurrence_is_named() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let fraction = Some(prost_types::Timestamp { seconds: NOW, nanos: 1 });
    let wrong = [
        (LeaseSpec { permits: Some(2), ..of(0) }, "spec.permits"),
        (LeaseSpec { min_hold: seconds(1), ..of(0) }, "spec.min_hold"),
        (LeaseSpec { occurrence_max_attempts: 101, ..of(0) }, "spec.occurrence_max_attempts"),
        (
            LeaseSpec { occurrence_max_attempts: 1, ..spec("nightly") },
            "spec.occurrence_max_attempts",
        ),
        (LeaseSpec { occurrence_at: fraction, ..spec("nightly") }, "spec.occurrence_at"),
        (of(-NOW), "spec.occurrence_at"),
        (of(i64::MAX - NOW), "spec.occurrence_at"),
        (LeaseSpec { occurrence_at: at(0), ..spec(&"x".repeat(257)) }, "spec.key.function"),
    ];
    for (spec, field) in wrong {
        let status = ask(&sidecar, spec).await.unwrap_err();
        assert_eq!(
            (status.code(), fields(&status)),
            (Code::InvalidArgument, vec![field.to_owned()])
        );
    }
    let early = ask(&sidecar, of(3_600)).await.unwrap_err();
    assert_eq!(early.code(), Code::FailedPrecondition);
    assert!(early.message().contains("check the caller's clock"), "{early}");

    let plain = sidecar.acquire(spec("nightly")).await;
    for (outcome, what) in [
        (RunOutcome::Succeeded, "without occurrence_at"),
        (RunOutcome::Abandoned, "not for callers to say"),
    ] {
        let status = conclude(&sidecar, &plain, outcome).await.unwrap_err();
        assert_eq!(fields(&status), ["outcome"]);
        assert!(status.message().contains(what), "{status}");
    }
}
