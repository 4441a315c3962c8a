use tonic::Status;

use super::tests::{held_here, loss, next};
use super::*;
use crate::fake::{Bench, OURS, grant, seconds, validity};
use crate::proto::hold_lease_request::Start;
use crate::proto::hold_lease_response::Event;

#[tokio::test]
async fn s16_a_hold_survives_a_restart_of_the_sidecar() {
    let mut bench = Bench::new().await;
    let (guard, _call, mut events) = held_here(&mut bench).await;
    bench.kill();
    let interrupted = next(&mut events).await;
    assert!(matches!(interrupted, HoldEvent::Interrupted { .. }), "{interrupted:?}");
    assert!(guard.is_valid(), "the belief runs on");
    bench.start();
    let call = bench.sidecar.hold().await;
    let Start::Resume(resume) = &call.start else {
        panic!("the hold is resumed");
    };
    assert_eq!(resume.resume_token, "resume-1");
    assert_eq!(resume.told_valid_until, validity(OURS, 1_058, 58).valid_until);
    bench.clock.advance(seconds(10));
    call.tell(grant(validity(OURS, 1_068, 58))).await;
    let resumed = next(&mut events).await;
    assert!(matches!(resumed, HoldEvent::Resumed { .. }), "{resumed:?}");
    assert_eq!(guard.remaining(), seconds(58));
    drop(guard);
    call.ended().await;
}

#[tokio::test]
async fn s16_what_cannot_go_on_is_lost() {
    let mut bench = Bench::new().await;
    for answer in [
        Ok(Event::Lost(Lost { reason: LossReason::Taken.into(), ..Lost::default() })),
        Err(Status::invalid_argument("resume_token is not one of ours")),
    ] {
        let (guard, call, mut events) = held_here(&mut bench).await;
        call.fail(Status::unavailable("gone")).await;
        assert!(matches!(next(&mut events).await, HoldEvent::Interrupted { .. }));
        let call = bench.sidecar.hold().await;
        match answer {
            Ok(event) => call.tell(event).await,
            Err(status) => call.fail(status).await,
        }
        let _loss = loss(&guard).await;
        assert!(!guard.is_valid());
    }
}

#[tokio::test]
async fn s16_another_token_is_another_hold() {
    let mut bench = Bench::new().await;
    let (guard, call, _events) = held_here(&mut bench).await;
    call.fail(Status::unavailable("gone")).await;
    let call = bench.sidecar.hold().await;
    let Event::Granted(mut other) = grant(validity(OURS, 1_058, 58)) else {
        unreachable!("it is a grant");
    };
    other.fencing_token += 1;
    call.tell(Event::Granted(other)).await;
    assert_eq!(loss(&guard).await.reason, LossReason::Taken);
    call.ended().await;
}

#[tokio::test]
async fn s16_a_sidecar_that_stays_away_costs_the_hold_at_the_end_of_validity() {
    let mut bench = Bench::new().await;
    let (guard, _call, mut events) = held_here(&mut bench).await;
    bench.kill();
    assert!(matches!(next(&mut events).await, HoldEvent::Interrupted { .. }));
    bench.clock.advance(seconds(57));
    assert!(guard.is_valid());
    bench.clock.advance(seconds(1));
    assert_eq!(loss(&guard).await.reason, LossReason::Expired);
}

#[tokio::test]
async fn s14_a_try_to_resume_is_not_cut_short_while_the_hold_is_believed_in() {
    let mut bench = Bench::new().await;
    let (guard, call, _events) = held_here(&mut bench).await;
    call.fail(Status::unavailable("gone")).await;
    let call = bench.sidecar.hold().await;
    bench.clock.advance(seconds(57));
    assert!(guard.is_valid() && call.is_open());
    bench.clock.advance(seconds(1));
    assert!(!guard.is_valid());
    call.ended().await;
}
