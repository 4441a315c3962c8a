//! What a machine shows of itself, and what is kept of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::rig::{ANN, BOB, CAT, Rig, loss, millis, one_try, secs, terms};
use super::table::Table;
use crate::hold::{
    Action, Event, Idle, LossReason, Memory, NotConfirmed, Notice, Purpose, Request, Settings,
    State, Terms, Wait,
};
use crate::queue::PlainLock;
use crate::record::Record;
use crate::time::Instant;

#[test]
fn each_state_has_its_name() {
    let mut rig = Rig::new();
    assert_eq!(rig.hold.state(), "idle");
    rig.arrive(ANN, Terms { min_hold: secs(90), ..terms() });
    assert_eq!(rig.hold.state(), "acquiring");
    let acquire = rig.request();
    rig.serve_one(&acquire);
    assert_eq!(rig.hold.state(), "storing");
    assert!(rig.hold.is_acquiring());
    rig.serve();
    let grant = rig.granted(ANN);
    assert_eq!(rig.hold.state(), "held");
    assert!(!rig.hold.is_acquiring());
    rig.pass_failing(secs(11));
    assert_eq!(rig.hold.state(), "at risk");
    rig.pass_served(secs(5));
    assert_eq!(rig.hold.state(), "held");
    rig.release_of(ANN, &grant);
    assert_eq!(rig.hold.state(), "resting");
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.silent(ANN);
    assert_eq!(rig.hold.state(), "grace period");
    rig.resume(BOB, &grant, terms(), secs(9));
    assert_eq!(rig.hold.state(), "resuming");
    let (mut rig, mut other) = Rig::pair();
    rig.grant(ANN, terms());
    other.arrive(CAT, terms());
    other.serve();
    assert_eq!(other.hold.state(), "polling");
    rig.release(ANN);
    assert_eq!(rig.hold.state(), "releasing");
}

#[test]
fn a_machine_with_something_to_do_is_not_idle() {
    let (mut rig, mut other) = Rig::pair();
    assert!(rig.hold.is_idle());
    rig.grant(ANN, terms());
    assert!(!rig.hold.is_idle(), "somebody has the lock");
    other.arrive(BOB, terms());
    other.serve();
    assert!(!other.hold.is_idle(), "somebody waits");
    other.leave(BOB);
    assert!(other.hold.is_idle());
    rig.release(ANN);
    rig.serve();
    // It stands back, so that nothing is under way.
    let idle = Idle { until: rig.at() + secs(5), why: Wait::StandBack };
    rig.hold.state = State::Idle { idle, retry: None };
    rig.arrive(CAT, terms());
    assert!(!rig.hold.is_idle(), "somebody waits, though nothing is tried yet");
}

#[test]
fn s5_s10_s11_what_a_machine_knows_outlives_it() {
    let (mut rig, mut other) = Rig::pair();
    let grant = rig.grant(ANN, Terms { min_hold: secs(40), ..terms() });
    assert_eq!(rig.hold.highest(), Some(grant.token));
    assert_eq!(rig.hold.known().unwrap().record().token, Some(grant.token));
    rig.release(ANN);
    // Its lease has run out; the rest has not.
    other.now += secs(20);
    other.arrive(BOB, one_try());
    other.serve();
    let Rig { hold, now, .. } = other;
    let at = Instant::from_boot(now);
    let memory = hold.clone().into_memory();
    assert_eq!(memory.highest, Some(grant.token));
    let Some(Idle { until, why: Wait::MinHold }) = memory.idle else { panic!("{memory:?}") };
    assert_eq!(until, at + secs(15), "it is looked at before its end");
    let settings = Settings { poll_cap: secs(5), hand_off: secs(5) };
    let mut again = PlainLock::new(settings, memory, 3, at);
    again.supply(grant.lease_id);
    let told =
        again.handle_event(Event::CallerArrived { caller: CAT, terms: Arc::new(terms()) }, at);
    assert!(
        matches!(told[..], [Action::Tell { caller: CAT, notice: Notice::Waiting { place: 1 } }]),
        "{told:?}"
    );
    assert_eq!(again.poll_timeout(), Some(until));
}

