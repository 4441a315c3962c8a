//! The bounds that a caller sets: S11.

use std::cell::Cell;
use std::time::Duration;

use super::rig::{
    ANN, BOB, CAT, Rig, busy, is_busy, is_granted, loss, millis, one_try, outage, released, secs,
    terms,
};
use crate::hold::{
    Action, Busy, Event, Failure, HolderCall, LossReason, Request, StoreBounds, Terms,
};

fn at_most(max_hold: u64) -> Terms {
    Terms { max_hold: Some(secs(max_hold)), ..terms() }
}

fn at_least(min_hold: u64) -> Terms {
    Terms { min_hold: secs(min_hold), ..terms() }
}

#[test]
fn s11_max_hold_ends_a_hold_and_the_lock_is_free_when_no_clock_can_say_otherwise() {
    let (mut rig, grant) = Rig::with_holder(ANN, at_most(4));
    assert_eq!(grant.valid_until - rig.at(), secs(4), "the validity never reaches past it");
    rig.pass_served(secs(4));
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::MaxHoldReached));
    // S1: a client elsewhere may count the four seconds by a clock that is 1 % slow.
    rig.pass_served(millis(39));
    assert!(rig.is_leased());
    rig.pass_served(millis(1));
    assert!(!rig.is_leased());
}

#[test]
fn s11_an_extended_hold_lasts_longer() {
    let (mut rig, _) = Rig::with_holder(ANN, at_most(4));
    rig.pass_served(secs(3));
    rig.on(Event::Call {
        caller: ANN,
        generation: None,
        call: HolderCall::Extend { max_hold: secs(20) },
    });
    rig.pass_served(secs(19));
    assert_eq!(loss(&rig.told(), ANN), None);
    rig.pass_served(secs(1));
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::MaxHoldReached));
}

#[test]
fn s13_a_hold_that_was_shortened_is_nobody_elses_before_its_told_validity_is_over() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, terms());
    rig.on(Event::Call {
        caller: ANN,
        generation: None,
        call: HolderCall::Extend { max_hold: secs(2) },
    });
    rig.pass_served(secs(2));
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::MaxHoldReached));
    rig.pass_served(grant.valid_until - rig.at() + millis(141));
    assert!(!is_granted(&rig.told(), BOB) && rig.is_leased());
    rig.pass_served(millis(2));
    rig.granted(BOB);
}

#[test]
fn s13_a_holder_that_says_so_ends_its_told_validity() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, terms());
    rig.on(Event::Call {
        caller: ANN,
        generation: None,
        call: HolderCall::Extend { max_hold: secs(2) },
    });
    rig.pass_served(secs(3));
    rig.release(ANN);
    rig.serve();
    rig.granted(BOB);
}

#[test]
fn s11_who_reports_no_progress_loses_the_lock() {
    let patient = Terms { progress_timeout: Some(secs(4)), ..terms() };
    let (mut rig, grant) = Rig::with_holder(ANN, patient);
    assert_eq!(grant.valid_until - rig.at(), secs(4));
    rig.pass_served(secs(3));
    rig.on(Event::Call { caller: ANN, generation: None, call: HolderCall::Progress });
    assert_eq!(rig.hold.validity(ANN), Some(rig.at() + secs(4)));
    rig.pass_served(millis(3_999));
    assert_eq!(loss(&rig.told(), ANN), None);
    rig.pass_served(millis(1));
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::NoProgress));
}

#[test]
fn s11_a_lock_rests_until_min_hold_is_over() {
    let (mut rig, _) = Rig::with_holder(ANN, at_least(40));
    let ends = rig.at() + secs(40);
    rig.arrive(BOB, terms());
    rig.pass_served(secs(2));
    rig.release(ANN);
    assert_eq!(released(&rig.told(), ANN), Some(Some(ends)));
    rig.arrive(CAT, one_try());
    let told = rig.told();
    assert!(busy(&told, CAT).is_some_and(|busy| busy.resting), "{told:?}");
    rig.pass_served(millis(37_999));
    assert!(!is_granted(&rig.told(), BOB));
    assert!(rig.is_leased(), "the lease is renewed meanwhile");
    rig.pass_served(millis(1));
    rig.granted(BOB);
}

#[test]
fn s11_a_rest_outlives_the_sidecar_that_promised_it() {
    let (mut rig, mut other) = Rig::pair();
    rig.grant(ANN, at_least(40));
    rig.release(ANN);
    // It dies here; its lease runs out.
    other.now += secs(20);
    other.arrive(BOB, one_try());
    other.serve();
    let told = other.told();
    let is_long = |busy: &Busy| busy.resting && busy.retry_after > secs(15);
    assert!(busy(&told, BOB).is_some_and(is_long), "{told:?}");
    assert!(!other.is_leased());
    other.arrive(CAT, terms());
    other.pass_served(secs(18));
    assert!(!is_granted(&other.told(), CAT));
    other.pass_served(secs(3));
    other.granted(CAT);
}

