//! What a machine does so that the lock becomes free for who waits here (S33, S35).

use std::time::Duration;

use super::proving::of;
use super::rig::{
    ANN, BOB, CAT, Rig, busy, is_granted, millis, one_try, outage, refused, revoked, secs, terms,
};
use super::table::{failed, note_for};
use crate::hold::{
    Action, Answer, CallerId, Event, Failure, Granted, PriorityStatus, Remark, Request, RequestId,
    Rival, StoreFailureKind, Terms,
};
use crate::record::Priority;

/// D of all of these tests.
const LEASE: Duration = secs(15);
const STEP: Duration = millis(50);

/// The terms of a caller that waits without end, so to say.
pub(super) fn waits(terms: Terms) -> Terms {
    Terms { wait: secs(36_000), ..terms }
}

/// One that takes its part of a share.
pub(super) fn moving(terms: Terms) -> Terms {
    Terms { rebalance: true, ..waits(terms) }
}

/// A holder elsewhere, and a machine that nobody has asked for anything yet.
pub(super) fn held(terms: Terms) -> (Rig, Rig, Granted) {
    let (mut old, new) = Rig::pair();
    let grant = old.grant(ANN, terms);
    (old, new, grant)
}

/// Lets both go on for `span`; what `new` sends, it sends by `answer`, which is told how long that is.
pub(super) fn go_on(
    (old, new): (&mut Rig, &mut Rig),
    span: Duration,
    mut answer: impl FnMut(&mut Rig, Action),
) {
    let end = new.now + span;
    while new.now < end {
        old.pass_served(STEP);
        new.pass(STEP);
        while let Some(action) = new.sent.pop_front() {
            answer(new, action);
        }
    }
}

pub(super) fn serves(rig: &mut Rig, action: Action) {
    rig.serve_one(&action);
}

/// The breaks that `new` asks for within `span`, and when: each is answered by `answer`, all else by the
/// store.
pub(super) fn breaks(
    rigs: (&mut Rig, &mut Rig),
    span: Duration,
    mut answer: impl FnMut(&mut Rig, &Action, &Rival),
) -> Vec<(Duration, Rival)> {
    let begun = rigs.1.now;
    let mut asked = Vec::new();
    go_on(rigs, span, |rig, action| match &action {
        Action::Store { what: Request::Break { rival, .. }, .. } => {
            asked.push((rig.now - begun, (**rival).clone()));
            answer(rig, &action, rival);
        }
        _ => rig.serve_one(&action),
    });
    asked
}

pub(super) fn does(rig: &mut Rig, action: &Action, _: &Rival) {
    rig.serve_one(action);
}

fn times(breaks: &[(Duration, Rival)]) -> Vec<Duration> {
    breaks.iter().map(|(at, _)| *at).collect()
}

#[test]
fn s33_who_has_waited_for_d_breaks_a_holder_that_yields_once() {
    let (mut old, mut new, grant) = held(of(1, terms()));
    new.arrive(BOB, waits(of(2, terms())));
    let asked = breaks((&mut old, &mut new), secs(26), |rig, action, _| {
        let Action::Store { timeout, .. } = action else { panic!("{action:?}") };
        assert_eq!(*timeout, LEASE / 6, "as long as any request for a lease of D");
        rig.serve_one(action);
    });
    let [(at, rival)] = asked.as_slice() else { panic!("{asked:?}") };
    assert!(*at >= LEASE && *at <= LEASE + secs(6), "D, and a poll at the cap: {at:?}");
    assert_eq!((rival.token, rival.priority, rival.moves), (Some(grant.token), two(), false));
    assert!(revoked(&old.told(), ANN).is_some());
    go_on((&mut old, &mut new), secs(10), serves);
    assert!(is_granted(&new.told(), BOB));
}

fn two() -> Priority {
    Priority::new(2).unwrap()
}

#[test]
fn s33_who_may_not_overrule_does_not_even_look() {
    let yields = of(2, terms());
    let plain = waits(of(3, terms()));
    let cases = [
        (terms(), plain.clone(), "the holder does not yield"),
        (yields.clone(), waits(of(2, terms())), "equal"),
        (yields.clone(), moving(of(2, terms())), "equal, and no move was asked for"),
        (yields.clone(), waits(of(1, terms())), "smaller"),
        (yields, Terms { wait: secs(14), ..plain }, "not for so long"),
    ];
    for (holder, waiter, why) in cases {
        let (mut old, mut new, _) = held(holder);
        new.arrive(BOB, waiter);
        go_on((&mut old, &mut new), secs(60), |rig, action| {
            assert!(!matches!(action, Action::Store { what: Request::Look { .. }, .. }), "{why}");
            rig.serve_one(&action);
        });
    }
}

