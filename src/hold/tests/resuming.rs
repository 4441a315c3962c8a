//! Holds that go on at a sidecar that did not grant them, or at the same one again: S16.

use std::sync::Arc;

use super::rig::{
    ANN, BOB, CAT, Rig, is_busy, is_granted, loss, loss_detail, millis, not_confirmed, one_try,
    outage, released, secs, terms,
};
use super::table::failed;
use crate::hold::{
    Action, Event, Granted, HolderCall, LossReason, NotConfirmed, Notice, Request, RequestId, Terms,
};
use crate::record::{Labels, Record, Sharing};

#[test]
fn s16_who_was_silent_goes_on_at_the_same_sidecar() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.pass_failing(secs(11));
    rig.told();
    rig.silent(ANN);
    rig.resume(BOB, &grant, terms(), secs(3));
    rig.serve();
    let again = rig.granted(BOB);
    assert_eq!(again.generation, grant.generation + 1);
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
        matches!(rig.sent[0], Action::Store { what: Request::Read, .. }),
        "nothing is asked of a lease before the record is seen: {:?}",
        rig.sent
    );
    rig.serve();
    let again = rig.granted(BOB);
    assert_eq!((again.token, again.resumed), (grant.token, true));
    assert_eq!(again.valid_until - resumed_at, millis(14_200));
    rig.pass_served(secs(60));
    assert!(rig.hold.validity(BOB).is_some());
}

#[test]
fn s16_what_a_client_does_not_bring_is_read_from_the_record() {
    let labels = Labels::new([("team".to_owned(), "billing".to_owned())].into()).unwrap();
    let record = Record {
        holder: "ann".to_owned(),
        function: "Invoices".to_owned(),
        scope: "eu".to_owned(),
        mode: "FUNCTION".to_owned(),
        labels,
        ..Record::default()
    };
    let sharing = Sharing { yields: true, ..Sharing::default() }.boxed();
    let record = Record { sharing, host_type: "Shop".to_owned(), ..record };
    let sidecar = "another".into();
    let (labels, sharing) = (Labels::default(), None);
    let brought = Record { labels, sharing, sidecar, ..record.clone() };
    let (mut rig, grant) = Rig::with_holder(ANN, Terms { record: record.clone(), ..terms() });
    let before = rig.record();
    rig.restart();
    rig.resume(BOB, &grant, Terms { record: brought.clone(), ..terms() }, secs(9));
    rig.serve();
    let sidecar = Arc::clone(&brought.sidecar);
    let record = Record { sidecar: Arc::clone(&sidecar), ..record };
    assert_eq!(rig.hold.holding().unwrap().terms.record, record);
    let (generation, after) = (2, rig.record());
    let write = after.write.clone();
    assert_eq!(after, Record { generation, sidecar, write, ..before });

    // The same for who was handed the lock on, but for the labels, which are the first holder's.
    let former = Record { host_type: String::new(), ..record.clone() };
    let (mut rig, _) = Rig::with_holder(ANN, Terms { record: former, ..terms() });
    rig.pass_served(secs(1));
    let sharing = record.sharing.clone();
    rig.arrive(CAT, Terms { record: Record { sharing, ..terms().record }, ..terms() });
    rig.release(ANN);
    let handed_on = rig.granted(CAT);
    rig.restart();
    rig.resume(BOB, &handed_on, Terms { record: brought, ..terms() }, secs(9));
    rig.serve();
    let after = rig.record();
    let shown = (after.token, after.acquired_at, after.host_type.as_str());
    assert_eq!(shown, (Some(handed_on.token), Some(handed_on.acquired_at), "Shop"));
    let expected = Record { labels: Labels::default(), ..record };
    assert_eq!(rig.hold.holding().unwrap().terms.record, expected);
}

