//! Others get their turn, and marks age (S10).

use std::time::Duration;

use super::rig::{ANN, BOB, CAT, Rig, is_busy, millis, one_try, outage, secs, terms};
use crate::hold::{CallerId, Terms};

#[test]
fn s10_one_caller_that_loops_lets_others_have_their_turn() {
    for (hold, away) in [(millis(200), millis(2)), (secs(1), millis(2)), (secs(9), millis(100))] {
        let (mut rig, mut other) = Rig::pair();
        rig.grant(ANN, terms());
        other.arrive(CAT, Terms { wait: secs(7_200), ..terms() });
        other.serve();
        let waits_since = other.now;
        let mut caller = ANN;
        while other.hold.holding().is_none() {
            assert!(other.now - waits_since < hold * 4 + secs(30), "it starves: {hold:?}");
            step_both(&mut rig, &mut other, hold);
            rig.release(caller);
            step_both(&mut rig, &mut other, away);
            caller = CallerId(caller.0 + 10);
            rig.arrive(caller, terms());
            while rig.hold.holding().is_none() && other.hold.holding().is_none() {
                step_both(&mut rig, &mut other, millis(20));
            }
        }
    }
}

fn step_both(rig: &mut Rig, other: &mut Rig, span: Duration) {
    let mut left = span;
    while !left.is_zero() {
        let step = left.min(millis(10));
        rig.pass_served(step);
        other.pass_served(step);
        left -= step;
    }
}

#[test]
fn s10_who_takes_a_lock_now_and_then_does_not_stand_back() {
    let mut rig = Rig::new();
    for output in 0..5 {
        rig.grant(CallerId(output), terms());
        rig.pass_served(secs(8));
        rig.release(CallerId(output));
        rig.pass_served(secs(7));
    }
    rig.grant(CallerId(9), terms());
    rig.pass_served(secs(8));
    rig.release(CallerId(9));
    rig.serve();
    // Once is no loop, whoever comes next.
    rig.arrive(CallerId(10), one_try());
    rig.serve();
    rig.granted(CallerId(10));
}

#[test]
fn s10_callers_that_try_once_set_no_mark() {
    let mut rig = Rig::new();
    rig.arrive(ANN, terms());
    rig.arrive(BOB, one_try());
    rig.serve();
    rig.granted(ANN);
    assert!(!rig.record().handed_on);
    let mut rig = Rig::new();
    rig.arrive(ANN, one_try());
    rig.arrive(BOB, terms());
    rig.serve();
    rig.granted(ANN);
    assert!(rig.record().handed_on);
}

/// One sidecar holds the lock, with the mark of a caller that has gone since; the other has not looked yet.
fn with_a_mark_that_is_left() -> (Rig, Rig) {
    let (mut rig, other) = Rig::pair();
    rig.arrive(ANN, Terms { wait: secs(600), ..terms() });
    rig.arrive(BOB, Terms { wait: secs(600), ..terms() });
    rig.serve();
    assert!(rig.record().handed_on);
    rig.leave(BOB);
    (rig, other)
}

#[test]
fn s10_a_mark_ages() {
    let (mut rig, mut other) = with_a_mark_that_is_left();
    other.arrive(CAT, Terms { wait: secs(7_200), ..terms() });
    other.serve();
    let mut requests = 0;
    for _ in 0..36_000 {
        rig.pass_served(millis(100));
        other.pass(millis(100));
        requests += other.sent.len();
        other.serve();
    }
    assert!(requests < 1_400, "{requests} requests in an hour");
}

#[test]
fn s10_a_mark_on_a_lock_that_was_forgotten_is_not_taken_for_news() {
    let (mut rig, mut other) = with_a_mark_that_is_left();
    let mut requests = 0;
    for round in 0..20 {
        other.forget();
        other.arrive(CallerId(100 + round), Terms { wait: secs(10), ..terms() });
        for _ in 0..120 {
            rig.pass_served(millis(100));
            other.pass(millis(100));
            requests += other.sent.len();
            other.serve();
        }
        assert!(other.hold.is_idle());
    }
    assert!(requests < 20 * 15, "{requests} requests in 20 waits of ten seconds");
}

#[test]
fn s10_saves_do_not_keep_a_mark_young() {
    let (mut rig, mut other) = with_a_mark_that_is_left();
    other.arrive(CAT, Terms { wait: secs(7_200), ..terms() });
    other.serve();
    let mut requests = 0;
    for tick in 0..6_000 {
        if tick % 100 == 0 {
            rig.save(ANN, tick, "page");
        }
        rig.pass_served(millis(100));
        other.pass(millis(100));
        requests += other.sent.len();
        other.serve();
    }
    assert!(requests < 400, "{requests} requests in ten minutes");
}

