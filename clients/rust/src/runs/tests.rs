//! A subscription and its runs, with a sidecar that says what each test wants.

use std::time::UNIX_EPOCH;

use tokio::task::JoinHandle;

use super::*;
use crate::errors::Reason;
use crate::fake::schedules::understood;
use crate::fake::too_old;
use crate::fake::{Bench, OURS, SubscribeCall, eventually, grant, seconds, validity};
use crate::messages::{Code, CompletionResult, LossReason, RunKind, SavedWith, ScheduleSpec};
use crate::proto::hold_lease_response::Event as HoldWire;
use crate::proto::{Lost, Recorded, Renewed};
use crate::{Completion, HoldEvent, LeaseSpec};

pub(super) fn nightly() -> Subscription {
    let spec = ScheduleSpec::cron("30 2 * * *").in_zone("Europe/Copenhagen");
    Subscription::new("nightly", spec).with_holder("me")
}

pub(super) fn at(seconds: i64) -> Option<prost_types::Timestamp> {
    Some(prost_types::Timestamp { seconds, nanos: 0 })
}

pub(super) fn standby() -> Event {
    let next_at = at(1_800);
    Event::Standby(proto::Standby {
        next_at,
        understood: understood(),
        ..proto::Standby::default()
    })
}

/// A run of the occurrence at 1,800 s, valid until 1,058 s on our boot clock.
pub(super) fn granted() -> proto::Run {
    let HoldWire::Granted(grant) = grant(validity(OURS, 1_058, 58)) else {
        unreachable!("it is a grant");
    };
    proto::Run {
        grant: Some(grant),
        run_id: "run-1".to_owned(),
        kind: proto::RunKind::Scheduled.into(),
        scheduled_at: at(1_800),
        local_time: "1970-01-01T01:30:00+01:00[Europe/Copenhagen]".to_owned(),
        attempt: 2,
        max_attempts: 3,
        lateness: Some(crate::messages::wire_duration(seconds(4))),
        missed_count: 7,
        deadline_at: at(2_400),
        next_at: at(3_600),
        ..proto::Run::default()
    }
}

fn recorded() -> Event {
    let outcome = proto::RunOutcome::Succeeded.into();
    let result = proto::CompletionResult::Recorded.into();
    Event::Recorded(Recorded { run_id: "run-1".to_owned(), outcome, result })
}

/// Asks for the next run while the test answers.
pub(super) fn next(mut runs: Runs) -> JoinHandle<(Runs, Result<Run, Error>)> {
    tokio::spawn(async move {
        let run = runs.next().await;
        (runs, run)
    })
}

/// A run that has just come, on this stream.
async fn running(bench: &mut Bench, runs: Runs) -> (Runs, Run, SubscribeCall) {
    let asking = next(runs);
    let call = bench.sidecar.subscription().await;
    call.tell(standby()).await;
    call.tell(Event::Run(granted())).await;
    let (runs, run) = asking.await.unwrap();
    (runs, run.unwrap(), call)
}

#[tokio::test]
async fn a_run_tells_what_it_is_of_and_its_outcome_is_recorded() {
    let mut bench = Bench::new().await;
    let runs = bench.client.runs(nightly());
    let (runs, run, call) = running(&mut bench, runs).await;
    assert_eq!(call.request, SubscribeScheduleRequest { needs: 1, ..nightly().to_wire() }, "S37");
    assert!(!call.request.reconnected);
    let moment = |seconds| UNIX_EPOCH.checked_add(self::seconds(seconds)).unwrap();
    assert_eq!((run.scheduled_at(), run.next_at()), (moment(1_800), Some(moment(3_600))));
    assert_eq!((run.kind(), run.request_id()), (RunKind::Scheduled, None));
    assert_eq!((run.attempt(), run.max_attempts(), run.missed_count()), (2, 3, 7));
    assert_eq!((run.lateness(), run.deadline_at()), (seconds(4), Some(moment(2_400))));
    assert_eq!((run.fencing_token(), run.run_id()), (65_536, "run-1"));
    assert!(run.is_valid() && !format!("{run:?}").contains("run-1"), "S20");
    assert_eq!(runs.understood().unwrap().time_zone, "Europe/Copenhagen");
    assert_eq!(runs.standby().unwrap().next_at, Some(moment(1_800)));
    let checkpoint = Completion::succeeded().with_checkpoint("page 7").unwrap();
    let completed = run.complete(checkpoint).await.unwrap();
    assert_eq!(completed.result, CompletionResult::Recorded);
    assert_eq!(completed.checkpoint, Some(SavedWith::Saved(5)));
    let asked = "complete run-1 of \"lease-1\" generation 1: SUCCEEDED \"\"";
    assert_eq!(bench.sidecar.asked(), [asked]);
}

