//! A lock of a share, which a sidecar that has enough of them leaves to others at first (S34).

use std::time::Duration;

use super::ending::throttled;
use super::proving::of;
use super::rig::{
    ANN, BOB, CAT, Rig, is_busy, is_granted, loss, millis, one_try, outage, refused, secs,
    store_failure, terms,
};
use crate::hold::{Action, CallerId, Event, Request, ShareUse, Standing, StoreFailureKind, Terms};
use crate::record::{Record, ShareName, Sharing};

/// The same of a lock of a share.
fn shared(terms: Terms) -> Terms {
    let share = ShareName::new("workers").ok();
    let sharing = Sharing { share, ..Sharing::default() }.boxed();
    Terms { record: Record { sharing, ..terms.record }, ..terms }
}

/// A sidecar that has so many locks of the share, beside one that has none.
fn sidecar(held: u32) -> Rig {
    let mut rig = Rig::new();
    rig.hold.stand(having(held));
    rig
}

fn having(held: u32) -> Standing {
    Standing { held, patience: secs(3), not_before: None, turn: true }
}

fn is_read(action: &Action) -> bool {
    matches!(action, Action::Store { what: Request::Read, .. })
}

#[test]
fn s34_who_has_locks_of_the_share_reads_a_free_one_until_it_has_stayed_free() {
    let mut rig = sidecar(1);
    rig.arrive(ANN, shared(terms()));
    assert!(is_read(&rig.sent[0]), "{:?}", rig.sent);
    assert_eq!(rig.hold.share_use(), ShareUse::Unknown);
    rig.serve();
    assert_eq!((is_granted(&rig.told(), ANN), rig.hold.share_use()), (false, ShareUse::Free));
    let seen = rig.now;
    while !is_granted(&rig.told(), ANN) {
        rig.pass(millis(50));
        rig.serve();
    }
    assert!(rig.now - seen >= secs(3) && rig.now - seen <= secs(4), "{:?}", rig.now - seen);
    assert_eq!(rig.hold.share_use(), ShareUse::Held);
}

#[test]
fn s34_who_has_none_of_the_share_or_tries_once_leaves_nothing_to_others() {
    for (held, arrival) in [(0, shared(terms())), (1, shared(one_try()))] {
        let mut rig = sidecar(held);
        rig.arrive(ANN, arrival);
        assert!(!is_read(&rig.sent[0]), "{:?}", rig.sent);
        assert_eq!(rig.hold.share_use(), ShareUse::Acquiring);
        rig.serve();
        assert!(is_granted(&rig.told(), ANN));
    }
}

#[test]
fn s34_a_lock_that_was_had_here_is_left_to_others_anew() {
    let mut rig = sidecar(1);
    rig.arrive(ANN, shared(terms()));
    rig.pass_served(secs(4));
    let grant = rig.granted(ANN);
    rig.release_of(ANN, &grant);
    rig.serve();
    rig.hold.stand(having(1));
    rig.arrive(BOB, shared(terms()));
    rig.pass_served(millis(2_500));
    assert!(!is_granted(&rig.told(), BOB));
    rig.pass_served(secs(2));
    assert!(is_granted(&rig.told(), BOB));
}

#[test]
fn s34_a_lock_that_is_read_to_be_free_is_acquired_at_once_where_there_is_no_other_of_its_share() {
    let (mut rig, mut other) = Rig::pair();
    let grant = rig.grant(ANN, shared(terms()));
    other.hold.stand(having(0));
    other.arrive(BOB, shared(terms()));
    while !other.sent.front().is_some_and(is_read) {
        other.serve();
        other.pass(millis(50));
    }
    rig.release_of(ANN, &grant);
    rig.serve();
    let read = other.request();
    other.serve_one(&read);
    assert!(other.sent.front().is_some_and(|action| !is_read(action)), "{:?}", other.sent);
}

#[test]
fn s12_s34_a_free_lock_is_acquired_at_once_for_one_try_that_came_while_it_was_read() {
    let mut rig = sidecar(1);
    rig.arrive(ANN, shared(terms()));
    rig.arrive(BOB, shared(one_try()));
    let read = rig.request();
    assert!(is_read(&read), "{read:?}");
    rig.serve_one(&read);
    rig.serve();
    assert!(is_granted(&rig.told(), ANN));
}

