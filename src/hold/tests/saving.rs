//! Checkpoints: what is saved, when, and what the next holder gets (S23 to S27).

use super::rig::{
    ANN, BOB, CAT, Rig, is_granted, loss, millis, not_confirmed, outage, released, saved, secs,
    terms, text,
};
use super::table::failed;
use crate::hold::{
    Action, Answer, Event, Failure, LossReason, NotConfirmed, Notice, Request, SaveOutcome,
    StoreFailure, StoreFailureKind, Terms,
};
use crate::record::Record;

fn is_saved(outcome: Option<SaveOutcome>) -> bool {
    matches!(outcome, Some(SaveOutcome::Saved { .. }))
}

#[test]
fn s23_a_save_is_one_request_and_the_next_grant_has_it() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    assert_eq!(grant.checkpoint, None);
    rig.save(ANN, 1, "page 7");
    assert_eq!(rig.sent.len(), 1, "{:?}", rig.sent);
    rig.serve();
    assert_eq!(
        saved(&rig.told(), 1),
        Some(SaveOutcome::Saved { version: Some(grant.token.value()) })
    );
    rig.release_of(ANN, &grant);
    rig.serve();
    rig.told();
    rig.pass_served(secs(1));
    let next = rig.grant(BOB, terms());
    let (value, version) = next.checkpoint.as_ref().map(text).unwrap();
    assert_eq!((value.as_str(), version), ("page 7", grant.token.value()));
    // S23: versions grow with each save.
    rig.save(BOB, 2, "page 8");
    rig.serve();
    assert_eq!(
        saved(&rig.told(), 2),
        Some(SaveOutcome::Saved { version: Some(next.token.value()) })
    );
}

#[test]
fn s25_a_grant_has_the_checkpoint_that_its_token_was_written_over() {
    let (mut ann, mut bob) = Rig::pair();
    let grant = ann.grant(ANN, terms());
    ann.release_of(ANN, &grant);
    ann.serve();
    // Bob's sidecar acquires knowing an old record; a save that lies between is read again, not lost.
    let first = bob.grant(BOB, terms());
    assert_eq!(first.checkpoint, None);
    bob.release_of(BOB, &first);
    bob.serve();
    let grant = ann.grant(ANN, terms());
    ann.save(ANN, 1, "page 7");
    ann.serve();
    ann.release_of(ANN, &grant);
    ann.serve();
    bob.told();
    let second = bob.grant(BOB, terms());
    assert_eq!(
        second.checkpoint.as_ref().map(text).map(|(value, _)| value).as_deref(),
        Some("page 7")
    );
}

#[test]
fn s25_a_hand_off_passes_the_checkpoint_from_memory() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, terms());
    rig.save(ANN, 1, "page 7");
    rig.serve();
    rig.release_of(ANN, &grant);
    assert!(rig.sent.is_empty(), "a hand-off asks nothing of the store");
    let handed = rig.granted(BOB);
    assert_eq!(
        handed.checkpoint.as_ref().map(text).map(|(value, _)| value).as_deref(),
        Some("page 7")
    );
    // The record is that of the new holder once it saves.
    rig.save(BOB, 2, "page 8");
    rig.pass_served(secs(1));
    assert_eq!(rig.record().token, Some(handed.token));
    assert!(is_saved(saved(&rig.told(), 2)));
}

#[test]
fn s26_a_save_that_waits_is_replaced_by_a_newer_one() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    for (id, value) in [(1, "a"), (2, "b"), (3, "c")] {
        rig.save(ANN, id, value);
    }
    assert_eq!(rig.sent.len(), 1, "one record write in flight a path");
    rig.serve();
    assert!(is_saved(saved(&rig.told(), 1)));
    assert_eq!(rig.checkpoint().map(|(value, _)| value).as_deref(), Some("a"));
    rig.pass_served(millis(999));
    assert_eq!(rig.checkpoint().map(|(value, _)| value).as_deref(), Some("a"), "one a second");
    rig.pass_served(millis(1));
    assert_eq!(rig.checkpoint().map(|(value, _)| value).as_deref(), Some("c"));
    let told = rig.told();
    assert_eq!(saved(&told, 2), saved(&told, 3), "answered with the newer one's outcome");
    assert!(is_saved(saved(&told, 2)));
}

