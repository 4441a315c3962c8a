//! How holds end: S1, S13 to S15, S17.

use super::rig::{
    ANN, BOB, CAT, Rig, is_granted, loss, millis, not_confirmed, one_try, outage, released, saved,
    secs, store_failure, terms,
};
use crate::hold::{
    Action, CallerId, Event, Failure, HolderCall, LossReason, NotConfirmed, Notice, SaveOutcome,
    StoreFailure, StoreFailureKind, Terms,
};

pub(super) fn throttled() -> Failure {
    Failure::NotDone(StoreFailure {
        kind: StoreFailureKind::Throttled,
        message: "busy".to_owned(),
        retry_after: None,
    })
}

#[test]
fn s1_two_sidecars_never_grant_at_once() {
    let (mut rig, mut other) = Rig::pair();
    let grant = rig.grant(ANN, terms());
    other.arrive(BOB, terms());
    // The first is cut off from the store: its holder believes until 14.2 s.
    other.pass_served(grant.valid_until - rig.at());
    assert!(!is_granted(&other.told(), BOB));
    other.pass_served(secs(6));
    assert!(other.granted(BOB).token > grant.token);
    rig.pass_failing(secs(21));
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::Expired));
}

#[test]
fn s13_a_release_is_answered_when_the_store_has_it() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.release(ANN);
    assert_eq!(released(&rig.told(), ANN), None);
    rig.fail(outage());
    rig.pass_failing(secs(3));
    assert_eq!(released(&rig.told(), ANN), None);
    rig.pass_served(secs(2));
    assert_eq!(released(&rig.told(), ANN), Some(None));
    assert!(!rig.is_leased());
}

#[test]
fn s13_a_release_that_the_store_has_not_confirmed_is_told_as_that_when_the_lease_is_over() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.release(ANN);
    rig.pass_failing(secs(15));
    assert_eq!(not_confirmed(&rig.told(), ANN), None);
    rig.pass_failing(secs(1));
    let told = rig.told();
    assert_eq!((released(&told, ANN), loss(&told, ANN)), (None, None));
    assert_eq!(not_confirmed(&told, ANN), Some(NotConfirmed::NoAnswer));
    assert!(rig.hold.is_idle());
}

/// The store was away while the job ended in time, and its lease ran out meanwhile.
#[test]
fn s13_a_release_that_comes_after_the_lease_may_have_run_out_is_no_loss() {
    for unknown in [false, true] {
        let (mut rig, mut other) = Rig::pair();
        let grant = rig.grant(ANN, terms());
        rig.pass(secs(6));
        // A renewal that never arrives: this sidecar must wait for the end of the lease that it would have
        // given.
        rig.fail(outage());
        rig.release(ANN);
        let failure = || if unknown { outage() } else { throttled() };
        while rig.at() < grant.valid_until {
            rig.fail(failure());
            rig.pass(millis(500));
            while rig.sent.is_empty() {
                rig.pass(millis(100));
            }
        }
        rig.fail(failure());
        other.now = rig.now + secs(1);
        other.grant(CAT, terms());
        rig.now = other.now;
        while rig.sent.is_empty() {
            rig.pass(millis(10));
        }
        rig.serve();
        let told = rig.told();
        assert_eq!((released(&told, ANN), loss(&told, ANN)), (None, None), "{told:?}");
        assert_eq!(not_confirmed(&told, ANN), Some(NotConfirmed::LeaseGone));
        assert!(other.hold.validity(CAT).is_some());
    }
}

#[test]
fn s13_a_repeated_release_whose_answer_was_lost_is_released() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.release(ANN);
    let first = rig.request();
    rig.do_in_store(&first);
    rig.pass(secs(4));
    rig.serve();
    assert_eq!(released(&rig.told(), ANN), Some(None));
}

#[test]
fn s13_a_late_release_never_touches_a_later_hold() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, terms());
    rig.release(ANN);
    rig.granted(BOB);
    rig.release(ANN);
    rig.leave(ANN);
    assert!(rig.sent.is_empty());
    assert!(rig.hold.validity(BOB).is_some());
}

#[test]
fn s14_a_holder_that_leaves_frees_the_lock_at_once() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.leave(ANN);
    rig.serve();
    assert!(!rig.is_leased());
    assert!(rig.hold.is_idle());
}

#[test]
fn s14_a_silent_holder_keeps_the_lock_until_its_told_validity_is_over_and_no_longer() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, terms());
    rig.pass(secs(1));
    rig.silent(ANN);
    rig.pass_served(grant.valid_until - rig.at() - millis(1));
    let told = rig.told();
    assert!(loss(&told, ANN).is_none() && !is_granted(&told, BOB), "{told:?}");
    assert!(rig.sent.is_empty(), "renewing stops");
    // Its clock may be elsewhere, and 1 % slow.
    rig.pass_served(millis(1));
    let told = rig.told();
    assert_eq!(loss(&told, ANN), Some(LossReason::Expired));
    assert!(!is_granted(&told, BOB));
    rig.pass_served(millis(142));
    assert!(is_granted(&rig.told(), BOB));
}

