//! Limits, and the numbers behind them.

use std::time::Duration;

use super::rig::{Account, MINUTE, SECOND, Sidecar, pass, path, request, settle, waiting};
use crate::coordinator::{Brought, CallError, Decider, Outcome};
use crate::record::{Record, Verdict};

fn holds_and_waiters(sidecar: &Sidecar) -> (usize, usize) {
    let gauges = sidecar.coordinator.gauges();
    (gauges.holds, gauges.waiters)
}

fn limited(account: &Account, holds: usize, waiters: usize) -> Sidecar {
    account.sidecar_with(std::sync::Arc::new(crate::coordinator::NoObserver), 1, |settings| {
        settings.max_holds = holds;
        settings.max_waiters = waiters;
    })
}

#[tokio::test(start_paused = true)]
async fn no_more_holds_are_let_in_than_configured_and_ended_ones_make_room() {
    let sidecar = limited(&Account::new(), 2, 10);
    let first = sidecar.acquire(request("a")).await;
    let (stream, _) = sidecar.hold(&request("b")).await;
    let refused = sidecar.ask(request("c")).await.unwrap_err();
    assert!(matches!(refused, CallError::TooManyHolds { limit: 2 }), "{refused}");
    sidecar.release(&first).await;
    let third = sidecar.acquire(request("c")).await;
    drop(stream);
    settle().await;
    sidecar.release(&third).await;
    settle().await;
    sidecar.assert_idle();
}

#[tokio::test(start_paused = true)]
async fn no_more_callers_wait_than_configured_however_their_waits_end() {
    let account = Account::new();
    let (holder, _) = account.sidecar().hold(&request("held")).await;
    let sidecar = limited(&account, 10, 3);
    for round in 0..4 {
        let waits = [waiting("held", 10 * SECOND), waiting("held", MINUTE)];
        let mut streams: Vec<_> =
            waits.iter().map(|request| sidecar.coordinator.hold(request).unwrap()).collect();
        let call = sidecar.clone();
        let unary = tokio::spawn(async move { call.ask(waiting("held", 10 * MINUTE)).await });
        settle().await;
        assert_eq!(holds_and_waiters(&sidecar), (0, 3), "round {round}");
        let refused = sidecar.ask(request("free")).await.unwrap_err();
        assert!(matches!(refused, CallError::TooManyWaiters { limit: 3 }), "{refused}");
        // One wait ends busy, one is cancelled, one falls silent.
        pass(11 * SECOND).await;
        assert_eq!(holds_and_waiters(&sidecar), (0, 2), "round {round}");
        unary.abort();
        settle().await;
        assert_eq!(holds_and_waiters(&sidecar), (0, 1), "round {round}");
        streams.pop().unwrap().disconnected();
        settle().await;
        sidecar.assert_idle();
    }
    drop(holder);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_fails_is_counted_out() {
    let sidecar = limited(&Account::new(), 10, 2);
    sidecar.faults().go_down(Duration::MAX);
    for _ in 0..5 {
        let refused = sidecar.ask(request("nightly")).await.unwrap_err();
        assert!(matches!(refused, CallError::StoreFailure(_)), "{refused}");
        let refused = sidecar.ask(waiting("nightly", SECOND)).await.unwrap_err();
        assert!(matches!(refused, CallError::StoreFailure(_)), "{refused}");
    }
    sidecar.faults().go_down(Duration::ZERO);
    pass(5 * SECOND).await;
    sidecar.assert_idle();
}

#[tokio::test(start_paused = true)]
async fn the_earliest_end_of_a_validity_is_shown() {
    let account = Account::new();
    let sidecar = account.sidecar();
    assert_eq!(sidecar.coordinator.gauges().earliest_valid_until, None);
    let first = sidecar.acquire(request("a")).await;
    let until = account.now() + first.validity.valid_for;
    pass(10 * SECOND).await;
    sidecar.acquire(request("b")).await;
    assert_eq!(sidecar.coordinator.gauges().earliest_valid_until, Some(until));
    pass(12 * SECOND).await;
    let renewed = sidecar.coordinator.gauges().earliest_valid_until.unwrap();
    assert!(renewed > until);
}

#[tokio::test(start_paused = true)]
async fn s38_locks_that_rest_are_no_more_than_could_be_held_and_waited_for() {
    let observer = std::sync::Arc::new(crate::coordinator::NoObserver);
    let sidecar = Account::new().sidecar_with(observer, 1, |settings| {
        (settings.max_holds, settings.max_waiters, settings.max_resumes) = (2, 3, 1);
    });
    let rests = |at: usize| {
        let rested = request(&format!("rests-{at}"));
        crate::coordinator::HoldRequest { min_hold: 600 * SECOND, ..rested }
    };
    for at in 0..6 {
        let grant = sidecar.acquire(rests(at)).await;
        sidecar.release(&grant).await;
    }
    let refused = sidecar.ask(request("another")).await.unwrap_err();
    assert!(matches!(refused, CallError::TooManyHolds { limit: 2 }), "{refused}");
    let busy = sidecar.ask(request("rests-0")).await;
    assert!(matches!(busy, Ok(Outcome::Busy(_))), "it is there already: {busy:?}");
    pass(11 * MINUTE).await;
    sidecar.acquire(request("another")).await;
}

#[tokio::test(start_paused = true)]
async fn s38_what_is_only_written_is_settled_at_the_limit_of_holds() {
    let sidecar = limited(&Account::new(), 1, 10);
    let (_stream, _) = sidecar.hold(&request("held")).await;
    let decider = || Decider::new(|_| (Verdict::Nothing, ())).0;
    let brought = Brought { decider: decider(), seen: None };
    let path = path("nightly");
    let record = Record::default();
    let settled = sidecar.coordinator.settle_at(&path, record, MINUTE, brought).await;
    assert!(settled.is_ok(), "{settled:?}");
}