#[test]
fn s26_a_release_waits_for_its_save_and_for_nothing_else() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, terms());
    rig.save(ANN, 1, "a");
    rig.serve();
    rig.told();
    // Less than a second later: the save of a release waits for no limit.
    rig.save(ANN, 2, "b");
    rig.release_of(ANN, &grant);
    assert!(!is_granted(&rig.told(), BOB), "a hand-off comes after the save");
    let save = rig.request();
    assert!(matches!(save, Action::Store { what: Request::Write { .. }, .. }), "{save:?}");
    assert!(rig.sent.is_empty(), "the release comes after the save");
    rig.serve_one(&save);
    let told = rig.told();
    assert!(is_saved(saved(&told, 2)) && is_granted(&told, BOB), "{told:?}");
    assert_eq!(released(&told, ANN), Some(None));
}

#[test]
fn s26_if_the_save_fails_the_release_still_happens() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.save(ANN, 1, "a");
    rig.release_of(ANN, &grant);
    let refused = StoreFailure {
        kind: StoreFailureKind::Denied,
        message: "no right to write".to_owned(),
        retry_after: None,
    };
    rig.fail(Failure::Refused(refused.clone()));
    rig.serve();
    let told = rig.told();
    assert_eq!(saved(&told, 1), Some(SaveOutcome::NotSaved(refused)));
    assert_eq!(released(&told, ANN), Some(None));
    assert!(!rig.is_leased());
}

#[test]
fn s24_a_save_under_a_lease_that_is_gone_ends_the_hold() {
    for (failure, reason) in
        [(Failure::Taken, LossReason::Taken), (Failure::Deleted, LossReason::LockDeleted)]
    {
        let (mut rig, _) = Rig::with_holder(ANN, terms());
        rig.save(ANN, 1, "late");
        rig.fail(failure);
        let told = rig.told();
        assert_eq!((saved(&told, 1), loss(&told, ANN)), (Some(SaveOutcome::Ended), Some(reason)));
    }
}

#[test]
fn s24_who_does_not_hold_the_lock_saves_nothing() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, terms());
    rig.save(BOB, 1, "not mine");
    assert_eq!(saved(&rig.told(), 1), Some(SaveOutcome::Ended));
    rig.release_of(ANN, &grant);
    rig.save(ANN, 2, "too late");
    assert_eq!(saved(&rig.told(), 2), Some(SaveOutcome::Ended));
    assert!(rig.sent.is_empty(), "{:?}", rig.sent);
}

#[test]
fn s27_a_save_whose_answer_was_lost_is_known_by_its_name() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.save(ANN, 1, "page 7");
    let save = rig.request();
    let _lost = rig.do_in_store(&save);
    rig.on(Event::TimePassed);
    // Repeated with the same If-Match, it meets its own write.
    rig.pass_served(secs(4));
    assert!(is_saved(saved(&rig.told(), 1)));
    assert_eq!(rig.checkpoint().map(|(value, _)| value).as_deref(), Some("page 7"));
    rig.pass_served(secs(40));
    assert_eq!(loss(&rig.told(), ANN), None, "the hold goes on");
}

#[test]
fn s27_an_unknown_outcome_is_repeated_with_the_same_condition() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.save(ANN, 1, "page 7");
    let Action::Store { what: Request::Write { if_match: first, fields: written, .. }, .. } =
        rig.request()
    else {
        panic!()
    };
    rig.pass(secs(4));
    let again = rig.sent.iter().find_map(|action| match action {
        Action::Store { what: Request::Write { if_match, fields, .. }, .. } => {
            Some((if_match.clone(), fields.clone()))
        }
        _ => None,
    });
    assert_eq!(again, Some((first, written)));
}

#[test]
fn s27_nothing_is_handed_on_while_a_write_is_unknown() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, terms());
    rig.save(ANN, 1, "page 7");
    rig.fail(outage());
    rig.release_of(ANN, &grant);
    rig.pass_failing(secs(5));
    assert!(!is_granted(&rig.told(), BOB));
    rig.pass_served(secs(3));
    let told = rig.told();
    assert!(is_saved(saved(&told, 1)), "{told:?}");
    assert!(is_granted(&told, BOB));
}

#[test]
fn s27_still_unknown_at_the_end_is_told_as_that() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.save(ANN, 1, "page 7");
    rig.fail(outage());
    rig.pass_failing(grant.valid_until - rig.at());
    let told = rig.told();
    assert_eq!(saved(&told, 1), Some(SaveOutcome::Unknown));
    assert_eq!(loss(&told, ANN), Some(LossReason::Expired));
}

