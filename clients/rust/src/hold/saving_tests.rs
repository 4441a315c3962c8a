//! Checkpoints of a hold: what a grant and a resume carry, and what becomes of a save (S23 to S27).

use serde_json::json;
use tonic::{Code, Status};

use super::*;
use crate::constants::SAVE_GRACE;
use crate::fake::{Bench, granted, soon, status};

#[tokio::test(start_paused = true)]
async fn s25_a_grant_has_the_checkpoint_and_s27_a_resume_what_was_stored_since() {
    let mut bench = Bench::new();
    let stored = json!({"value": "page 7", "version": 3, "fencing_token": 2, "saved_at": 9});
    let (hold, stream, mut events) = bench.granted(json!({"checkpoint": stored})).await;
    let first = hold.checkpoint().unwrap();
    assert_eq!((first.text(), first.version, first.fencing_token), (Ok("page 7"), 3, 2));
    assert!(first.saved_at.is_some());
    assert_eq!(hold.grant().checkpoint, Some(first));
    stream.fail(Status::unavailable("gone"));
    let stream = bench.opened().await;
    let stored = json!({"value": "page 8", "version": 4});
    stream.tell(&granted(json!({"generation": 2, "checkpoint": stored})));
    while !matches!(soon(events.recv()).await.unwrap(), HoldEvent::Resumed { .. }) {}
    assert_eq!(hold.checkpoint().unwrap().text(), Ok("page 8"));
}

#[tokio::test(start_paused = true)]
async fn s24_a_value_that_was_saved_is_the_checkpoint_of_the_hold() {
    let mut bench = Bench::new();
    let (hold, _stream, _events) = bench.held().await;
    assert_eq!(hold.checkpoint(), None);
    bench.sidecar.answer("save_checkpoint", &json!({"version": 9}));
    assert_eq!(hold.save(serde_json::to_vec(&[8]).unwrap()).await.unwrap(), 9);
    let checkpoint = hold.checkpoint().unwrap();
    assert_eq!((checkpoint.text(), checkpoint.version), (Ok("[8]"), 9));
    assert_eq!((checkpoint.fencing_token, checkpoint.saved_at), (hold.fencing_token(), None));
    let lost = json!({"code": "FAILED_PRECONDITION", "reason": "HOLD_LOST", "loss": "TAKEN"});
    bench.sidecar.refuse("save_checkpoint", status(&lost));
    for _ in 0..2 {
        let error = hold.save("x").await.unwrap_err();
        assert!(matches!(&error, Error::Lost(loss) if loss.reason == LossReason::Taken), "{error}");
    }
    assert_eq!(bench.asked()[2..], ["save_checkpoint 1 x"], "who has lost asks nobody");
    assert_eq!(hold.checkpoint(), Some(checkpoint));
}

#[tokio::test(start_paused = true)]
async fn s24_a_released_hold_saves_nothing() {
    let mut bench = Bench::new();
    let (hold, _stream, _events) = bench.held().await;
    let hold = hold.run(async |hold| hold).await.unwrap();
    let error = hold.save("x").await.unwrap_err();
    assert_eq!((error.reason(), hold.loss()), (Some(&Reason::HoldReleased), None), "{error}");
}

#[tokio::test(start_paused = true)]
async fn s23_a_checkpoint_that_is_too_large_is_refused_here() {
    let mut bench = Bench::new();
    let (hold, _stream, _events) = bench.held().await;
    bench.sidecar.answer("save_checkpoint", &json!({"version": 1}));
    hold.save([b'x'; 2_048]).await.unwrap();
    let refused = |error: Error, field: &str| {
        let Error::Refused(refusal) = &error else { panic!("{error}") };
        assert_eq!(refusal.reason, Some(Reason::InvalidField));
        assert_eq!(refusal.violations[0].field, field);
        assert!(error.to_string().contains("2049 bytes"), "{error}");
    };
    let (client, large) = (&bench.client, [b'x'; 2_049]);
    refused(hold.save(large).await.unwrap_err(), "value");
    assert!(hold.is_valid());
    refused(client.save_checkpoint("l", large).await.unwrap_err(), "value");
    refused(client.release_with_checkpoint("l", large).await.unwrap_err(), "checkpoint");
    assert_eq!(bench.sidecar.taken().len(), 2, "the others are not sent");
    refused(hold.release_with_checkpoint(large).await.unwrap_err(), "checkpoint");
}

#[tokio::test(start_paused = true)]
async fn s27_a_save_of_unknown_outcome_is_an_error_of_its_own() {
    let mut bench = Bench::new();
    let (hold, _stream, _events) = bench.held().await;
    for answer in [
        status(&json!({"code": "UNAVAILABLE", "reason": "CHECKPOINT_UNKNOWN"})),
        Status::new(Code::Unavailable, "stream closed because of a broken pipe"),
        Status::new(Code::Unknown, "stream closed because of a broken pipe"),
    ] {
        bench.sidecar.refuse("save_checkpoint", answer);
        let error = hold.save("x").await.unwrap_err();
        assert!(matches!(error, Error::CheckpointUnknown(_)) && !error.is_transient(), "{error}");
    }
    assert!(hold.is_valid() && hold.checkpoint().is_none(), "it can be repeated");
    // One that nobody answers is given up a little after its hold is over.
    let error = hold.save("x").await.unwrap_err();
    assert!(matches!(error, Error::CheckpointUnknown(_)), "{error}");
    assert_eq!(bench.client.clock.now(), hold.valid_until() + SAVE_GRACE);
}

#[tokio::test(start_paused = true)]
async fn s26_a_release_saves_its_checkpoint_and_tells_what_became_of_it() {
    let mut bench = Bench::new();
    for outcome in ["SAVED", "NOT_SAVED", "UNKNOWN", "UNSPECIFIED"] {
        let (hold, _stream, _events) = bench.held().await;
        let result = json!({
            "outcome": "RELEASED", "checkpoint_outcome": outcome,
            "checkpoint_version": 7, "checkpoint_detail": "why",
        });
        bench.sidecar.answer("release_lease", &result);
        // An empty value is one.
        let as_expected = match hold.release_with_checkpoint("").await {
            Ok(released) => outcome == "SAVED" && released.checkpoint_version == Some(7),
            Err(Error::CheckpointNotSaved(why)) if why == "why" => outcome == "NOT_SAVED",
            Err(Error::CheckpointUnknown(why)) => outcome == "UNKNOWN" && why == "why",
            // S37.
            Err(Error::CheckpointNotSaved(why)) => {
                outcome == "UNSPECIFIED" && why.contains("older")
            }
            Err(_) => false,
        };
        assert!(as_expected, "{outcome:?}");
        let request: proto::ReleaseLeaseRequest = bench.sidecar.last("release_lease");
        assert_eq!((request.generation, request.checkpoint), (1, Some(Vec::new())));
    }
}
