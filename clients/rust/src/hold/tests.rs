use std::sync::Arc;

use tokio::sync::mpsc;

use super::*;
use crate::fake::{
    Bench, ELSEWHERE, HoldCall, OURS, PATIENCE, eventually, grant, seconds, validity,
};
use crate::messages::{LockKey, ReleaseOutcome};
use crate::proto::hold_lease_request::Start;
use crate::proto::hold_lease_response::Event;
use crate::proto::{AtRisk, Busy, Draining, Lost, Recovered, Released, Renewed, Validity, Waiting};

pub(super) type Events = mpsc::UnboundedReceiver<HoldEvent>;

/// A hold on a granting sidecar; the clock stands at 1,000 s.
pub(super) async fn held(bench: &mut Bench, granted: Validity) -> (Hold, HoldCall, Events) {
    let (sender, events) = mpsc::unbounded_channel();
    let holding = bench.client.hold(LeaseSpec::new(LockKey::new("f", "s"))).events(sender);
    let holding = tokio::spawn(holding.into_future());
    let call = bench.sidecar.hold().await;
    call.tell(grant(granted)).await;
    let outcome = holding.await.unwrap().unwrap();
    (outcome.granted().unwrap(), call, events)
}

pub(super) async fn held_here(bench: &mut Bench) -> (Hold, HoldCall, Events) {
    held(bench, validity(OURS, 1_058, 58)).await
}

pub(super) async fn next(events: &mut Events) -> HoldEvent {
    let event = tokio::time::timeout(PATIENCE, events.recv()).await;
    event.expect("an event comes").unwrap()
}

pub(super) async fn loss(guard: &Hold) -> Loss {
    let loss = tokio::time::timeout(PATIENCE, guard.lost()).await;
    loss.expect("the loss is told")
}

fn renewed(until: u64, valid_for: u64) -> Event {
    Event::Renewed(Renewed {
        validity: Some(validity(OURS, until, valid_for)),
        ..Renewed::default()
    })
}

#[tokio::test]
async fn a_guard_tells_its_grant() {
    let mut bench = Bench::new().await;
    let (guard, call, _events) = held_here(&mut bench).await;
    let Start::Spec(spec) = &call.start else {
        panic!("a new hold is asked for");
    };
    assert_eq!(spec.key.as_ref().unwrap().function, "f");
    assert_eq!(guard.fencing_token(), 65_536);
    assert_eq!(guard.lease_id(), "lease-1");
    assert_eq!(guard.lock_path(), "locks/p/h/f/s/FUNCTION");
    assert_eq!(guard.valid_until().since_boot(), seconds(1_058));
    assert_eq!(guard.remaining(), seconds(58));
    assert!(guard.is_valid());
    assert!(!format!("{guard:?}").contains("lease-1"), "S20");
}

#[tokio::test]
async fn busy_is_an_answer() {
    let mut bench = Bench::new().await;
    let holding = tokio::spawn(bench.client.hold(LeaseSpec::new("f")).into_future());
    let call = bench.sidecar.hold().await;
    call.tell(Event::Waiting(Waiting::default())).await;
    call.tell(Event::Busy(Busy::default())).await;
    assert!(matches!(holding.await.unwrap(), Ok(Outcome::Busy(_))));
}

#[tokio::test]
async fn a_caller_that_gives_up_leaves_the_queue() {
    let mut bench = Bench::new().await;
    let holding = tokio::spawn(bench.client.hold(LeaseSpec::new("f")).into_future());
    let call = bench.sidecar.hold().await;
    call.tell(Event::Waiting(Waiting::default())).await;
    holding.abort();
    call.ended().await;
}

