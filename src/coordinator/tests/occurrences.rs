//! Holds whose callers name an occurrence of their own: granted until an outcome is recorded, never after
//! (T1, T2).

use std::time::Duration;

use super::rig::{
    Account, LEASE, MINUTE, SECOND, Sidecar, counts, granted, next, next_but_renewals, pass, path,
    request, settle, waiting,
};
use crate::coordinator::{
    CallError, CheckpointOutcome, Concluding, Grant, HeldEvent, HoldEvent, HoldRequest, LossReason,
    Outcome, OutcomeResult, Released, ResumeRequest,
};
use crate::lock::Layout;
use crate::record::CheckpointValue;
use crate::schedule::{Ended, Occurrence, Outcome as RunOutcome, Report, ScheduleRecord};
use crate::store::{LeaseState, LeaseStoreExt as _, Operation};
use crate::testing::FaultPlan;
use crate::time::Clock as _;
use crate::timetable::UtcSecond;

impl Account {
    /// So many seconds from now, by the store's clock.
    fn in_seconds(&self, seconds: i64) -> UtcSecond {
        let now: UtcSecond = self.clock.wall().into();
        UtcSecond(now.0 + seconds)
    }
}

fn naming(at: UtcSecond) -> HoldRequest {
    let occurrence = Some(Occurrence { at, max_attempts: None });
    HoldRequest { occurrence, ..request("nightly") }
}

async fn conclude(sidecar: &Sidecar, grant: &Grant, report: Report) -> Concluding {
    let (lease_id, generation) = (grant.lease_id, Some(grant.generation));
    let concluded =
        sidecar.coordinator.release_concluding(lease_id, generation, Some(report), None).await;
    concluded.unwrap()
}

async fn done(sidecar: &Sidecar, at: UtcSecond) -> Ended {
    match sidecar.ask(naming(at)).await {
        Ok(Outcome::AlreadyDone(ended)) => ended,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn t2_an_occurrence_is_granted_until_its_outcome_is_recorded_wherever_it_is_asked_for() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let at = account.in_seconds(0);
    let first = here.acquire(naming(at)).await;
    assert_eq!(first.attempt, 1);
    assert!(matches!(there.ask(naming(at)).await, Ok(Outcome::Busy(_))));
    let concluded = conclude(&here, &first, Report::Failed).await;
    let recorded = Some(OutcomeResult::Recorded);
    assert_eq!((concluded.released, concluded.outcome), (Released::Released, recorded));
    settle().await;

    let second = there.acquire(naming(at)).await;
    assert_eq!(second.attempt, 2);
    assert_eq!(conclude(&there, &second, Report::Succeeded).await.outcome, recorded);
    settle().await;
    for sidecar in [&here, &there] {
        let ended = done(sidecar, at).await;
        assert_eq!((ended.outcome, ended.attempt), (RunOutcome::Succeeded, 2));
        assert_eq!(ended.token, Some(second.token));
    }
    let older = here.ask(naming(account.in_seconds(-3_600))).await;
    assert!(matches!(older, Ok(Outcome::Skipped { watermark }) if watermark == at), "{older:?}");
    settle().await;
    here.assert_idle();
    assert_eq!(account.lease("nightly").await, LeaseState::Available);
}

#[tokio::test(start_paused = true)]
async fn t2_what_an_occurrence_costs() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let at = account.in_seconds(0);
    let grant = sidecar.acquire(naming(at)).await;
    sidecar.counts();
    conclude(&sidecar, &grant, Report::Succeeded).await;
    assert_eq!(sidecar.counts(), counts([(Operation::WriteRecord, 1), (Operation::Release, 1)]));
    settle().await;
    done(&sidecar, at).await;
    settle().await;
    assert_eq!(sidecar.counts(), counts([(Operation::Acquire, 1), (Operation::Release, 1)]));
}

