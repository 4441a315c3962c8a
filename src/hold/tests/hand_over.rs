//! A shutdown after which a replacement follows (S15): holds are left for their clients to resume there
//! (S16).

use super::rig::{
    ANN, BOB, CAT, Rig, is_granted, loss, millis, one_try, outage, released, secs, store_failure,
    terms,
};
use crate::hold::{
    Action, Event, Failure, HolderCall, LossReason, Notice, Request, StoreFailureKind, Terms,
};

fn hand_over(rig: &mut Rig) {
    rig.on(Event::HandOverStarted { ends: rig.at() + secs(20) });
}

fn is_interrupted(told: &[Action]) -> bool {
    told.contains(&Action::Tell { caller: ANN, notice: Notice::Interrupted })
}

fn is_told_of_an_end(told: &[Action]) -> bool {
    told.iter().any(|action| {
        matches!(action, Action::Tell { notice: Notice::Draining { .. } | Notice::Lost { .. }, .. })
    })
}

fn is_release(action: &Action) -> bool {
    matches!(action, Action::Store { what: Request::Release { .. }, .. })
}

#[test]
fn s15_s16_a_hold_is_renewed_once_more_and_goes_on_at_the_replacement() {
    let (mut rig, grant) = Rig::with_holder(ANN, Terms { resumable: true, ..terms() });
    rig.arrive(BOB, terms());
    rig.pass(secs(3));
    rig.told();
    hand_over(&mut rig);
    let told = rig.told();
    assert_eq!(store_failure(&told, BOB), Some(StoreFailureKind::ShuttingDown));
    assert!(!is_interrupted(&told), "its renewal is not answered yet");
    let asked = rig.at();
    rig.pass(millis(700));
    rig.serve();
    let told = rig.told();
    let renewed = told.iter().find_map(|action| match action {
        Action::Tell { caller: ANN, notice: Notice::Renewed { valid_until } } => Some(*valid_until),
        _ => None,
    });
    assert_eq!(renewed, Some(crate::hold::valid_until(asked, secs(15))));
    rig.pass(secs(1));
    let told = [told, rig.told()].concat();
    assert!(is_interrupted(&told) && !is_told_of_an_end(&told), "{told:?}");
    assert!(rig.hold.is_idle() && rig.is_leased());
    // The call of a client that has gone meanwhile, or of one that is new.
    rig.leave(ANN);
    rig.arrive(CAT, one_try());
    assert_eq!(store_failure(&rig.told(), CAT), Some(StoreFailureKind::ShuttingDown));
    assert_eq!(rig.sent.len(), 0, "{:?}", rig.sent);

    rig.restart();
    rig.pass(secs(9));
    rig.resume(CAT, &grant, terms(), secs(5));
    rig.serve();
    let again = rig.granted(CAT);
    assert_eq!((again.token, again.generation), (grant.token, 2));
}

#[test]
fn s15_s21_a_client_elsewhere_has_a_moment_to_ask_what_the_last_renewal_gave_it() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass(secs(4));
    hand_over(&mut rig);
    let renewed = rig.at();
    rig.pass(millis(300));
    rig.serve();
    rig.pass(millis(999));
    rig.on(Event::Call { caller: ANN, generation: None, call: HolderCall::Validity });
    assert_eq!(rig.hold.validity(ANN), Some(crate::hold::valid_until(renewed, secs(15))));
    assert!(!is_interrupted(&rig.told()));
    rig.pass(millis(1));
    assert!(is_interrupted(&rig.told()));

    // Within the period that the operator set.
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.on(Event::HandOverStarted { ends: rig.at() + millis(200) });
    rig.serve();
    rig.pass(millis(199));
    assert!(!is_interrupted(&rig.told()));
    rig.pass(millis(1));
    assert!(is_interrupted(&rig.told()));
}

#[test]
fn s15_s13_a_release_in_that_moment_has_the_time_that_any_release_has() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    hand_over(&mut rig);
    rig.serve();
    rig.pass(millis(999));
    rig.release_of(ANN, &grant);
    rig.pass(millis(1_300));
    assert!(!is_interrupted(&rig.told()), "a sixth of the lease is not over");
    rig.serve();
    assert_eq!(released(&rig.told(), ANN), Some(None));
    assert!(!rig.is_leased());
}

