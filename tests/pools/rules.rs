//! Each rule by itself (S28 to S32).

use leasehold::hold::{self, Event, Failure, Memory, StoreFailure, StoreFailureKind, Terms};
use leasehold::lock::{FencingToken, Permit, Permits};
use leasehold::queue::Action;

use crate::kit::store::unknown;
use crate::pools::rig::{ANN, BOB, CAT, DAN, Rig, millis, permit, secs, terms};

fn one_try(permits: u32) -> Terms {
    terms(permits, secs(0))
}

#[test]
fn s28_each_permit_is_a_lock_of_its_own() {
    let mut rig = Rig::new();
    let mut permits = [ANN, BOB, CAT].map(|caller| rig.grant(caller, 3));
    permits.sort_unstable();
    assert_eq!(permits, [0, 1, 2]);
    rig.arrive(DAN, one_try(3));
    assert_eq!(rig.sent.len(), 0, "what is held here is known to be");
    assert_eq!(rig.busy(DAN), 3);
    assert!((0..3).all(|number| rig.is_leased(permit(number))));
}

#[test]
fn s28_a_plain_holder_has_permit_0() {
    let (mut plain, mut pool) = Rig::pair();
    assert_eq!(plain.grant(ANN, 1), 0);
    assert_eq!(pool.grant(BOB, 2), 1);
    pool.arrive(CAT, one_try(2));
    pool.serve();
    assert_eq!(pool.busy(CAT), 2);
}

#[test]
fn s28_s36_the_number_stands_in_the_record_of_each_grant() {
    let mut rig = Rig::new();
    let number = rig.grant(ANN, 3);
    let machine = rig.pool.machine(permit(number)).unwrap();
    assert_eq!(machine.known().unwrap().record().permits, Permits::new(3).ok());
}

#[test]
fn s5_s28_what_is_known_of_a_permit_is_brought_before_it_is_tried() {
    let mut rig = Rig::new();
    assert!(rig.pool.is_new(permit(1)) && !rig.pool.is_new(Permit::FIRST));
    let highest = FencingToken::from_u64(1 << 52);
    rig.pool.remember(permit(1), Memory { highest, ..Memory::default() });
    assert!(!rig.pool.is_new(permit(1)));
    assert!(rig.pool.highest().eq(highest.map(|token| (permit(1), token))));
    // What is brought once more is older.
    rig.pool.remember(permit(1), Memory::default());
    assert_eq!(rig.pool.highest().count(), 1);
}

#[test]
fn s10_s28_the_newest_hand_off_of_each_permit_is_known() {
    let mut rig = Rig::new();
    let held = [ANN, BOB].map(|caller| (caller, rig.grant(caller, 2)));
    assert!(held.iter().all(|(_, number)| rig.pool.handed(permit(*number)).is_none()));
    for (caller, next) in [(held[0], CAT), (held[1], DAN)] {
        rig.arrive(next, terms(2, secs(60)));
        rig.release(caller.0);
        assert_eq!(rig.granted(next).0, caller.1);
        assert!(rig.pool.handed(permit(caller.1)).is_some());
    }
    assert_eq!(rig.pool.validity(ANN), None);
    assert!(rig.pool.validity(DAN).is_some_and(|until| until > rig.at()));
}

#[test]
fn s6_s28_what_comes_late_of_a_permit_that_nobody_wants_goes_back() {
    let (mut plain, mut rig) = Rig::pair();
    plain.grant(ANN, 1);
    rig.arrive(BOB, terms(2, secs(60)));
    while rig.sent.front().is_some_and(|(tried, _)| *tried == Permit::FIRST) {
        rig.serve_one();
    }
    let (number, acquire) = rig.sent.pop_front().unwrap();
    rig.leave(BOB);
    // It is given up, and what it may have acquired goes back before it does acquire.
    rig.pass(secs(5));
    let late = rig.in_store(number, &acquire);
    rig.on(number, late);
    rig.serve();
    assert!(!rig.is_leased(number));
}