#[tokio::test(start_paused = true)]
async fn t2_who_waits_for_the_lock_may_learn_that_its_occurrence_was_done_meanwhile() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let at = account.in_seconds(0);
    let grant = here.acquire(naming(at)).await;
    let occurrence = Some(Occurrence { at, max_attempts: None });
    let patient = HoldRequest { occurrence, ..waiting("nightly", 10 * MINUTE) };
    let mut near = here.coordinator.hold(&patient).unwrap();
    let mut far = there.coordinator.hold(&patient).unwrap();
    settle().await;
    conclude(&here, &grant, Report::Succeeded).await;
    for waits in [&mut near, &mut far] {
        let last = loop {
            match next(waits).await {
                HoldEvent::Waiting { .. } => {}
                last => break last,
            }
        };
        let HoldEvent::AlreadyDone(ended) = last else { panic!("{last:?}") };
        assert_eq!(ended.outcome, RunOutcome::Succeeded);
        assert!(waits.next().await.is_none(), "the last event");
    }
}

#[tokio::test(start_paused = true)]
async fn t2_a_holder_that_dies_leaves_no_outcome_and_the_next_is_told_attempt_2() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let at = account.in_seconds(0);
    let (stream, first) = here.hold(&naming(at)).await;
    assert_eq!(first.attempt, 1);
    stream.disconnected();
    pass(2 * LEASE).await;
    let second = there.acquire(naming(at)).await;
    assert_eq!(second.attempt, 2);
    // Who believed in the first one for too long records nothing.
    let late = conclude(&here, &first, Report::Succeeded).await;
    assert_eq!(late.outcome, Some(OutcomeResult::NotRecorded), "{late:?}");
    let once = Some(Occurrence { at, max_attempts: Some(2) });
    there.release(&second).await;
    settle().await;
    let spent = here.ask(HoldRequest { occurrence: once, ..request("nightly") }).await;
    let Ok(Outcome::AlreadyDone(ended)) = spent else { panic!("{spent:?}") };
    assert_eq!((ended.outcome, ended.attempt), (RunOutcome::Failed, 2));
    assert_eq!(done(&there, at).await.outcome, RunOutcome::Failed);
}

#[tokio::test(start_paused = true)]
async fn s16_a_hold_that_was_resumed_elsewhere_still_has_its_occurrence() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let at = account.in_seconds(0);
    let (stream, first) = here.hold(&naming(at)).await;
    stream.disconnected();
    let resume = ResumeRequest {
        resume_token: first.resume_token.clone(),
        attempt_id: "try".to_owned(),
        told_valid_until: None,
        trace_context: None,
    };
    let mut resumed = there.coordinator.resume(&resume).unwrap();
    let second = granted(&mut resumed).await;
    assert_eq!((second.token, second.attempt), (first.token, 1));
    let concluded = conclude(&there, &second, Report::Succeeded).await;
    assert_eq!(concluded.outcome, Some(OutcomeResult::Recorded));
    settle().await;
    assert_eq!(done(&there, at).await.token, Some(first.token));
}

#[tokio::test(start_paused = true)]
async fn t8_an_outcome_goes_with_the_checkpoint_and_its_repeat_is_not_taken_for_a_failure() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let at = account.in_seconds(0);
    let grant = sidecar.acquire(naming(at)).await;
    sidecar.counts();
    let (lease_id, generation) = (grant.lease_id, Some(grant.generation));
    let release = || {
        let value = CheckpointValue::new(b"page 7").unwrap();
        let report = Some(Report::Succeeded);
        sidecar.coordinator.release_concluding(lease_id, generation, report, Some(value))
    };
    let (one, two) = tokio::join!(release(), release());
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.outcome, Some(OutcomeResult::Recorded));
    assert!(matches!(one.checkpoint, Some(CheckpointOutcome::Saved { .. })), "{one:?}");
    assert!(
        matches!(two.outcome, Some(OutcomeResult::Recorded | OutcomeResult::Unknown)),
        "{two:?}"
    );
    let again = release().await.unwrap();
    assert_eq!(again.outcome, Some(OutcomeResult::Unknown), "{again:?}");
    let stored = account.store.read_record(&path("nightly")).await.unwrap();
    assert!(stored.fields["leasehold_schedule_last"].contains("/SUCCEEDED/"));
}

