//! A hold that goes on: S4, S7, S8, S9.

use std::time::Duration;

use super::rig::{ANN, BOB, Rig, is_granted, loss, millis, outage, secs, terms};
use crate::hold::{
    Action, Event, Failure, HolderCall, LossReason, Notice, Remark, Request, StoreFailureKind,
    Terms,
};
use crate::time::Instant;

/// When the first of the matching actions comes while the store is out, since the grant's send.
fn first(lease_seconds: u64, which: fn(&Action) -> bool) -> Duration {
    let asked = Terms { lease_duration: secs(lease_seconds), ..terms() };
    let (mut rig, _) = Rig::with_holder(ANN, asked);
    let sent = rig.now;
    loop {
        let at = rig.hold.poll_timeout().expect("a hold always has something to do");
        rig.pass(at - rig.at());
        while let Some(action) = rig.sent.front() {
            if which(action) {
                return rig.now - sent;
            }
            rig.fail(outage());
        }
        if rig.told().iter().any(which) {
            return rig.now - sent;
        }
    }
}

#[test]
fn s9_the_table_of_renewal_warning_and_loss() {
    for (lease, renew, at_risk, lost) in
        [(60, 20, 40, 58_300), (30, 10, 20, 28_900), (15, 5, 10, 14_200)]
    {
        let renews = first(lease, |action| {
            matches!(action, Action::Store { what: Request::Renew { .. }, .. })
        });
        let tenth = secs(renew) / 10;
        assert!(renews >= secs(renew) - tenth && renews <= secs(renew) + tenth, "{renews:?}");
        assert_eq!(
            first(lease, |action| matches!(
                action,
                Action::Tell { notice: Notice::AtRisk { .. }, .. }
            )),
            secs(at_risk)
        );
        assert_eq!(
            first(lease, |action| matches!(
                action,
                Action::Tell { notice: Notice::Lost { .. }, .. }
            )),
            millis(lost)
        );
    }
}

#[test]
fn s7_each_renewal_comes_a_third_after_the_last() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass_served(secs(6));
    let (first, asked) = (rig.hold.validity(ANN).unwrap(), rig.now);
    rig.pass_served(secs(60));
    let renewals = rig
        .told()
        .into_iter()
        .filter(|action| matches!(action, Action::Tell { notice: Notice::Renewed { .. }, .. }));
    assert!((11..=15).contains(&renewals.count()));
    assert!(rig.hold.validity(ANN).unwrap() > first + (rig.now - asked - secs(6)));
}

#[test]
fn s7_a_failed_renewal_is_repeated_with_backoff_until_the_end() {
    let (mut rig, _) = Rig::with_holder(ANN, Terms { lease_duration: secs(60), ..terms() });
    rig.pass(secs(22));
    let (mut last, end) = (rig.now, rig.now + (rig.hold.validity(ANN).unwrap() - rig.at()));
    rig.fail(outage());
    let mut tries = 0;
    let mut longest = Duration::ZERO;
    while loss(&rig.told(), ANN).is_none() {
        let wait = rig.hold.poll_timeout().unwrap() - rig.at();
        rig.pass(wait);
        if !rig.sent.is_empty()
            && matches!(rig.sent[0], Action::Store { what: Request::Renew { .. }, .. })
        {
            let (pause, left) = (rig.now - last, end - last);
            assert!(pause <= secs(5) && pause <= (left / 4).max(millis(250)), "{pause:?}");
            assert!(pause >= secs(2).min(left / 4).max(millis(250)), "{pause:?}, {left:?} left");
            assert!(tries > 0 || pause == secs(2), "it begins with D/30: {pause:?}");
            longest = longest.max(pause);
            last = rig.now;
            tries += 1;
            rig.fail(outage());
        }
    }
    assert!(tries >= 7, "{tries} tries");
    assert!(longest > secs(3), "it grows: {longest:?}");
}

#[test]
fn s7_a_try_is_cut_off_and_repeated() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass(rig.hold.poll_timeout().unwrap() - rig.at());
    let first = rig.request();
    assert!(
        matches!(first, Action::Store { what: Request::Renew { .. }, timeout, .. } if timeout == millis(2_500))
    );
    rig.pass(millis(2_500));
    let again_at = rig.hold.poll_timeout();
    rig.pass(millis(400));
    // That it failed is known: to be told so late puts nothing off.
    rig.on(super::table::failed(&first, outage()).unwrap());
    assert_eq!(rig.hold.poll_timeout(), again_at);
    rig.pass(secs(1));
    assert!(matches!(rig.request(), Action::Store { what: Request::Renew { .. }, .. }));
    let told = rig.told();
    let cut_off = |action: &Action| {
        matches!(action, Action::Report(Remark::Renewal { latency: None, failure: Some(_), .. }))
    };
    assert_eq!(told.iter().filter(|action| cut_off(action)).count(), 1);
}

#[test]
fn s7_a_try_that_was_cut_off_and_done_all_the_same_is_not_repeated_at_once() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass(rig.hold.poll_timeout().unwrap() - rig.at());
    let first = rig.request();
    rig.pass(millis(2_500));
    rig.serve_one(&first);
    rig.pass(secs(1));
    assert!(rig.sent.is_empty(), "{:?}", rig.sent);
}

