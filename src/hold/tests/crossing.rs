//! What happens at the same time: calls, resumes, rests and late answers that cross each other (S11 to S16).

use super::rig::{
    ANN, BOB, CAT, Rig, is_busy, is_granted, loss, millis, not_confirmed, one_try, released, secs,
    store_failure, terms,
};
use crate::hold::{Action, Event, LossReason, Notice, Request, StoreBounds, Terms};

/// A stream broke at its client, which goes on elsewhere before this sidecar has noticed; then a rest is over
/// here.
#[test]
fn s16_s11_a_hold_that_rests_is_handed_on_only_if_it_was_released_with_its_generation() {
    for end in 0..3 {
        let (mut former, mut rig) = Rig::pair();
        let bound = Terms { resumable: true, min_hold: secs(2), ..terms() };
        let grant = former.grant(ANN, bound);
        former.arrive(CAT, terms());
        if end < 2 {
            rig.resume(BOB, &grant, terms(), secs(10));
            rig.serve();
            rig.granted(BOB);
        }
        match end {
            0 => former.leave(ANN),
            1 => former.release(ANN),
            _ => former.release_of(ANN, &grant),
        }
        // The rest ends before the next renewal would find out.
        former.pass(millis(2_100));
        assert_eq!(is_granted(&former.told(), CAT), end == 2, "{end}");
        former.pass_served(secs(5));
        if end < 2 {
            assert!(!is_granted(&former.told(), CAT));
            rig.pass_served(secs(7));
            assert!(rig.hold.validity(BOB).is_some());
        }
    }
}

#[test]
fn s16_s13_a_late_renewal_does_not_release_a_hold_whose_resume_was_given_up() {
    for end in 0..3 {
        let (mut rig, grant) = Rig::with_holder(ANN, terms());
        rig.arrive(CAT, terms());
        rig.pass(secs(6));
        let renewal = rig.request();
        assert!(
            matches!(renewal, Action::Store { what: Request::Renew { .. }, .. }),
            "{renewal:?}"
        );
        let late = rig.do_in_store(&renewal);
        // The stream broke; the client comes back, and that call breaks too, before its write is done.
        rig.resume(BOB, &grant, terms(), secs(8));
        assert!(matches!(rig.request(), Action::Store { what: Request::Write { .. }, .. }));
        match end {
            0 => rig.leave(BOB),
            1 => rig.silent(BOB),
            _ => rig.on(Event::DrainStarted { ends: rig.at() + secs(20) }),
        }
        rig.sent.clear();
        rig.on(late);
        rig.serve();
        assert!(rig.is_leased(), "{end}: the client may still believe, and go on elsewhere");
        rig.pass_served(secs(7));
        assert!(!is_granted(&rig.told(), CAT), "{end}: the client believes until 14.2 s");
    }
}

#[test]
fn s11_s16_a_slow_resume_makes_no_more_of_the_bounds() {
    for by_store in [false, true] {
        let (mut rig, grant) = Rig::with_holder(ANN, terms());
        rig.restart();
        let asked = rig.at();
        let time = super::table::Table::time(rig.now);
        let bounds = by_store.then(|| StoreBounds {
            max_hold_ends: Some(time + secs(20)),
            lease_ends: None,
            min_hold_ends: time + secs(12),
        });
        let left = Terms { max_hold: Some(secs(20)), min_hold: secs(12), ..terms() };
        rig.resume_bounded(BOB, &grant, left, bounds);
        rig.pass_failing(secs(6));
        rig.pass_served(secs(1));
        let resumed = rig.granted(BOB);
        assert_eq!(resumed.max_hold_ends, Some(asked + secs(20)), "{by_store}");
        assert_eq!(resumed.min_hold_ends, asked + secs(12), "{by_store}");
    }
}

#[test]
fn s13_a_lease_has_run_out_only_when_no_renewal_from_before_a_resume_keeps_it() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.pass(secs(6));
    let renewal = rig.request();
    assert!(matches!(renewal, Action::Store { what: Request::Renew { .. }, .. }), "{renewal:?}");
    rig.do_in_store(&renewal);
    rig.resume(BOB, &grant, terms(), secs(8));
    rig.serve();
    rig.granted(BOB);
    rig.release(BOB);
    while not_confirmed(&rig.told(), BOB).is_none() {
        rig.pass(millis(100));
    }
    assert!(!rig.is_leased(), "it is told that the lease is over: {:?}", rig.at());
}

#[test]
fn s13_a_release_that_was_refused_is_not_told_as_done_however_late_that_is_learned() {
    let (mut rig, mut other) = Rig::pair();
    rig.grant(ANN, terms());
    rig.table_mut().break_now();
    other.grant(BOB, terms());
    rig.release(ANN);
    let release = rig.request();
    let refused = rig.do_in_store(&release);
    rig.pause(secs(30));
    rig.on(refused);
    let told = rig.told();
    assert_eq!(released(&told, ANN), None, "{told:?}");
    assert_eq!(loss(&told, ANN), Some(LossReason::Taken));
}

#[test]
fn s12_one_try_is_answered_while_a_lease_runs_out() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(9));
    rig.serve();
    rig.granted(BOB);
    rig.leave(BOB);
    rig.arrive(CAT, one_try());
    rig.pass_served(secs(1));
    assert!(is_busy(&rig.told(), CAT));
}

#[test]
fn s12_a_repeated_call_that_waits_no_longer_is_answered_at_once() {
    let named = |terms: Terms| Terms { request_id: "r".to_owned(), ..terms };
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, named(terms()));
    rig.arrive(CAT, named(one_try()));
    rig.pass_served(secs(1));
    let told = rig.told();
    assert!(told.contains(&Action::Tell { caller: BOB, notice: Notice::Superseded { by: CAT } }));
    assert!(is_busy(&told, CAT), "{told:?}");
    assert_eq!(rig.hold.waiting(), 0);
    assert_eq!(store_failure(&told, CAT), None);
}

#[test]
fn s2_a_resume_whose_validity_is_over_is_not_granted() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    // A client elsewhere, whose clock does not compare: it may believe for a whole lease.
    rig.resume(BOB, &grant, terms(), secs(15));
    for _ in 0..2 {
        let action = rig.request();
        rig.serve_one(&action);
    }
    rig.pass_failing(millis(14_000));
    rig.pass(millis(400));
    let write = rig.sent.pop_back().expect("it is still tried");
    rig.serve_one(&write);
    let told = rig.told();
    assert!(!is_granted(&told, BOB), "{told:?}");
    assert_eq!(loss(&told, BOB), Some(LossReason::Expired));
}

#[test]
fn s16_s13_a_late_renewal_does_not_release_a_hold_whose_resume_came_too_late() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.pass(secs(6));
    let late = rig.request();
    let late = rig.do_in_store(&late);
    rig.resume(BOB, &grant, terms(), secs(8));
    rig.pass(secs(9));
    assert_eq!(loss(&rig.told(), BOB), Some(LossReason::Expired));
    rig.sent.clear();
    rig.on(late);
    rig.serve();
    assert!(rig.is_leased(), "the client may have gone on elsewhere");
}
