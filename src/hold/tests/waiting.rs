//! Callers that wait, and how a lock is handed on among them: S10, S12.

use super::rig::{
    ANN, BOB, CAT, Rig, is_busy, is_granted, loss, millis, one_try, outage, released, secs, terms,
};
use crate::hold::{Action, CallerId, Notice, Request, Terms};
use crate::queue::PlainLock;

#[test]
fn s12_callers_are_served_in_the_order_in_which_they_came() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, terms());
    rig.arrive(CAT, terms());
    rig.release(ANN);
    let told = rig.told();
    assert!(is_granted(&told, BOB) && !is_granted(&told, CAT));
    rig.leave(BOB);
    rig.granted(CAT);
}

#[test]
fn s12_one_request_is_in_flight_however_many_wait() {
    let (mut rig, mut other) = Rig::pair();
    rig.grant(ANN, terms());
    for caller in 10..20 {
        other.arrive(CallerId(caller), terms());
    }
    for _ in 0..200 {
        assert!(other.sent.len() <= 1, "{:?}", other.sent);
        if let Some(action) = other.sent.pop_front() {
            other.serve_one(&action);
        } else {
            other.pass(millis(50));
        }
    }
}

#[test]
fn s12_the_first_busy_answer_names_the_holder_and_later_polls_are_the_acquire_alone() {
    let (mut rig, mut other) = Rig::pair();
    let mut named = terms();
    named.record.holder = "keeper-7".to_owned();
    rig.grant(ANN, named);
    other.arrive(BOB, Terms { wait: secs(10), ..terms() });
    let first = other.request();
    assert!(matches!(first, Action::Store { what: Request::Acquire { read: true, .. }, .. }));
    other.serve_one(&first);
    other.pass(millis(900));
    assert!(matches!(
        other.sent.front(),
        Some(Action::Store { what: Request::Acquire { read: false, .. }, .. })
    ));
    other.pass_served(secs(10));
    let told = other.told();
    assert!(told.iter().any(|action| matches!(
        action, Action::Tell { notice: Notice::Busy(busy), .. } if busy.record.holder == "keeper-7" && !busy.resting
    )));
}

#[test]
fn s12_one_try_is_one_answer() {
    let (mut rig, mut other) = Rig::pair();
    rig.grant(ANN, terms());
    other.arrive(BOB, one_try());
    other.serve();
    assert!(is_busy(&other.told(), BOB));
    assert!(other.hold.is_idle(), "nothing goes on after the answer");
    other.arrive(CAT, one_try());
    other.fail(outage());
    assert!(super::rig::store_failure(&other.told(), CAT).is_some());
}

#[test]
fn s12_one_try_behind_another_is_busy_when_that_one_is_served() {
    let mut rig = Rig::new();
    rig.arrive(ANN, terms());
    rig.arrive(BOB, one_try());
    rig.serve();
    let told = rig.told();
    assert!(is_granted(&told, ANN) && is_busy(&told, BOB));
    rig.arrive(CAT, one_try());
    assert!(is_busy(&rig.told(), CAT), "the answer is known");
}

#[test]
fn s12_a_caller_that_goes_away_or_times_out_leaves_the_queue_at_once() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, Terms { wait: secs(3), ..terms() });
    rig.arrive(CAT, terms());
    rig.leave(CAT);
    assert_eq!(rig.hold.waiting(), 1);
    rig.pass(secs(3));
    assert_eq!(rig.hold.waiting(), 0);
    assert!(is_busy(&rig.told(), BOB));
    rig.release(ANN);
    rig.serve();
    assert!(!rig.is_leased());
}

