//! What a run is in Rust: dropped, panicking, asked for again. What all clients do is in
//! `hold/vector_tests.rs`.

use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

use super::*;
use crate::boot_clock::Clock as _;
use crate::errors::Reason;
use crate::fake::{Bench, Opened, run, seconds, soon};
use crate::messages::{Code, CompletionResult, RunKind, SavedWith, ScheduleSpec};
use crate::{Completion, HoldEvent};

pub(super) fn nightly() -> Subscription {
    let spec = ScheduleSpec::cron("30 2 * * *").in_zone("Europe/Copenhagen");
    Subscription::new("nightly", spec).with_holder("me")
}

pub(super) fn standby() -> Value {
    let understood = json!({"time_zone": "Europe/Copenhagen"});
    json!({"standby": {"next_at": 1_800, "understood": understood}})
}

/// A run of the occurrence at 1,800 s, valid until 1,058 s on our boot clock.
pub(super) fn granted() -> Value {
    run(json!({
        "kind": "SCHEDULED", "attempt": 2, "max_attempts": 3, "lateness": 4_000,
        "missed_count": 7, "deadline_at": 2_400, "next_at": 3_600,
    }))
}

/// The next run, on the stream that is opened for it.
async fn running(bench: &mut Bench, runs: &mut Runs) -> (Run, Opened) {
    let granting = async {
        let stream = bench.opened().await;
        stream.tell(&standby());
        stream.tell(&granted());
        stream
    };
    let (run, stream) = tokio::join!(runs.next(), granting);
    (run.unwrap(), stream)
}