#[test]
fn s33_one_try_behind_does_not_overrule_however_often_it_comes() {
    let (mut old, mut new, _) = held(of(1, terms()));
    new.arrive(CAT, waits(terms()));
    for _ in 0..20 {
        new.arrive(BOB, Terms { wait: Duration::ZERO, ..of(2, one_try()) });
        go_on((&mut old, &mut new), secs(2), |rig, action| {
            assert!(!matches!(action, Action::Store { what: Request::Look { .. }, .. }));
            rig.serve_one(&action);
        });
    }
}

#[test]
fn s33_a_lock_is_not_broken_again_within_two_lease_durations() {
    let (mut old, mut new, _) = held(of(1, terms()));
    new.arrive(BOB, waits(of(2, terms())));
    assert_eq!(breaks((&mut old, &mut new), secs(22), does).len(), 1);
    // The next to have it is of a smaller priority again, and somebody new waits for it.
    go_on((&mut old, &mut new), secs(15), serves);
    let grant = new.granted(BOB);
    new.release_of(BOB, &grant);
    new.serve();
    old.grant(CAT, waits(of(1, terms())));
    let (mut third, begun) = (new, old.now);
    third.restart();
    third.arrive(BOB, waits(of(2, terms())));
    let at = times(&breaks((&mut old, &mut third), secs(40), does));
    assert_eq!(at.len(), 1, "{at:?}");
    assert!(at[0] >= LEASE && at[0] <= 2 * LEASE, "{at:?} after {begun:?}");
}

#[test]
fn s33_a_break_whose_request_was_lost_is_asked_for_again_before_long() {
    let (mut old, mut new, _) = held(of(1, terms()));
    new.arrive(BOB, waits(of(2, terms())));
    let mut lost = false;
    let asked = breaks((&mut old, &mut new), secs(50), |rig, action, rival| {
        if std::mem::replace(&mut lost, true) {
            rig.serve_one(action);
        } else {
            // Its note is there, as some stores write that first; and the lease goes on.
            rig.table_mut().note_break(note_for(rival));
            rig.on(failed(action, outage()).unwrap());
        }
    });
    let at = times(&asked);
    assert_eq!(at.len(), 2, "{at:?}");
    assert!(at[1] - at[0] < secs(5), "{at:?}");
}

#[test]
fn s33_a_break_whose_answer_was_lost_is_not_repeated() {
    let (mut old, mut new, _) = held(of(1, terms()));
    new.arrive(BOB, waits(of(2, terms())));
    let asked = breaks((&mut old, &mut new), secs(40), |rig, action, _| {
        rig.do_in_store(action);
        rig.on(failed(action, outage()).unwrap());
    });
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(is_granted(&new.told(), BOB));
}

#[test]
fn s33_a_break_whose_answer_was_lost_does_not_meet_the_next_holder() {
    let (mut old, mut new, grant) = held(of(1, terms()));
    new.arrive(BOB, waits(of(2, terms())));
    let mut broken_at = None;
    while broken_at.is_none() {
        go_on((&mut old, &mut new), STEP, |rig, action| {
            if matches!(action, Action::Store { what: Request::Break { .. }, .. }) {
                rig.do_in_store(&action);
                broken_at = Some(rig.now);
                rig.on(failed(&action, outage()).unwrap());
            } else {
                rig.serve_one(&action);
            }
        });
    }
    // Its holder releases before it knows, and somebody else yields there at once.
    old.release_of(ANN, &grant);
    old.serve();
    old.grant(CAT, waits(of(1, terms())));
    let begun = new.now;
    let at = times(&breaks((&mut old, &mut new), secs(60), does));
    assert_eq!(at.len(), 1, "{at:?}");
    assert!(begun + at[0] - broken_at.unwrap() >= 2 * LEASE - secs(1), "{at:?}");
}

#[test]
fn s33_a_record_that_changed_before_the_break_is_looked_at_again_soon() {
    let (mut old, mut new, _) = held(of(1, terms()));
    new.arrive(BOB, waits(of(2, terms())));
    let mut changed = 0;
    let asked = breaks((&mut old, &mut new), secs(30), |rig, action, _| {
        changed += 1;
        let event = if changed == 1 {
            failed(action, Failure::Changed).unwrap()
        } else {
            rig.do_in_store(action)
        };
        rig.on(event);
    });
    let at = times(&asked);
    assert_eq!(at.len(), 2, "{at:?}");
    assert!(at[1] - at[0] >= secs(1) && at[1] - at[0] <= secs(7), "{at:?}");
}

