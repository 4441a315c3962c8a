//! How a schedule begins at once, is reset, and is removed; and a run that makes no progress (T24, T25, S11).

use super::rig::{
    at, complete, minutely, news, next, run, run_within, spec, standby, subscribe, subscription,
};
use crate::coordinator::tests::rig::{Account, MINUTE, SECOND, Sidecar, by_key, pass};
use crate::coordinator::{CallError, HeldEvent, LossReason};
use crate::schedule::{Report, Spec};
use crate::scheduler::{
    Completion, ScheduleChange, ScheduleEvent, ScheduleStream, SubscribeRequest,
};
use crate::time::{Clock as _, UnixMillis};

/// The longest time until a sidecar looks at what others have changed (T17).
const LOOK: std::time::Duration = MINUTE.saturating_mul(10);

async fn changed(sidecar: &Sidecar, change: ScheduleChange) -> Result<(), CallError> {
    sidecar.scheduler.change_schedule(&by_key("nightly"), change, "ann").await.map(drop)
}

fn removal(force: bool) -> ScheduleChange {
    ScheduleChange::Remove { reason: "moved".to_owned(), force }
}

fn reset(watermark: Option<i64>) -> ScheduleChange {
    let watermark = watermark.map(at);
    ScheduleChange::Reset { reason: "a wrong clock".to_owned(), watermark, revision: None }
}