#[test]
fn s16_who_waits_after_a_restart_does_not_stand_in_the_way() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.arrive(CAT, terms());
    rig.pass_served(secs(1));
    rig.resume(BOB, &grant, terms(), secs(12));
    rig.serve();
    let resumed = rig.granted(BOB);
    assert_eq!(resumed.token, grant.token);
    rig.release_of(BOB, &resumed);
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
    let older = crate::lock::FencingToken::from_u64(grant.token.value() - 4_096).unwrap();
    rig.resume(BOB, &Granted { token: older, ..grant }, terms(), secs(9));
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
fn s16_a_resume_from_an_old_generation_is_refused_and_ends_nothing() {
    let (mut rig, mut dangling) = Rig::pair();
    let grant = rig.grant(ANN, terms());
    rig.restart();
    // The client asked here first, its connection broke, and it went on there.
    dangling.resume(CAT, &grant, terms(), secs(13));
    rig.resume(BOB, &grant, terms(), secs(13));
    rig.serve();
    let resumed = rig.granted(BOB);
    assert_eq!((grant.generation, resumed.generation), (1, 2));
    dangling.pass_served(secs(1));
    let told = dangling.told();
    assert_eq!(loss(&told, CAT), Some(LossReason::Taken));
    let detail = loss_detail(&told, CAT).unwrap();
    assert!(detail.contains("another of its grants"), "{detail}");
    rig.pass_served(secs(30));
    dangling.pass_served(secs(30));
    assert_eq!(loss(&rig.told(), BOB), None);
    assert!(rig.is_leased());
}

#[test]
fn s16_a_resume_whose_answer_was_lost_can_be_repeated_elsewhere() {
    let (mut rig, mut other) = Rig::pair();
    let grant = rig.grant(ANN, terms());
    rig.restart();
    rig.resume_as(BOB, &grant, "one");
    rig.serve();
    assert_eq!(rig.granted(BOB).generation, 2);
    // The client never reads that.
    other.resume_as(CAT, &grant, "one");
    other.serve();
    assert_eq!(other.granted(CAT).generation, 3);
    rig.leave(BOB);
    for _ in 0..20 {
        rig.pass_served(secs(1));
        other.pass_served(secs(1));
    }
    assert_eq!(loss(&other.told(), CAT), None);
    assert!(other.hold.validity(CAT).is_some(), "the sidecar that it left ended nothing");
}

#[test]
fn s16_a_renewal_where_the_hold_has_left_finds_out() {
    let (mut former, mut rig) = Rig::pair();
    let grant = former.grant(ANN, terms());
    rig.resume(BOB, &grant, terms(), secs(10));
    rig.serve();
    rig.granted(BOB);
    // The sidecar that it left has not noticed, and renews.
    former.pass_served(secs(6));
    let told = former.told();
    assert!(told.contains(&Action::Tell { caller: ANN, notice: Notice::Moved }), "{told:?}");
    assert_eq!(loss(&told, ANN), None, "it is not lost");
    rig.pass_served(secs(40));
    assert!(rig.hold.validity(BOB).is_some());
}

#[test]
fn s16_a_call_with_a_newer_generation_shows_that_the_hold_has_left() {
    for call in 0..4 {
        let (mut former, mut rig) = Rig::pair();
        let grant = former.grant(ANN, terms());
        former.arrive(CAT, terms());
        rig.resume(BOB, &grant, terms(), secs(10));
        rig.serve();
        let generation = Some(rig.granted(BOB).generation);
        former.told();
        former.on(match call {
            0 => Event::Call { caller: ANN, generation, call: HolderCall::Release },
            1 => Event::Call {
                caller: ANN,
                generation,
                call: HolderCall::Extend { max_hold: secs(9) },
            },
            2 => Event::Call { caller: ANN, generation, call: HolderCall::Progress },
            _ => Event::Call { caller: ANN, generation, call: HolderCall::Validity },
        });
        let told = former.told();
        assert!(told.contains(&Action::Tell { caller: ANN, notice: Notice::Moved }), "{told:?}");
        assert!(!is_granted(&told, CAT), "nothing is handed on");
        former.pass_served(secs(10));
        rig.pass_served(secs(10));
        assert!(!is_granted(&former.told(), CAT));
        assert!(rig.hold.validity(BOB).is_some(), "nothing is ended");
    }
}

