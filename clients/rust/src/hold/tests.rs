//! What a hold is in Rust: dropped, scoped, given up, watched. What all clients do is in `vector_tests.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;
use tonic::Status;

use super::vector_tests::text_of;
use super::*;
use crate::fake::{Bench, granted, seconds, soon};

/// The answer to a release that finds the lock to be another's.
pub(super) fn taken() -> Value {
    json!({"outcome": "ALREADY_LOST", "loss": "TAKEN"})
}

fn reason(error: &Error) -> Option<LossReason> {
    if let Error::Lost(loss) = error { Some(loss.reason) } else { None }
}

#[tokio::test(start_paused = true)]
async fn a_hold_tells_its_grant() {
    let mut bench = Bench::new();
    let (hold, _stream, _events) = bench.granted(json!({"permit": 2})).await;
    let wire: proto::HoldLeaseRequest = bench.sidecar.last("hold_lease");
    let Some(proto::hold_lease_request::Start::Spec(spec)) = wire.start else { panic!() };
    assert_eq!(spec.key.unwrap().function, "f");
    assert_eq!((hold.fencing_token(), hold.permit()), (65_536, 2));
    assert_eq!((hold.lease_id(), hold.lock_path()), ("lease-1", "locks/p/h/f/s/FUNCTION"));
    assert_eq!((hold.grant().permit, hold.grant().lease_id.as_str()), (2, "lease-1"));
    assert_eq!((hold.valid_until().since_boot(), hold.remaining()), (seconds(1_058), seconds(58)));
    assert!(hold.is_valid() && hold.loss().is_none() && hold.max_hold_ends().is_none());
    assert!(!format!("{hold:?}").contains("lease-1"), "S20");
    bench.clock.sleep(seconds(58));
    assert_eq!((hold.is_valid(), hold.remaining()), (false, Duration::ZERO), "S4");
    assert_eq!(soon(hold.lost()).await.reason, LossReason::Expired);
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_asked_about_at_its_sidecar() {
    let mut bench = Bench::new();
    let (hold, _stream, _events) = bench.held().await;
    let answer = json!({
        "until": 60_000, "for": 60_000, "max_hold": {"at": 60_000, "after": 60_000},
        "state": "AT_RISK", "permit": 2,
    });
    bench.sidecar.answer("get_hold", &answer);
    let held = hold.info().await.unwrap();
    assert_eq!((held.state, held.permit), (crate::HoldState::AtRisk, 2));
    assert_eq!(hold.remaining(), seconds(60), "S21: it answers a request of our own");
    assert_eq!(hold.max_hold_ends().map(BootInstant::since_boot), Some(seconds(1_060)));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_leaves_the_queue() {
    let mut bench = Bench::new();
    let holding = tokio::spawn(bench.client.hold(LeaseSpec::new("f")).into_future());
    let stream = bench.opened().await;
    stream.tell(&json!({"waiting": {}}));
    holding.abort();
    stream.ended().await;
}

#[tokio::test(start_paused = true)]
async fn s13_a_hold_that_is_dropped_is_over_then_released_and_then_its_stream_ends() {
    let bench = &mut Bench::of(Client::builder("a test"));
    for (answer, expected) in [
        (Some(json!({"outcome": "RELEASED"})), "released RELEASED"),
        (Some(taken()), "lost TAKEN"),
        (None, "not released: the sidecar has not answered in time"),
    ] {
        let (hold, stream, mut events) = bench.held().await;
        let state = Arc::clone(hold.state());
        drop(hold);
        assert!(!state.is_valid());
        tokio::task::yield_now().await;
        assert!(stream.is_open(), "S14");
        if let Some(answer) = answer {
            bench.sidecar.answer("release_lease", &answer);
        }
        assert_eq!(text_of(soon(events.recv()).await.unwrap()), expected);
        stream.ended().await;
        assert_eq!(bench.asked(), ["hold", "release 1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn s13_a_lost_hold_that_is_dropped_says_that_its_holder_knows() {
    let mut bench = Bench::new();
    let (hold, stream, mut events) = bench.held().await;
    stream.tell(&json!({"lost": {}}));
    assert!(matches!(soon(events.recv()).await, Some(HoldEvent::Lost(_))));
    stream.ended().await;
    assert_eq!(bench.asked(), ["hold"], "its holder may still run");
    drop(hold);
    tokio::time::sleep(seconds(1)).await;
    assert_eq!(bench.asked(), ["release 1"]);
}

#[tokio::test(start_paused = true)]
async fn s16_a_hold_that_is_dropped_while_it_is_resumed_is_not_released() {
    let mut bench = Bench::new();
    let (hold, stream, mut events) = bench.held().await;
    stream.fail(Status::unavailable("gone"));
    assert!(matches!(soon(events.recv()).await, Some(HoldEvent::Interrupted { .. })));
    let stream = bench.opened().await;
    drop(hold);
    let told = soon(events.recv()).await;
    assert!(matches!(told, Some(HoldEvent::ReleaseUnconfirmed { .. })), "{told:?}");
    stream.ended().await;
    assert_eq!(bench.asked(), ["hold", "resume resume-1 told 58000 attempt 1"]);
}

#[test]
fn s13_a_runtime_that_ends_ends_the_hold() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (hold, _stream, _events) = runtime.block_on(async { Bench::new().held().await });
    assert!(hold.is_valid());
    drop(runtime);
    assert!(!hold.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_scope_gives_what_its_body_gave_and_has_released_by_then() {
    let mut bench = Bench::new();
    let (hold, stream, _events) = bench.held().await;
    let token = hold.run(async |hold| hold.fencing_token()).await.unwrap();
    assert_eq!((token, bench.asked()), (65_536, vec!["hold".to_owned(), "release 1".to_owned()]));
    stream.ended().await;
    let (hold, _stream, _events) = bench.held().await;
    bench.sidecar.answer("release_lease", &taken());
    let error = hold.run(async |_hold| {}).await.unwrap_err();
    assert_eq!(reason(&error), Some(LossReason::Taken), "S13: {error}");
}

#[tokio::test(start_paused = true)]
async fn s4_a_scope_ends_its_body_when_the_lock_is_lost() {
    struct Ended<'a>(&'a AtomicBool);
    impl Drop for Ended<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let mut bench = Bench::new();
    let (hold, _stream, _events) = bench.held().await;
    let ended = AtomicBool::new(false);
    let body = |_hold| async {
        let _ended = Ended(&ended);
        std::future::pending::<()>().await;
    };
    let error = soon(hold.run(body)).await.unwrap_err();
    assert_eq!(reason(&error), Some(LossReason::Expired), "{error}");
    assert!(ended.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn s22_a_notice_is_awaited_and_says_who_takes_over() {
    for for_priority in [None, Some(413)] {
        let mut bench = Bench::new();
        let (hold, stream, _events) = bench.held().await;
        assert_eq!(hold.notice(), None);
        let mut note = json!({"reason": "a new version", "broken_by": "ann"});
        if let Some(priority) = for_priority {
            note["for_priority"] = priority.into();
        }
        stream.tell(&json!({"revoked": {"by": note}}));
        let notice = soon(hold.revoked()).await;
        assert_eq!((notice.deadline, notice.for_priority()), (hold.valid_until(), for_priority));
        assert_eq!(notice.to_string(), "the lock was broken: a new version (by ann)");
        assert!(hold.is_valid() && hold.notice() == Some(notice));
        let loss = soon(hold.lost()).await;
        assert_eq!(loss.reason, LossReason::Broken);
        assert_eq!(loss.break_note.map(|note| note.reason).as_deref(), Some("a new version"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_without_end_goes_on_once_the_sidecar_was_heard_of() {
    let mut bench = Bench::new();
    let (sender, _events) = unbounded_channel();
    let hold = || bench.client.hold(LeaseSpec::new("f")).events(sender.clone()).until_granted();
    let (unheard, holding) = (hold(), tokio::spawn(hold()));
    let stream = bench.opened().await;
    stream.tell(&json!({"waiting": {}}));
    stream.fail(Status::unavailable("shutting down"));
    let stream = bench.opened().await;
    // As it is where the sidecar restarts when the wait is over.
    stream.tell(&json!({"busy": {}}));
    bench.opened().await.tell(&granted(Value::Null));
    assert!(holding.await.unwrap().unwrap().is_valid());
    let unheard = tokio::spawn(unheard);
    bench.opened().await.fail(Status::unavailable("no store"));
    let error = soon(unheard).await.unwrap().unwrap_err();
    assert!(error.is_transient(), "{error}");
}
