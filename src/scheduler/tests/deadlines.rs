//! What the last moments of a run are worth: its deadline, a report that is on its way, a start whose answer
//! is lost (T6, T8, T12).

use std::sync::Arc;
use std::time::Duration;

use super::rig::{
    at, complete, completion, late, news, next, run, run_within, spec, standby, state, subscribe,
};
use crate::coordinator::tests::rig::{Account, LEASE, MINUTE, SECOND, pass, path, settle};
use crate::coordinator::{HeldEvent, LossReason};
use crate::schedule::{Ended, Outcome, Overlap, Report, RunTimeout, ScheduleRecord, Spec};
use crate::scheduler::{Completion, ScheduleEvent};
use crate::store::{LeaseStoreExt as _, Operation};
use crate::testing::SimClock;
use crate::time::{Clock as _, UnixMillis};

fn timed() -> Spec {
    let run_timeout = RunTimeout::Duration(15 * SECOND);
    Spec { run_timeout, takeover_check: Some(SECOND), ..spec("@every 600s") }
}

fn outcomes(record: &ScheduleRecord) -> Vec<(Outcome, u32)> {
    record.ended.iter().map(|Ended { outcome, attempt, .. }| (*outcome, *attempt)).collect()
}

#[tokio::test(start_paused = true)]
async fn t12_a_run_at_its_deadline_is_timed_out_once_and_never_run_again() {
    let account = Account::new();
    let (first, second) = (account.sidecar(), account.sidecar());
    let mut stream = subscribe(&first, timed());
    standby(&mut stream).await;
    let granted = run(&mut stream).await;
    let mut other = subscribe(&second, timed());
    let lost = news(&mut stream).await;
    assert!(
        matches!(
            lost,
            ScheduleEvent::Held(HeldEvent::Lost { reason: LossReason::MaxHoldReached, .. })
        ),
        "{lost:?}"
    );
    assert!(run_within(&mut other, 5 * MINUTE).await.is_none(), "it has its outcome");
    let record = state(&second).await;
    assert_eq!(outcomes(&record), [(Outcome::TimedOut, 1)]);
    assert_eq!(record.watermark, granted.told.scheduled_at);
}

#[tokio::test(start_paused = true)]
async fn t12_what_is_said_within_the_grace_counts() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = subscribe(&sidecar, timed());
    let granted = run(&mut stream).await;
    assert_eq!(granted.told.timeout, Some(15 * SECOND));
    assert_eq!(granted.deadline.as_ref().map(|it| it.after.as_secs()), Some(15));
    pass(24 * SECOND).await;
    assert_eq!(
        complete(&sidecar, &granted, Report::Succeeded).await.completion,
        Completion::Recorded
    );
    assert_eq!(outcomes(&state(&sidecar).await), [(Outcome::Succeeded, 1)]);
}

#[tokio::test(start_paused = true)]
async fn t12_a_timeout_that_could_not_be_written_is_written_before_anything_else() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = subscribe(&sidecar, timed());
    let _granted = run(&mut stream).await;
    pass(14 * SECOND).await;
    let mut healthy = subscribe(&sidecar, timed());
    standby(&mut healthy).await;
    sidecar.faults().go_down(40 * SECOND);
    assert!(run_within(&mut healthy, 4 * MINUTE).await.is_none(), "it has its outcome");
    assert_eq!(outcomes(&state(&sidecar).await), [(Outcome::TimedOut, 1)]);
}

#[tokio::test(start_paused = true)]
async fn t8_a_success_that_a_sidecar_was_told_never_loses_to_its_own_look() {
    for pause in [0, 30, 70] {
        let account = Account::new();
        let sidecar = account.sidecar();
        let mut stream = subscribe(&sidecar, spec("@every 600s"));
        let granted = run(&mut stream).await;
        sidecar.faults().go_down(2 * LEASE);
        loop {
            if let ScheduleEvent::Held(HeldEvent::Lost { .. }) = next(&mut stream).await {
                break;
            }
        }
        pass(pause * SECOND).await;
        // Its sidecar cannot write it now, and the client does not repeat it.
        let told = sidecar.scheduler.complete_run(late(&granted.told.run_id, Report::Succeeded));
        let told = told.await.map(|completed| completed.completion);
        assert!(matches!(told, Err(_) | Ok(Completion::RecordedLate)), "{told:?}");
        assert!(run_within(&mut stream, 6 * MINUTE).await.is_none(), "{pause}: it has succeeded");
        assert_eq!(outcomes(&state(&sidecar).await), [(Outcome::Succeeded, 1)], "{pause}");
    }
}

