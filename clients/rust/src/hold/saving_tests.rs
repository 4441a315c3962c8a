//! Checkpoints of a hold: saved, released with, and read (S23 to S27).

use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt as _};

use super::tests::{held, held_here, next};
use super::*;
use crate::constants::ANSWER_POLL;
use crate::fake::{Bench, ELSEWHERE, HoldCall, OURS, eventually, grant, seconds, validity};
use crate::messages::LockSelector;
use crate::proto::hold_lease_response::Event;

fn saved_as(bench: &Bench, version: u64, validity: Option<proto::Validity>) {
    let answer = proto::SaveCheckpointResponse { version, validity };
    bench.sidecar.script.lock().unwrap().save = Some(Ok(answer));
}

fn fails_with(bench: &Bench, code: tonic::Code, reason: &str) {
    let metadata = [("loss_reason".to_owned(), "TAKEN".to_owned())];
    let details = ErrorDetails::with_error_info(reason, "leasehold.dev", metadata);
    let status = Status::with_error_details(code, "so it is", details);
    bench.sidecar.script.lock().unwrap().save = Some(Err(status));
}

#[tokio::test]
async fn s25_a_grant_has_the_checkpoint_that_the_last_holder_left() {
    let mut bench = Bench::new().await;
    let holding = tokio::spawn(bench.client.hold(LeaseSpec::new("f")).into_future());
    let call = bench.sidecar.hold().await;
    let Event::Granted(granted) = grant(validity(OURS, 1_058, 58)) else { panic!() };
    let (value, saved_at) = (b"page 7".to_vec(), prost_types::Timestamp { seconds: 9, nanos: 0 });
    let checkpoint =
        proto::Checkpoint { value, version: 3, fencing_token: 2, saved_at: Some(saved_at) };
    let checkpoint = Some(checkpoint);
    call.tell(Event::Granted(proto::Grant { checkpoint, permit: 2, ..granted })).await;
    let guard = holding.await.unwrap().unwrap().granted().unwrap();
    let checkpoint = guard.checkpoint().unwrap();
    assert_eq!(checkpoint.text(), Ok("page 7"));
    assert_eq!((checkpoint.version, checkpoint.fencing_token), (3, 2));
    assert!(checkpoint.saved_at.is_some());
    assert_eq!(guard.grant().checkpoint, Some(checkpoint));
    assert_eq!(guard.permit(), 2);
}