#[test]
fn s6_a_lease_id_is_asked_for_when_the_last_one_was_used() {
    let settings = Settings { poll_cap: secs(5), hand_off: secs(5) };
    let (_, grant) = Rig::with_holder(ANN, terms());
    let at = Instant::from_boot(secs(1_000));
    let mut hold = PlainLock::new(settings, Memory::default(), 3, at);
    assert!(hold.needs_lease_id());
    hold.supply(grant.lease_id);
    assert!(!hold.needs_lease_id());
    hold.handle_event(Event::CallerArrived { caller: CAT, terms: Arc::new(terms()) }, at);
    assert!(hold.needs_lease_id());
}

#[test]
fn s2_every_request_has_its_own_number() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    let mut numbers = BTreeSet::new();
    for output in 1..=9 {
        rig.pass(secs(6));
        let renewal = rig.request();
        let Action::Store { request, what: Request::Renew { .. }, .. } = &renewal else {
            panic!("{renewal:?}")
        };
        assert!(numbers.insert(*request), "{request:?} came twice");
        rig.serve_one(&renewal);
        assert_eq!(numbers.len(), output);
    }
}

#[test]
fn s12_the_end_of_a_wait_wakes_the_machine() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, Terms { wait: secs(3), ..terms() });
    assert_eq!(rig.hold.poll_timeout(), Some(rig.at() + secs(3)));
}

#[test]
fn s12_a_busy_answer_names_the_holder_here() {
    let named = Record { holder: "keeper-7".to_owned(), ..Record::default() };
    let (mut rig, grant) = Rig::with_holder(ANN, Terms { record: named, ..terms() });
    rig.arrive(BOB, one_try());
    let told = rig.told();
    let [Action::Tell { notice: Notice::Busy(busy), .. }] = &told[..] else { panic!("{told:?}") };
    assert_eq!(busy.record.holder, "keeper-7");
    assert_eq!(busy.record.token, Some(grant.token));
    assert_eq!(busy.record.acquired_at, Some(grant.acquired_at));
    assert_eq!((busy.resting, busy.retry_after), (false, secs(5)));
}

#[test]
fn s5_s21_a_grant_says_when_it_was_and_what_the_stores_clock_shows() {
    let (rig, grant) = Rig::with_holder(ANN, terms());
    let time = Table::time(rig.now);
    assert_eq!((grant.acquired_at, grant.store_time), (time, time));
    assert_eq!(rig.record().acquired_at, Some(time));
}

#[test]
fn s21_the_stores_clock_is_not_read_from_an_answer_that_was_long_under_way() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass(millis(5_900));
    let renewal = rig.request();
    rig.pass(millis(2_300));
    // The store did it late: its clock is not that of when it was sent.
    rig.serve_one(&renewal);
    rig.arrive(BOB, terms());
    rig.release(ANN);
    let grant = rig.granted(BOB);
    let off = grant.store_time.saturating_since(Table::time(rig.now));
    assert!(off <= secs(1), "it is {off:?} ahead");
}

#[test]
fn s12_s31_who_waits_is_told_again_each_25_s_and_not_because_the_lock_has_gone_to_another() {
    let (mut rig, mut other) = Rig::pair();
    rig.grant(ANN, terms());
    other.arrive(CAT, Terms { wait: secs(600), ..terms() });
    other.serve();
    let told = |other: &mut Rig| {
        let waits = Action::Tell { caller: CAT, notice: Notice::Waiting { place: 1 } };
        other.told().iter().filter(|action| **action == waits).count()
    };
    assert_eq!(told(&mut other), 1);
    rig.pass_served(secs(1));
    rig.release(ANN);
    rig.serve();
    rig.grant(BOB, terms());
    for seconds in 1..=100 {
        rig.pass_served(secs(1));
        other.pass_served(secs(1));
        assert_eq!(told(&mut other), usize::from(seconds % 25 == 0), "after {seconds} s");
    }
}

