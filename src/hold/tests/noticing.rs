//! A lease that was broken and runs out: what its holder is told, and what it can still do (S22).

use super::rig::{
    ANN, BOB, Rig, is_granted, loss, millis, outage, released, revoked, saved, secs, terms,
};
use crate::hold::{
    Action, Event, Failure, LossReason, NoteSeen, Notice, Request, RequestId, SaveOutcome, Terms,
};
use crate::lock::FencingToken;

/// A rig whose holder was told that its lease runs out.
fn with_notice() -> (Rig, crate::hold::Granted) {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.break_softly(&grant);
    rig.pass_served(secs(6));
    assert!(revoked(&rig.told(), ANN).is_some());
    (rig, grant)
}

#[test]
fn s22_a_holder_whose_lease_runs_out_is_told_its_deadline() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.break_softly(&grant);
    rig.pass_served(secs(6));
    let told = rig.told();
    assert_eq!(revoked(&told, ANN), Some(grant.valid_until), "{told:?}");
    assert_eq!(loss(&told, ANN), None);
    assert_eq!(rig.hold.state(), "revoked");
    assert_eq!(rig.hold.validity(ANN), Some(grant.valid_until));
    // At the end it is lost, and not before.
    let left = grant.valid_until - rig.at();
    rig.pass_served(left - millis(1));
    assert_eq!(loss(&rig.told(), ANN), None);
    rig.pass_served(millis(1));
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::Broken));
}

#[test]
fn s22_a_break_without_a_note_of_this_grant_is_a_loss() {
    let other = FencingToken::from_u64(4_096).unwrap();
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    let notes = [
        None,
        Some(NoteSeen { token: None, runs_out: true, for_priority: None }),
        Some(NoteSeen { token: Some(other), runs_out: true, for_priority: None }),
        Some(NoteSeen { token: Some(grant.token), runs_out: false, for_priority: None }),
    ];
    rig.pass(secs(1));
    for note in notes {
        let (mut rig, _) = Rig::with_holder(ANN, terms());
        rig.table_mut().break_softly(note);
        rig.pass_served(secs(6));
        let told = rig.told();
        assert_eq!(
            (revoked(&told, ANN), loss(&told, ANN)),
            (None, Some(LossReason::Broken)),
            "{note:?}"
        );
    }
}

#[test]
fn s22_a_note_is_about_what_was_handed_on_from_its_grant() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, terms());
    rig.release_of(ANN, &grant);
    let handed = rig.granted(BOB);
    assert_eq!(handed.token.epoch(), grant.token.epoch());
    rig.break_softly(&grant);
    rig.pass_served(secs(6));
    assert!(revoked(&rig.told(), BOB).is_some());
}

#[test]
fn s22_nothing_is_renewed_or_handed_on_after_the_notice() {
    let (mut rig, grant) = with_notice();
    rig.arrive(BOB, terms());
    rig.sent.clear();
    for _ in 0..7 {
        rig.pass(secs(1));
        while let Some(action) = rig.sent.pop_front() {
            assert!(
                matches!(action, Action::Store { what: Request::Look { note: false, .. }, .. }),
                "{action:?}"
            );
            rig.serve_one(&action);
        }
    }
    rig.release_of(ANN, &grant);
    assert!(!is_granted(&rig.told(), BOB), "not without the store");
    let release = rig.request();
    assert!(matches!(release, Action::Store { what: Request::Release { .. }, .. }), "{release:?}");
    rig.serve_one(&release);
    let told = rig.told();
    assert_eq!(released(&told, ANN), Some(None));
    // The release frees the lock at once.
    rig.serve();
    assert!(is_granted(&rig.told(), BOB));
}

#[test]
fn s22_a_lease_that_runs_out_is_looked_at_each_second_or_thirtieth() {
    for (seconds, every) in [(15, millis(1_000)), (60, millis(2_000))] {
        let terms = Terms { lease_duration: secs(seconds), ..terms() };
        let (mut rig, grant) = Rig::with_holder(ANN, terms);
        rig.break_softly(&grant);
        rig.pass_served(secs(seconds) * 2 / 5);
        assert!(revoked(&rig.told(), ANN).is_some());
        let mut looks = Vec::new();
        let mut at = rig.now;
        while at < grant.valid_until.since_boot() - every {
            rig.pass(every / 10);
            at = rig.now;
            while let Some(action) = rig.sent.pop_front() {
                looks.push(at);
                rig.serve_one(&action);
            }
        }
        let gaps: Vec<_> = looks.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(
            gaps.len() > 3 && gaps.iter().all(|gap| *gap >= every && *gap <= every * 6 / 5),
            "{gaps:?}"
        );
    }
}

#[test]
fn s22_a_later_break_that_ends_the_lease_at_once_is_learned() {
    let (mut rig, _) = with_notice();
    rig.table_mut().break_now();
    rig.pass_served(millis(1_000));
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::Broken));
}