#[tokio::test]
async fn t2_the_stream_goes_on_to_the_next_run() {
    let mut bench = Bench::new().await;
    let mut runs = bench.client.runs(nightly());
    let (again, run, call) = running(&mut bench, runs).await;
    runs = again;
    run.failed("no disk").await.unwrap();
    call.tell(recorded()).await;
    call.tell(Event::Standby(proto::Standby::default())).await;
    call.tell(Event::Run(proto::Run { attempt: 3, ..granted() })).await;
    let (_runs, run) = next(runs).await.unwrap();
    assert_eq!(run.unwrap().attempt(), 3);
    assert!(call.is_open());
    assert!(bench.sidecar.asked()[0].ends_with("FAILED \"no disk\""));
}

#[tokio::test]
async fn a_run_that_comes_before_the_answer_to_the_completion_is_not_lost() {
    let mut bench = Bench::new().await;
    let runs = bench.client.runs(nightly());
    let (runs, run, call) = running(&mut bench, runs).await;
    call.tell(recorded()).await;
    call.tell(standby()).await;
    call.tell(Event::Run(proto::Run { attempt: 3, ..granted() })).await;
    run.succeeded().await.unwrap();
    let (_runs, run) = next(runs).await.unwrap();
    assert_eq!(run.unwrap().attempt(), 3);
}

#[tokio::test]
async fn s37_a_subscriber_is_told_of_a_sidecar_that_is_too_old_and_goes_on_elsewhere() {
    let mut bench = Bench::new().await;
    let (sender, mut events) = unbounded_channel();
    let asking = next(bench.client.runs(nightly()).events(sender));
    bench.sidecar.subscription().await.fail(too_old()).await;
    let told = events.recv().await.unwrap();
    assert!(matches!(&told, ScheduleEvent::Interrupted { detail } if detail.contains("2 and 1")));
    let call = bench.sidecar.subscription().await;
    assert_eq!(call.connection, 2);
    call.tell(standby()).await;
    call.tell(Event::Run(granted())).await;
    drop(asking.await.unwrap().1.unwrap());
}

#[tokio::test]
async fn s37_a_run_is_completed_where_it_is_though_something_else_has_gone_elsewhere() {
    let mut bench = Bench::new().await;
    let runs = bench.client.runs(nightly());
    let (_runs, run, call) = running(&mut bench, runs).await;
    let holding = tokio::spawn(bench.client.hold(LeaseSpec::new("f")).into_future());
    let refused = bench.sidecar.hold().await;
    assert_eq!((call.connection, refused.connection), (1, 1));
    refused.fail(too_old()).await;
    assert!(holding.await.unwrap().is_err());
    run.succeeded().await.unwrap();
    assert_eq!(bench.sidecar.script.lock().unwrap().connections, [1]);
}

#[tokio::test]
async fn s37_an_older_sidecar_is_named_as_that() {
    let mut bench = Bench::new().await;
    let asking = next(bench.client.runs(nightly()));
    bench.sidecar.subscription().await.fail(Status::unimplemented("")).await;
    let error = asking.await.unwrap().1.unwrap_err();
    assert_eq!(
        (error.code(), error.reason()),
        (Some(Code::Unimplemented), Some(&Reason::Unsupported))
    );
    assert!(error.to_string().contains("update the sidecar"), "{error}");
}

#[tokio::test]
async fn t16_a_subscriber_whose_sidecar_restarts_comes_back_as_no_new_one() {
    let mut bench = Bench::new().await;
    let (sender, mut events) = unbounded_channel();
    let asking = next(bench.client.runs(nightly()).events(sender));
    let call = bench.sidecar.subscription().await;
    call.tell(standby()).await;
    call.fail(Status::unavailable("shutting down")).await;
    let call = bench.sidecar.subscription().await;
    assert!(call.request.reconnected && call.request.resume.is_none());
    // As many wait there as may, for now (S38).
    call.fail(Status::resource_exhausted("too many")).await;
    let call = bench.sidecar.subscription().await;
    assert!(call.request.reconnected && call.request.resume.is_none());
    bench.kill();
    drop(call);
    bench.start();
    let call = bench.sidecar.subscription().await;
    assert!(call.request.reconnected);
    call.tell(standby()).await;
    call.tell(Event::Run(granted())).await;
    let run = asking.await.unwrap().1.unwrap();
    let first = events.recv().await.unwrap();
    assert!(matches!(first, ScheduleEvent::Subscribed(_)), "{first:?}");
    run.returned().await.unwrap();
}