#[test]
fn s15_s13_nobody_gets_a_lock_that_is_left_before_its_holder_cannot_believe() {
    let (mut rig, mut other) = Rig::pair();
    rig.grant(ANN, terms());
    other.arrive(BOB, terms());
    other.serve();
    hand_over(&mut rig);
    rig.serve();
    rig.pass(secs(1));
    assert!(is_interrupted(&rig.told()));
    other.pass_served(secs(13));
    assert!(!is_granted(&other.told(), BOB));
    other.pass_served(secs(6));
    other.granted(BOB);
}

#[test]
fn s15_a_hold_that_cannot_be_renewed_is_left_with_half_of_its_validity() {
    for unanswered in [false, true] {
        let (mut rig, _) = Rig::with_holder(ANN, terms());
        rig.pass(secs(4));
        hand_over(&mut rig);
        let left_from = rig.at() + secs(15) / 6;
        let valid_until = rig.hold.validity(ANN).unwrap();
        let span = secs(15) / 6;
        if unanswered {
            rig.pass(span)
        } else {
            rig.pass_failing(span)
        }
        let told = rig.told();
        assert!(is_interrupted(&told) && !is_told_of_an_end(&told), "{told:?}");
        assert!(rig.hold.is_idle());
        assert!(valid_until - left_from > secs(7), "{:?}", valid_until - left_from);
        // A renewal that was done after all is nobody's to release: its client may have resumed.
        while !rig.sent.is_empty() {
            let action = rig.request();
            rig.serve_one(&action);
        }
        assert!(rig.is_leased());
    }
}

#[test]
fn s15_the_end_that_the_operator_sets_comes_first() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.on(Event::HandOverStarted { ends: rig.at() + millis(100) });
    assert_eq!(rig.hold.poll_timeout(), Some(rig.at() + millis(100)));
    rig.pass(millis(100));
    assert!(is_interrupted(&rig.told()));
}

#[test]
fn s15_an_answer_to_a_renewal_that_was_cut_off_is_too_old() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    // Renewals are due each 5 s and cut off after 2.5 s.
    rig.pass(secs(8));
    let old = rig.request();
    rig.sent.clear();
    hand_over(&mut rig);
    rig.serve_one(&old);
    rig.pass(secs(1));
    assert!(!is_interrupted(&rig.told()));
    rig.pass_served(secs(1));
    assert!(is_interrupted(&rig.told()));
}

#[test]
fn s15_s4_what_is_lost_during_a_hand_over_is_told_as_lost() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    hand_over(&mut rig);
    rig.fail(Failure::Taken);
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::Taken));
    assert!(rig.hold.is_idle(), "nobody here gets the lock, so nobody is waited for");

    let (mut rig, _) = Rig::with_holder(ANN, terms());
    hand_over(&mut rig);
    rig.pause(secs(20));
    rig.on(Event::TimePassed);
    let told = rig.told();
    assert_eq!(loss(&told, ANN), Some(LossReason::Expired));
    assert!(!is_interrupted(&told));
}

#[test]
fn s15_s13_a_release_during_a_hand_over_is_done() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, terms());
    hand_over(&mut rig);
    rig.release_of(ANN, &grant);
    rig.serve();
    let told = rig.told();
    assert_eq!(released(&told, ANN), Some(None));
    assert!(!is_interrupted(&told) && !is_granted(&told, BOB));
    assert!(!rig.is_leased() && rig.hold.is_idle());
}

#[test]
fn s15_s13_a_release_that_the_store_does_not_answer_is_not_told_as_done() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.release_of(ANN, &grant);
    hand_over(&mut rig);
    rig.pass_failing(secs(3));
    let told = rig.told();
    assert!(is_interrupted(&told) && released(&told, ANN).is_none(), "{told:?}");
    assert!(rig.hold.is_idle());
}

#[test]
fn s15_who_is_silent_may_come_back_at_the_replacement() {
    for before in [true, false] {
        let (mut rig, grant) = Rig::with_holder(ANN, terms());
        rig.told();
        if before {
            rig.silent(ANN);
            hand_over(&mut rig);
        } else {
            hand_over(&mut rig);
            rig.silent(ANN);
        }
        let told = rig.told();
        assert!(is_interrupted(&told) && !is_told_of_an_end(&told), "{told:?}");
        assert!(rig.hold.is_idle() && !rig.sent.iter().any(is_release));
        rig.restart();
        rig.resume(CAT, &grant, terms(), secs(9));
        rig.serve();
        rig.granted(CAT);
    }
}