#[tokio::test(start_paused = true)]
async fn t6_a_start_whose_answer_is_lost_is_granted_once_it_is_seen_to_be_written() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let once = || Spec { max_attempts: Some(1), ..spec("@every 600s") };
    let mut stream = subscribe(&sidecar, once());
    standby(&mut stream).await;
    sidecar.faults().lose_next_answer(Operation::WriteRecord);
    let granted = run(&mut stream).await;
    // Who has not run before looks up to 1.2 s later.
    assert!(granted.told.attempt == 1 && granted.told.lateness <= 2 * SECOND, "{granted:?}");
    complete(&sidecar, &granted, Report::Succeeded).await;
    assert_eq!(outcomes(&state(&sidecar).await), [(Outcome::Succeeded, 1)]);
}

#[tokio::test(start_paused = true)]
async fn t6_a_start_that_was_written_and_not_granted_uses_up_no_attempt() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let once = || Spec { max_attempts: Some(1), ..spec("@every 600s") };
    let mut stream = subscribe(&sidecar, once());
    let first = run(&mut stream).await;
    complete(&sidecar, &first, Report::Succeeded).await;
    sidecar.faults().lose_next_answer(Operation::WriteRecord);
    sidecar.faults().lose_next(Operation::ReadRecord);
    let granted = run(&mut stream).await;
    assert_eq!(granted.told.attempt, 1);
    complete(&sidecar, &granted, Report::Succeeded).await;
    let record = state(&sidecar).await;
    let expected = [(Outcome::Succeeded, 1), (Outcome::Returned, 1), (Outcome::Succeeded, 1)];
    assert_eq!(outcomes(&record), expected);
}

#[tokio::test(start_paused = true)]
async fn t6_who_leaves_while_its_run_is_started_uses_up_no_attempt() {
    let once = || {
        let takeover_check = Some(5 * SECOND);
        Spec { max_attempts: Some(1), takeover_check, ..spec("@every 600s") }
    };
    let mut left = 0;
    // At each moment, until it is told the run.
    for millis in 0.. {
        let account = Account::new();
        let (here, elsewhere) = (account.sidecar(), account.sidecar());
        let mut first = subscribe(&here, once());
        let granted = run(&mut first).await;
        complete(&here, &granted, Report::Succeeded).await;
        let mut second = subscribe(&elsewhere, once());
        here.delay_everything();
        // The last runner starts the next one as soon as it is due.
        let due = u64::try_from(at(1_200).0).unwrap() * 1_000 + millis;
        let until_then = Duration::from_millis(due - account.clock.wall().0);
        if run_within(&mut first, until_then).await.is_some() {
            break;
        }
        drop(first);
        let granted = run_within(&mut second, MINUTE).await;
        let granted = granted.unwrap_or_else(|| panic!("it has left after {millis} ms"));
        assert_eq!((granted.told.scheduled_at, granted.told.attempt), (at(1_200), 1), "{millis}");
        complete(&elsewhere, &granted, Report::Succeeded).await;
        left += 1;
    }
    assert!(left > 10, "{left}");
}

#[tokio::test(start_paused = true)]
async fn t8_t12_a_timeout_is_written_also_where_everybody_here_is_silent() {
    // Whenever the others look, and the lease goes back.
    for _ in 0..10 {
        let account = Account::new();
        let (here, elsewhere) = (account.sidecar(), account.sidecar());
        let timed = || Spec { takeover_check: None, ..timed() };
        let mut silent = subscribe(&here, timed());
        let _granted = run(&mut silent).await;
        let mut other = subscribe(&elsewhere, timed());
        // Its hold is to end in three seconds, and it is lost without a word.
        pass(24 * SECOND).await;
        here.faults().go_down(5 * SECOND);
        assert!(run_within(&mut other, 5 * MINUTE).await.is_none(), "it has its outcome");
        assert_eq!(outcomes(&state(&elsewhere).await), [(Outcome::TimedOut, 1)]);
        drop(silent);
    }
}