#[test]
fn s22_two_looks_in_a_row_without_an_answer_end_the_hold() {
    let (mut rig, _) = with_notice();
    rig.pass(millis(1_500));
    assert_eq!(loss(&rig.told(), ANN), None);
    rig.pass(millis(1_600));
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::Broken));
    // So do two that fail.
    let (mut rig, _) = with_notice();
    for failed in 1..=2 {
        assert_eq!(loss(&rig.told(), ANN), None, "before look {failed}");
        rig.pass(millis(1_000));
        rig.fail(outage());
    }
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::Broken));
    // One that fails between two that succeed ends nothing.
    let (mut rig, _) = with_notice();
    for _ in 0..3 {
        rig.pass(millis(1_000));
        rig.fail(outage());
        rig.pass_served(millis(1_000));
    }
    assert_eq!(loss(&rig.told(), ANN), None);
}

#[test]
fn s22_a_lock_that_was_deleted_meanwhile_is_lost_as_such() {
    let (mut rig, _) = with_notice();
    rig.pass(millis(1_000));
    rig.fail(Failure::Deleted);
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::LockDeleted));
}

#[test]
fn s22_a_break_through_this_sidecar_is_told_at_once() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.pass_served(secs(1));
    rig.break_softly(&grant);
    rig.on(Event::LeaseBroken { ends_now: false });
    rig.serve();
    assert!(revoked(&rig.told(), ANN).is_some());
    rig.on(Event::LeaseBroken { ends_now: true });
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::Broken));
}

#[test]
fn s22_a_break_through_this_sidecar_that_was_of_another_lease_ends_nothing() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.on(Event::LeaseBroken { ends_now: false });
    rig.serve();
    let told = rig.told();
    assert_eq!((revoked(&told, ANN), loss(&told, ANN)), (None, None));
    assert_eq!(rig.hold.state(), "held");
    rig.pass_served(secs(40));
    assert_eq!(loss(&rig.told(), ANN), None, "it is renewed as before");
}

#[test]
fn s22_a_break_through_this_sidecar_that_met_another_tools_is_a_loss() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.table_mut().break_softly(None);
    rig.on(Event::LeaseBroken { ends_now: false });
    let look = rig.request();
    rig.serve_one(&look);
    let told = rig.told();
    assert_eq!((revoked(&told, ANN), loss(&told, ANN)), (None, Some(LossReason::Broken)));
}

#[test]
fn s11_s22_a_lock_whose_lease_runs_out_does_not_rest_under_it() {
    let (mut rig, grant) = Rig::with_holder(ANN, Terms { min_hold: secs(60), ..terms() });
    rig.break_softly(&grant);
    rig.pass_served(secs(6));
    assert!(revoked(&rig.told(), ANN).is_some());
    rig.release_of(ANN, &grant);
    let release = rig.request();
    assert!(matches!(release, Action::Store { what: Request::Release { .. }, .. }), "{release:?}");
}

#[test]
fn s22_a_hold_whose_lease_was_broken_is_not_resumed() {
    let (mut rig, grant) = with_notice();
    rig.silent(ANN);
    rig.resume(BOB, &grant, terms(), secs(5));
    let told = rig.told();
    assert_eq!(loss(&told, BOB), Some(LossReason::Broken));
    assert!(!is_granted(&told, BOB));
}

#[test]
fn s22_a_renewal_that_was_done_before_the_break_does_not_move_the_deadline() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.pass(secs(6));
    let renewal = rig.request();
    let late = rig.do_in_store(&renewal);
    rig.break_softly(&grant);
    rig.on(Event::LeaseBroken { ends_now: false });
    rig.serve();
    assert_eq!(revoked(&rig.told(), ANN), Some(grant.valid_until));
    rig.on(late);
    assert!(
        rig.told()
            .iter()
            .all(|action| !matches!(action, Action::Tell { notice: Notice::Renewed { .. }, .. }))
    );
    assert_eq!(rig.hold.validity(ANN), Some(grant.valid_until));
}

#[test]
fn s22_s26_a_holder_with_notice_saves_and_releases() {
    let (mut rig, grant) = with_notice();
    rig.save(ANN, 1, "page 7");
    rig.serve();
    assert!(matches!(saved(&rig.told(), 1), Some(SaveOutcome::Saved { .. })));
    rig.save(ANN, 2, "page 8");
    rig.release_of(ANN, &grant);
    rig.serve();
    let told = rig.told();
    assert!(matches!(saved(&told, 2), Some(SaveOutcome::Saved { .. })), "{told:?}");
    assert_eq!(released(&told, ANN), Some(None));
    assert_eq!(rig.checkpoint().map(|(value, _)| value).as_deref(), Some("page 8"));
    assert!(!rig.is_leased());
}

#[test]
fn s22_s26_a_save_after_a_notice_waits_for_no_renewal() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.pass(secs(6));
    let renewal = rig.request();
    assert!(matches!(renewal, Action::Store { what: Request::Renew { .. }, .. }), "{renewal:?}");
    rig.break_softly(&grant);
    rig.on(Event::LeaseBroken { ends_now: false });
    rig.serve();
    assert!(revoked(&rig.told(), ANN).is_some());
    // The renewal is never answered.
    rig.save(ANN, 1, "page 7");
    rig.pass_served(millis(2_500));
    let told = rig.told();
    assert!(matches!(saved(&told, 1), Some(SaveOutcome::Saved { .. })), "{told:?}");
}

