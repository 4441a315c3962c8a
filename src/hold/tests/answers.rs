//! Answers that come late, or to requests of others: S2, S4, S6, S13.

use std::time::Duration;

use super::rig::{
    ANN, BOB, CAT, Rig, loss, millis, not_confirmed, outage, released, secs, store_failure, terms,
};
use super::table::{Table, failed};
use crate::hold::{
    Action, Answer, Event, Failure, LeaseGranted, LossReason, NotConfirmed, Notice, Remark,
    Request, RequestId, StoreFailureKind, Stored, Terms,
};
use crate::record::{ETag, Fields};

/// Answers to a request that was never sent.
fn strangers(now: Duration) -> Vec<Event> {
    let request = RequestId(10_000);
    let etag = || ETag("\"9\"".into());
    let time = Table::time(now);
    let stored = Stored { etag: etag(), fields: Fields::new(), free: true, time };
    let granted = LeaseGranted { etag: etag(), time, created: true };
    let mut events = vec![
        Event::Answer { request, answer: Answer::Acquire { lease: Ok(granted), read: None } },
        Event::Answer { request, answer: Answer::Read(Ok(stored)) },
        Event::Answer { request, answer: Answer::Write(Ok(etag())) },
        Event::Answer { request, answer: Answer::Renew(Ok(time)) },
        Event::Answer { request, answer: Answer::Release(Ok(())) },
    ];
    for failure in [Failure::Contended, Failure::Taken, Failure::Deleted, Failure::Changed] {
        events.push(Event::Answer {
            request,
            answer: Answer::Acquire { lease: Err(failure.clone()), read: None },
        });
        events.push(Event::Answer { request, answer: Answer::Read(Err(failure.clone())) });
        events.push(Event::Answer { request, answer: Answer::Write(Err(failure.clone())) });
        events.push(Event::Answer { request, answer: Answer::Renew(Err(failure.clone())) });
        events.push(Event::Answer { request, answer: Answer::Release(Err(failure)) });
    }
    events
}

/// Strangers' answers change nothing of a machine in this state.
fn hears_no_strangers(rig: &mut Rig, state: &str) {
    assert_eq!(rig.hold.state(), state);
    rig.on(Event::TimePassed);
    let (before, sent) = (format!("{:?}", rig.hold), rig.sent.len());
    rig.told();
    for event in strangers(rig.now) {
        let what = format!("{event:?}");
        rig.on(event);
        assert_eq!(format!("{:?}", rig.hold), before, "{state}: {what}");
        assert_eq!((rig.told(), rig.sent.len()), (Vec::new(), sent), "{state}: {what}");
    }
}

fn serve_next(rig: &mut Rig) {
    let action = rig.request();
    rig.serve_one(&action);
}

#[test]
fn s2_an_answer_to_another_request_changes_nothing() {
    let (mut rig, mut other) = Rig::pair();
    hears_no_strangers(&mut rig, "idle");
    // The record is read before it is written: somebody had the lock before.
    other.grant(ANN, terms());
    other.release(ANN);
    other.serve();
    rig.arrive(ANN, terms());
    hears_no_strangers(&mut rig, "acquiring");
    serve_next(&mut rig);
    hears_no_strangers(&mut rig, "storing");
    // The outcome of the write is unknown, and so the record is read.
    rig.fail(outage());
    rig.pass(millis(1_300));
    rig.fail(Failure::Changed);
    assert!(
        matches!(rig.sent.front(), Some(Action::Store { what: Request::Read, .. })),
        "{:?}",
        rig.sent
    );
    hears_no_strangers(&mut rig, "storing");
    rig.serve();
    let grant = rig.granted(ANN);
    rig.pass(secs(6));
    hears_no_strangers(&mut rig, "held");
    rig.fail(Failure::Changed);
    hears_no_strangers(&mut rig, "held");
    rig.serve();
    rig.release(ANN);
    hears_no_strangers(&mut rig, "releasing");
    rig.fail(Failure::Changed);
    hears_no_strangers(&mut rig, "releasing");
    rig.sent.clear();
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(9));
    for state in ["idle", "resuming", "resuming"] {
        hears_no_strangers(&mut rig, state);
        serve_next(&mut rig);
    }
    assert_eq!(rig.hold.state(), "held");
}