/// Who listens to something else beside `next` drops it and calls it again, for each event too.
#[tokio::test]
async fn who_asks_again_does_not_shorten_the_pause_before_the_next_try() {
    let mut bench = Bench::new().await;
    let (sender, mut events) = unbounded_channel();
    let mut runs = bench.client.runs(nightly()).events(sender);
    let asking = async {
        tokio::select! {
            biased;
            event = async { while !matches!(events.recv().await, Some(ScheduleEvent::Interrupted { .. })) {} } => event,
            run = runs.next() => panic!("{run:?}"),
        }
    };
    let failing = async {
        let call = bench.sidecar.subscription().await;
        call.tell(standby()).await;
        call.fail(Status::unavailable("shutting down")).await;
    };
    tokio::join!(asking, failing);
    let long = Box::pin(tokio::time::sleep(seconds(3_600)));
    let until = long.deadline();
    let place = std::mem::replace(&mut runs.place, Place::Pausing(long));
    assert!(matches!(place, Place::Pausing(_)), "{place:?}");
    let asked = tokio::time::timeout(Duration::ZERO, runs.next()).await;
    assert!(asked.is_err(), "{asked:?}");
    assert!(
        matches!(&runs.place, Place::Pausing(pause) if pause.deadline() == until),
        "{:?}",
        runs.place
    );
}

#[tokio::test]
async fn a_sidecar_that_was_never_there_is_an_error_at_once() {
    let mut bench = Bench::new().await;
    bench.kill();
    let (_runs, run) = next(bench.client.runs(nightly())).await.unwrap();
    assert!(run.unwrap_err().is_transient());
}

#[tokio::test]
async fn s16_a_run_survives_a_restart_of_the_sidecar_and_its_stream_goes_on() {
    let mut bench = Bench::new().await;
    let runs = bench.client.runs(nightly()).with_hold_events();
    let (runs, run, _call) = running(&mut bench, runs).await;
    let mut events = run.take_events().unwrap();
    assert!(run.take_events().is_none(), "there is one receiver");
    bench.kill();
    assert!(matches!(events.recv().await.unwrap(), HoldEvent::Interrupted { .. }));
    bench.start();
    let call = bench.sidecar.subscription().await;
    assert!(call.request.reconnected);
    assert_eq!(call.request.run_id, "run-1");
    assert_eq!(call.request.resume.as_ref().unwrap().resume_token, "resume-1");
    let mut resumed = granted();
    let grant = resumed.grant.as_mut().unwrap();
    (grant.generation, grant.resume_token) = (2, "resume-2".to_owned());
    call.tell(Event::Run(resumed)).await;
    assert!(matches!(events.recv().await.unwrap(), HoldEvent::Resumed { .. }));
    assert!(run.is_valid());
    run.succeeded().await.unwrap();
    assert!(bench.sidecar.asked()[0].contains("generation 2"), "{:?}", bench.sidecar.asked());
    call.tell(recorded()).await;
    call.tell(Event::Run(granted())).await;
    let (_runs, run) = next(runs).await.unwrap();
    assert!(run.unwrap().is_valid());
}

#[tokio::test]
async fn s4_a_run_that_is_told_lost_is_over_and_the_stream_goes_on() {
    let mut bench = Bench::new().await;
    let runs = bench.client.runs(nightly());
    let (runs, run, call) = running(&mut bench, runs).await;
    let reason = proto::LossReason::MaxHoldReached.into();
    call.tell(Event::Lost(Lost { reason, ..Lost::default() })).await;
    assert_eq!(run.lost().await.reason, LossReason::MaxHoldReached);
    call.tell(standby()).await;
    call.tell(Event::Run(granted())).await;
    let (_runs, second) = next(runs).await.unwrap();
    assert!(second.unwrap().is_valid() && !run.is_valid());
    drop(run);
    assert!(call.is_open());
}

#[tokio::test]
async fn t12_a_deadline_that_the_sidecar_tells_after_the_clock_does_not_end_the_stream() {
    let mut bench = Bench::new().await;
    let asking = next(bench.client.runs(nightly()));
    let call = bench.sidecar.subscription().await;
    call.tell(standby()).await;
    let mut bounded = granted();
    let grant = bounded.grant.as_mut().unwrap();
    let told = grant.validity.clone().unwrap();
    grant.max_hold_ends = Some(proto::Deadline { at: told.valid_until, after: told.valid_for });
    call.tell(Event::Run(bounded)).await;
    let (runs, run) = asking.await.unwrap();
    let run = run.unwrap();
    assert_eq!(run.deadline(), Some(run.hold().valid_until()));
    bench.clock.advance(seconds(58));
    assert_eq!(run.lost().await.reason, LossReason::MaxHoldReached);
    assert!(call.is_open());
    let reason = proto::LossReason::MaxHoldReached.into();
    call.tell(Event::Lost(Lost { reason, ..Lost::default() })).await;
    let mut second = granted();
    second.grant.as_mut().unwrap().validity = Some(validity(OURS, 1_116, 58));
    call.tell(Event::Run(second)).await;
    let (_runs, second) = next(runs).await.unwrap();
    assert!(second.unwrap().is_valid() && call.is_open());
}

