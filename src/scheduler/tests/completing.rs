//! How outcomes are recorded (T8).

use super::rig::{complete, completion, late, news, run, run_within, spec, standby, subscribe};
use crate::coordinator::tests::rig::{Account, LEASE, MINUTE, SECOND, by_key, pass, settle};
use crate::lock::LeaseId;
use crate::schedule::{Outcome, Report};
use crate::scheduler::{CompleteRequest, Completion, ScheduleEvent};
use crate::store::LeaseState;
use crate::testing::{Fault, FaultPlan};

#[tokio::test(start_paused = true)]
async fn t8_a_completion_is_idempotent_at_any_sidecar() {
    let account = Account::new();
    let (first, second) = (account.sidecar(), account.sidecar());
    let mut stream = subscribe(&first, spec("@every 600s"));
    let granted = run(&mut stream).await;
    let completed = complete(&first, &granted, Report::Succeeded).await;
    assert_eq!(completed.completion, Completion::Recorded);
    let recorded = news(&mut stream).await;
    assert!(
        matches!(
            recorded,
            ScheduleEvent::Recorded {
                report: Some(Report::Succeeded),
                completion: Completion::Recorded,
                ..
            }
        ),
        "{recorded:?}"
    );
    for sidecar in [&first, &second] {
        let repeated = complete(sidecar, &granted, Report::Succeeded).await;
        assert_eq!(repeated.completion, Completion::Recorded);
        let other = complete(sidecar, &granted, Report::Failed).await;
        assert_eq!(other.completion, Completion::Superseded, "another outcome stands");
    }
}

#[tokio::test(start_paused = true)]
async fn t8_a_run_is_completed_late_at_another_sidecar_once_its_lease_is_over() {
    let account = Account::new();
    let (first, second) = (account.sidecar(), account.sidecar());
    let mut stream = subscribe(&first, spec("@every 600s"));
    let granted = run(&mut stream).await;
    // The first one is cut off for good.
    first.faults().go_down(60 * MINUTE);
    stream.disconnected();
    let completing = second.scheduler.complete_run(late(&granted.told.run_id, Report::Succeeded));
    let completed = completing.await.unwrap();
    assert_eq!(completed.completion, Completion::RecordedLate);
    let info = second.scheduler.schedule(&by_key("nightly")).await.unwrap();
    let state = info.state.unwrap();
    assert_eq!(state.watermark, granted.told.scheduled_at);
    assert_eq!((state.outcome, state.run), (Some(Outcome::Succeeded), None));
    settle().await;
    second.assert_idle();
}

#[tokio::test(start_paused = true)]
async fn t8_a_completion_after_the_run_was_repeated_is_superseded() {
    let account = Account::new();
    let (first, second) = (account.sidecar(), account.sidecar());
    let mut stream = subscribe(&first, spec("@every 600s"));
    let granted = run(&mut stream).await;
    let mut other = subscribe(&second, spec("@every 600s"));
    standby(&mut other).await;
    drop(stream);
    let again = run_within(&mut other, 2 * LEASE).await.unwrap();
    let completing = first.scheduler.complete_run(late(&granted.told.run_id, Report::Succeeded));
    assert_eq!(completing.await.unwrap().completion, Completion::Superseded);
    let completed = complete(&second, &again, Report::Succeeded).await;
    assert_eq!(completed.completion, Completion::Recorded);
}

#[tokio::test(start_paused = true)]
async fn t8_an_outcome_whose_answer_was_lost_is_found_recorded() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = subscribe(&sidecar, spec("@every 600s"));
    let granted = run(&mut stream).await;
    sidecar.faults().set_plan(FaultPlan { lose_answer: 1_000, ..FaultPlan::default() });
    let request = completion(&granted, Report::Succeeded);
    let scheduler = sidecar.scheduler.clone();
    let completing = tokio::spawn(async move { scheduler.complete_run(request).await });
    settle().await;
    assert!(sidecar.faults().injected(Fault::AnswerLost) > 0, "it was lost");
    sidecar.faults().set_plan(FaultPlan::default());
    let completed = completing.await.unwrap().unwrap();
    assert_eq!(completed.completion, Completion::Recorded);
    assert_eq!(run(&mut stream).await.told.attempt, 1);
}

#[tokio::test(start_paused = true)]
async fn t8_a_completion_goes_on_when_its_caller_goes() {
    let account = Account::new();
    let sidecar = account.sidecar();
    sidecar.delay_everything();
    let mut stream = subscribe(&sidecar, spec("@every 600s"));
    let granted = run(&mut stream).await;
    let completing = sidecar.scheduler.complete_run(completion(&granted, Report::Succeeded));
    assert!(tokio::time::timeout(SECOND / 1_000, completing).await.is_err(), "it takes longer");
    let recorded = news(&mut stream).await;
    assert!(matches!(recorded, ScheduleEvent::Recorded { .. }), "{recorded:?}");
    pass(MINUTE).await;
    let info = sidecar.scheduler.schedule(&by_key("nightly")).await.unwrap();
    assert_eq!(info.state.unwrap().outcome, Some(Outcome::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn t8_a_run_is_completed_at_its_own_sidecar_also_by_who_does_not_know_its_lease_id() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = subscribe(&sidecar, spec("@every 600s"));
    for hold in [None, Some(LeaseId::from_uuid(uuid::Uuid::from_u128(7)))] {
        let granted = run(&mut stream).await;
        let request =
            CompleteRequest { lease_id: hold, ..late(&granted.told.run_id, Report::Succeeded) };
        let completing = sidecar.scheduler.complete_run(request);
        let completed = tokio::time::timeout(SECOND, completing).await.expect("at once").unwrap();
        assert_eq!(completed.completion, Completion::Recorded);
        assert_eq!(account.lease("nightly").await, LeaseState::Available);
        assert!(matches!(news(&mut stream).await, ScheduleEvent::Recorded { .. }));
    }
}