/// Reads on until the stream says that it has failed; no run is told before.
async fn failed(stream: &mut ScheduleStream) -> CallError {
    loop {
        match next(stream).await {
            ScheduleEvent::Failed(error) => return error,
            ScheduleEvent::Run(run) => panic!("{run:?}"),
            _ => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn t25_a_schedule_that_is_to_run_at_once_does_so_once_in_three_replicas() {
    let account = Account::new();
    let mut streams = Vec::new();
    for _ in 0..3 {
        let sidecar = account.sidecar();
        let request = SubscribeRequest { runs_at_once: true, ..subscription(spec("@every 600s")) };
        streams.push((sidecar.scheduler.subscribe(request).unwrap(), sidecar));
    }
    let mut ran = Vec::new();
    for (stream, sidecar) in &mut streams {
        if let Some(granted) = run_within(stream, 10 * SECOND).await {
            complete(sidecar, &granted, Report::Succeeded).await;
            ran.push(granted.told.scheduled_at);
        }
    }
    assert_eq!(ran, [at(0)], "in one of them");
    // The next occurrence is the first of its timetable.
    let mut due = Vec::new();
    for (stream, sidecar) in &mut streams {
        if let Some(granted) = run_within(stream, LOOK + 10 * SECOND).await {
            complete(sidecar, &granted, Report::Succeeded).await;
            due.push(granted.told.scheduled_at);
        }
    }
    assert_eq!(due[0], at(600), "{due:?}");
}

#[tokio::test(start_paused = true)]
async fn t25_subscribers_of_a_removed_schedule_are_told_at_every_sidecar() {
    let account = Account::new();
    let (here, elsewhere, operator) = (account.sidecar(), account.sidecar(), account.sidecar());
    let mut one = minutely(&here);
    let mut other = minutely(&elsewhere);
    standby(&mut one).await;
    standby(&mut other).await;
    let refused = changed(&here, removal(false)).await;
    assert!(
        matches!(refused, Err(CallError::ScheduleHasSubscribers { subscribers: 1, .. })),
        "{refused:?}"
    );
    // A sidecar without subscribers cannot see those of others.
    changed(&operator, removal(false)).await.unwrap();
    for stream in [&mut one, &mut other] {
        let told = tokio::time::timeout(LOOK, failed(stream)).await.expect("by the next look");
        assert!(matches!(told, CallError::ScheduleRemoved { .. }), "{told:?}");
    }
    // Who comes anew begins anew, without what was due meanwhile.
    pass(5 * MINUTE).await;
    let mut new = minutely(&here);
    let granted = run(&mut new).await;
    assert_eq!((granted.told.missed_count, granted.told.attempt), (0, 1));
    assert!(granted.told.lateness <= 2 * SECOND, "{:?}", granted.told.lateness);
}

#[tokio::test(start_paused = true)]
async fn t25_who_reconnects_to_a_removed_schedule_is_told_so() {
    let account = Account::new();
    let (here, operator) = (account.sidecar(), account.sidecar());
    drop(minutely(&here));
    pass(SECOND).await;
    changed(&operator, removal(false)).await.unwrap();
    let again = SubscribeRequest { is_new: false, ..subscription(spec("@every 60s")) };
    let mut stream = account.sidecar().scheduler.subscribe(again).unwrap();
    let told = failed(&mut stream).await;
    assert!(matches!(told, CallError::ScheduleRemoved { .. }), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn t21_t25_what_was_known_before_a_reset_is_not_written_back() {
    let account = Account::new();
    let (first, second) = (account.sidecar(), account.sidecar());
    let (mut one, mut other) = (minutely(&first), minutely(&second));
    let (now, boot) = (account.clock.wall(), account.clock.now());
    // The store's clock is a day ahead, and a run is recorded then.
    account.clock.set_wall(UnixMillis(now.0 + 86_400_000));
    let granted = tokio::select! {
        granted = run(&mut one) => (granted, &first),
        granted = run(&mut other) => (granted, &second),
    };
    complete(granted.1, &granted.0, Report::Succeeded).await;
    let passed = account.clock.now().saturating_since(boot);
    account.clock.set_wall(now + passed);
    let silent = tokio::select! {
        granted = run(&mut one) => Some(granted),
        granted = run(&mut other) => Some(granted),
        () = pass(30 * MINUTE) => None,
    };
    assert!(silent.is_none(), "T7: it is silent: {silent:?}");
    changed(&first, reset(None)).await.unwrap();
    // Both sidecars knew the watermark of the wrong day.
    for _ in 0..3 {
        let (granted, sidecar) = tokio::select! {
            granted = run(&mut one) => (granted, &first),
            granted = run(&mut other) => (granted, &second),
        };
        assert!(granted.told.lateness <= 2 * SECOND, "{:?}", granted.told);
        complete(sidecar, &granted, Report::Succeeded).await;
    }
}

#[tokio::test(start_paused = true)]
async fn t25_what_lies_after_an_earlier_watermark_is_caught_up() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = minutely(&sidecar);
    for _ in 0..3 {
        let granted = run(&mut stream).await;
        complete(&sidecar, &granted, Report::Succeeded).await;
    }
    pass(10 * SECOND).await;
    changed(&sidecar, reset(Some(61))).await.unwrap();
    let granted = run_within(&mut stream, 2 * SECOND).await.expect("at once");
    assert_eq!((granted.told.scheduled_at, granted.told.missed_count), (at(180), 1));
    complete(&sidecar, &granted, Report::Succeeded).await;
    let ahead = changed(&sidecar, reset(Some(1_000))).await;
    assert!(matches!(ahead, Err(CallError::WatermarkAhead { .. })), "{ahead:?}");
}

#[tokio::test(start_paused = true)]
async fn t24_a_run_that_makes_no_progress_is_lost_and_another_replica_runs_it() {
    let account = Account::new();
    let (here, elsewhere) = (account.sidecar(), account.sidecar());
    let watched = || Spec {
        progress_timeout: Some(20 * SECOND),
        takeover_check: Some(5 * SECOND),
        ..spec("@every 600s")
    };
    let mut stream = subscribe(&here, watched());
    let granted = run(&mut stream).await;
    assert_eq!(granted.told.progress_timeout, Some(20 * SECOND));
    let mut other = subscribe(&elsewhere, watched());
    for _ in 0..4 {
        pass(15 * SECOND).await;
        let (id, generation) = (granted.grant.lease_id, Some(granted.grant.generation));
        here.coordinator.report_progress(id, generation).await.unwrap();
    }
    let lost = news(&mut stream).await;
    assert!(
        matches!(lost, ScheduleEvent::Held(HeldEvent::Lost { reason: LossReason::NoProgress, .. })),
        "{lost:?}"
    );
    let again = run_within(&mut other, 2 * MINUTE).await.expect("it was abandoned");
    assert_eq!((again.told.scheduled_at, again.told.attempt), (granted.told.scheduled_at, 2));
    complete(&elsewhere, &again, Report::Succeeded).await;
    assert!(run_within(&mut stream, 11 * MINUTE).await.is_none(), "it has not spoken");
}

#[tokio::test(start_paused = true)]
async fn t25_a_new_subscription_begins_anew_where_the_removal_is_not_known_yet() {
    let account = Account::new();
    let (here, operator) = (account.sidecar(), account.sidecar());
    let mut old = minutely(&here);
    standby(&mut old).await;
    changed(&operator, removal(false)).await.unwrap();
    let mut new = minutely(&here);
    let granted = run(&mut new).await;
    assert_eq!((granted.told.attempt, granted.told.missed_count), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn t18_t25_a_run_by_hand_that_ends_after_a_reset_is_recorded_and_not_run_again() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = subscribe(&sidecar, spec("@every 600s"));
    standby(&mut stream).await;
    let trigger = ScheduleChange::Trigger { request_id: "ticket-7".to_owned() };
    changed(&sidecar, trigger).await.unwrap();
    let by_hand = run_within(&mut stream, SECOND).await.expect("at once");
    changed(&sidecar, reset(None)).await.unwrap();
    let completed = complete(&sidecar, &by_hand, Report::Succeeded).await;
    assert_eq!(completed.completion, Completion::Recorded);
    assert_eq!(run(&mut stream).await.told.scheduled_at, at(600));
}
