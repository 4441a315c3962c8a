//! Processes that are stopped and continued.

use leasehold_client::proto::{LossReason, hold_lease_response::Event};

use crate::faults::process::{Sidecar, event, patient};

#[tokio::test]
async fn s4_a_sidecar_that_was_stopped_past_its_lease_says_lost_before_anything_else() {
    let first = Sidecar::on_azurite("Paused", &[]).await;
    let second = Sidecar::on_azurite("Paused", &[]).await;
    let (grant, mut stream) = first.hold(patient("nightly")).await;
    first.stop().await;
    let next = second.granted(patient("nightly")).await;
    assert!(next.fencing_token > grant.fencing_token, "S5");
    first.go_on();
    let Event::Lost(lost) = event(&mut stream).await else { panic!("something before lost") };
    assert_eq!(lost.reason(), LossReason::Expired);
    let third = first.acquire(crate::faults::process::spec("nightly")).await;
    assert!(third.granted().is_none(), "the second one still has it");
}
