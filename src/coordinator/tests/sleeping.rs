//! Machines that sleep, and clocks that step, between two renewals (S3, S4).

use super::rig::{Account, LEASE, SECOND, counts, next_but_renewals, pass, request};
use crate::coordinator::{HeldEvent, HoldEvent, LossReason};
use crate::store::Operation;
use crate::time::Clock as _;

/// What a pause of the machine is found by is a look at the clock each second, whoever is due when.
const FOUND: std::time::Duration = SECOND;

#[tokio::test(start_paused = true)]
async fn s3_s4_holds_are_lost_within_a_second_after_the_machine_has_slept_too_long() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut streams = Vec::new();
    for function in ["one", "two", "three"] {
        streams.push(sidecar.hold(&request(function)).await.0);
    }
    pass(SECOND).await;
    // The machine sleeps: the boot clock goes on, and timers do not.
    account.clock.advance(LEASE);
    pass(FOUND).await;
    assert_eq!(sidecar.coordinator.gauges().holds, 0);
    for stream in &mut streams {
        let lost = next_but_renewals(stream).await;
        let HoldEvent::Held(HeldEvent::Lost { reason: LossReason::Expired, detail, .. }) = &lost
        else {
            panic!("{lost:?}")
        };
        // S9: the store is well, and the sidecar was not there.
        assert!(detail.starts_with("renewals were sent late"), "{detail}");
    }
}

#[tokio::test(start_paused = true)]
async fn s3_a_step_of_the_wall_clock_has_every_hold_renewed_at_once() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut streams = Vec::new();
    for function in ["one", "two", "three"] {
        streams.push(sidecar.hold(&request(function)).await.0);
    }
    pass(3 * SECOND).await;
    sidecar.counts();
    account.clock.set_wall(account.clock.wall() + 30 * SECOND);
    pass(FOUND + LEASE / 30 + SECOND / 10).await;
    assert_eq!(sidecar.counts(), counts([(Operation::Renew, 3)]));
}