#[test]
fn s29_lowering_the_number_ends_nothing_and_a_release_does_not_look_at_it() {
    let mut rig = Rig::new();
    let held: Vec<(_, u8)> =
        [ANN, BOB, CAT].into_iter().map(|caller| (caller, rig.grant(caller, 3))).collect();
    rig.arrive(DAN, one_try(1));
    rig.serve();
    assert_eq!(rig.busy(DAN), 1);
    rig.pass(secs(60));
    assert_eq!(rig.pool.holdings().count(), 3);
    let (above, number) = *held.iter().find(|(_, number)| *number == 2).unwrap();
    rig.release(above);
    rig.serve();
    assert!(!rig.is_leased(permit(number)));
    let told = rig.told();
    let released = told.iter().any(|action| {
        matches!(action, Action::At { action: hold::Action::Tell { caller, notice: hold::Notice::Released { .. } }, .. } if *caller == above)
    });
    assert!(released, "{told:?}");
}

fn reports(rig: &mut Rig) -> Vec<(u8, u8)> {
    let differing = |action: Action| match action {
        Action::ReportPermitsDiffer { others, ours } => Some((others.get(), ours.get())),
        Action::At { .. } => None,
    };
    rig.told().into_iter().filter_map(differing).collect()
}

#[test]
fn s29_another_number_is_reported_once() {
    let (mut rig, mut other) = Rig::pair();
    for caller in [ANN, BOB, CAT] {
        rig.grant(caller, 3);
    }
    other.arrive(DAN, terms(2, secs(60)));
    other.pass(secs(30));
    assert_eq!(reports(&mut other), [(3, 2)]);
    // Callers of one sidecar too.
    rig.arrive(DAN, terms(4, secs(60)));
    rig.serve();
    assert_eq!(reports(&mut rig), [(3, 4)]);
}

#[test]
fn s29_another_number_that_a_holder_elsewhere_has_named_is_reported() {
    let (mut rig, mut other) = Rig::pair();
    for caller in [ANN, BOB, CAT] {
        other.grant(caller, 3);
    }
    rig.arrive(DAN, one_try(2));
    rig.serve();
    assert_eq!(reports(&mut rig), [(3, 2)]);
}

#[test]
fn s30_a_permit_that_is_released_here_is_handed_on_without_a_request() {
    let mut rig = Rig::new();
    let held: Vec<(_, u8)> =
        [ANN, BOB].into_iter().map(|caller| (caller, rig.grant(caller, 2))).collect();
    rig.arrive(CAT, terms(2, secs(60)));
    rig.arrive(DAN, terms(2, secs(60)));
    rig.pass(secs(1));
    let requests = rig.requests();
    rig.release(held[1].0);
    assert_eq!(rig.granted(CAT).0, held[1].1);
    assert_eq!((rig.requests(), rig.sent.len()), (requests, 0));
}

#[test]
fn s12_s31_a_plain_caller_that_comes_later_does_not_overtake_one_of_the_pool() {
    let mut rig = Rig::new();
    assert_eq!((rig.grant(ANN, 1), rig.grant(BOB, 2)), (0, 1));
    rig.arrive(CAT, terms(2, secs(600)));
    rig.pass(secs(10));
    rig.arrive(DAN, terms(1, secs(600)));
    rig.pass(secs(10));
    rig.release(ANN);
    assert_eq!(rig.granted(CAT).0, 0);
    rig.release(CAT);
    assert_eq!(rig.granted(DAN).0, 0);
}

#[test]
fn s10_s12_s31_one_try_behind_a_waiter_waits_no_longer_for_others_turn() {
    let (mut plain, mut rig) = Rig::pair();
    plain.grant(ANN, 1);
    let mut pass = |rig: &mut Rig, seconds| {
        for _ in 0..seconds {
            plain.pass(secs(1));
            rig.pass(secs(1));
        }
    };
    rig.grant(ANN, 2);
    rig.arrive(BOB, terms(2, secs(600)));
    rig.arrive(CAT, terms(2, secs(600)));
    pass(&mut rig, 90);
    rig.release(ANN);
    rig.serve();
    rig.granted(BOB);
    pass(&mut rig, 90);
    // The store has it back, and others their turn.
    rig.release(BOB);
    rig.serve();
    rig.arrive(DAN, one_try(2));
    pass(&mut rig, 1);
    assert_eq!(rig.busy(DAN), 2, "within a second");
}