#[tokio::test]
async fn events_come_in_their_order() {
    let mut bench = Bench::new().await;
    let (guard, call, mut events) = held_here(&mut bench).await;
    call.tell(renewed(1_059, 58)).await;
    let at_risk = AtRisk {
        validity: Some(validity(OURS, 1_059, 57)),
        cause: proto::ErrorReason::StoreUnavailable.into(),
        detail: "no route".to_owned(),
    };
    let recovered = Recovered { validity: Some(validity(OURS, 1_060, 57)) };
    let draining = Draining { time_left: Some(crate::messages::wire_duration(seconds(20))) };
    bench.clock.advance(seconds(3));
    call.tell(Event::AtRisk(at_risk)).await;
    call.tell(Event::Recovered(recovered)).await;
    call.tell(Event::Draining(draining)).await;
    let lost = Lost {
        reason: proto::LossReason::Shutdown.into(),
        detail: "drained".to_owned(),
        break_note: None,
    };
    call.tell(Event::Lost(lost)).await;
    let mut told = Vec::new();
    while !matches!(told.last(), Some(HoldEvent::Lost(_))) {
        told.push(next(&mut events).await);
    }
    assert!(
        matches!(
            told.as_slice(),
            [
                HoldEvent::Renewed { .. },
                HoldEvent::AtRisk { cause, .. },
                HoldEvent::Recovered { .. },
                HoldEvent::Draining { .. },
                HoldEvent::Lost(_)
            ] if *cause == Reason::StoreUnavailable
        ),
        "{told:?}"
    );
    assert_eq!(loss(&guard).await.to_string(), "SHUTDOWN: drained");
    assert!(!guard.is_valid());
}

#[tokio::test]
async fn s4_lost_at_valid_until_though_nobody_says_so() {
    let mut bench = Bench::new().await;
    let (guard, call, mut events) = held_here(&mut bench).await;
    bench.clock.advance(seconds(57));
    assert!(guard.is_valid());
    bench.clock.advance(seconds(1));
    assert!(!guard.is_valid());
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert_eq!(loss(&guard).await.reason, LossReason::Expired);
    assert!(matches!(next(&mut events).await, HoldEvent::Lost(_)));
    call.ended().await;
}

#[tokio::test]
async fn s4_a_renewal_that_waited_in_the_socket_revives_nothing() {
    let mut bench = Bench::new().await;
    let (guard, call, mut events) = held_here(&mut bench).await;
    // As after a pause of the process: the clock has passed the validity, and the renewal is read only now.
    bench.clock.advance(seconds(60));
    call.tell(renewed(1_100, 58)).await;
    assert!(matches!(next(&mut events).await, HoldEvent::Lost(_)));
    assert!(!guard.is_valid());
    bench.clock.advance(seconds(1));
    assert!(!guard.is_valid());
}

#[tokio::test]
async fn s21_a_renewal_moves_the_end_of_validity() {
    let mut bench = Bench::new().await;
    let (guard, call, mut events) = held_here(&mut bench).await;
    bench.clock.advance(seconds(20));
    call.tell(renewed(1_078, 58)).await;
    let HoldEvent::Renewed { valid_until } = next(&mut events).await else {
        panic!("a renewal is told");
    };
    assert_eq!(valid_until, guard.valid_until());
    assert_eq!(guard.remaining(), seconds(58));
}

#[tokio::test]
async fn s13_the_hold_ends_before_the_release_is_sent() {
    let mut bench = Bench::new().await;
    let (guard, call, _events) = held_here(&mut bench).await;
    let (seen, was_valid) = std::sync::mpsc::channel();
    let state = Arc::clone(guard.state());
    bench.sidecar.script.lock().unwrap().on_release =
        Some(Box::new(move || seen.send(state.is_valid()).unwrap()));
    let result = guard.release().await.unwrap();
    assert_eq!(result.outcome, ReleaseOutcome::Released);
    assert!(!was_valid.recv().unwrap());
    assert_eq!(bench.sidecar.asked(), ["release lease-1 of generation 1"]);
    call.ended().await;
}

