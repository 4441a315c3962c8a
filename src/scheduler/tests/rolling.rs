//! Versions that follow each other: a definition that changes while the old one runs, and a holder that knows
//! no schedules.

use super::rig::{at, complete, news, run, run_within, spec, standby, subscribe};
use crate::coordinator::tests::rig::{Account, LEASE, MINUTE, SECOND, pass, path};
use crate::lock::LeaseId;
use crate::record::Fields;
use crate::schedule::{Report, Spec};
use crate::scheduler::ScheduleEvent;
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
