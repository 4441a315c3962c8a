//! Subscribers whose run ended without a word from them, and that stay (T24).

use std::time::Duration;

use super::rig::{complete, late, news, next, run, run_within, spec, standby, subscribe};
use crate::coordinator::tests::rig::{Account, LEASE, MINUTE, SECOND, Sidecar, pass};
use crate::coordinator::{HeldEvent, LossReason};
use crate::schedule::{CatchUp, Report, RunTimeout, Spec};
use crate::scheduler::{RunGrant, ScheduleEvent, ScheduleStream};
use crate::timetable::UtcSecond;

/// Each minute, and at most a quarter of one.
fn short() -> Spec {
    let run_timeout = RunTimeout::Duration(15 * SECOND);
    Spec { run_timeout, takeover_check: Some(5 * SECOND), ..spec("@every 60s") }
}

/// A subscriber whose first run has hung until its deadline, and that is told so.
async fn hung(sidecar: &Sidecar) -> (ScheduleStream, RunGrant) {
    let mut stream = subscribe(sidecar, short());
    let granted = run(&mut stream).await;
    let lost = news(&mut stream).await;
    let ScheduleEvent::Held(HeldEvent::Lost { reason: LossReason::MaxHoldReached, .. }) = lost
    else {
        panic!("{lost:?}")
    };
    (stream, granted)
}

/// Whoever runs all occurrences of the next so many minutes, one by one; each at the first attempt.
async fn runs_all(sidecar: &Sidecar, stream: &mut ScheduleStream, minutes: usize) {
    let mut last: Option<UtcSecond> = None;
    for _ in 0..minutes {
        let granted = run(stream).await;
        let (at, attempt) = (granted.told.scheduled_at, granted.told.attempt);
        assert_eq!((attempt, granted.told.missed_count), (1, 0), "{at}");
        // T17: who has seen another one's run looks again within `takeover_check`.
        assert!(granted.told.lateness <= 6 * SECOND, "{at}: {:?}", granted.told.lateness);
        assert!(last.is_none_or(|last| at.seconds_since(last) == 60), "{at} after {last:?}");
        last = Some(at);
        complete(sidecar, &granted, Report::Succeeded).await;
    }
}

#[tokio::test(start_paused = true)]
async fn t24_a_subscriber_that_hangs_takes_no_occurrence_from_others_at_its_sidecar() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let (mut silent, _) = hung(&sidecar).await;
    let mut healthy = subscribe(&sidecar, short());
    runs_all(&sidecar, &mut healthy, 5).await;
    assert!(run_within(&mut silent, Duration::ZERO).await.is_none(), "it has not spoken");
}

#[tokio::test(start_paused = true)]
async fn t24_a_subscriber_that_hangs_takes_no_occurrence_from_others_elsewhere() {
    let account = Account::new();
    let (here, elsewhere) = (account.sidecar(), account.sidecar());
    let mut healthy = subscribe(&elsewhere, short());
    standby(&mut healthy).await;
    // The one that hangs is at the last runner.
    let hanging = tokio::spawn({
        let here = here.clone();
        async move { hung(&here).await }
    });
    let first = run(&mut healthy).await;
    complete(&elsewhere, &first, Report::Returned).await;
    let (mut silent, _) = hanging.await.unwrap();
    runs_all(&elsewhere, &mut healthy, 5).await;
    assert!(run_within(&mut silent, Duration::ZERO).await.is_none(), "it has not spoken");
}

#[tokio::test(start_paused = true)]
async fn t24_who_says_how_its_lost_run_ended_is_given_the_next_one() {
    let account = Account::new();
    let (here, elsewhere) = (account.sidecar(), account.sidecar());
    let (mut silent, lost) = hung(&here).await;
    assert!(run_within(&mut silent, 3 * MINUTE).await.is_none(), "it has not spoken");
    let told = late(&lost.told.run_id, Report::Succeeded);
    here.scheduler.complete_run(told).await.unwrap();
    let next = run_within(&mut silent, 70 * SECOND).await.expect("it has spoken");
    assert_eq!(next.told.attempt, 1);
    complete(&here, &next, Report::Succeeded).await;
    drop(elsewhere);
}

#[tokio::test(start_paused = true)]
async fn t17_t24_who_speaks_late_makes_no_crowd_of_requests_while_others_run() {
    let account = Account::new();
    let (here, elsewhere) = (account.sidecar(), account.sidecar());
    let (mut silent, lost) = hung(&here).await;
    let mut healthy = subscribe(&elsewhere, short());
    runs_all(&elsewhere, &mut healthy, 3).await;
    let long = run(&mut healthy).await;
    here.counts();
    here.scheduler.complete_run(late(&lost.told.run_id, Report::Succeeded)).await.unwrap();
    assert!(run_within(&mut silent, 10 * SECOND).await.is_none(), "it is run elsewhere");
    let asked = here.counts().total();
    assert!(asked <= 8, "{asked} requests");
    complete(&elsewhere, &long, Report::Succeeded).await;
}

#[tokio::test(start_paused = true)]
async fn t24_a_new_stream_of_a_client_whose_run_was_lost_is_given_the_next_one() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let (silent, _) = hung(&sidecar).await;
    drop(silent);
    let mut stream = subscribe(&sidecar, short());
    let next = run_within(&mut stream, 70 * SECOND).await.expect("it is another stream");
    complete(&sidecar, &next, Report::Succeeded).await;
}

#[tokio::test(start_paused = true)]
async fn t24_who_says_elsewhere_how_its_lost_run_ended_is_given_the_next_one() {
    let account = Account::new();
    let (here, elsewhere) = (account.sidecar(), account.sidecar());
    let mut stream = subscribe(&here, short());
    let granted = run(&mut stream).await;
    // Its lease runs out while the sidecar cannot reach the store; the client does, through another one.
    here.faults().go_down(2 * LEASE);
    loop {
        if let ScheduleEvent::Held(HeldEvent::Lost { .. }) = next(&mut stream).await {
            break;
        }
    }
    pass(LEASE).await;
    let told = late(&granted.told.run_id, Report::Succeeded);
    elsewhere.scheduler.complete_run(told).await.unwrap();
    let again = run_within(&mut stream, 5 * MINUTE).await.expect("its word stands in the record");
    assert_ne!(again.told.scheduled_at, granted.told.scheduled_at);
    complete(&here, &again, Report::Succeeded).await;
}

#[tokio::test(start_paused = true)]
async fn t9_t17_t24_a_hang_until_the_next_is_due_costs_those_who_run_nothing_late_no_occurrence() {
    let account = Account::new();
    let (here, elsewhere) = (account.sidecar(), account.sidecar());
    let hourly = || Spec { catch_up: CatchUp::None, ..spec("0 * * * *") };
    let mut hanging = subscribe(&here, hourly());
    let first = run(&mut hanging).await.told.scheduled_at;
    tokio::spawn(async move { while hanging.next().await.is_some() {} });
    let mut healthy = subscribe(&elsewhere, hourly());
    for hours in 1..=3 {
        let granted = run(&mut healthy).await;
        assert_eq!(granted.told.scheduled_at.seconds_since(first), 3_600 * hours);
        assert_eq!((granted.told.attempt, granted.told.missed_count), (1, 0));
        complete(&elsewhere, &granted, Report::Succeeded).await;
    }
}
