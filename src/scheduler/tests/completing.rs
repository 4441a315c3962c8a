//! How outcomes are recorded (T8).

use super::rig::{
    at, complete, completion, late, news, run, run_within, spec, standby, subscribe, subscription,
};
use crate::coordinator::tests::rig::{Account, LEASE, MINUTE, SECOND, by_key, pass, settle};
use crate::lock::LeaseId;
use crate::schedule::{Outcome, Report, Spec};
use crate::scheduler::task::Message;
use crate::scheduler::{CompleteRequest, Completion, ScheduleEvent, SubscribeRequest};
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

#[tokio::test(start_paused = true)]
async fn t8_a_success_that_is_told_before_anybody_subscribes_here_goes_before_the_look() {
    let account = Account::new();
    let (dying, here) = (account.sidecar(), account.sidecar());
    let eager = || Spec { takeover_check: Some(SECOND), ..spec("@every 600s") };
    let mut stream = subscribe(&dying, eager());
    let granted = run(&mut stream).await;
    // Its lease ends between two reads of the call.
    pass(2 * SECOND).await;
    dying.faults().go_down(60 * MINUTE);
    stream.disconnected();
    let (scheduler, told) = (here.scheduler.clone(), late(&granted.told.run_id, Report::Succeeded));
    let completing = tokio::spawn(async move { scheduler.complete_run(told).await });
    settle().await;
    let mut stream = subscribe(&here, eager());
    let next = run(&mut stream).await;
    assert_eq!((next.told.scheduled_at, next.told.attempt), (at(1_200), 1));
    let completion = completing.await.unwrap().unwrap().completion;
    assert_ne!(completion, Completion::Superseded);
}

#[tokio::test(start_paused = true)]
async fn t8_the_end_of_a_call_for_an_older_run_hides_no_outcome_of_the_one_that_has_just_ended() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = subscribe(&sidecar, spec("@every 600s"));
    let older = run(&mut stream).await;
    complete(&sidecar, &older, Report::Failed).await;
    let granted = run(&mut stream).await;
    // Both calls end before the run is seen to be over.
    let schedules = &sidecar.scheduler.schedules;
    for (run, completion) in [(&granted, Completion::Recorded), (&older, Completion::Superseded)] {
        let ended = Box::new((run.told.run_id.clone(), Report::Returned));
        schedules.send(&run.told.run_id.path, Message::Completed(ended, Some(completion)));
    }
    let (lease_id, generation) = (granted.grant.lease_id, Some(granted.grant.generation));
    sidecar.coordinator.release(lease_id, generation).await.unwrap();
    let told = news(&mut stream).await;
    let ScheduleEvent::Recorded { report, completion, .. } = told else { panic!("{told:?}") };
    assert_eq!((report, completion), (Some(Report::Returned), Completion::Recorded));
}

#[tokio::test(start_paused = true)]
async fn t5_t17_who_reconnects_while_a_call_completes_a_run_is_told_what_the_record_waits_for() {
    let account = Account::new();
    let (there, here) = (account.sidecar(), account.sidecar());
    let mut stream = subscribe(&there, spec("@every 600s"));
    let first = run(&mut stream).await;
    complete(&there, &first, Report::Succeeded).await;
    let granted = run(&mut stream).await;
    // The call has read the plan, and waits for the end of the lease.
    let (scheduler, told) = (here.scheduler.clone(), late(&granted.told.run_id, Report::Succeeded));
    let completing = tokio::spawn(async move { scheduler.complete_run(told).await });
    settle().await;
    let again = SubscribeRequest { is_new: false, ..subscription(spec("@every 600s")) };
    let mut again = here.scheduler.subscribe(again).unwrap();
    assert_eq!(standby(&mut again).await.next_at, Some(granted.told.scheduled_at));
    complete(&there, &granted, Report::Succeeded).await;
    assert_eq!(completing.await.unwrap().unwrap().completion, Completion::Recorded);
}
