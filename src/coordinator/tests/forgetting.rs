//! Locks that nobody uses are remembered up to a limit: what the others cost, and what outlives their being
//! forgotten.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::rig::{
    Account, LEASE, MINUTE, SECOND, Sidecar, counts, granted, next_but_renewals, pass, path,
    request, settle, waiting,
};
use crate::coordinator::{
    HeldEvent, HoldEvent, HoldRequest, LockEvent, LockEventKind, NoObserver, Observer,
};
use crate::store::{BreakNote, BreakPeriod, LeaseState, LeaseStoreExt as _, Operation};
use crate::time::{Clock as _, UnixMillis};

/// The shortest time that a sidecar stands back (S10).
const STAND_BACK: Duration = Duration::from_millis(400);
/// More than what it takes to settle.
const SETTLED: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
struct Forgetting {
    forgotten: AtomicU64,
    read: AtomicU64,
}

impl Forgetting {
    fn take(&self) -> (u64, u64) {
        (self.forgotten.swap(0, Ordering::Relaxed), self.read.swap(0, Ordering::Relaxed))
    }
}

impl Observer for Forgetting {
    fn observe(&self, event: &LockEvent<'_>) {
        match event.kind {
            LockEventKind::Forgotten => self.forgotten.fetch_add(1, Ordering::Relaxed),
            LockEventKind::ForgottenRead => self.read.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
    }
}

fn remembering(account: &Account, locks: usize, observer: Arc<dyn Observer>) -> Sidecar {
    account.sidecar_with(observer, 1, |settings| settings.remembered_locks = locks)
}

/// Acquires and releases the lock; the requests that it took.
async fn cycle(sidecar: &Sidecar, function: &str) -> u64 {
    sidecar.counts();
    hold_for(sidecar, function, Duration::ZERO).await;
    sidecar.counts().total()
}

async fn hold_for(sidecar: &Sidecar, function: &str, span: Duration) {
    let grant = sidecar.acquire(waiting(function, MINUTE)).await;
    pass(span).await;
    sidecar.release(&grant).await;
    settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_forgotten_takes_one_request_more_and_both_are_counted() {
    let counted = Arc::new(Forgetting::default());
    let sidecar = remembering(&Account::new(), 2, Arc::clone(&counted) as _);
    for function in ["a", "b", "c"] {
        cycle(&sidecar, function).await;
    }
    assert_eq!(counted.take(), (1, 0), "the third took the place of the first");
    assert_eq!(sidecar.coordinator.gauges().remembered, 2);
    assert_eq!(cycle(&sidecar, "c").await, 3, "it is remembered");
    assert_eq!(counted.take(), (0, 0));
    sidecar.counts();
    let grant = sidecar.acquire(request("a")).await;
    let requests =
        [(Operation::Acquire, 1), (Operation::ReadRecord, 1), (Operation::WriteRecord, 1)];
    assert_eq!(sidecar.counts(), counts(requests), "it is read again");
    sidecar.release(&grant).await;
    settle().await;
    assert_eq!(counted.take(), (1, 1));
    assert_eq!(cycle(&sidecar, "a").await, 3, "it is remembered again");
    cycle(&sidecar, "never used before").await;
    assert_eq!(counted.take(), (1, 0), "a new lock was never forgotten");
}

#[tokio::test(start_paused = true)]
async fn the_least_recently_used_lock_is_forgotten_first() {
    let sidecar = remembering(&Account::new(), 2, Arc::new(NoObserver));
    for function in ["a", "b", "a", "c"] {
        cycle(&sidecar, function).await;
    }
    assert_eq!(cycle(&sidecar, "a").await, 3, "it was used again");
    assert_eq!(cycle(&sidecar, "b").await, 4, "it was used before the others");
}

#[tokio::test(start_paused = true)]
async fn locks_are_not_forgotten_while_somebody_uses_them() {
    let sidecar = remembering(&Account::new(), 0, Arc::new(NoObserver));
    let (mut stream, _) = sidecar.hold(&request("held")).await;
    for function in ["a", "b", "a"] {
        cycle(&sidecar, function).await;
    }
    pass(LEASE).await;
    assert!(matches!(stream.next().await, Some(HoldEvent::Held(HeldEvent::Renewed(_)))));
    assert_eq!(sidecar.coordinator.gauges().remembered, 0);
    drop(stream);
    settle().await;
    sidecar.assert_idle();
}

#[tokio::test(start_paused = true)]
async fn s10_a_sidecar_stands_back_from_a_lock_that_it_has_forgotten() {
    // It forgets the lock for another while it stands back, or whenever nobody holds it.
    for remembered in [1, 0] {
        let account = Account::new();
        let sidecar = remembering(&account, remembered, Arc::new(NoObserver));
        hold_for(&sidecar, "nightly", 3 * SECOND).await;
        let since = account.now();
        hold_for(&sidecar, "nightly", 3 * SECOND).await;
        assert!(account.now() - since < 3 * SECOND + STAND_BACK, "once is no loop");
        let left = account.now();
        cycle(&sidecar, "other").await;
        let grant = sidecar.acquire(waiting("nightly", MINUTE)).await;
        let away = account.now() - left;
        assert!(away >= STAND_BACK - SETTLED, "{away:?} with {remembered} remembered");
        sidecar.release(&grant).await;
    }
}

#[tokio::test(start_paused = true)]
async fn s11_the_rest_of_a_forgotten_lock_is_read_again() {
    let account = Account::new();
    let sidecar = remembering(&account, 0, Arc::new(NoObserver));
    let min_hold = 20 * SECOND;
    let grant = sidecar.acquire(HoldRequest { min_hold, ..request("nightly") }).await;
    let since = account.now();
    let resting = sidecar.coordinator.release(grant.lease_id, Some(grant.generation)).await;
    resting.unwrap();
    cycle(&sidecar, "other").await;
    sidecar.busy(request("nightly")).await;
    let again = sidecar.acquire(waiting("nightly", MINUTE)).await;
    assert!(account.now() - since >= min_hold - SECOND);
    assert!(again.token > grant.token);
}

#[tokio::test(start_paused = true)]
async fn s5_tokens_of_a_forgotten_lock_grow_beyond_its_hand_offs() {
    let sidecar = remembering(&Account::new(), 0, Arc::new(NoObserver));
    let (_stream, first) = sidecar.hold(&request("nightly")).await;
    let mut second = sidecar.coordinator.hold(&waiting("nightly", MINUTE)).unwrap();
    settle().await;
    sidecar.release(&first).await;
    let handed = granted(&mut second).await;
    assert!(handed.token > first.token);
    sidecar.release(&handed).await;
    settle().await;
    sidecar.assert_idle();
    let again = sidecar.acquire(request("nightly")).await;
    assert!(again.token > handed.token);
}

/// Panics once at a renewal.
#[derive(Debug, Default)]
struct Faulty(AtomicBool);

impl Observer for Faulty {
    fn observe(&self, event: &LockEvent<'_>) {
        let renewal = matches!(event.kind, LockEventKind::Renewal { .. });
        assert!(!renewal || self.0.swap(true, Ordering::Relaxed), "a fault for the test");
    }
}

#[tokio::test(start_paused = true)]
async fn s13_nobody_gets_a_forgotten_lock_before_its_holder_cannot_believe_in_it() {
    let account = Account::new();
    let sidecar = remembering(&account, 0, Arc::new(Faulty::default()));
    let (mut failing, grant) = sidecar.hold(&request("nightly")).await;
    let believed = account.now() + grant.validity.valid_for;
    assert!(matches!(
        next_but_renewals(&mut failing).await,
        HoldEvent::Held(HeldEvent::Lost { .. })
    ));
    // The store would let somebody in: what the sidecar knows of its holder is all that does not.
    let note = BreakNote {
        period: BreakPeriod::Now,
        reason: String::new(),
        by: String::new(),
        token: None,
        at: UnixMillis(0),
        for_priority: None,
    };
    let seen = account.store.read_record(&path("nightly")).await.unwrap().etag;
    account.store.break_lease(&path("nightly"), note, seen).await.unwrap();
    assert_ne!(account.lease("nightly").await, LeaseState::Leased);
    cycle(&sidecar, "other").await;
    let again = sidecar.acquire(waiting("nightly", 2 * MINUTE)).await;
    assert!(account.now() >= believed, "{:?} too early", believed - account.now());
    assert!(again.token > grant.token);
}

#[tokio::test(start_paused = true)]
async fn s11_a_wall_clock_that_goes_back_makes_no_more_of_the_rest_of_a_forgotten_lock() {
    for remembered in [1_000, 1, 0] {
        let account = Account::new();
        let (gone, min_hold) = (account.sidecar(), 5 * MINUTE);
        let grant = gone.acquire(HoldRequest { min_hold, ..request("nightly") }).await;
        gone.release(&grant).await;
        gone.faults().go_down(Duration::MAX);
        pass(LEASE).await;
        account.clock.set_wall(UnixMillis(account.clock.wall().0 - 3_600_000));
        let sidecar = remembering(&account, remembered, Arc::new(NoObserver));
        let first_seen = account.now();
        for _ in 0..20 {
            sidecar.busy(request("nightly")).await;
            cycle(&sidecar, "other").await;
            pass(10 * SECOND).await;
        }
        sidecar.acquire(waiting("nightly", 10 * MINUTE)).await;
        let rested = account.now() - first_seen;
        assert!(rested <= min_hold + SECOND, "{rested:?} with {remembered} remembered");
    }
}
