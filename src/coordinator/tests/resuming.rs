//! Going on with a hold whose stream broke (S16).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::rig::{
    Account, LEASE, MINUTE, SECOND, granted, next, next_but_renewals, pass, request, settle,
    waiting,
};
use crate::coordinator::{
    CallError, Grant, HeldEvent, HoldEvent, HoldRequest, HoldState, LockEvent, LockEventKind,
    LossReason, Observer, ResumeRequest,
};
use crate::store::LeaseState;

pub(super) fn resume(grant: &Grant) -> ResumeRequest {
    ResumeRequest {
        attempt_id: String::new(),
        resume_token: grant.resume_token.clone(),
        told_valid_until: Some(grant.validity.valid_until.clone()),
        trace_context: None,
    }
}

#[tokio::test(start_paused = true)]
async fn s16_a_hold_goes_on_here_with_its_token() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let (stream, first) = sidecar.hold(&request("nightly")).await;
    pass(10 * SECOND).await;
    stream.disconnected();
    settle().await;
    let mut resumed = sidecar.coordinator.resume(&resume(&first)).unwrap();
    let second = granted(&mut resumed).await;
    assert_eq!((second.token, second.lease_id), (first.token, first.lease_id));
    assert_eq!(sidecar.coordinator.gauges().holds, 1);
    // It is renewed from then on.
    let HoldEvent::Held(HeldEvent::Renewed(_)) = next(&mut resumed).await else {
        panic!("not renewed")
    };
    pass(3 * LEASE).await;
    assert_eq!(sidecar.coordinator.gauges().holds, 1);
    drop(resumed);
    settle().await;
    sidecar.assert_idle();
    assert_eq!(account.lease("nightly").await, LeaseState::Available);
}

#[tokio::test(start_paused = true)]
async fn s16_a_resume_takes_the_place_of_a_stream_that_was_not_noticed_to_be_broken() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let (mut stream, first) = sidecar.hold(&request("nightly")).await;
    let mut resumed = sidecar.coordinator.resume(&resume(&first)).unwrap();
    assert_eq!(granted(&mut resumed).await.token, first.token);
    let HoldEvent::Failed(CallError::Superseded) = next(&mut stream).await else {
        panic!("both streams have the hold")
    };
    // The end of the old stream does not affect the hold.
    drop(stream);
    pass(2 * LEASE).await;
    assert_eq!(sidecar.coordinator.gauges().holds, 1);
    let answer =
        sidecar.coordinator.get_hold(first.lease_id, Some(first.generation)).await.unwrap();
    assert!(answer.validity.valid_for > SECOND);
}

#[tokio::test(start_paused = true)]
async fn s16_a_hold_goes_on_at_a_sidecar_that_was_restarted() {
    let account = Account::new();
    let old = account.sidecar();
    let (stream, first) = old.hold(&request("nightly")).await;
    pass(5 * SECOND).await;
    stream.disconnected();
    let new = account.sidecar();
    let mut resumed = new.coordinator.resume(&resume(&first)).unwrap();
    let second = granted(&mut resumed).await;
    assert_eq!((second.token, second.lease_id), (first.token, first.lease_id));
    assert!(second.acquired_at == first.acquired_at);
    // The sidecar that had it before lets it alone, though it believes that the holder fell silent.
    pass(3 * LEASE).await;
    assert_eq!(account.lease("nightly").await, LeaseState::Leased);
    assert_eq!(new.coordinator.gauges().holds, 1);
    old.assert_idle();
    new.release(&second).await;
    assert_eq!(account.lease("nightly").await, LeaseState::Available);
    let again = new.acquire(request("nightly")).await;
    assert!(again.token > first.token);
}

#[tokio::test(start_paused = true)]
async fn s16_a_hold_that_another_had_since_is_lost() {
    let account = Account::new();
    let (old, other, new) = (account.sidecar(), account.sidecar(), account.sidecar());
    let (stream, first) = old.hold(&request("nightly")).await;
    drop(stream);
    let (_held, second) = other.hold(&waiting("nightly", MINUTE)).await;
    let mut resumed = new.coordinator.resume(&resume(&first)).unwrap();
    let event = next_but_renewals(&mut resumed).await;
    assert!(
        matches!(event, HoldEvent::Held(HeldEvent::Lost { reason: LossReason::Taken, .. })),
        "{event:?}"
    );
    assert!(resumed.next().await.is_none());
    settle().await;
    new.assert_idle();
    let left = other.coordinator.get_hold(second.lease_id, Some(second.generation)).await.unwrap();
    assert!(left.validity.valid_for > SECOND, "the later hold is not harmed");
}

