//! Pauses that no clock here counted: S3.

use super::proving::is_renewal;
use super::rig::{ANN, BOB, CAT, Rig, is_granted, loss, millis, secs, terms};
use crate::hold::{Action, Event, HolderCall, LossReason, Notice, Request, Terms, valid_until};

fn warned(told: &[Action]) -> bool {
    told.iter().any(|action| matches!(action, Action::Tell { notice: Notice::AtRisk { .. }, .. }))
}

#[test]
fn s3_a_suspicion_renews_soon_and_once() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass(secs(1));
    rig.on(Event::PauseSuspected);
    rig.pass(millis(500));
    assert_eq!(rig.sent.len(), 1, "within D/30");
    rig.serve();
    assert!(rig.sent.is_empty());
    rig.pass(millis(3_900));
    assert!(rig.sent.is_empty(), "it is decided: the next comes after D/3");
    rig.pass(millis(1_700));
    assert_eq!(rig.sent.len(), 1);
    rig.serve();
    assert_eq!(loss(&rig.told(), ANN), None);
}

#[test]
fn s3_a_renewal_that_was_sent_before_the_suspicion_does_not_decide() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass(millis(5_500));
    let before = rig.request();
    rig.on(Event::PauseSuspected);
    rig.serve_one(&before);
    rig.pass(millis(500));
    assert_eq!(rig.sent.len(), 1, "it is asked again");
    rig.serve();
    assert!(rig.sent.is_empty());
    rig.pass(millis(3_900));
    assert!(rig.sent.is_empty(), "once");
}

#[test]
fn s3_a_suspicion_that_is_not_decided_in_time_is_a_risk() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass(secs(1));
    rig.on(Event::PauseSuspected);
    rig.pass_failing(millis(2_400));
    assert!(!warned(&rig.told()), "a renewal has its time");
    rig.pass_failing(millis(1_400));
    assert!(warned(&rig.told()), "long before two thirds of the lease have passed");
}

/// A pause is suspected a moment after what was sent last.
fn suspect(rig: &mut Rig) {
    rig.now += millis(1);
    rig.on(Event::PauseSuspected);
}

/// Lets the store do what is asked for `steps` times, and a pause be suspected before the answer to the last.
fn suspect_before_answer(rig: &mut Rig, steps: usize) {
    for step in 1..=steps {
        let request = rig.request();
        let answer = rig.do_in_store(&request);
        if step == steps {
            suspect(rig);
        }
        rig.on(answer);
    }
}

#[test]
fn s3_a_lease_from_before_a_suspicion_is_renewed_before_it_is_granted() {
    // The acquire, or the write of the token.
    for steps in [1, 2] {
        let mut rig = Rig::new();
        let grant = rig.grant(CAT, terms());
        rig.release_of(CAT, &grant);
        rig.serve();
        rig.arrive(ANN, terms());
        suspect_before_answer(&mut rig, steps);
        while rig.sent.iter().any(|action| !is_renewal(action)) {
            rig.now += millis(10);
            let write = rig.request();
            rig.serve_one(&write);
        }
        assert!(!is_granted(&rig.told(), ANN), "{steps}");
        let proof = rig.request();
        assert!(is_renewal(&proof), "{proof:?}");
        let sent = rig.at();
        rig.now += millis(500);
        rig.serve_one(&proof);
        let grant = rig.granted(ANN);
        assert_eq!(grant.valid_until, valid_until(sent, secs(15)), "S2: from the renewal on");
        rig.pass(secs(1));
        assert!(rig.sent.is_empty(), "it is decided: {:?}", rig.sent);
    }
}

