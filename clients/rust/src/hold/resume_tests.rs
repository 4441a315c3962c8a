use tonic::Status;

use super::tests::{held_here, loss, next};
use super::*;
use crate::fake::{Bench, OURS, grant, seconds, validity};
use crate::proto::Lost;
use crate::proto::hold_lease_request::Start;
use crate::proto::hold_lease_response::Event;

#[tokio::test]
async fn s16_a_hold_survives_a_restart_of_the_sidecar() {
    let mut bench = Bench::new().await;
    let (guard, _call, mut events) = held_here(&mut bench).await;
    bench.kill();
    let interrupted = next(&mut events).await;
    assert!(matches!(interrupted, HoldEvent::Interrupted { .. }), "{interrupted:?}");
    assert!(guard.is_valid(), "the validity runs on");
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
        Ok(Event::Lost(Lost { reason: proto::LossReason::Taken.into(), ..Lost::default() })),
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
async fn s14_a_try_to_resume_is_not_cut_short_while_the_hold_is_valid() {
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

#[tokio::test]
async fn s16_later_calls_carry_the_newest_generation_and_the_newest_token_resumes() {
    let mut bench = Bench::new().await;
    let (guard, call, mut events) = held_here(&mut bench).await;
    guard.extend(seconds(90)).await.unwrap();
    call.fail(Status::unavailable("gone")).await;
    let call = bench.sidecar.hold().await;
    let Start::Resume(first) = call.start.clone() else { panic!("the hold is resumed") };
    assert_eq!(first.resume_token, "resume-extended");
    assert!((1..=64).contains(&first.attempt_id.len()));
    // Its answer is lost, so the very same resume is repeated.
    call.fail(Status::unavailable("gone")).await;
    let call = bench.sidecar.hold().await;
    assert_eq!(call.start, Start::Resume(first.clone()));
    call.tell(resumed(2)).await;
    while !matches!(next(&mut events).await, HoldEvent::Resumed { .. }) {}
    let renewed = proto::Renewed {
        validity: Some(validity(OURS, 1_059, 59)),
        resume_token: "resume-renewed".to_owned(),
        ..proto::Renewed::default()
    };
    call.tell(Event::Renewed(renewed)).await;
    assert!(matches!(next(&mut events).await, HoldEvent::Renewed { .. }));
    call.fail(Status::unavailable("gone again")).await;
    let call = bench.sidecar.hold().await;
    let Start::Resume(second) = call.start.clone() else { panic!("the hold is resumed") };
    assert_eq!(second.resume_token, "resume-renewed");
    assert_ne!(second.attempt_id, first.attempt_id, "another break");
    call.tell(resumed(3)).await;
    while !matches!(next(&mut events).await, HoldEvent::Resumed { .. }) {}
    guard.release().await.unwrap();
    let asked = bench.sidecar.asked();
    assert_eq!(asked, ["extend lease-1 of generation 1", "release lease-1 of generation 3"]);
}

fn resumed(generation: u64) -> Event {
    let Event::Granted(grant) = grant(validity(OURS, 1_058, 58)) else {
        panic!("a grant is a grant")
    };
    let resume_token = format!("resume-{generation}");
    Event::Granted(proto::Grant { generation, resume_token, ..grant })
}

#[tokio::test]
async fn s16_a_release_waits_for_the_answer_to_a_resume_and_carries_its_generation() {
    let mut bench = Bench::new().await;
    let (guard, call, _events) = held_here(&mut bench).await;
    call.fail(Status::unavailable("gone")).await;
    let call = bench.sidecar.hold().await;
    let state = std::sync::Arc::clone(guard.state());
    let releasing = tokio::spawn(guard.release());
    crate::fake::eventually("the hold ends first", || state.is_over()).await;
    assert!(call.is_open() && bench.sidecar.asked().is_empty());
    // A try that fails is repeated also now.
    call.fail(Status::unavailable("gone")).await;
    bench.sidecar.hold().await.tell(resumed(2)).await;
    releasing.await.unwrap().unwrap();
    assert_eq!(bench.sidecar.asked(), ["release lease-1 of generation 2"]);
}

#[tokio::test]
async fn s16_nothing_is_released_while_a_resume_is_unanswered() {
    let mut bench = Bench::new().await;
    for dropped in [true, false] {
        let (guard, call, _events) = held_here(&mut bench).await;
        call.fail(Status::unavailable("gone")).await;
        let call = bench.sidecar.hold().await;
        let state = std::sync::Arc::clone(guard.state());
        if dropped {
            drop(guard);
        } else {
            let releasing = tokio::spawn(guard.release());
            crate::fake::eventually("the hold ends first", || state.is_over()).await;
            bench.clock.advance(seconds(58));
            let error = releasing.await.unwrap().unwrap_err();
            assert!(matches!(error, Error::ReleaseUnconfirmed { .. }), "{error}");
        }
        assert!(!state.is_valid(), "S13");
        call.ended().await;
        assert!(bench.sidecar.asked().is_empty(), "{:?}", bench.sidecar.asked());
    }
}