#[test]
fn a_repeated_call_has_the_place_of_its_first_and_the_grant_of_its_holder() {
    let named = |wait| Terms { request_id: "order-7".to_owned(), wait, ..terms() };
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.arrive(CallerId(9), named(secs(5)));
    rig.arrive(BOB, terms());
    rig.told();
    rig.pass(secs(4));
    rig.arrive(CAT, named(secs(60)));
    let told = rig.told();
    assert!(
        told.contains(&Action::Tell {
            caller: CallerId(9),
            notice: Notice::Superseded { by: CAT }
        })
    );
    assert!(told.contains(&Action::Tell { caller: CAT, notice: Notice::Waiting { place: 1 } }));
    assert_eq!(rig.hold.waiting(), 2);
    // Its wait is its own, not what was left of the first call's.
    rig.pass_served(secs(20));
    rig.leave(ANN);
    rig.granted(CAT);
    rig.arrive(CallerId(10), named(secs(60)));
    assert_eq!(
        rig.told(),
        [Action::Tell { caller: CallerId(10), notice: Notice::SameGrant { holder: CAT } }]
    );
}

#[test]
fn s10_a_local_hand_off_sends_nothing_and_gives_a_new_token() {
    let (mut rig, first) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, terms());
    rig.release(ANN);
    assert!(rig.sent.is_empty());
    let told = rig.told();
    assert_eq!(released(&told, ANN), Some(None));
    let second = told.iter().find_map(|action| match action {
        Action::Tell { caller: BOB, notice: Notice::Granted(grant) } => Some(grant.clone()),
        _ => None,
    });
    let second = second.expect("Bob has it");
    assert_eq!(second.token, first.token.after_hand_off().unwrap());
    assert_eq!((second.lease_id, second.valid_until), (first.lease_id, first.valid_until));
}

/// Callers that come, hold for 100 ms and go, one always waiting, until the lock is given back.
fn hand_on(rig: &mut Rig) -> u64 {
    let mut callers = 1_000;
    rig.arrive(CallerId(callers), terms());
    rig.serve();
    let begun = rig.now;
    loop {
        callers += 1;
        rig.arrive(CallerId(callers), terms());
        rig.pass_served(millis(100));
        rig.leave(CallerId(callers - 1));
        if let Some(Action::Store { what: Request::Release { .. }, .. }) = rig.sent.front() {
            assert!(rig.now - begun >= secs(5), "given back too early");
            assert!(rig.now - begun < millis(5_400), "given back too late");
            return callers;
        }
    }
}

#[test]
fn s10_after_five_seconds_the_lock_is_given_back_and_this_sidecar_stands_back() {
    let mut rig = Rig::new();
    let waiting = CallerId(hand_on(&mut rig));
    rig.told();
    rig.serve();
    rig.pass_served(millis(399));
    assert!(!is_granted(&rig.told(), waiting), "it must stand back for 500 ms less 20 %");
    rig.pass_served(millis(202));
    rig.granted(waiting);
}

#[test]
fn s10_another_sidecar_gets_its_turn_while_this_one_stands_back() {
    let (mut rig, mut other) = Rig::pair();
    // The first holder's record was written while another waited.
    rig.arrive(ANN, terms());
    rig.arrive(BOB, terms());
    rig.serve();
    assert!(rig.record().handed_on);
    other.arrive(CAT, terms());
    other.serve();
    // It polls every 250 ms, so that it meets the moment.
    let mut polls = 0;
    for _ in 0..40 {
        other.pass(millis(50));
        polls += other.sent.len();
        other.serve();
    }
    assert!((6..=8).contains(&polls), "{polls} polls in two seconds");
    rig.leave(BOB);
    rig.release(ANN);
    rig.serve();
    other.pass_served(millis(250));
    other.granted(CAT);
}

#[test]
fn s10_who_has_waited_since_before_the_lock_was_handed_on_gets_its_turn_too() {
    let (mut rig, mut other) = Rig::pair();
    rig.grant(ANN, terms());
    other.arrive(CAT, Terms { wait: secs(600), ..terms() });
    other.serve();
    // What it read says that nobody waits there; now somebody does.
    rig.release(ANN);
    rig.arrive(ANN, terms());
    rig.arrive(BOB, terms());
    rig.serve();
    assert!(rig.record().handed_on);
    let mut polls = Vec::new();
    for _ in 0..300 {
        rig.pass_served(millis(50));
        other.pass(millis(50));
        polls.extend(other.sent.front().map(|_| other.now));
        other.serve();
    }
    let soon = polls.windows(2).rev().take(4).all(|pair| pair[1] - pair[0] <= millis(350));
    assert!(soon, "after {} polls it still polls at the cap", polls.len());
}