#[test]
fn s11_the_clocks_reasons_are_told_apart() {
    let detail = |terms: Terms| {
        let (mut rig, _) = Rig::with_holder(ANN, terms);
        rig.pass_served(secs(15));
        let told = rig.told();
        assert_eq!(loss(&told, ANN), Some(LossReason::MaxHoldReached));
        let details = told.iter().find_map(|action| match action {
            Action::Tell { notice: Notice::Lost { detail, .. }, .. } => Some(detail.clone()),
            _ => None,
        });
        details.unwrap()
    };
    assert!(detail(Terms { auto_renew: false, ..terms() }).contains("auto_renew"));
    let bounded = Terms { max_hold: Some(secs(9)), ..terms() };
    assert!(!detail(bounded).contains("auto_renew"));
}

#[test]
fn each_reason_of_a_loss_has_its_name() {
    let names: BTreeSet<_> = LossReason::ALL.iter().map(|reason| reason.as_str()).collect();
    assert_eq!(names.len(), LossReason::ALL.len());
    assert!(names.iter().all(|name| name.contains(|letter: char| letter.is_ascii_lowercase())));
    assert_eq!(LossReason::Taken.as_str(), "taken");
    let names = NotConfirmed::ALL.map(NotConfirmed::as_str);
    assert_eq!(names, ["no_answer", "lease_gone", "left_to_expire"]);
}

#[test]
fn s12_a_caller_that_goes_leaves_nothing_in_the_queue() {
    let named = |id: &str| Terms { request_id: id.to_owned(), ..terms() };
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, named("order-7"));
    let before = rig.hold.waiters();
    assert!(before.contains("order-7"), "{before}");
    rig.arrive(CAT, named("order-8"));
    rig.leave(CAT);
    let after = rig.hold.waiters();
    assert_eq!(after.replace("next: 2", "next: 1"), before);
}

#[test]
fn what_the_store_is_asked_for_is_known() {
    let mut rig = Rig::new();
    assert_eq!((rig.hold.serves(), rig.hold.renewed_lease()), (None, None));
    rig.arrive(ANN, terms());
    assert_eq!((rig.hold.serves(), rig.hold.renewed_lease()), (Some(ANN), None));
    rig.serve();
    let grant = rig.granted(ANN);
    assert_eq!(rig.hold.serves(), Some(ANN));
    assert_eq!(rig.hold.renewed_lease(), Some((grant.valid_until, grant.lease_duration)));
    rig.save(ANN, 1, "page 7");
    assert!(!rig.hold.is_saving_last());
    rig.release_of(ANN, &grant);
    assert!(rig.hold.is_saving_last());
    let (mut rig, _) = Rig::with_holder(ANN, Terms { auto_renew: false, ..terms() });
    rig.pass_served(secs(1));
    assert_eq!(rig.hold.renewed_lease(), None, "it is not renewed");
}

#[test]
fn s7_s16_a_read_for_who_comes_back_is_as_urgent_as_a_claim() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    let id = |action: &Action| match action {
        Action::Store { request, .. } => *request,
        other => panic!("{other:?}"),
    };
    rig.pass(secs(6));
    let renewal = rig.request();
    let until = grant.valid_until;
    assert_eq!(rig.hold.purpose(id(&renewal)), Purpose::Hold { until });
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(9));
    let read = rig.request();
    assert_eq!(rig.hold.purpose(id(&read)), Purpose::Comeback);
    let believed = rig.at() + secs(9);
    rig.serve_one(&read);
    let renewal = rig.request();
    assert_eq!(rig.hold.purpose(id(&renewal)), Purpose::Resume { until: believed });
    assert_eq!(rig.hold.renewed_lease(), Some((believed, grant.lease_duration)));
}
