//! Schedules of half a minute and less: nothing is kept between their runs, so nothing stands in the way of
//! the next (T19).

use std::time::Duration;

use tokio::sync::mpsc::unbounded_channel;

use super::rig::{at, complete, news, run, spec, standby, subscribe, subscription};
use crate::coordinator::tests::rig::{Account, LEASE, SECOND, key, pass};
use crate::schedule::Report;
use crate::scheduler::SubscribeRequest;
use crate::store::{LeaseState, Operation};
use crate::timetable::UtcSecond;

#[tokio::test(start_paused = true)]
async fn t13_t19_a_hundred_schedules_of_twenty_seconds_at_one_sidecar_lose_no_occurrence() {
    const SCHEDULES: usize = 100;
    const ROUNDS: i64 = 15;
    let account = Account::new();
    let sidecar = account.sidecar();
    let (sender, mut runs) = unbounded_channel::<(UtcSecond, Duration)>();
    for schedule in 0..SCHEDULES {
        let (sidecar, sender) = (sidecar.clone(), sender.clone());
        tokio::spawn(async move {
            let key = key(&format!("often-{schedule}"));
            let request = SubscribeRequest { key, ..subscription(spec("@every 20s")) };
            let mut stream = sidecar.scheduler.subscribe(request).unwrap();
            standby(&mut stream).await;
            loop {
                let granted = run(&mut stream).await;
                let _ = sender.send((granted.told.scheduled_at, granted.told.lateness));
                pass(SECOND).await;
                complete(&sidecar, &granted, Report::Succeeded).await;
            }
        });
    }
    let mut started = std::collections::BTreeMap::<UtcSecond, usize>::new();
    while started.keys().last().is_none_or(|last| *last <= at(20 * ROUNDS)) {
        let (occurrence, lateness) = runs.recv().await.unwrap();
        *started.entry(occurrence).or_default() += 1;
        assert!(lateness <= 3 * SECOND, "{occurrence}: {lateness:?} late");
    }
    for round in 1..=ROUNDS {
        assert_eq!(started.get(&at(20 * round)), Some(&SCHEDULES), "round {round}");
    }
}

#[tokio::test(start_paused = true)]
async fn t17_t19_a_plan_that_could_not_be_read_costs_no_occurrence() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = subscribe(&sidecar, spec("@every 20s"));
    for round in 1..=6 {
        if round > 1 {
            sidecar.faults().lose_next(Operation::ReadPlan);
        }
        let granted = run(&mut stream).await;
        assert_eq!(
            granted.told.scheduled_at,
            at(20 * round),
            "missed {}",
            granted.told.missed_count
        );
        complete(&sidecar, &granted, Report::Succeeded).await;
        news(&mut stream).await;
    }
}

#[tokio::test(start_paused = true)]
async fn t19_no_lease_is_kept_between_runs() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = subscribe(&sidecar, spec("@every 20s"));
    for report in [Report::Succeeded, Report::Failed] {
        let granted = run(&mut stream).await;
        complete(&sidecar, &granted, report).await;
        news(&mut stream).await;
        assert_eq!(account.lease("nightly").await, LeaseState::Available);
    }
    assert!(LEASE > 20 * SECOND, "the next one is due before the lease would end");
}