#[test]
fn s16_a_change_of_the_record_that_leaves_the_hold_alone_is_no_loss() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.table_mut().touch();
    rig.pass_served(secs(30));
    assert_eq!(loss(&rig.told(), ANN), None);
    rig.table_mut().touch();
    rig.release(ANN);
    rig.serve();
    assert_eq!(released(&rig.told(), ANN), Some(None));
    assert!(!rig.is_leased());
}

#[test]
fn s16_a_fresh_resume_is_ended_early_only_by_a_release_of_its_generation() {
    for end in 0..4 {
        let (mut rig, grant) = Rig::with_holder(ANN, terms());
        rig.restart();
        rig.resume(BOB, &grant, terms(), secs(9));
        rig.serve();
        let resumed = rig.granted(BOB);
        rig.arrive(CAT, terms());
        match end {
            0 => rig.leave(BOB),
            1 => rig.release_of(BOB, &grant),
            2 => rig.release(BOB),
            _ => rig.silent(BOB),
        }
        rig.serve();
        assert!(!is_granted(&rig.told(), CAT), "it runs out");
        rig.pass_served(secs(13));
        assert!(rig.is_leased() && !is_granted(&rig.told(), CAT));
        rig.pass_served(secs(8));
        assert!(rig.granted(CAT).token.epoch() > resumed.token.epoch());
    }
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(9));
    rig.serve();
    let resumed = rig.granted(BOB);
    rig.release_of(BOB, &resumed);
    rig.serve();
    assert!(!rig.is_leased());
}

#[test]
fn s16_a_resumed_hold_is_like_any_other_once_d_has_passed() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(9));
    rig.serve();
    rig.granted(BOB);
    rig.pass_served(secs(15));
    rig.arrive(CAT, terms());
    rig.leave(BOB);
    let next = rig.granted(CAT);
    assert_eq!(next.token.epoch(), grant.token.epoch());
    assert!(next.token > grant.token, "it was handed on here");
}

#[test]
fn s13_s16_only_a_release_with_the_generation_hands_a_resumable_hold_on() {
    // The stream broke at its client, who goes on elsewhere, before this sidecar has noticed.
    for end in 0..3 {
        let (mut former, mut rig) = Rig::pair();
        let grant = former.grant(ANN, Terms { resumable: true, ..terms() });
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
        assert_eq!(is_granted(&former.told(), CAT), end == 2, "{end}");
        former.pass_served(secs(5));
        if end < 2 {
            assert!(!is_granted(&former.told(), CAT));
            assert!(rig.hold.validity(BOB).is_some());
        }
    }
}

#[test]
fn s16_s13_a_release_while_a_resume_is_unanswered_runs_out() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.resume(BOB, &grant, terms(), secs(9));
    rig.release_of(BOB, &grant);
    rig.serve();
    assert_eq!(not_confirmed(&rig.told(), BOB), None);
    // D after the renewal under way can be given up.
    rig.pass_served(secs(17));
    assert_eq!(not_confirmed(&rig.told(), BOB), None);
    rig.pass_served(secs(2));
    let told = rig.told();
    assert_eq!(not_confirmed(&told, BOB), Some(NotConfirmed::LeftToExpire), "{told:?}");
    assert_eq!(released(&told, BOB), None);
}