#[test]
fn s15_a_holder_that_closes_during_a_hand_over_frees_the_lock() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    hand_over(&mut rig);
    rig.leave(ANN);
    rig.serve();
    assert!(!rig.is_leased());
}

#[test]
fn s15_a_hold_without_renewals_is_left_as_it_is() {
    let (mut rig, _) = Rig::with_holder(ANN, Terms { auto_renew: false, ..terms() });
    hand_over(&mut rig);
    assert!(is_interrupted(&rig.told()));
    assert_eq!(rig.sent.len(), 0);
    assert!(rig.is_leased());
}

#[test]
fn s15_s11_a_lock_that_rests_is_released_since_its_record_keeps_the_rest() {
    let (mut rig, grant) = Rig::with_holder(ANN, Terms { min_hold: secs(30), ..terms() });
    rig.release_of(ANN, &grant);
    rig.told();
    hand_over(&mut rig);
    rig.serve();
    assert!(!rig.is_leased() && rig.hold.is_idle());
    assert!(rig.record().resting_until.is_some());
    assert_eq!(rig.told(), []);
}

#[test]
fn s15_s6_what_is_being_acquired_is_given_up() {
    for requests in 0..2 {
        let mut rig = Rig::new();
        rig.arrive(ANN, terms());
        for _ in 0..requests {
            let action = rig.request();
            rig.serve_one(&action);
            assert!(!is_granted(&rig.told(), ANN));
        }
        hand_over(&mut rig);
        assert_eq!(store_failure(&rig.told(), ANN), Some(StoreFailureKind::ShuttingDown));
        rig.pass_served(secs(1));
        assert!(!rig.is_leased(), "after {requests} requests");
        assert!(rig.hold.is_idle());
    }
    // Also where the store does not answer in time; what is answered later is released.
    let mut rig = Rig::new();
    rig.arrive(ANN, terms());
    let acquire = rig.request();
    hand_over(&mut rig);
    rig.pass_failing(secs(3));
    assert!(rig.hold.is_idle());
    rig.serve_one(&acquire);
    rig.serve();
    assert!(!rig.is_leased());
}

#[test]
fn s15_a_poll_that_failed_holds_nothing_up() {
    let mut rig = Rig::new();
    rig.arrive(ANN, terms());
    rig.fail(outage());
    hand_over(&mut rig);
    rig.serve();
    assert!(rig.hold.is_idle());
}

#[test]
fn s15_a_resume_under_way_goes_on_at_the_replacement() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(9));
    hand_over(&mut rig);
    let told = rig.told();
    assert_eq!(store_failure(&told, BOB), Some(StoreFailureKind::ShuttingDown));
    assert!(rig.hold.is_idle());
    rig.serve();
    assert!(rig.is_leased());
}

#[test]
fn s6_s15_what_is_being_acquired_goes_back_when_the_hand_over_is_over() {
    let mut rig = Rig::new();
    rig.arrive(ANN, terms());
    let acquire = rig.request();
    rig.on(Event::HandOverStarted { ends: rig.at() + secs(2) });
    rig.pass(secs(1));
    assert!(rig.sent.is_empty(), "it may be answered yet: {:?}", rig.sent);
    rig.pass(secs(1));
    assert!(rig.sent.iter().any(is_release), "{:?}", rig.sent);
    rig.serve_one(&acquire);
    rig.serve();
    assert!(!rig.is_leased());
}

#[test]
fn s15_s22_a_holder_with_notice_has_until_the_hand_over_is_over() {
    let (mut rig, grant) = Rig::with_holder(ANN, Terms { resumable: true, ..terms() });
    rig.break_softly(&grant);
    rig.pass_served(secs(6));
    rig.told();
    rig.on(Event::HandOverStarted { ends: rig.at() + secs(2) });
    assert!(!is_interrupted(&rig.told()));
    rig.release_of(ANN, &grant);
    rig.serve();
    assert_eq!(released(&rig.told(), ANN), Some(None));
}

#[test]
fn s15_s26_a_last_save_has_until_the_hand_over_is_over() {
    let (mut rig, grant) = Rig::with_holder(ANN, Terms { resumable: true, ..terms() });
    rig.save(ANN, 1, "page 7");
    rig.release_of(ANN, &grant);
    rig.on(Event::HandOverStarted { ends: rig.at() + secs(2) });
    rig.pass(millis(100));
    assert!(!is_interrupted(&rig.told()));
    rig.serve();
    assert_eq!(released(&rig.told(), ANN), Some(None));
}
