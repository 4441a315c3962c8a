//! Every fault by itself: what the store did, and what the caller was told.

use uuid::Uuid;

use super::*;
use crate::lock::{Container, LeaseId, LockPath};
use crate::store::{Acquire, LeaseState, LeaseStoreExt as _, MemoryStore};
use crate::testing::{CountingStore, SimClock};

const ALWAYS: u16 = 1_000;
const MINUTE: Duration = Duration::from_secs(60);

type Faulty = FaultyStore<CountingStore<MemoryStore>>;

fn faulty(seed: u64, plan: FaultPlan) -> Faulty {
    let clock: Arc<dyn Clock> = Arc::new(SimClock::following_tokio());
    let store = CountingStore::new(MemoryStore::new(Arc::clone(&clock)));
    FaultyStore::new(Arc::new(store), clock, seed, plan)
}

fn path() -> LockPath {
    LockPath::from_parts(&Container::parse("locks").unwrap(), "host/f")
}

fn id(number: u128) -> LeaseId {
    LeaseId::from_uuid(Uuid::from_u128(number))
}

fn acquire(number: u128) -> Acquire {
    Acquire { lease_id: id(number), duration: MINUTE, if_match: None }
}

fn acquires(store: &Faulty) -> u64 {
    store.store().counts().of(Operation::Acquire)
}

fn is_unknown<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Unavailable { sent: true, .. }))
}

#[tokio::test(start_paused = true)]
async fn a_lost_request_does_nothing_and_its_outcome_is_unknown() {
    let store = faulty(1, FaultPlan { lose_request: ALWAYS, ..FaultPlan::default() });
    let answer = store.acquire(&path(), acquire(1)).await;
    assert!(is_unknown(&answer), "{answer:?}");
    assert_eq!((acquires(&store), store.injected(Fault::RequestLost)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn s6_a_lost_answer_leaves_a_lease_behind() {
    let store = faulty(1, FaultPlan { lose_answer: ALWAYS, ..FaultPlan::default() });
    let answer = store.acquire(&path(), acquire(1)).await;
    assert!(is_unknown(&answer), "{answer:?}");
    store.set_plan(FaultPlan::default());
    assert_eq!(store.read_record(&path()).await.unwrap().lease, LeaseState::Leased);
    assert!(store.acquire(&path(), acquire(1)).await.is_ok(), "the same id is idempotent");
    assert_eq!(store.injected(Fault::AnswerLost), 1);
}

#[tokio::test(start_paused = true)]
async fn s6_a_late_repetition_leaves_an_orphan_lease() {
    let plan = FaultPlan { repeat: ALWAYS, longest_delay: MINUTE, ..FaultPlan::default() };
    let store = faulty(1, plan);
    store.acquire(&path(), acquire(1)).await.unwrap();
    store.set_plan(FaultPlan::default());
    store.release(&path(), id(1), None).await.unwrap();
    tokio::time::sleep(MINUTE).await;
    assert_eq!(acquires(&store), 2);
    // What is left of the orphan depends on when the repetition came; it came after the release.
    let left = store.read_record(&path()).await.unwrap().lease;
    assert!(left != LeaseState::Available, "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn a_delayed_request_arrives_though_its_caller_has_gone() {
    let plan = FaultPlan { delay_request: ALWAYS, longest_delay: MINUTE, ..FaultPlan::default() };
    let store = faulty(1, plan);
    let cut = Duration::from_millis(1);
    let gone = tokio::time::timeout(cut, store.acquire(&path(), acquire(1))).await;
    assert!(gone.is_err() && acquires(&store) == 0);
    tokio::time::sleep(MINUTE).await;
    assert_eq!(acquires(&store), 1);
}

#[tokio::test(start_paused = true)]
async fn delayed_requests_are_reordered() {
    let plan = FaultPlan { delay_request: ALWAYS, longest_delay: MINUTE, ..FaultPlan::default() };
    let mut later_won = 0;
    for seed in 0..20 {
        let store = faulty(seed, plan.clone());
        let path = path();
        let (first, second) =
            tokio::join!(store.acquire(&path, acquire(1)), store.acquire(&path, acquire(2)));
        assert!(first.is_ok() != second.is_ok());
        later_won += u32::from(second.is_ok());
    }
    assert!((1..20).contains(&later_won), "{later_won} of 20");
}

#[tokio::test(start_paused = true)]
async fn a_delayed_answer_comes_after_the_deed() {
    let plan = FaultPlan { delay_answer: ALWAYS, longest_delay: MINUTE, ..FaultPlan::default() };
    let store = faulty(1, plan);
    let before = store.clock.now();
    store.acquire(&path(), acquire(1)).await.unwrap();
    let answered = store.clock.now();
    assert!(answered > before);
    store.set_plan(FaultPlan::default());
    tokio::time::sleep(MINUTE - (answered - before)).await;
    assert_eq!(store.read_record(&path()).await.unwrap().lease, LeaseState::Expired);
}

#[tokio::test(start_paused = true)]
async fn s8_refusals_are_told_at_once_and_nothing_is_done() {
    let store = faulty(1, FaultPlan { throttle: ALWAYS, ..FaultPlan::default() });
    let answer = store.acquire(&path(), acquire(1)).await;
    assert!(matches!(answer, Err(StoreError::Throttled { .. })), "{answer:?}");
    store.set_plan(FaultPlan { deny: ALWAYS, ..FaultPlan::default() });
    let answer = store.acquire(&path(), acquire(1)).await;
    assert!(matches!(answer, Err(StoreError::Denied { operation: "acquire", .. })), "{answer:?}");
    assert_eq!(acquires(&store), 0);
}

#[tokio::test(start_paused = true)]
async fn s18_a_store_that_is_down_comes_up_when_its_time_is_over() {
    let store = faulty(1, FaultPlan::default());
    store.go_down(MINUTE);
    let answer = store.acquire(&path(), acquire(1)).await;
    assert!(matches!(answer, Err(StoreError::Unavailable { sent: false, .. })), "{answer:?}");
    tokio::time::sleep(MINUTE).await;
    store.acquire(&path(), acquire(1)).await.unwrap();
    store.go_down(Duration::MAX);
    store.renew(&path(), id(1), None).await.unwrap_err();
    store.go_down(Duration::ZERO);
    store.renew(&path(), id(1), None).await.unwrap();
    assert_eq!(store.injected(Fault::Down), 2);
}

#[tokio::test(start_paused = true)]
async fn a_seed_repeats_its_faults() {
    let plan = FaultPlan {
        lose_request: 100,
        lose_answer: 100,
        repeat: 100,
        delay_request: 150,
        delay_answer: 150,
        throttle: 50,
        deny: 50,
        longest_delay: MINUTE,
        longest_silence: Duration::from_secs(5),
    };
    let story = async |seed| {
        let store = faulty(seed, plan.clone());
        let begin = store.clock.now();
        let mut told = Vec::new();
        for number in 0..100 {
            let answer = store.acquire(&path(), acquire(number % 3)).await;
            let kind = answer.map_or_else(|error| error.kind(), |_| "granted");
            told.push((kind, store.clock.now() - begin));
        }
        told
    };
    let first = story(7).await;
    assert_eq!(first, story(7).await);
    assert_ne!(first, story(8).await);
    for kind in ["granted", "contended", "unavailable", "throttled", "denied"] {
        assert!(first.iter().any(|(told, _)| *told == kind), "{kind} is missing");
    }
}
