//! The request budget of schedules.md, row by row.

use super::rig::{complete, minutely, news, run, spec, standby, subscribe, subscription};
use crate::coordinator::tests::rig::{Account, LEASE, MINUTE, SECOND, counts, pass, settle};
use crate::schedule::Report;
use crate::scheduler::SubscribeRequest;
use crate::store::Operation;

#[tokio::test(start_paused = true)]
async fn t17_between_occurrences_there_is_one_look_in_ten_minutes() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let _stream = subscribe(&sidecar, spec("0 0 1 1 *"));
    settle().await;
    sidecar.counts();
    pass(60 * MINUTE).await;
    let asked = sidecar.counts();
    let (plans, records) = (asked.of(Operation::ReadPlan), asked.of(Operation::ReadRecord));
    assert!((6..=7).contains(&plans), "{asked}");
    assert_eq!((records, plans + records), (plans, asked.total()), "{asked}");
}

#[tokio::test(start_paused = true)]
async fn t17_a_subscription_takes_three_requests_and_two_for_a_known_definition() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut first = minutely(&sidecar);
    standby(&mut first).await;
    let new = [(Operation::ReadPlan, 1), (Operation::ReadRecord, 1), (Operation::WritePlan, 1)];
    assert_eq!(sidecar.counts(), counts(new));
    let other = account.sidecar();
    let mut second = minutely(&other);
    standby(&mut second).await;
    assert_eq!(other.counts(), counts([(Operation::ReadPlan, 1), (Operation::ReadRecord, 1)]));
    // What is known here may be in force no more (T16).
    standby(&mut minutely(&other)).await;
    assert_eq!(other.counts(), counts([(Operation::ReadPlan, 1), (Operation::ReadRecord, 1)]));
    // One that reconnects changes nothing of the same revision.
    let again = SubscribeRequest { is_new: false, ..subscription(spec("@every 60s")) };
    standby(&mut other.scheduler.subscribe(again).unwrap()).await;
    assert_eq!(other.counts(), counts([]), "it is known here");
}

#[tokio::test(start_paused = true)]
async fn t17_the_runner_takes_five_requests_and_who_looks_one() {
    let account = Account::new();
    let (runner, idle) = (account.sidecar(), account.sidecar());
    let mut stream = minutely(&runner);
    standby(&mut stream).await;
    let first = run(&mut stream).await;
    complete(&runner, &first, Report::Succeeded).await;
    news(&mut stream).await;
    let mut other = minutely(&idle);
    standby(&mut other).await;
    runner.counts();
    idle.counts();
    let second = run(&mut stream).await;
    complete(&runner, &second, Report::Succeeded).await;
    news(&mut stream).await;
    settle().await;
    let expected = [
        (Operation::ReadPlan, 1),
        (Operation::Acquire, 1),
        (Operation::WriteRecord, 2),
        (Operation::Release, 1),
    ];
    assert_eq!(runner.counts(), counts(expected));
    pass(2 * SECOND).await;
    assert_eq!(idle.counts(), counts([(Operation::ReadRecord, 1)]));
}

#[tokio::test(start_paused = true)]
async fn t17_a_sidecar_that_always_meets_runs_notices_within_three_lease_durations_that_they_end() {
    let account = Account::new();
    let sidecars = [account.sidecar(), account.sidecar()];
    let (sender, mut runs) = tokio::sync::mpsc::unbounded_channel();
    let tasks = [0, 1].map(|index| {
        let (sidecar, sender) = (sidecars[index].clone(), sender.clone());
        tokio::spawn(async move {
            let mut stream = subscribe(&sidecar, spec("@every 20s"));
            loop {
                let granted = run(&mut stream).await;
                sender.send((index, sidecar.coordinator.clock().now())).unwrap();
                pass(15 * SECOND).await;
                complete(&sidecar, &granted, Report::Succeeded).await;
            }
        })
    });
    drop(sender);
    let mut last = 0;
    for _ in 0..60 {
        (last, _) = runs.recv().await.unwrap();
    }
    tasks[last].abort();
    sidecars[last].faults().go_down(60 * MINUTE);
    let died = account.now();
    let (runner, at) = runs.recv().await.unwrap();
    assert_eq!(runner, 1 - last);
    // A look that still meets the lease, and another twice as long after it.
    assert!(at - died <= 3 * LEASE + 2 * SECOND, "{:?}", at - died);
}
