//! Breaks that are on their way from this sidecar: S17.

use super::overruling::waits;
use super::proving::of;
use super::rig::{ANN, BOB, CAT, Rig, is_granted, loss, millis, revoked, secs, terms};
use crate::hold::{Action, Event};

/// A break whose outcome is unknown may have been done: what was renewed before says nothing of it.
#[test]
fn s17_what_a_break_may_have_met_is_not_handed_on_before_a_renewal() {
    for renewed in [false, true] {
        let mut rig = Rig::new();
        let grant = rig.grant(ANN, terms());
        rig.arrive(BOB, terms());
        rig.on(Event::BreakBegun);
        rig.on(Event::BreakOver);
        rig.pass_served(if renewed { secs(6) } else { millis(10) });
        rig.release_of(ANN, &grant);
        assert_eq!(is_granted(&rig.told(), BOB), renewed);
        rig.pass_served(secs(6));
        assert!(renewed || is_granted(&rig.told(), BOB), "by the store");
    }
}

/// Ann is handed on what Bob had broken, and Bob has gone.
#[test]
fn s33_a_break_for_a_waiting_caller_does_not_hit_the_next_holder_here() {
    let mut rig = Rig::new();
    let low = of(1, terms());
    let grant = rig.grant(ANN, low.clone());
    rig.arrive(BOB, waits(of(2, terms())));
    // It looks after D, and what the look shows has it break the lease.
    while !rig.sent.iter().any(|action| matches!(action, Action::SendBreak { .. })) {
        rig.serve();
        rig.pass(millis(50));
        while let Some(place) = rig.sent.iter().position(|action| !is_break(action)) {
            let action = rig.sent.remove(place).unwrap();
            rig.serve_one(&action);
        }
    }
    rig.told();
    rig.leave(BOB);
    rig.arrive(CAT, waits(low));
    rig.release_of(ANN, &grant);
    rig.serve();
    rig.pass_served(secs(30));
    let told = rig.told();
    assert!(is_granted(&told, CAT), "{told:?}");
    assert_eq!((revoked(&told, CAT), loss(&told, CAT)), (None, None));
}

const fn is_break(action: &Action) -> bool {
    matches!(action, Action::SendBreak { .. })
}
