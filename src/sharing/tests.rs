use super::*;
use crate::lock::LeaseId;
use crate::record::Sharing;

const CAP: Duration = Duration::from_secs(5);

fn name() -> ShareName {
    ShareName::new("orders").unwrap()
}

fn at(seconds: u64) -> Instant {
    Instant::default() + Duration::from_secs(seconds)
}

/// A record of a lock that `sidecar` has, of its grant number `epoch`.
fn record(sidecar: &str, epoch: u64) -> Record {
    let sharing = Sharing { yields: true, share: Some(name()), ..Sharing::default() };
    Record {
        sidecar: sidecar.into(),
        sharing: sharing.boxed(),
        lease: Some(LeaseId::from_uuid(uuid::Uuid::from_u128(1)).fingerprint()),
        token: FencingToken::from_u64(epoch * 4_096),
        ..Record::default()
    }
}

fn theirs(sidecar: &str) -> ShareUse {
    ShareUse::Others(Box::new(record(sidecar, 1)))
}

const WANTED: Wanted = Wanted { rebalances: true, priority: Priority::NONE };

/// A share of which each of these locks is so.
fn share(uses: impl IntoIterator<Item = ShareUse>) -> Share<usize> {
    let mut share = Share::new(name());
    for (key, used) in uses.into_iter().enumerate() {
        share.note(&key, used, WANTED, at(0));
    }
    share
}

fn repeated(used: &ShareUse, times: usize) -> impl Iterator<Item = ShareUse> {
    std::iter::repeat_n(used.clone(), times)
}

#[test]
fn s34_what_is_being_acquired_counts_as_held() {
    let mut share = share([ShareUse::Held, ShareUse::Acquiring, ShareUse::Free, theirs("b")]);
    assert_eq!(share.standing(&2, CAP).held, 2);
    assert_eq!(share.held(), 2);
}

#[test]
fn s34_one_lock_of_a_share_is_acquired_at_a_time() {
    let mut share = share(repeated(&ShareUse::Free, 3));
    assert!(share.standing(&0, CAP).turn);
    assert!(!share.standing(&1, CAP).turn, "the other one has its turn");
    assert!(share.standing(&0, CAP).turn, "it goes on");
    share.note(&0, ShareUse::Acquiring, WANTED, at(1));
    assert!(!share.standing(&1, CAP).turn);
    share.note(&0, ShareUse::Held, WANTED, at(2));
    assert!(share.standing(&1, CAP).turn);
    share.leave(&1);
    assert!(share.standing(&2, CAP).turn, "who leaves gives up its turn");
}

#[test]
fn s34_patience_grows_with_what_is_had_and_with_who_has_fewer() {
    let of = |ours: usize, others: &[(&str, usize)], free: usize| {
        let mut uses: Vec<ShareUse> = repeated(&ShareUse::Held, ours).collect();
        for (sidecar, count) in others {
            uses.extend(repeated(&theirs(sidecar), *count));
        }
        uses.extend(repeated(&ShareUse::Free, free));
        let last = uses.len() - 1;
        share(uses).standing(&last, CAP).patience.as_millis()
    };
    assert_eq!(of(0, &[("b", 4)], 4), 0, "who has none waits for nobody");
    assert_eq!(of(3, &[], 9), 1_500, "nobody else is seen");
    assert_eq!(of(3, &[("b", 4), ("c", 4)], 1), 500, "fewest of all");
    assert_eq!(of(4, &[("b", 4)], 4), 7_000, "as many as another: it may not have looked yet");
    assert_eq!(of(5, &[("b", 4)], 3), 12_500, "another has fewer");
    assert_eq!(of(6, &[("b", 4)], 2), 18_000, "it has its part");
    assert_eq!(of(90, &[], 1), 15_000, "at most 15 s for what it has");
}

#[test]
fn s34_locks_that_are_free_at_once_are_acquired_in_steps() {
    let step = |ours: usize, others: usize, free: usize| {
        let theirs = theirs("b");
        let uses = repeated(&ShareUse::Held, ours).chain(repeated(&theirs, others));
        let mut share = share(uses.chain(repeated(&ShareUse::Free, free)));
        let last = ours + others + free - 1;
        share.note(&0, ShareUse::Unknown, WANTED, at(99));
        share.note(&0, ShareUse::Held, WANTED, at(100));
        share.standing(&last, CAP).not_before
    };
    assert_eq!(step(3, 0, 9), Some(at(5)), "nobody else is seen: until all were looked at again");
    assert_eq!(step(2, 4, 6), Some(at(100) + FOR_EACH), "everybody else has more");
    assert_eq!(step(4, 4, 4), Some(at(102)), "half a second for each");
    assert_eq!(step(12, 12, 50), Some(at(103)), "at most three seconds");
    assert_eq!(step(6, 5, 1), Some(at(118)), "it has its part, and another has not");
}

#[test]
fn s36_a_holder_of_another_share_or_of_none_counts_for_nobody() {
    let other = Record { sharing: None, ..record("b", 1) };
    let unnamed = Record { sidecar: Arc::default(), ..record("b", 1) };
    let uses = [ShareUse::Others(Box::new(other)), ShareUse::Others(Box::new(unnamed))];
    assert!(share(uses).counts().is_empty());
}

