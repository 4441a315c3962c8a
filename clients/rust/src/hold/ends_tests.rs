//! How a hold and a wait end: by a scope, by a release without an answer, by silence.

use std::sync::atomic::{AtomicBool, Ordering};

use tonic::Status;

use super::tests::{held_here, next};
use super::*;
use crate::fake::{Bench, OURS, grant, seconds, validity};
use crate::proto::hold_lease_response::Event;

const MOMENT: Duration = Duration::from_millis(50);

fn taken() -> proto::ReleaseResult {
    proto::ReleaseResult {
        outcome: proto::ReleaseOutcome::AlreadyLost.into(),
        loss_reason: proto::LossReason::Taken.into(),
        ..proto::ReleaseResult::default()
    }
}

#[tokio::test]
async fn a_scope_gives_what_its_body_gave_and_has_released_by_then() {
    let mut bench = Bench::new().await;
    let (guard, call, _events) = held_here(&mut bench).await;
    let token = guard.run(|hold| async move { hold.fencing_token() }).await.unwrap();
    assert_eq!(token, 65_536);
    assert_eq!(bench.sidecar.asked(), ["release lease-1 of generation 1"]);
    call.ended().await;
}

#[tokio::test]
async fn s13_a_scope_tells_that_its_release_found_the_lock_lost() {
    let mut bench = Bench::new().await;
    let (guard, _call, _events) = held_here(&mut bench).await;
    bench.sidecar.script.lock().unwrap().release = Some(taken());
    let error = guard.run(|_hold| async {}).await.unwrap_err();
    assert!(matches!(&error, Error::Lost(loss) if loss.reason == LossReason::Taken), "{error}");
}

#[tokio::test]
async fn s13_a_release_that_was_not_confirmed_is_handed_on_and_is_no_loss() {
    let mut bench = Bench::new().await;
    let (guard, _call, _events) = held_here(&mut bench).await;
    let outcome = proto::ReleaseOutcome::NotConfirmed.into();
    let told = proto::ReleaseResult { outcome, ..proto::ReleaseResult::default() };
    bench.sidecar.script.lock().unwrap().release = Some(told);
    let released = guard.release().await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::NotConfirmed);
}