#[test]
fn s11_a_rest_survives_a_store_that_cannot_be_renewed() {
    let (mut rig, _) = Rig::with_holder(ANN, at_least(40));
    rig.arrive(BOB, terms());
    rig.release(ANN);
    rig.pass_failing(secs(16));
    rig.pass_served(secs(23));
    assert!(!is_granted(&rig.told(), BOB));
    rig.pass_served(secs(2));
    rig.granted(BOB);
}

#[test]
fn s11_a_drain_leaves_the_rest_to_the_record() {
    let (mut rig, _) = Rig::with_holder(ANN, at_least(40));
    rig.release(ANN);
    rig.on(Event::DrainStarted { ends: rig.at() + secs(20) });
    rig.serve();
    assert!(!rig.is_leased());
    assert!(rig.record().resting_until.is_some());
    let (mut rig, _) = Rig::with_holder(ANN, at_least(40));
    rig.on(Event::DrainStarted { ends: rig.at() + secs(20) });
    rig.release(ANN);
    rig.serve();
    let told = rig.told();
    assert!(released(&told, ANN).flatten().is_some(), "it is told that the lock rests");
    assert!(!rig.is_leased());
}

#[test]
fn s11_no_rest_stays_for_a_caller_that_left_before_its_grant() {
    let mut rig = Rig::new();
    rig.arrive(ANN, at_least(40));
    let acquire = rig.request();
    rig.serve_one(&acquire);
    rig.leave(ANN);
    rig.serve();
    assert_eq!(rig.record().resting_until, None);
    assert!(!rig.is_leased());
}

#[test]
fn s11_a_rest_of_unknown_outcome_is_cleared_for_the_next_caller() {
    let mut rig = Rig::new();
    rig.arrive(ANN, at_least(40));
    let acquire = rig.request();
    rig.serve_one(&acquire);
    let write = rig.request();
    rig.do_in_store(&write);
    assert!(rig.record().resting_until.is_some());
    rig.leave(ANN);
    rig.arrive(BOB, terms());
    rig.pass(secs(3));
    rig.pass_served(secs(2));
    rig.granted(BOB);
    assert_eq!(rig.record().resting_until, None);
}

#[test]
fn s11_a_rest_of_unknown_outcome_is_cleared_if_nobody_comes() {
    let mut rig = Rig::new();
    rig.arrive(ANN, at_least(40));
    let acquire = rig.request();
    rig.serve_one(&acquire);
    let write = rig.request();
    rig.do_in_store(&write);
    rig.leave(ANN);
    rig.on(super::table::failed(&write, outage()).unwrap());
    rig.pass_served(secs(5));
    assert_eq!(rig.record().resting_until, None);
    assert!(!rig.is_leased());
}

#[test]
fn s11_the_record_says_how_long_a_rest_is_to_last() {
    let (rig, _) = Rig::with_holder(ANN, at_least(40));
    assert_eq!(rig.record().resting_for, Some(secs(40)));
    let mut rig = Rig::new();
    rig.arrive(ANN, at_least(40));
    let acquire = rig.request();
    rig.serve_one(&acquire);
    rig.leave(ANN);
    rig.serve();
    assert_eq!(rig.record().resting_for, None, "nobody was granted it");
}

#[test]
fn s11_each_rest_that_is_promised_counts_anew() {
    let (mut rig, mut other) = Rig::pair();
    let mut ends = rig.now;
    for caller in [ANN, BOB] {
        let grant = rig.grant(caller, at_least(40));
        ends = rig.now + secs(40);
        rig.release_of(caller, &grant);
        rig.pass(secs(20));
        // Its sidecar died with the lease.
        rig.restart();
        other.now = rig.now;
        other.arrive(CAT, one_try());
        other.serve();
        assert!(!is_granted(&other.told(), CAT), "the lock rests");
        rig.now = ends;
    }
    other.arrive(CAT, terms());
    other.pass_served(ends - other.now - secs(1));
    assert!(!is_granted(&other.told(), CAT), "the lock rests");
    other.pass_served(secs(2));
    other.granted(CAT);
}

#[test]
fn s11_s12_one_try_does_not_wait_for_the_end_of_a_rest() {
    let (mut rig, mut other) = Rig::pair();
    rig.grant(ANN, at_least(3_600));
    // Its sidecar died.
    other.now = rig.now + secs(61);
    other.arrive(BOB, one_try());
    // The rest is met, and the lease goes back.
    let release = loop {
        let request = other.request();
        if matches!(request, Action::Store { what: Request::Release { .. }, .. }) {
            break request;
        }
        other.serve_one(&request);
    };
    assert!(is_busy(&other.told(), BOB));
    other.arrive(CAT, one_try());
    other.serve_one(&release);
    assert!(is_busy(&other.told(), CAT));
}

