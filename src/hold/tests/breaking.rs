//! Breaks that are on their way from this sidecar: S17.

use super::overruling::waits;
use super::proving::of;
use super::rig::{ANN, BOB, CAT, Rig, is_granted, loss, millis, outage, revoked, secs, terms};
use crate::hold::{Action, Answer, Event, Failure, Granted, Request};

/// A break that is over may have been done: what was renewed before says nothing of it.
#[test]
fn s17_what_a_break_may_have_met_is_not_handed_on_before_a_renewal() {
    for renewed in [false, true] {
        let mut rig = Rig::new();
        let grant = rig.grant(ANN, terms());
        rig.arrive(BOB, terms());
        rig.on(Event::BreakBegun);
        rig.on(Event::BreakOver { may_arrive: false });
        rig.pass_served(if renewed { secs(6) } else { millis(10) });
        rig.release_of(ANN, &grant);
        assert_eq!(is_granted(&rig.told(), BOB), renewed);
        rig.pass_served(secs(6));
        assert!(renewed || is_granted(&rig.told(), BOB), "by the store");
    }
}

/// A break that was given up may arrive for as long as the record is the one that it goes by: a renewal
/// proves nothing.
#[test]
fn s17_what_a_break_given_up_may_yet_meet_is_not_handed_on() {
    let mut rig = Rig::new();
    let grant = rig.grant(ANN, terms());
    rig.arrive(BOB, terms());
    rig.on(Event::BreakBegun);
    rig.on(Event::BreakOver { may_arrive: true });
    rig.pass_served(secs(6));
    rig.release_of(ANN, &grant);
    assert!(!is_granted(&rig.told(), BOB), "not by hand-off");
    rig.pass_served(secs(6));
    let told = rig.told();
    assert!(is_granted(&told, BOB), "by the store: {told:?}");
}

/// Once the record was written by a request that was sent since, the break fits no more; but it may have come
/// before that.
#[test]
fn s17_a_save_since_and_a_renewal_after_it_show_that_no_break_has_met_the_lease() {
    for (saved, renewed) in [(true, false), (true, true), (false, true)] {
        let mut rig = Rig::new();
        let grant = rig.grant(ANN, terms());
        rig.arrive(BOB, terms());
        rig.on(Event::BreakBegun);
        rig.pass_served(secs(2));
        // The save of the other case was sent while the break was under way, and says nothing of it.
        rig.save(ANN, 1, "before");
        let write = rig.request();
        if saved {
            rig.serve_one(&write);
        }
        rig.on(Event::BreakOver { may_arrive: true });
        if saved {
            rig.pass_served(secs(2));
            rig.save(ANN, 2, "since");
            rig.pass_served(millis(10));
        } else {
            rig.serve_one(&write);
        }
        rig.pass_served(if renewed { secs(6) } else { millis(10) });
        rig.release_of(ANN, &grant);
        assert_eq!(is_granted(&rig.told(), BOB), saved && renewed, "saved: {saved}");
    }
}

/// The doubt outlives the machine: the next lease may be met before its token is written.
#[test]
fn s17_a_lease_under_which_a_late_break_may_have_come_is_proved_before_it_is_granted() {
    let mut rig = Rig::new();
    rig.on(Event::BreakBegun);
    rig.on(Event::BreakOver { may_arrive: true });
    rig.rest();
    rig.arrive(ANN, terms());
    let mut renewals = 0;
    while !is_granted(&rig.told(), ANN) {
        rig.pass(millis(10));
        while let Some(action) = rig.sent.pop_front() {
            renewals +=
                u32::from(matches!(action, Action::Store { what: Request::Renew { .. }, .. }));
            rig.serve_one(&action);
        }
    }
    assert_eq!(renewals, 1);
}

/// `ANN` holds and yields, and `BOB` waits for it to be broken for him: that break is on its way.
fn broken_for_bob() -> (Rig, Granted, Action) {
    let (mut rig, grant) = Rig::with_holder(ANN, of(1, terms()));
    rig.arrive(BOB, waits(of(2, terms())));
    // It looks after D, and what the look shows has it break the lease.
    while !rig.sent.iter().any(is_break) {
        rig.serve();
        rig.pass(millis(50));
        while let Some(place) = rig.sent.iter().position(|action| !is_break(action)) {
            let action = rig.sent.remove(place).unwrap();
            rig.serve_one(&action);
        }
    }
    rig.told();
    let asked = rig.request();
    (rig, grant, asked)
}

/// Ann is handed on what Bob had broken, and Bob has gone.
#[test]
fn s33_a_break_for_a_waiting_caller_does_not_hit_the_next_holder_here() {
    let (mut rig, grant, asked) = broken_for_bob();
    rig.leave(BOB);
    rig.arrive(CAT, waits(of(1, terms())));
    rig.release_of(ANN, &grant);
    rig.serve_one(&asked);
    rig.pass_served(secs(30));
    let told = rig.told();
    assert!(is_granted(&told, CAT), "{told:?}");
    assert_eq!((revoked(&told, CAT), loss(&told, CAT)), (None, None));
}

/// The timers of who sends it stand still while the computer sleeps: it may go on with a break that the
/// machine has given up, by the version that a save has written since (S33).
#[test]
fn s33_a_break_that_was_given_up_is_under_way_until_it_is_answered() {
    for (answer, saved_since, handed_on) in [
        (None, false, false),
        (Some(Err(Failure::Changed)), false, true),
        (Some(Err(outage())), false, false),
        (Some(Err(outage())), true, true),
    ] {
        let (mut rig, grant, asked) = broken_for_bob();
        let Action::Store { request, what: Request::Break { .. }, .. } = asked else {
            panic!("{asked:?}")
        };
        rig.leave(BOB);
        rig.arrive(CAT, waits(of(1, terms())));
        rig.pass_served(secs(3));
        rig.save(ANN, 1, "since it was given up");
        rig.pass_served(secs(6));
        if let Some(answer) = answer.clone() {
            rig.on(Event::Answer { request, answer: Answer::Break(answer) });
        }
        if saved_since {
            rig.save(ANN, 2, "since it was answered");
        }
        rig.pass_served(secs(6));
        rig.release_of(ANN, &grant);
        assert_eq!(is_granted(&rig.told(), CAT), handed_on, "{answer:?}, {saved_since}");
        rig.pass_served(secs(6));
        assert!(handed_on || is_granted(&rig.told(), CAT), "by the store");
    }
}

const fn is_break(action: &Action) -> bool {
    matches!(action, Action::Store { what: Request::Break { .. }, .. })
}

/// Its former holder may believe in it for a while, which an operator has taken on.
#[test]
fn s13_s17_a_lock_that_an_operator_has_freed_waits_for_no_former_holder_of_that_grant() {
    let mut rig = Rig::new();
    let grant = rig.grant(ANN, terms());
    rig.silent(ANN);
    rig.on(Event::LeaseBroken { ends_now: true });
    rig.arrive(BOB, terms());
    assert_eq!(rig.sent.len(), 0, "it may still be believed in");
    let other = grant.token.after_hand_off().unwrap();
    rig.on(Event::LockFreed { token: other });
    assert_eq!(rig.sent.len(), 0, "another grant was freed");
    rig.on(Event::LockFreed { token: grant.token });
    rig.table_mut().break_now();
    rig.serve();
    assert!(is_granted(&rig.told(), BOB));
}