#[tokio::test(start_paused = true)]
async fn s16_a_resume_that_goes_away_leaves_nothing_behind() {
    let account = Account::new();
    for millis in 0..30 {
        let (old, new) = (account.sidecar(), account.sidecar());
        let (stream, first) = old.hold(&waiting("nightly", 5 * MINUTE)).await;
        stream.disconnected();
        new.faults().set_plan(crate::testing::FaultPlan {
            delay_answer: 1_000,
            longest_delay: std::time::Duration::from_millis(10),
            ..crate::testing::FaultPlan::default()
        });
        let resumed = new.coordinator.resume(&resume(&first)).unwrap();
        pass(std::time::Duration::from_millis(millis)).await;
        drop(resumed);
        pass(2 * LEASE).await;
        old.assert_idle();
        new.assert_idle();
        assert_ne!(account.lease("nightly").await, LeaseState::Leased, "{millis} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn s19_a_resume_token_that_is_not_ours_is_refused() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let (_stream, grant) = sidecar.hold(&request("nightly")).await;
    let changed: String = grant.resume_token.chars().rev().collect();
    for token in ["", "made up", &changed, &grant.resume_token[..grant.resume_token.len() / 2]] {
        let request = ResumeRequest {
            attempt_id: String::new(),
            resume_token: token.to_owned(),
            told_valid_until: None,
            trace_context: None,
        };
        let refused = sidecar.coordinator.resume(&request).unwrap_err();
        assert!(matches!(refused, CallError::ResumeToken), "{token}: {refused}");
    }
    let elsewhere = account.sidecar_with(Arc::new(crate::coordinator::NoObserver), 1, |settings| {
        settings.host.namespace.container = crate::lock::Container::parse("another").unwrap();
    });
    let refused = elsewhere.coordinator.resume(&resume(&grant)).unwrap_err();
    assert!(matches!(refused, CallError::ForeignPath { .. }), "{refused}");
}

/// An older sidecar ignores what it does not know. So what is added here needs a greater revision where it is
/// set (S37), and stands in a list of its own.
#[tokio::test(start_paused = true)]
async fn s37_a_resume_token_needs_revision_1_for_what_that_knows() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let (_stream, grant) = sidecar.hold(&request("nightly")).await;
    let said = URL_SAFE_NO_PAD.decode(&grant.resume_token).unwrap();
    let said: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&said).unwrap();
    assert_eq!(said["needs"], 1);
    let known = [
        "needs",
        "place",
        "permit",
        "host_id",
        "function",
        "scope",
        "mode",
        "hold",
        "lease",
        "token",
        "generation",
        "lease_seconds",
        "acquired_at",
        "auto_renew",
        "decides",
        "max_hold_ends",
        "lease_ends",
        "min_hold_ends",
        "progress_timeout_ms",
        "holder",
        "host_type",
        "occurrence",
    ];
    for name in said.keys() {
        assert!(known.contains(&name.as_str()), "revision 1 does not know {name}");
    }
}

#[tokio::test(start_paused = true)]
async fn s16_the_bounds_of_a_hold_are_not_stretched_by_a_resume() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let began = account.now();
    let max_hold = Some(2 * MINUTE);
    let request = HoldRequest { max_hold, ..request("nightly") };
    let (mut stream, first) = sidecar.hold(&request).await;
    let mut grant = first;
    for _ in 0..3 {
        pass(30 * SECOND).await;
        stream.disconnected();
        settle().await;
        stream = sidecar.coordinator.resume(&resume(&grant)).unwrap();
        grant = granted(&mut stream).await;
    }
    let event = next_but_renewals(&mut stream).await;
    assert!(
        matches!(
            event,
            HoldEvent::Held(HeldEvent::Lost { reason: LossReason::MaxHoldReached, .. })
        ),
        "{event:?}"
    );
    assert!(account.now() - began <= 2 * MINUTE + SECOND);
}

/// What its client was told cannot be compared with the clock there.
#[tokio::test(start_paused = true)]
async fn s11_s16_a_hold_that_is_not_renewed_lasts_no_longer_on_another_kernel() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let began = account.now();
    let once = HoldRequest { auto_renew: false, ..request("nightly") };
    let (stream, first) = sidecar.hold(&once).await;
    pass(5 * SECOND).await;
    stream.disconnected();
    let mut stream = sidecar.coordinator.resume(&resume(&first)).unwrap();
    let grant = granted(&mut stream).await;
    pass(LEASE - 10 * SECOND).await;
    stream.disconnected();
    let clock = Arc::new(crate::testing::SimClock::following_tokio());
    clock.reboot("another");
    let other = account.sidecar_on(&clock, 1);
    let mut stream = other.coordinator.resume(&resume(&grant)).unwrap();
    granted(&mut stream).await;
    let event = next_but_renewals(&mut stream).await;
    assert!(matches!(event, HoldEvent::Held(HeldEvent::Lost { .. })), "{event:?}");
    // The store's dates are whole seconds.
    assert!(account.now() - began <= LEASE + SECOND, "{:?}", account.now() - began);
}

