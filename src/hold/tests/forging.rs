//! Resume tokens that anybody can make (S16): nothing is held back for one, unless the record is of its very
//! lease.

use uuid::Uuid;

use super::rig::{ANN, BOB, CAT, Rig, is_granted, loss, millis, outage, secs, terms};
use crate::hold::{Action, CallerId, Granted, LossReason, Notice, Request, Terms};
use crate::lock::LeaseId;

/// The same grant under a lease that nobody ever had.
fn forged(grant: &Granted) -> Granted {
    let lease_id = LeaseId::from_uuid(Uuid::from_u64_pair(77, 77));
    Granted { lease_id, ..grant.clone() }
}

/// Ann held the lock and has released it; it is free.
fn free() -> (Rig, Granted) {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.release_of(ANN, &grant);
    rig.serve();
    rig.told();
    (rig, grant)
}

fn refused(told: &[Action], caller: CallerId) -> Option<LossReason> {
    told.iter().find_map(|action| match action {
        Action::Tell { caller: whom, notice: Notice::ResumeRefused { reason, .. } }
            if *whom == caller =>
        {
            Some(*reason)
        }
        _ => None,
    })
}

#[test]
fn s16_a_forged_resume_costs_one_read_and_holds_nothing_back() {
    let (mut rig, grant) = free();
    rig.resume(BOB, &forged(&grant), terms(), secs(15));
    assert!(
        matches!(rig.sent.make_contiguous(), [Action::Store { what: Request::Read, .. }]),
        "{:?}",
        rig.sent
    );
    rig.arrive(CAT, terms());
    rig.serve();
    let told = rig.told();
    assert_eq!(refused(&told, BOB), Some(LossReason::Taken));
    assert!(is_granted(&told, CAT), "nobody waits for it");
}

#[test]
fn s16_nobody_waits_until_the_record_is_read_for_a_forged_resume() {
    let (mut rig, grant) = free();
    for number in 100..200 {
        rig.resume(CallerId(number), &forged(&grant), terms(), secs(15));
    }
    let read = rig.request();
    assert!(rig.sent.is_empty(), "one read at a time: {:?}", rig.sent);
    rig.arrive(CAT, terms());
    rig.serve();
    assert!(is_granted(&rig.told(), CAT));
    // The read is answered late, by what stood there before.
    let event = rig.do_in_store(&read);
    rig.on(event);
    let refused = |rig: &mut Rig| {
        let told = rig.told();
        let refused = |action: &&Action| {
            matches!(action, Action::Tell { notice: Notice::ResumeRefused { .. }, .. })
        };
        told.iter().filter(refused).count()
    };
    assert_eq!(refused(&mut rig), 1, "the others asked when it was under way");
    assert_eq!(rig.sent.len(), 1, "one read for all of them: {:?}", rig.sent);
    rig.serve();
    assert_eq!(refused(&mut rig), 99);
    rig.pass_served(secs(20));
    assert!(rig.hold.validity(CAT).is_some());
}

#[test]
fn s16_a_forged_resume_ends_with_what_its_client_could_believe() {
    let (mut rig, grant) = free();
    rig.resume(BOB, &forged(&grant), terms(), secs(4));
    rig.pass_failing(secs(4));
    assert_eq!(refused(&rig.told(), BOB), Some(LossReason::Expired));
    assert!(rig.hold.is_idle());
}

/// Of its own client or a forged one, while the store cannot be reached.
#[test]
fn s7_s12_s16_a_resume_asks_a_store_that_fails_no_more_often_than_a_renewal_does() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(13));
    let mut reads = 0;
    for _ in 0..1_000 {
        while !rig.sent.is_empty() {
            reads += 1;
            rig.fail(outage());
        }
        rig.pass(millis(10));
    }
    assert!((8..=20).contains(&reads), "each D/30 at the most: {reads}");
    rig.pass_served(secs(2));
    assert_eq!(rig.granted(BOB).token, grant.token);
}

#[test]
fn s16_a_resume_that_was_asked_for_after_the_read_was_sent_has_one_of_its_own() {
    let (mut rig, mut other) = Rig::pair();
    rig.resume(CAT, &forged(&other.grant(ANN, terms())), terms(), secs(9));
    let read = rig.request();
    let before = rig.do_in_store(&read);
    other.leave(ANN);
    other.serve();
    let grant = other.grant(ANN, terms());
    rig.resume(BOB, &grant, terms(), secs(9));
    rig.on(before);
    assert_eq!(loss(&rig.told(), BOB), None, "it was read before the grant");
    rig.serve();
    assert_eq!(rig.granted(BOB).token, grant.token);
}

#[test]
fn s13_s16_what_the_record_says_to_be_the_clients_is_held_back_for_it() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(9));
    let read = rig.request();
    rig.serve_one(&read);
    // It was broken meanwhile, and its client may believe for another while.
    rig.table_mut().break_now();
    rig.serve();
    let told = rig.told();
    assert!(
        told.iter().any(|action| matches!(
            action,
            Action::Tell { caller: BOB, notice: Notice::Lost { .. } }
        ))
    );
    rig.arrive(CAT, Terms { wait: secs(60), ..terms() });
    rig.pass_served(secs(8));
    assert!(!is_granted(&rig.told(), CAT));
    rig.pass_served(secs(2));
    assert!(is_granted(&rig.told(), CAT));
}

#[test]
fn s16_a_comeback_ends_with_its_caller_and_with_the_sidecar() {
    let (mut rig, grant) = Rig::with_holder(ANN, terms());
    rig.restart();
    rig.resume(BOB, &grant, terms(), secs(9));
    rig.leave(BOB);
    rig.serve();
    assert_eq!(rig.told(), []);
    assert!(rig.hold.is_idle() && rig.is_leased());
    rig.resume(BOB, &grant, terms(), secs(9));
    rig.release_of(BOB, &grant);
    assert!(rig.told().contains(&Action::Tell { caller: BOB, notice: Notice::Moved }));
    rig.resume(CAT, &grant, terms(), secs(9));
    rig.fail(outage());
    rig.pass(millis(1));
    rig.on(crate::hold::Event::DrainStarted { ends: rig.at() + secs(20) });
    let told = rig.told();
    assert!(
        told.iter().any(|action| matches!(
            action,
            Action::Tell { caller: CAT, notice: Notice::Failed(_) }
        ))
    );
    assert!(rig.hold.is_idle());
}