/// The write of a resume is answered after a suspicion: it is proved again, whoever has written beside it
/// meanwhile.
#[test]
fn s3_s16_a_resume_is_proved_again_from_the_generation_that_it_has_written() {
    for touched in [false, true] {
        let (mut rig, grant) = Rig::with_holder(ANN, terms());
        rig.restart();
        rig.resume(BOB, &grant, terms(), secs(9));
        suspect_before_answer(&mut rig, 3);
        assert!(!is_granted(&rig.told(), BOB), "it may have run out");
        assert_eq!(rig.record().generation, grant.generation + 1);
        if touched {
            rig.table_mut().touch();
        }
        let proof = rig.request();
        assert!(is_renewal(&proof), "{proof:?}");
        let sent = rig.at();
        rig.serve_one(&proof);
        let writes =
            |action: &Action| matches!(action, Action::Store { what: Request::Write { .. }, .. });
        assert_eq!(rig.sent.iter().all(writes), !touched, "{:?}", rig.sent);
        rig.serve();
        let again = rig.granted(BOB);
        assert_eq!(again.generation, grant.generation + 2);
        assert_eq!(again.valid_until, valid_until(sent, secs(15)), "S2: from the renewal on");
        assert_eq!(rig.record().generation, again.generation);
        rig.pass_served(secs(30));
        assert!(rig.hold.validity(BOB).is_some());
    }
}

#[test]
fn s3_a_second_suspicion_while_a_lease_is_proved_asks_again() {
    let mut rig = Rig::new();
    rig.arrive(ANN, terms());
    suspect_before_answer(&mut rig, 2);
    suspect_before_answer(&mut rig, 1);
    assert!(!is_granted(&rig.told(), ANN));
    rig.serve();
    rig.granted(ANN);
}

#[test]
fn s3_a_lease_that_cannot_be_proved_in_its_validity_is_granted_to_nobody() {
    let mut rig = Rig::new();
    rig.arrive(ANN, terms());
    suspect_before_answer(&mut rig, 2);
    rig.pass_failing(secs(20));
    assert!(!is_granted(&rig.told(), ANN));
    rig.pass_served(secs(20));
    rig.granted(ANN);
}

/// Each way in which a lock is handed on, once a suspicion is known and before a renewal has decided it.
#[test]
fn s3_nothing_is_handed_on_before_a_suspicion_is_decided() {
    let short = Terms { min_hold: secs(4), ..terms() };
    let fixed = Terms { auto_renew: false, ..terms() };
    for (case, own) in [("plain", terms()), ("resting", short), ("not renewed", fixed)] {
        let (mut rig, mut other) = Rig::pair();
        let grant = rig.grant(ANN, own);
        rig.arrive(BOB, terms());
        rig.now += millis(3_990);
        if case == "resting" {
            rig.release_of(ANN, &grant);
        }
        // The rest is over in this very moment.
        rig.now += millis(10);
        other.now = rig.now + secs(20);
        other.grant(CAT, terms());
        rig.on(Event::PauseSuspected);
        rig.release_of(ANN, &grant);
        assert!(!is_granted(&rig.told(), BOB), "{case}: CAT has it");
        rig.serve();
        assert!(!is_granted(&rig.told(), BOB), "{case}: CAT has it still");
    }
}

/// The lock is handed on once the last checkpoint is saved (S26), by an answer from before the pause.
#[test]
fn s3_s26_nothing_is_handed_on_after_a_save_from_before_a_suspicion() {
    let (mut rig, mut other) = Rig::pair();
    let grant = rig.grant(ANN, terms());
    rig.arrive(BOB, terms());
    rig.pass(secs(2));
    rig.save_of(ANN, 1, &grant);
    rig.on(Event::TimePassed);
    rig.release_of(ANN, &grant);
    let write = rig.request();
    let saved = rig.do_in_store(&write);
    other.now = rig.now + secs(20);
    other.grant(CAT, terms());
    suspect(&mut rig);
    rig.on(saved);
    assert!(!is_granted(&rig.told(), BOB), "CAT has it");
}

