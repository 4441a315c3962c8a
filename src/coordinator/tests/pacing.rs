//! A store that throttles: what many holds and waiters ask of it then.

use std::sync::Arc;

use super::resuming::resume;
use super::rig::{Account, MINUTE, SECOND, Sidecar, pass, request, settle, waiting};
use crate::coordinator::{HoldRequest, NoObserver, RateStatus, StoreStatus};
use crate::store::Operation;
use crate::testing::Fault;

/// Holds of a minute's lease: 50 renewals a second.
const HOLDS: usize = 1_000;
const RENEWALS: u64 = 50;
/// What may be asked in ten seconds while the store throttles.
const MOST_IN_TEN_SECONDS: u64 = RENEWALS * 10 * 13 / 10;

fn sidecar(account: &Account) -> Sidecar {
    account.sidecar_with(Arc::new(NoObserver), 1, |settings| {
        settings.max_holds = 2 * HOLDS;
        settings.max_waiters = 2 * HOLDS;
        settings.hold.poll_cap = SECOND;
    })
}

/// Takes locks, spread over the time between two renewals, and lets them settle.
async fn hold_many(sidecar: &Sidecar, count: usize) {
    let between = 20 * SECOND / u32::try_from(count).unwrap();
    for number in 0..count {
        let max_hold = Some(600 * MINUTE);
        sidecar.acquire(HoldRequest { max_hold, ..request(&format!("job-{number}")) }).await;
        pass(between).await;
    }
    pass(MINUTE).await;
}

/// The requests of each ten seconds from now on.
async fn tens(sidecar: &Sidecar, count: usize) -> Vec<u64> {
    sidecar.counts();
    let mut asked = Vec::with_capacity(count);
    for _ in 0..count {
        pass(10 * SECOND).await;
        asked.push(sidecar.counts().total());
    }
    asked
}

async fn assert_as_before(sidecar: &Sidecar) {
    pass(2 * MINUTE).await;
    assert_eq!(sidecar.coordinator.pace().rate, None, "nothing is held back any more");
    assert_eq!(sidecar.coordinator.pace().waiting, 0);
    sidecar.counts();
    pass(MINUTE).await;
    let renewals = sidecar.counts().total();
    assert!(renewals.abs_diff(RENEWALS * 60) <= RENEWALS * 6, "{renewals}");
    assert_eq!(sidecar.coordinator.gauges().at_risk, 0);
}

#[tokio::test(start_paused = true)]
async fn s7_a_store_that_takes_less_than_the_renewals_is_not_asked_for_more() {
    let account = Account::new();
    let sidecar = sidecar(&account);
    hold_many(&sidecar, HOLDS).await;
    let before = tens(&sidecar, 6).await;
    assert!(before.iter().sum::<u64>().abs_diff(RENEWALS * 60) <= RENEWALS * 3, "{before:?}");
    // Each hold is renewed in time if it is renewed every 58 s: 17 a second.
    sidecar.faults().accept_at_most(Some(30));
    let throttled = tens(&sidecar, 30).await;
    assert!(throttled.iter().all(|asked| *asked <= MOST_IN_TEN_SECONDS), "{throttled:?}");
    // Near what the store takes, once that is known.
    assert!(throttled[1..].iter().all(|asked| (270..=380).contains(asked)), "{throttled:?}");
    assert_eq!(sidecar.coordinator.gauges().holds, HOLDS, "a hold was lost");
    sidecar.faults().accept_at_most(None);
    assert_as_before(&sidecar).await;
    assert_eq!(sidecar.coordinator.gauges().holds, HOLDS, "a hold was lost");
}

#[tokio::test(start_paused = true)]
async fn s7_holds_outlive_a_store_that_takes_nothing_for_a_while() {
    let account = Account::new();
    let sidecar = sidecar(&account);
    hold_many(&sidecar, HOLDS).await;
    sidecar.faults().accept_at_most(Some(0));
    let throttled = tens(&sidecar, 2).await;
    assert!(throttled[0] <= RENEWALS * 10, "{throttled:?}");
    assert!(throttled[1] <= RENEWALS * 10, "no more than what they need: {throttled:?}");
    pass(5 * SECOND).await;
    sidecar.faults().accept_at_most(None);
    let after = tens(&sidecar, 3).await;
    assert!(after.iter().all(|asked| *asked <= RENEWALS * 10 * 3), "{after:?}");
    assert_as_before(&sidecar).await;
    assert_eq!(sidecar.coordinator.gauges().holds, HOLDS, "a hold was lost");
}

