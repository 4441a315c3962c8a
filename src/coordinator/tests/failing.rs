//! A fault inside one lock's task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use tokio::sync::Semaphore;

use super::breaking::breaking_late;
use super::rig::{
    Account, LEASE, MINUTE, SECOND, Sidecar, granted, next, next_but_renewals, pass, path, request,
    settings, settle, waiting,
};
use super::sharing::listener;
use crate::coordinator::{
    BreakPeriod, CallError, Coordinator, HeldEvent, HoldEvent, HoldRequest, LockEvent,
    LockEventKind, LossReason, NoObserver, Observer, Outcome, Released, StoreFailureKind,
};
use crate::lock::{LockPath, Permits};
use crate::store::{
    Features, LeaseState, LeaseStore, LeaseStoreExt as _, MemoryStore, Operation, StoreAnswer,
    StoreError, StoreRequest,
};

/// Panics once at a renewal, when it was told to.
#[derive(Debug, Default)]
struct Faulty(AtomicBool);

impl Faulty {
    /// A sidecar that it watches.
    fn watching(account: &Account) -> (Sidecar, Arc<Self>) {
        let faulty = Arc::new(Self::default());
        (account.sidecar_with(Arc::clone(&faulty) as _, 1, |_| {}), faulty)
    }
}

impl Observer for Faulty {
    fn observe(&self, event: &LockEvent<'_>) {
        let renewal = matches!(event.kind, LockEventKind::Renewal { .. });
        assert!(!(renewal && self.0.swap(false, Ordering::Relaxed)), "a fault for the test");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_task_of_one_lock_harms_no_other() {
    let account = Account::new();
    let (sidecar, faulty) = Faulty::watching(&account);
    let (mut failing, first) = sidecar.hold(&request("failing")).await;
    let believed = account.now() + first.validity.valid_for;
    let mut waits = sidecar.coordinator.hold(&waiting("failing", 10 * MINUTE)).unwrap();
    assert!(matches!(next(&mut waits).await, HoldEvent::Waiting { .. }));
    pass(LEASE / 6).await;
    let (mut sound, _) = sidecar.hold(&request("sound")).await;
    faulty.0.store(true, Ordering::Relaxed);
    let HoldEvent::Held(HeldEvent::Lost { reason, detail, .. }) = next(&mut failing).await else {
        panic!("the holder is not told")
    };
    assert_eq!(reason, LossReason::Expired);
    assert!(detail.contains("internal error"), "{detail}");
    let HoldEvent::Failed(CallError::StoreFailure(store_failure)) = next(&mut waits).await else {
        panic!("the waiter is not told")
    };
    assert_eq!(store_failure.kind, StoreFailureKind::Unavailable);
    assert!(!faulty.0.load(Ordering::Relaxed), "the fault has come");
    let gauges = sidecar.coordinator.gauges();
    assert_eq!((gauges.holds, gauges.waiters, gauges.paths), (1, 0, 1));
    let late = sidecar.coordinator.release(first.lease_id, Some(first.generation)).await.unwrap();
    assert_eq!(late, Released::AlreadyLost { reason });
    // S13, S5: it is granted again when nobody can believe in it any more, with a greater token.
    let mut again = sidecar.coordinator.hold(&waiting("failing", 2 * MINUTE)).unwrap();
    let second = granted(&mut again).await;
    assert!(account.now() >= believed);
    assert!(second.token > first.token);
    for stream in [&mut sound, &mut again] {
        assert!(matches!(next(stream).await, HoldEvent::Held(HeldEvent::Renewed(_))));
    }
    drop((sound, again, failing, waits));
    settle().await;
    sidecar.assert_idle();
}

/// The break may arrive once the lock is another's: its lease is proved, once its token is written, before it
/// is granted.
#[tokio::test(start_paused = true)]
async fn s17_a_break_that_was_under_way_when_a_task_panicked_is_remembered() {
    let account = Account::new();
    let (sidecar, faulty) = Faulty::watching(&account);
    let (mut failing, first) = sidecar.hold(&request("nightly")).await;
    let (_under_way, _answer) = breaking_late(&sidecar, Some(first.token), BreakPeriod::Now);
    settle().await;
    faulty.0.store(true, Ordering::Relaxed);
    assert!(matches!(
        next_but_renewals(&mut failing).await,
        HoldEvent::Held(HeldEvent::Lost { .. })
    ));
    sidecar.counts();
    let mut second = sidecar.coordinator.hold(&waiting("nightly", 2 * MINUTE)).unwrap();
    granted(&mut second).await;
    assert_eq!(sidecar.counts().of(Operation::Renew), 1, "it is proved");
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_on_their_way_to_a_task_that_panics_are_answered() {
    let account = Account::new();
    let (sidecar, faulty) = Faulty::watching(&account);
    let (mut failing, grant) = sidecar.hold(&request("failing")).await;
    // The release waits for the store while the fault comes.
    sidecar.faults().go_down(std::time::Duration::MAX);
    faulty.0.store(true, Ordering::Relaxed);
    let caller = sidecar.clone();
    let lost = next_but_renewals(&mut failing).await;
    assert!(matches!(lost, HoldEvent::Held(HeldEvent::Lost { .. })), "{lost:?}");
    let released =
        caller.coordinator.release(grant.lease_id, Some(grant.generation)).await.unwrap();
    assert_eq!(released, Released::AlreadyLost { reason: LossReason::Expired });
    let refused = sidecar
        .coordinator
        .extend(grant.lease_id, Some(grant.generation), MINUTE)
        .await
        .unwrap_err();
    assert!(matches!(refused, CallError::HoldLost { .. }), "{refused}");
    settle().await;
    sidecar.assert_idle();
}

/// A store with a fault: its renewals panic, and its releases wait until they may go on.
#[derive(Debug)]
struct Fragile {
    store: Arc<MemoryStore>,
    releases: Semaphore,
}

#[async_trait]
impl LeaseStore for Fragile {
    async fn call(&self, request: StoreRequest) -> Result<StoreAnswer, StoreError> {
        assert!(request.operation() != Operation::Renew, "a fault for the test");
        let _goes_on = match request.operation() == Operation::Release {
            true => Some(self.releases.acquire().await.unwrap()),
            false => None,
        };
        self.store.call(request).await
    }

    fn features(&self) -> Features {
        self.store.features()
    }
}

/// A sidecar on a store with a fault.
fn on_fragile(account: &Account) -> (Coordinator, Arc<Fragile>) {
    let store = Arc::clone(&account.store);
    let store = Arc::new(Fragile { store, releases: Semaphore::new(0) });
    let clock = Arc::clone(&account.clock) as _;
    let sidecar =
        Coordinator::new(Arc::clone(&store) as _, clock, Arc::new(NoObserver), settings());
    (sidecar, store)
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_request_to_the_store_ends_the_holds_of_its_lock() {
    let account = Account::new();
    let (sidecar, _) = on_fragile(&account);
    let mut stream = sidecar.hold(&request("failing")).unwrap();
    granted(&mut stream).await;
    let before = account.now();
    let lost = next(&mut stream).await;
    assert!(
        matches!(lost, HoldEvent::Held(HeldEvent::Lost { reason: LossReason::Expired, .. })),
        "{lost:?}"
    );
    assert!(
        account.now() < before + LEASE / 2,
        "told when it came, and not at the end of the lease"
    );
    settle().await;
    let gauges = sidecar.gauges();
    assert_eq!((gauges.holds, gauges.waiters, gauges.paths), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn s6_a_request_that_is_under_way_outlives_the_task_that_panics() {
    let account = Account::new();
    let (sidecar, store) = on_fragile(&account);
    let two = HoldRequest { permits: Permits::new(2).unwrap(), ..request("failing") };
    let mut stream = sidecar.hold(&two).unwrap();
    let failing = granted(&mut stream).await;
    pass(SECOND).await;
    let Outcome::Granted(released) = sidecar.acquire(two).await.unwrap() else { panic!() };
    // The first renewal, 18 to 22 s after the grant, comes while the store has not answered the release, and
    // before that is cut off after 5 s.
    pass(LEASE * 11 / 40).await;
    let caller = sidecar.clone();
    let (lease_id, generation) = (released.lease_id, Some(released.generation));
    tokio::spawn(async move { caller.release(lease_id, generation).await });
    let lost = next(&mut stream).await;
    assert!(matches!(lost, HoldEvent::Held(HeldEvent::Lost { .. })), "{lost:?}");
    let lease = async |path: &LockPath| account.store.read_record(path).await.unwrap().lease;
    assert_eq!(lease(&released.path).await, LeaseState::Leased);
    store.releases.add_permits(1);
    settle().await;
    assert_eq!(lease(&released.path).await, LeaseState::Available);
    assert_eq!(lease(&failing.path).await, LeaseState::Leased, "it runs out");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_hangs_delays_no_command() {
    let account = Account::new();
    let (sidecar, _) = on_fragile(&account);
    let Outcome::Granted(grant) = sidecar.acquire(request("slow")).await.unwrap() else { panic!() };
    let caller = sidecar.clone();
    let (lease_id, generation) = (grant.lease_id, Some(grant.generation));
    tokio::spawn(async move { caller.release(lease_id, generation).await });
    settle().await;
    assert_eq!(account.lease("slow").await, LeaseState::Leased, "the store has not answered");
    let before = account.now();
    let extended = sidecar.extend(lease_id, generation, MINUTE).await;
    assert!(matches!(extended, Err(CallError::HoldReleased)), "{extended:?}");
    assert_eq!(account.now(), before, "answered at once");
    assert_eq!(grant.path, path("slow"));
}

#[tokio::test(start_paused = true)]
async fn s34_a_lock_whose_task_panicked_counts_for_its_share_no_more() {
    let account = Account::new();
    let (sidecar, faulty) = Faulty::watching(&account);
    let (mut failing, _) = sidecar.hold(&listener("failing", false)).await;
    pass(LEASE / 6).await;
    let (_sound, _) = sidecar.hold(&listener("sound", false)).await;
    faulty.0.store(true, Ordering::Relaxed);
    while !matches!(next(&mut failing).await, HoldEvent::Held(HeldEvent::Lost { .. })) {}
    settle().await;
    assert_eq!(sidecar.coordinator.gauges().share_locks, 1);
    // Who waits for others of the share has its turn.
    let mut waits = sidecar.coordinator.hold(&listener("another", false)).unwrap();
    let granted = tokio::time::timeout(MINUTE, granted(&mut waits)).await;
    assert!(granted.is_ok(), "nobody here acquires any other lock of the share");
}
