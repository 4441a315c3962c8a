//! How holds end and go on: S1, S13 to S17.

use super::rig::{
    ANN, BOB, CAT, Rig, is_granted, loss, millis, one_try, outage, released, secs, terms, trouble,
};
use crate::hold::{Action, CallerId, Event, Failure, LossReason, Terms, TroubleKind};

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
fn s13_a_release_is_answered_when_the_lease_can_no_longer_be_valid() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.release(ANN);
    rig.pass_failing(secs(15));
    assert_eq!(released(&rig.told(), ANN), None);
    rig.pass_failing(secs(1));
    assert_eq!(released(&rig.told(), ANN), Some(None));
    assert!(rig.hold.is_idle(rig.at()));
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
    assert!(rig.hold.is_idle(rig.at()));
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
    rig.pass_served(millis(1));
    let told = rig.told();
    assert_eq!(loss(&told, ANN), Some(LossReason::Expired));
    assert!(is_granted(&told, BOB));
}

#[test]
fn s14_a_renewal_under_way_changes_nothing_for_the_silent() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.pass(millis(5_500));
    rig.silent(ANN);
    rig.serve();
    rig.pass_served(grant.valid_until - rig.at());
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
    assert!(rig.hold.is_idle(rig.at()));
}

#[test]
fn s16_who_was_silent_goes_on_at_the_same_sidecar() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.pass_failing(secs(11));
    rig.told();
    rig.silent(ANN);
    rig.resume(BOB, &grant, terms(), secs(3));
    let again = rig.granted(BOB);
    assert_eq!((again.token, again.resumed), (grant.token, true));
    assert_eq!(again.valid_until, grant.valid_until, "its validity is not stretched");
    rig.pass_served(secs(60));
    assert!(rig.hold.validity(BOB).is_some());
    rig.leave(ANN);
    assert!(rig.hold.validity(BOB).is_some(), "the call it replaced has no say");
}

#[test]
fn s16_a_hold_goes_on_after_a_restart() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.now += secs(8);
    let resumed_at = rig.at();
    rig.resume(BOB, &grant, terms(), secs(6));
    assert!(
        matches!(rig.sent[0], Action::SendRenew { lease_id, .. } if lease_id == grant.lease_id)
    );
    rig.serve();
    let again = rig.granted(BOB);
    assert_eq!((again.token, again.resumed), (grant.token, true));
    assert_eq!(again.valid_until - resumed_at, millis(14_200));
    rig.pass_served(secs(60));
    assert!(rig.hold.validity(BOB).is_some());
}

#[test]
fn s16_who_waits_after_a_restart_does_not_stand_in_the_way() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.arrive(CAT, terms());
    rig.pass_served(secs(1));
    rig.resume(BOB, &grant, terms(), secs(12));
    rig.serve();
    assert_eq!(rig.granted(BOB).token, grant.token);
    rig.release(BOB);
    rig.pass_served(secs(2));
    assert!(rig.granted(CAT).token > grant.token);
}

#[test]
fn s16_a_hold_that_another_had_since_is_lost() {
    let (mut rig, mut other) = Rig::pair();
    let grant = rig.grant(ANN, terms());
    rig.now += secs(16);
    other.now = rig.now;
    other.grant(CAT, terms());
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(3));
    rig.serve();
    assert_eq!(loss(&rig.told(), BOB), Some(LossReason::Taken));
}

#[test]
fn s16_a_token_of_another_epoch_is_lost_even_if_its_lease_can_be_renewed() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    let older = crate::lock::FencingToken::from_u64(grant.token.value() - 65_536).unwrap();
    rig.resume(BOB, &crate::hold::Granted { token: older, ..grant }, terms(), secs(9));
    rig.serve();
    assert_eq!(loss(&rig.told(), BOB), Some(LossReason::Taken));
}

#[test]
fn s16_a_resume_ends_with_the_clients_belief() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(4));
    rig.pass_failing(secs(4));
    assert_eq!(loss(&rig.told(), BOB), Some(LossReason::Expired));
    rig.pass_served(secs(20));
    assert!(!is_granted(&rig.told(), BOB));
}

#[test]
fn s16_a_former_sidecar_does_not_end_a_hold_that_went_on_elsewhere() {
    let (mut former, mut rig) = Rig::pair();
    let grant = former.grant(ANN, terms());
    former.arrive(CAT, terms());
    former.silent(ANN);
    rig.resume(BOB, &grant, terms(), secs(10));
    rig.serve();
    rig.granted(BOB);
    rig.pass_served(secs(14));
    former.pass_served(secs(14));
    former.pass_served(secs(4));
    rig.pass_served(secs(4));
    assert!(!is_granted(&former.told(), CAT));
    assert_eq!(loss(&rig.told(), BOB), None);
    assert!(rig.hold.validity(BOB).is_some());
}