#[tokio::test]
async fn s13_dropping_the_guard_ends_the_hold_and_then_the_stream() {
    let mut bench = Bench::new().await;
    let (guard, call, _events) = held_here(&mut bench).await;
    let state = Arc::clone(guard.state());
    assert!(call.is_open());
    let (seen, was_valid) = std::sync::mpsc::channel();
    let held = Arc::clone(&state);
    bench.sidecar.script.lock().unwrap().on_release =
        Some(Box::new(move || seen.send(held.is_valid()).unwrap()));
    drop(guard);
    assert!(!state.is_valid());
    call.ended().await;
    // S14: over a network the end of the stream says nothing, so a call has said it first.
    assert_eq!(bench.sidecar.asked(), ["release lease-1 of generation 1"]);
    assert!(!was_valid.recv().unwrap());
}

#[tokio::test]
async fn s13_a_runtime_that_ends_ends_the_hold() {
    let mut bench = Bench::new().await;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let builder = bench.another();
    let holding = runtime.spawn(async move {
        let client = builder.connect().await.unwrap();
        client.hold(LeaseSpec::new("f")).await
    });
    let call = bench.sidecar.hold().await;
    call.tell(grant(validity(OURS, 1_058, 58))).await;
    let guard = holding.await.unwrap().unwrap().granted().unwrap();
    assert!(guard.is_valid());
    runtime.shutdown_background();
    eventually("the hold ends", || !guard.is_valid()).await;
}

#[tokio::test]
async fn releasing_what_is_lost_says_so_and_asks_nobody() {
    let mut bench = Bench::new().await;
    let (guard, _call, _events) = held_here(&mut bench).await;
    bench.clock.advance(seconds(58));
    let error = guard.release().await.unwrap_err();
    assert!(matches!(&error, Error::Lost(loss) if loss.reason == LossReason::Expired), "{error}");
    assert!(bench.sidecar.asked().is_empty());
}

#[tokio::test]
async fn s13_a_release_that_finds_the_lock_lost_says_so() {
    let mut bench = Bench::new().await;
    let (guard, _call, _events) = held_here(&mut bench).await;
    bench.sidecar.script.lock().unwrap().release = Some(proto::ReleaseResult {
        outcome: proto::ReleaseOutcome::AlreadyLost.into(),
        loss_reason: proto::LossReason::Taken.into(),
        ..proto::ReleaseResult::default()
    });
    let error = guard.release().await.unwrap_err();
    assert!(matches!(&error, Error::Lost(loss) if loss.reason == LossReason::Taken), "{error}");
}

#[tokio::test]
async fn a_release_by_another_is_a_loss() {
    let mut bench = Bench::new().await;
    let (guard, call, _events) = held_here(&mut bench).await;
    call.tell(Event::Released(Released::default())).await;
    assert_eq!(loss(&guard).await.reason, LossReason::Unspecified);
}

#[tokio::test]
async fn s21_elsewhere_the_sidecar_is_asked_once_about_each_renewal() {
    let mut bench = Bench::new().await;
    let (guard, call, _events) = held(&mut bench, validity(ELSEWHERE, 70, 58)).await;
    // The last is the one with which a sidecar hands over (S15).
    for (count, passed) in [(1, 20), (2, 20), (3, 20), (4, 7)] {
        bench.clock.advance(seconds(passed));
        let told = validity(ELSEWHERE, 90, 58);
        bench.sidecar.script.lock().unwrap().report = Some(Ok(told.clone()));
        assert_eq!(guard.remaining(), seconds(58 - passed));
        let renewed =
            Renewed { resume_token: String::new(), validity: Some(told), max_hold_ends: None };
        call.tell(Event::Renewed(renewed)).await;
        eventually("the answer counts", || guard.remaining() == seconds(58)).await;
        assert_eq!(bench.sidecar.asked().len(), count, "{:?}", bench.sidecar.asked());
    }
}

#[tokio::test]
async fn s21_elsewhere_the_sidecar_is_asked_and_its_words_unasked_for_extend_nothing() {
    let mut bench = Bench::new().await;
    let (guard, call, mut events) = held(&mut bench, validity(ELSEWHERE, 70, 58)).await;
    let renewed = Renewed { validity: Some(validity(ELSEWHERE, 90, 58)), ..Renewed::default() };
    call.tell(Event::Renewed(renewed)).await;
    assert!(matches!(next(&mut events).await, HoldEvent::Renewed { .. }));
    assert_eq!(guard.remaining(), seconds(58));
    bench.sidecar.script.lock().unwrap().report = Some(Ok(validity(ELSEWHERE, 95, 50)));
    bench.clock.advance(seconds(30));
    eventually("the answer counts from the question", || guard.remaining() == seconds(50)).await;
    let asked = bench.sidecar.asked();
    assert!(asked.iter().all(|call| call == "get hold of generation 1"), "{asked:?}");
}

