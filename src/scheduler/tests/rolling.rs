//! Versions that follow each other: a definition that changes while the old one runs, and a holder that knows
//! no schedules.

use super::rig::{
    at, complete, late, news, run, run_within, spec, standby, state, subscribe, subscription,
};
use crate::coordinator::tests::rig::{Account, LEASE, MINUTE, SECOND, by_key, pass, path};
use crate::lock::LeaseId;
use crate::record::Fields;
use crate::schedule::{CatchUp, Overlap, Report, Spec};
use crate::scheduler::{Completion, ScheduleEvent, SubscribeRequest};
use crate::store::{Acquire, LeaseStoreExt as _, Write};

#[tokio::test(start_paused = true)]
async fn t16_what_the_old_version_left_is_run_once_more_by_the_new_one_and_then_its_own() {
    let account = Account::new();
    let (old, new) = (account.sidecar(), account.sidecar());
    let mut left = subscribe(&old, Spec { revision: 1, ..spec("@every 600s") });
    let abandoned = run(&mut left).await;
    assert_eq!(abandoned.told.scheduled_at, at(600));
    // The rollout: the new version subscribes, and the old one dies in the middle of its run.
    let mut stream = subscribe(&new, Spec { revision: 2, ..spec("@every 420s") });
    standby(&mut stream).await;
    old.faults().go_down(60 * MINUTE);
    left.disconnected();
    let again = run_within(&mut stream, 4 * LEASE).await.expect("what was due is not lost");
    assert_eq!((again.told.scheduled_at, again.told.attempt), (at(600), 2));
    complete(&new, &again, Report::Succeeded).await;
    let told = loop {
        match news(&mut stream).await {
            ScheduleEvent::Recorded { .. } => {}
            other => break other,
        }
    };
    assert!(matches!(told, ScheduleEvent::Run(_)), "nothing but its own definition: {told:?}");
    let ScheduleEvent::Run(next) = told else { return };
    assert_eq!(next.told.scheduled_at, at(1_140), "the new definition's, from then on");
    assert_eq!(next.told.missed_count, 0, "no catch-up across definitions");
}

/// Takes the lock as a version does that knows no schedules, and writes these fields.
async fn hold_as_an_older_version(account: &Account, change: impl FnOnce(Fields) -> Fields) {
    let (lock, lease_id) = (path("nightly"), LeaseId::from_uuid(uuid::Uuid::from_u128(7)));
    let acquire = Acquire { lease_id, duration: LEASE, if_match: None };
    let etag = account.store.acquire(&lock, acquire).await.unwrap().etag;
    let fields = change(account.store.read_record(&lock).await.unwrap().fields);
    let write = Write { lease_id, if_match: Some(etag), fields };
    account.store.write_record(&lock, write).await.unwrap();
    pass(30 * SECOND).await;
    account.store.release(&lock, lease_id, None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn t19_t21_a_holder_that_knows_no_schedules_is_waited_for_and_what_it_drops_is_written_back()
{
    for drops in [false, true] {
        let account = Account::new();
        let sidecar = account.sidecar();
        let mut stream = subscribe(&sidecar, spec("@every 60s"));
        let first = run(&mut stream).await;
        complete(&sidecar, &first, Report::Succeeded).await;
        news(&mut stream).await;
        // Held over the next due time.
        pass(45 * SECOND).await;
        hold_as_an_older_version(&account, |mut fields| {
            let before = fields.len();
            if drops {
                fields.retain(|name, _| !name.starts_with("leasehold_schedule_"));
                assert!(fields.len() < before, "there was something to drop");
            }
            fields
        })
        .await;
        let second = run_within(&mut stream, 4 * LEASE).await.expect("it goes on");
        assert!(second.told.scheduled_at > first.told.scheduled_at, "never again: {drops}");
        complete(&sidecar, &second, Report::Succeeded).await;
    }
}

#[tokio::test(start_paused = true)]
async fn t16_an_outcome_is_decided_over_the_policy_that_is_in_force_then() {
    let account = Account::new();
    let (here, elsewhere) = (account.sidecar(), account.sidecar());
    let mut stream = subscribe(&here, Spec { overlap: Overlap::Skip, ..spec("@every 600s") });
    let long = run(&mut stream).await;
    let all = Spec { revision: 1, catch_up: CatchUp::All(24), ..spec("@every 600s") };
    standby(&mut subscribe(&elsewhere, all)).await;
    pass(25 * MINUTE).await;
    complete(&here, &long, Report::Succeeded).await;
    for due in [1_200, 1_800] {
        let granted = run(&mut stream).await;
        assert_eq!((granted.told.scheduled_at, granted.told.missed_count), (at(due), 0));
        complete(&here, &granted, Report::Succeeded).await;
    }
}

#[tokio::test(start_paused = true)]
async fn t11_t16_a_failure_is_final_after_the_attempts_that_are_allowed_then() {
    let account = Account::new();
    let (here, elsewhere) = (account.sidecar(), account.sidecar());
    let attempts = |most, revision| {
        let max_attempts = Some(most);
        Spec { max_attempts, revision, ..spec("@every 600s") }
    };
    let mut stream = subscribe(&here, attempts(1, 0));
    let granted = run(&mut stream).await;
    standby(&mut subscribe(&elsewhere, attempts(2, 1))).await;
    let completed = complete(&here, &granted, Report::Failed).await;
    assert!(completed.retry_at.is_some(), "{completed:?}");
}

#[tokio::test(start_paused = true)]
async fn t8_t16_a_late_outcome_through_a_sidecar_that_knows_an_older_plan_brings_nothing_of_it_back()
 {
    let account = Account::new();
    let (old, new) = (account.sidecar(), account.sidecar());
    let mut stale = subscribe(&old, Spec { revision: 1, ..spec("@every 600s") });
    standby(&mut stale).await;
    let mut stream = subscribe(&new, Spec { revision: 2, ..spec("@every 420s") });
    let granted = run(&mut stream).await;
    let before = state(&new).await;
    new.faults().go_down(60 * MINUTE);
    stream.disconnected();
    let completing = old.scheduler.complete_run(late(&granted.told.run_id, Report::Succeeded));
    assert_eq!(completing.await.unwrap().completion, Completion::RecordedLate);
    let after = state(&old).await;
    assert_eq!((after.plan, after.serial), (before.plan, before.serial));
    assert_eq!((granted.told.scheduled_at, after.next), (at(300), Some(at(720))));
}

#[tokio::test(start_paused = true)]
async fn t16_a_new_subscriber_brings_back_a_definition_that_another_has_replaced_elsewhere() {
    let account = Account::new();
    let (here, elsewhere) = (account.sidecar(), account.sidecar());
    let mut first = subscribe(&here, spec("@every 600s"));
    standby(&mut first).await;
    standby(&mut subscribe(&elsewhere, spec("@every 420s"))).await;
    let in_force = || async {
        let info = elsewhere.scheduler.schedule(&by_key("nightly")).await.unwrap();
        info.plan.unwrap().unwrap().definition().timetable.canonical().to_owned()
    };
    assert_eq!(in_force().await, "@every 7m");
    // A reconnect does not: it may have been told of the other one.
    let again = SubscribeRequest { is_new: false, ..subscription(spec("@every 600s")) };
    standby(&mut here.scheduler.subscribe(again).unwrap()).await;
    assert_eq!(in_force().await, "@every 7m");
    standby(&mut subscribe(&here, spec("@every 600s"))).await;
    assert_eq!(in_force().await, "@every 10m");
}
