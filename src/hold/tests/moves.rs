//! A lock that is taken from an equal for a share's balance (S35).

use super::overruling::{breaks, does, go_on, held, moving, serves, waits};
use super::proving::of;
use super::rig::{BOB, outage, secs, terms};
use super::table::failed;
use crate::hold::{Action, Event, Request};

#[test]
fn s35_a_move_breaks_an_equal_that_has_had_the_lock_for_ten_minutes() {
    let (mut old, mut new, _) = held(of(0, terms()));
    new.arrive(BOB, moving(of(0, terms())));
    for minute in 1..12_u64 {
        go_on((&mut old, &mut new), secs(60), serves);
        new.on(Event::MoveAsked);
        let asked = breaks((&mut old, &mut new), secs(1), does);
        if let [(_, rival)] = asked.as_slice() {
            assert!(rival.moves && minute >= 10, "in minute {minute}");
            return;
        }
        assert!(asked.is_empty() && minute < 10, "in minute {minute}: {asked:?}");
    }
}

#[test]
fn s35_a_move_that_does_not_begin_is_over() {
    let (mut old, mut new, _) = held(of(0, terms()));
    new.arrive(BOB, moving(of(0, terms())));
    go_on((&mut old, &mut new), secs(700), serves);
    new.on(Event::MoveAsked);
    let mut looks = 0;
    go_on((&mut old, &mut new), secs(120), |rig, action| match action {
        Action::Store { what: Request::Look { .. }, .. } => {
            looks += 1;
            rig.on(failed(&action, outage()).unwrap());
        }
        _ => rig.serve_one(&action),
    });
    assert!((5..=80).contains(&looks), "{looks} in the half minute in which it may begin");
    let mut later = 0;
    go_on((&mut old, &mut new), secs(60), |rig, action| {
        later += u32::from(matches!(action, Action::Store { what: Request::Look { .. }, .. }));
        rig.serve_one(&action);
    });
    assert_eq!(later, 0);
}

#[test]
fn s35_only_who_wants_its_share_balanced_moves_a_lock() {
    let (mut old, mut new, _) = held(of(0, terms()));
    new.arrive(BOB, waits(of(0, terms())));
    go_on((&mut old, &mut new), secs(700), serves);
    new.on(Event::MoveAsked);
    assert!(breaks((&mut old, &mut new), secs(40), does).is_empty());
}