#[test]
fn s8_s28_who_waits_for_permits_that_are_there_is_not_refused_for_one_that_is_not() {
    let (mut plain, mut rig) = Rig::pair();
    plain.grant(ANN, 1);
    rig.arrive(BOB, terms(2, secs(60)));
    let mut refused = 0;
    while let Some((tried, _)) = rig.sent.front() {
        if *tried == Permit::FIRST {
            rig.serve_one();
        } else {
            rig.fail(Failure::Refused(StoreFailure {
                kind: StoreFailureKind::Full,
                message: "full".to_owned(),
                retry_after: None,
            }));
            refused += 1;
        }
    }
    assert_eq!((refused, rig.pool.waiting()), (1, 1), "{:?}", rig.told());
}

#[test]
fn s12_s31_one_try_does_not_wait_for_a_release_that_another_waits_for() {
    let mut rig = Rig::new();
    let held = [ANN, BOB].map(|caller| (caller, rig.grant(caller, 2)));
    rig.release(held[0].0);
    rig.fail(unknown(StoreFailureKind::Unavailable));
    rig.arrive(CAT, terms(2, secs(60)));
    rig.arrive(DAN, one_try(2));
    assert_eq!(rig.busy(DAN), 1);
    rig.pass(secs(30));
    assert_eq!(rig.granted(CAT).0, held[0].1);
}

#[test]
fn s31_who_waits_tries_another_permit_while_one_is_on_its_way_back() {
    for seed in 0..8 {
        let mut rig = Rig::named(seed);
        let own = rig.grant(ANN, 3);
        rig.release(ANN);
        assert_eq!(rig.sent.len(), 1, "the release is on its way: {:?}", rig.sent);
        rig.arrive(BOB, terms(3, secs(60)));
        let tried = rig.sent.back().map(|(permit, _)| *permit);
        assert_eq!(rig.sent.len(), 2, "{:?}", rig.sent);
        assert_ne!(tried, Some(permit(own)));
    }
}

#[test]
fn s12_s31_one_try_waits_for_the_answer_to_a_release() {
    let mut rig = Rig::new();
    let held = [ANN, BOB].map(|caller| (caller, rig.grant(caller, 2)));
    rig.release(held[0].0);
    rig.arrive(DAN, one_try(2));
    assert_eq!(rig.told().len(), 0);
    rig.serve();
    assert_eq!(rig.granted(DAN).0, held[0].1);
}

#[test]
fn s30_a_permit_that_was_seen_free_comes_first() {
    for seed_turns in 0..8_u64 {
        let mut rig = Rig::new();
        let held: Vec<(_, u8)> =
            [ANN, BOB, CAT].into_iter().map(|caller| (caller, rig.grant(caller, 3))).collect();
        let (caller, number) = held[usize::try_from(seed_turns % 3).unwrap()];
        rig.release(caller);
        rig.serve();
        let requests = rig.requests();
        assert_eq!(rig.grant(DAN, 3), number);
        assert_eq!(rig.requests(), requests + 2, "an acquire and the write of its token");
    }
}

#[test]
fn s30_sidecars_begin_at_different_permits() {
    let mut firsts = std::collections::BTreeSet::new();
    for name in 0..40 {
        let mut rig = Rig::named(name);
        firsts.insert(rig.grant(ANN, 4));
    }
    assert_eq!(firsts.len(), 4, "{firsts:?}");
}

#[test]
fn s31_one_try_is_one_at_each_permit_without_pauses() {
    let (mut rig, mut other) = Rig::pair();
    for caller in [ANN, BOB, CAT] {
        other.grant(caller, 3);
    }
    rig.arrive(DAN, one_try(3));
    let now = rig.now;
    assert_eq!(rig.sent.len(), 1, "one request is under way at a time");
    rig.serve();
    assert_eq!((rig.busy(DAN), rig.now), (3, now));
    assert!(rig.pool.is_idle());
    // The records were read beside the first tries; a try is one request from then on.
    let requests = rig.requests();
    rig.arrive(DAN, one_try(3));
    rig.serve();
    assert_eq!((rig.busy(DAN), rig.requests()), (3, requests + 3));
}