#[test]
fn s9_a_renewal_that_succeeds_again_is_told() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass_failing(secs(11));
    let told = rig.told();
    let cause = told.iter().find_map(|action| match action {
        Action::Tell { notice: Notice::AtRisk { kind, detail, .. }, .. } => {
            Some((*kind, detail.as_str()))
        }
        _ => None,
    });
    assert_eq!(cause, Some((StoreFailureKind::Unavailable, "connection reset")));
    rig.pass_served(secs(2));
    assert!(
        rig.told()
            .iter()
            .any(|action| matches!(action, Action::Tell { notice: Notice::Recovered { .. }, .. }))
    );
    rig.pass_served(secs(60));
    assert!(
        !rig.told()
            .iter()
            .any(|action| matches!(action, Action::Tell { notice: Notice::AtRisk { .. }, .. }))
    );
}

#[test]
fn s8_the_stores_definite_word_ends_a_hold_at_once() {
    for (failure, reason) in [
        (Failure::Taken, LossReason::Taken),
        (Failure::Broken, LossReason::Broken),
        (Failure::Deleted, LossReason::LockDeleted),
    ] {
        let (mut rig, _) = Rig::with_holder(ANN, terms());
        rig.pass(millis(5_500));
        rig.fail(failure);
        // A broken lease is looked at (S22).
        rig.serve();
        assert_eq!(loss(&rig.told(), ANN), Some(reason));
    }
}

#[test]
fn s8_everything_else_is_retried() {
    let refused = match outage() {
        Failure::Unknown(store_failure) => Failure::Refused(store_failure),
        other => other,
    };
    for failure in [outage(), refused, Failure::Contended, Failure::Changed] {
        let (mut rig, _) = Rig::with_holder(ANN, terms());
        rig.pass(millis(5_500));
        rig.fail(failure);
        assert_eq!(loss(&rig.told(), ANN), None);
        rig.pass_served(secs(5));
        assert_eq!(loss(&rig.told(), ANN), None);
        assert!(rig.hold.validity(ANN).is_some());
    }
}

#[test]
fn s5_a_hold_whose_token_was_written_over_is_lost() {
    // Without its lease nobody can: it was broken, and a late acquisition took it once more.
    for token in ["0x1f", "4096"] {
        let (mut rig, grant) = Rig::with_holder(ANN, terms());
        rig.table_mut().set("leasehold_token", token);
        rig.pass_served(secs(6));
        assert_eq!(loss(&rig.told(), ANN), Some(LossReason::Taken), "{token}");
        rig.resume(BOB, &grant, terms(), secs(3));
        rig.serve();
        assert!(!is_granted(&rig.told(), BOB), "{token}");
        assert_eq!(rig.table().fields().get("leasehold_token").unwrap(), token);
    }
}

#[test]
fn s4_a_hold_is_lost_by_the_clock_whatever_comes_in_then() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.pass(millis(5_500));
    let renewal = rig.request();
    let answer = rig.do_in_store(&renewal);
    rig.pause(grant.valid_until - rig.at());
    // The good answer was there all the time, but it is read too late.
    rig.on(answer);
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::Expired));
    assert_eq!(rig.hold.validity(ANN), None);
    rig.pass_served(millis(142));
    assert!(!rig.is_leased(), "released, not kept");
}

#[test]
fn s4_a_late_renewal_is_released_not_kept() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass(millis(5_500));
    let late = rig.request();
    rig.pass_failing(secs(35));
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::Expired));
    let answer = rig.do_in_store(&late);
    assert!(rig.is_leased(), "the store took it for the last holder's");
    rig.on(answer);
    assert!(!is_granted(&rig.told(), ANN));
    rig.serve();
    assert!(!rig.is_leased());
}

#[test]
fn s4_nothing_is_told_after_lost() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass_failing(secs(15));
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::Expired));
    rig.serve();
    rig.on(Event::Call {
        caller: ANN,
        generation: None,
        call: HolderCall::Extend { max_hold: secs(60) },
    });
    rig.on(Event::Call { caller: ANN, generation: None, call: HolderCall::Progress });
    rig.silent(ANN);
    rig.leave(ANN);
    rig.pass_served(secs(60));
    assert_eq!(rig.told(), []);
    assert!(rig.hold.is_idle());
}

#[test]
fn s13_a_lease_the_store_gave_away_is_not_sought_here_while_it_may_be_believed_in() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, terms());
    rig.table_mut().break_now();
    rig.pass(millis(5_500));
    rig.serve();
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::Broken));
    let wakeup: Instant = rig.hold.poll_timeout().unwrap();
    let slow = grant.valid_until + millis(142);
    assert_eq!(wakeup, slow, "the validity that was told runs on, also by a slow clock");
    rig.pass_served(wakeup - rig.at() - millis(1));
    assert!(!is_granted(&rig.told(), BOB));
    rig.pass_served(millis(2));
    rig.granted(BOB);
}

