//! Callers that go away at any moment.

use std::sync::Arc;
use std::time::Duration;

use super::rig::{Account, MINUTE, SECOND, Sidecar, granted, next, pass, path, request, waiting};
use crate::coordinator::{HoldEvent, HoldRequest, NoObserver, Outcome};
use crate::store::LeaseState;
use crate::testing::FaultPlan;

/// Each answer of the store comes after up to this long.
const SLOW: FaultPlan = FaultPlan {
    lose_request: 0,
    lose_answer: 0,
    repeat: 0,
    delay_request: 1_000,
    delay_answer: 1_000,
    throttle: 0,
    deny: 0,
    longest_delay: Duration::from_millis(40),
    longest_silence: Duration::ZERO,
};

/// A sidecar whose requests are slow in a way that differs from moment to moment.
fn slow_sidecar(account: &Account, moment: Duration) -> Sidecar {
    let sidecar = account.sidecar_with(
        Arc::new(NoObserver),
        u64::try_from(moment.as_millis()).unwrap(),
        |_| {},
    );
    sidecar.faults().set_plan(SLOW);
    sidecar
}

fn moments() -> impl Iterator<Item = Duration> {
    (0..200).step_by(3).map(Duration::from_millis)
}

/// Whether the lease of the lock is taken; a lock that nobody got to yet has none.
async fn is_leased(account: &Account) -> bool {
    let made = account.store.locks().copy_record(&path("nightly")).is_some();
    made && account.lease("nightly").await == LeaseState::Leased
}

#[tokio::test(start_paused = true)]
async fn s6_a_caller_that_goes_away_at_any_moment_leaves_no_lease_behind() {
    for moment in moments() {
        let account = Account::new();
        let sidecar = slow_sidecar(&account, moment);
        let asked = sidecar.ask(HoldRequest { max_hold: Some(60 * MINUTE), ..request("nightly") });
        let had = tokio::time::timeout(moment, asked).await.is_ok();
        pass(30 * SECOND).await;
        assert_eq!(is_leased(&account).await, had, "gone after {moment:?}");
        let gauges = sidecar.coordinator.gauges();
        assert_eq!((gauges.holds, gauges.waiters), (usize::from(had), 0), "gone after {moment:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn s14_a_stream_that_is_dropped_at_any_moment_leaves_no_lease_behind() {
    for moment in moments() {
        let account = Account::new();
        let sidecar = slow_sidecar(&account, moment);
        let stream = sidecar.coordinator.hold(&request("nightly")).unwrap();
        pass(moment).await;
        drop(stream);
        pass(30 * SECOND).await;
        assert!(!is_leased(&account).await, "gone after {moment:?}");
        sidecar.assert_idle();
    }
}

#[tokio::test(start_paused = true)]
async fn s12_a_waiter_that_goes_away_leaves_the_queue_at_once() {
    let sidecar = Account::new().sidecar();
    let first = sidecar.acquire(request("nightly")).await;
    let leaving = sidecar.ask(waiting("nightly", 10 * MINUTE));
    assert!(tokio::time::timeout(Duration::from_millis(1), leaving).await.is_err());
    let mut stream = sidecar.coordinator.hold(&waiting("nightly", 10 * MINUTE)).unwrap();
    let HoldEvent::Waiting { place, .. } = next(&mut stream).await else { panic!() };
    assert_eq!(place, 1);
    sidecar.release(&first).await;
    let grant = granted(&mut stream).await;
    assert_eq!(grant.token.value(), first.token.value() + 1);
}

/// S14: the client may not know that its stream ended, so nobody gets the lock while it may believe.
#[tokio::test(start_paused = true)]
async fn s14_a_holder_that_fell_silent_keeps_its_lock_until_its_validity_is_over() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let (stream, grant) = here.hold(&request("nightly")).await;
    let ends = account.now() + grant.validity.valid_for;
    stream.disconnected();
    let local = here.acquire(waiting("nightly", 5 * MINUTE));
    let elsewhere = there.ask(waiting("nightly", 50 * SECOND));
    let (next, busy) = tokio::join!(local, elsewhere);
    assert!(account.now() >= ends);
    assert!(matches!(busy.unwrap(), Outcome::Busy(_)));
    assert!(next.token > grant.token);
}