#[test]
fn s2_the_answer_to_a_read_that_was_given_up_is_not_taken_for_a_later_ones() {
    let (mut rig, mut other) = Rig::pair();
    rig.grant(ANN, terms());
    other.arrive(CAT, terms());
    serve_next(&mut other);
    while !matches!(other.sent.front(), Some(Action::Store { what: Request::Read, .. })) {
        other.serve();
        other.pass(millis(50));
    }
    let read = other.request();
    assert_eq!(other.hold.state(), "acquiring");
    // It is waited for no longer than any other request, and then polled on.
    other.pass(millis(2_500));
    assert_eq!(other.hold.state(), "polling");
    other.pass(secs(6));
    assert!(
        matches!(other.sent.front(), Some(Action::Store { what: Request::Acquire { .. }, .. })),
        "{:?}",
        other.sent
    );
    let before = format!("{:?}", other.hold);
    let answer = other.do_in_store(&read);
    other.on(answer);
    assert_eq!(format!("{:?}", other.hold), before);
}

#[test]
fn s2_two_tries_that_are_answered_count_each_from_its_own_send() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass(millis(5_500));
    let first = rig.request();
    rig.pass(millis(3_500));
    let second = rig.request();
    let sent = rig.at();
    rig.serve_one(&first);
    rig.serve_one(&second);
    let until = rig.hold.validity(ANN).unwrap();
    assert!(until > sent + millis(13_000), "the second counts too: {:?}", until - sent);
}

#[test]
fn s7_each_outcome_of_a_renewal_is_reported_once() {
    let reports = |told: Vec<Action>| {
        let mut reports = Vec::new();
        for action in told {
            if let Action::Report(Remark::Renewal { latency, failure, .. }) = action {
                reports.push((latency.is_some(), failure.is_some()));
            }
        }
        reports
    };
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass(millis(5_500));
    rig.fail(outage());
    assert_eq!(reports(rig.told()), [(true, true)], "it failed");
    rig.pass(millis(1_300));
    let first = rig.request();
    rig.pass(millis(2_500));
    assert_eq!(reports(rig.told()), [(false, true)], "it was cut off");
    let again = failed(&first, outage()).unwrap();
    rig.on(again);
    assert_eq!(reports(rig.told()), [], "that it failed was said");
    rig.pass(millis(1_300));
    let second = rig.request();
    rig.pass(millis(2_500));
    assert_eq!(reports(rig.told()), [(false, true)]);
    rig.serve_one(&second);
    assert_eq!(reports(rig.told()), [(true, false)], "it was done after all");
}

#[test]
fn s13_a_late_answer_to_one_of_several_releases_is_not_definite() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.release(ANN);
    let first = rig.request();
    rig.do_in_store(&first);
    let mut last = first;
    for _ in 0..2 {
        rig.pass(millis(2_500));
        rig.pass(millis(1_300));
        last = rig.request();
    }
    // The third is answered after it was cut off: the first had been done.
    let answer = rig.do_in_store(&last);
    rig.pause(millis(2_500));
    rig.on(answer);
    rig.pass_served(secs(9));
    let told = rig.told();
    assert_eq!((released(&told, ANN), loss(&told, ANN)), (Some(None), None));
}

#[test]
fn s13_a_changed_record_that_cannot_be_read_is_no_release_and_no_loss() {
    for unknown in [false, true] {
        let (mut rig, _) = Rig::with_holder(ANN, terms());
        rig.release(ANN);
        if unknown {
            rig.fail(outage());
            rig.pass(secs(2));
        }
        rig.fail(Failure::Changed);
        rig.pass_failing(secs(20));
        let told = rig.told();
        assert_eq!((released(&told, ANN), loss(&told, ANN)), (None, None), "{unknown}");
        assert_eq!(not_confirmed(&told, ANN), Some(NotConfirmed::NoAnswer), "{unknown}");
    }
}

