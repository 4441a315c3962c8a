//! A lease that was renewed before its first grant: what comes of that renewal later, and where it meets another version (S33).

use super::proving::written;
use super::rig::{BOB, millis, outage, released, secs, terms};
use super::table::failed;

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
    while released(&rig.told(), BOB).is_none() {
        rig.pass_failing(millis(100));
    }
    assert!(!rig.is_leased());
}