#[test]
fn s33_a_store_that_refuses_breaks_is_asked_each_ten_minutes_and_that_is_said_once() {
    let (mut old, mut new, _) = held(of(1, terms()));
    new.arrive(BOB, waits(of(2, terms())));
    let at = times(&breaks((&mut old, &mut new), secs(1_300), |rig, action, _| {
        rig.on(failed(action, refused(StoreFailureKind::Denied)).unwrap());
    }));
    assert_eq!(at.len(), 3, "{at:?}");
    assert!(at.windows(2).all(|pair| pair[1] - pair[0] >= secs(600)), "{at:?}");
    let said = new.told().iter().filter(|action| is_cannot_break(action)).count();
    assert_eq!(said, 1);
}

/// Its task retires between two that wait.
#[test]
fn s33_that_a_store_refuses_breaks_is_said_once_whoever_waits() {
    let (mut old, mut new, _) = held(of(1, terms()));
    let (mut asked, mut said) = (0, 0);
    for (caller, span) in [(BOB, 60), (CAT, 60), (BOB, 700)] {
        new.arrive(caller, waits(of(2, terms())));
        asked += breaks((&mut old, &mut new), secs(span), |rig, action, _| {
            rig.on(failed(action, refused(StoreFailureKind::Denied)).unwrap());
        })
        .len();
        said += new.told().iter().filter(|action| is_cannot_break(action)).count();
        new.leave(caller);
        new.rest();
    }
    assert_eq!((asked, said), (2, 1));
}

const fn is_cannot_break(action: &Action) -> bool {
    matches!(action, Action::Report(Remark::CannotBreak { .. }))
}

#[test]
fn s12_a_look_that_is_not_answered_is_given_up_and_the_lock_is_polled_again() {
    let (mut old, mut new, _) = held(of(1, terms()));
    new.arrive(BOB, waits(of(2, terms())));
    let (mut looks, mut asked) = (Vec::new(), Vec::new());
    go_on((&mut old, &mut new), secs(60), |rig, action| {
        if matches!(action, Action::Store { what: Request::Look { .. }, .. }) {
            looks.push(rig.now);
        } else {
            asked.push(rig.now);
            rig.serve_one(&action);
        }
    });
    assert!(looks.len() >= 3, "{looks:?}");
    for look in looks.iter().take(looks.len() - 1) {
        let within = |at: &&Duration| **at > *look && **at < *look + millis(2_400);
        assert!(!asked.iter().any(|at| within(&at)), "one request at a time: {asked:?}, {looks:?}");
        let after = |at: &&Duration| **at >= *look + millis(2_400) && **at < *look + secs(4);
        assert!(asked.iter().any(|at| after(&at)), "{asked:?}, {looks:?}");
    }
}

#[test]
fn s33_what_was_broken_for_a_caller_here_is_polled_eagerly_until_it_must_be_free() {
    let (mut old, mut new, _) = held(of(1, terms()));
    new.arrive(BOB, waits(of(2, terms())));
    let mut broken_at = None;
    let mut polls = Vec::new();
    // The lease goes on: somebody else has it, and holds it.
    go_on((&mut old, &mut new), secs(75), |rig, action| match &action {
        Action::Store { request, what: Request::Break { .. }, .. } => {
            broken_at.get_or_insert(rig.now);
            rig.on(Event::Answer { request: *request, answer: Answer::Break(Ok(())) });
        }
        Action::Store { what: Request::Acquire { .. }, .. } => {
            polls.push(rig.now);
            rig.serve_one(&action);
        }
        _ => rig.serve_one(&action),
    });
    let broken_at = broken_at.unwrap();
    let count = |from: Duration, to: Duration| {
        polls.iter().filter(|at| **at >= broken_at + from && **at < broken_at + to).count()
    };
    assert!(count(secs(0), secs(25)) >= 60, "each 250 to 300 ms");
    assert!(count(secs(26), secs(30)) <= 8, "D, the poll cap and 5 s are over");
}

#[test]
fn s33_a_lock_that_was_broken_for_another_is_waited_for_as_well() {
    let (mut old, mut new, grant) = held(of(1, terms()));
    new.arrive(BOB, waits(of(2, terms())));
    go_on((&mut old, &mut new), LEASE - secs(1), serves);
    old.break_softly(&grant);
    let asked = breaks((&mut old, &mut new), secs(20), does);
    assert_eq!(asked.len(), 0, "it is broken already");
    assert!(is_granted(&new.told(), BOB));
}