#[tokio::test(start_paused = true)]
async fn t8_a_success_that_a_sidecar_was_told_is_written_though_nobody_subscribes_there_any_more() {
    let account = Account::new();
    let (here, elsewhere) = (account.sidecar(), account.sidecar());
    let mut stream = subscribe(&here, spec("@every 600s"));
    let granted = run(&mut stream).await;
    here.faults().go_down(2 * LEASE);
    loop {
        if let ScheduleEvent::Held(HeldEvent::Lost { .. }) = next(&mut stream).await {
            break;
        }
    }
    let told = here.scheduler.complete_run(late(&granted.told.run_id, Report::Succeeded)).await;
    assert!(told.is_err(), "{told:?}");
    // The job's container starts again.
    drop(stream);
    settle().await;
    assert_eq!(here.scheduler.schedule_figures().len(), 1, "it is not forgotten");
    pass(3 * LEASE).await;
    assert_eq!(outcomes(&state(&elsewhere).await), [(Outcome::Succeeded, 1)]);
    assert_eq!(here.scheduler.schedule_figures().len(), 0, "nothing is kept for nobody");
    here.assert_idle();
    let mut again = subscribe(&here, spec("@every 600s"));
    assert!(run_within(&mut again, 5 * MINUTE).await.is_none(), "it has succeeded");
}

#[tokio::test(start_paused = true)]
async fn t6_who_leaves_while_its_run_is_started_uses_up_no_attempt_though_the_store_is_away_then() {
    let account = Account::new();
    let here = account.sidecar();
    let once = || Spec { max_attempts: Some(1), ..spec("@every 600s") };
    let mut stream = subscribe(&here, once());
    standby(&mut stream).await;
    let starts = here.faults().hold_before(Operation::WriteRecord);
    assert!(run_within(&mut stream, 10 * MINUTE + 2 * SECOND).await.is_none());
    drop(stream);
    settle().await;
    here.delay_everything();
    starts.notify_one();
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    // The start is on its way, and nothing comes after it while its lease lasts.
    here.faults().go_down(2 * LEASE);
    pass(SECOND).await;
    let stored = account.store.read_record(&path("nightly")).await.unwrap();
    let stored = ScheduleRecord::from_fields(&stored.fields).unwrap().unwrap();
    assert!(stored.run.is_some(), "it was written: {stored:?}");
    let mut stream = loop {
        let mut stream = subscribe(&here, once());
        if let ScheduleEvent::Standby(_) = next(&mut stream).await {
            break stream;
        }
        pass(5 * SECOND).await;
    };
    let granted = run_within(&mut stream, 4 * LEASE).await.expect("nobody has seen it");
    assert_eq!((granted.told.scheduled_at, granted.told.attempt), (at(600), 1));
}

#[tokio::test(start_paused = true)]
async fn t8_t20_what_a_sidecar_was_told_goes_before_what_it_would_write_itself_as_it_ends() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = subscribe(&sidecar, Spec { overlap: Overlap::Skip, ..spec("@every 600s") });
    let granted = run(&mut stream).await;
    let draining = sidecar.coordinator.clone();
    tokio::spawn(async move { draining.drain(30 * SECOND).await });
    pass(27 * SECOND + SECOND / 2).await;
    // The policies that the outcome is decided by come after the sidecar's own note is due.
    let let_go = sidecar.faults().hold_before(Operation::ReadPlan);
    let told = complete(&sidecar, &granted, Report::Succeeded).await;
    assert_eq!(told.completion, Completion::Recorded);
    let_go.notify_one();
    assert_eq!(outcomes(&state(&sidecar).await), [(Outcome::Succeeded, 1)]);
}

#[tokio::test(start_paused = true)]
async fn t8_t12_what_a_caller_says_while_its_sidecar_writes_that_time_is_over_goes_first() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = subscribe(&sidecar, Spec { overlap: Overlap::Skip, ..timed() });
    let granted = run(&mut stream).await;
    pass(24 * SECOND).await;
    // The policies that its own note is decided by come late.
    let let_go = sidecar.faults().hold_before(Operation::ReadPlan);
    pass(SECOND + SECOND / 4).await;
    let told = complete(&sidecar, &granted, Report::Succeeded).await;
    assert_eq!(told.completion, Completion::Recorded);
    let_go.notify_one();
    assert_eq!(outcomes(&state(&sidecar).await), [(Outcome::Succeeded, 1)]);
}

