//! How runs end otherwise: abandoned, timed out, returned, resumed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::rig::{
    at, complete, completion, late, minutely, news, resume, run, run_within, spec, standby,
    subscribe,
};
use crate::coordinator::tests::breaking::broken;
use crate::coordinator::tests::rig::{Account, LEASE, MINUTE, SECOND, by_key, pass, settle};
use crate::coordinator::{
    BreakPeriod, HeldEvent, LockEvent, LockEventKind, LossReason, Observer, ScheduleEventKind,
};
use crate::lock::FencingToken;
use crate::schedule::{Outcome, Report, RunTimeout, Spec};
use crate::scheduler::{RunGrant, ScheduleEvent};

#[tokio::test(start_paused = true)]
async fn t4_a_run_whose_client_has_gone_is_run_again_elsewhere() {
    let account = Account::new();
    let (first, second) = (account.sidecar(), account.sidecar());
    let hourly = || spec("@every 600s");
    let mut stream = subscribe(&first, hourly());
    standby(&mut stream).await;
    let granted = run(&mut stream).await;
    let mut other = subscribe(&second, hourly());
    standby(&mut other).await;
    drop(stream);
    let again = run_within(&mut other, 2 * LEASE).await.expect("within D of the look before");
    assert_eq!(again.told.scheduled_at, granted.told.scheduled_at);
    assert_eq!(again.told.attempt, 2);
    assert!(again.grant.token > granted.grant.token);
}

#[tokio::test(start_paused = true)]
async fn t11_a_run_that_failed_is_tried_again_after_its_backoff_and_at_most_so_often() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = subscribe(&sidecar, spec("@every 600s"));
    let mut waits = Vec::new();
    for attempt in 1..=3 {
        let before = account.now();
        let granted = run(&mut stream).await;
        assert_eq!((granted.told.scheduled_at, granted.told.attempt), (at(600), attempt));
        waits.push((account.now() - before).as_secs());
        let completed = complete(&sidecar, &granted, Report::Failed).await;
        assert_eq!(completed.retry_at.is_some(), attempt < 3);
        news(&mut stream).await;
    }
    assert!(waits.get(1).is_some_and(|wait| (9..=11).contains(wait)), "{waits:?}");
    assert!(waits.get(2).is_some_and(|wait| (19..=21).contains(wait)), "{waits:?}");
    assert_eq!(run(&mut stream).await.told.scheduled_at, at(1_200));
}

#[tokio::test(start_paused = true)]
async fn t11_a_run_that_is_returned_goes_to_another_replica() {
    let account = Account::new();
    let (first, second) = (account.sidecar(), account.sidecar());
    let mut stream = subscribe(&first, spec("@every 600s"));
    let granted = run(&mut stream).await;
    let mut other = subscribe(&second, spec("@every 600s"));
    standby(&mut other).await;
    complete(&first, &granted, Report::Returned).await;
    let again = run_within(&mut other, 2 * LEASE).await.expect("the other one runs it");
    assert_eq!((again.told.scheduled_at, again.told.attempt), (at(600), 1), "it does not count");
}

#[tokio::test(start_paused = true)]
async fn t11_who_gave_a_run_back_is_there_for_the_next_one() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = subscribe(&sidecar, spec("@every 30s"));
    let first = run(&mut stream).await;
    complete(&sidecar, &first, Report::Returned).await;
    news(&mut stream).await;
    let next = run_within(&mut stream, 32 * SECOND).await.expect("nobody else is here");
    assert_eq!(next.told.scheduled_at.seconds_since(first.told.scheduled_at), 30);
}

#[tokio::test(start_paused = true)]
async fn t12_a_run_that_reaches_its_deadline_is_lost_and_final() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let timeout = RunTimeout::Duration(90 * SECOND);
    let mut stream = subscribe(&sidecar, Spec { run_timeout: timeout, ..spec("@every 600s") });
    let granted = run(&mut stream).await;
    // The first run of all is not started by a last runner, but up to 1.2 s later.
    assert!(granted.told.deadline.is_some_and(|it| (at(690)..=at(691)).contains(&it)));
    let ends = granted.grant.max_hold_ends.as_ref().unwrap().after;
    let grace = 12 * SECOND;
    assert!(ends <= 90 * SECOND + grace && ends > 85 * SECOND + grace, "{ends:?}");
    let lost = news(&mut stream).await;
    assert!(
        matches!(
            lost,
            ScheduleEvent::Held(HeldEvent::Lost { reason: LossReason::MaxHoldReached, .. })
        ),
        "{lost:?}"
    );
    pass(3 * MINUTE).await;
    let info = sidecar.scheduler.schedule(&by_key("nightly")).await.unwrap();
    let state = info.state.unwrap();
    assert_eq!((state.watermark, state.outcome), (at(600), Some(Outcome::TimedOut)));
    // T24: it has said nothing of it.
    drop(stream);
    let mut stream = subscribe(&sidecar, Spec { run_timeout: timeout, ..spec("@every 600s") });
    assert_eq!(run(&mut stream).await.told.scheduled_at, at(1_200));
}

