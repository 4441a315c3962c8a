//! What the last moments of a run are worth: its deadline, a report that is on its way, a start whose answer
//! is lost (T6, T8, T12).

use std::time::Duration;

use super::rig::{at, complete, late, news, next, run, run_within, spec, standby, subscribe};
use crate::coordinator::tests::rig::{Account, LEASE, MINUTE, SECOND, Sidecar, by_key, pass};
use crate::coordinator::{HeldEvent, LossReason};
use crate::schedule::{Ended, Outcome, Report, RunTimeout, ScheduleRecord, Spec};
use crate::scheduler::{Completion, ScheduleEvent};
use crate::store::Operation;
use crate::time::Clock as _;

fn timed() -> Spec {
    let run_timeout = RunTimeout::Duration(15 * SECOND);
    Spec { run_timeout, takeover_check: Some(SECOND), ..spec("@every 600s") }
}

async fn state(sidecar: &Sidecar) -> ScheduleRecord {
    *sidecar.scheduler.schedule(&by_key("nightly")).await.unwrap().state.unwrap()
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
    sidecar.faults().go_down(40 * SECOND);
    let mut healthy = subscribe(&sidecar, timed());
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