#[tokio::test]
async fn s21_elsewhere_a_grant_after_a_long_wait_is_asked_about_first() {
    let mut bench = Bench::new().await;
    bench.sidecar.script.lock().unwrap().report = Some(Ok(validity(ELSEWHERE, 95, 57)));
    let holding = tokio::spawn(bench.client.hold(LeaseSpec::new("f")).into_future());
    let call = bench.sidecar.hold().await;
    bench.clock.advance(seconds(500));
    call.tell(grant(validity(ELSEWHERE, 70, 58))).await;
    let guard = holding.await.unwrap().unwrap().granted().unwrap();
    assert_eq!(guard.remaining(), seconds(57));
}

#[tokio::test]
async fn s2_a_grant_that_is_read_too_late_is_no_grant() {
    let mut bench = Bench::new().await;
    let holding = tokio::spawn(bench.client.hold(LeaseSpec::new("f")).into_future());
    let call = bench.sidecar.hold().await;
    bench.clock.advance(seconds(500));
    call.tell(grant(validity(OURS, 1_100, 58))).await;
    let error = holding.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Lost(_)), "{error}");
    call.ended().await;
}

#[tokio::test]
async fn s11_progress_is_reported_and_its_answer_counts() {
    let mut bench = Bench::new().await;
    let (guard, _call, _events) = held_here(&mut bench).await;
    bench.sidecar.script.lock().unwrap().report = Some(Ok(validity(OURS, 1_060, 60)));
    guard.report_progress().await.unwrap();
    assert_eq!(guard.remaining(), seconds(60));
    assert_eq!(bench.sidecar.asked(), ["report of generation 1"]);
    guard.extend(seconds(90)).await.unwrap();
    assert_eq!(guard.remaining(), seconds(90));
}

#[tokio::test]
async fn an_answer_that_tells_of_the_loss_ends_the_hold() {
    use tonic::Status;
    use tonic_types::{ErrorDetails, StatusExt as _};
    let mut bench = Bench::new().await;
    let (guard, _call, _events) = held_here(&mut bench).await;
    let mut details = ErrorDetails::new();
    let metadata = [("loss_reason".to_owned(), "NO_PROGRESS".to_owned())];
    details.set_error_info("HOLD_LOST", "leasehold.dev", metadata);
    let status = Status::with_error_details(tonic::Code::FailedPrecondition, "hung", details);
    bench.sidecar.script.lock().unwrap().report = Some(Err(status));
    let error = guard.report_progress().await.unwrap_err();
    assert_eq!(error.reason(), Some(&Reason::HoldLost));
    assert!(!guard.is_valid());
    assert_eq!(loss(&guard).await.reason, LossReason::NoProgress);
}

#[tokio::test]
async fn an_answer_that_tells_of_a_release_ends_the_belief() {
    use tonic::Status;
    use tonic_types::{ErrorDetails, StatusExt as _};
    let mut bench = Bench::new().await;
    let (guard, _call, _events) = held_here(&mut bench).await;
    let mut details = ErrorDetails::new();
    details.set_error_info("HOLD_RELEASED", "leasehold.dev", std::collections::HashMap::new());
    let status = Status::with_error_details(tonic::Code::FailedPrecondition, "released", details);
    bench.sidecar.script.lock().unwrap().report = Some(Err(status));
    let error = guard.report_progress().await.unwrap_err();
    assert_eq!(error.reason(), Some(&Reason::HoldReleased));
    assert!(!guard.is_valid());
    assert_eq!(loss(&guard).await.reason, LossReason::Unspecified);
}