#[tokio::test(start_paused = true)]
async fn t12_a_run_whose_stream_ends_while_its_time_is_noted_has_timed_out() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = subscribe(&sidecar, Spec { overlap: Overlap::Skip, ..timed() });
    run(&mut stream).await;
    pass(24 * SECOND).await;
    let let_go = sidecar.faults().hold_before(Operation::ReadPlan);
    pass(SECOND + SECOND / 4).await;
    drop(stream);
    settle().await;
    let_go.notify_one();
    pass(MINUTE).await;
    assert_eq!(outcomes(&state(&sidecar).await), [(Outcome::TimedOut, 1)]);
}

#[tokio::test(start_paused = true)]
async fn t10_an_outcome_that_is_written_late_skips_what_fell_due_before_it_was_told() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = subscribe(&sidecar, Spec { overlap: Overlap::Skip, ..spec("@every 600s") });
    let granted = run(&mut stream).await;
    pass(5 * MINUTE).await;
    // The store is away until half a minute after the next but one.
    sidecar.faults().go_down(15 * MINUTE + 30 * SECOND);
    sidecar.scheduler.complete_run(completion(&granted, Report::Succeeded)).await.unwrap_err();
    let next = loop {
        if let ScheduleEvent::Run(next) = next(&mut stream).await {
            break next;
        }
    };
    assert_eq!((next.told.scheduled_at, next.told.missed_count), (at(1_800), 1));
}

#[tokio::test(start_paused = true)]
async fn t8_t20_a_short_drain_leaves_half_of_its_time_to_what_a_caller_says() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = subscribe(&sidecar, spec("@every 600s"));
    let granted = run(&mut stream).await;
    let draining = sidecar.coordinator.clone();
    tokio::spawn(async move { draining.drain(2 * SECOND).await });
    pass(SECOND / 2).await;
    let told = complete(&sidecar, &granted, Report::Succeeded).await;
    assert_eq!(told.completion, Completion::Recorded);
    assert_eq!(outcomes(&state(&sidecar).await), [(Outcome::Succeeded, 1)]);
}

#[tokio::test(start_paused = true)]
async fn t8_what_a_caller_says_while_what_its_sidecar_owes_is_being_written_goes_first() {
    let account = Account::new();
    let here = account.sidecar();
    let mut silent = subscribe(&here, timed());
    let granted = run(&mut silent).await;
    // Its time is over while the store is away.
    pass(24 * SECOND).await;
    here.faults().go_down(5 * SECOND);
    pass(6 * SECOND).await;
    here.counts();
    let let_go = here.faults().hold_before(Operation::Acquire);
    while here.counts().of(Operation::Acquire) == 0 {
        pass(SECOND / 10).await;
    }
    let (scheduler, told) = (here.scheduler.clone(), late(&granted.told.run_id, Report::Succeeded));
    let telling = tokio::spawn(async move { scheduler.complete_run(told).await });
    settle().await;
    let_go.notify_one();
    assert_eq!(telling.await.unwrap().unwrap().completion, Completion::RecordedLate);
    assert_eq!(outcomes(&state(&here).await), [(Outcome::Succeeded, 1)]);
}

#[tokio::test(start_paused = true)]
async fn t8_calls_for_runs_that_there_never_were_let_a_sidecar_forget_no_outcome_that_it_owes() {
    let account = Account::new();
    let here = account.sidecar();
    let mut stream = subscribe(&here, spec("@every 600s"));
    let granted = run(&mut stream).await;
    here.faults().go_down(2 * LEASE);
    loop {
        if let ScheduleEvent::Held(HeldEvent::Lost { .. }) = next(&mut stream).await {
            break;
        }
    }
    let told = here.scheduler.complete_run(late(&granted.told.run_id, Report::Succeeded)).await;
    assert!(told.is_err(), "{told:?}");
    let calls: Vec<_> = (1..=40)
        .map(|number| {
            let mut forged = granted.told.run_id.clone();
            forged.attempt += number;
            let scheduler = here.scheduler.clone();
            tokio::spawn(async move { scheduler.complete_run(late(&forged, Report::Failed)).await })
        })
        .collect();
    for call in calls {
        let told = call.await.unwrap();
        assert!(told.is_err(), "{told:?}");
    }
    assert!(run_within(&mut stream, 6 * MINUTE).await.is_none(), "it has succeeded");
    assert_eq!(outcomes(&state(&here).await), [(Outcome::Succeeded, 1)]);
}

