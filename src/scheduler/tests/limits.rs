//! Subscribers and callers that wait: they share one limit (S38).

use std::sync::Arc;

use super::rig::{complete, late, minutely, news, resume, run, spec, standby, subscription};
use crate::coordinator::tests::rig::{
    Account, MINUTE, SECOND, Sidecar, granted, key, pass, request, settle, waiting,
};
use crate::coordinator::{CallError, HoldStream, NoObserver, ResumeRequest};
use crate::schedule::Report;
use crate::scheduler::{Completion, ScheduleEvent, ScheduleStream, SubscribeRequest};

fn limited(account: &Account, waiters: usize) -> Sidecar {
    account.sidecar_with(Arc::new(NoObserver), 1, |it| it.max_waiters = waiters)
}

/// To a schedule of its own, that of this number.
fn subscribe(sidecar: &Sidecar, number: usize) -> Result<ScheduleStream, CallError> {
    let key = key(&format!("nightly-{number}"));
    sidecar.scheduler.subscribe(SubscribeRequest { key, ..subscription(spec("@every 60s")) })
}

fn wait(sidecar: &Sidecar) -> Result<HoldStream, CallError> {
    sidecar.coordinator.hold(&waiting("held", 10 * MINUTE))
}

fn assert_full<T>(limit: usize, refused: Result<T, CallError>) {
    let error = refused.map(drop).expect_err("no more are let in");
    assert!(matches!(error, CallError::TooManyWaiters { limit: it } if it == limit), "{error}");
    assert!(error.to_string().contains("limits.waiters"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn s38_callers_that_wait_leave_no_room_for_subscribers() {
    let account = Account::new();
    let (holder, _) = account.sidecar().hold(&request("held")).await;
    let sidecar = limited(&account, 3);
    let mut streams: Vec<_> = (0..3).map(|_| wait(&sidecar).unwrap()).collect();
    assert_full(3, subscribe(&sidecar, 0));
    // One that leaves makes room, and so does one that is granted the lock.
    drop(streams.pop());
    settle().await;
    let mut first = subscribe(&sidecar, 0).unwrap();
    standby(&mut first).await;
    assert_full(3, subscribe(&sidecar, 1));
    assert_full(3, wait(&sidecar));
    drop(holder);
    granted(&mut streams[0]).await;
    let _second = subscribe(&sidecar, 1).unwrap();
    assert_full(3, subscribe(&sidecar, 2));
    let gauges = sidecar.coordinator.gauges();
    assert_eq!((gauges.waiters, gauges.subscribers), (1, 2), "subscribers are no callers");
    drop(streams);
    settle().await;
    let _third = subscribe(&sidecar, 2).unwrap();
    assert_full(3, wait(&sidecar));
    sidecar.assert_idle();
}

#[tokio::test(start_paused = true)]
async fn s38_subscribers_leave_no_room_for_callers_however_they_go() {
    let account = Account::new();
    let sidecar = limited(&account, 2);
    let refused = || async { assert_full(2, sidecar.ask(request("free")).await) };
    for round in 0..3 {
        let streams = [0, 1].map(|number| subscribe(&sidecar, number).unwrap());
        refused().await;
        let [first, second] = streams;
        if round == 0 {
            // Before its task has heard of it.
            drop(first);
        } else {
            pass(SECOND).await;
            first.disconnected();
        }
        settle().await;
        let grant = sidecar.acquire(request("free")).await;
        sidecar.release(&grant).await;
        second.closed_by_client();
        settle().await;
    }
    // One that cannot be served is counted out.
    sidecar.faults().go_down(MINUTE);
    let mut failing = [0, 1].map(|number| subscribe(&sidecar, number).unwrap());
    for stream in &mut failing {
        assert!(matches!(news(stream).await, ScheduleEvent::Failed(_)));
    }
    sidecar.faults().go_down(std::time::Duration::ZERO);
    pass(5 * SECOND).await;
    let _served = [0, 1].map(|number| subscribe(&sidecar, number).unwrap());
    refused().await;
}

#[tokio::test(start_paused = true)]
async fn s38_a_subscriber_keeps_its_place_while_it_runs_and_needs_no_other() {
    let account = Account::new();
    let (_holder, _) = account.sidecar().hold(&request("held")).await;
    let sidecar = limited(&account, 1);
    let mut stream = minutely(&sidecar);
    for _ in 0..2 {
        let granted = run(&mut stream).await;
        assert_full(1, wait(&sidecar));
        complete(&sidecar, &granted, Report::Succeeded).await;
        assert_full(1, wait(&sidecar));
    }
    // A replica that comes back for its run was let in once (S16).
    let granted = run(&mut stream).await;
    stream.disconnected();
    settle().await;
    let other = wait(&sidecar).unwrap();
    let request = resume(spec("@every 60s"), &granted);
    let mut stream = sidecar.scheduler.subscribe(request).unwrap();
    assert_eq!(run(&mut stream).await.grant.lease_id, granted.grant.lease_id);
    drop(other);
    settle().await;
    assert_full(1, wait(&sidecar));
    drop(stream);
    settle().await;
    let _other = wait(&sidecar).unwrap();
}

/// Whether a hold of another sidecar can be resumed at this one.
async fn resumes_a_hold(account: &Account, sidecar: &Sidecar) {
    let (stream, grant) = account.sidecar().hold(&request("plain")).await;
    stream.disconnected();
    let resume = ResumeRequest {
        resume_token: grant.resume_token.clone(),
        attempt_id: "again".to_owned(),
        told_valid_until: Some(grant.validity.valid_until.clone()),
        trace_context: None,
    };
    let mut resumed = sidecar.coordinator.resume(&resume).unwrap();
    assert_eq!(granted(&mut resumed).await.lease_id, grant.lease_id);
}

/// Room for one hold, for one more that is resumed, and for three that wait.
fn small(account: &Account) -> Sidecar {
    account.sidecar_with(Arc::new(NoObserver), 1, |it| {
        (it.max_holds, it.max_resumes, it.max_waiters) = (1, 1, 3);
    })
}

#[tokio::test(start_paused = true)]
async fn s16_subscribers_refuse_no_resume() {
    let account = Account::new();
    let sidecar = small(&account);
    let _streams = [0, 1, 2].map(|number| subscribe(&sidecar, number).unwrap());
    resumes_a_hold(&account, &sidecar).await;
}

#[tokio::test(start_paused = true)]
async fn s16_callers_that_wait_refuse_no_resume() {
    let account = Account::new();
    let _holder = account.sidecar().hold(&request("held")).await;
    let sidecar = small(&account);
    let _streams = [0, 1, 2].map(|_| wait(&sidecar).unwrap());
    resumes_a_hold(&account, &sidecar).await;
}

#[tokio::test(start_paused = true)]
async fn s38_replicas_that_come_back_for_runs_have_a_bound_too() {
    let account = Account::new();
    let sidecar = small(&account);
    let mut stream = minutely(&account.sidecar());
    let granted = run(&mut stream).await;
    let request = resume(spec("@every 60s"), &granted);
    // As many as may wait, and as many as there may be holds. Its task has heard of none of them.
    let all: Result<Vec<_>, _> =
        (0..5).map(|_| sidecar.scheduler.subscribe(request.clone())).collect();
    let _all = all.unwrap();
    let refused = sidecar.scheduler.subscribe(request).map(drop).expect_err("no more are let in");
    assert!(matches!(refused, CallError::TooManyResumes { limit: 1 }), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn s38_a_run_that_is_resumed_takes_one_place() {
    let account = Account::new();
    let mut stream = minutely(&account.sidecar());
    let granted = run(&mut stream).await;
    stream.disconnected();
    let sidecar = limited(&account, 2);
    let mut resumed = sidecar.scheduler.subscribe(resume(spec("@every 60s"), &granted)).unwrap();
    assert_eq!(run(&mut resumed).await.grant.lease_id, granted.grant.lease_id);
    let _other = subscribe(&sidecar, 1).unwrap();
    assert_full(2, subscribe(&sidecar, 2));
}

#[tokio::test(start_paused = true)]
async fn t8_an_outcome_is_told_late_where_as_many_wait_as_may() {
    let account = Account::new();
    let mut stream = minutely(&account.sidecar());
    let granted = run(&mut stream).await;
    stream.disconnected();
    let sidecar = limited(&account, 1);
    let _full = subscribe(&sidecar, 1).unwrap();
    // Its lease has run out, and nobody has been granted it since.
    pass(5 * MINUTE).await;
    assert_full(1, wait(&sidecar));
    let request = late(&granted.told.run_id, Report::Succeeded);
    let completed = sidecar.scheduler.complete_run(request).await.unwrap();
    assert_eq!(completed.completion, Completion::RecordedLate);
}
