//! Priorities and shares through the coordinator (S33 to S35).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::rig::{
    Account, MINUTE, SECOND, Sidecar, by_key, granted, next_but_renewals, pass, request, settle,
    waiting,
};
use crate::coordinator::{
    Grant, HeldEvent, HoldEvent, HoldRequest, HoldStream, LockState, NoObserver, PriorityStatus,
    WAIT_WITHOUT_END,
};
use crate::hold::LossReason;
use crate::record::{Priority, ShareName, Sharing};
use crate::store::{LeaseState, Operation};

pub(super) fn of(priority: u32, request: HoldRequest) -> HoldRequest {
    let priority = Priority::new(priority).unwrap();
    HoldRequest { sharing: Sharing { priority, yields: true, share: None }, ..request }
}

/// What a listener asks for that shares its locks.
pub(super) fn listener(function: &str, rebalance: bool) -> HoldRequest {
    let share = ShareName::new("listeners").ok();
    let sharing = Sharing { priority: Priority::NONE, yields: rebalance, share };
    HoldRequest { sharing, rebalance, ..waiting(function, WAIT_WITHOUT_END) }
}

/// A sidecar with a name of its own.
fn named(account: &Account, name: &str) -> Sidecar {
    account.sidecar_with(Arc::new(NoObserver), 1, |settings| settings.sidecar = name.into())
}

/// The holder is told that it has until its lease expires, and for which priority.
pub(super) async fn revoked(stream: &mut HoldStream) -> Priority {
    match next_but_renewals(stream).await {
        HoldEvent::Held(HeldEvent::Revoked { break_note: Some(note), .. }) => {
            note.for_priority.unwrap()
        }
        other => panic!("{other:?}"),
    }
}