#[test]
fn s10_who_looks_while_the_lock_is_free_asks_for_it_at_once() {
    let (mut rig, mut other) = Rig::pair();
    rig.grant(ANN, terms());
    other.arrive(CAT, Terms { wait: secs(600), ..terms() });
    other.serve();
    while !matches!(other.sent.front(), Some(Action::Store { what: Request::Read, .. })) {
        other.serve();
        other.pass(millis(50));
        assert!(other.now < secs(1_060), "every fourth poll reads");
    }
    rig.release(ANN);
    rig.serve();
    other.serve();
    other.granted(CAT);
}

#[test]
fn s10_a_lock_is_not_handed_on_past_half_the_lease() {
    let mut rig = Rig::new();
    rig.hold = PlainLock::new(
        crate::hold::Settings { poll_cap: secs(5), hand_off: secs(30) },
        crate::hold::Memory::default(),
        7,
        rig.at(),
    );
    rig.grant(ANN, terms());
    rig.arrive(BOB, terms());
    rig.release(ANN);
    rig.granted(BOB);
    rig.arrive(CAT, terms());
    rig.pass_served(millis(7_500));
    rig.release(BOB);
    let release = rig.request();
    assert!(matches!(release, Action::Store { what: Request::Release { .. }, .. }));
    rig.serve_one(&release);
    assert!(!is_granted(&rig.told(), CAT));
    assert!(rig.sent.is_empty(), "it stands back");
}

#[test]
fn s10_who_wants_other_terms_is_served_by_the_store() {
    for other in [
        Terms { lease_duration: secs(60), ..terms() },
        Terms { min_hold: secs(5), ..terms() },
        Terms { auto_renew: false, ..terms() },
    ] {
        let (mut rig, first) = Rig::with_holder(ANN, terms());
        rig.arrive(BOB, other.clone());
        rig.release(ANN);
        assert!(!is_granted(&rig.told(), BOB));
        rig.serve();
        let second = rig.granted(BOB);
        assert_ne!(second.lease_id, first.lease_id);
        assert_eq!(second.lease_duration, other.lease_duration);
        assert!(second.token > first.token);
    }
}

#[test]
fn s10_nothing_is_handed_on_that_is_at_risk() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, terms());
    rig.pass_failing(secs(11));
    rig.release(ANN);
    assert!(!is_granted(&rig.told(), BOB));
    rig.serve();
    rig.granted(BOB);
}

#[test]
fn s10_what_is_left_of_a_lease_that_nobody_renews_is_not_handed_on() {
    // Just before its holder would be told that it is at risk, and just before its end.
    for held in [millis(9_950), secs(13)] {
        let (mut rig, _) = Rig::with_holder(ANN, Terms { auto_renew: false, ..terms() });
        rig.pass(held);
        rig.arrive(BOB, terms());
        rig.release(ANN);
        assert!(!is_granted(&rig.told(), BOB), "{held:?}");
        rig.serve();
        assert!(rig.granted(BOB).valid_until - rig.at() > secs(14));
    }
}