#[tokio::test]
async fn s13_a_run_that_is_over_here_only_ends_its_stream() {
    let mut bench = Bench::new().await;
    let runs = bench.client.runs(nightly());
    let (runs, run, call) = running(&mut bench, runs).await;
    bench.clock.advance(seconds(58));
    assert_eq!(run.lost().await.reason, LossReason::Expired);
    call.ended().await;
    let asking = next(runs);
    assert!(bench.sidecar.subscription().await.request.reconnected);
    asking.abort();
}

#[tokio::test]
async fn t8_a_completion_is_repeated_until_it_is_answered_also_when_the_hold_is_over() {
    let mut bench = Bench::new().await;
    let runs = bench.client.runs(nightly());
    let (_runs, run, call) = running(&mut bench, runs).await;
    let late = Ok(proto::CompletionResult::RecordedLate);
    let away = || Err(Status::unavailable("the store is away"));
    let full = Err(Status::resource_exhausted("too many"));
    bench.sidecar.script.lock().unwrap().completions = vec![late, full, away()];
    bench.clock.advance(seconds(58));
    call.ended().await;
    let completed = run.succeeded().await.unwrap();
    assert_eq!(completed.result, CompletionResult::RecordedLate);
    let asked = bench.sidecar.asked();
    assert_eq!((asked.len(), asked.iter().all(|it| *it == asked[0])), (3, true), "{asked:?}");
}

#[tokio::test]
async fn t8_a_completion_that_is_refused_is_an_error() {
    let mut bench = Bench::new().await;
    let runs = bench.client.runs(nightly());
    let (_runs, run, call) = running(&mut bench, runs).await;
    let refused = Err(Status::invalid_argument("run_id is not one of ours"));
    bench.sidecar.script.lock().unwrap().completions = vec![refused];
    assert_eq!(run.succeeded().await.unwrap_err().code(), Some(Code::InvalidArgument));
    call.ended().await;
}

#[tokio::test]
async fn t11_a_run_that_is_dropped_is_returned_and_one_that_panics_has_failed() {
    let mut bench = Bench::new().await;
    for panics in [false, true] {
        let runs = bench.client.runs(nightly());
        let (_runs, run, _call) = running(&mut bench, runs).await;
        let dropping = tokio::spawn(async move {
            let _run = run;
            assert!(!panics, "as the test wants");
        });
        assert_eq!(dropping.await.is_err(), panics);
        let outcome = if panics { "FAILED \"the run panicked\"" } else { "RETURNED \"\"" };
        let sidecar = &bench.sidecar;
        let is_told = || sidecar.asked().iter().any(|asked| asked.ends_with(outcome));
        eventually(outcome, is_told).await;
    }
}

#[tokio::test]
async fn a_run_that_comes_too_late_is_returned() {
    let mut bench = Bench::new().await;
    let asking = next(bench.client.runs(nightly()));
    let call = bench.sidecar.subscription().await;
    call.tell(standby()).await;
    bench.clock.advance(seconds(60));
    call.tell(Event::Run(granted())).await;
    call.tell(Event::Renewed(Renewed::default())).await;
    let mut second = granted();
    second.grant.as_mut().unwrap().validity = Some(validity(OURS, 1_118, 58));
    call.tell(Event::Run(second)).await;
    let (_runs, run) = asking.await.unwrap();
    assert!(run.unwrap().is_valid());
    assert!(bench.sidecar.asked()[0].ends_with("RETURNED \"\""), "{:?}", bench.sidecar.asked());
}

#[tokio::test]
async fn what_waits_is_told() {
    let mut bench = Bench::new().await;
    let (sender, mut events) = unbounded_channel();
    let asking = next(bench.client.runs(nightly()).events(sender));
    let call = bench.sidecar.subscription().await;
    call.tell(standby()).await;
    let conflict =
        proto::DefinitionInForce { conflict: true, ..proto::DefinitionInForce::default() };
    call.tell(Event::DefinitionInForce(conflict)).await;
    call.tell(Event::Draining(proto::Draining { time_left: None })).await;
    let mut told = Vec::new();
    while told.len() < 4 {
        told.push(events.recv().await.unwrap());
    }
    assert!(matches!(&told[0], ScheduleEvent::Subscribed(it) if it.zone_data == "2026b"));
    assert!(matches!(&told[1], ScheduleEvent::Standby(it) if !it.paused));
    assert!(matches!(&told[2], ScheduleEvent::DefinitionInForce(it) if it.conflict));
    assert!(matches!(told[3], ScheduleEvent::Draining { .. }));
    asking.abort();
    call.ended().await;
}