#[test]
fn s3_a_suspicion_whose_renewal_has_no_turn_is_a_risk_as_well() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.pass(secs(1));
    rig.on(Event::PauseSuspected);
    rig.pass(millis(500));
    let Action::Store { request, what: Request::Renew { .. }, .. } = rig.request() else {
        panic!("no renewal")
    };
    rig.on(Event::RenewHeldBack { request });
    rig.pass(millis(2_400));
    assert!(!warned(&rig.told()), "a renewal has its time");
    rig.pass(millis(200));
    assert!(warned(&rig.told()), "not sent is not answered");
}

fn fixed() -> Terms {
    Terms { auto_renew: false, ..terms() }
}

/// A hold without `auto_renew` is asked about like any other, at whatever age, and lasts no longer by that
/// (S11).
#[test]
fn s3_a_hold_that_is_not_renewed_is_decided_by_a_renewal_as_well() {
    for taken in [false, true] {
        let (mut rig, mut other) = Rig::pair();
        let grant = rig.grant(ANN, fixed());
        rig.pass(secs(12));
        if taken {
            other.now = rig.now + secs(20);
            other.grant(CAT, terms());
        }
        rig.on(Event::PauseSuspected);
        rig.pass(millis(500));
        assert!(!warned(&rig.told()), "it is not late: nothing was due before");
        assert_eq!(rig.sent.len(), 1, "within D/30");
        rig.serve();
        assert_eq!(loss(&rig.told(), ANN), taken.then_some(LossReason::Taken));
        rig.pass(millis(1_500));
        assert!(rig.sent.is_empty(), "it is decided: {:?}", rig.sent);
        if !taken {
            assert_eq!(rig.hold.validity(ANN), Some(grant.valid_until));
            rig.pass_served(grant.valid_until - rig.at());
            assert_eq!(loss(&rig.told(), ANN), Some(LossReason::MaxHoldReached));
        }
    }
}

#[test]
fn s3_a_hold_that_is_not_renewed_is_at_risk_if_a_suspicion_is_not_decided_in_time() {
    let (mut rig, grant) = Rig::with_holder(ANN, fixed());
    rig.pass(secs(4));
    rig.on(Event::PauseSuspected);
    rig.pass_failing(millis(2_400));
    assert!(!warned(&rig.told()), "a renewal has its time");
    rig.pass_failing(millis(1_400));
    assert!(warned(&rig.told()));
    rig.pass_failing(grant.valid_until - rig.at());
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::MaxHoldReached));
}

/// Here, after the hold was found to be ours, and elsewhere, where the resume itself renews it.
#[test]
fn s11_s16_a_hold_that_is_not_renewed_lasts_no_longer_because_it_is_resumed() {
    for elsewhere in [false, true] {
        let (mut rig, grant) = Rig::with_holder(ANN, fixed());
        rig.pass(secs(5));
        if elsewhere {
            rig.restart();
        } else {
            rig.on(Event::PauseSuspected);
            rig.silent(ANN);
        }
        rig.resume(BOB, &grant, fixed(), grant.valid_until - rig.at());
        rig.serve();
        assert_eq!(rig.granted(BOB).valid_until, grant.valid_until);
        let call = HolderCall::Extend { max_hold: secs(60) };
        rig.on(Event::Call { caller: BOB, generation: None, call });
        assert_eq!(rig.hold.validity(BOB), Some(grant.valid_until), "that extends no lease");
    }
}

/// Its client may believe for longer than the lease is renewed for, where no clock can be compared.
#[test]
fn s11_s16_a_hold_that_is_not_renewed_ends_as_it_was_asked_for_where_it_was_resumed() {
    let (mut rig, grant) = Rig::with_holder(ANN, fixed());
    rig.restart();
    rig.resume(BOB, &grant, fixed(), secs(15));
    rig.serve();
    let resumed = rig.granted(BOB);
    rig.pass_served(resumed.valid_until - rig.at());
    assert_eq!(loss(&rig.told(), BOB), Some(LossReason::MaxHoldReached));
}