#[test]
fn s16_a_hold_resumed_twice_is_not_ended_where_its_client_never_came() {
    let (mut rig, mut dangling) = Rig::pair();
    let grant = rig.grant(ANN, terms());
    rig.restart();
    // The client asked here first, its connection broke, and it went on there.
    dangling.resume(CAT, &grant, terms(), secs(13));
    rig.resume(BOB, &grant, terms(), secs(13));
    rig.serve();
    rig.granted(BOB);
    // The store's answers come late: this write is newer than the other sidecar's.
    dangling.pass_served(secs(1));
    dangling.granted(CAT);
    dangling.silent(CAT);
    rig.pass_served(secs(30));
    dangling.pass_served(secs(30));
    assert_eq!(loss(&dangling.told(), CAT), Some(LossReason::Expired));
    rig.pass_served(secs(6));
    assert_eq!(loss(&rig.told(), BOB), None);
    assert!(rig.is_leased());
}

#[test]
fn s16_a_resumed_hold_is_not_handed_on_here() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(9));
    rig.serve();
    rig.granted(BOB);
    rig.arrive(CAT, terms());
    rig.leave(BOB);
    assert!(!is_granted(&rig.told(), CAT));
    rig.serve();
    let next = rig.granted(CAT);
    assert!(next.token.epoch() > grant.token.epoch());
}

#[test]
fn s16_who_was_silent_here_may_have_gone_on_elsewhere_so_a_release_asks_the_store() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, terms());
    rig.silent(ANN);
    rig.release(ANN);
    assert!(!is_granted(&rig.told(), BOB));
    rig.serve();
    rig.granted(BOB);
}

#[test]
fn s16_a_repeated_resume_takes_the_place_of_the_first() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(9));
    rig.resume(CAT, &grant, terms(), secs(9));
    assert!(rig.told().contains(&Action::TellSuperseded { caller: BOB }));
    rig.serve();
    rig.granted(CAT);
    rig.leave(BOB);
    assert!(rig.hold.validity(CAT).is_some());
}

#[test]
fn s16_a_resume_given_up_leaves_the_lease_alone() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(9));
    rig.leave(BOB);
    rig.pass_served(secs(1));
    assert!(rig.is_leased());
    assert_eq!(rig.told(), []);
}

#[test]
fn s15_a_drain_refuses_the_new_warns_the_holder_and_releases_as_it_lets_go() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, terms());
    let ends = rig.at() + secs(20);
    rig.on(Event::DrainStarted { ends });
    let told = rig.told();
    assert!(told.contains(&Action::TellDraining { caller: ANN, ends }));
    assert_eq!(trouble(&told, BOB), Some(TroubleKind::ShuttingDown));
    rig.arrive(CAT, one_try());
    assert_eq!(trouble(&rig.told(), CAT), Some(TroubleKind::ShuttingDown));
    rig.pass_served(secs(18));
    assert!(rig.hold.validity(ANN).is_some(), "it is renewed until the drain ends");
    rig.release(ANN);
    rig.serve();
    assert_eq!(released(&rig.told(), ANN), Some(None));
    assert!(!rig.is_leased());
    assert!(rig.hold.is_idle(rig.at()));
}

#[test]
fn s15_who_does_not_let_go_is_told_and_its_lease_left_to_run_out() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.on(Event::DrainStarted { ends: rig.at() + secs(20) });
    rig.pass_served(secs(20));
    rig.on(Event::DrainEnded);
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::Shutdown));
    rig.pass_served(secs(10));
    assert!(rig.is_leased(), "it may not have read it yet");
    rig.pass_served(secs(6));
    assert!(!rig.is_leased());
    assert!(rig.hold.is_idle(rig.at()));
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
    assert_eq!((trouble(&told, BOB), loss(&told, BOB)), (Some(TroubleKind::ShuttingDown), None));
    rig.serve();
    rig.resume(CAT, &grant, terms(), secs(9));
    assert_eq!(trouble(&rig.told(), CAT), Some(TroubleKind::ShuttingDown));
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
        assert_eq!(trouble(&rig.told(), ANN), Some(TroubleKind::ShuttingDown));
        assert!(!rig.is_leased());
        assert!(rig.hold.is_idle(rig.at()));
    }
}

#[test]
fn s17_a_break_here_is_told_with_its_reason_at_once() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, terms());
    rig.table_mut().break_now();
    rig.on(Event::LeaseBroken { reason: "stuck for a day".to_owned() });
    let told = rig.told();
    assert!(told.iter().any(|action| matches!(
        action, Action::TellLost { reason: LossReason::Broken, detail, .. } if detail.contains("stuck for a day")
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
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::Taken));
}

#[test]
fn spurious_events_do_nothing() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    let stranger = CallerId(99);
    for event in [
        Event::Wakeup,
        Event::CallerLeft { caller: stranger },
        Event::HolderSilent { caller: stranger },
        Event::ReleaseAsked { caller: stranger },
        Event::ExtendAsked { caller: stranger, max_hold: secs(0) },
        Event::ProgressReported { caller: stranger },
        Event::DrainEnded,
    ] {
        let drains = matches!(event, Event::DrainEnded);
        rig.on(event);
        let told = rig.told();
        assert!(rig.sent.is_empty() && (drains || told.is_empty()), "{told:?}");
    }
}