#[tokio::test(start_paused = true)]
async fn t20_a_sidecar_that_drains_starts_nothing_and_returns_what_is_unfinished() {
    let account = Account::new();
    let (first, second) = (account.sidecar(), account.sidecar());
    let mut stream = subscribe(&first, spec("@every 600s"));
    let granted = run(&mut stream).await;
    let mut idle = minutely(&second);
    standby(&mut idle).await;
    drop(idle);
    let mut other = subscribe(&second, spec("@every 600s"));
    standby(&mut other).await;
    let draining = first.coordinator.clone();
    tokio::spawn(async move { draining.drain(30 * SECOND).await });
    assert!(matches!(news(&mut stream).await, ScheduleEvent::Held(HeldEvent::Draining { .. })));
    let lost = news(&mut stream).await;
    assert!(
        matches!(lost, ScheduleEvent::Held(HeldEvent::Lost { reason: LossReason::Shutdown, .. })),
        "{lost:?}"
    );
    drop(stream);
    let again = run_within(&mut other, 3 * LEASE).await.expect("the other one runs it");
    assert_eq!(again.told.scheduled_at, granted.told.scheduled_at);
    assert_eq!(again.told.attempt, 1, "a run that was returned does not count");
}

#[tokio::test(start_paused = true)]
async fn t20_a_subscriber_without_a_run_is_sent_away_by_a_drain() {
    let sidecar = Account::new().sidecar();
    let mut stream = minutely(&sidecar);
    standby(&mut stream).await;
    sidecar.coordinator.drain(Duration::ZERO).await;
    assert!(matches!(news(&mut stream).await, ScheduleEvent::Held(HeldEvent::Draining { .. })));
    assert!(matches!(news(&mut stream).await, ScheduleEvent::Failed(_)));
    assert!(stream.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn s16_a_run_whose_stream_broke_goes_on_at_another_sidecar() {
    let account = Account::new();
    let (first, second) = (account.sidecar(), account.sidecar());
    let mut stream = subscribe(&first, spec("@every 600s"));
    let granted = run(&mut stream).await;
    stream.disconnected();
    settle().await;
    let request = resume(spec("@every 600s"), &granted);
    let mut stream = second.scheduler.subscribe(request).unwrap();
    let resumed = run(&mut stream).await;
    assert_eq!(resumed.told.run_id, granted.told.run_id);
    assert_eq!(resumed.told.scheduled_at, at(600));
    assert_eq!(resumed.grant.token, granted.grant.token);
    assert!(resumed.grant.generation > granted.grant.generation);
    complete(&second, &resumed, Report::Succeeded).await;
    let recorded = news(&mut stream).await;
    assert!(matches!(recorded, ScheduleEvent::Recorded { .. }), "{recorded:?}");
    assert_eq!(run(&mut stream).await.told.scheduled_at, at(1_200));
}

#[tokio::test(start_paused = true)]
async fn t12_s16_a_run_that_goes_on_keeps_the_limits_that_it_began_with() {
    let account = Account::new();
    let (first, second) = (account.sidecar(), account.sidecar());
    let with = |stop_grace, progress_timeout| Spec {
        stop_grace: Some(stop_grace),
        progress_timeout: Some(progress_timeout),
        ..spec("@every 600s")
    };
    let mut stream = subscribe(&first, with(20 * SECOND, MINUTE));
    let granted = run(&mut stream).await;
    stream.disconnected();
    settle().await;
    // A deployment that changes the policy comes meanwhile.
    let _other = subscribe(&second, with(90 * SECOND, 5 * MINUTE));
    settle().await;
    let request = resume(with(20 * SECOND, MINUTE), &granted);
    let mut stream = second.scheduler.subscribe(request).unwrap();
    let resumed = run(&mut stream).await;
    let deadline = |run: &RunGrant| run.deadline.clone().unwrap().at;
    assert_eq!(deadline(&resumed), deadline(&granted));
    let limits = |run: &RunGrant| (run.told.stop_grace, run.told.progress_timeout);
    assert_eq!(limits(&resumed), (20 * SECOND, Some(MINUTE)));
}

#[tokio::test(start_paused = true)]
async fn s12_s16_who_goes_on_with_a_run_whose_lock_was_broken_is_told_that_it_is_lost() {
    let account = Account::new();
    let (first, second) = (account.sidecar(), account.sidecar());
    let mut stream = subscribe(&first, spec("@every 600s"));
    let granted = run(&mut stream).await;
    stream.disconnected();
    settle().await;
    broken(&second, BreakPeriod::Now).await.unwrap();
    let request = resume(spec("@every 600s"), &granted);
    let mut stream = second.scheduler.subscribe(request).unwrap();
    let lost = news(&mut stream).await;
    assert!(
        matches!(lost, ScheduleEvent::Held(HeldEvent::Lost { reason: LossReason::Broken, .. })),
        "{lost:?}"
    );
    // T24: until it says how that ended, others are given the next attempt.
    let told = late(&granted.told.run_id, Report::Failed);
    second.scheduler.complete_run(told).await.unwrap();
    let again = run_within(&mut stream, 4 * LEASE).await.expect("it waits on");
    assert_eq!((again.told.scheduled_at, again.told.attempt), (at(600), 2));
}

#[tokio::test(start_paused = true)]
async fn t4_a_run_that_is_released_without_an_outcome_is_abandoned() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = subscribe(&sidecar, spec("@every 600s"));
    let granted = run(&mut stream).await;
    let lease = (granted.grant.lease_id, Some(granted.grant.generation));
    sidecar.coordinator.release(lease.0, lease.1).await.unwrap();
    let recorded = news(&mut stream).await;
    assert!(matches!(recorded, ScheduleEvent::Recorded { report: None, .. }), "{recorded:?}");
    let again = run_within(&mut stream, 2 * LEASE).await.unwrap();
    assert_eq!((again.told.scheduled_at, again.told.attempt), (at(600), 2));
}

#[tokio::test(start_paused = true)]
async fn t12_after_a_deadline_without_an_outcome_the_next_one_is_on_time() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let timeout = RunTimeout::Duration(60 * SECOND);
    let mut stream = subscribe(&sidecar, Spec { run_timeout: timeout, ..spec("@every 75s") });
    let first = run(&mut stream).await;
    let lost = news(&mut stream).await;
    assert!(matches!(lost, ScheduleEvent::Held(HeldEvent::Lost { .. })), "{lost:?}");
    let mut healthy = subscribe(&sidecar, Spec { run_timeout: timeout, ..spec("@every 75s") });
    let second = run(&mut healthy).await;
    assert_eq!(second.told.scheduled_at.seconds_since(first.told.scheduled_at), 75);
    assert!(second.told.lateness <= 2 * SECOND, "{:?}", second.told.lateness);
}