#[test]
fn s34_a_lock_that_becomes_free_stirs_the_others_once_a_second() {
    let mut share = share(repeated(&theirs("b"), 4));
    let none: [usize; 0] = [];
    assert_eq!(share.note(&0, ShareUse::Free, WANTED, at(10)), [1, 2, 3]);
    assert_eq!(share.note(&1, ShareUse::Free, WANTED, at(10)), none, "they look already");
    assert_eq!(share.note(&2, ShareUse::Free, WANTED, at(11)), [0, 1, 3]);
    assert_eq!(share.note(&2, ShareUse::Free, WANTED, at(20)), none, "it was free before");
    assert_eq!(share.note(&3, ShareUse::Held, WANTED, at(30)), none);
    assert_eq!(share.waited_for().copied().collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn s34_locks_that_are_free_reckon_anew_once_one_was_acquired_or_could_not_be() {
    for ended in [ShareUse::Held, theirs("b")] {
        let mut share = share([ShareUse::Free, ShareUse::Free, theirs("b"), ShareUse::Held]);
        share.note(&0, ShareUse::Acquiring, WANTED, at(10));
        assert_eq!(share.note(&0, ended, WANTED, at(11)), [1]);
    }
}

#[test]
fn s34_with_its_first_lock_a_sidecar_looks_at_those_that_it_tried_in_vain() {
    let mut share = share([ShareUse::Unknown, ShareUse::Unknown, theirs("b"), ShareUse::Unknown]);
    for (key, stirred) in [(0, vec![1, 3]), (1, vec![])] {
        share.note(&key, ShareUse::Acquiring, WANTED, at(10));
        assert_eq!(share.note(&key, ShareUse::Held, WANTED, at(11)), stirred);
    }
}

#[test]
fn s35_who_has_least_takes_from_one_with_two_more() {
    let mut few = share([ShareUse::Held, theirs("b"), theirs("b"), theirs("c")]);
    assert_eq!(few.next_move(0, at(100)), None, "one more is none");
    let mut share =
        share([ShareUse::Held, theirs("b"), theirs("b"), theirs("b"), theirs("c"), theirs("c")]);
    let chosen: BTreeSet<usize> =
        (0..30).filter_map(|random| share.clone().next_move(random, at(100))).collect();
    assert_eq!(chosen, BTreeSet::from([1, 2, 3]), "any of the one that has most");
    assert!(share.next_move(0, at(100)).is_some());
    assert_eq!(share.next_move(0, at(109)), None, "it was tried");
    assert!(share.next_move(0, at(110)).is_some());
    share.moved(at(110));
    assert_eq!(share.next_move(0, at(169)), None, "one a minute");
    assert!(share.next_move(0, at(170)).is_some());
}

#[test]
fn s35_somebody_else_with_fewer_comes_first() {
    let many = theirs("b");
    let few = [ShareUse::Held, ShareUse::Held, theirs("c")];
    assert_eq!(share(repeated(&many, 5).chain(few)).next_move(0, at(100)), None);
}

#[test]
fn s35_what_others_move_is_waited_for_and_what_this_sidecar_acquires_is_not() {
    let mut share = share(repeated(&theirs("b"), 3).chain([theirs("c"), ShareUse::Free]));
    share.note(&3, ShareUse::Others(Box::new(record("d", 2))), WANTED, at(100));
    assert_eq!(share.next_move(0, at(159)), None, "somebody else has moved one");
    assert!(share.next_move(0, at(160)).is_some());
    share.note(&4, ShareUse::Acquiring, WANTED, at(165));
    share.note(&4, ShareUse::Unknown, WANTED, at(166));
    assert!(share.next_move(0, at(170)).is_some());
}

#[test]
fn s35_only_locks_whose_holders_yield_at_equal_priority_move() {
    let sharing = |yields, priority| {
        let priority = Priority::new(priority).unwrap();
        let sharing = Sharing { yields, priority, share: Some(name()) }.boxed();
        ShareUse::Others(Box::new(Record { sharing, ..record("b", 1) }))
    };
    assert_eq!(share(repeated(&sharing(false, 0), 4)).next_move(0, at(100)), None);
    assert_eq!(share(repeated(&sharing(true, 7), 4)).next_move(0, at(100)), None);
    assert!(share(repeated(&sharing(true, 0), 4)).next_move(0, at(100)).is_some());
    let mut idle = Share::new(name());
    for key in 0..4 {
        idle.note(&key, sharing(true, 0), Wanted::default(), at(0));
    }
    assert_eq!(idle.next_move(0, at(100)), None, "nobody here wants it rebalanced");
}

#[test]
fn s35_locks_that_nobody_here_wants_are_counted_as_they_were_listed() {
    let mut share = share([theirs("b"), ShareUse::Held]);
    let (b, c) = (record("b", 1), record("c", 1));
    share.listed([(0, &c), (7, &b), (8, &b)]);
    assert_eq!(share.counts(), BTreeMap::from([("b".into(), 3)]), "0 is known better");
    assert_eq!(share.next_move(0, at(100)), Some(0));
    share.listed([(9, &c)]);
    assert_eq!(share.counts(), BTreeMap::from([("b".into(), 1), ("c".into(), 1)]));
}

#[test]
fn s34_sidecars_that_have_gone_are_forgotten() {
    let mut share = share([theirs("b")]);
    for replica in 1..1_000 {
        let held = ShareUse::Others(Box::new(record(&format!("replica-{replica}"), replica)));
        for used in [held, ShareUse::Free] {
            share.note(&1, used, WANTED, at(replica));
        }
    }
    assert!(share.leaving.len() <= 1, "{}", share.leaving.len());
}
