//! What is told to whoever follows holds, in its order.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use super::rig::{Account, LEASE, MINUTE, SECOND, granted, pass, request, settle, waiting};
use crate::coordinator::{
    AcquireResult, Asked, Grant, HoldEnd, HoldTrace, LockEvent, LockEventKind, LossReason,
    NotConfirmed, Observer, ResumeRequest, TraceContext, TraceHandle, TraceId, TraceLink,
    TracedRequest,
};
use crate::time::Instant;

/// Follows every hold, and notes what it is told: by whom, and what.
#[derive(Clone, Debug, Default)]
struct Follower {
    told: Arc<Mutex<Vec<(u8, String)>>>,
    next: Arc<AtomicU8>,
}

#[derive(Debug)]
struct WatchedPrefix {
    told: Arc<Mutex<Vec<(u8, String)>>>,
    number: u8,
}

impl Observer for Follower {
    fn observe(&self, _event: &LockEvent<'_>) {}

    fn follow(&self, asked: &Asked<'_>) -> Option<TraceHandle> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let followed = WatchedPrefix { told: Arc::clone(&self.told), number };
        let context = asked.context.map(|context| context.parent.as_str()).unwrap_or_default();
        let resumes = if asked.resumes { "resumes " } else { "" };
        followed.note(format!("{resumes}{}{context}", asked.holder));
        Some(TraceHandle::new(followed))
    }
}

impl Follower {
    /// What was told of the hold of this number.
    fn of(&self, number: u8) -> Vec<String> {
        let told = self.told.lock().unwrap();
        let of = told.iter().filter(|(of, _)| *of == number);
        of.map(|(_, what)| what.clone()).collect()
    }
}

impl WatchedPrefix {
    fn note(&self, what: String) {
        self.told.lock().unwrap().push((self.number, what));
    }
}

impl HoldTrace for WatchedPrefix {
    fn id(&self) -> TraceId {
        TraceId { trace: [0; 16], span: [self.number; 8] }
    }

    fn observe(&self, event: &LockEvent<'_>, _at: Instant) {
        self.note(match event.kind {
            LockEventKind::Granted(facts) => format!("granted, generation {}", facts.generation),
            LockEventKind::Ended(facts) => ended(facts.end),
            LockEventKind::NotGranted { result, .. } => format!("NotGranted({result:?})"),
            LockEventKind::AtRisk { cause, .. } => format!("AtRisk({cause:?})"),
            other => format!("{other:?}"),
        });
    }

    fn linked(&self, other: TraceId, how: TraceLink, _at: Instant) {
        let [other, ..] = other.span;
        self.note(format!("{how:?} {other}"));
    }

    fn requested(&self, request: &TracedRequest) {
        self.note(request.operation.as_str().to_owned());
    }
}

fn ended(end: HoldEnd) -> String {
    format!("Ended({end:?})")
}

fn resume(grant: &Grant) -> ResumeRequest {
    ResumeRequest {
        attempt_id: String::new(),
        resume_token: grant.resume_token.clone(),
        told_valid_until: Some(grant.validity.valid_until.clone()),
        trace_context: None,
    }
}

#[tokio::test(start_paused = true)]
async fn s10_a_hand_off_links_both_holds_before_the_first_is_over() {
    let follower = Follower::default();
    let sidecar = Account::new().sidecar_with(Arc::new(follower.clone()), 1, |_| {});
    let first = sidecar.acquire(request("nightly")).await;
    let mut waits = waiting("nightly", MINUTE);
    waits.trace_context =
        Some(Box::new(TraceContext { parent: ", in a trace".to_owned(), state: String::new() }));
    let mut second = sidecar.coordinator.hold(&waits).unwrap();
    settle().await;
    sidecar.release(&first).await;
    granted(&mut second).await;
    drop(second);
    settle().await;
    let released = ended(HoldEnd::Released);
    let of_first = ["the-pod", "granted, generation 1", "HandedOnTo 1", &released];
    assert_eq!(follower.of(0), of_first);
    let of_second = ["the-pod, in a trace", "HandedOnFrom 0", "granted, generation 1", &released];
    assert_eq!(follower.of(1), of_second);
}

#[tokio::test(start_paused = true)]
async fn s16_a_hold_that_goes_on_by_another_stream_is_linked_with_the_first() {
    for noticed in [true, false] {
        let follower = Follower::default();
        let sidecar = Account::new().sidecar_with(Arc::new(follower.clone()), 1, |_| {});
        let (stream, grant) = sidecar.hold(&request("nightly")).await;
        let mut stream = Some(stream);
        if noticed && let Some(stream) = stream.take() {
            stream.disconnected();
            settle().await;
        }
        let mut resumed = sidecar.coordinator.resume(&resume(&grant)).unwrap();
        granted(&mut resumed).await;
        drop((stream, resumed));
        // Somebody may have resumed it elsewhere meanwhile: its lease is left to run out.
        pass(2 * LEASE).await;
        let of_first = ["the-pod", "granted, generation 1", "ResumedBy 1"];
        assert_eq!(follower.of(0), of_first, "noticed: {noticed}");
        let of_second = [
            "resumes the-pod",
            "ResumedFrom 0",
            "granted, generation 2",
            &ended(HoldEnd::NotConfirmed(NotConfirmed::LeftToExpire)),
        ];
        assert_eq!(follower.of(1), of_second, "noticed: {noticed}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_ends_without_a_grant_and_what_is_lost_is_told_with_why() {
    let follower = Follower::default();
    let account = Account::new();
    let sidecar = account.sidecar_with(Arc::new(follower.clone()), 1, |_| {});
    let (_stream, _) = sidecar.hold(&request("nightly")).await;
    sidecar.busy(request("nightly")).await;
    let busy = format!("NotGranted({:?})", AcquireResult::Busy);
    assert_eq!(follower.of(1).last(), Some(&busy));
    sidecar.faults().go_down(2 * LEASE);
    pass(LEASE + SECOND).await;
    let told = follower.of(0);
    assert!(told.iter().any(|what| what.starts_with("AtRisk")), "{told:?}");
    assert_eq!(told.last(), Some(&ended(HoldEnd::Lost(LossReason::Expired))));
    sidecar.coordinator.drain(SECOND).await;
    assert!(sidecar.coordinator.hold(&request("other")).is_err());
    assert_eq!(follower.of(2).last(), Some(&"Refused".to_owned()));
}
