//! How many requests each thing that callers do may cost, and what idle locks cost.

use std::sync::Arc;
use std::time::Duration;

use super::rig::{
    Account, LEASE, MINUTE, SECOND, Sidecar, counts, granted, pass, request, settle, waiting,
};
use crate::coordinator::{HoldRequest, NoObserver};
use crate::store::{LeaseState, Operation};
use crate::testing::FaultPlan;

#[tokio::test(start_paused = true)]
async fn the_first_acquire_ever_takes_at_most_four_requests() {
    let sidecar = Account::new().sidecar();
    sidecar.acquire(request("nightly")).await;
    let asked = sidecar.counts();
    assert!(asked.total() <= 4, "{asked}");
}

#[tokio::test(start_paused = true)]
async fn an_acquire_of_a_known_lock_takes_two_requests() {
    let sidecar = Account::new().sidecar();
    let grant = sidecar.acquire(request("nightly")).await;
    sidecar.release(&grant).await;
    settle().await;
    sidecar.assert_idle();
    for _ in 0..3 {
        sidecar.counts();
        let grant = sidecar.acquire(request("nightly")).await;
        let asked = sidecar.counts();
        assert_eq!(asked, counts([(Operation::Acquire, 1), (Operation::WriteRecord, 1)]));
        sidecar.release(&grant).await;
        settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquire_of_an_existing_lock_takes_three_requests_two_of_them_side_by_side() {
    for seed in 0..50 {
        let account = Account::new();
        let first = account.sidecar();
        let grant = first.acquire(request("nightly")).await;
        first.release(&grant).await;
        let second = account.sidecar_with(Arc::new(NoObserver), seed, |_| {});
        second.faults().set_plan(FaultPlan {
            delay_answer: 1_000,
            longest_delay: SECOND,
            ..FaultPlan::default()
        });
        let sent = account.now();
        second.acquire(request("nightly")).await;
        let asked = second.counts();
        let expected =
            [(Operation::Acquire, 1), (Operation::ReadRecord, 1), (Operation::WriteRecord, 1)];
        assert_eq!(asked, counts(expected));
        // Three answers in sequence, each up to a second late, would take longer with some seed.
        assert!(account.now() - sent <= 2 * SECOND + Duration::from_millis(10), "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_try_on_a_lock_held_elsewhere_takes_two_requests() {
    let account = Account::new();
    account.sidecar().acquire(request("nightly")).await;
    let other = account.sidecar();
    let busy = other.busy(request("nightly")).await;
    assert_eq!(busy.record.record.holder, "the-pod");
    let asked = other.counts();
    assert_eq!(asked, counts([(Operation::Acquire, 1), (Operation::ReadRecord, 1)]));
}

#[tokio::test(start_paused = true)]
async fn s12_each_later_poll_is_one_request_and_never_closer_than_a_quarter_second() {
    let account = Account::new();
    let (_stream, _) = account.sidecar().hold(&request("nightly")).await;
    let other = account.sidecar();
    other.busy(waiting("nightly", MINUTE)).await;
    let asked = other.counts();
    let (polls, reads) = (asked.of(Operation::Acquire), asked.of(Operation::ReadRecord));
    assert_eq!(asked, counts([(Operation::Acquire, polls), (Operation::ReadRecord, reads)]));
    assert!((12..=240).contains(&(polls + reads)), "{asked:?}");
    // The first try reads too; after that, every fourth poll reads instead.
    assert!(reads - 1 <= polls / 3, "{asked:?}");
}

/// Polls of the lock in one minute, with the shortest cap, where chance has no say.
async fn polls_of(waiters: usize) -> u64 {
    let account = Account::new();
    let (_stream, _) = account.sidecar().hold(&request("nightly")).await;
    let other = account.sidecar_with(Arc::new(NoObserver), 1, |settings| {
        settings.hold.poll_cap = Duration::from_millis(250);
    });
    let request = waiting("nightly", 10 * MINUTE);
    let streams: Vec<_> = (0..waiters).map(|_| other.coordinator.hold(&request).unwrap()).collect();
    pass(MINUTE).await;
    let asked = other.counts();
    drop(streams);
    settle().await;
    other.assert_idle();
    asked.total()
}

#[tokio::test(start_paused = true)]
async fn s12_many_local_waiters_cost_what_one_costs() {
    let one = polls_of(1).await;
    let many = polls_of(100).await;
    assert!((200..=242).contains(&one), "{one}");
    assert!(many.abs_diff(one) <= 4, "{many} instead of {one}");
}

#[tokio::test(start_paused = true)]
async fn s7_renewals_over_an_hour_are_three_a_lease_duration_and_nothing_else_is_asked() {
    for seconds in [15, 30, 60] {
        let sidecar = Account::new().sidecar();
        let lease_duration = Some(Duration::from_secs(seconds));
        let request = HoldRequest { lease_duration, ..request("nightly") };
        let (mut stream, _) = sidecar.hold(&request).await;
        sidecar.counts();
        let reading = tokio::spawn(async move { while stream.next().await.is_some() {} });
        pass(60 * MINUTE).await;
        let asked = sidecar.counts();
        let renewals = asked.of(Operation::Renew);
        assert_eq!(asked, counts([(Operation::Renew, renewals)]));
        let ideal = 3 * 3_600 / seconds;
        assert!(renewals * 100 <= ideal * 102, "{renewals} instead of {ideal}");
        assert!(renewals * 100 >= ideal * 98, "{renewals} instead of {ideal}");
        reading.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_takes_one_request() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let grant = sidecar.acquire(request("nightly")).await;
    sidecar.counts();
    sidecar.release(&grant).await;
    assert_eq!(sidecar.counts(), counts([(Operation::Release, 1)]));
    assert_eq!(account.lease("nightly").await, LeaseState::Available);
    let (stream, _) = sidecar.hold(&request("nightly")).await;
    sidecar.counts();
    drop(stream);
    settle().await;
    assert_eq!(sidecar.counts(), counts([(Operation::Release, 1)]));
}

#[tokio::test(start_paused = true)]
async fn s10_a_local_hand_off_takes_no_request() {
    let sidecar = Account::new().sidecar();
    let (_first, grant) = sidecar.hold(&request("nightly")).await;
    let mut second = sidecar.coordinator.hold(&waiting("nightly", MINUTE)).unwrap();
    settle().await;
    sidecar.counts();
    sidecar.release(&grant).await;
    granted(&mut second).await;
    assert_eq!(sidecar.counts().total(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lock_held_here_is_shown_and_refused_without_asking_the_store() {
    let sidecar = Account::new().sidecar();
    let grant = sidecar.acquire(request("nightly")).await;
    sidecar.counts();
    let busy = sidecar.busy(request("nightly")).await;
    let record = sidecar.coordinator.get(&super::rig::by_key("nightly")).await.unwrap();
    sidecar.coordinator.report_progress(grant.lease_id, Some(grant.generation)).await.unwrap();
    sidecar.coordinator.extend(grant.lease_id, Some(grant.generation), MINUTE).await.unwrap();
    assert_eq!(busy.record.record.token, Some(grant.token));
    assert_eq!(record.record.token, Some(grant.token));
    assert_eq!(sidecar.counts().total(), 0);
}

fn alive_tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

async fn assert_nothing_runs(sidecar: &Sidecar, tasks_before: usize) {
    sidecar.assert_idle();
    assert_eq!(alive_tasks(), tasks_before, "no task, and so no timer");
    sidecar.counts();
    pass(60 * MINUTE).await;
    assert_eq!(sidecar.counts().total(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_nobody_wants_costs_nothing() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let before = alive_tasks();
    let grant = sidecar.acquire(request("nightly")).await;
    sidecar.release(&grant).await;
    settle().await;
    assert_nothing_runs(&sidecar, before).await;
    // Also while it rests: the end of that is remembered without a task.
    let min_hold = 10 * SECOND;
    let grant = sidecar.acquire(HoldRequest { min_hold, ..request("nightly") }).await;
    sidecar.release(&grant).await;
    pass(min_hold + SECOND).await;
    assert_nothing_runs(&sidecar, before).await;
    // And after a hold that was lost.
    let (stream, _) = sidecar.hold(&request("nightly")).await;
    sidecar.faults().go_down(Duration::MAX);
    pass(2 * LEASE).await;
    sidecar.faults().go_down(Duration::ZERO);
    drop(stream);
    settle().await;
    assert_nothing_runs(&sidecar, before).await;
}
