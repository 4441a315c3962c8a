//! What is written at the end of a hold, or during it, with a checkpoint or without (T8).

use super::deciding::{Brings, Outcome, brings, runs};
use super::rig::{ANN, BOB, Rig, is_granted, loss, millis, outage, released, saved, secs, terms};
use super::table::failed;
use crate::hold::{
    Action, Failure, Granted, LossReason, Request, SaveOutcome, StoreFailure, StoreFailureKind,
};
use crate::record::Record;

fn recorded(rig: &Rig, name: &str) -> bool {
    rig.table().fields().contains_key(name)
}

/// A run of Ann's whose outcome is being recorded, and its release waits for that (S26).
fn ending() -> (Rig, Granted) {
    let (mut rig, grant) = Rig::with_holder(ANN, brings(Brings::Run));
    rig.record_outcome(ANN, 1, (None, Outcome("done")));
    rig.release_of(ANN, &grant);
    assert_eq!(rig.hold.state(), "saving");
    (rig, grant)
}

const BARE: SaveOutcome = SaveOutcome::Saved { version: None };

#[test]
fn t8_an_outcome_is_one_write_and_the_release_comes_after_it() {
    let (mut rig, grant) = ending();
    let write = rig.request();
    assert!(rig.sent.is_empty() && !recorded(&rig, "done"));
    rig.serve_one(&write);
    assert_eq!(saved(&rig.told(), 1), Some(BARE));
    assert!(recorded(&rig, "done"));
    assert_eq!(rig.record().token, Some(grant.token));
    rig.serve();
    assert!(released(&rig.told(), ANN).is_some() && !rig.is_leased());
    assert_eq!(runs(&rig).map(|(begun, _)| begun), Some(1));
}

#[test]
fn t8_an_outcome_and_a_checkpoint_are_one_write() {
    let (mut rig, grant) = Rig::with_holder(ANN, brings(Brings::Run));
    rig.record_outcome(ANN, 1, (Some("page 7"), Outcome("done")));
    assert_eq!(rig.sent.len(), 1);
    rig.serve();
    let version = Some(grant.token.value());
    assert_eq!(saved(&rig.told(), 1), Some(SaveOutcome::Saved { version }));
    assert!(recorded(&rig, "done"));
    assert_eq!(rig.checkpoint(), Some(("page 7".to_owned(), grant.token.value())));
    // A later checkpoint keeps what was recorded.
    rig.pass_served(secs(1));
    rig.save(ANN, 2, "page 8");
    rig.serve();
    assert!(recorded(&rig, "done") && runs(&rig).is_some());
}

#[test]
fn t8_what_stands_there_is_not_written_again() {
    let (mut rig, grant) = Rig::with_holder(ANN, brings(Brings::Run));
    rig.record_outcome(ANN, 1, (None, Outcome("done")));
    rig.serve();
    rig.pass_served(secs(1));
    rig.record_outcome(ANN, 2, (None, Outcome("done")));
    assert_eq!(saved(&rig.told(), 2), Some(SaveOutcome::Nothing));
    assert!(rig.sent.is_empty());
    rig.record_outcome(ANN, 3, (Some("page 7"), Outcome("done")));
    rig.serve();
    let version = Some(grant.token.value());
    assert_eq!(saved(&rig.told(), 3), Some(SaveOutcome::Saved { version }), "its checkpoint is");
}

#[test]
fn t8_a_release_does_not_wait_for_what_need_not_be_written() {
    let (mut rig, grant) = Rig::with_holder(ANN, brings(Brings::Run));
    rig.record_outcome(ANN, 1, (None, Outcome("done")));
    rig.record_outcome(ANN, 2, (None, Outcome("done")));
    rig.release_of(ANN, &grant);
    rig.serve();
    let told = rig.told();
    let outcomes = (saved(&told, 1), saved(&told, 2));
    assert_eq!(outcomes, (Some(BARE), Some(SaveOutcome::Nothing)));
    assert!(released(&told, ANN).is_some() && !rig.is_leased());
}

#[test]
fn t8_saves_that_wait_together_lose_no_part() {
    let (mut rig, _) = Rig::with_holder(ANN, brings(Brings::Run));
    rig.save(ANN, 1, "page 1");
    rig.record_outcome(ANN, 2, (Some("page 2"), Outcome("first")));
    rig.record_outcome(ANN, 3, (None, Outcome("second")));
    rig.record_outcome(ANN, 4, (None, Outcome("first")));
    rig.save(ANN, 5, "page 5");
    rig.serve();
    assert!(!recorded(&rig, "first"), "one write a second");
    rig.pass_served(secs(1));
    assert!(recorded(&rig, "first") && recorded(&rig, "second"));
    assert_eq!(rig.checkpoint().map(|(value, _)| value).as_deref(), Some("page 5"));
    let told = rig.told();
    for id in 2..=5 {
        assert!(matches!(saved(&told, id), Some(SaveOutcome::Saved { .. })), "{id}: {told:?}");
    }
}

#[test]
fn t8_what_another_call_is_about_to_write_does_not_stand_there_yet() {
    let (mut rig, _) = Rig::with_holder(ANN, brings(Brings::Run));
    rig.save(ANN, 1, "page 1");
    rig.serve();
    rig.record_outcome(ANN, 2, (None, Outcome("done")));
    rig.record_outcome(ANN, 3, (None, Outcome("done")));
    rig.pass(secs(1));
    let told = rig.told();
    assert_eq!((saved(&told, 2), saved(&told, 3)), (None, None), "nothing is stored");
    rig.pass(secs(15));
    let told = rig.told();
    assert_eq!(saved(&told, 2), Some(SaveOutcome::Unknown));
    assert_eq!(saved(&told, 3), Some(SaveOutcome::Unknown), "nor does it ever become known");
}