#[test]
fn s27_another_grant_in_the_record_means_that_the_hold_is_lost() {
    let (mut ann, bob) = Rig::pair();
    ann.grant(ANN, terms());
    let record = Record { lease: Some("another".to_owned()), ..ann.record() };
    let fields = record.into_fields(ann.table().fields().clone());
    for (name, value) in fields {
        bob.table_mut().set(&name, &value);
    }
    ann.save(ANN, 1, "page 7");
    ann.serve();
    let told = ann.told();
    assert_eq!(
        (saved(&told, 1), loss(&told, ANN)),
        (Some(SaveOutcome::Ended), Some(LossReason::Taken))
    );
}

#[test]
fn s26_saves_and_renewals_do_not_meet() {
    let terms = Terms { lease_duration: secs(15), ..terms() };
    let (mut rig, _) = Rig::with_holder(ANN, terms);
    for id in 0..60 {
        rig.save(ANN, id, &id.to_string());
        rig.pass(millis(500));
        while let Some(action) = rig.sent.pop_front() {
            let changed = !matches!(action, Action::Store { what: Request::Read, .. });
            assert!(changed, "neither makes the other's version old");
            rig.serve_one(&action);
        }
    }
    let told = rig.told();
    assert_eq!(loss(&told, ANN), None);
    assert!(
        told.iter()
            .any(|action| matches!(action, Action::Tell { notice: Notice::Renewed { .. }, .. }))
    );
}

#[test]
fn s26_a_holder_that_goes_away_leaves_what_it_saved() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.save(ANN, 1, "page 7");
    rig.leave(ANN);
    rig.arrive(CAT, terms());
    rig.serve();
    let grant = rig.granted(CAT);
    assert_eq!(
        grant.checkpoint.as_ref().map(text).map(|(value, _)| value).as_deref(),
        Some("page 7")
    );
}

#[test]
fn s16_s27_a_resume_here_answers_a_save_that_is_under_way() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.save(ANN, 1, "page 7");
    let save = rig.request();
    rig.silent(ANN);
    rig.resume(BOB, &grant, terms(), secs(10));
    assert_eq!(saved(&rig.told(), 1), Some(SaveOutcome::Unknown));
    // The save was done just before the resume's own write: that is read, and kept.
    let late = rig.do_in_store(&save);
    rig.on(late);
    rig.pass_served(secs(1));
    let resumed = rig.granted(BOB);
    assert_eq!(
        resumed.checkpoint.as_ref().map(text).map(|(value, _)| value).as_deref(),
        Some("page 7")
    );
}

#[test]
fn s26_the_last_save_waits_for_a_renewal_no_longer_than_for_its_answer() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.pass(secs(6));
    let renewal = rig.request();
    assert!(matches!(renewal, Action::Store { what: Request::Renew { .. }, .. }), "{renewal:?}");
    rig.save(ANN, 1, "page 7");
    rig.release_of(ANN, &grant);
    assert!(rig.sent.is_empty(), "both go by the record's version");
    // D/6 later the renewal is given up; its answer never comes.
    rig.pass_served(millis(2_500));
    let told = rig.told();
    assert!(is_saved(saved(&told, 1)), "{told:?}");
    assert_eq!(released(&told, ANN), Some(None));
}

#[test]
fn s26_a_save_waits_for_a_renewal_that_is_held_back_and_the_last_one_does_not() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.pass(secs(6));
    let Action::Store { request, what: Request::Renew { .. }, .. } = rig.request() else {
        panic!("no renewal")
    };
    rig.on(Event::RenewHeldBack { request });
    rig.save(ANN, 1, "page 7");
    rig.pass(secs(2));
    assert!(rig.sent.is_empty(), "the renewal could not be sent when its turn comes");
    rig.release_of(ANN, &grant);
    rig.pass_served(millis(1));
    let told = rig.told();
    assert!(is_saved(saved(&told, 1)), "{told:?}");
    assert_eq!(released(&told, ANN), Some(None));
}