#[test]
fn s31_a_grant_is_2_requests_and_the_failed_tries() {
    let (mut rig, mut other) = Rig::pair();
    for caller in [ANN, BOB] {
        other.grant(caller, 3);
    }
    rig.arrive(CAT, one_try(3));
    rig.serve();
    let first = rig.granted(CAT).0;
    rig.release(CAT);
    rig.serve();
    // Everything is known now: the permit that was free last is free.
    let requests = rig.requests();
    assert_eq!(rig.grant(DAN, 3), first);
    assert_eq!(rig.requests(), requests + 2);
}

#[test]
fn s31_waiting_at_a_pool_costs_what_a_lock_at_a_fifth_of_the_cap_costs() {
    let (mut rig, mut other) = Rig::pair();
    for caller in [ANN, BOB, CAT, DAN] {
        other.grant(caller, 4);
    }
    for caller in 10..15 {
        rig.arrive(hold::CallerId(caller), terms(4, secs(7_200)));
    }
    // Each permit is tried at once, and its record is read beside.
    rig.serve();
    let first = rig.requests();
    let mut polls = 0;
    for _ in 0..600 {
        other.now += secs(1);
        other.on(Permit::FIRST, Event::TimePassed);
        other.serve();
        let before = rig.requests();
        rig.pass(secs(1));
        polls += rig.requests() - before;
    }
    assert!(polls <= 600, "{polls} requests in 600 s; {first} in the first round");
    assert!(polls >= 480, "{polls} requests in 600 s: it does not ask");
}

#[test]
fn s31_first_come_first_served() {
    let mut rig = Rig::new();
    let number = rig.grant(ANN, 2);
    let other = rig.grant(BOB, 2);
    for caller in [CAT, DAN] {
        rig.arrive(caller, terms(2, secs(600)));
    }
    rig.pass(secs(1));
    rig.told();
    rig.release(ANN);
    assert_eq!(rig.granted(CAT).0, number);
    rig.release(BOB);
    assert_eq!(rig.granted(DAN).0, other);
}

#[test]
fn s31_every_second_try_is_one_of_a_permit_that_is_handed_on() {
    let (mut rig, mut other) = Rig::pair();
    for caller in [ANN, BOB] {
        other.grant(caller, 3);
    }
    // Somebody else waits when the third is tried for this caller.
    for caller in [CAT, DAN, hold::CallerId(5)] {
        other.arrive(caller, terms(3, secs(600)));
    }
    other.leave(CAT);
    other.serve();
    let marked = other.granted(DAN).0;
    rig.arrive(ANN, terms(3, secs(600)));
    rig.serve();
    let mut tries = [0_u32; 3];
    for _ in 0..500 {
        rig.now += millis(10);
        other.now = rig.now;
        other.on(Permit::FIRST, Event::TimePassed);
        other.serve();
        rig.on(Permit::FIRST, Event::TimePassed);
        for (permit, _) in &rig.sent {
            tries[usize::from(permit.number())] += 1;
        }
        rig.serve();
    }
    let all: u32 = tries.iter().sum();
    assert!((16..=20).contains(&all), "one try each 250 ms or a little more: {tries:?}");
    for (number, count) in (0_u8..).zip(tries) {
        let share = if number == marked { all / 2 } else { all / 4 };
        assert!(count.abs_diff(share) <= 1, "permit {marked} is handed on: {tries:?}");
    }
}