#[test]
fn s34_one_lock_of_a_share_is_acquired_at_a_time() {
    let mut rig = sidecar(0);
    rig.hold.stand(Standing { held: 0, patience: secs(0), not_before: None, turn: false });
    rig.arrive(ANN, shared(terms()));
    rig.pass(secs(2));
    assert!(rig.sent.is_empty(), "{:?}", rig.sent);
    rig.hold.stand(Standing { held: 0, patience: secs(0), not_before: None, turn: true });
    rig.pass(millis(250));
    rig.serve();
    assert!(is_granted(&rig.told(), ANN));
}

#[test]
fn s34_a_free_lock_is_acquired_no_sooner_than_another_of_the_share_allows() {
    let mut rig = sidecar(1);
    let not_before = Some(rig.at() + secs(9));
    rig.hold.stand(Standing { held: 1, patience: secs(3), not_before, turn: true });
    rig.arrive(ANN, shared(terms()));
    rig.pass_served(secs(8));
    assert!(!is_granted(&rig.told(), ANN));
    rig.pass_served(secs(2));
    assert!(is_granted(&rig.told(), ANN));
}

#[test]
fn s34_s12_who_reads_in_place_of_an_acquire_is_told_that_the_store_fails() {
    let mut rig = sidecar(1);
    rig.arrive(ANN, shared(terms()));
    rig.fail(refused(StoreFailureKind::Denied));
    assert_eq!(store_failure(&rig.told(), ANN), Some(StoreFailureKind::Denied));
    for failure in [outage(), throttled()] {
        let mut rig = sidecar(1);
        rig.arrive(ANN, Terms { wait: secs(4), ..shared(terms()) });
        rig.run(secs(5), |rig| {
            while !rig.sent.is_empty() {
                assert!(is_read(&rig.sent[0]), "it is not acquired unread: {:?}", rig.sent);
                rig.fail(failure.clone());
            }
        });
        assert!(store_failure(&rig.told(), ANN).is_some(), "{failure:?}");
    }
}

/// Beside an acquire that was refused the record only says who has the lock.
#[test]
fn s12_a_holder_that_cannot_be_read_has_the_lock_all_the_same() {
    for failure in [outage(), refused(StoreFailureKind::Denied)] {
        let (mut rig, mut other) = Rig::pair();
        rig.grant(ANN, terms());
        other.arrive(BOB, Terms { wait: secs(20), ..terms() });
        let mut reads = 0;
        for _ in 0..210 {
            rig.pass_served(millis(100));
            other.run(millis(100), |other| {
                while let Some(action) = other.sent.front() {
                    if is_read(action) {
                        reads += 1;
                        other.fail(failure.clone());
                    } else {
                        let action = other.request();
                        other.serve_one(&action);
                    }
                }
            });
        }
        let told = other.told();
        assert!(reads > 0 && is_busy(&told, BOB), "{reads} reads, {told:?}");
    }
}

#[test]
fn s12_every_fourth_poll_reads_the_record() {
    let (mut rig, mut other) = Rig::pair();
    rig.grant(ANN, terms());
    other.arrive(BOB, terms());
    let mut polls = Vec::new();
    for _ in 0..500 {
        rig.pass_served(millis(100));
        other.run(millis(100), |other| {
            while let Some(action) = other.sent.front() {
                polls.push(is_read(action));
                let action = other.request();
                other.serve_one(&action);
            }
        });
    }
    // The first one reads the record beside the acquire.
    let acquires: Vec<_> = polls.split(|read| *read).map(<[bool]>::len).collect();
    let between = &acquires[1..acquires.len() - 1];
    assert!(between.len() > 1 && between.iter().all(|acquires| *acquires == 3), "{acquires:?}");
}

#[test]
fn s35_only_who_wants_its_share_rebalanced_says_so() {
    let mut rig = sidecar(1);
    rig.arrive(ANN, shared(terms()));
    assert!(!rig.hold.rebalances());
    assert_eq!(rig.hold.share().map(ShareName::as_str), Some("workers"));
    rig.arrive(BOB, Terms { rebalance: true, ..of(1, shared(terms())) });
    assert!(rig.hold.rebalances());
    let mut rig = Rig::new();
    rig.arrive(ANN, one_try());
    assert_eq!(rig.hold.share(), None);
}