#[test]
fn s33_the_first_that_has_waited_for_long_enough_is_named_though_it_is_not_the_front() {
    let (mut old, mut new, _) = held(of(1, terms()));
    new.arrive(BOB, waits(of(2, terms())));
    go_on((&mut old, &mut new), LEASE - secs(1), serves);
    new.arrive(CAT, waits(of(9, terms())));
    let asked = breaks((&mut old, &mut new), secs(8), does);
    let [(_, rival)] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!(rival.priority, two());
    go_on((&mut old, &mut new), secs(15), serves);
    let told = new.told();
    assert!(is_granted(&told, CAT) && !is_granted(&told, BOB), "the greater is served first");
}

#[test]
fn s33_a_holder_here_is_overruled_without_a_poll_and_told_at_once() {
    let (mut rig, grant) = Rig::with_holder(ANN, of(1, terms()));
    rig.arrive(BOB, waits(of(2, terms())));
    rig.pass_served(LEASE - millis(1));
    assert!(rig.told().iter().all(|action| revoked(std::slice::from_ref(action), ANN).is_none()));
    rig.pass_served(millis(2));
    rig.serve();
    let told = rig.told();
    assert!(revoked(&told, ANN).is_some(), "{told:?}");
    rig.release_of(ANN, &grant);
    rig.serve();
    assert!(is_granted(&rig.told(), BOB));
}

#[test]
fn s13_who_may_not_know_is_not_overruled() {
    let (mut rig, _) = Rig::with_holder(ANN, of(1, terms()));
    rig.arrive(BOB, waits(of(2, terms())));
    rig.pass_served(LEASE - secs(1));
    rig.silent(ANN);
    rig.pass(secs(3));
    assert!(
        !rig.sent
            .iter()
            .any(|action| matches!(action, Action::Store { what: Request::Look { .. }, .. }))
    );
}

#[test]
fn s15_a_sidecar_that_ends_breaks_nothing() {
    let (mut rig, _) = Rig::with_holder(ANN, of(1, terms()));
    rig.arrive(BOB, waits(of(2, terms())));
    rig.pass_served(LEASE - secs(1));
    rig.on(Event::DrainStarted { ends: rig.at() + secs(20) });
    rig.pass(secs(3));
    assert!(
        !rig.sent
            .iter()
            .any(|action| matches!(action, Action::Store { what: Request::Look { .. }, .. }))
    );
}

#[test]
fn s33_who_leaves_while_its_break_is_prepared_breaks_nothing() {
    let (mut old, mut new, _) = held(of(1, terms()));
    new.arrive(BOB, waits(of(2, terms())));
    let mut look = None;
    while look.is_none() {
        go_on((&mut old, &mut new), STEP, |rig, action| match action {
            Action::Store { what: Request::Look { .. }, .. } => look = Some(action),
            _ => rig.serve_one(&action),
        });
    }
    new.leave(BOB);
    assert!(!new.hold.is_idle(), "an answer is to come");
    new.serve_one(&look.unwrap());
    assert!(new.sent.is_empty() && new.hold.is_idle(), "{:?}", new.sent);
}

#[test]
fn s33_a_caller_that_leaves_is_told_why_its_priority_did_not_help() {
    let (mut old, mut new, _) = held(of(1, terms()));
    new.arrive(BOB, Terms { wait: secs(22), ..of(2, terms()) });
    go_on((&mut old, &mut new), secs(23), serves);
    assert_eq!(status(&mut new, BOB), Some(PriorityStatus::Revoked));
}

/// What `caller` was told of its priority when it did not get the lock.
fn status(rig: &mut Rig, caller: CallerId) -> Option<PriorityStatus> {
    let told = rig.told();
    let busy = busy(&told, caller);
    busy.unwrap_or_else(|| panic!("{caller:?} is not told busy: {told:?}")).priority
}

#[test]
fn s33_who_tries_once_is_told_that_the_lock_was_broken_for_a_caller_beside_it() {
    let try_of = |priority| Terms { wait: Duration::ZERO, ..of(priority, terms()) };
    let (mut old, mut new, _) = held(of(1, terms()));
    new.arrive(BOB, waits(of(2, terms())));
    new.arrive(CAT, try_of(3));
    go_on((&mut old, &mut new), secs(1), serves);
    assert_eq!(status(&mut new, CAT), Some(PriorityStatus::WaitedTooShort));
    assert_eq!(breaks((&mut old, &mut new), secs(17), does).len(), 1);
    new.arrive(CAT, try_of(3));
    go_on((&mut old, &mut new), secs(1), serves);
    assert_eq!(status(&mut new, CAT), Some(PriorityStatus::Revoked));
    // Where the holder is, too.
    let (mut rig, grant) = Rig::with_holder(ANN, of(1, terms()));
    rig.break_softly(&grant);
    rig.pass_served(secs(6));
    rig.arrive(CAT, try_of(3));
    assert_eq!(status(&mut rig, CAT), Some(PriorityStatus::Revoked));
}

