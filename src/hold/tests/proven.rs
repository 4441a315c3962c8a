//! A lease that was renewed before its first grant: what comes of that renewal later, and where it meets
//! another version (S33).

use super::proving::{is_renewal, of, written};
use super::rig::{ANN, BOB, CAT, Rig, millis, not_confirmed, outage, secs, terms};
use super::table::failed;
use crate::hold::{Action, Answer, Event, Failure, Request, Terms};

#[test]
fn s13_a_lease_that_was_renewed_before_its_grant_is_not_told_as_given_back_before_it_has_run_out() {
    let (mut rig, proof) = written(terms());
    rig.on(failed(&proof, outage()).unwrap());
    rig.pass_failing(secs(4));
    while rig.sent.is_empty() {
        rig.pass(millis(10));
    }
    let proof = rig.request();
    rig.serve_one(&proof);
    let grant = rig.granted(BOB);
    rig.release_of(BOB, &grant);
    while not_confirmed(&rig.told(), BOB).is_none() {
        rig.pass_failing(millis(100));
    }
    assert!(!rig.is_leased());
}

#[test]
fn s16_a_renewal_from_before_a_grant_that_comes_late_renews_nothing_that_went_on_elsewhere() {
    let (mut old, mut new) = Rig::pair();
    let grant = old.grant(ANN, of(1, terms()));
    old.release_of(ANN, &grant);
    old.serve();
    old.arrive(BOB, Terms { resumable: true, ..terms() });
    for _ in ["acquire", "write"] {
        let action = old.request();
        old.serve_one(&action);
    }
    let late = old.request();
    assert!(is_renewal(&late), "{late:?}");
    old.on(failed(&late, outage()).unwrap());
    old.pass_served(secs(2));
    let grant = old.granted(BOB);
    new.now = old.now;
    new.resume(CAT, &grant, terms(), secs(10));
    new.serve();
    assert_eq!(new.granted(CAT).generation, 2);
    let answer = new.do_in_store(&late);
    let Event::Answer { answer: Answer::Renew(answer), .. } = answer else { panic!("{answer:?}") };
    assert_eq!(answer, Err(Failure::Changed));
}

#[test]
fn s5_a_renewal_that_meets_another_version_before_a_grant_has_the_record_read() {
    let (mut rig, proof) = written(terms());
    rig.on(failed(&proof, Failure::Changed).unwrap());
    let read = rig.request();
    assert!(matches!(read, Action::Store { what: Request::Read, .. }), "{read:?}");
    rig.serve_one(&read);
    let proof = rig.request();
    assert!(is_renewal(&proof), "{proof:?}");
    rig.serve_one(&proof);
    rig.granted(BOB);
}
