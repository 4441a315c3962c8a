//! What meets in a pool: callers that name different numbers, repeated calls, rests, and a store that fails
//! (S12, S28 to S32).

use leasehold::hold::{
    self, CallerId, Event, Failure, HolderCall, Memory, StoreFailure, StoreFailureKind, Terms,
};
use leasehold::lock::Permit;
use leasehold::queue::Action;
use leasehold::record::CheckpointValue;

use crate::pools::rig::{ANN, BOB, CAT, DAN, Rig, millis, permit, secs, terms};

/// A fifth caller.
const EVE: CallerId = CallerId(5);

fn named(permits: u32, wait: u64) -> Terms {
    Terms { request_id: "r".to_owned(), ..terms(permits, secs(wait)) }
}

fn resting(permits: u32, rest: u64) -> Terms {
    Terms { min_hold: secs(rest), ..terms(permits, secs(60)) }
}

fn superseded(rig: &mut Rig) -> Vec<(CallerId, CallerId)> {
    let superseded = |action| match action {
        Action::At {
            action: hold::Action::Tell { caller, notice: hold::Notice::Superseded { by } },
            ..
        } => Some((caller, by)),
        _ => None,
    };
    rig.told().into_iter().filter_map(superseded).collect()
}

/// One sidecar where `ANN` is being tried for permit 0, of two.
fn trying_permit_0(of: u32) -> Rig {
    let rig = (0..100).find_map(|name| {
        let mut rig = Rig::named(name);
        rig.arrive(ANN, named(of, 600));
        (rig.sent[0].0 == Permit::FIRST).then_some(rig)
    });
    rig.unwrap()
}

#[test]
fn s31_a_plain_call_takes_the_place_of_its_first_that_named_more_permits() {
    let mut rig = trying_permit_0(2);
    rig.arrive(BOB, named(1, 600));
    assert_eq!(superseded(&mut rig), [(ANN, BOB)]);
    rig.serve();
    assert_eq!(rig.granted(BOB).0, 0);
    assert_eq!(rig.pool.waiting(), 0);
    // Nothing is left behind that keeps others from being served.
    assert_eq!(rig.grant(CAT, 2), 1);
}

#[test]
fn s31_a_call_that_names_more_permits_takes_the_place_of_its_first() {
    let mut rig = Rig::new();
    assert_eq!(rig.grant(CAT, 1), 0);
    assert_eq!(rig.grant(DAN, 2), 1);
    rig.arrive(BOB, named(1, 600));
    rig.told();
    rig.arrive(ANN, named(2, 600));
    assert_eq!(superseded(&mut rig), [(BOB, ANN)]);
    assert_eq!(rig.pool.waiting(), 1);
    rig.release(CAT);
    assert_eq!(rig.granted(ANN).0, 0);
}

#[test]
fn s31_a_repeated_call_has_the_grant_of_its_first_whatever_number_it_names() {
    let mut rig = Rig::new();
    assert_eq!(rig.grant(CAT, 1), 0);
    rig.arrive(ANN, named(2, 600));
    rig.serve();
    assert_eq!(rig.granted(ANN).0, 1);
    for (caller, permits) in [(BOB, 1), (DAN, 2), (EVE, 3)] {
        rig.arrive(caller, named(permits, 600));
        let told = rig.told();
        let same = told.iter().any(|action| {
            matches!(action, Action::At { action: hold::Action::Tell { caller: whom, notice: hold::Notice::SameGrant { holder: ANN } }, .. } if *whom == caller)
        });
        assert!(same, "{told:?}");
    }
    assert_eq!(rig.pool.waiting(), 0);
}

#[test]
fn s31_who_names_more_permits_is_served_though_somebody_before_it_waits_for_fewer() {
    let (mut rig, mut other) = Rig::pair();
    for caller in [ANN, BOB] {
        other.grant(caller, 2);
    }
    rig.arrive(CAT, terms(2, secs(3_600)));
    rig.pass(secs(1));
    rig.arrive(DAN, terms(3, secs(3_600)));
    rig.serve();
    assert_eq!(rig.granted(DAN).0, 2, "it is free, and nobody before it may have it");
    assert_eq!(rig.pool.waiting(), 1);
}

#[test]
fn s31_one_try_is_answered_though_somebody_before_it_waits_for_fewer_permits() {
    let (mut rig, mut other) = Rig::pair();
    for caller in [ANN, BOB, EVE] {
        other.grant(caller, 3);
    }
    rig.arrive(CAT, terms(2, secs(3_600)));
    rig.arrive(DAN, terms(3, secs(0)));
    rig.serve();
    assert_eq!(rig.busy(DAN), 3);
    assert_eq!(rig.pool.waiting(), 1);
}

