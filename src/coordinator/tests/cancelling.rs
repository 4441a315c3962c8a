//! Callers that go away at any moment.

use std::time::Duration;

use super::super::HoldEvent;
use super::{Account, patient, request};
use crate::store::FaultPlan;

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

#[tokio::test(start_paused = true)]
async fn s6_a_caller_that_goes_away_at_any_moment_leaves_no_lease_behind() {
    for moment in (0..200).step_by(3).map(Duration::from_millis) {
        let account = Account::new();
        let here = account.sidecar_with(u64::try_from(moment.as_millis()).unwrap(), SLOW);
        let asked = here.coordinator.acquire(request("job"));
        let had = tokio::time::timeout(moment, asked).await.is_ok();
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(account.is_leased(&here, "job").await, had, "gone after {moment:?}");
        assert_eq!(here.coordinator.gauges().waiters, 0);
        assert_eq!(here.coordinator.gauges().holds, usize::from(had));
    }
}

#[tokio::test(start_paused = true)]
async fn s14_a_stream_that_is_dropped_at_any_moment_leaves_no_lease_behind() {
    for moment in (0..200).step_by(3).map(Duration::from_millis) {
        let account = Account::new();
        let here = account.sidecar_with(u64::try_from(moment.as_millis()).unwrap(), SLOW);
        let stream = here.coordinator.hold(&request("job")).unwrap();
        tokio::time::sleep(moment).await;
        drop(stream);
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(!account.is_leased(&here, "job").await, "gone after {moment:?}");
        assert_eq!(here.coordinator.gauges().holds, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn s12_a_waiter_that_goes_away_leaves_the_queue_at_once() {
    let account = Account::new();
    let here = account.sidecar();
    let first = here.granted(request("job")).await;
    let leaving = here.coordinator.acquire(patient("job", Duration::from_secs(600)));
    assert!(tokio::time::timeout(Duration::from_millis(1), leaving).await.is_err());
    let mut next = here.coordinator.hold(&patient("job", Duration::from_secs(600))).unwrap();
    let Some(HoldEvent::Waiting { place, .. }) = next.next().await else { panic!() };
    assert_eq!(place, 1);
    here.release(&first).await;
    let Some(HoldEvent::Granted(grant)) = next.next().await else { panic!() };
    assert_eq!(grant.token.value(), first.token.value() + 1);
}

/// S14: the client may not know that its stream ended, so nobody gets the lock while it may believe.
#[tokio::test(start_paused = true)]
async fn s14_a_holder_that_fell_silent_keeps_its_lock_until_its_validity_is_over() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let mut stream = here.coordinator.hold(&request("job")).unwrap();
    let Some(HoldEvent::Granted(grant)) = stream.next().await else { panic!() };
    let ends = crate::time::Clock::now(account.clock.as_ref()) + grant.validity.valid_for;
    stream.fall_silent();
    let local = here.granted(patient("job", Duration::from_secs(300)));
    let remote = there.coordinator.acquire(patient("job", Duration::from_secs(50)));
    let (next, other) = tokio::join!(local, remote);
    assert!(crate::time::Clock::now(account.clock.as_ref()) >= ends);
    assert!(matches!(other.unwrap(), super::Outcome::Busy(_)));
    assert!(next.token > grant.token);
}