#[tokio::test(start_paused = true)]
async fn t8_an_outcome_whose_write_was_refused_was_not_recorded() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let at = account.in_seconds(0);
    let (mut stream, grant) = sidecar.hold(&naming(at)).await;
    sidecar.faults().set_plan(FaultPlan { lose_request: 1_000, ..FaultPlan::default() });
    let concluded = conclude(&sidecar, &grant, Report::Succeeded).await;
    assert_eq!(concluded.outcome, Some(OutcomeResult::Unknown), "{concluded:?}");
    sidecar.faults().set_plan(FaultPlan::default());
    assert!(next_but_renewals(&mut stream).await.is_last());
    pass(2 * LEASE).await;
    assert_eq!(sidecar.acquire(naming(at)).await.attempt, 2);
}

/// More than a thread's stack has room for, if each were decided within the other.
const MANY: usize = 5_000;

#[tokio::test(start_paused = true)]
async fn s19_thousands_of_outcomes_that_wait_for_one_write_are_decided_one_after_the_other() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let grant = sidecar.acquire(naming(account.in_seconds(0))).await;
    sidecar.faults().set_plan(FaultPlan { lose_request: 1_000, ..FaultPlan::default() });
    let calls: Vec<_> = (0..MANY)
        .map(|_| {
            let (coordinator, lease_id) = (sidecar.coordinator.clone(), grant.lease_id);
            let (generation, report) = (Some(grant.generation), Some(Report::Succeeded));
            tokio::spawn(async move {
                coordinator.release_concluding(lease_id, generation, report, None).await
            })
        })
        .collect();
    settle().await;
    sidecar.faults().set_plan(FaultPlan::default());
    for call in calls {
        let outcome = call.await.unwrap().unwrap().outcome;
        assert!(
            matches!(outcome, Some(OutcomeResult::Recorded | OutcomeResult::Unknown)),
            "{outcome:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_claimed_is_refused_with_its_reason() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let future = sidecar.ask(naming(account.in_seconds(60))).await;
    assert!(matches!(future, Err(CallError::OccurrenceInFuture { .. })), "{future:?}");
    settle().await;
    sidecar.assert_idle();

    let plain = sidecar.acquire(request("nightly")).await;
    let (lease_id, generation) = (plain.lease_id, Some(plain.generation));
    let report = Some(Report::Succeeded);
    let answer = sidecar.coordinator.release_concluding(lease_id, generation, report, None).await;
    assert!(matches!(answer, Err(CallError::NoOccurrence)), "{answer:?}");
    assert!(sidecar.coordinator.get_hold(lease_id, generation).await.is_ok(), "it goes on");
    sidecar.release(&plain).await;
    settle().await;

    let mut fields = account.store.read_record(&path("nightly")).await.unwrap().fields;
    fields.extend([
        ("leasehold_schedule_next".to_owned(), "-".to_owned()),
        ("leasehold_schedule_last".to_owned(), "2027-01-15T08:00:00Z/-/-".to_owned()),
        ("leasehold_schedule_plan".to_owned(), "1/ff/1/0".to_owned()),
    ]);
    let (now, time) = (account.clock.now(), account.clock.wall());
    account.store.locks().write_without_lease(&path("nightly"), fields, now, time).unwrap();
    let scheduled = sidecar.ask(naming(account.in_seconds(0))).await;
    assert!(matches!(scheduled, Err(CallError::LockHasSchedule { .. })), "{scheduled:?}");
    let maintenance = sidecar.acquire(request("nightly")).await;
    sidecar.release(&maintenance).await;

    let webjobs =
        account.sidecar_with(std::sync::Arc::new(crate::coordinator::NoObserver), 2, |it| {
            it.host.namespace.layout = Layout::WebJobs;
        });
    let refused = webjobs.ask(naming(account.in_seconds(0))).await;
    assert!(matches!(refused, Err(CallError::NoOccurrences)), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn s11_an_occurrence_whose_hold_is_lost_is_granted_again() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let at = account.in_seconds(0);
    let short = HoldRequest { max_hold: Some(30 * SECOND), ..naming(at) };
    let (mut stream, grant) = sidecar.hold(&short).await;
    let lost = next_but_renewals(&mut stream).await;
    assert!(
        matches!(lost, HoldEvent::Held(HeldEvent::Lost { reason: LossReason::MaxHoldReached, .. })),
        "{lost:?}"
    );
    drop(stream);
    let late = conclude(&sidecar, &grant, Report::Succeeded).await;
    assert_eq!(late.outcome, Some(OutcomeResult::NotRecorded));
    pass(Duration::from_secs(5)).await;
    assert_eq!(sidecar.acquire(naming(at)).await.attempt, 2);
}

#[tokio::test(start_paused = true)]
async fn t6_who_was_not_granted_its_occurrence_counts_that_as_no_attempt() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let occurrence = Some(Occurrence { at: account.in_seconds(0), max_attempts: Some(1) });
    let once = HoldRequest { occurrence, ..waiting("nightly", 10 * MINUTE) };
    let asking = tokio::spawn({
        let sidecar = sidecar.clone();
        async move { sidecar.ask(once).await }
    });
    account.sleep_over_a_write(&sidecar, "leasehold_schedule_run").await;
    let answer = asking.await.unwrap();
    let Ok(Outcome::Granted(grant)) = answer else { panic!("{answer:?}") };
    assert_eq!(grant.attempt, 1);
}

#[tokio::test(start_paused = true)]
async fn t6_a_repeated_call_is_told_no_attempt_that_its_first_was_not_granted() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let occurrence = Some(Occurrence { at: account.in_seconds(0), max_attempts: Some(1) });
    let request_id = "run-42".to_owned();
    let once = HoldRequest { occurrence, request_id, ..waiting("nightly", 10 * MINUTE) };
    let first = tokio::spawn({
        let (sidecar, once) = (sidecar.clone(), once.clone());
        async move { sidecar.ask(once).await }
    });
    // It is written for the first, which is not told so before the call is repeated.
    account.answers_late(&sidecar, "leasehold_schedule_run").await;
    let answer = sidecar.ask(once).await;
    let Ok(Outcome::Granted(grant)) = answer else { panic!("{answer:?}") };
    assert_eq!(grant.attempt, 1);
    assert!(matches!(first.await.unwrap(), Err(CallError::Superseded)));
}