#[test]
fn s22_a_look_from_before_a_save_does_not_take_it_back() {
    let (mut rig, grant) = with_notice();
    rig.pass(millis(1_000));
    let look = rig.request();
    let old = rig.do_in_store(&look);
    rig.save(ANN, 1, "page 7");
    rig.serve();
    rig.on(old);
    rig.save(ANN, 2, "page 8");
    rig.release_of(ANN, &grant);
    rig.serve();
    let told = rig.told();
    assert!(matches!(saved(&told, 2), Some(SaveOutcome::Saved { .. })), "{told:?}");
    assert_eq!((loss(&told, ANN), released(&told, ANN)), (None, Some(None)));
}

#[test]
fn s13_what_is_renewed_before_the_notice_is_told() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.pass(secs(6));
    let first = rig.request();
    let late = rig.do_in_store(&first);
    // It is given up, and the next one meets the broken lease.
    rig.pass(secs(3));
    rig.break_softly(&grant);
    let second = rig.request();
    rig.serve_one(&second);
    rig.on(late);
    let told = rig.told();
    let renewed = told.iter().find_map(|action| match action {
        Action::Tell { notice: Notice::Renewed { valid_until, .. }, .. } => Some(*valid_until),
        _ => None,
    });
    assert!(renewed.is_some(), "{told:?}");
    assert_eq!(rig.hold.validity(ANN), renewed);
    rig.serve();
    assert_eq!(revoked(&rig.told(), ANN), renewed);
}

#[test]
fn s22_s26_the_last_save_goes_on_when_the_lease_is_found_to_run_out() {
    for through_here in [false, true] {
        let (mut rig, grant) = Rig::with_holder(ANN, terms());
        rig.arrive(BOB, terms());
        rig.pass(secs(6));
        let renewal = rig.request();
        rig.break_softly(&grant);
        rig.save(ANN, 1, "page 7");
        rig.release_of(ANN, &grant);
        if through_here {
            rig.on(Event::LeaseBroken { ends_now: false });
        } else {
            rig.serve_one(&renewal);
        }
        let told = rig.told();
        assert_eq!(loss(&told, ANN), None, "{told:?}");
        rig.pass_served(millis(2_500));
        let told = rig.told();
        assert!(matches!(saved(&told, 1), Some(SaveOutcome::Saved { .. })), "{told:?}");
        assert_eq!(released(&told, ANN), Some(None));
    }
}

#[test]
fn s22_a_hold_is_not_called_revoked_before_its_note_was_read() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    // Another tool breaks the lease, and nobody knows when it ends.
    rig.table_mut().break_softly(None);
    rig.pass(secs(6));
    let renewal = rig.request();
    rig.serve_one(&renewal);
    let look = rig.request();
    assert!(matches!(look, Action::Store { what: Request::Look { .. }, .. }), "{look:?}");
    assert!(rig.hold.holding().is_some_and(|holding| holding.active && !holding.revoked));
    rig.serve_one(&look);
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::Broken));
}

#[test]
fn s22_who_is_silent_is_not_told_that_its_lease_runs_out() {
    let (mut rig, grant) = Rig::with_holder(ANN, Terms { resumable: true, ..terms() });
    rig.pass(secs(6));
    let renewal = rig.request();
    rig.silent(ANN);
    assert!(rig.hold.holding().is_some_and(|holding| holding.disconnected));
    rig.break_softly(&grant);
    rig.serve_one(&renewal);
    let told = rig.told();
    assert_eq!((revoked(&told, ANN), loss(&told, ANN)), (None, Some(LossReason::Broken)));
    assert!(!rig.hold.holding().is_some_and(|holding| holding.disconnected));
}

#[test]
fn s3_s22_a_lease_that_runs_out_is_looked_at_at_once_after_a_suspected_pause() {
    let (mut rig, _) = with_notice();
    rig.pass(millis(100));
    assert!(rig.sent.is_empty());
    rig.on(Event::PauseSuspected);
    assert!(matches!(rig.sent.front(), Some(Action::Store { what: Request::Look { .. }, .. })));
}

#[test]
fn s2_s22_what_answers_an_earlier_look_at_the_lease_says_nothing() {
    let (mut rig, _) = with_notice();
    rig.pass(secs(1));
    let asked = rig.request();
    rig.table_mut().break_now();
    let Event::Answer { request, answer } = rig.do_in_store(&asked) else { panic!("{asked:?}") };
    let earlier = RequestId(request.0 - 1);
    rig.on(Event::Answer { request: earlier, answer: answer.clone() });
    assert_eq!(loss(&rig.told(), ANN), None);
    rig.on(Event::Answer { request, answer });
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::Broken));
}