#[test]
fn s10_s31_no_sidecar_starves_at_a_pool() {
    let (mut rig, mut other) = Rig::pair();
    let callers = (10..16).map(hold::CallerId);
    let mut holds_until = std::collections::BTreeMap::new();
    for caller in callers {
        rig.arrive(caller, terms(2, secs(3_600)));
    }
    rig.pass(secs(1));
    other.now = rig.now;
    other.arrive(ANN, terms(2, secs(3_600)));
    let since = other.now;
    while other.pool.holdings().count() == 0 {
        assert!(other.now - since < secs(60), "it starves");
        rig.pass(millis(10));
        other.pass(millis(10));
        let held: Vec<_> = rig.pool.holdings().map(|(_, holding)| holding.caller).collect();
        for caller in held {
            let until = *holds_until.entry(caller).or_insert(rig.now + millis(300));
            if until <= rig.now {
                holds_until.remove(&caller);
                rig.release(caller);
                rig.arrive(caller, terms(2, secs(3_600)));
            }
        }
    }
}

/// How many grants there are in a minute in which each holder releases after 100 ms while 800 callers wait,
/// and how often these are told that they wait.
fn hand_offs(permits: u32) -> (usize, usize) {
    let mut rig = Rig::new();
    for caller in 1..=800 {
        rig.arrive(hold::CallerId(caller), terms(permits, secs(3_600)));
    }
    let end = rig.now + secs(60);
    let (mut grants, mut waits, mut callers) = (0, 0, 800);
    while rig.now < end {
        let held: Vec<_> = rig.pool.holdings().map(|(_, holding)| holding.caller).collect();
        for caller in held {
            rig.release(caller);
            callers += 1;
            rig.arrive(hold::CallerId(callers), terms(permits, secs(3_600)));
        }
        rig.pass(millis(100));
        for action in rig.told() {
            match action {
                Action::At {
                    action: hold::Action::Tell { notice: hold::Notice::Granted(_), .. },
                    ..
                } => grants += 1,
                Action::At {
                    action: hold::Action::Tell { notice: hold::Notice::Waiting { .. }, .. },
                    ..
                } => waits += 1,
                _ => {}
            }
        }
    }
    (grants, waits)
}

#[test]
fn s31_a_pool_hands_on_as_a_lock_does_and_tells_each_waiter_once_and_each_25_s() {
    let (of_lock, told_at_lock) = hand_offs(1);
    assert!(of_lock >= 450, "{of_lock} grants in a minute at a lock");
    for permits in [2, 4] {
        let (of_pool, told_at_pool) = hand_offs(permits);
        let wanted = of_lock * usize::try_from(permits).unwrap() * 9 / 10;
        assert!(of_pool >= wanted, "{permits} permits: {of_pool} grants, {of_lock} at a lock");
        // Whoever comes once, and 800 in the 25th and the 50th second.
        for (told, grants) in [(told_at_lock, of_lock), (told_at_pool, of_pool)] {
            assert!(told <= 3 * 800 + grants, "{permits} permits: told {told} times");
        }
        assert!(told_at_pool >= 3 * 800, "{permits} permits: told {told_at_pool} times");
    }
}

#[test]
fn s32_a_grant_ends_the_wait_everywhere_and_a_late_acquire_is_released() {
    let (mut rig, mut other) = Rig::pair();
    let held = rig.grant(ANN, 2);
    let elsewhere = other.grant(BOB, 2);
    rig.arrive(CAT, terms(2, secs(600)));
    rig.pass(secs(1));
    // The other permit is free now, and is being acquired for the same caller when this one is handed on.
    other.release(BOB);
    other.serve();
    while rig.sent.is_empty() {
        rig.now += millis(100);
        rig.on(Permit::FIRST, Event::TimePassed);
    }
    let (tried, action) = rig.sent.pop_front().unwrap();
    assert_eq!(tried, permit(elsewhere));
    let late = rig.in_store(tried, &action);
    rig.told();
    rig.release(ANN);
    assert_eq!(rig.granted(CAT).0, held);
    rig.on(tried, late);
    rig.serve();
    assert_eq!(rig.told(), [], "nothing more is granted");
    assert!(!rig.is_leased(tried), "what came late is released");
    assert_eq!(rig.pool.holdings().count(), 1);
}

#[test]
fn s32_what_is_acquired_for_somebody_who_has_gone_serves_the_next() {
    let mut rig = Rig::new();
    rig.arrive(ANN, terms(2, secs(60)));
    rig.arrive(BOB, terms(2, secs(60)));
    rig.leave(ANN);
    assert_eq!(rig.sent.len(), 1);
    rig.serve();
    rig.granted(BOB);
    assert_eq!(rig.requests(), 3, "an acquire with its read, and a write");
}

