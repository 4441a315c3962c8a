//! Others get their turn, and marks age (S10).

use super::rig::{ANN, BOB, CAT, Rig, millis, one_try, secs, terms};
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

fn step_both(rig: &mut Rig, other: &mut Rig, span: std::time::Duration) {
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
    for turn in 0..5 {
        rig.grant(CallerId(turn), terms());
        rig.pass_served(secs(8));
        rig.release(CallerId(turn));
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

#[test]
fn s10_a_mark_ages() {
    let (mut rig, mut other) = Rig::pair();
    rig.arrive(ANN, Terms { wait: secs(600), ..terms() });
    rig.arrive(BOB, Terms { wait: secs(600), ..terms() });
    rig.serve();
    assert!(rig.record().handed_on);
    rig.leave(BOB);
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