#[test]
fn s11_s31_a_permit_that_rests_keeps_nobody_from_the_others() {
    let (mut rig, mut crashed) = Rig::pair();
    crashed.arrive(ANN, resting(1, 3_600));
    crashed.serve();
    assert_eq!(crashed.granted(ANN).0, 0);
    assert_eq!(rig.grant(BOB, 2), 1);
    rig.pass(secs(60));
    rig.arrive(CAT, terms(2, secs(0)));
    // The rest is met, and the lease goes back.
    while !matches!(rig.sent[0].1, hold::Action::Store { what: hold::Request::Release { .. }, .. })
    {
        rig.serve_one();
    }
    rig.busy(CAT);
    rig.arrive(DAN, terms(2, secs(0)));
    rig.serve();
    rig.busy(DAN);
    assert_eq!(rig.grant(EVE, 3), 2);
}

#[test]
fn s11_s30_a_permit_that_has_rested_is_handed_on_without_a_request() {
    let mut rig = Rig::new();
    rig.arrive(ANN, resting(2, 3));
    rig.serve();
    let (rested, _) = rig.granted(ANN);
    rig.grant(BOB, 2);
    rig.arrive(CAT, terms(2, secs(60)));
    rig.release(ANN);
    rig.serve();
    let requests = rig.requests();
    rig.pass(millis(3_900));
    assert_eq!(rig.granted(CAT).0, rested);
    assert_eq!(rig.requests(), requests);
}

#[test]
fn s26_s30_a_permit_is_handed_on_after_the_last_save() {
    let mut rig = Rig::new();
    let first = rig.grant(ANN, 2);
    rig.grant(BOB, 2);
    rig.arrive(CAT, terms(2, secs(60)));
    let value = CheckpointValue::new(b"page 7").unwrap();
    let save = hold::SaveAsked { id: hold::SaveId(1), value: Some(value), decides: false };
    rig.on(
        Permit::FIRST,
        Event::Call { caller: ANN, generation: None, call: HolderCall::Save(save) },
    );
    rig.on(
        Permit::FIRST,
        Event::Call { caller: ANN, generation: Some(1), call: HolderCall::Release },
    );
    rig.told();
    let requests = rig.requests();
    rig.serve();
    assert_eq!(rig.granted(CAT).0, first);
    assert_eq!(rig.requests(), requests + 1, "the save");
}

fn throttled(after: u64) -> Failure {
    Failure::NotDone(StoreFailure {
        kind: StoreFailureKind::Throttled,
        message: "simulated".to_owned(),
        retry_after: Some(secs(after)),
    })
}

/// Tries within `span` while the store answers each with `failure`.
fn failed_tries(rig: &mut Rig, span: u64, failure: &Failure) -> usize {
    let (end, mut tries) = (rig.now + secs(span), 0);
    loop {
        while !rig.sent.is_empty() {
            tries += 1;
            rig.fail(failure.clone());
        }
        let Some(at) = rig.pool.poll_timeout().filter(|at| at.since_boot() < end) else { break };
        rig.now = rig.now.max(at.since_boot());
        rig.on(Permit::FIRST, Event::TimePassed);
    }
    rig.now = end;
    tries
}

#[test]
fn s8_s31_a_store_that_fails_is_left_alone_for_as_long_as_it_says() {
    let mut rig = Rig::new();
    rig.arrive(ANN, terms(32, secs(600)));
    let tries = failed_tries(&mut rig, 18, &throttled(5));
    assert!((3..=4).contains(&tries), "{tries} tries in 18 s");
    // Who comes meanwhile for one try does not wait for it either.
    rig.arrive(BOB, terms(32, secs(0)));
    assert_eq!((rig.pool.waiting(), rig.sent.len()), (1, 0));
    rig.pass(secs(6));
    rig.granted(ANN);
}

#[test]
fn s18_one_try_is_told_that_the_store_failed_and_not_that_the_lock_is_busy() {
    let (mut rig, mut other) = Rig::pair();
    for caller in [ANN, BOB] {
        other.grant(caller, 2);
    }
    for round in 0..8 {
        let caller = CallerId(10 + round);
        rig.arrive(caller, terms(2, secs(0)));
        rig.fail(throttled(1));
        let told = rig.told();
        let failed = told.iter().any(|action| {
            matches!(action, Action::At { action: hold::Action::Tell { caller: whom, notice: hold::Notice::Failed(_) }, .. } if *whom == caller)
        });
        assert!(failed, "in round {round}: {told:?}");
        // So that the record of each is read now and then.
        rig.arrive(caller, terms(2, secs(0)));
        rig.serve();
        rig.busy(caller);
    }
}