/// Two holds in a row, so that this sidecar stands back after the second; what it does then is up to the
/// caller.
fn loop_twice(first: Duration, second: Duration) -> Rig {
    let mut rig = Rig::new();
    for (caller, span) in [(ANN, first), (BOB, second)] {
        rig.grant(caller, terms());
        rig.pass_served(span);
        rig.release(caller);
        rig.serve();
    }
    rig.told();
    rig
}

/// How long it stands back.
fn stands_back(rig: &mut Rig) -> Duration {
    rig.arrive(CAT, terms());
    rig.hold.poll_timeout().expect("it waits for its output") - rig.at()
}

#[test]
fn s10_a_sidecar_stands_back_for_a_tenth_of_a_long_tenure_and_at_most_six_fifths_of_a_poll() {
    let short = |span: Duration| span >= millis(400) && span <= millis(600);
    assert!(short(stands_back(&mut loop_twice(secs(6), secs(6)))));
    // Others poll eagerly for D and five seconds, so that the moment is enough.
    assert!(short(stands_back(&mut loop_twice(secs(6), secs(20)))));
    let long = stands_back(&mut loop_twice(secs(6), millis(20_100)));
    assert_eq!(long, millis(2_610));
    assert_eq!(stands_back(&mut loop_twice(secs(90), secs(90))), secs(6));
}

#[test]
fn s10_who_has_stood_back_begins_anew() {
    let mut rig = loop_twice(secs(3), secs(3));
    let stood_back = stands_back(&mut rig);
    rig.pass_served(stood_back);
    rig.granted(CAT);
    rig.pass_served(secs(2));
    rig.release(CAT);
    rig.serve();
    rig.arrive(ANN, terms());
    assert_eq!(rig.sent.len(), 1, "two seconds later it need not stand back again");
    rig.serve();
    rig.granted(ANN);
    rig.pass_served(secs(4));
    rig.release(ANN);
    rig.serve();
    rig.arrive(BOB, terms());
    assert!(rig.sent.is_empty(), "but after five it must");
}

#[test]
fn s12_s10_one_try_does_not_wait_for_long_while_this_sidecar_stands_back() {
    let mut rig = loop_twice(secs(90), secs(90));
    rig.arrive(CAT, one_try());
    assert_eq!(rig.told(), [], "nobody is known to have the lock");
    rig.pass_served(millis(599));
    assert_eq!(rig.told(), []);
    rig.pass_served(millis(1));
    rig.granted(CAT);
    // A moment is a moment: it is not made longer.
    let mut rig = loop_twice(secs(6), secs(6));
    let ends = rig.at() + stands_back(&mut rig);
    rig.leave(CAT);
    rig.pass(millis(300));
    rig.arrive(CAT, one_try());
    assert_eq!(rig.hold.poll_timeout(), Some(ends));
    // A rest is no standing back: the answer is known.
    let (mut rig, mut other) = Rig::pair();
    let grant = rig.grant(ANN, Terms { min_hold: secs(40), ..terms() });
    rig.release_of(ANN, &grant);
    other.now += secs(20);
    other.arrive(BOB, one_try());
    other.serve();
    other.told();
    other.arrive(CAT, one_try());
    assert!(is_busy(&other.told(), CAT));
}

#[test]
fn s12_s10_one_try_that_comes_during_the_release_does_not_wait_for_long_either() {
    let mut rig = Rig::new();
    for caller in [ANN, BOB] {
        rig.grant(caller, terms());
        rig.pass_served(secs(90));
        rig.release(caller);
        if caller == BOB {
            rig.arrive(CAT, one_try());
        }
        rig.serve();
    }
    rig.told();
    rig.pass_served(millis(600));
    rig.granted(CAT);
}

#[test]
fn s10_who_stands_back_does_so_from_when_the_store_has_the_lock_back() {
    let mut rig = Rig::new();
    rig.grant(ANN, terms());
    for caller in [BOB, CAT, CallerId(4)] {
        rig.arrive(caller, terms());
    }
    rig.release(ANN);
    rig.pass_served(secs(6));
    rig.told();
    rig.release(BOB);
    // The store throttles for a moment.
    rig.fail(outage());
    while rig.sent.is_empty() {
        rig.pass(millis(10));
    }
    let release = rig.request();
    rig.serve_one(&release);
    rig.pass(millis(390));
    assert!(rig.sent.is_empty(), "others have their turn: {:?}", rig.sent);
    rig.pass_served(millis(220));
    rig.granted(CAT);
}