#[test]
fn t8_an_outcome_is_decided_over_the_record_as_it_is_when_its_write_begins() {
    let (mut rig, _) = Rig::with_holder(ANN, brings(Brings::Run));
    rig.record_outcome(ANN, 1, (None, Outcome("done")));
    let first = rig.request();
    rig.record_outcome(ANN, 2, (None, Outcome("done")));
    rig.serve_one(&first);
    rig.pass_served(secs(1));
    assert_eq!(saved(&rig.told(), 2), Some(SaveOutcome::Nothing));
}

#[test]
fn s27_an_outcome_whose_answer_was_lost_is_found_by_the_name_of_its_write() {
    let (mut rig, _) = ending();
    let write = rig.request();
    rig.do_in_store(&write);
    rig.on(failed(&write, outage()).unwrap());
    assert_eq!(saved(&rig.told(), 1), None);
    rig.pass_served(secs(2));
    let told = rig.told();
    assert_eq!(saved(&told, 1), Some(BARE));
    assert!(released(&told, ANN).is_some() && !rig.is_leased());
}

#[test]
fn s27_an_outcome_that_was_written_is_told_also_where_the_hold_went_on_elsewhere() {
    let (mut rig, mut other) = Rig::pair();
    let grant = rig.grant(ANN, brings(Brings::Run));
    rig.record_outcome(ANN, 1, (None, Outcome("done")));
    let write = rig.request();
    rig.do_in_store(&write);
    rig.on(failed(&write, outage()).unwrap());
    other.resume(BOB, &grant, terms(), secs(10));
    other.serve();
    other.granted(BOB);
    assert_ne!(rig.record(), Record::default());
    rig.pass_served(secs(3));
    assert_eq!(saved(&rig.told(), 1), Some(BARE), "what it has left stands there");
}

#[test]
fn s27_an_outcome_that_nobody_answers_stays_unknown_and_nothing_lands_later() {
    let (mut rig, _) = ending();
    rig.pass(secs(15));
    assert_eq!(saved(&rig.told(), 1), Some(SaveOutcome::Unknown));
    rig.pass_served(secs(5));
    assert!(!rig.is_leased());
}

#[test]
fn s26_an_outcome_that_the_store_refuses_keeps_no_lease() {
    let (mut rig, _) = ending();
    let refusal = StoreFailure {
        kind: StoreFailureKind::Denied,
        message: "no".to_owned(),
        retry_after: None,
    };
    rig.fail(Failure::Refused(refusal.clone()));
    assert_eq!(saved(&rig.told(), 1), Some(SaveOutcome::NotSaved(refusal)));
    rig.serve();
    assert!(released(&rig.told(), ANN).is_some() && !rig.is_leased());
}

#[test]
fn s24_who_has_lost_the_lease_records_nothing() {
    let (mut rig, _) = Rig::with_holder(ANN, brings(Brings::Run));
    rig.table_mut().break_now();
    rig.record_outcome(ANN, 1, (None, Outcome("done")));
    rig.serve();
    let told = rig.told();
    assert_eq!(saved(&told, 1), Some(SaveOutcome::Ended));
    assert_eq!(loss(&told, ANN), Some(LossReason::Taken));
    assert!(!recorded(&rig, "done"));
    rig.record_outcome(ANN, 2, (None, Outcome("done")));
    assert_eq!(saved(&rig.told(), 2), Some(SaveOutcome::Ended));
}

#[test]
fn s13_an_outcome_that_met_a_late_write_of_ours_is_recorded_over_it() {
    let (mut rig, _) = Rig::with_holder(ANN, brings(Brings::Run));
    rig.table_mut().touch();
    rig.record_outcome(ANN, 1, (None, Outcome("done")));
    rig.serve();
    assert_eq!(saved(&rig.told(), 1), None, "it waits for its turn again");
    rig.pass_served(secs(5));
    let told = rig.told();
    assert_eq!(loss(&told, ANN), None, "{told:?}");
    assert!(matches!(saved(&told, 1), Some(SaveOutcome::Saved { .. })), "{told:?}");
    assert!(recorded(&rig, "done"));
}

#[test]
fn s27_an_outcome_may_have_been_recorded_and_written_over_since() {
    let (mut rig, mut other) = Rig::pair();
    rig.grant(ANN, brings(Brings::Run));
    rig.record_outcome(ANN, 1, (None, Outcome("done")));
    let write = rig.request();
    rig.on(failed(&write, outage()).unwrap());
    rig.table_mut().break_now();
    other.grant(BOB, terms());
    rig.pass(millis(2_000));
    while let Some(action) = rig.sent.pop_front() {
        // A store that says "changed" before it looks at the lease.
        let changed = matches!(action, Action::Store { what: Request::Write { .. }, .. });
        match changed.then(|| failed(&action, Failure::Changed)).flatten() {
            Some(event) => rig.on(event),
            None => rig.serve_one(&action),
        }
    }
    let told = rig.told();
    assert_eq!(saved(&told, 1), Some(SaveOutcome::Unknown));
    assert_eq!(loss(&told, ANN), Some(LossReason::Taken));
    assert!(!is_granted(&told, BOB));
}
