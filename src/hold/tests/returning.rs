//! Who comes back to a sidecar that is busy with an older hold, or too late: S6, S13, S16.

use super::rig::{
    ANN, BOB, CAT, Rig, is_busy, is_granted, loss, loss_detail, millis, outage, secs,
    store_failure, terms,
};
use super::table::failed;
use crate::hold::{Action, Failure, LossReason, Notice, Request, StoreFailureKind, Terms};

#[test]
fn s16_a_resume_waits_for_a_sidecar_that_does_not_know_yet_that_its_own_lease_is_gone() {
    let (mut rig, mut other) = Rig::pair();
    rig.grant(ANN, terms());
    rig.table_mut().break_now();
    other.now = rig.now;
    let grant = other.grant(CAT, terms());
    rig.resume(BOB, &grant, terms(), secs(9));
    let told = rig.told();
    assert_eq!(loss(&told, BOB), None, "CAT's hold goes on");
    assert_eq!(store_failure(&told, BOB), Some(StoreFailureKind::Unavailable));
    // Its next renewal shows it; nobody here believes any more when the lease would have run out.
    rig.pass_served(secs(15));
    other.pass_served(secs(15));
    rig.resume(BOB, &grant, terms(), secs(9));
    rig.serve();
    assert!(is_granted(&rig.told(), BOB));
}

#[test]
fn s6_s16_a_resume_after_the_clients_belief_asks_nothing_of_the_store() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(0));
    assert!(rig.sent.is_empty(), "nobody wants the lease any more: {:?}", rig.sent);
    assert_eq!(loss(&rig.told(), BOB), Some(LossReason::Expired));
}

#[test]
fn s13_who_waits_for_a_belief_to_end_is_told_that_the_lock_is_taken_not_what_failed_before() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.arrive(CAT, Terms { wait: secs(6), ..terms() });
    rig.fail(outage());
    rig.resume(BOB, &grant, terms(), secs(9));
    rig.serve_comebacks();
    rig.table_mut().break_now();
    rig.serve();
    rig.pass(secs(6));
    let told = rig.told();
    assert_eq!(loss(&told, BOB), Some(LossReason::Broken));
    assert!(is_busy(&told, CAT), "{told:?}");
}

#[test]
fn s16_who_comes_back_while_the_lease_goes_back_from_here_is_not_lost() {
    for release in [false, true] {
        let (mut former, mut rig) = Rig::pair();
        let grant = former.grant(ANN, Terms { resumable: true, ..terms() });
        rig.resume(BOB, &grant, terms(), secs(10));
        rig.serve();
        let again = rig.granted(BOB);
        // Its old stream is closed; the release that comes of that is not answered.
        match release {
            true => former.release(ANN),
            false => former.leave(ANN),
        }
        assert!(matches!(former.sent[0], Action::Store { what: Request::Release { .. }, .. }));
        former.resume(CAT, &again, terms(), secs(9));
        former.serve();
        assert_eq!(former.granted(CAT).generation, 3);
        assert!(former.told().is_empty(), "who released is told once");
        former.pass_served(secs(40));
        assert!(former.hold.validity(CAT).is_some());
    }
}

#[test]
fn s16_who_comes_back_with_the_generation_that_was_released_is_lost() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.release_of(ANN, &grant);
    rig.resume(BOB, &grant, terms(), secs(9));
    let told = rig.told();
    assert_eq!(loss(&told, BOB), Some(LossReason::Taken));
    let detail = loss_detail(&told, BOB).unwrap();
    assert!(detail.contains("the hold has ended"), "{detail}");
}

#[test]
fn s16_who_comes_back_to_a_sidecar_where_its_hold_ended_by_an_older_bound_goes_on() {
    let (mut former, mut rig) = Rig::pair();
    let bound = Terms { max_hold: Some(secs(6)), ..terms() };
    let grant = former.grant(ANN, bound);
    // Bounds that are agreed elsewhere are not known here.
    rig.resume(BOB, &grant, terms(), secs(10));
    rig.serve();
    let again = rig.granted(BOB);
    former.silent(ANN);
    former.pass(secs(6));
    assert_eq!(loss(&former.told(), ANN), Some(LossReason::Expired));
    former.sent.clear();
    former.resume(CAT, &again, terms(), secs(7));
    former.serve();
    let told = former.told();
    assert!(is_granted(&told, CAT), "{told:?}");
    assert!(
        told.iter().all(|action| !matches!(action, Action::Tell { notice: Notice::Moved, .. })),
        "{told:?}"
    );
}

/// A release is asked so often that nobody hears the answer, each until it is given up.
fn releases_unheard(rig: &mut Rig, often: usize) -> Action {
    let mut last = None;
    for _ in 0..often {
        while rig.sent.is_empty() {
            rig.pass(millis(50));
        }
        last = rig.sent.pop_front();
        rig.pass(millis(2_500));
    }
    last.unwrap()
}

#[test]
fn s13_the_only_release_says_what_it_met_however_late_it_is_answered() {
    for (often, lost) in [(1, Some(LossReason::Taken)), (3, None)] {
        let (mut rig, grant) = Rig::with_holder(ANN, terms());
        rig.release_of(ANN, &grant);
        let last = releases_unheard(&mut rig, often);
        assert!(rig.sent.is_empty(), "none is under way: {:?}", rig.sent);
        rig.on(failed(&last, Failure::Taken).unwrap());
        assert_eq!(loss(&rig.told(), ANN), lost, "after {often}");
    }
}