#[tokio::test(start_paused = true)]
async fn s7_renewals_go_before_polls() {
    let account = Account::new();
    let (ours, other) = (sidecar(&account), sidecar(&account));
    let few = 200;
    for number in 0..few {
        let max_hold = Some(600 * MINUTE);
        other.acquire(HoldRequest { max_hold, ..request(&format!("other-{number}")) }).await;
    }
    hold_many(&ours, few).await;
    let waiters: Vec<_> = (0..few)
        .map(|number| waiting(&format!("other-{number}"), 60 * MINUTE))
        .map(|request| ours.coordinator.hold(&request).unwrap())
        .collect();
    pass(10 * SECOND).await;
    assert!(ours.counts().total() > 1_000, "they poll");
    ours.faults().accept_at_most(Some(15));
    pass(10 * SECOND).await;
    ours.counts();
    pass(2 * MINUTE).await;
    let asked = ours.counts();
    let renewals = u64::try_from(few).unwrap() * 6;
    assert!(asked.of(Operation::Renew) >= renewals * 9 / 10, "{asked}");
    assert!(asked.of(Operation::Acquire) > 0, "{asked}");
    assert!(asked.total() <= 15 * 120 * 13 / 10, "{asked}");
    assert_eq!(ours.coordinator.gauges().holds, few, "a hold was lost");
    assert_eq!(ours.coordinator.gauges().at_risk, 0);
    drop(waiters);
    settle().await;
}

/// A sidecar that was busy polling is where the clients of another go on with their holds (S16).
#[tokio::test(start_paused = true)]
async fn s7_s16_holds_that_go_on_here_go_before_polls() {
    let account = Account::new();
    let (ours, other, former) = (sidecar(&account), sidecar(&account), sidecar(&account));
    let (few, moved) = (200, 24);
    for number in 0..few {
        let max_hold = Some(600 * MINUTE);
        other.acquire(HoldRequest { max_hold, ..request(&format!("other-{number}")) }).await;
    }
    hold_many(&ours, few).await;
    let mut left = Vec::new();
    for number in 0..moved {
        let (stream, grant) = former.hold(&request(&format!("moved-{number}"))).await;
        stream.disconnected();
        left.push(grant);
    }
    let waiters: Vec<_> = (0..few)
        .map(|number| waiting(&format!("other-{number}"), 60 * MINUTE))
        .map(|request| ours.coordinator.hold(&request).unwrap())
        .collect();
    ours.faults().accept_at_most(Some(15));
    pass(10 * SECOND).await;
    let resumed: Vec<_> =
        left.iter().map(|grant| ours.coordinator.resume(&resume(grant)).unwrap()).collect();
    pass(2 * MINUTE).await;
    assert!(ours.faults().injected(Fault::Throttled) > 0);
    assert_eq!(ours.coordinator.gauges().holds, few + moved, "a hold was lost");
    drop((waiters, resumed));
    settle().await;
}

#[tokio::test(start_paused = true)]
async fn s7_who_waits_too_long_for_a_turn_is_told_so_and_nothing_is_sent() {
    let account = Account::new();
    let sidecar = sidecar(&account);
    sidecar.faults().accept_at_most(Some(0));
    sidecar.ask(request("the-first")).await.unwrap_err();
    settle().await;
    sidecar.counts();
    let asking: Vec<_> = (0..200)
        .map(|number| (sidecar.clone(), request(&format!("job-{number}"))))
        .map(|(sidecar, request)| tokio::spawn(async move { sidecar.ask(request).await }))
        .collect();
    let mut not_sent = 0;
    for one in asking {
        let refused = one.await.unwrap().unwrap_err().to_string();
        assert!(refused.contains("throttling"), "{refused}");
        not_sent += usize::from(refused.contains("not sent"));
    }
    let asked = sidecar.counts();
    assert!(not_sent >= 150 && asked.total() <= 50, "{not_sent} were not sent; {asked}");
    // They say nothing about the store: it answers.
    assert_eq!(*sidecar.coordinator.store_status().borrow(), StoreStatus::Ready);
    pass(2 * MINUTE).await;
    assert_eq!(sidecar.coordinator.pace(), RateStatus { waiting: 0, rate: None });
    sidecar.assert_idle();
}