#[test]
fn s12_s34_one_try_of_a_lock_does_not_wait_because_another_of_the_share_is_being_acquired() {
    let mut rig = Rig::new();
    let stand = |rig: &mut Rig| {
        let (patience, not_before) = (Duration::ZERO, None);
        rig.hold.stand(Standing { held: 0, patience, not_before, turn: false });
    };
    rig.arrive(CAT, shared(terms()));
    rig.leave(CAT);
    rig.serve();
    rig.told();
    stand(&mut rig);
    rig.arrive(ANN, shared(terms()));
    stand(&mut rig);
    rig.arrive(BOB, one_try());
    rig.serve();
    let told = rig.told();
    assert!(is_granted(&told, ANN) && is_busy(&told, BOB), "the store was asked at once: {told:?}");
}

#[test]
fn s13_s34_one_try_in_a_share_ends_nobodys_belief() {
    let (mut rig, mut other) = Rig::pair();
    let grant = rig.grant(ANN, shared(terms()));
    // Somebody else's tool ends the lease at once.
    rig.table_mut().break_now();
    other.now = rig.now;
    let stand = |rig: &mut Rig| {
        let patience = secs(10);
        rig.hold.stand(Standing { held: 1, patience, not_before: None, turn: true });
    };
    stand(&mut other);
    other.arrive(CAT, shared(terms()));
    stand(&mut other);
    other.on(Event::TimePassed);
    other.serve();
    let believes = secs(13);
    other.resume(BOB, &grant, shared(terms()), believes);
    let until = other.at() + believes;
    other.serve();
    let told = other.told();
    assert!(loss(&told, BOB).is_some(), "{told:?} {}", other.hold.state());
    stand(&mut other);
    let dan = CallerId(4);
    other.arrive(dan, shared(one_try()));
    other.serve();
    let told = other.told();
    let got = is_granted(&told, dan) || is_granted(&told, CAT);
    assert!(!got, "granted at {:?}, and its client may believe until {until:?}", other.at());
}

/// So that the pace of its polls is that of a lock that has not changed for long.
fn polls_at_the_cap(other: &mut Rig) {
    other.arrive(BOB, shared(terms()));
    other.pass_served(secs(40));
    let next = other.hold.poll_timeout().unwrap().saturating_since(other.at());
    assert!(next > secs(1), "{next:?}");
}

#[test]
fn s34_who_waits_looks_soon_once_another_lock_of_the_share_was_found_free() {
    let (mut rig, mut other) = Rig::pair();
    rig.grant(ANN, Terms { lease_duration: secs(60), ..shared(terms()) });
    polls_at_the_cap(&mut other);
    other.on(Event::ShareStirred);
    other.pass(millis(250));
    assert_eq!(other.sent.len(), 1, "{:?}", other.sent);
}

#[test]
fn s34_a_lock_that_others_take_and_leave_again_is_not_left_to_them_for_ever() {
    let (mut rig, mut other) = Rig::pair();
    rig.hold.stand(having(1));
    let grant = other.grant(BOB, shared(terms()));
    rig.arrive(ANN, Terms { wait: secs(3_600), ..shared(terms()) });
    let mut last = (BOB, grant);
    for round in 0..12 {
        other.release_of(last.0, &last.1);
        other.serve();
        // It would stand back for others.
        other.restart();
        // A lease and a poll cap: 20 s.
        let left = millis(2_500) * round;
        let mut acquired = false;
        rig.run(millis(2_500), |rig| {
            acquired |= rig.sent.iter().any(|action| !is_read(action));
            rig.serve();
        });
        other.pass_served(millis(2_500));
        if acquired {
            assert!(left > secs(15), "{left:?}");
            return;
        }
        assert!(left < secs(25), "{left:?}");
        last.0 = CallerId(10 + u64::from(round));
        last.1 = other.grant(last.0, shared(terms()));
        rig.pass_served(secs(6));
        other.pass_served(secs(6));
    }
    panic!("it is left to others for ever");
}
