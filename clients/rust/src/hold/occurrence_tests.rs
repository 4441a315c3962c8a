//! Occurrences that the caller names: what is asked, what is answered, and what is told at the end (T1, T2).

use std::future::IntoFuture as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::fake::{Bench, OURS, grant, validity};
use crate::proto::hold_lease_request::Start;
use crate::proto::hold_lease_response::Event;
use crate::{Error, LeaseSpec, Outcome, RunOutcome, proto};

const AT: i64 = 1_800_000_000;

fn at() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(AT.unsigned_abs())
}

fn spec() -> LeaseSpec {
    LeaseSpec::new("f").with_occurrence(at()).with_occurrence_max_attempts(3)
}

fn wire() -> Option<prost_types::Timestamp> {
    Some(prost_types::Timestamp { seconds: AT, nanos: 0 })
}

/// What a hold of this spec comes to when it is answered so.
async fn answered(
    bench: &mut Bench,
    spec: LeaseSpec,
    event: Event,
) -> Result<Outcome<crate::Hold>, Error> {
    let holding = tokio::spawn(bench.client.hold(spec).into_future());
    let call = bench.sidecar.hold().await;
    call.tell(event).await;
    holding.await.unwrap()
}

fn granted() -> proto::Grant {
    let Event::Granted(granted) = grant(validity(OURS, 1_058, 58)) else { panic!() };
    proto::Grant { attempt: 2, ..granted }
}

#[tokio::test]
async fn t2_the_attempt_is_told_and_the_outcome_goes_with_the_release() {
    let mut bench = Bench::new().await;
    let holding = tokio::spawn(bench.client.hold(spec()).into_future());
    let call = bench.sidecar.hold().await;
    let Start::Spec(asked) = &call.start else { panic!() };
    assert_eq!((asked.occurrence_at, asked.occurrence_max_attempts), (wire(), 3));
    call.tell(Event::Granted(granted())).await;
    let guard = holding.await.unwrap().unwrap().granted().unwrap();
    assert_eq!(guard.grant().attempt, 2);
    // The scripted sidecar says nothing of an outcome, as one that does not know any.
    let released = guard.release_with_outcome(RunOutcome::Succeeded, None).await;
    assert!(matches!(released, Err(Error::OutcomeNotRecorded(_))), "{released:?}");
    assert_eq!(bench.sidecar.asked(), ["release lease-1 of generation 1 as RUN_OUTCOME_SUCCEEDED"]);
}

#[tokio::test]
async fn t2_that_an_occurrence_is_over_is_an_answer() {
    let mut bench = Bench::new().await;
    let run = Some(proto::EndedRun {
        scheduled_at: wire(),
        outcome: proto::RunOutcome::Succeeded.into(),
        attempt: 2,
        ..proto::EndedRun::default()
    });
    let done = Event::AlreadyDone(proto::AlreadyDone { run });
    let answer = answered(&mut bench, spec(), done.clone()).await.unwrap();
    let Outcome::AlreadyDone(run) = answer else { panic!("{answer:?}") };
    assert_eq!((run.outcome, run.attempt), (Some(RunOutcome::Succeeded), 2));
    assert_eq!(run.scheduled_at, Some(at()));

    let skipped = proto::Skipped { watermark: wire() };
    let answer = answered(&mut bench, spec(), Event::Skipped(skipped)).await.unwrap();
    assert!(matches!(answer, Outcome::Skipped { watermark } if watermark == Some(at())));

    let unasked = answered(&mut bench, LeaseSpec::new("f"), done.clone()).await;
    assert!(matches!(unasked, Err(Error::Protocol(_))), "{unasked:?}");

    let holding = tokio::spawn(bench.client.hold(spec()).until_granted());
    bench.sidecar.hold().await.tell(done).await;
    let over = holding.await.unwrap();
    assert!(matches!(over, Err(Error::OccurrenceOver(_))), "{over:?}");
}