#[test]
fn s14_a_renewal_under_way_changes_nothing_for_the_silent() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.pass(millis(5_500));
    rig.silent(ANN);
    rig.serve();
    rig.pass_served(grant.valid_until - rig.at() + millis(142));
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::Expired));
    rig.serve();
    assert!(!rig.is_leased());
}

#[test]
fn s14_a_silent_holder_whose_lease_is_gone_is_told_lost_once() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass(millis(5_500));
    rig.silent(ANN);
    rig.fail(Failure::Taken);
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::Taken));
    rig.pass_served(secs(30));
    assert_eq!(rig.told(), []);
    assert!(rig.hold.is_idle());
}

#[test]
fn s15_a_drain_refuses_the_new_warns_the_holder_and_releases_as_it_lets_go() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, terms());
    let ends = rig.at() + secs(20);
    rig.on(Event::DrainStarted { ends });
    let told = rig.told();
    assert!(told.contains(&Action::Tell { caller: ANN, notice: Notice::Draining { ends } }));
    assert_eq!(store_failure(&told, BOB), Some(StoreFailureKind::ShuttingDown));
    rig.arrive(CAT, one_try());
    assert_eq!(store_failure(&rig.told(), CAT), Some(StoreFailureKind::ShuttingDown));
    rig.pass_served(secs(18));
    assert!(rig.hold.validity(ANN).is_some(), "it is renewed until the drain ends");
    rig.release(ANN);
    rig.serve();
    assert_eq!(released(&rig.told(), ANN), Some(None));
    assert!(!rig.is_leased());
    assert!(rig.hold.is_idle());
}

#[test]
fn s15_who_does_not_release_is_told_and_its_lease_left_to_run_out() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.on(Event::DrainStarted { ends: rig.at() + secs(20) });
    rig.pass_served(secs(20));
    rig.on(Event::DrainEnded);
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::Shutdown));
    rig.pass_served(secs(10));
    assert!(rig.is_leased(), "it may not have read it yet");
    rig.pass_served(secs(6));
    assert!(!rig.is_leased());
    assert!(rig.hold.is_idle());
}

#[test]
fn s15_who_answers_the_shutdown_by_closing_is_released() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.on(Event::DrainStarted { ends: rig.at() + secs(20) });
    rig.on(Event::DrainEnded);
    rig.leave(ANN);
    rig.serve();
    assert!(!rig.is_leased());
}

#[test]
fn s15_a_resume_under_way_is_sent_elsewhere_not_lost() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(9));
    rig.on(Event::DrainStarted { ends: rig.at() + secs(20) });
    let told = rig.told();
    assert_eq!(
        (store_failure(&told, BOB), loss(&told, BOB)),
        (Some(StoreFailureKind::ShuttingDown), None)
    );
    rig.serve();
    rig.resume(CAT, &grant, terms(), secs(9));
    assert_eq!(store_failure(&rig.told(), CAT), Some(StoreFailureKind::ShuttingDown));
    assert!(rig.is_leased());
}

#[test]
fn s15_a_drain_gives_up_what_is_being_acquired() {
    for is_leased in [false, true] {
        let mut rig = Rig::new();
        rig.arrive(ANN, terms());
        if is_leased {
            let acquire = rig.request();
            rig.serve_one(&acquire);
        }
        rig.on(Event::DrainStarted { ends: rig.at() + secs(20) });
        rig.pass_served(secs(5));
        assert_eq!(store_failure(&rig.told(), ANN), Some(StoreFailureKind::ShuttingDown));
        assert!(!rig.is_leased());
        assert!(rig.hold.is_idle());
    }
}

#[test]
fn s17_a_break_here_is_told_with_its_reason_at_once() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, terms());
    rig.table_mut().break_now();
    rig.on(Event::LeaseBroken { ends_now: true });
    let told = rig.told();
    assert!(told.iter().any(|action| matches!(
        action, Action::Tell { notice: Notice::Lost { reason: LossReason::Broken, detail, .. }, .. } if detail.contains("broken")
    )));
    rig.pass_served(grant.valid_until - rig.at() - millis(1));
    assert!(!is_granted(&rig.told(), BOB), "its holder may not have read it yet");
    rig.pass_served(secs(1));
    rig.granted(BOB);
}

