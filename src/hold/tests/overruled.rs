//! A holder here, and callers here that may overrule it, or may not (S33, S35).

use super::overruling::{breaks, does, go_on, held, moving, serves, waits};
use super::proving::of;
use super::rig::{ANN, BOB, CAT, Rig, busy, is_granted, millis, outage, revoked, secs, terms};
use super::table::{failed, note_for};
use crate::hold::{
    Action, Event, Failure, Notice, PriorityStatus, Request, StoreFailure, StoreFailureKind, Terms,
};
use crate::record::Priority;

fn is_look(action: &Action) -> bool {
    matches!(action, Action::Store { what: Request::Look { note: true, .. }, .. })
}

/// A holder of priority 1 that yields, and a caller here for which it is looked at: that look.
fn looked_at() -> (Rig, Action) {
    let (mut rig, _) = Rig::with_holder(ANN, of(1, terms()));
    rig.arrive(BOB, waits(of(2, terms())));
    rig.pass_served(secs(15) - millis(1));
    rig.pass(millis(2));
    let place = rig.sent.iter().position(is_look).expect("a look");
    let look = rig.sent.remove(place).unwrap();
    rig.serve();
    rig.told();
    (rig, look)
}

#[test]
fn s33_a_machine_wakes_when_a_caller_has_waited_for_d_and_else_not_for_that() {
    let (mut rig, _) = Rig::with_holder(ANN, of(1, terms()));
    let begun = rig.at();
    rig.arrive(BOB, waits(of(2, terms())));
    let wakes = rig.hold.poll_timeout().unwrap();
    rig.pass_served(secs(14));
    while rig.hold.poll_timeout().unwrap() < begun + secs(15) {
        rig.pass_served(millis(100));
    }
    assert!(wakes < begun + secs(15), "a renewal first");
    assert_eq!(rig.hold.poll_timeout().unwrap(), begun + secs(15));
    // Who may not overrule its holder wakes nobody: the rig counts how often that is.
    let waiter = of(2, terms());
    let cases =
        [(terms(), waiter.clone()), (waiter.clone(), waiter.clone()), (of(3, terms()), waiter)];
    for (holder, waiter) in cases {
        let (mut rig, _) = Rig::with_holder(ANN, holder);
        rig.arrive(BOB, waits(waiter));
        rig.pass_served(secs(60));
    }
}

#[test]
fn s33_a_store_that_refuses_breaks_is_left_alone_for_ten_minutes_here_too() {
    let (mut rig, look) = looked_at();
    rig.serve_one(&look);
    let asked = rig.request();
    assert!(matches!(asked, Action::Store { what: Request::Break { .. }, .. }), "{asked:?}");
    let refused = Failure::Refused(StoreFailure {
        kind: StoreFailureKind::Denied,
        message: "no".to_owned(),
        retry_after: None,
    });
    rig.on(failed(&asked, refused).unwrap());
    for _ in 0..590 {
        rig.pass(secs(1));
        assert!(!rig.sent.iter().any(is_look));
        rig.serve();
    }
}

#[test]
fn s33_a_look_at_a_holder_here_that_is_not_answered_is_given_up_and_repeated() {
    let (mut rig, _lost) = looked_at();
    let mut again = false;
    for _ in 0..60 {
        rig.pass(millis(100));
        again |= rig.sent.iter().any(is_look);
        rig.serve();
    }
    assert!(again);
}

#[test]
fn s13_who_may_not_know_any_more_when_the_look_is_answered_is_not_overruled() {
    let (mut rig, look) = looked_at();
    rig.silent(ANN);
    rig.serve_one(&look);
    assert!(
        !rig.sent
            .iter()
            .any(|action| matches!(action, Action::Store { what: Request::Break { .. }, .. }))
    );
}

#[test]
fn s33_a_greater_priority_waits_for_d_though_its_share_is_to_be_balanced() {
    let (mut old, mut new, _) = held(of(0, terms()));
    go_on((&mut old, &mut new), secs(700), serves);
    new.arrive(BOB, moving(of(2, terms())));
    go_on((&mut old, &mut new), secs(1), serves);
    new.on(Event::MoveAsked);
    assert!(breaks((&mut old, &mut new), secs(12), does).is_empty());
    // Nor is a lock moved for one behind that did not ask for it.
    new.arrive(CAT, waits(of(0, terms())));
    assert!(breaks((&mut old, &mut new), secs(1), does).is_empty());
    // Who did, and is an equal, need not have waited.
    let (mut old, mut new, _) = held(of(0, terms()));
    go_on((&mut old, &mut new), secs(700), serves);
    new.arrive(BOB, moving(of(0, terms())));
    new.on(Event::MoveAsked);
    assert_eq!(breaks((&mut old, &mut new), secs(2), does).len(), 1);
}

#[test]
fn s33_what_was_broken_for_a_caller_is_polled_as_ever_once_that_had_the_lock() {
    let (mut old, mut new, grant) = held(of(1, terms()));
    new.arrive(BOB, waits(of(2, terms())));
    assert_eq!(breaks((&mut old, &mut new), secs(22), does).len(), 1);
    old.release_of(ANN, &grant);
    old.serve();
    go_on((&mut old, &mut new), secs(1), serves);
    let taken = new.granted(BOB);
    new.release_of(BOB, &taken);
    new.serve();
    old.grant(CAT, of(2, terms()));
    new.arrive(BOB, waits(of(2, terms())));
    let mut polls = 0;
    go_on((&mut old, &mut new), secs(15), |rig, action| {
        polls += u32::from(matches!(action, Action::Store { what: Request::Acquire { .. }, .. }));
        rig.serve_one(&action);
    });
    assert!(polls <= 20, "{polls} in 15 s");
}