#[tokio::test]
async fn s4_a_scope_ends_its_body_when_the_lock_is_lost() {
    struct Ended<'a>(&'a AtomicBool);
    impl Drop for Ended<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let mut bench = Bench::new().await;
    let (guard, _call, _events) = held_here(&mut bench).await;
    let ended = AtomicBool::new(false);
    bench.clock.advance(seconds(58));
    let body = |_hold| async {
        let _ended = Ended(&ended);
        std::future::pending::<()>().await;
    };
    let error = guard.run(body).await.unwrap_err();
    assert!(matches!(&error, Error::Lost(loss) if loss.reason == LossReason::Expired), "{error}");
    assert!(ended.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_release_that_nobody_answers_is_unconfirmed_when_its_timeout_is_over() {
    let mut bench = Bench::with(|builder| builder.release_timeout(MOMENT)).await;
    bench.sidecar.script.lock().unwrap().hang_release = true;
    let (guard, _call, _events) = held_here(&mut bench).await;
    let error = guard.release().await.unwrap_err();
    assert!(matches!(error, Error::ReleaseUnconfirmed { .. }), "{error}");
    let (guard, _call, mut events) = held_here(&mut bench).await;
    drop(guard);
    let told = next(&mut events).await;
    assert!(matches!(told, HoldEvent::ReleaseUnconfirmed { .. }), "{told:?}");
}

#[tokio::test]
async fn s13_the_outcome_of_a_dropped_guard_is_an_event() {
    let mut bench = Bench::new().await;
    let (guard, _call, mut events) = held_here(&mut bench).await;
    drop(guard);
    let told = next(&mut events).await;
    assert!(matches!(told, HoldEvent::Released(ReleaseOutcome::Released)), "{told:?}");
    bench.sidecar.script.lock().unwrap().release = Some(taken());
    let (guard, _call, mut events) = held_here(&mut bench).await;
    drop(guard);
    let told = next(&mut events).await;
    assert!(matches!(&told, HoldEvent::Lost(loss) if loss.reason == LossReason::Taken), "{told:?}");
}

#[tokio::test]
async fn s13_a_holder_that_was_told_lost_says_that_it_knows_once_it_has_let_go() {
    let mut bench = Bench::new().await;
    let (guard, call, mut events) = held_here(&mut bench).await;
    let reason = proto::LossReason::Broken.into();
    call.tell(Event::Lost(proto::Lost { reason, ..proto::Lost::default() })).await;
    assert!(matches!(next(&mut events).await, HoldEvent::Lost(_)));
    tokio::time::sleep(MOMENT).await;
    assert!(bench.sidecar.asked().is_empty(), "it may still run");
    drop(guard);
    while bench.sidecar.asked() != ["release lease-1 of generation 1"] {
        tokio::time::sleep(MOMENT).await;
    }
}

#[tokio::test]
async fn a_wait_on_which_nothing_is_heard_is_asked_for_again() {
    let mut bench = Bench::with(|builder| builder.silence(MOMENT)).await;
    let spec = LeaseSpec::new("f").with_wait(seconds(60));
    let holding = tokio::spawn(bench.client.hold(spec).into_future());
    let silent = bench.sidecar.hold().await;
    silent.tell(Event::Waiting(proto::Waiting::default())).await;
    let call = bench.sidecar.hold().await;
    silent.ended().await;
    call.tell(grant(validity(OURS, 1_058, 58))).await;
    assert!(holding.await.unwrap().unwrap().granted().is_some());
}

#[tokio::test]
async fn a_wait_survives_a_restart_of_the_sidecar_and_what_never_waited_does_not() {
    let mut bench = Bench::new().await;
    let spec = || LeaseSpec::new("f").with_wait(seconds(60));
    let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
    let hold = || bench.client.hold(spec()).events(sender.clone());
    let (holding, endless) = (hold().into_future(), hold().until_granted());
    let (holding, endless) = (tokio::spawn(holding), tokio::spawn(endless));
    let waiting = [bench.sidecar.hold().await, bench.sidecar.hold().await];
    for call in waiting {
        call.tell(Event::Waiting(proto::Waiting::default())).await;
        let told = next(&mut events).await;
        assert!(matches!(told, HoldEvent::Waiting(_)), "{told:?}");
        call.fail(Status::unavailable("shutting down")).await;
    }
    bench.kill();
    bench.start();
    let mut calls = Vec::new();
    for _ in 0..2 {
        let call = bench.sidecar.hold().await;
        call.tell(grant(validity(OURS, 1_058, 58))).await;
        calls.push(call);
    }
    assert!(holding.await.unwrap().unwrap().granted().is_some());
    drop(endless.await.unwrap().unwrap());
    let holding = tokio::spawn(bench.client.hold(spec()).into_future());
    bench.sidecar.hold().await.fail(Status::unavailable("no store")).await;
    let error = holding.await.unwrap().unwrap_err();
    assert!(error.is_transient(), "{error}");
}

#[tokio::test]
async fn more_streams_than_a_connection_carries_get_another_one() {
    let mut bench = Bench::new().await;
    let mut held = Vec::new();
    for _ in 0..=100 {
        let holding = tokio::spawn(bench.client.hold(LeaseSpec::new("f")).into_future());
        let call = bench.sidecar.hold().await;
        call.tell(grant(validity(OURS, 1_058, 58))).await;
        held.push((holding.await.unwrap().unwrap().granted().unwrap(), call));
    }
    assert_eq!(bench.client.connections(), 2);
    held.clear();
    crate::fake::eventually("the second is closed", || bench.client.connections() == 1).await;
}

#[tokio::test]
async fn s22_a_broken_lock_gives_notice_first_and_is_lost_at_the_deadline() {
    let mut bench = Bench::new().await;
    let (guard, call, mut events) = held_here(&mut bench).await;
    assert_eq!(guard.notice(), None);
    let note = proto::BreakNote {
        reason: "a new version".to_owned(),
        broken_by: "ann".to_owned(),
        ..proto::BreakNote::default()
    };
    let revoked = proto::Revoked { validity: None, break_note: Some(note) };
    call.tell(Event::Revoked(revoked)).await;
    let notice = guard.revoked().await;
    assert!(matches!(next(&mut events).await, HoldEvent::Revoked(told) if told == notice));
    assert_eq!(notice.deadline, guard.valid_until());
    assert_eq!(notice.to_string(), "the lock was broken: a new version (by ann)");
    assert!(guard.is_valid(), "it holds the lock until then");
    bench.clock.advance(seconds(58));
    let loss = guard.lost().await;
    assert_eq!(loss.reason, LossReason::Broken);
    assert_eq!(loss.break_note.map(|note| note.reason).as_deref(), Some("a new version"));
    call.ended().await;
}