#[tokio::test(start_paused = true)]
async fn t6_who_leaves_while_its_occurrence_is_written_leaves_no_attempt_to_the_next_one() {
    for is_here in [true, false] {
        let account = Account::new();
        let (here, there) = (account.sidecar(), account.sidecar());
        let occurrence = Some(Occurrence { at: account.in_seconds(0), max_attempts: Some(1) });
        let once = HoldRequest { occurrence, ..waiting("nightly", 10 * MINUTE) };
        let first = here.coordinator.hold(&once).unwrap();
        account.answers_late(&here, "leasehold_schedule_run").await;
        drop(first);
        let answer = if is_here { here.ask(once).await } else { there.ask(once).await };
        let Ok(Outcome::Granted(grant)) = answer else { panic!("{answer:?}") };
        assert_eq!(grant.attempt, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn t6_who_leaves_while_its_occurrence_is_written_costs_one_write_and_leaves_it_returned() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let at = account.in_seconds(0);
    let first = sidecar.coordinator.hold(&naming(at)).unwrap();
    account.answers_late(&sidecar, "leasehold_schedule_run").await;
    sidecar.counts();
    drop(first);
    pass(10 * SECOND).await;
    assert_eq!(sidecar.counts(), counts([(Operation::WriteRecord, 1), (Operation::Release, 1)]));
    let stored = account.store.read_record(&path("nightly")).await.unwrap();
    let record = ScheduleRecord::from_fields(&stored.fields).unwrap().unwrap();
    assert_eq!((record.run, record.watermark), (None, UtcSecond::FIRST));
    assert_eq!(record.ended[0].outcome, RunOutcome::Returned);
    assert_eq!(stored.lease, LeaseState::Available);
    sidecar.assert_idle();
}