#[test]
fn s12_s16_a_lease_that_runs_out_later_than_thought_fails_no_caller() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.pass(millis(5_600));
    let renewal = rig.request();
    rig.resume(BOB, &grant, terms(), secs(9));
    rig.release_of(BOB, &grant);
    rig.pass(secs(10));
    // The lease lasts for D from this answer, and nothing was asked that could have failed.
    let answer = rig.do_in_store(&renewal);
    rig.on(answer);
    rig.pass(secs(12));
    rig.told();
    rig.arrive(CAT, one_try());
    let told = rig.told();
    assert!(is_busy(&told, CAT), "{told:?}");
    assert_eq!(not_confirmed(&told, BOB), None);
    rig.pass(secs(4));
    assert_eq!(not_confirmed(&rig.told(), BOB), Some(NotConfirmed::LeftToExpire));
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
    rig.resume_as(BOB, &grant, "try");
    rig.resume_as(CAT, &grant, "try");
    // The read that was under way may be older than the second.
    rig.serve_comebacks();
    rig.serve();
    let told = rig.told();
    assert!(
        told.contains(&Action::Tell { caller: BOB, notice: Notice::Superseded { by: CAT } }),
        "{told:?}"
    );
    assert!(is_granted(&told, CAT));
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
fn s16_a_release_with_a_later_generation_than_a_resume_shows_that_a_repeat_went_on_elsewhere() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(9));
    rig.serve_comebacks();
    let later = Granted { generation: grant.generation + 1, ..grant };
    rig.release_of(BOB, &later);
    let told = rig.told();
    let moved =
        |action: &Action| matches!(action, Action::Tell { caller: BOB, notice: Notice::Moved });
    assert!(told.iter().any(moved), "{told:?}");
    rig.pass_served(secs(30));
    let told = rig.told();
    assert_eq!((not_confirmed(&told, BOB), rig.hold.is_idle()), (None, true), "{told:?}");
}

#[test]
fn s10_s16_nothing_is_handed_on_while_the_record_is_read_because_a_renewal_met_another() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, terms());
    rig.pass(secs(6));
    rig.table_mut().touch();
    let renewal = rig.request();
    rig.serve_one(&renewal);
    assert!(matches!(rig.sent.front(), Some(Action::Store { what: Request::Read, .. })));
    rig.release_of(ANN, &grant);
    assert!(!is_granted(&rig.told(), BOB), "somebody may have it elsewhere");
    rig.pass_served(secs(20));
    assert!(is_granted(&rig.told(), BOB));
}

#[test]
fn s16_a_resume_that_meets_one_elsewhere_before_its_renewal_is_refused() {
    let (mut rig, mut other) = Rig::pair();
    let grant = rig.grant(ANN, terms());
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(9));
    rig.serve_comebacks();
    let renewal = rig.request();
    let before = rig.record();
    other.resume(CAT, &grant, terms(), secs(9));
    other.serve();
    other.granted(CAT);
    assert_ne!(rig.record().write, before.write, "each write has a name of its own");
    rig.serve_one(&renewal);
    rig.serve();
    assert_eq!(loss(&rig.told(), BOB), Some(LossReason::Taken));
}

#[test]
fn s2_s16_what_answers_an_earlier_read_settles_no_resume() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.resume_as(BOB, &grant, "try-1");
    rig.serve_comebacks();
    let renewal = rig.request();
    rig.serve_one(&renewal);
    // The next generation is written, and its answer is lost: once more it meets another version.
    let write = rig.request();
    let _lost = rig.do_in_store(&write);
    rig.on(failed(&write, outage()).unwrap());
    rig.pass(secs(2));
    let again = rig.request();
    rig.serve_one(&again);
    let read = rig.request();
    assert!(matches!(read, Action::Store { what: Request::Read, .. }), "{read:?}");
    let Event::Answer { request, answer } = rig.do_in_store(&read) else { panic!("{read:?}") };
    rig.on(Event::Answer { request: RequestId(request.0 - 1), answer: answer.clone() });
    assert!(rig.sent.is_empty(), "{:?}", rig.sent);
    rig.on(Event::Answer { request, answer });
    rig.serve();
    assert!(is_granted(&rig.told(), BOB));
}