#[test]
fn s17_a_break_elsewhere_is_learnt_at_the_next_renewal() {
    let (mut rig, _) = Rig::with_holder(ANN, Terms { lease_duration: secs(60), ..terms() });
    rig.table_mut().break_now();
    rig.pass_served(secs(22));
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::Broken));
}

#[test]
fn spurious_events_do_nothing() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    let stranger = CallerId(99);
    for event in [
        Event::TimePassed,
        Event::CallerLeft { caller: stranger },
        Event::HolderDisconnected { caller: stranger },
        Event::Call { caller: stranger, generation: None, call: HolderCall::Release },
        Event::Call {
            caller: stranger,
            generation: None,
            call: HolderCall::Extend { max_hold: secs(0) },
        },
        Event::Call { caller: stranger, generation: None, call: HolderCall::Progress },
        Event::DrainEnded,
    ] {
        let drains = matches!(event, Event::DrainEnded);
        rig.on(event);
        let told = rig.told();
        assert!(rig.sent.is_empty() && (drains || told.is_empty()), "{told:?}");
        assert_eq!(rig.hold.validity(ANN).is_none(), drains);
    }
}

#[test]
fn s13_a_release_that_meets_anothers_lease_tells_a_loss() {
    let (mut rig, mut other) = Rig::pair();
    rig.grant(ANN, terms());
    rig.table_mut().break_now();
    other.grant(CAT, terms());
    rig.release(ANN);
    rig.serve();
    let told = rig.told();
    assert_eq!(loss(&told, ANN), Some(LossReason::Taken));
    assert_eq!(released(&told, ANN), None);
    assert!(other.hold.validity(CAT).is_some());
}

#[test]
fn s13_the_repeat_of_a_release_whose_outcome_is_unknown_is_no_loss() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.release(ANN);
    let release = rig.request();
    rig.do_in_store(&release);
    rig.pass_served(secs(4));
    let told = rig.told();
    assert_eq!((released(&told, ANN), loss(&told, ANN)), (Some(None), None));
}

#[test]
fn s13_a_late_answer_to_the_only_release_is_definite() {
    let (mut rig, mut other) = Rig::pair();
    rig.grant(ANN, terms());
    rig.table_mut().break_now();
    other.grant(CAT, terms());
    rig.release(ANN);
    let release = rig.request();
    let answer = rig.do_in_store(&release);
    rig.pause(secs(3));
    rig.on(answer);
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::Taken));
}

#[test]
fn s13_a_late_renewal_beside_a_release_is_not_released_again() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass(millis(5_600));
    let renewal = rig.request();
    let renewed = rig.do_in_store(&renewal);
    rig.release(ANN);
    rig.on(renewed);
    assert_eq!(rig.sent.len(), 1, "{:?}", rig.sent);
    rig.serve();
    assert_eq!(released(&rig.told(), ANN), Some(None));
}

#[test]
fn s15_s4_who_is_silent_or_was_told_already_is_told_nothing_at_the_end_of_a_drain() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.silent(ANN);
    rig.on(Event::DrainEnded);
    assert_eq!(rig.told(), []);
    let (mut rig, _) = Rig::with_holder(ANN, Terms { max_hold: Some(secs(3)), ..terms() });
    rig.pass(secs(3));
    rig.told();
    rig.on(Event::DrainEnded);
    assert_eq!(rig.told(), []);
}

#[test]
fn s4_what_time_has_ended_is_over_before_a_caller_is_looked_at() {
    for drains in [false, true] {
        let (mut rig, grant) = Rig::with_holder(ANN, terms());
        rig.arrive(BOB, terms());
        if drains {
            let ends = rig.at() + secs(60);
            rig.on(Event::DrainStarted { ends });
        }
        // The timer is late.
        rig.now += grant.valid_until - rig.at();
        rig.arrive(CAT, terms());
        assert_eq!(loss(&rig.told(), ANN), Some(LossReason::Expired), "drains: {drains}");
    }
}

#[test]
fn s16_s26_who_was_silent_and_saves_at_its_end_hands_nothing_on() {
    let (mut rig, grant) = Rig::with_holder(ANN, Terms { resumable: true, ..terms() });
    rig.arrive(BOB, terms());
    rig.pass(millis(1));
    rig.sent.clear();
    rig.save(ANN, 1, "page 7");
    let write = rig.request();
    rig.silent(ANN);
    rig.release_of(ANN, &grant);
    rig.serve_one(&write);
    // It may have gone on elsewhere: the store says whether the lease is still to be given back.
    let told = rig.told();
    assert!(matches!(saved(&told, 1), Some(SaveOutcome::Saved { .. })), "{told:?}");
    assert!(!is_granted(&told, BOB));
    rig.serve();
    assert!(is_granted(&rig.told(), BOB));
}