#[test]
fn s13_s5_a_token_that_was_written_over_is_a_loss_unless_a_release_may_have_been_done() {
    for unknown in [false, true] {
        let (mut rig, grant) = Rig::with_holder(ANN, terms());
        let other = grant.token.value() + 4_096;
        rig.release(ANN);
        if unknown {
            rig.fail(outage());
            rig.pass(secs(2));
        }
        rig.table_mut().set("leasehold_token", &other.to_string());
        rig.serve();
        let told = rig.told();
        let expected = if unknown { (Some(None), None) } else { (None, Some(LossReason::Taken)) };
        assert_eq!((released(&told, ANN), loss(&told, ANN)), expected, "{unknown}");
    }
}

#[test]
fn s13_a_deleted_lock_is_a_loss_unless_a_release_may_have_been_done() {
    for unknown in [false, true] {
        let (mut rig, _) = Rig::with_holder(ANN, terms());
        rig.release(ANN);
        if unknown {
            rig.fail(outage());
            rig.pass(secs(2));
        }
        rig.fail(Failure::Changed);
        rig.fail(Failure::Deleted);
        let told = rig.told();
        let lost = Some(LossReason::LockDeleted);
        let expected = if unknown { (Some(None), None) } else { (None, lost) };
        assert_eq!((released(&told, ANN), loss(&told, ANN)), expected, "{unknown}");
    }
}

#[test]
fn s6_a_lease_that_nobody_was_granted_is_not_settled() {
    let mut rig = Rig::new();
    rig.arrive(ANN, terms());
    serve_next(&mut rig);
    rig.leave(ANN);
    serve_next(&mut rig);
    assert!(
        matches!(rig.sent.front(), Some(Action::Store { what: Request::Release { .. }, .. })),
        "{:?}",
        rig.sent
    );
    rig.fail(Failure::Changed);
    assert!(rig.sent.is_empty() && rig.hold.is_idle(), "{:?}", rig.hold);
}

#[test]
fn s6_work_under_a_lease_that_nobody_waits_for_is_not_repeated() {
    let mut rig = Rig::new();
    rig.arrive(ANN, terms());
    serve_next(&mut rig);
    rig.leave(ANN);
    rig.fail(outage());
    assert!(matches!(rig.request(), Action::Store { what: Request::Release { .. }, .. }));
}

#[test]
fn s5_a_lock_whose_record_goes_on_changing_is_polled_after_three_tries() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.release(ANN);
    rig.serve();
    rig.told();
    rig.arrive(BOB, terms());
    for _ in 0..3 {
        rig.fail(Failure::Changed);
        assert!(
            matches!(rig.sent.front(), Some(Action::Store { what: Request::Acquire { .. }, .. })),
            "it is asked again"
        );
    }
    rig.fail(Failure::Changed);
    assert!(rig.sent.is_empty(), "{:?}", rig.sent);
    assert_eq!(rig.hold.state(), "polling");
    rig.pass_served(secs(2));
    rig.granted(BOB);
}

#[test]
fn s12_who_knew_the_record_reads_it_again_when_another_has_the_lock() {
    let (mut rig, mut other) = Rig::pair();
    rig.grant(ANN, terms());
    rig.release(ANN);
    rig.serve();
    let mut named = terms();
    named.record.holder = "keeper-7".to_owned();
    other.grant(CAT, named);
    rig.arrive(BOB, Terms { wait: Duration::ZERO, ..terms() });
    assert!(matches!(
        rig.sent.front(),
        Some(Action::Store { what: Request::Acquire { read: false, .. }, .. })
    ));
    serve_next(&mut rig);
    assert!(
        matches!(rig.sent.front(), Some(Action::Store { what: Request::Read, .. })),
        "{:?}",
        rig.sent
    );
    hears_no_strangers(&mut rig, "acquiring");
    rig.serve();
    let told = rig.told();
    let named = |action: &Action| matches!(action, Action::Tell { notice: Notice::Busy(busy), .. } if busy.record.holder == "keeper-7");
    assert!(told.iter().any(named), "{told:?}");
}

#[test]
fn s5_a_token_that_cannot_be_read_gets_no_grant_and_its_caller_is_told() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.release(ANN);
    rig.serve();
    rig.table_mut().set("leasehold_token", "many");
    rig.arrive(BOB, terms());
    rig.serve();
    let told = rig.told();
    assert_eq!(store_failure(&told, BOB), Some(StoreFailureKind::TokenUnreadable));
    assert!(!rig.is_leased() && rig.hold.is_idle(), "its lease is released");
}
