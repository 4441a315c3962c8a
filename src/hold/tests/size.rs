//! What a machine costs: a sidecar may have a hundred thousand of them.

use super::rig::{ANN, BOB, Rig, terms};
use crate::hold::Hold;
use crate::hold::held::Held;
use crate::hold::waiters::Waiters;

#[test]
fn a_held_lock_is_small() {
    let sizes = (size_of::<Hold>(), size_of::<Held>());
    assert!(sizes.0 <= 272 && sizes.1 <= 304, "{sizes:?}");
}

#[test]
fn an_emptied_queue_is_as_new() {
    let (mut rig, _) = Rig::with_holder(ANN, terms());
    rig.arrive(BOB, terms());
    rig.leave(BOB);
    let fresh = format!("{:?}", Waiters::default());
    let emptied = format!("{:?}", rig.hold.waiters);
    assert_eq!(emptied, fresh);
}