/// How runs ended, as it is told to those who look.
#[derive(Debug, Default)]
struct Ends(Mutex<Vec<(Outcome, String, Option<FencingToken>)>>);

impl Observer for Ends {
    fn observe(&self, event: &LockEvent<'_>) {
        if let LockEventKind::Schedule(ScheduleEventKind::RunEnded { outcome, detail }) = event.kind
        {
            self.0.lock().unwrap().push((outcome, detail.to_owned(), event.token));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn t23_who_looks_is_told_that_a_run_has_failed_and_why() {
    let ends = Arc::new(Ends::default());
    let sidecar = Account::new().sidecar_with(Arc::clone(&ends) as _, 1, |_| {});
    let mut stream = minutely(&sidecar);
    let failed = run(&mut stream).await;
    let mut request = completion(&failed, Report::Failed);
    request.detail = "exit code 3".to_owned();
    sidecar.scheduler.complete_run(request).await.unwrap();
    let next = run(&mut stream).await;
    complete(&sidecar, &next, Report::Succeeded).await;
    let (first, second) = (Some(failed.grant.token), Some(next.grant.token));
    let as_said = (Outcome::Failed, "exit code 3".to_owned(), first);
    assert_eq!(*ends.0.lock().unwrap(), [as_said, (Outcome::Succeeded, String::new(), second)]);
}

#[tokio::test(start_paused = true)]
async fn t20_a_drain_that_is_short_returns_what_is_unfinished_at_once() {
    let account = Account::new();
    let (first, second) = (account.sidecar(), account.sidecar());
    let mut stream = subscribe(&first, spec("@every 600s"));
    run(&mut stream).await;
    let mut other = subscribe(&second, spec("@every 600s"));
    standby(&mut other).await;
    let draining = first.coordinator.clone();
    tokio::spawn(async move { draining.drain(SECOND).await });
    while let ScheduleEvent::Held(HeldEvent::Renewed(_) | HeldEvent::Draining { .. }) =
        news(&mut stream).await
    {}
    drop(stream);
    let again = run_within(&mut other, 3 * LEASE).await.expect("the other one runs it");
    assert_eq!((again.told.scheduled_at, again.told.attempt), (at(600), 1));
}