#[test]
fn s11_without_auto_renew_a_hold_lasts_one_lease_duration() {
    let (mut rig, grant) = Rig::with_holder(ANN, Terms { auto_renew: false, ..terms() });
    rig.pass(grant.valid_until - rig.at() - millis(1));
    assert!(rig.sent.is_empty() && rig.told().is_empty());
    rig.pass(millis(1));
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::MaxHoldReached));
}

/// The spans between the sends of renewals that succeed.
fn spans(count: usize) -> Vec<Duration> {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    let mut sends = Vec::new();
    while sends.len() <= count {
        rig.pass(rig.hold.poll_timeout().unwrap() - rig.at());
        if rig
            .sent
            .iter()
            .any(|action| matches!(action, Action::Store { what: Request::Renew { .. }, .. }))
        {
            sends.push(rig.now);
        }
        rig.serve();
    }
    sends.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn s7_each_span_between_renewals_is_another() {
    let spans = spans(200);
    assert!(spans.iter().all(|span| *span >= millis(4_500) && *span <= millis(5_500)), "{spans:?}");
    let (shortest, longest) = (spans.iter().min().unwrap(), spans.iter().max().unwrap());
    assert!(*shortest < millis(4_600) && *longest > millis(5_400), "{shortest:?}, {longest:?}");
}

#[test]
fn s7_a_renewal_that_is_held_back_is_no_try() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.pass(rig.hold.poll_timeout().unwrap() - rig.at());
    let Action::Store { request, what: Request::Renew { .. }, .. } = rig.request() else {
        panic!("no renewal")
    };
    rig.on(Event::RenewHeldBack { request });
    // Longer than a try: nothing is cut off, reported or sent meanwhile.
    rig.pass(secs(4));
    assert!(rig.sent.is_empty() && rig.told().is_empty());
    rig.on(Event::RenewTurnCame);
    let sent = rig.at();
    rig.pass(millis(2_000));
    rig.serve();
    let told = rig.told();
    let lateness = |action: &Action| match action {
        Action::Report(Remark::Renewal { lateness, .. }) => Some(*lateness),
        _ => None,
    };
    assert_eq!(told.iter().find_map(lateness), Some(Duration::ZERO), "the sidecar was not late");
    let valid_until = rig.hold.validity(ANN).unwrap();
    assert_eq!(valid_until, crate::hold::valid_until(sent, secs(15)), "S2: from the send");
    assert!(valid_until > grant.valid_until);
}

#[test]
fn s9_a_hold_whose_renewal_has_no_turn_is_told_why() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass(rig.hold.poll_timeout().unwrap() - rig.at());
    let Action::Store { request, what: Request::Renew { .. }, .. } = rig.request() else {
        panic!("no renewal")
    };
    rig.on(Event::RenewHeldBack { request });
    rig.pass(secs(15));
    let told = rig.told();
    let at_risk = told.iter().find_map(|action| match action {
        Action::Tell { notice: Notice::AtRisk { kind, detail, .. }, .. } => {
            Some((*kind, detail.contains("its turn")))
        }
        _ => None,
    });
    assert_eq!(at_risk, Some((StoreFailureKind::Throttled, true)));
    assert_eq!(
        loss_detail(&told),
        "the store throttles, and no renewal had its turn before the validity ran out"
    );
    // A turn that comes after the end sends nothing.
    rig.serve();
    rig.on(Event::RenewTurnCame);
    assert!(
        !rig.sent
            .iter()
            .any(|action| matches!(action, Action::Store { what: Request::Renew { .. }, .. }))
    );
}

#[test]
fn s9_a_loss_tells_that_renewals_were_sent_late() {
    // Nothing ran from before the renewal was due until after the end.
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass(secs(4));
    rig.pause(secs(11));
    rig.on(Event::TimePassed);
    assert!(
        loss_detail(&rig.told()).starts_with("renewals were sent late (the sidecar was starved")
    );
    // Nothing ran for a while, and what was sent then is not answered.
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass(secs(4));
    rig.pause(secs(7));
    rig.pass(secs(4));
    assert!(
        loss_detail(&rig.told()).starts_with("renewals were sent late (the sidecar was starved")
    );
    // All was sent in time.
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass(secs(15));
    assert_eq!(loss_detail(&rig.told()), "no renewal succeeded before the validity ran out");
}

fn loss_detail(told: &[Action]) -> &str {
    let lost = told
        .iter()
        .find(|action| matches!(action, Action::Tell { notice: Notice::Lost { .. }, .. }));
    let Some(Action::Tell { notice: Notice::Lost { detail, .. }, .. }) = lost else {
        panic!("{told:?}")
    };
    detail
}

#[test]
fn s3_a_renewal_that_is_answered_after_the_next_one_asks_for_no_further_one() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass(secs(6));
    let first = rig.request();
    let late = rig.do_in_store(&first);
    rig.pass(secs(3));
    let second = rig.request();
    rig.serve_one(&second);
    rig.on(late);
    rig.pass(millis(100));
    assert!(rig.sent.is_empty(), "{:?}", rig.sent);
}