#[tokio::test]
async fn s24_a_save_gives_its_version_and_is_the_checkpoint_of_the_hold() {
    let mut bench = Bench::new().await;
    let (guard, _call, _events) = held_here(&mut bench).await;
    assert_eq!(guard.checkpoint(), None);
    saved_as(&bench, 9, Some(validity(OURS, 1_060, 60)));
    assert_eq!(guard.save("seven").await.unwrap(), 9);
    let checkpoint = guard.checkpoint().unwrap();
    assert_eq!((checkpoint.text(), checkpoint.version), (Ok("seven"), 9));
    assert_eq!((checkpoint.fencing_token, checkpoint.saved_at), (guard.fencing_token(), None));
    assert_eq!(guard.remaining(), seconds(60), "S21: it answers a request of our own");
    guard.save(serde_json::to_vec(&[8]).unwrap()).await.unwrap();
    let asked = bench.sidecar.asked();
    let wanted =
        [r#"save "seven" of lease-1, generation 1"#, r#"save "[8]" of lease-1, generation 1"#];
    assert_eq!(asked, wanted);
}

#[tokio::test]
async fn s21_elsewhere_the_validity_of_a_save_counts_from_before_it() {
    let mut bench = Bench::new().await;
    let (guard, _call, _events) = held(&mut bench, validity(ELSEWHERE, 70, 58)).await;
    bench.clock.advance(seconds(5));
    saved_as(&bench, 1, Some(validity(ELSEWHERE, 75, 58)));
    guard.save("").await.unwrap();
    assert_eq!(guard.valid_until().since_boot(), seconds(1_063));
}

#[tokio::test]
async fn s23_a_checkpoint_that_is_too_large_is_refused_here() {
    let mut bench = Bench::new().await;
    let (guard, _call, _events) = held_here(&mut bench).await;
    saved_as(&bench, 1, None);
    guard.save([b'x'; 2_048]).await.unwrap();
    let refused = |error: Error, field: &str| {
        let Error::Refused(refusal) = &error else { panic!("{error}") };
        assert_eq!(refusal.reason, Some(Reason::InvalidField));
        assert_eq!(refusal.violations[0].field, field);
        assert!(error.to_string().contains("2049 bytes"), "{error}");
    };
    refused(guard.save([b'x'; 2_049]).await.unwrap_err(), "value");
    assert!(guard.is_valid());
    let client = &bench.client;
    refused(client.save_checkpoint("l", [b'x'; 2_049]).await.unwrap_err(), "value");
    refused(client.release_with_checkpoint("l", [b'x'; 2_049]).await.unwrap_err(), "checkpoint");
    refused(guard.release_with_checkpoint([b'x'; 2_049]).await.unwrap_err(), "checkpoint");
    let saves = bench.sidecar.asked().into_iter().filter(|call| call.contains("sav"));
    assert_eq!(saves.count(), 1, "the others are not sent");
}

#[tokio::test]
async fn s24_a_save_that_is_told_of_a_loss_ends_the_hold() {
    let mut bench = Bench::new().await;
    let (guard, _call, _events) = held_here(&mut bench).await;
    fails_with(&bench, tonic::Code::FailedPrecondition, "HOLD_LOST");
    for _ in 0..2 {
        let error = guard.save("x").await.unwrap_err();
        assert!(matches!(&error, Error::Lost(loss) if loss.reason == LossReason::Taken), "{error}");
    }
    assert_eq!(bench.sidecar.asked().len(), 1, "who has lost asks nobody");
    assert_eq!(guard.loss().map(|loss| loss.reason), Some(LossReason::Taken));
    assert_eq!(guard.checkpoint(), None);
}

#[tokio::test]
async fn s24_a_released_hold_saves_nothing() {
    let mut bench = Bench::new().await;
    let (guard, _call, _events) = held_here(&mut bench).await;
    let guard = guard.run(async |hold| hold).await.unwrap();
    let error = guard.save("x").await.unwrap_err();
    assert_eq!(error.reason(), Some(&Reason::HoldReleased), "{error}");
    assert_eq!(guard.loss(), None);
}

#[tokio::test]
async fn s27_a_save_of_unknown_outcome_is_an_error_of_its_own() {
    let mut bench = Bench::new().await;
    let (guard, _call, _events) = held_here(&mut bench).await;
    fails_with(&bench, tonic::Code::Unavailable, "CHECKPOINT_UNKNOWN");
    let error = guard.save("x").await.unwrap_err();
    assert!(matches!(error, Error::CheckpointUnknown(_)), "{error}");
    assert!(!error.is_transient(), "the hold is over");
    assert_eq!(guard.checkpoint(), None);
}

#[tokio::test]
async fn s27_a_save_that_nobody_answered_is_of_unknown_outcome_too() {
    for code in [tonic::Code::Unavailable, tonic::Code::Unknown] {
        let mut bench = Bench::new().await;
        let (guard, _call, _events) = held_here(&mut bench).await;
        let broken = Status::new(code, "stream closed because of a broken pipe");
        bench.sidecar.script.lock().unwrap().save = Some(Err(broken));
        let error = guard.save("x").await.unwrap_err();
        assert!(matches!(error, Error::CheckpointUnknown(_)), "{error}");
        assert!(guard.is_valid(), "it can be repeated");
    }
}

/// The hold's stream breaks, and the client asks for a resume.
async fn broken(bench: &mut Bench) -> (Hold, HoldCall) {
    let (guard, call, mut events) = held_here(bench).await;
    call.fail(Status::unavailable("gone")).await;
    assert!(matches!(next(&mut events).await, HoldEvent::Interrupted { .. }));
    (guard, bench.sidecar.hold().await)
}

#[tokio::test]
async fn s16_a_save_waits_for_the_resume_and_carries_the_new_generation() {
    let mut bench = Bench::new().await;
    saved_as(&bench, 2, None);
    let (guard, call) = broken(&mut bench).await;
    let saving = guard.save("x");
    tokio::pin!(saving);
    // It looks again and again; were it not to wait, it would have asked at the first look.
    let waits = tokio::time::timeout(ANSWER_POLL * 3, &mut saving).await;
    assert!(waits.is_err() && bench.sidecar.asked().is_empty());
    let Event::Granted(granted) = grant(validity(OURS, 1_058, 58)) else { panic!() };
    call.tell(Event::Granted(proto::Grant { generation: 2, ..granted })).await;
    assert_eq!(saving.await.unwrap(), 2);
    assert_eq!(bench.sidecar.asked(), [r#"save "x" of lease-1, generation 2"#]);
}

#[tokio::test]
async fn s27_a_resume_tells_what_a_save_without_an_answer_stored() {
    let mut bench = Bench::new().await;
    let (guard, call) = broken(&mut bench).await;
    let Event::Granted(granted) = grant(validity(OURS, 1_058, 58)) else { panic!() };
    let stored = proto::Checkpoint { value: b"stored".to_vec(), version: 3, ..Default::default() };
    let checkpoint = Some(stored);
    call.tell(Event::Granted(proto::Grant { generation: 2, checkpoint, ..granted })).await;
    eventually("it is told", || guard.checkpoint().is_some()).await;
    assert_eq!(guard.checkpoint().unwrap().text(), Ok("stored"));
}

#[tokio::test]
async fn s16_a_save_that_waits_for_a_resume_ends_with_the_hold() {
    let mut bench = Bench::new().await;
    let (guard, _call) = broken(&mut bench).await;
    bench.clock.advance(seconds(58));
    let error = guard.save("x").await.unwrap_err();
    assert!(matches!(&error, Error::Lost(loss) if loss.reason == LossReason::Expired), "{error}");
}

#[tokio::test]
async fn s26_a_release_saves_its_checkpoint_and_tells_what_became_of_it() {
    use proto::CheckpointOutcome as Wire;
    let mut bench = Bench::new().await;
    for outcome in [Wire::Saved, Wire::NotSaved, Wire::Unknown, Wire::Unspecified] {
        let (guard, _call, _events) = held_here(&mut bench).await;
        bench.sidecar.script.lock().unwrap().release = Some(proto::ReleaseResult {
            outcome: proto::ReleaseOutcome::Released.into(),
            checkpoint_outcome: outcome.into(),
            checkpoint_version: 7,
            checkpoint_detail: "why".to_owned(),
            ..proto::ReleaseResult::default()
        });
        // An empty value is one.
        let released = guard.release_with_checkpoint("").await;
        match outcome {
            Wire::Saved => assert_eq!(released.unwrap().checkpoint_version, Some(7)),
            Wire::NotSaved => {
                let error = released.unwrap_err();
                assert!(
                    matches!(&error, Error::CheckpointNotSaved(why) if why == "why"),
                    "{error}"
                );
            }
            Wire::Unknown => {
                let error = released.unwrap_err();
                assert!(matches!(&error, Error::CheckpointUnknown(why) if why == "why"), "{error}");
            }
            // S37.
            Wire::Unspecified => {
                let error = released.unwrap_err();
                assert!(matches!(error, Error::CheckpointNotSaved(_)), "{error}");
                assert!(error.to_string().contains("older"), "{error}");
            }
        }
        let asked = std::mem::take(&mut bench.sidecar.script.lock().unwrap().asked);
        assert_eq!(asked, [r#"release lease-1 of generation 1 saving """#]);
    }
}

#[tokio::test]
async fn a_checkpoint_is_saved_and_read_without_a_stream() {
    let bench = Bench::new().await;
    saved_as(&bench, 4, None);
    assert_eq!(bench.client.save_checkpoint("lease-9", "x").await.unwrap(), 4);
    assert_eq!(bench.sidecar.asked(), [r#"save "x" of lease-9, generation 0"#]);
    let error = bench.client.release_with_checkpoint("lease-9", "x").await.unwrap_err();
    assert!(matches!(error, Error::CheckpointNotSaved(_)), "{error}");
    let lock = || LockSelector::path("locks/a");
    assert_eq!(bench.client.get_checkpoint(lock()).await.unwrap(), None);
    let value = proto::Checkpoint { value: b"x".to_vec(), ..proto::Checkpoint::default() };
    bench.sidecar.script.lock().unwrap().checkpoint = Some(value);
    let read = bench.client.get_checkpoint(lock()).await.unwrap().unwrap();
    assert_eq!(read.value, b"x");
}
