//! What goes wrong around a priority: the holder changes while it is looked at, answers are lost, callers
//! come and go (S33).

use std::sync::Arc;
use std::time::Duration;

use super::rig::{
    Account, LEASE, MINUTE, SECOND, Sidecar, granted, next, pass, path, request, settle, waiting,
};
use super::sharing::{listener, of, release, revoked};
use crate::coordinator::{
    Grant, HeldEvent, HoldEvent, HoldRequest, HoldStream, NoObserver, PriorityStatus,
    WAIT_WITHOUT_END,
};
use crate::lock::{FencingToken, LeaseId};
use crate::record::{Priority, Record, Reserved, Sharing};
use crate::store::{Acquire, LeaseState, LeaseStoreExt as _, Operation, Write};
use crate::testing::FaultPlan;
use crate::time::UnixMillis;

/// A sidecar that polls at least once a second, and to which the store is 10 ms away.
fn quick(account: &Account) -> Sidecar {
    let sidecar = account.sidecar_with(Arc::new(NoObserver), 1, |settings| {
        settings.hold.poll_cap = SECOND;
    });
    sidecar.delay_everything();
    sidecar
}

/// A holder that yields, and a caller of greater priority elsewhere that has just waited for D.
async fn ripe(account: &Account) -> ((Sidecar, HoldStream, Grant), (Sidecar, HoldStream)) {
    let (old, new) = (account.sidecar(), quick(account));
    let (holder, grant) = old.hold(&of(1, request("nightly"))).await;
    let waits = new.coordinator.hold(&of(2, waiting("nightly", WAIT_WITHOUT_END))).unwrap();
    pass(LEASE).await;
    assert_eq!(new.counts().of(Operation::BreakLease), 0, "not before D");
    ((old, holder, grant), (new, waits))
}

/// Everything that a stream says within `span`.
async fn heard(stream: &mut HoldStream, span: Duration) -> Vec<HoldEvent> {
    let mut heard = Vec::new();
    let _ = tokio::time::timeout(span, async {
        while let Some(event) = stream.next().await {
            heard.push(event);
        }
    })
    .await;
    heard
}

#[tokio::test(start_paused = true)]
async fn s33_a_lock_that_has_become_free_is_acquired_and_not_looked_at_again_and_again() {
    let account = Account::new();
    let ((old, _holder, grant), (new, mut waits)) = ripe(&account).await;
    release(&old, &grant).await;
    let released = account.now();
    granted(&mut waits).await;
    assert!(account.now() - released < 2 * SECOND);
    let counts = new.counts();
    assert!(counts.of(Operation::ReadBreakNote) <= 3, "{counts}");
    assert_eq!(counts.of(Operation::BreakLease), 0, "{counts}");
}

#[tokio::test(start_paused = true)]
async fn s33_a_lock_that_was_deleted_is_acquired_and_not_looked_at_again_and_again() {
    let account = Account::new();
    let ((old, _holder, grant), (new, mut waits)) = ripe(&account).await;
    release(&old, &grant).await;
    let etag = account.store.read_record(&path("nightly")).await.unwrap().etag;
    account.store.delete(&path("nightly"), etag).await.unwrap();
    granted(&mut waits).await;
    let counts = new.counts();
    assert!(counts.of(Operation::ReadBreakNote) <= 3, "{counts}");
}

#[tokio::test(start_paused = true)]
async fn s33_a_lock_that_is_deleted_under_a_holder_here_is_looked_at_now_and_then() {
    let account = Account::new();
    let here = account.sidecar();
    here.delay_everything();
    let (_holder, _) = here.hold(&of(1, request("nightly"))).await;
    let _waits = here.coordinator.hold(&of(2, waiting("nightly", WAIT_WITHOUT_END))).unwrap();
    pass(LEASE - SECOND).await;
    let name = path("nightly");
    let note = crate::store::BreakNote {
        period: crate::store::BreakPeriod::Now,
        reason: String::new(),
        by: String::new(),
        token: None,
        at: UnixMillis(0),
        for_priority: None,
    };
    let etag = account.store.read_record(&name).await.unwrap().etag;
    account.store.break_lease(&name, note, etag.clone()).await.unwrap();
    account.store.delete(&name, etag).await.unwrap();
    here.counts();
    pass(LEASE / 2).await;
    let counts = here.counts();
    assert!(counts.of(Operation::ReadBreakNote) <= 30, "{counts}");
}