#[tokio::test(start_paused = true)]
async fn t10_when_a_run_ended_is_not_by_the_machines_own_clock_before_the_store_has_answered() {
    let account = Account::new();
    let dying = account.sidecar();
    let skips = || Spec { overlap: Overlap::Skip, ..spec("@every 600s") };
    let mut stream = subscribe(&dying, skips());
    let granted = run(&mut stream).await;
    pass(5 * MINUTE).await;
    dying.faults().go_down(60 * MINUTE);
    stream.disconnected();
    // What is due at 1,200 has fallen due when a sidecar is told that has asked the store nothing yet.
    pass(8 * MINUTE).await;
    let clock = Arc::new(SimClock::following_tokio());
    clock.set_wall(UnixMillis(account.clock.wall().0 - 3_600_000));
    let here = account.sidecar_on(&clock, 1);
    let told = here.scheduler.complete_run(late(&granted.told.run_id, Report::Succeeded)).await;
    let told = told.unwrap();
    assert_eq!((told.completion, told.next_at), (Completion::RecordedLate, Some(at(1_800))));
    assert_eq!(state(&here).await.missed, 1);
}

#[tokio::test(start_paused = true)]
async fn t8_a_success_that_is_told_when_nothing_is_known_of_its_schedule_any_more_is_kept() {
    let account = Account::new();
    let (here, elsewhere) = (account.sidecar(), account.sidecar());
    let mut stream = subscribe(&here, spec("@every 600s"));
    let granted = run(&mut stream).await;
    drop(stream);
    settle().await;
    assert_eq!(here.scheduler.schedule_figures().len(), 0, "nothing is owed");
    here.faults().go_down(MINUTE);
    let told = here.scheduler.complete_run(late(&granted.told.run_id, Report::Succeeded)).await;
    assert!(told.is_err(), "{told:?}");
    pass(3 * MINUTE).await;
    assert_eq!(outcomes(&state(&elsewhere).await), [(Outcome::Succeeded, 1)]);
    assert_eq!(here.scheduler.schedules.tasks().len(), 0, "nothing is kept for nobody");
    here.assert_idle();
}

#[tokio::test(start_paused = true)]
async fn t8_what_is_told_of_a_schedule_that_there_is_not_is_not_kept() {
    let account = Account::new();
    let here = account.sidecar();
    let mut stream = subscribe(&here, spec("@every 600s"));
    let mut told = late(&run(&mut stream).await.told.run_id, Report::Succeeded);
    told.run_id.path = path("another");
    here.faults().go_down(MINUTE);
    here.scheduler.complete_run(told).await.unwrap_err();
    pass(3 * MINUTE).await;
    assert_eq!(here.scheduler.schedules.tasks().len(), 1, "that of the schedule that there is");
}

#[tokio::test(start_paused = true)]
async fn t8_t20_what_a_sidecar_owes_as_it_ends_is_written_within_the_drain_and_keeps_to_its_time() {
    for (away, expected) in [(20, &[(Outcome::Succeeded, 1)][..]), (600, &[])] {
        let account = Account::new();
        let (here, elsewhere) = (account.sidecar(), account.sidecar());
        let mut stream = subscribe(&here, spec("@every 600s"));
        let granted = run(&mut stream).await;
        here.faults().go_down(3 * LEASE);
        loop {
            if let ScheduleEvent::Held(HeldEvent::Lost { .. }) = next(&mut stream).await {
                break;
            }
        }
        let told = here.scheduler.complete_run(late(&granted.told.run_id, Report::Succeeded)).await;
        assert!(told.is_err(), "{told:?}");
        here.faults().go_down(away * SECOND);
        let drain = here.coordinator.drain(30 * SECOND);
        tokio::time::timeout(32 * SECOND, drain).await.expect("it has no more time");
        assert_eq!(outcomes(&state(&elsewhere).await), expected);
    }
}