#[test]
fn s11_s16_the_stores_clock_cuts_the_bounds_of_a_resume() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    let asked = rig.at();
    let time = super::table::Table::time(rig.now);
    let left = Terms { max_hold: Some(secs(50)), min_hold: secs(30), ..terms() };
    let bounds = StoreBounds {
        max_hold_ends: Some(time + secs(20)),
        lease_ends: None,
        min_hold_ends: time + secs(12),
    };
    rig.resume_bounded(BOB, &grant, left, Some(bounds));
    rig.serve();
    let resumed = rig.granted(BOB);
    assert_eq!(resumed.max_hold_ends, Some(asked + secs(20)));
    assert_eq!(resumed.min_hold_ends, asked + secs(12));
}

#[test]
fn s11_a_rest_whose_lease_is_gone_keeps_nobody_waiting_here() {
    let (mut rig, grant) = Rig::with_holder(ANN, at_least(40));
    rig.release_of(ANN, &grant);
    rig.pass(secs(6));
    rig.fail(Failure::Taken);
    assert_eq!(rig.hold.state(), "idle");
}

#[test]
fn s11_a_rest_that_says_not_how_long_lasts_a_day_at_the_most() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.release(ANN);
    rig.serve();
    let later = super::table::Table::time(rig.now) + secs(3 * 86_400);
    rig.table_mut().set("leasehold_resting_until", &later.0.to_string());
    rig.arrive(BOB, one_try());
    rig.serve();
    assert!(!is_granted(&rig.told(), BOB));
    assert_eq!(rig.hold.memory.rest.as_ref().unwrap().until - rig.at(), secs(86_400));
}

/// ANN's token and its rest are stored, and the sidecar stands still until that lease has run out.
fn rests_ungranted(wait: Duration) -> (Rig, Rig) {
    let (mut rig, other) = Rig::pair();
    rig.arrive(ANN, Terms { wait, ..at_least(3_600) });
    let acquire = rig.request();
    rig.serve_one(&acquire);
    let write = rig.request();
    let stored = rig.do_in_store(&write);
    rig.pause(secs(20));
    rig.on(stored);
    assert!(rig.record().resting_until.is_some() && !is_granted(&rig.told(), ANN));
    (rig, other)
}

#[test]
fn s11_a_rest_for_which_nobody_was_granted_the_lock_is_known_after_a_second_standstill() {
    let (mut rig, _) = rests_ungranted(secs(600));
    let write = loop {
        let request = rig.request();
        if matches!(request, Action::Store { what: Request::Write { .. }, .. }) {
            break request;
        }
        rig.serve_one(&request);
    };
    rig.pause(secs(20));
    rig.on(super::table::failed(&write, outage()).unwrap());
    rig.pass_served(secs(60));
    rig.granted(ANN);
}

#[test]
fn s11_a_rest_for_which_nobody_was_granted_the_lock_keeps_nobody_here_from_it() {
    for met_elsewhere in [false, true] {
        let (mut rig, mut other) = rests_ungranted(secs(60));
        if met_elsewhere {
            other.now = rig.now;
            other.arrive(CAT, one_try());
            other.serve();
            assert!(is_busy(&other.told(), CAT), "nobody elsewhere knows");
        }
        rig.pass_served(secs(10));
        let rests = rig.granted(ANN).min_hold_ends;
        assert!(rests > rig.at() + secs(3_580), "its own rest counts anew");
    }
}

#[test]
fn s11_a_rest_for_which_nobody_was_granted_the_lock_is_taken_back_though_nobody_waits() {
    let (mut rig, mut other) = rests_ungranted(secs(10));
    assert!(is_busy(&rig.told(), ANN) || rig.hold.waiting() == 0);
    rig.pass_served(secs(10));
    assert_eq!(rig.record().resting_until, None);
    assert!(!rig.is_leased() && rig.hold.is_idle());
    other.now = rig.now;
    other.grant(CAT, one_try());
}

#[test]
fn s11_who_waits_elsewhere_sees_that_a_rest_was_taken_back() {
    let (mut rig, mut other) = rests_ungranted(secs(10));
    other.now = rig.now;
    other.arrive(CAT, Terms { wait: secs(3_600), ..terms() });
    other.pass_served(secs(1));
    rig.pass_served(secs(10));
    assert_eq!(rig.record().resting_until, None);
    let sent = Cell::new(0);
    other.run(secs(16), |other| {
        while let Some(action) = other.sent.pop_front() {
            sent.set(sent.get() + 1);
            other.serve_one(&action);
        }
    });
    other.granted(CAT);
    assert!(sent.get() <= 5, "{} requests", sent.get());
}