#[tokio::test(start_paused = true)]
async fn s6_a_lease_of_ones_own_whose_answer_was_lost_is_not_broken() {
    let account = Account::new();
    let (old, new) = (account.sidecar(), quick(&account));
    let (_holder, grant) = old.hold(&of(1, request("nightly"))).await;
    let mut waits = new.coordinator.hold(&of(2, waiting("nightly", WAIT_WITHOUT_END))).unwrap();
    pass(LEASE - 8 * SECOND).await;
    release(&old, &grant).await;
    new.faults().set_plan(FaultPlan { lose_answer: 1_000, ..FaultPlan::default() });
    pass(8 * SECOND).await;
    assert_eq!(account.lease("nightly").await, LeaseState::Leased, "it has it, and does not know");
    new.counts();
    new.delay_everything();
    let before = account.now();
    granted(&mut waits).await;
    assert!(account.now() - before < 10 * SECOND, "{:?}", account.now() - before);
    assert_eq!(new.counts().of(Operation::BreakLease), 0);
}

#[tokio::test(start_paused = true)]
async fn s33_a_break_that_meets_a_lease_of_somebody_else_harms_nobody_that_was_granted_it() {
    let account = Account::new();
    let ((old, _holder, grant), (new, mut waits)) = ripe(&account).await;
    // Another has acquired the lock, and its record is still that of the holder before.
    let other = account.sidecar();
    let write = other.faults().hold_before(Operation::WriteRecord);
    release(&old, &grant).await;
    let mut held = other.coordinator.hold(&waiting("nightly", 10 * MINUTE)).unwrap();
    settle().await;
    assert_eq!(account.lease("nightly").await, LeaseState::Leased);
    pass(3 * SECOND).await;
    let broken = new.counts().of(Operation::BreakLease);
    write.notify_waiters();
    let begun = account.now();
    let first = tokio::select! {
        grant = granted(&mut held) => Some(grant),
        _ = granted(&mut waits) => None,
    };
    assert!(account.now() - begun < 90 * SECOND, "the lock is free in the end, at the latest then");
    assert!(broken > 0 || first.is_some());
    if first.is_some() {
        let heard = heard(&mut held, 5 * MINUTE).await;
        let ok = heard.iter().all(|event| matches!(event, HoldEvent::Held(HeldEvent::Renewed(_))));
        assert!(ok, "it does not yield, and its lock was broken: {heard:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn s33_a_lock_that_was_broken_for_a_caller_here_does_not_wait_for_its_turn() {
    let account = Account::new();
    let (old, new) = (account.sidecar(), quick(&account));
    let (mut holder, grant) = old.hold(&of(1, request("nightly"))).await;
    let wanted = waiting("nightly", WAIT_WITHOUT_END);
    let sharing =
        Sharing { priority: Priority::new(2).unwrap(), ..listener("nightly", false).sharing };
    let _waits = new.coordinator.hold(&HoldRequest { sharing, ..wanted }).unwrap();
    revoked(&mut holder).await;
    // Another lock of the share is being acquired here, and the store is slow.
    let _write = new.faults().hold_before(Operation::WriteRecord);
    let _other = new.coordinator.hold(&listener("other", false)).unwrap();
    pass(SECOND).await;
    assert_eq!(account.lease("other").await, LeaseState::Leased);
    release(&old, &grant).await;
    pass(3 * SECOND).await;
    assert_eq!(account.lease("nightly").await, LeaseState::Leased, "its reservation ends soon");
}

#[tokio::test(start_paused = true)]
async fn s33_who_reads_that_a_lock_is_reserved_does_not_acquire_it_first() {
    let account = Account::new();
    let third = quick(&account);
    let (_held, _) = third.hold(&listener("other", false)).await;
    let ((old, mut holder, grant), (new, mut waits)) = ripe(&account).await;
    revoked(&mut holder).await;
    let _low = third.coordinator.hold(&listener("nightly", false)).unwrap();
    pass(SECOND).await;
    release(&old, &grant).await;
    third.counts();
    // It is kept for one that is slow to come.
    new.faults().go_down(4 * SECOND);
    pass(4 * SECOND).await;
    let counts = third.counts();
    assert!(counts.of(Operation::ReadRecord) > 0, "{counts}");
    assert_eq!(counts.of(Operation::Acquire), 0, "{counts}");
    assert_eq!(counts.of(Operation::Release), 0, "{counts}");
    granted(&mut waits).await;
}

#[tokio::test(start_paused = true)]
async fn s33_a_greater_priority_that_comes_while_a_lease_goes_back_does_not_rest() {
    let account = Account::new();
    let ((old, mut holder, grant), (_new, waits)) = ripe(&account).await;
    revoked(&mut holder).await;
    settle().await;
    drop(waits);
    release(&old, &grant).await;
    let third = account.sidecar();
    let release = third.faults().hold_before(Operation::Release);
    let _low = third.coordinator.hold(&of(1, waiting("nightly", 5 * MINUTE))).unwrap();
    settle().await;
    let mut high = third.coordinator.hold(&of(2, waiting("nightly", 5 * MINUTE))).unwrap();
    settle().await;
    release.notify_waiters();
    let begun = account.now();
    granted(&mut high).await;
    assert!(account.now() - begun < SECOND, "{:?}", account.now() - begun);
}

#[tokio::test(start_paused = true)]
async fn s12_one_try_of_a_smaller_priority_does_not_wait_for_the_end_of_a_reservation() {
    let account = Account::new();
    let ((old, mut holder, grant), (_new, waits)) = ripe(&account).await;
    revoked(&mut holder).await;
    settle().await;
    drop(waits);
    release(&old, &grant).await;
    let third = account.sidecar();
    let _low = third.coordinator.hold(&of(1, waiting("nightly", 5 * MINUTE))).unwrap();
    settle().await;
    let begun = account.now();
    let mut waits = third.coordinator.hold(&of(1, waiting("nightly", 5 * MINUTE))).unwrap();
    assert!(matches!(next(&mut waits).await, HoldEvent::Waiting { .. }));
    assert!(account.now() - begun < SECOND, "it is told that it waits");
    let busy = third.busy(of(1, request("nightly"))).await;
    assert_eq!(busy.priority, Some(PriorityStatus::Reserved));
    assert!(account.now() - begun < SECOND, "{:?}", account.now() - begun);
    // One that need not leave it has it.
    let begun = account.now();
    third.acquire(of(2, request("nightly"))).await;
    assert!(account.now() - begun < SECOND);
}

#[tokio::test(start_paused = true)]
async fn s33_a_lock_is_reserved_also_after_a_rest_that_is_over() {
    let account = Account::new();
    let (old, new) = (account.sidecar(), account.sidecar());
    let rests = HoldRequest { min_hold: SECOND, ..of(1, request("nightly")) };
    let (mut holder, grant) = old.hold(&rests).await;
    let waits = new.coordinator.hold(&of(2, waiting("nightly", 5 * MINUTE))).unwrap();
    revoked(&mut holder).await;
    settle().await;
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
async fn s33_a_store_whose_clock_was_set_back_promises_neither_a_rest_nor_a_reservation_anew() {
    let account = Account::new();
    let (old, new) = (account.sidecar(), account.sidecar());
    let rests = HoldRequest { min_hold: SECOND, ..of(1, request("nightly")) };
    let (mut holder, grant) = old.hold(&rests).await;
    let waits = new.coordinator.hold(&of(2, waiting("nightly", 5 * MINUTE))).unwrap();
    revoked(&mut holder).await;
    settle().await;
    drop(waits);
    let released = account.now();
    release(&old, &grant).await;
    account.clock.set_wall(UnixMillis(1_799_990_000_000));
    let third = account.sidecar();
    let mut low = third.coordinator.hold(&of(1, waiting("nightly", 30 * MINUTE))).unwrap();
    granted(&mut low).await;
    let after = account.now() - released;
    assert!(after <= 20 * SECOND, "1 s of rest, and the poll cap and 5 s: {after:?}");
}

#[tokio::test(start_paused = true)]
async fn s33_a_reservation_says_nothing_of_who_has_the_lock_since() {
    let account = Account::new();
    let ((old, mut holder, grant), (new, mut waits)) = ripe(&account).await;
    revoked(&mut holder).await;
    settle().await;
    // A low one comes first, and finds it reserved.
    let polls = new.faults().hold_before(Operation::Acquire);
    pass(SECOND).await;
    release(&old, &grant).await;
    let third = account.sidecar();
    let _low = third.coordinator.hold(&of(1, waiting("nightly", 5 * MINUTE))).unwrap();
    settle().await;
    let busy = third.busy(of(1, request("nightly"))).await;
    assert_eq!(busy.priority, Some(PriorityStatus::Reserved));
    polls.notify_waiters();
    granted(&mut waits).await;
    let busy = third.busy(of(3, request("nightly"))).await;
    assert_eq!(busy.priority, Some(PriorityStatus::WaitedTooShort));
    assert_eq!(busy.held_permits, 1, "it is held: {busy:?}");
}

#[tokio::test(start_paused = true)]
async fn s33_a_reservation_of_any_length_is_cut() {
    let account = Account::new();
    let name = path("nightly");
    let lease_id = LeaseId::from_uuid(uuid::Uuid::from_u128(7));
    let acquire = Acquire { lease_id, duration: LEASE, if_match: None };
    account.store.acquire(&name, acquire).await.unwrap();
    let reserved = Reserved {
        priority: Priority::MAX,
        until: UnixMillis(9_000_000_000_000),
        for_millis: u64::MAX,
    };
    let record = Record {
        token: FencingToken::from_u64(4_096),
        lease: Some(lease_id.fingerprint()),
        reserved: Some(Box::new(reserved)),
        ..Record::default()
    };
    let fields = record.into_fields(crate::record::Fields::new());
    account.store.write_record(&name, Write { lease_id, if_match: None, fields }).await.unwrap();
    account.store.release(&name, lease_id, None).await.unwrap();
    let here = account.sidecar();
    let mut waits = here.coordinator.hold(&of(1, waiting("nightly", WAIT_WITHOUT_END))).unwrap();
    let begun = account.now();
    granted(&mut waits).await;
    assert!(account.now() - begun < 3 * MINUTE, "{:?}", account.now() - begun);
}

#[tokio::test(start_paused = true)]
async fn s33_a_call_that_is_repeated_has_waited_since_it_was_first_made() {
    let account = Account::new();
    let (old, new) = (account.sidecar(), account.sidecar());
    let (mut holder, _) = old.hold(&of(1, request("nightly"))).await;
    let begun = account.now();
    for _ in 0..3 {
        // What became of the one before is not known here yet.
        let (new, request_id) = (new.clone(), "r".to_owned());
        let call = HoldRequest { request_id, ..of(2, waiting("nightly", 10 * MINUTE)) };
        tokio::spawn(async move { new.ask(call).await });
        pass(40 * SECOND).await;
    }
    revoked(&mut holder).await;
    assert!(account.now() - begun <= 2 * MINUTE, "{:?}", account.now() - begun);
}

#[tokio::test(start_paused = true)]
async fn s33_who_has_waited_for_long_enough_overrules_behind_one_that_has_not() {
    let account = Account::new();
    let (old, new) = (account.sidecar(), account.sidecar());
    let (mut holder, _) = old.hold(&of(1, request("nightly"))).await;
    let begun = account.now();
    let _waits = new.coordinator.hold(&of(2, waiting("nightly", WAIT_WITHOUT_END))).unwrap();
    let impatient = new.clone();
    let others = tokio::spawn(async move {
        loop {
            impatient.busy(of(3, waiting("nightly", LEASE / 2))).await;
        }
    });
    let told = tokio::time::timeout(4 * MINUTE, revoked(&mut holder)).await;
    others.abort();
    let Ok(priority) = told else { panic!("it is never told") };
    assert!(account.now() - begun <= 2 * MINUTE);
    assert!(priority > Priority::new(1).unwrap());
}

#[tokio::test(start_paused = true)]
async fn s33_who_has_the_lock_since_was_not_told_yet() {
    let account = Account::new();
    let ((old, mut holder, grant), (new, mut waits)) = ripe(&account).await;
    revoked(&mut holder).await;
    settle().await;
    release(&old, &grant).await;
    // Somebody else waits here too, and has it next.
    let mut low = new.coordinator.hold(&of(1, waiting("nightly", WAIT_WITHOUT_END))).unwrap();
    let taken = granted(&mut waits).await;
    release(&new, &taken).await;
    granted(&mut low).await;
    let busy = new.busy(of(2, waiting("nightly", 61 * SECOND))).await;
    assert_eq!(busy.priority, Some(PriorityStatus::BrokenRecently));
}