#[test]
fn s12_s31_a_wait_that_is_over_is_told_with_what_was_found() {
    let (mut rig, mut other) = Rig::pair();
    for caller in [ANN, BOB] {
        other.grant(caller, 2);
    }
    rig.arrive(CAT, terms(2, secs(3)));
    rig.pass(secs(4));
    assert_eq!(rig.busy(CAT), 2);
    assert!(rig.pool.is_idle());
}

#[test]
fn s31_a_repeated_call_has_the_grant_or_the_place_of_its_first() {
    let named = |wait| Terms { request_id: "r".to_owned(), ..terms(2, wait) };
    let mut rig = Rig::new();
    rig.arrive(ANN, named(secs(60)));
    rig.arrive(BOB, named(secs(60)));
    rig.serve();
    rig.granted(BOB);
    rig.arrive(CAT, named(secs(60)));
    let told = rig.told();
    assert!(
        matches!(
            told[..],
            [Action::At {
                action: hold::Action::Tell {
                    caller: CAT,
                    notice: hold::Notice::SameGrant { holder: BOB }
                },
                ..
            }]
        ),
        "{told:?}"
    );
}

#[test]
fn s18_a_store_that_cannot_be_reached_fails_one_try_and_not_a_wait() {
    let mut rig = Rig::new();
    rig.arrive(ANN, terms(2, secs(60)));
    rig.arrive(BOB, one_try(2));
    rig.fail(unknown(StoreFailureKind::Unavailable));
    let told = rig.told();
    let failed = told.iter().any(|action| {
        matches!(
            action,
            Action::At {
                action: hold::Action::Tell { caller: BOB, notice: hold::Notice::Failed(_) },
                ..
            }
        )
    });
    assert!(failed, "{told:?}");
    rig.pass(secs(5));
    rig.granted(ANN);
}

#[test]
fn s8_what_the_store_refuses_it_refuses_for_all() {
    let mut rig = Rig::new();
    rig.arrive(ANN, terms(3, secs(60)));
    rig.arrive(BOB, terms(3, secs(60)));
    let kind = StoreFailureKind::ContainerMissing;
    let refused = StoreFailure { kind, message: "no container".to_owned(), retry_after: None };
    rig.fail(Failure::Refused(refused));
    assert_eq!((rig.pool.waiting(), rig.told().len()), (0, 2));
}

#[test]
fn s15_nobody_waits_in_a_drain_and_no_machine_is_made_that_does_not_know_of_it() {
    let mut rig = Rig::new();
    let ends = rig.at() + secs(20);
    rig.grant(ANN, 2);
    rig.arrive(BOB, terms(2, secs(60)));
    rig.on(Permit::FIRST, Event::DrainStarted { ends });
    rig.arrive(CAT, terms(4, secs(60)));
    assert_eq!(rig.pool.waiting(), 0);
    rig.serve();
    let told = rig.told();
    let failed = |whom| {
        told.iter().any(|action| {
            matches!(action, Action::At { action: hold::Action::Tell { caller, notice: hold::Notice::Failed(_) }, .. } if *caller == whom)
        })
    };
    assert!(failed(BOB) && failed(CAT), "{told:?}");
    rig.release(ANN);
    rig.serve();
    assert!(rig.pool.is_idle());
    assert_eq!(rig.pool.holdings().count(), 0);
}

#[test]
fn s28_what_is_known_of_a_permit_outlives_its_machine() {
    let mut rig = Rig::new();
    for caller in [ANN, BOB] {
        rig.grant(caller, 2);
    }
    rig.release(ANN);
    rig.release(BOB);
    rig.serve();
    assert!(rig.pool.machine(permit(1)).is_none(), "it is put away");
    assert!(!rig.pool.is_new(permit(1)));
    let memories = rig.pool.clone().into_memories();
    let known = memories.iter().filter(|(_, memory)| memory.known.is_some()).count();
    assert_eq!(known, 2);
}