/// How runs were completed.
pub(super) fn completed(bench: &Bench) -> Vec<String> {
    bench.asked().into_iter().filter(|asked| asked.starts_with("complete_run")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_run_tells_what_it_is_of_and_its_outcome_is_recorded() {
    let mut bench = Bench::new();
    let mut runs = bench.client.runs(nightly());
    let (run, stream) = running(&mut bench, &mut runs).await;
    let expected = SubscribeScheduleRequest { needs: 1, ..nightly().to_wire() };
    assert_eq!(stream.asked.request::<SubscribeScheduleRequest>(), expected, "S37");
    let moment = |seconds| UNIX_EPOCH.checked_add(self::seconds(seconds)).unwrap();
    assert_eq!((run.scheduled_at(), run.next_at()), (moment(1_800), Some(moment(3_600))));
    assert_eq!((run.kind(), run.request_id()), (RunKind::Scheduled, None));
    assert_eq!((run.attempt(), run.max_attempts(), run.missed_count()), (2, 3, 7));
    assert_eq!((run.lateness(), run.deadline_at()), (seconds(4), Some(moment(2_400))));
    assert_eq!((run.fencing_token(), run.run_id()), (65_536, "run-1"));
    assert!(run.is_valid() && !format!("{run:?}").contains("run-1"), "S20");
    assert_eq!(runs.understood().unwrap().time_zone, "Europe/Copenhagen");
    assert_eq!(runs.standby().unwrap().next_at, Some(moment(1_800)));
    let answer = json!({
        "result": "RECORDED_LATE", "checkpoint_outcome": "SAVED", "checkpoint_version": 5,
    });
    bench.sidecar.answer("complete_run", &answer);
    let completion = Completion::succeeded().with_checkpoint("page 7").unwrap();
    let done = run.complete(completion).await.unwrap();
    let expected = (CompletionResult::RecordedLate, Some(SavedWith::Saved(5)));
    assert_eq!((done.result, done.checkpoint), expected);
    let request: proto::CompleteRunRequest = bench.sidecar.last("complete_run");
    assert_eq!((request.run_id.as_str(), request.lease_id.as_str()), ("run-1", "lease-1"));
    assert_eq!(completed(&bench), ["complete_run 1 SUCCEEDED page 7"]);
}

#[tokio::test(start_paused = true)]
async fn the_events_of_a_run_s_hold_are_given_out_once_and_only_if_asked_for() {
    let mut bench = Bench::new();
    for asks in [true, false] {
        let runs = bench.client.runs(nightly());
        let mut runs = if asks { runs.with_hold_events() } else { runs };
        let (run, stream) = running(&mut bench, &mut runs).await;
        let events = run.take_events();
        assert!(events.is_some() == asks && run.take_events().is_none(), "there is one receiver");
        stream.fail(Status::unavailable("gone"));
        if let Some(mut events) = events {
            let told = soon(events.recv()).await;
            assert!(matches!(told, Some(HoldEvent::Interrupted { .. })), "{told:?}");
        }
        let again: SubscribeScheduleRequest = bench.opened().await.asked.request();
        assert_eq!(again.run_id, "run-1");
    }
}

#[tokio::test(start_paused = true)]
async fn t11_a_run_that_is_dropped_is_returned_and_one_that_panics_has_failed() {
    for panics in [false, true] {
        let mut bench = Bench::new();
        let mut runs = bench.client.runs(nightly());
        let (run, _stream) = running(&mut bench, &mut runs).await;
        let dropping = tokio::spawn(async move {
            let _run = run;
            assert!(!panics, "as the test wants");
        });
        assert_eq!(dropping.await.is_err(), panics);
        tokio::time::sleep(seconds(1)).await;
        let outcome = if panics { "FAILED the run panicked" } else { "RETURNED" };
        assert_eq!(completed(&bench), [format!("complete_run 1 {outcome}")]);
    }
}

#[tokio::test(start_paused = true)]
async fn t8_a_completion_is_repeated_where_its_answer_may_have_been_lost() {
    let mut bench = Bench::new();
    let mut runs = bench.client.runs(nightly());
    let (run, _stream) = running(&mut bench, &mut runs).await;
    for status in [Status::resource_exhausted("too many"), Status::unknown("broken pipe")] {
        bench.sidecar.refuse("complete_run", status);
    }
    run.failed("no disk").await.unwrap();
    assert_eq!(completed(&bench), ["complete_run 1 FAILED no disk"; 3]);
}

#[tokio::test(start_paused = true)]
async fn s37_an_older_sidecar_is_named_as_that_and_one_that_was_never_there_is_an_error() {
    let mut bench = Bench::new();
    let mut runs = bench.client.runs(nightly());
    bench.sidecar.refuse("get_server_info", Status::unimplemented(""));
    let failing = async { bench.opened().await.fail(Status::unimplemented("")) };
    let (run, ()) = tokio::join!(runs.next(), failing);
    let error = run.unwrap_err();
    let expected = (Some(Code::Unimplemented), Some(&Reason::Unsupported));
    assert_eq!((error.code(), error.reason()), expected);
    assert!(error.to_string().contains("update the sidecar"), "{error}");
    let bench = Bench::new();
    bench.sidecar.set_away(true);
    assert!(bench.client.runs(nightly()).next().await.unwrap_err().is_transient());
}

/// A caller that listens to something else beside drops `next` and calls it again, for each event too.
#[tokio::test(start_paused = true)]
async fn a_caller_that_asks_again_does_not_shorten_the_pause_before_the_next_try() {
    let mut bench = Bench::new();
    let (sender, mut events) = unbounded_channel();
    let mut runs = bench.client.runs(nightly()).events(sender);
    let mut opened = None;
    for pause in [50, 100, 200, 400, 800, 1_600, 2_000, 2_000] {
        let failing = async {
            let stream: Opened = match opened.take() {
                Some(opened) => opened,
                None => bench.opened().await,
            };
            if pause == 50 {
                stream.tell(&standby());
            }
            stream.fail(Status::resource_exhausted("as many wait there as may (S38)"));
            while !matches!(events.recv().await, Some(ScheduleEvent::Interrupted { .. })) {}
        };
        tokio::select! {
            run = runs.next() => panic!("{run:?}"),
            () = failing => {}
        }
        let (began, asked) = (bench.clock.now(), Duration::from_millis(7));
        while opened.is_none() {
            assert!(tokio::time::timeout(asked, runs.next()).await.is_err());
            opened = bench.try_opened();
        }
        let pause = Duration::from_millis(pause);
        let paused = bench.clock.now().saturating_since(began);
        assert!((pause..=pause + asked * 2).contains(&paused), "{paused:?} for {pause:?}");
    }
}
