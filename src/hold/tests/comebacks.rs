//! Resumes that cannot go on, or only one of which can: S15, S16.

use super::rig::{
    ANN, BOB, CAT, Rig, is_granted, loss, millis, outage, released, secs, store_failure, terms,
};
use crate::hold::{
    Action, Event, Failure, Granted, HolderCall, LossReason, Notice, Request, StoreFailureKind,
    Terms,
};
use crate::lock::{FencingToken, LeaseId};

/// What a client would bring of a hold that this sidecar does not know, with a greater token.
fn elsewhere(grant: &Granted) -> Granted {
    let token = FencingToken::from_u64(grant.token.value() + 8_192).unwrap();
    let lease_id = LeaseId::parse("00000000-0000-4000-8000-0000000000ff").unwrap();
    Granted { token, lease_id, ..grant.clone() }
}

/// What a resume is answered at once: a loss, a store failure, or nothing while the store is asked.
fn answer(rig: &mut Rig, grant: &Granted) -> (Option<LossReason>, Option<StoreFailureKind>) {
    rig.sent.clear();
    rig.resume(BOB, grant, terms(), secs(9));
    rig.serve_comebacks();
    let told = rig.told();
    assert_eq!(
        rig.sent.is_empty(),
        loss(&told, BOB).is_some() || store_failure(&told, BOB).is_some()
    );
    (loss(&told, BOB), store_failure(&told, BOB))
}

const ENDED: (Option<LossReason>, Option<StoreFailureKind>) = (Some(LossReason::Taken), None);
const LATER: (Option<LossReason>, Option<StoreFailureKind>) =
    (None, Some(StoreFailureKind::Unavailable));
const GOES_ON: (Option<LossReason>, Option<StoreFailureKind>) = (None, None);

#[test]
fn s16_a_hold_that_rests_or_was_lost_is_not_resumed() {
    let (mut rig, grant) = Rig::with_holder(ANN, Terms { min_hold: secs(40), ..terms() });
    rig.release_of(ANN, &grant);
    assert_eq!(answer(&mut rig, &grant), ENDED, "it rests");
    let (mut rig, grant) = Rig::with_holder(ANN, Terms { max_hold: Some(secs(3)), ..terms() });
    rig.pass(secs(3));
    assert_eq!(answer(&mut rig, &grant), ENDED, "it fades");
}

#[test]
fn s16_an_older_token_under_the_same_lease_is_not_resumed() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.arrive(CAT, terms());
    rig.release(ANN);
    let next = rig.granted(CAT);
    assert_eq!(answer(&mut rig, &grant), ENDED, "it was handed on");
    assert!(rig.hold.validity(CAT).is_some());
    rig.release(CAT);
    rig.serve();
    rig.told();
    assert!(rig.hold.is_idle());
    assert_eq!(answer(&mut rig, &grant), ENDED, "a greater token is known");
    assert_eq!(answer(&mut rig, &next), GOES_ON, "the store says what became of it");
}

#[test]
fn s16_a_hold_of_another_lease_waits_until_what_is_here_is_settled() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    let other = elsewhere(&grant);
    assert_eq!(answer(&mut rig, &other), LATER, "what is held here may be gone, unnoticed");
    assert!(rig.hold.validity(ANN).is_some());
    rig.on(Event::LeaseBroken { ends_now: true });
    rig.told();
    assert_eq!(answer(&mut rig, &grant), ENDED, "its lease was broken");
    assert_eq!(answer(&mut rig, &other), LATER, "its former holder may still believe");
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.release(ANN);
    assert_eq!(answer(&mut rig, &grant), ENDED, "it is being released");
    assert_eq!(answer(&mut rig, &elsewhere(&grant)), LATER, "another is being released");
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    assert_eq!(answer(&mut rig, &grant), GOES_ON);
    assert_eq!(answer(&mut rig, &elsewhere(&grant)), LATER, "another is being resumed");
    assert_eq!(answer(&mut rig, &grant), GOES_ON, "the same is asked for again");
}

#[test]
fn s16_who_went_on_elsewhere_and_comes_back_goes_on_here() {
    let (mut rig, mut other) = Rig::pair();
    let grant = rig.grant(ANN, terms());
    other.resume(BOB, &grant, terms(), secs(12));
    other.serve();
    let there = other.granted(BOB);
    rig.resume(CAT, &there, terms(), secs(12));
    assert!(
        matches!(rig.sent.front(), Some(Action::Store { what: Request::Read, .. })),
        "{:?}",
        rig.sent
    );
    assert!(rig.told().contains(&Action::Tell { caller: ANN, notice: Notice::Moved }));
    rig.serve();
    assert_eq!(rig.granted(CAT).generation, there.generation + 1);
}

#[test]
fn s16_only_the_same_try_is_repeated_with_an_older_generation() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.resume_as(BOB, &grant, "try-1");
    rig.serve();
    assert_eq!(rig.granted(BOB).generation, grant.generation + 1);
    rig.resume_as(CAT, &grant, "try-2");
    let told = rig.told();
    assert_eq!(loss(&told, CAT), Some(LossReason::Taken), "another try");
    assert!(rig.hold.validity(BOB).is_some());
    // Its answer was lost on the way.
    rig.resume_as(CAT, &grant, "try-1");
    rig.serve();
    rig.granted(CAT);
    // Tries without a name are never the same.
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.resume(BOB, &grant, terms(), secs(9));
    rig.serve();
    rig.granted(BOB);
    rig.resume(CAT, &grant, terms(), secs(9));
    assert_eq!(loss(&rig.told(), CAT), Some(LossReason::Taken));
}

