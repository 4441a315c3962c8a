//! Holds by stream: their events, their ends, and how they are resumed.

use std::time::Duration;

use leasehold_client::proto::{
    BreakLockRequest, BreakMode, ErrorReason, LockState, LossReason, ReleaseLeaseRequest,
    ReleaseOutcome, Resume, WatchLockRequest, hold_lease_request::Start,
};
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::grpc::rig::{Account, Event, by_key, granted, next, reason, seconds, spec};

#[tokio::test(start_paused = true)]
async fn s7_a_hold_by_stream_is_renewed_as_long_as_the_stream_lives() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = sidecar.hold(spec("nightly")).await;
    let grant = granted(&mut stream).await;
    assert!(!grant.resume_token.is_empty() && grant.resume_token.len() <= 4_096);
    let mut until = since_boot(grant.validity);
    for _ in 0..10 {
        let Event::Renewed(renewed) = next(&mut stream).await else { panic!("no renewal") };
        let renewed_until = since_boot(renewed.validity);
        assert!(renewed_until > until);
        until = renewed_until;
    }
    drop(stream);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(sidecar.record("nightly").await.state(), LockState::Available, "S14");
}

fn since_boot(validity: Option<leasehold_client::proto::Validity>) -> Duration {
    let until = validity.unwrap().valid_until.unwrap();
    Duration::try_from(until.since_boot.unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn s10_waiters_are_told_their_place_and_served_in_their_order() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut first = sidecar.hold(spec("nightly")).await;
    let held = granted(&mut first).await;
    let mut patient = spec("nightly");
    patient.wait = seconds(600);
    let mut second = sidecar.hold(patient.clone()).await;
    let Event::Waiting(waiting) = next(&mut second).await else { panic!() };
    assert_eq!(waiting.position, 1);
    assert_eq!(waiting.record.unwrap().fencing_token, Some(held.fencing_token));
    let mut third = sidecar.hold(patient).await;
    let Event::Waiting(waiting) = next(&mut third).await else { panic!() };
    assert_eq!(waiting.position, 2);
    sidecar.release_of(&held).await;
    let second_grant = skip_waiting(&mut second).await;
    assert_eq!(second_grant.fencing_token, held.fencing_token + 1, "handed on, S5");
    sidecar.release_of(&second_grant).await;
    let Event::Released(released) = next(&mut second).await else { panic!() };
    assert_eq!(released.result.unwrap().outcome(), ReleaseOutcome::Released);
    assert!(second.message().await.unwrap().is_none(), "the stream ends with OK");
    let third_grant = skip_waiting(&mut third).await;
    assert_eq!(third_grant.fencing_token, held.fencing_token + 2);
}

async fn skip_waiting(
    stream: &mut tonic::Streaming<leasehold_client::proto::HoldLeaseResponse>,
) -> leasehold_client::proto::Grant {
    loop {
        match next(stream).await {
            Event::Waiting(_) => {}
            Event::Granted(grant) => return grant,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s13_a_release_that_was_not_confirmed_is_said_so_by_the_call_its_repeat_and_the_stream() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = sidecar.hold(spec("nightly")).await;
    let held = granted(&mut stream).await;
    sidecar.link.go_down(Duration::MAX);
    for _ in ["the call", "its repeat"] {
        let request = ReleaseLeaseRequest {
            lease_id: held.lease_id.clone(),
            generation: held.generation,
            ..ReleaseLeaseRequest::default()
        };
        let answer = sidecar.client.clone().release_lease(request).await.unwrap().into_inner();
        assert_eq!(answer.result.unwrap().outcome(), ReleaseOutcome::NotConfirmed);
    }
    let Event::Released(released) = next(&mut stream).await else { panic!("not released") };
    assert_eq!(released.result.unwrap().outcome(), ReleaseOutcome::NotConfirmed);
    assert!(stream.message().await.unwrap().is_none(), "the stream ends with OK");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_over_ends_with_busy() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let mut holding = here.hold(spec("nightly")).await;
    granted(&mut holding).await;
    let mut impatient = spec("nightly");
    impatient.wait = seconds(3);
    let mut stream = there.hold(impatient).await;
    loop {
        match next(&mut stream).await {
            Event::Waiting(_) => {}
            Event::Busy(busy) => break assert!(busy.record.is_some()),
            other => panic!("{other:?}"),
        }
    }
    assert!(stream.message().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn s9_a_holder_is_warned_told_of_recovery_and_at_last_of_the_loss() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = sidecar.hold(spec("nightly")).await;
    let mut until = since_boot(granted(&mut stream).await.validity);
    sidecar.link.go_down(Duration::from_secs(45));
    let Event::AtRisk(risk) = next(&mut stream).await else { panic!() };
    assert_eq!(risk.cause(), ErrorReason::StoreUnavailable);
    assert!(!risk.detail.is_empty());
    assert_eq!(since_boot(risk.validity), until);
    let Event::Recovered(recovered) = next(&mut stream).await else { panic!() };
    let later = since_boot(recovered.validity);
    assert!(later > until);
    until = later;
    sidecar.link.go_down(Duration::MAX);
    loop {
        match next(&mut stream).await {
            Event::Renewed(renewed) => until = since_boot(renewed.validity),
            Event::AtRisk(_) => {}
            Event::Lost(lost) => {
                assert_eq!(lost.reason(), LossReason::Expired);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    let now = leasehold::time::Clock::boot_reading(
        account.clock.as_ref(),
        leasehold::time::Clock::now(account.clock.as_ref()),
    );
    assert!(
        now.since_boot <= until + Duration::from_millis(5),
        "S4: {:?} {until:?}",
        now.since_boot
    );
    assert!(stream.message().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn s17_a_broken_lock_tells_its_holder_why_and_by_whom() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let mut stream = here.hold(spec("nightly")).await;
    granted(&mut stream).await;
    let request = BreakLockRequest {
        lock: by_key("nightly"),
        reason: "the node is on fire".to_owned(),
        mode: BreakMode::RunOut.into(),
        broken_by: "ana".to_owned(),
        fencing_token: None,
    };
    let answer = there.client.clone().break_lock(request).await.unwrap().into_inner();
    assert_eq!(answer.outcome(), leasehold_client::proto::BreakOutcome::Breaking);
    assert!(answer.free_in.is_some());
    let record = answer.record.unwrap();
    assert_eq!(record.state(), LockState::Breaking);
    assert_eq!(record.break_note.unwrap().reason, "the node is on fire");
    // S22: it has until the end of its validity to finish.
    let Event::Revoked(revoked) = next(&mut stream).await else { panic!() };
    assert_eq!(revoked.break_note.unwrap().reason, "the node is on fire");
    let Event::Lost(lost) = next(&mut stream).await else { panic!() };
    assert_eq!(lost.reason(), LossReason::Broken);
    let note = lost.break_note.unwrap();
    assert_eq!((note.reason.as_str(), note.broken_by.as_str()), ("the node is on fire", "ana"));
}

#[tokio::test(start_paused = true)]
async fn s15_a_shutdown_tells_holders_refuses_callers_and_ends_streams_as_lost() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut polite = sidecar.hold(spec("polite")).await;
    granted(&mut polite).await;
    let mut stubborn = sidecar.hold(spec("stubborn")).await;
    granted(&mut stubborn).await;
    let watching = WatchLockRequest { lock: by_key("polite") };
    let mut watch = sidecar.client.clone().watch_lock(watching).await.unwrap().into_inner();
    watch.message().await.unwrap().unwrap();
    let coordinator = sidecar.coordinator.clone();
    let drain = tokio::spawn(async move { coordinator.drain(Duration::from_secs(20)).await });
    for stream in [&mut polite, &mut stubborn] {
        let Event::Draining(draining) = next(stream).await else { panic!() };
        assert!(draining.time_left.unwrap().seconds <= 20);
    }
    let ended = watch.message().await.unwrap_err();
    assert_eq!(reason(&ended), (Code::Unavailable, "SHUTTING_DOWN".to_owned()));
    let refused = sidecar.ask(spec("other")).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::Unavailable, "SHUTTING_DOWN".to_owned()));
    drop(polite);
    loop {
        match next(&mut stubborn).await {
            Event::Renewed(_) => {}
            Event::Lost(lost) => break assert_eq!(lost.reason(), LossReason::Shutdown),
            other => panic!("{other:?}"),
        }
    }
    drop(stubborn);
    drain.await.unwrap();
    let other = account.sidecar();
    other.acquire(spec("polite")).await;
}

#[tokio::test(start_paused = true)]
async fn s16_a_restarted_sidecar_lets_the_hold_go_on_with_its_token() {
    let account = Account::new();
    let grant = {
        let before = account.sidecar();
        let mut stream = before.hold(spec("nightly")).await;
        let grant = granted(&mut stream).await;
        // The process dies: nothing more goes to the store.
        before.link.go_down(Duration::MAX);
        grant
    };
    let told = grant.validity.and_then(|validity| validity.valid_until);
    let after = account.sidecar();
    let resume = Resume {
        resume_token: grant.resume_token.clone(),
        told_valid_until: told,
        attempt_id: "attempt-1".to_owned(),
    };
    let mut stream = after.start(Start::Resume(resume.clone())).await.unwrap();
    let again = granted(&mut stream).await;
    assert_eq!(again.lease_id, grant.lease_id);
    assert_eq!(again.fencing_token, grant.fencing_token);
    assert_eq!(again.lock_path, grant.lock_path);
    let record = after.record("nightly").await;
    assert_eq!(record.key.unwrap().function, "nightly");
    let mut newer = after.start(Start::Resume(resume)).await.unwrap();
    granted(&mut newer).await;
    let superseded = loop {
        match stream.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("ended with OK and no last event"),
            Err(status) => break status,
        }
    };
    assert_eq!(reason(&superseded), (Code::Aborted, "SUPERSEDED".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn s16_a_hold_that_cannot_go_on_is_answered_with_lost() {
    let account = Account::new();
    let grant = {
        let before = account.sidecar();
        let mut stream = before.hold(spec("nightly")).await;
        let grant = granted(&mut stream).await;
        before.link.go_down(Duration::MAX);
        grant
    };
    tokio::time::sleep(Duration::from_secs(70)).await;
    let after = account.sidecar();
    let next_grant = after.acquire(spec("nightly")).await;
    assert!(next_grant.fencing_token > grant.fencing_token);
    let resume = Resume {
        resume_token: grant.resume_token,
        told_valid_until: None,
        attempt_id: "attempt-1".to_owned(),
    };
    let mut stream = after.start(Start::Resume(resume)).await.unwrap();
    let Event::Lost(lost) = next(&mut stream).await else { panic!() };
    assert_ne!(lost.reason(), LossReason::Unspecified);
    assert!(stream.message().await.unwrap().is_none());
    assert!(after.record("nightly").await.held_here, "the later hold is not touched");
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_the_record_now_and_at_each_change() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let request = WatchLockRequest { lock: by_key("nightly") };
    let mut watch = there.client.clone().watch_lock(request).await.unwrap().into_inner();
    let mut seen = async || watch.message().await.unwrap().unwrap().record.unwrap();
    assert_eq!(seen().await.state(), LockState::Available, "never taken, and no error");
    let grant = here.acquire(spec("nightly")).await;
    let record = seen().await;
    assert_eq!(record.state(), LockState::Held);
    assert_eq!(record.fencing_token, Some(grant.fencing_token));
    here.release(&grant.lease_id).await;
    assert_eq!(seen().await.state(), LockState::Available);
}

#[tokio::test(start_paused = true)]
async fn s12_a_watch_and_a_wait_say_something_at_least_each_thirty_seconds() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut held = sidecar.hold(spec("nightly")).await;
    let grant = granted(&mut held).await;
    let request = WatchLockRequest { lock: by_key("nightly") };
    let mut watch = sidecar.client.clone().watch_lock(request).await.unwrap().into_inner();
    let mut patient = spec("nightly");
    patient.wait = seconds(3_600);
    let mut waits = sidecar.hold(patient).await;
    for _ in 0..4 {
        let within = Duration::from_secs(30);
        let watched = tokio::time::timeout(within, watch.message()).await.expect("in time");
        let record = watched.unwrap().unwrap().record.unwrap();
        assert_eq!(record.fencing_token, Some(grant.fencing_token));
        let Event::Waiting(waiting) =
            tokio::time::timeout(within, next(&mut waits)).await.expect("in time")
        else {
            panic!("not told that it waits")
        };
        let holder = waiting.record.unwrap();
        assert_eq!((waiting.position, holder.fencing_token), (1, Some(grant.fencing_token)));
    }
}

#[tokio::test(start_paused = true)]
async fn s15_s16_a_hand_over_ends_streams_so_that_they_are_resumed() {
    let account = Account::new();
    let (old, new) = (account.sidecar(), account.sidecar());
    let mut held = old.hold(spec("nightly")).await;
    let grant = granted(&mut held).await;
    let mut patient = spec("nightly");
    patient.wait = seconds(3_600);
    let mut waits = old.hold(patient).await;
    let request = WatchLockRequest { lock: by_key("nightly") };
    let mut watch = old.client.clone().watch_lock(request).await.unwrap().into_inner();
    old.coordinator.hand_over(Duration::from_secs(20)).await;
    let mut told = grant.validity.clone();
    let end = loop {
        match held.message().await {
            Ok(Some(message)) => match message.event.unwrap() {
                Event::Renewed(renewed) => told = renewed.validity,
                other => panic!("{other:?}"),
            },
            Ok(None) => panic!("it ended without a word"),
            Err(status) => break status,
        }
    };
    let wait_ends = loop {
        match waits.message().await {
            Ok(message) => assert!(matches!(message.unwrap().event, Some(Event::Waiting(_)))),
            Err(status) => break status,
        }
    };
    let watch_ends = loop {
        if let Err(status) = watch.message().await {
            break status;
        }
    };
    for status in [end, wait_ends, watch_ends] {
        assert_eq!(reason(&status), (Code::Unavailable, "SHUTTING_DOWN".to_owned()));
        assert!(status.get_details_retry_info().is_some(), "{status}");
    }
    let resume = Resume {
        resume_token: grant.resume_token,
        told_valid_until: told.unwrap().valid_until,
        attempt_id: "attempt-1".to_owned(),
    };
    let mut resumed = new.start(Start::Resume(resume)).await.unwrap();
    assert_eq!(granted(&mut resumed).await.fencing_token, grant.fencing_token);
}