#[test]
fn s11_a_rest_ends_with_the_lock_that_was_deleted() {
    let (rig, mut other) = rests_ungranted(secs(10));
    other.now = rig.now;
    other.arrive(CAT, Terms { wait: secs(3_600), ..terms() });
    other.pass_served(secs(1));
    other.pass(secs(15));
    let look = other.request();
    assert!(matches!(look, Action::Store { what: Request::Read, .. }), "{look:?}");
    other.on(super::table::failed(&look, Failure::Deleted).unwrap());
    let next = other.request();
    assert!(matches!(next, Action::Store { what: Request::Acquire { .. }, .. }), "{next:?}");
}

#[test]
fn s11_a_rest_that_was_surely_not_stored_keeps_no_lease() {
    let mut rig = Rig::new();
    rig.arrive(ANN, Terms { wait: Duration::ZERO, ..at_least(3_600) });
    let acquire = rig.request();
    rig.serve_one(&acquire);
    rig.fail(super::ending::throttled());
    let release = rig.request();
    assert!(matches!(release, Action::Store { what: Request::Release { .. }, .. }), "{release:?}");
    rig.serve_one(&release);
    assert!(rig.hold.is_idle() && rig.record().resting_until.is_none());
}

#[test]
fn s11_a_rest_is_taken_back_though_the_store_fails_meanwhile() {
    let mut rig = Rig::new();
    rig.arrive(ANN, at_least(40));
    for _ in ["acquire", "write"] {
        let request = rig.request();
        if rig.sent.is_empty()
            && matches!(request, Action::Store { what: Request::Write { .. }, .. })
        {
            rig.leave(ANN);
        }
        rig.serve_one(&request);
    }
    rig.fail(outage());
    rig.pass_served(secs(5));
    assert_eq!(rig.record().resting_until, None);
    assert!(!rig.is_leased());
}

#[test]
fn s11_a_rest_is_stored_for_as_long_as_it_is_promised_however_late_it_is_stored() {
    let (mut rig, mut other) = Rig::pair();
    rig.arrive(ANN, Terms { resumable: true, ..at_least(40) });
    let acquire = rig.request();
    rig.serve_one(&acquire);
    // The store takes no write for ten seconds.
    rig.pass_failing(secs(10));
    rig.pass_served(secs(2));
    let grant = rig.granted(ANN);
    let promised = grant.min_hold_ends;
    rig.pass_served(secs(1));
    // Its stream is closed by its client.
    rig.leave(ANN);
    rig.serve();
    assert_eq!(released(&rig.told(), ANN), Some(Some(promised)));
    other.now = rig.now;
    other.arrive(BOB, Terms { wait: secs(600), ..terms() });
    let mut granted_at = None;
    while granted_at.is_none() {
        other.pass_served(millis(100));
        granted_at = is_granted(&other.told(), BOB).then(|| other.at());
    }
    let early = promised.saturating_since(granted_at.unwrap());
    assert!(early < secs(1), "{early:?} before the end of the rest that was promised");
}

#[test]
fn s11_a_release_rests_for_all_of_min_hold_however_late_the_record_was_stored() {
    let (mut rig, mut other) = Rig::pair();
    rig.arrive(ANN, Terms { resumable: true, ..at_least(30) });
    let acquire = rig.request();
    rig.serve_one(&acquire);
    rig.pass_failing(secs(10));
    while rig.hold.holding().is_none() {
        rig.pass_served(millis(10));
    }
    let ends = rig.now + secs(30);
    let grant = rig.granted(ANN);
    rig.pass_served(secs(25));
    // The record's rest is over; the lease keeps the rest of it.
    rig.release_of(ANN, &grant);
    other.now = rig.now;
    other.arrive(BOB, Terms { wait: secs(600), ..terms() });
    while other.hold.holding().is_none() {
        rig.pass_served(millis(100));
        other.pass_served(millis(100));
    }
    assert!(other.now >= ends - secs(1), "{:?} too early", ends - other.now);
}

#[test]
fn s11_who_is_not_renewed_is_told_when_its_one_lease_ends() {
    let (rig, grant) = Rig::with_holder(ANN, Terms { auto_renew: false, ..terms() });
    assert_eq!(grant.lease_ends, Some(grant.valid_until));
    assert!(grant.valid_until > rig.at());
    let (_, renewed) = Rig::with_holder(ANN, terms());
    assert_eq!(renewed.lease_ends, None);
}