#[test]
fn s16_only_who_resumes_gives_its_resume_up() {
    for call in 0..3 {
        let (mut rig, grant) = Rig::with_holder(ANN, terms());
        rig.restart();
        rig.resume(BOB, &grant, terms(), secs(9));
        rig.serve_comebacks();
        match call {
            0 => rig.leave(CAT),
            1 => rig.silent(CAT),
            _ => rig.release_of(CAT, &grant),
        }
        assert_eq!(rig.hold.state(), "resuming", "{call}");
        rig.serve();
        rig.granted(BOB);
    }
}

#[test]
fn s16_s14_a_resume_whose_stream_broke_is_not_granted() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(9));
    rig.silent(BOB);
    rig.pass_served(secs(12));
    assert!(!is_granted(&rig.told(), BOB));
    assert!(rig.hold.is_idle());
}

#[test]
fn s16_a_try_to_resume_that_is_not_answered_is_repeated() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(9));
    rig.request();
    rig.pass(millis(2_500));
    assert!(rig.sent.is_empty());
    rig.pass(millis(300));
    rig.serve();
    rig.granted(BOB);
}

#[test]
fn s16_nothing_is_asked_while_a_lease_runs_out() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(9));
    rig.serve();
    rig.granted(BOB);
    let begun = rig.at();
    rig.arrive(CAT, terms());
    rig.release(BOB);
    assert_eq!(rig.hold.state(), "releasing");
    assert_eq!(rig.hold.poll_timeout(), Some(begun + millis(15_800)));
    rig.pass(millis(15_700));
    assert!(rig.sent.is_empty(), "{:?}", rig.sent);
    assert_eq!(released(&rig.told(), BOB), None);
    rig.pass(millis(100));
    assert!(
        matches!(rig.sent.front(), Some(Action::Store { what: Request::Acquire { .. }, .. })),
        "{:?}",
        rig.sent
    );
}

#[test]
fn s16_a_call_with_the_holds_own_generation_leaves_it_here() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    let generation = Some(grant.generation);
    rig.on(Event::Call { caller: ANN, generation, call: HolderCall::Extend { max_hold: secs(9) } });
    assert!(matches!(
        rig.told()[..],
        [Action::Tell { caller: ANN, notice: Notice::Extended { .. } }]
    ));
    rig.on(Event::Call { caller: ANN, generation, call: HolderCall::Progress });
    rig.on(Event::Call { caller: ANN, generation, call: HolderCall::Validity });
    assert_eq!(rig.told(), []);
    assert!(rig.hold.validity(ANN).is_some());
}

#[test]
fn s16_a_record_of_another_lease_is_a_loss_whatever_its_generation() {
    for resumed in [false, true] {
        let (mut rig, mut other) = Rig::pair();
        rig.grant(ANN, terms());
        rig.table_mut().break_now();
        let grant = other.grant(CAT, terms());
        if resumed {
            other.resume(BOB, &grant, terms(), secs(9));
            other.serve();
            assert_eq!(other.granted(BOB).generation, 2);
        }
        rig.pass(secs(6));
        // The store looks at the version first.
        rig.fail(Failure::Changed);
        let read = rig.request();
        rig.serve_one(&read);
        assert_eq!(loss(&rig.told(), ANN), Some(LossReason::Taken), "{resumed}");
    }
}

#[test]
fn s16_a_renewal_that_met_our_own_late_write_is_repeated_at_once() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.table_mut().touch();
    rig.pass(secs(6));
    let (renewal, now) = (rig.request(), rig.at());
    rig.serve_one(&renewal);
    rig.serve();
    assert_eq!(rig.hold.validity(ANN), Some(now + millis(14_200)));
}

#[test]
fn s6_s16_a_resume_gives_back_what_may_have_been_acquired_for_others() {
    let given_back = |rig: &mut Rig, grant: &Granted| {
        rig.sent.clear();
        rig.resume(BOB, grant, terms(), secs(9));
        rig.serve_comebacks();
        let releases = rig.sent.iter().filter_map(|action| match action {
            Action::Store { what: Request::Release { lease_id, .. }, .. } => Some(*lease_id),
            _ => None,
        });
        releases.collect::<Vec<_>>()
    };
    let elsewhere = |later| {
        let (mut holder, mut rig) = Rig::pair();
        let grant = holder.grant(ANN, terms());
        rig.now += later;
        rig.arrive(CAT, terms());
        (rig, grant)
    };
    let (mut rig, grant) = elsewhere(secs(1));
    let Action::Store { what: Request::Acquire { lease_id, .. }, .. } = rig.request() else {
        panic!("it acquires")
    };
    assert_eq!(given_back(&mut rig, &grant), [lease_id], "it is not answered");
    let (mut rig, grant) = elsewhere(secs(1));
    rig.fail(outage());
    assert_eq!(given_back(&mut rig, &grant), [lease_id], "its outcome is unknown");
    let (mut rig, grant) = elsewhere(secs(16));
    let acquire = rig.request();
    rig.serve_one(&acquire);
    assert_eq!(given_back(&mut rig, &grant), [], "it was acquired: what is resumed is not alive");
    let (mut rig, grant) = elsewhere(secs(1));
    rig.serve();
    assert_eq!(given_back(&mut rig, &grant), [], "another has the lock");
}