#[test]
fn s5_when_the_hand_offs_of_an_epoch_are_used_up_the_next_is_written_under_the_same_lease() {
    let (mut rig, first) = Rig::with_holder(CallerId(0), terms());
    for caller in 1..=4_095 {
        rig.arrive(CallerId(caller), terms());
        rig.leave(CallerId(caller - 1));
    }
    assert!(rig.sent.is_empty());
    let told = rig.told();
    let grants = told
        .iter()
        .filter(|action| matches!(action, Action::Tell { notice: Notice::Granted(_), .. }));
    assert_eq!(grants.count(), 4_095);
    rig.arrive(CallerId(5_000), terms());
    rig.leave(CallerId(4_095));
    assert!(
        matches!(rig.sent.front(), Some(Action::Store { what: Request::Write { .. }, .. })),
        "{:?}",
        rig.sent
    );
    assert!(!is_granted(&rig.told(), CallerId(5_000)), "not before it is stored");
    rig.serve();
    let next = rig.granted(CallerId(5_000));
    assert_eq!(next.lease_id, first.lease_id);
    assert_eq!(next.token.epoch(), first.token.epoch() + 1);
    rig.arrive(CallerId(5_001), terms());
    rig.leave(CallerId(5_000));
    assert!(rig.granted(CallerId(5_001)).token > next.token, "and the handing on goes on");
}

#[test]
fn s13_a_lost_hold_is_not_handed_on_without_the_store() {
    // Its holder may have gone on with it at another sidecar.
    let (mut rig, _) = Rig::with_holder(ANN, Terms { max_hold: Some(secs(3)), ..terms() });
    rig.arrive(BOB, terms());
    rig.pass(secs(3));
    let told = rig.told();
    assert!(loss(&told, ANN).is_some() && !is_granted(&told, BOB));
    rig.pass_served(millis(30));
    rig.granted(BOB);
}

#[test]
fn s12_who_waits_is_told_so_again_within_thirty_seconds() {
    for outage_there in [false, true] {
        let (mut rig, mut other) = Rig::pair();
        rig.grant(ANN, terms());
        for (caller, after) in [(BOB, 0), (CAT, 13)] {
            other.pass_served(secs(after));
            rig.pause(secs(after));
            other.arrive(caller, Terms { wait: secs(3_600), ..terms() });
        }
        let mut heard = [(BOB, 1, other.now), (CAT, 2, other.now)];
        for _ in 0..100 {
            if outage_there {
                other.pass_failing(secs(1))
            } else {
                other.pass_served(secs(1))
            }
            rig.pass_served(secs(1));
            let told = other.told();
            for (caller, place, last) in &mut heard {
                if told.contains(&Action::Tell {
                    caller: *caller,
                    notice: Notice::Waiting { place: *place },
                }) {
                    *last = other.now;
                }
                assert!(other.now - *last < secs(30), "{caller:?} hears nothing");
            }
        }
    }
}

#[test]
fn s12_one_try_is_not_told_to_wait() {
    let mut rig = Rig::new();
    rig.arrive(ANN, one_try());
    rig.pass(secs(60));
    assert!(
        !rig.told()
            .iter()
            .any(|action| matches!(action, Action::Tell { notice: Notice::Waiting { .. }, .. }))
    );
}

#[test]
fn s12_a_repeated_call_keeps_its_place_when_it_is_the_last_that_waits() {
    const DAN: CallerId = CallerId(4);
    const EVE: CallerId = CallerId(5);
    const FAY: CallerId = CallerId(6);
    let named = || Terms { request_id: "order-7".to_owned(), ..terms() };
    let queued = || {
        let (mut rig, grant) = Rig::with_holder(ANN, terms());
        rig.arrive(BOB, terms());
        rig.arrive(CAT, named());
        rig.leave(BOB);
        rig.arrive(DAN, named());
        rig.told();
        rig.arrive(EVE, terms());
        (rig, grant)
    };
    let (mut rig, grant) = queued();
    rig.release_of(ANN, &grant);
    rig.serve();
    let told = rig.told();
    assert!(is_granted(&told, DAN) && !is_granted(&told, EVE), "{told:?}");
    let (mut rig, _) = queued();
    rig.arrive(FAY, terms());
    rig.pass_served(secs(70));
    let told = rig.told();
    for caller in [DAN, EVE, FAY] {
        assert!(is_busy(&told, caller), "{caller:?}: {told:?}");
    }
}

#[test]
fn an_emptied_queue_is_as_new() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, terms());
    rig.leave(BOB);
    assert_eq!(rig.hold.waiters(), Rig::new().hold.waiters());
}