#[test]
fn s11_s33_a_rest_is_no_reservation() {
    let (mut old, mut new, grant) = held(Terms { min_hold: secs(60), ..of(1, terms()) });
    old.release_of(ANN, &grant);
    old.serve();
    // Its sidecar has gone, so that only the record keeps the lock.
    new.arrive(CAT, Terms { wait: secs(25), ..of(2, terms()) });
    new.pass_served(secs(26));
    assert!(new.hold.busy(new.at()).resting);
    assert_ne!(status(&mut new, CAT), Some(PriorityStatus::Reserved));
}

#[test]
fn s8_s33_a_look_that_is_refused_is_repeated_each_poll_cap_at_most() {
    let (mut old, mut new, _) = held(of(1, terms()));
    new.arrive(BOB, waits(of(2, terms())));
    let mut looks = Vec::new();
    go_on((&mut old, &mut new), secs(60), |rig, action| {
        if matches!(action, Action::Store { what: Request::Look { .. }, .. }) {
            looks.push(rig.now);
            rig.on(failed(&action, refused(StoreFailureKind::Denied)).unwrap());
        } else {
            rig.serve_one(&action);
        }
    });
    assert!(looks.len() > 2 && looks.windows(2).all(|two| two[1] - two[0] >= secs(5)), "{looks:?}");
}

#[test]
fn s33_who_leaves_is_told_of_the_holder_that_has_the_lock_by_then() {
    // One that was told of nothing yet.
    let (mut rig, _) = Rig::with_holder(ANN, of(1, terms()));
    rig.arrive(BOB, Terms { wait: secs(5), ..of(2, terms()) });
    rig.pass_served(secs(6));
    assert_eq!(status(&mut rig, BOB), Some(PriorityStatus::WaitedTooShort));
    // One that was granted the lock since it was broken for another.
    let (mut old, mut new, grant) = held(of(1, terms()));
    new.arrive(BOB, waits(of(2, terms())));
    assert_eq!(breaks((&mut old, &mut new), secs(17), does).len(), 1);
    old.release_of(ANN, &grant);
    go_on((&mut old, &mut new), secs(1), serves);
    let taken = new.granted(BOB);
    new.arrive(ANN, waits(of(1, terms())));
    new.release_of(BOB, &taken);
    go_on((&mut old, &mut new), secs(1), serves);
    new.granted(ANN);
    new.arrive(CAT, Terms { wait: secs(16), ..of(2, terms()) });
    go_on((&mut old, &mut new), secs(17), serves);
    assert_eq!(status(&mut new, CAT), Some(PriorityStatus::BrokenRecently));
}

#[test]
fn s2_s33_what_answers_an_earlier_request_is_no_answer_to_the_break() {
    let (mut old, mut new, _) = held(of(1, terms()));
    new.arrive(BOB, waits(of(2, terms())));
    let asked = breaks((&mut old, &mut new), secs(17), |rig, action, _| {
        let Event::Answer { request, .. } = rig.do_in_store(action) else { panic!("{action:?}") };
        let answer = Answer::Break(Err(Failure::Contended));
        rig.on(Event::Answer { request: RequestId(request.0 - 1), answer });
        rig.serve_one(action);
    });
    assert_eq!(asked.len(), 1, "it was done");
    new.leave(BOB);
    new.arrive(CAT, Terms { wait: Duration::ZERO, ..of(3, terms()) });
    go_on((&mut old, &mut new), secs(1), serves);
    assert_eq!(status(&mut new, CAT), Some(PriorityStatus::Revoked));
}

#[test]
fn s6_s33_a_lease_that_may_be_had_here_is_not_broken() {
    let (mut old, mut new, _) = held(of(1, terms()));
    new.arrive(BOB, waits(of(2, terms())));
    go_on((&mut old, &mut new), secs(1), serves);
    // Nobody hears what becomes of an acquire.
    let mut looks = 0;
    go_on((&mut old, &mut new), secs(60), |rig, action| {
        looks += usize::from(matches!(&action, Action::Store { what: Request::Look { .. }, .. }));
        rig.on(failed(&action, outage()).unwrap());
    });
    assert_eq!(looks, 0);
    assert_eq!(breaks((&mut old, &mut new), secs(20), does).len(), 1, "the store says whose it is");
}
