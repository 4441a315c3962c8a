//! The request budget of the storage design, row by row.

use std::time::Duration;

use super::super::Outcome;
use super::{Account, patient, request};
use crate::store::Operation;

#[tokio::test(start_paused = true)]
async fn s5_a_grant_costs_an_acquire_and_a_write_once_the_lock_is_known() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let grant = here.granted(request("job")).await;
    assert!(here.requests() <= 4, "first ever");
    here.release(&grant).await;
    assert_eq!(here.requests(), 1, "a release");

    let grant = here.granted(request("job")).await;
    let counts = here.link.take_counts();
    assert_eq!(counts.of(Operation::Acquire), 1);
    assert_eq!(counts.of(Operation::WriteRecord), 1);
    assert_eq!(counts.total(), 2, "known and unchanged");
    here.release(&grant).await;

    let grant = there.granted(request("job")).await;
    let counts = there.link.take_counts();
    assert_eq!(counts.of(Operation::Acquire), 1);
    assert_eq!(counts.of(Operation::ReadRecord), 1);
    assert_eq!(counts.of(Operation::WriteRecord), 1);
    assert_eq!(counts.total(), 3, "the lock exists");
    there.release(&grant).await;
}

#[tokio::test(start_paused = true)]
async fn s12_a_first_try_costs_two_requests_and_each_later_poll_one() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    here.granted(request("job")).await;
    let busy = there.coordinator.acquire(request("job")).await.unwrap();
    assert!(matches!(busy, Outcome::Busy(_)));
    assert_eq!(there.requests(), 2);
    let busy = there.coordinator.acquire(patient("job", Duration::from_secs(60))).await.unwrap();
    assert!(matches!(busy, Outcome::Busy(_)));
    let counts = there.link.take_counts();
    assert_eq!(counts.of(Operation::ReadRecord), 1, "beside the first try, to say who has it");
    assert_eq!(counts.total(), counts.of(Operation::Acquire) + 1, "polls are acquires alone");
}

#[tokio::test(start_paused = true)]
async fn s12_a_thousand_local_waiters_poll_as_one() {
    let polls = async |waiters: usize| {
        let account = Account::new();
        let (here, there) = (account.sidecar(), account.sidecar());
        here.granted(request("job")).await;
        let wait = Duration::from_secs(120);
        let waiting = (0..waiters).map(|_| there.coordinator.acquire(patient("job", wait)));
        futures_util::future::join_all(waiting).await;
        there.requests()
    };
    let (one, many) = (polls(1).await, polls(1_000).await);
    // Each draws its own jitter between 250 ms and the cap of 5 s.
    assert!(many <= one * 2, "{many} requests for a thousand, {one} for one");
}

#[tokio::test(start_paused = true)]
async fn s7_a_hold_costs_one_request_each_third_of_its_lease() {
    let account = Account::new();
    let here = account.sidecar();
    here.granted(request("job")).await;
    here.requests();
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let counts = here.link.take_counts();
    assert_eq!(counts.total(), counts.of(Operation::Renew));
    let ideal = 3_600 / 20;
    assert!(counts.total() * 100 <= ideal * 102, "{} renewals, ideal {ideal}", counts.total());
    assert!(counts.total() * 100 >= ideal * 98, "{} renewals, ideal {ideal}", counts.total());
}

#[tokio::test(start_paused = true)]
async fn s10_a_hand_off_between_local_callers_costs_nothing() {
    let account = Account::new();
    let here = account.sidecar();
    let first = here.granted(request("job")).await;
    here.requests();
    let waiting = here.granted(patient("job", Duration::from_secs(60)));
    let releasing = async {
        tokio::task::yield_now().await;
        here.release(&first).await;
    };
    let (second, ()) = tokio::join!(waiting, releasing);
    assert_eq!(here.requests(), 0);
    assert_eq!(second.token.value(), first.token.value() + 1);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_nobody_wants_costs_nothing() {
    let account = Account::new();
    let here = account.sidecar();
    let grant = here.granted(request("job")).await;
    here.release(&grant).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    here.requests();
    assert_eq!(here.coordinator.gauges().paths, 0, "no task is left");
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(here.requests(), 0);
}