/// A lock that is kept for a caller of priority 5, for 10 s; and a machine that knows nothing of it.
fn reserved() -> (Rig, Rig) {
    let (mut old, mut new, grant) = held(of(1, terms()));
    new.arrive(BOB, waits(of(5, terms())));
    assert_eq!(breaks((&mut old, &mut new), secs(22), does).len(), 1);
    new.leave(BOB);
    go_on((&mut old, &mut new), secs(6), serves);
    old.release_of(ANN, &grant);
    old.serve();
    new.serve();
    assert_eq!(old.record().reserved.unwrap().priority, Priority::new(5).unwrap());
    new.restart();
    (old, new)
}

/// What became of the priority of `CAT`, and whether the lock rests, as it was told when its wait was over.
fn told_busy(rig: &mut Rig) -> Option<(Option<PriorityStatus>, bool)> {
    busy(&rig.told(), CAT).map(|busy| (busy.priority, busy.resting))
}

#[test]
fn s33_who_leaves_while_a_lock_is_reserved_is_told_so() {
    let (_, mut new) = reserved();
    new.arrive(CAT, Terms { wait: secs(4), ..of(1, terms()) });
    new.pass_served(secs(5));
    assert_eq!(told_busy(&mut new), Some((Some(PriorityStatus::Reserved), true)));
}

#[test]
fn s33_a_reservation_is_not_told_once_somebody_has_the_lock() {
    let (mut old, mut new) = reserved();
    new.arrive(CAT, Terms { wait: secs(5), ..of(1, terms()) });
    new.pass_served(secs(1));
    old.grant(ANN, of(5, terms()));
    old.now = new.now;
    // What it is polled for next tells of that.
    new.arrive(BOB, of(6, terms()));
    new.serve();
    new.leave(BOB);
    go_on((&mut old, &mut new), secs(8), serves);
    assert_eq!(told_busy(&mut new), Some((Some(PriorityStatus::NotGreater), false)));
}

#[test]
fn s33_who_reads_that_a_lock_is_reserved_is_told_that_it_waits_and_of_no_old_failure() {
    let (_, mut new) = reserved();
    let standing =
        crate::hold::Standing { held: 1, patience: secs(1), not_before: None, turn: true };
    new.hold.stand(standing);
    let share = crate::record::ShareName::new("listeners").ok();
    let low = of(1, terms());
    let mut record = low.record.clone();
    record.sharing.as_mut().unwrap().share = share;
    new.arrive(CAT, Terms { wait: secs(6), record, ..low });
    let read = new.request();
    assert!(matches!(read, Action::Store { what: Request::Read, .. }), "{read:?}");
    new.on(failed(&read, outage()).unwrap());
    new.pass_served(secs(3));
    let told = new.told();
    let waiting = told.iter().any(|action| {
        matches!(action, Action::Tell { caller: CAT, notice: Notice::Waiting { .. } })
    });
    assert!(waiting && !is_granted(&told, CAT), "{told:?}");
    new.pass_served(secs(4));
    assert_eq!(told_busy(&mut new), Some((Some(PriorityStatus::Reserved), true)));
}

#[test]
fn s8_a_look_that_is_refused_once_does_not_say_that_the_store_refuses_breaks() {
    let (mut rig, look) = looked_at();
    let refused = Failure::Refused(StoreFailure {
        kind: StoreFailureKind::Denied,
        message: "its token has expired".to_owned(),
        retry_after: None,
    });
    rig.on(failed(&look, refused).unwrap());
    assert_eq!(rig.told(), []);
    rig.pass_served(secs(10));
    assert!(revoked(&rig.told(), ANN).is_some());
}

#[test]
fn s33_s10_a_lost_break_of_a_lock_that_was_handed_on_and_saved_is_asked_for_again_before_long() {
    let (mut old, mut new, grant) = held(of(1, terms()));
    new.arrive(BOB, waits(of(2, terms())));
    let mut lost = None;
    while lost.is_none() {
        let asked = breaks((&mut old, &mut new), millis(50), |rig, action, rival| {
            // Its note is there, and the lease goes on.
            rig.table_mut().note_break(note_for(rival));
            rig.on(failed(action, outage()).unwrap());
        });
        lost = asked.into_iter().next();
    }
    old.arrive(CAT, waits(of(1, terms())));
    old.release_of(ANN, &grant);
    old.save(CAT, 1, "saved");
    old.serve();
    assert!(is_granted(&old.told(), CAT) && old.record().token > Some(grant.token));
    assert_eq!(breaks((&mut old, &mut new), secs(15), does).len(), 1);
}

#[test]
fn s33_a_lock_is_not_polled_eagerly_for_who_is_left_once_the_one_that_it_was_broken_for_has_gone() {
    let (mut old, mut new, _) = held(of(1, terms()));
    new.arrive(CAT, waits(of(1, terms())));
    new.arrive(BOB, waits(of(2, terms())));
    assert_eq!(breaks((&mut old, &mut new), secs(22), does).len(), 1);
    new.leave(BOB);
    go_on((&mut old, &mut new), secs(1), serves);
    // Its holder's sidecar is gone, so that the lease runs out.
    old.restart();
    let mut polls = 0;
    go_on((&mut old, &mut new), secs(5), |rig, action| {
        polls += u32::from(matches!(
            action,
            Action::Store { what: Request::Acquire { .. } | Request::Read, .. }
        ));
        rig.serve_one(&action);
    });
    assert!(polls <= 8, "{polls} in 5 s");
}