pub(super) async fn release(sidecar: &Sidecar, grant: &Grant) {
    sidecar.coordinator.release(grant.lease_id, Some(grant.generation)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn s33_a_new_version_takes_over_and_the_old_one_is_told() {
    let account = Account::new();
    let (old, new) = (account.sidecar(), account.sidecar());
    let (mut holder, grant) = old.hold(&of(1, request("nightly"))).await;
    let mut waits = new.coordinator.hold(&of(2, waiting("nightly", 5 * MINUTE))).unwrap();
    let begun = account.now();
    pass(59 * SECOND).await;
    assert_eq!(account.lease("nightly").await, LeaseState::Leased, "not before D");
    assert_eq!(revoked(&mut holder).await, Priority::new(2).unwrap());
    assert!(account.now() - begun < 90 * SECOND, "D, a poll and a third of D");
    settle().await;
    let shown = new.coordinator.get(&by_key("nightly")).await.unwrap();
    let reserved = shown.record.reserved.expect("the old one's sidecar says for whom it is kept");
    assert_eq!(reserved.priority, Priority::new(2).unwrap());
    // The old version comes again at once, and others of it wait elsewhere.
    release(&old, &grant).await;
    let third = account.sidecar();
    let _again = old.coordinator.hold(&of(1, waiting("nightly", 30 * MINUTE))).unwrap();
    let _elsewhere = third.coordinator.hold(&of(1, waiting("nightly", 30 * MINUTE))).unwrap();
    let taken = granted(&mut waits).await;
    assert!(taken.token > grant.token);
    // It never swings back.
    pass(10 * MINUTE).await;
    assert_eq!(account.lease("nightly").await, LeaseState::Leased);
    assert_eq!(
        new.coordinator.get(&by_key("nightly")).await.unwrap().record.token,
        Some(taken.token)
    );
}

#[tokio::test(start_paused = true)]
async fn s33_a_take_over_costs_a_look_a_note_and_a_break() {
    let account = Account::new();
    let (old, new) = (account.sidecar(), account.sidecar());
    let (mut holder, _) = old.hold(&of(1, request("nightly"))).await;
    let _waits = new.coordinator.hold(&of(2, waiting("nightly", 5 * MINUTE))).unwrap();
    pass(59 * SECOND).await;
    new.counts();
    revoked(&mut holder).await;
    let counts = new.counts();
    assert_eq!(counts.of(Operation::BreakLease), 1, "{counts}");
    assert_eq!(counts.of(Operation::ReadBreakNote), 1, "{counts}");
}

#[tokio::test(start_paused = true)]
async fn s33_a_holder_that_does_not_yield_is_waited_for_and_the_answer_says_so() {
    let account = Account::new();
    let (old, new) = (account.sidecar(), account.sidecar());
    let (mut holder, grant) = old.hold(&request("nightly")).await;
    let busy = new.busy(of(2, waiting("nightly", 3 * MINUTE))).await;
    assert_eq!(busy.priority, Some(PriorityStatus::HolderDoesNotYield));
    let busy = new.busy(waiting("nightly", SECOND)).await;
    assert_eq!(busy.priority, None, "it gave none");
    release(&old, &grant).await;
    assert!(matches!(next_but_renewals(&mut holder).await, HoldEvent::Released(_)));
    let (_equal, _) = old.hold(&of(2, request("nightly"))).await;
    let busy = new.busy(of(2, waiting("nightly", 3 * MINUTE))).await;
    assert_eq!(busy.priority, Some(PriorityStatus::NotGreater));
    let busy = new.busy(of(3, request("nightly"))).await;
    assert_eq!(busy.priority, Some(PriorityStatus::WaitedTooShort), "one try breaks nothing");
    assert_eq!(account.lease("nightly").await, LeaseState::Leased);
}

#[tokio::test(start_paused = true)]
async fn s33_a_caller_overrules_a_holder_of_its_own_sidecar() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let (mut holder, grant) = sidecar.hold(&of(1, request("nightly"))).await;
    let mut waits = sidecar.coordinator.hold(&of(2, waiting("nightly", 5 * MINUTE))).unwrap();
    let mut low = sidecar.coordinator.hold(&of(1, waiting("nightly", 30 * MINUTE))).unwrap();
    assert_eq!(revoked(&mut holder).await, Priority::new(2).unwrap());
    release(&sidecar, &grant).await;
    assert!(granted(&mut waits).await.token > grant.token);
    let HoldEvent::Waiting { .. } = low.next().await.unwrap() else { panic!("it overtook") };
}

#[tokio::test(start_paused = true)]
async fn s33_a_lock_is_broken_at_most_once_in_two_lease_durations() {
    let account = Account::new();
    let old = account.sidecar();
    let mut breaks = Vec::new();
    let mut holder = old.coordinator.hold(&of(1, waiting("nightly", WAIT_WITHOUT_END))).unwrap();
    for _ in 0..6 {
        // A new build that crashes as soon as it has the lock, and comes again.
        let grant = granted(&mut holder).await;
        let new = account.sidecar();
        let mut waits = new.coordinator.hold(&of(2, waiting("nightly", 10 * MINUTE))).unwrap();
        revoked(&mut holder).await;
        breaks.push(account.now());
        release(&old, &grant).await;
        holder = old.coordinator.hold(&of(1, waiting("nightly", WAIT_WITHOUT_END))).unwrap();
        let grant = granted(&mut waits).await;
        release(&new, &grant).await;
    }
    for pair in breaks.windows(2) {
        assert!(pair[1] - pair[0] >= 2 * MINUTE - 21 * SECOND, "{breaks:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn s33_a_reservation_ends_and_keeps_nobody_out_for_long() {
    let account = Account::new();
    let (old, new) = (account.sidecar(), account.sidecar());
    let (mut holder, grant) = old.hold(&of(1, request("nightly"))).await;
    let waits = new.coordinator.hold(&of(2, waiting("nightly", 5 * MINUTE))).unwrap();
    revoked(&mut holder).await;
    drop(waits);
    let released = account.now();
    release(&old, &grant).await;
    let third = account.sidecar();
    let mut low = third.coordinator.hold(&of(1, waiting("nightly", 5 * MINUTE))).unwrap();
    granted(&mut low).await;
    let after = account.now() - released;
    assert!(after >= 9 * SECOND && after <= 16 * SECOND, "the poll cap and 5 s: {after:?}");
}

#[tokio::test(start_paused = true)]
async fn s34_whoever_has_some_of_a_share_reads_and_takes_what_stays_free() {
    let account = Account::new();
    let (here, there) = (named(&account, "a"), named(&account, "b"));
    let mut held = Vec::new();
    for function in ["one", "two"] {
        held.push(here.hold(&listener(function, false)).await);
    }
    let (_theirs, grant) = there.hold(&listener("three", false)).await;
    let mut waits = here.coordinator.hold(&listener("three", false)).unwrap();
    pass(20 * SECOND).await;
    here.counts();
    pass(30 * SECOND).await;
    let counts = here.counts();
    assert_eq!(counts.of(Operation::Acquire), 0, "it polls by reading: {counts}");
    assert!(counts.of(Operation::ReadRecord) >= 5, "{counts}");
    release(&there, &grant).await;
    let released = account.now();
    here.counts();
    granted(&mut waits).await;
    let after = account.now() - released;
    assert!(after >= SECOND, "two locks are held here: {after:?}");
    let counts = here.counts();
    assert_eq!(counts.of(Operation::Acquire), 1, "{counts}");
}

#[tokio::test(start_paused = true)]
async fn s34_a_lock_that_was_had_in_between_has_not_stayed_free() {
    let account = Account::new();
    let (here, there) = (named(&account, "a"), named(&account, "b"));
    let mut held = Vec::new();
    for number in 0..20 {
        held.push(here.hold(&listener(&format!("l{number}"), false)).await);
    }
    let (_theirs, first) = there.hold(&listener("other", false)).await;
    let mut waits = here.coordinator.hold(&listener("other", false)).unwrap();
    pass(20 * SECOND).await;
    release(&there, &first).await;
    // It is seen free within a poll cap, and left alone for ten seconds.
    pass(8 * SECOND).await;
    let (_theirs, second) = there.hold(&listener("other", false)).await;
    release(&there, &second).await;
    let released = account.now();
    granted(&mut waits).await;
    let after = account.now() - released;
    assert!(after >= 10 * SECOND, "twenty locks are held here: {after:?}");
}

/// Holds a lock until the stream is dropped.
async fn holds(sidecar: Sidecar, function: String) {
    let mut stream = sidecar.coordinator.hold(&listener(&function, false)).unwrap();
    while stream.next().await.is_some() {}
}

#[tokio::test(start_paused = true)]
async fn s34_sidecars_with_fewer_come_first() {
    let account = Account::new();
    let sidecars = [named(&account, "a"), named(&account, "b"), named(&account, "c")];
    for sidecar in &sidecars {
        for number in 0..12 {
            tokio::spawn(holds(sidecar.clone(), format!("l{number}")));
        }
    }
    pass(2 * MINUTE).await;
    let even = |names: &[&str], each| names.iter().map(|name| ((*name).to_owned(), each)).collect();
    let all: BTreeMap<String, usize> = even(&["a", "b", "c"], 4);
    assert_eq!(spread(&sidecars[0], 12).await, all, "after a cold start");
    sidecars[2].coordinator.drain(SECOND).await;
    pass(2 * MINUTE).await;
    let rest: BTreeMap<String, usize> = even(&["a", "b"], 6);
    assert_eq!(spread(&sidecars[0], 12).await, rest, "after one has gone");
}

#[tokio::test(start_paused = true)]
async fn s34_one_try_takes_a_free_lock_at_once() {
    let account = Account::new();
    let here = named(&account, "a");
    let mut held = Vec::new();
    for function in ["one", "two", "three"] {
        held.push(here.hold(&listener(function, false)).await);
    }
    let before = account.now();
    here.acquire(HoldRequest { wait: Duration::ZERO, ..listener("four", false) }).await;
    assert!(account.now() - before < SECOND);
}

/// Holds each lock for as long as it may: comes again when it is revoked.
async fn listens(sidecar: Sidecar, function: String) {
    loop {
        let mut stream = sidecar.coordinator.hold(&listener(&function, true)).unwrap();
        let grant = granted(&mut stream).await;
        loop {
            match stream.next().await {
                Some(HoldEvent::Held(HeldEvent::Revoked { .. })) => release(&sidecar, &grant).await,
                Some(HoldEvent::Held(HeldEvent::Lost { reason: LossReason::Broken, .. }))
                | None => break,
                Some(HoldEvent::Released(_)) => break,
                Some(_) => {}
            }
        }
    }
}

/// How many of the locks each sidecar has, by the records.
async fn spread(sidecar: &Sidecar, locks: usize) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for number in 0..locks {
        let shown = sidecar.coordinator.get(&by_key(&format!("l{number}"))).await.unwrap();
        if shown.state == LockState::Held {
            *counts.entry(shown.record.sidecar.to_string()).or_insert(0) += 1;
        }
    }
    counts
}

#[tokio::test(start_paused = true)]
async fn s35_a_new_replica_gets_its_part_one_at_a_time() {
    let account = Account::new();
    let (first, second) = (named(&account, "a"), named(&account, "b"));
    for number in 0..6 {
        tokio::spawn(listens(first.clone(), format!("l{number}")));
    }
    pass(11 * MINUTE).await;
    assert_eq!(spread(&first, 6).await, BTreeMap::from([("a".to_owned(), 6)]));
    for number in 0..6 {
        tokio::spawn(listens(second.clone(), format!("l{number}")));
    }
    let mut moved = 0;
    second.counts();
    for minute in 0..10 {
        pass(MINUTE).await;
        let has = spread(&first, 6).await.get("b").copied().unwrap_or_default();
        assert!(has <= moved + 2, "at minute {minute} it has {has} after {moved}");
        moved = has;
    }
    let fair = BTreeMap::from([("a".to_owned(), 3), ("b".to_owned(), 3)]);
    assert_eq!(spread(&first, 6).await, fair);
    let counts = second.counts();
    assert!(counts.of(Operation::List) <= 3, "one in five minutes: {counts}");
    assert_eq!(counts.of(Operation::BreakLease), 3, "{counts}");
    pass(20 * MINUTE).await;
    assert_eq!(spread(&first, 6).await, fair, "it settles");
}