#[test]
fn s28_nothing_is_kept_of_a_permit_of_which_nothing_is_known() {
    let mut rig = Rig::new();
    for number in 1..32 {
        rig.pool.remember(permit(number), Memory::default());
    }
    rig.grant(ANN, 32);
    rig.release(ANN);
    rig.serve();
    let kept = rig.pool.clone().into_memories().len();
    assert!(kept <= 2, "{kept} memories: one permit was used, and permit 0 is always there");
}

#[test]
fn s12_s31_callers_of_both_kinds_are_in_order_of_arrival_though_permit_0_is_had_elsewhere() {
    let (mut rig, mut other) = Rig::pair();
    assert_eq!(other.grant(ANN, 1), 0);
    assert_eq!(other.grant(BOB, 2), 1);
    rig.arrive(CAT, terms(2, secs(600)));
    rig.pass(secs(1));
    rig.arrive(DAN, terms(1, secs(600)));
    rig.pass(secs(1));
    other.release(ANN);
    other.serve();
    rig.pass(secs(6));
    assert_eq!(rig.granted(CAT).0, 0, "it has waited for longer");
    assert_eq!(rig.pool.waiting(), 1);
    rig.release(CAT);
    assert_eq!(rig.granted(DAN).0, 0);
}

#[test]
fn s31_a_plain_caller_that_comes_and_goes_costs_none_the_permit_that_is_being_acquired() {
    let tried_for_it = || {
        let mut rig = trying_permit_0(2);
        rig.arrive(BOB, terms(1, secs(600)));
        rig
    };
    let polled_for_both = || {
        let mut rig = Rig::new();
        rig.arrive(BOB, terms(1, secs(600)));
        rig.arrive(ANN, terms(2, secs(600)));
        rig
    };
    for mut rig in [tried_for_it(), polled_for_both()] {
        rig.leave(BOB);
        let tried: Vec<u8> = rig.sent.iter().map(|(permit, _)| permit.number()).collect();
        assert_eq!(tried, [0, 1]);
        rig.serve();
        assert_eq!(rig.granted(ANN).0, 0, "it was being acquired while the caller waited");
        assert!(!rig.is_leased(permit(1)));
    }
}

#[test]
fn s31_one_try_ends_with_the_answer_to_what_a_plain_caller_polled_that_has_gone() {
    let (mut rig, mut other) = Rig::pair();
    for caller in [CAT, DAN] {
        other.grant(caller, 2);
    }
    let requests = rig.requests();
    rig.arrive(BOB, terms(1, secs(600)));
    rig.arrive(ANN, terms(2, secs(0)));
    rig.leave(BOB);
    rig.serve();
    assert_eq!(rig.busy(ANN), 2);
    assert_eq!(rig.requests(), requests + 4, "one try at each permit, with its read");
    assert!(rig.pool.is_idle());
}

#[test]
fn s12_s31_one_try_is_answered_by_what_is_known_of_permit_0_though_a_plain_caller_polls_it() {
    let (mut rig, mut other) = Rig::pair();
    assert_eq!(other.grant(ANN, 1), 0);
    assert_eq!(rig.grant(BOB, 2), 1);
    rig.arrive(DAN, terms(1, secs(600)));
    rig.pass(secs(1));
    rig.told();
    rig.arrive(CAT, terms(2, secs(0)));
    assert_eq!(rig.busy(CAT), 2);
}

#[test]
fn s10_others_turn_is_not_cut_short_for_one_try_that_has_gone() {
    let mut rig = Rig::new();
    for caller in [ANN, BOB] {
        rig.grant(caller, 1);
        rig.pass(secs(90));
        rig.release(caller);
        if caller == BOB {
            rig.arrive(DAN, terms(1, secs(600)));
            rig.arrive(EVE, terms(1, secs(0)));
            rig.leave(EVE);
        }
        rig.serve();
    }
    rig.told();
    let stands_back_until = rig.pool.poll_timeout().unwrap();
    assert!(stands_back_until > rig.at() + secs(1), "{:?}", rig.at());
}

#[test]
fn s10_s31_a_permit_is_not_marked_for_a_caller_that_cannot_have_it() {
    let (mut rig, mut other) = Rig::pair();
    assert_eq!(other.grant(ANN, 1), 0);
    rig.arrive(DAN, terms(1, secs(600)));
    rig.pass(secs(1));
    assert_eq!(rig.grant(CAT, 2), 1);
    let machine = rig.pool.machine(permit(1)).unwrap();
    assert!(!machine.known().unwrap().record().handed_on);
}