#[test]
fn s26_a_save_waits_no_longer_for_a_read_whose_answer_is_lost() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.pass(secs(6));
    let Action::Store { request, what: Request::Renew { .. }, .. } = rig.request() else {
        panic!("no renewal")
    };
    rig.on(Event::Answer { request, answer: Answer::Renew(Err(Failure::Changed)) });
    let read = rig.request();
    assert!(matches!(read, Action::Store { what: Request::Read, .. }), "{read:?}");
    rig.save(ANN, 1, "page 7");
    rig.release_of(ANN, &grant);
    rig.pass_served(millis(2_500));
    let told = rig.told();
    assert!(is_saved(saved(&told, 1)), "{told:?}");
    assert_eq!(released(&told, ANN), Some(None));
}

#[test]
fn s25_a_read_from_before_a_save_does_not_take_it_back() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, terms());
    // A renewal is given up, its answer comes late: the record is read to see why.
    rig.pass(secs(6));
    let Action::Store { request, what: Request::Renew { .. }, .. } = rig.request() else {
        panic!("no renewal")
    };
    rig.save(ANN, 1, "page 7");
    rig.pass(millis(2_500));
    let save = rig.request();
    assert!(matches!(save, Action::Store { what: Request::Write { .. }, .. }), "{save:?}");
    rig.on(Event::Answer { request, answer: Answer::Renew(Err(Failure::Changed)) });
    let read = rig.request();
    let old = rig.do_in_store(&read);
    rig.serve_one(&save);
    assert!(is_saved(saved(&rig.told(), 1)));
    rig.on(old);
    rig.serve();
    rig.release_of(ANN, &grant);
    let handed = rig.granted(BOB);
    assert_eq!(
        handed.checkpoint.as_ref().map(text).map(|(value, _)| value).as_deref(),
        Some("page 7")
    );
}

#[test]
fn s27_a_save_whose_repeat_came_first_is_not_told_as_not_done() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.save(ANN, 1, "page 7");
    let save = rig.request();
    // The network has repeated it: it is done, and answered as changed.
    rig.do_in_store(&save);
    rig.serve_one(&save);
    let read = rig.request();
    assert!(matches!(read, Action::Store { what: Request::Read, .. }), "{read:?}");
    rig.on(Event::LeaseBroken { ends_now: true });
    assert_eq!(saved(&rig.told(), 1), Some(SaveOutcome::Unknown));
}

#[test]
fn s13_a_release_after_an_unsettled_save_is_not_told_as_a_loss() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.save(ANN, 1, "page 7");
    let save = rig.request();
    rig.do_in_store(&save);
    rig.release_of(ANN, &grant);
    // No answer comes until the validity is over; then the release meets the record that the save has
    // changed.
    rig.pass(grant.valid_until - rig.at());
    assert_eq!(saved(&rig.told(), 1), Some(SaveOutcome::Unknown));
    let release = rig.sent.pop_back().unwrap();
    assert!(matches!(release, Action::Store { what: Request::Release { .. }, .. }), "{release:?}");
    rig.sent.clear();
    rig.serve_one(&release);
    rig.pass_failing(secs(5));
    let told = rig.told();
    assert_eq!((loss(&told, ANN), released(&told, ANN)), (None, None), "{told:?}");
    assert_eq!(not_confirmed(&told, ANN), Some(NotConfirmed::NoAnswer));
}

#[test]
fn s27_a_save_from_before_a_resume_is_not_written() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.silent(ANN);
    rig.resume(BOB, &grant, terms(), secs(13));
    rig.serve();
    let resumed = rig.granted(BOB);
    assert_eq!(resumed.generation, grant.generation + 1);
    // The client has not read that, and releases what it had.
    rig.save_of(BOB, 1, &grant);
    assert!(rig.sent.is_empty(), "{:?}", rig.sent);
    assert_eq!(saved(&rig.told(), 1), Some(SaveOutcome::Ended));
    rig.save_of(BOB, 2, &resumed);
    rig.serve();
    assert!(is_saved(saved(&rig.told(), 2)));
}