/// a load balancer brings the client's question to the sidecar that its hold has left.
#[tokio::test(start_paused = true)]
async fn s16_a_sidecar_that_the_hold_has_left_says_nothing_of_a_newer_generation() {
    for closed in [false, true] {
        let account = Account::new();
        let (old, new) = (account.sidecar(), account.sidecar());
        let (stream, first) = old.hold(&request("nightly")).await;
        pass(SECOND).await;
        let mut resumed = new.coordinator.resume(&resume(&first)).unwrap();
        let second = granted(&mut resumed).await;
        match closed {
            true => drop(stream),
            false => stream.disconnected(),
        }
        settle().await;
        pass(LEASE).await;
        let generation = Some(second.generation);
        assert!(new.coordinator.get_hold(second.lease_id, generation).await.is_ok());
        let asked = old.coordinator.get_hold(second.lease_id, generation).await;
        assert!(matches!(asked, Err(CallError::UnknownLease)), "{closed}: {asked:?}");
        let asked = old.coordinator.release(second.lease_id, generation).await;
        assert!(matches!(asked, Err(CallError::UnknownLease)), "{closed}: {asked:?}");
    }
}

/// two releases that come at the same time to a sidecar that the hold has left.
#[tokio::test(start_paused = true)]
async fn s13_s16_a_release_of_a_hold_that_goes_on_elsewhere_is_not_told_released() {
    let account = Account::new();
    let (old, new) = (account.sidecar(), account.sidecar());
    let (_stream, first) = old.hold(&request("nightly")).await;
    let mut resumed = new.coordinator.resume(&resume(&first)).unwrap();
    let second = granted(&mut resumed).await;
    let generation = Some(second.generation);
    let (one, other) = tokio::join!(
        old.coordinator.release(second.lease_id, generation),
        old.coordinator.release(second.lease_id, generation),
    );
    assert_eq!(new.coordinator.gauges().holds, 1, "it goes on");
    for answer in [one, other] {
        assert!(matches!(answer, Err(CallError::UnknownLease)), "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn s14_a_hold_whose_stream_broke_is_told_with_no_more_than_it_was_told_last() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let (stream, grant) = sidecar.hold(&request("nightly")).await;
    stream.disconnected();
    settle().await;
    let held = sidecar.coordinator.get_hold(grant.lease_id, Some(1)).await.unwrap();
    assert_eq!(held.state, HoldState::Disconnected);
    assert_eq!(held.validity.valid_until, grant.validity.valid_until);
    pass(LEASE).await;
    assert!(sidecar.coordinator.get_hold(grant.lease_id, Some(1)).await.is_err());
}

/// Counts what is observed of resumes and losses.
#[derive(Debug, Default)]
struct Counted {
    refused: AtomicU64,
    ended: AtomicU64,
}

impl Observer for Counted {
    fn observe(&self, event: &LockEvent<'_>) {
        let counter = match event.kind {
            LockEventKind::ResumeRefused { .. } => &self.refused,
            LockEventKind::Ended(_) => &self.ended,
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// The same resume for another storage lease, which nobody had.
fn forged(grant: &Grant, number: u64) -> ResumeRequest {
    let bytes = URL_SAFE_NO_PAD.decode(&grant.resume_token).unwrap();
    let mut content: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    content["lease"] = format!("5b1c6e1a-0b0e-4c7e-9d1c-{number:012x}").into();
    ResumeRequest { resume_token: URL_SAFE_NO_PAD.encode(content.to_string()), ..resume(grant) }
}

#[tokio::test(start_paused = true)]
async fn s16_forged_resumes_are_no_losses_and_keep_nobody_from_the_lock() {
    let account = Account::new();
    let observer = Arc::new(Counted::default());
    let sidecar = account.sidecar_with(Arc::clone(&observer) as _, 1, |_| {});
    let (stream, grant) = sidecar.hold(&request("nightly")).await;
    drop(stream);
    settle().await;
    assert_eq!(observer.ended.load(Ordering::Relaxed), 1);
    for number in 0..1_000 {
        let mut resumed = sidecar.coordinator.resume(&forged(&grant, number)).unwrap();
        let event = next(&mut resumed).await;
        assert!(
            matches!(event, HoldEvent::Held(HeldEvent::Lost { reason: LossReason::Taken, .. })),
            "{event:?}"
        );
    }
    assert_eq!(observer.refused.load(Ordering::Relaxed), 1_000);
    assert_eq!(observer.ended.load(Ordering::Relaxed), 1, "nobody is paged for them");
    // One try, and it is served at once.
    let again = sidecar.acquire(request("nightly")).await;
    assert!(again.token > grant.token);
}

#[tokio::test(start_paused = true)]
async fn s16_a_resume_token_means_the_lock_of_its_key() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let (_stream, grant) = sidecar.hold(&request("nightly")).await;
    let (_other, other) = sidecar.hold(&request("payroll")).await;
    let change = |name: &str, value: &str| {
        let bytes = URL_SAFE_NO_PAD.decode(&grant.resume_token).unwrap();
        let mut content: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        content[name] = value.into();
        let resume_token = URL_SAFE_NO_PAD.encode(content.to_string());
        sidecar.coordinator.resume(&ResumeRequest { resume_token, ..resume(&grant) })
    };
    for (name, value) in [
        ("function", "\u{7}"),
        ("mode", "sideways"),
        ("host_id", "/"),
        ("host_type", ""),
        ("permit", "x"),
    ] {
        let refused = change(name, value).unwrap_err();
        assert!(matches!(refused, CallError::ResumeToken), "{name}: {refused}");
    }
    let refused = change("place", "another/").unwrap_err();
    assert!(matches!(refused, CallError::ForeignPath { .. }), "{refused}");
    // Another lock has its own record, and that is of another lease; or somebody here holds it.
    let mut resumed = change("function", "payroll").unwrap();
    let event = next(&mut resumed).await;
    assert!(matches!(event, HoldEvent::Failed(CallError::StoreFailure(_))), "{event:?}");
    let mut resumed = change("function", "never held").unwrap();
    let event = next(&mut resumed).await;
    assert!(matches!(event, HoldEvent::Held(HeldEvent::Lost { .. })), "{event:?}");
    let left = sidecar.coordinator.get_hold(other.lease_id, Some(other.generation)).await.unwrap();
    assert!(left.validity.valid_for > SECOND, "nobody notices");
    change("holder", "somebody else").unwrap();
}

#[tokio::test(start_paused = true)]
async fn s11_s16_a_hold_that_is_not_renewed_goes_on_though_its_first_progress_was_due() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let once = HoldRequest {
        auto_renew: false,
        progress_timeout: Some(10 * SECOND),
        ..request("nightly")
    };
    let (stream, first) = sidecar.hold(&once).await;
    let (lease_id, generation) = (first.lease_id, Some(first.generation));
    let mut told = first.validity.clone();
    for _ in 0..3 {
        pass(7 * SECOND).await;
        told = sidecar.coordinator.report_progress(lease_id, generation).await.unwrap();
    }
    assert!(told.valid_for > 9 * SECOND, "{told:?}");
    stream.disconnected();
    settle().await;
    let new = account.sidecar();
    let request = ResumeRequest { told_valid_until: Some(told.valid_until), ..resume(&first) };
    let mut resumed = new.coordinator.resume(&request).unwrap();
    let event = next(&mut resumed).await;
    assert!(matches!(event, HoldEvent::Granted(_)), "{event:?}");
}

#[tokio::test(start_paused = true)]
async fn s11_s16_a_hold_that_is_not_renewed_and_was_extended_goes_on() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let max_hold = Some(5 * SECOND);
    let once = HoldRequest { auto_renew: false, max_hold, ..request("nightly") };
    let (stream, first) = sidecar.hold(&once).await;
    let (lease_id, generation) = (first.lease_id, Some(first.generation));
    let extended = sidecar.coordinator.extend(lease_id, generation, 40 * SECOND).await.unwrap();
    pass(10 * SECOND).await;
    stream.disconnected();
    settle().await;
    let new = account.sidecar();
    let request = ResumeRequest {
        resume_token: extended.resume_token.clone(),
        told_valid_until: Some(extended.validity.valid_until.clone()),
        ..resume(&first)
    };
    let mut resumed = new.coordinator.resume(&request).unwrap();
    let event = next(&mut resumed).await;
    assert!(matches!(event, HoldEvent::Granted(_)), "{event:?}");
}

#[tokio::test(start_paused = true)]
async fn s11_s16_a_hold_that_is_not_renewed_is_extended_elsewhere_up_to_the_end_of_its_one_lease() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let max_hold = Some(5 * SECOND);
    let once = HoldRequest { auto_renew: false, max_hold, ..request("nightly") };
    let (stream, first) = sidecar.hold(&once).await;
    pass(2 * SECOND).await;
    stream.disconnected();
    settle().await;
    let new = account.sidecar();
    let mut resumed = new.coordinator.resume(&resume(&first)).unwrap();
    let again = granted(&mut resumed).await;
    let extended =
        new.coordinator.extend(again.lease_id, Some(again.generation), 400 * SECOND).await.unwrap();
    let left = extended.validity.valid_for;
    assert!(left > 6 * SECOND && left <= LEASE - 2 * SECOND, "{left:?}");
}