#[test]
fn s13_s27_a_save_is_repeated_over_an_earlier_one_that_was_refused_and_came_late() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, terms());
    rig.save(ANN, 1, "page 6");
    let refused = rig.request();
    let policy = StoreFailure {
        kind: StoreFailureKind::StoreFailed,
        message: "archived".to_owned(),
        retry_after: None,
    };
    rig.on(failed(&refused, Failure::Refused(policy)).unwrap());
    // The network has carried it twice.
    rig.do_in_store(&refused);
    rig.save(ANN, 2, "page 7");
    rig.pass_served(secs(5));
    let told = rig.told();
    assert!(is_saved(saved(&told, 2)), "{told:?}");
    assert_eq!(loss(&told, ANN), None);
    rig.release_of(ANN, &grant);
    let handed = rig.granted(BOB);
    let value = handed.checkpoint.as_ref().map(text).map(|(value, _)| value);
    assert_eq!(value.as_deref(), Some("page 7"));
}

#[test]
fn s26_a_store_that_always_says_changed_is_not_asked_without_a_pause() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.save(ANN, 1, "page 7");
    rig.release_of(ANN, &grant);
    let mut writes = 0;
    for _ in 0..1_000 {
        while let Some(action) = rig.sent.pop_front() {
            let is_write = matches!(action, Action::Store { what: Request::Write { .. }, .. });
            writes += usize::from(is_write);
            match is_write.then(|| failed(&action, Failure::Changed)).flatten() {
                Some(event) => rig.on(event),
                None => rig.serve_one(&action),
            }
        }
        rig.pass(millis(20));
    }
    // D/30 to D/12 between two of them, for as long as the hold is valid.
    assert!((3..=31).contains(&writes), "{writes}");
    assert!(saved(&rig.told(), 1).is_some());
}

#[test]
fn s10_s11_s16_a_save_leaves_what_the_record_says_of_its_grant() {
    let mut rig = Rig::new();
    rig.arrive(ANN, Terms { min_hold: secs(40), ..terms() });
    rig.arrive(BOB, terms());
    rig.serve();
    let grant = rig.granted(ANN);
    rig.restart();
    rig.resume_as(CAT, &grant, "a try");
    rig.serve();
    let before = rig.record();
    assert!(before.handed_on && before.resting_for == Some(secs(40)) && before.attempt == "a try");
    rig.save(CAT, 1, "page 7");
    rig.serve();
    assert!(is_saved(saved(&rig.told(), 1)));
    let after = rig.record();
    assert_ne!(after.write, before.write);
    assert_eq!(Record { write: before.write.clone(), ..after }, before);
}

#[test]
fn s27_a_save_of_a_hold_that_is_over_is_told_as_not_done_unless_there_is_a_newer_one() {
    for (newer, outcome) in [(false, SaveOutcome::Ended), (true, SaveOutcome::Unknown)] {
        let (mut ann, mut bob) = Rig::pair();
        ann.grant(ANN, terms());
        ann.save(ANN, 1, "page 6");
        ann.pass_served(secs(1));
        ann.save(ANN, 2, "page 7");
        ann.fail(outage());
        ann.table_mut().break_now();
        bob.now = ann.now;
        bob.grant(BOB, terms());
        if newer {
            bob.save(BOB, 3, "page 9");
            bob.serve();
        }
        // It is sent again, and what stands there is read.
        while !matches!(ann.sent.front(), Some(Action::Store { what: Request::Write { .. }, .. })) {
            ann.pass(millis(10));
        }
        ann.fail(Failure::Changed);
        ann.serve();
        assert_eq!(saved(&ann.told(), 2), Some(outcome));
    }
}

#[test]
fn s16_s27_a_save_that_was_done_before_its_hold_went_on_elsewhere_is_told_as_saved() {
    let (mut ann, mut bob) = Rig::pair();
    let grant = ann.grant(ANN, terms());
    ann.save(ANN, 1, "page 7");
    let save = ann.request();
    let _lost = ann.do_in_store(&save);
    bob.now = ann.now;
    bob.resume(BOB, &grant, terms(), secs(9));
    bob.serve();
    // The record has another name of a write by now, and the checkpoint that was saved.
    ann.pass_served(secs(4));
    assert!(is_saved(saved(&ann.told(), 1)));
}

/// Both go by the version of the record.
#[test]
fn s26_a_renewal_waits_for_the_answer_to_a_save() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass_served(millis(3_500));
    rig.save(ANN, 1, "page 7");
    let write = rig.request();
    rig.pass(secs(2));
    assert!(rig.sent.is_empty(), "a renewal is due: {:?}", rig.sent);
    rig.serve_one(&write);
    let renewal = rig.request();
    assert!(matches!(renewal, Action::Store { what: Request::Renew { .. }, .. }), "{renewal:?}");
}
