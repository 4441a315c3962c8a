//! Many locks in one watch: what it costs the store, and what a slow follower costs (WatchLocks).

use std::sync::Arc;
use std::time::Duration;

use super::rig::{Account, SECOND, Sidecar, counts, pass, path, request, settle};
use crate::coordinator::{
    BreakPeriod, BreakRequest, CallError, LockState, LocksEvent, LocksWatch, NoObserver, Under,
};
use crate::lock::{LeaseId, LockPath};
use crate::record::CheckpointValue;
use crate::store::{Acquire, LeaseStoreExt as _, Operation};
use crate::testing::FaultPlan;

fn follow(sidecar: &Sidecar) -> LocksWatch {
    sidecar.coordinator.watch_locks(&Under::OwnHostId, Box::new(|_| true)).unwrap()
}

/// A sidecar that may keep so many bytes for its followers.
fn of_little_memory(account: &Account, followed_bytes: usize) -> Sidecar {
    account.sidecar_with(Arc::new(NoObserver), 1, |settings| {
        settings.followed_bytes = followed_bytes;
    })
}

/// What the locks whose functions begin so are followed by.
fn follow_under(sidecar: &Sidecar, function: &str) -> LocksWatch {
    let path = path(function).to_string();
    let prefix = path.split_once("/~/").unwrap().0.to_owned();
    sidecar.coordinator.watch_locks(&Under::Prefix(prefix), Box::new(|_| true)).unwrap()
}

async fn taken(sidecar: &Sidecar, functions: impl IntoIterator<Item = String>) {
    for function in functions {
        let grant = sidecar.acquire(request(&function)).await;
        sidecar.release(&grant).await;
    }
}

async fn is_too_much(watch: &mut LocksWatch) -> bool {
    loop {
        match watch.next().await {
            Ok(LocksEvent::Listed { .. }) => return false,
            Ok(LocksEvent::Changed(_) | LocksEvent::Gone(_)) => {}
            Err(error) => {
                assert!(matches!(error, CallError::TooManyFollowed), "{error}");
                assert!(error.to_string().contains("limits.memory"));
                return true;
            }
        }
    }
}

/// Bytes that 20 locks take, and not 30.
const TWENTY: usize = 32 * 1024;

#[tokio::test(start_paused = true)]
async fn s38_followers_of_many_prefixes_have_one_budget_and_give_back_what_they_had() {
    let account = Account::new();
    let sidecar = of_little_memory(&account, TWENTY);
    let locks = |letter| (0..10).map(move |number| format!("{letter}-{number}"));
    taken(&sidecar, ["a", "b", "c"].into_iter().flat_map(locks)).await;
    let (mut first, mut second) = (follow_under(&sidecar, "a-"), follow_under(&sidecar, "b-"));
    assert!(!is_too_much(&mut first).await);
    assert!(!is_too_much(&mut second).await);
    assert!(is_too_much(&mut follow_under(&sidecar, "c-")).await);
    assert!(is_too_much(&mut follow(&sidecar)).await, "all of them");
    assert!(!is_too_much(&mut follow_under(&sidecar, "c-1")).await, "a narrower one");
    drop(first);
    pass(6 * SECOND).await;
    assert!(!is_too_much(&mut follow_under(&sidecar, "c-")).await);
    taken(&sidecar, ["b-1".to_owned()]).await;
    settle().await;
    assert!(matches!(second.next().await.unwrap(), LocksEvent::Changed(_)), "it goes on");
}

#[tokio::test(start_paused = true)]
async fn s38_a_prefix_that_grows_over_the_budget_ends_and_leaves_nothing() {
    let account = Account::new();
    let (sidecar, other) = (of_little_memory(&account, TWENTY), account.sidecar());
    let locks = |count| (0..count).map(|number| format!("a-{number}"));
    taken(&other, locks(10)).await;
    let (mut watch, mut unread) = (follow_under(&sidecar, "a-"), follow_under(&sidecar, "a-"));
    assert!(!is_too_much(&mut watch).await);
    assert!(!is_too_much(&mut unread).await);
    taken(&other, locks(40)).await;
    pass(6 * SECOND).await;
    assert!(is_too_much(&mut watch).await);
    // As by changes here, and though one of the followers has not read that it is over.
    let mut again = follow_under(&sidecar, "a-1");
    assert!(!is_too_much(&mut again).await);
    taken(&sidecar, (100..140).map(|number| format!("a-{number}"))).await;
    settle().await;
    assert!(is_too_much(&mut again).await);
    sidecar.acquire(request("b")).await;
    assert!(!is_too_much(&mut follow_under(&sidecar, "b")).await);
    assert!(is_too_much(&mut unread).await);
}

#[tokio::test(start_paused = true)]
async fn s38_what_followers_were_told_of_counts() {
    let account = Account::new();
    let sidecar = of_little_memory(&account, TWENTY);
    taken(&sidecar, (0..10).map(|number| format!("a-{number}"))).await;
    let mut watches = Vec::new();
    while watches.len() < 1_000 {
        let mut watch = follow_under(&sidecar, "a-");
        if is_too_much(&mut watch).await {
            break;
        }
        watches.push(watch);
    }
    assert!((10..1_000).contains(&watches.len()), "{}", watches.len());
    watches.pop();
    assert!(!is_too_much(&mut follow_under(&sidecar, "a-")).await);
}

#[tokio::test(start_paused = true)]
async fn locks_that_are_hidden_do_not_delay_those_that_are_not() {
    let account = Account::new();
    let sidecar = account.sidecar();
    taken(&sidecar, (0..300).map(|number| format!("job-{number:03}"))).await;
    let last = |lock: &crate::coordinator::LockRecord| lock.record.function == "job-299";
    let mut watch = sidecar.coordinator.watch_locks(&Under::OwnHostId, Box::new(last)).unwrap();
    assert_eq!(events(&mut watch).await, ["job-299 Available", "1 listed"]);
}

/// The events that are there now, as short texts.
async fn events(watch: &mut LocksWatch) -> Vec<String> {
    let mut events = Vec::new();
    while let Ok(event) = tokio::time::timeout(Duration::from_millis(1), watch.next()).await {
        events.push(match event.unwrap() {
            LocksEvent::Changed(lock) => format!("{} {:?}", lock.record.function, lock.state),
            LocksEvent::Gone(path) => format!("gone {path}"),
            LocksEvent::Listed { locks, .. } => format!("{locks} listed"),
        });
    }
    events
}

#[tokio::test(start_paused = true)]
async fn all_followers_of_the_same_locks_share_one_listing_each_poll_cap() {
    let account = Account::new();
    let (sidecar, other) = (account.sidecar(), account.sidecar());
    other.acquire(request("nightly")).await;
    let mut watches = [follow(&sidecar), follow(&sidecar), follow(&sidecar)];
    for watch in &mut watches {
        assert_eq!(events(watch).await, ["nightly Held", "1 listed"]);
    }
    assert_eq!(sidecar.counts(), counts([(Operation::List, 1)]));
    pass(20 * SECOND).await;
    assert_eq!(sidecar.counts(), counts([(Operation::List, 4)]));
    drop(watches);
    pass(60 * SECOND).await;
    assert_eq!(sidecar.counts().total(), 0, "nobody follows any more");
    let mut again = follow(&sidecar);
    assert_eq!(events(&mut again).await, ["nightly Held", "1 listed"]);
}

#[tokio::test(start_paused = true)]
async fn what_changes_here_shows_at_once_and_costs_nothing() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let weekly = sidecar.acquire(request("weekly")).await;
    sidecar.release(&weekly).await;
    let first = sidecar.acquire(request("nightly")).await;
    let mut watch = follow(&sidecar);
    assert_eq!(events(&mut watch).await, ["nightly Held", "weekly Available", "2 listed"]);
    sidecar.release(&first).await;
    settle().await;
    assert_eq!(events(&mut watch).await, ["nightly Available"]);
    sidecar.counts();
    let second = sidecar.acquire(request("nightly")).await;
    settle().await;
    assert_eq!(events(&mut watch).await, ["nightly Held"]);
    sidecar.acquire(request("weekly")).await;
    settle().await;
    assert_eq!(events(&mut watch).await, ["weekly Held"]);
    sidecar.release(&second).await;
    settle().await;
    assert_eq!(events(&mut watch).await, ["nightly Available"]);
    let asked = sidecar.counts();
    assert_eq!((asked.of(Operation::List), asked.of(Operation::ReadRecord)), (0, 0), "{asked}");
}

#[tokio::test(start_paused = true)]
async fn s17_a_break_here_shows_at_once_as_breaking() {
    let account = Account::new();
    let sidecar = account.sidecar();
    sidecar.acquire(request("nightly")).await;
    let mut watch = follow(&sidecar);
    events(&mut watch).await;
    let broken = BreakRequest {
        token: None,
        lock: super::rig::by_key("nightly"),
        period: BreakPeriod::RunOut,
        reason: "test".to_owned(),
        by: None,
        caller: "test".to_owned(),
    };
    sidecar.coordinator.break_lock(broken).await.unwrap();
    settle().await;
    assert_eq!(events(&mut watch).await, ["nightly Breaking"]);
}

#[tokio::test(start_paused = true)]
async fn s17_a_break_elsewhere_shows_by_whom_and_why_and_is_read_once() {
    let account = Account::new();
    let (sidecar, other) = (account.sidecar(), account.sidecar());
    other.acquire(request("nightly")).await;
    let mut watch = follow(&sidecar);
    events(&mut watch).await;
    let broken = BreakRequest {
        token: None,
        lock: super::rig::by_key("nightly"),
        period: BreakPeriod::RunOut,
        reason: "stuck since noon".to_owned(),
        by: Some("ops".to_owned()),
        caller: "test".to_owned(),
    };
    other.coordinator.break_lock(broken).await.unwrap();
    sidecar.counts();
    pass(6 * SECOND).await;
    let LocksEvent::Changed(lock) = watch.next().await.unwrap() else { panic!("no change") };
    let note = lock.break_note.unwrap();
    assert_eq!((note.reason.as_str(), note.by.as_str()), ("stuck since noon", "ops"));
    pass(5 * SECOND).await;
    assert_eq!(sidecar.counts().of(Operation::ReadBreakNote), 1);
}

#[tokio::test(start_paused = true)]
async fn what_others_change_shows_with_the_next_listing_and_a_deleted_lock_is_gone() {
    let account = Account::new();
    let (sidecar, other) = (account.sidecar(), account.sidecar());
    let grant = other.acquire(request("nightly")).await;
    other.acquire(request("weekly")).await;
    let mut watch = follow(&sidecar);
    assert_eq!(events(&mut watch).await, ["nightly Held", "weekly Held", "2 listed"]);
    other.release(&grant).await;
    pass(6 * SECOND).await;
    assert_eq!(events(&mut watch).await, ["nightly Available"]);
    let gone = path("nightly");
    account.store.locks().delete_lock(&gone);
    pass(6 * SECOND).await;
    assert_eq!(events(&mut watch).await, [format!("gone {gone}")]);
    pass(26 * SECOND).await;
    assert_eq!(events(&mut watch).await, ["1 listed"], "repeated, though nothing changes");
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_does_not_read_holds_up_nobody_and_finds_the_newest_record() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let (mut slow, mut quick) = (follow(&sidecar), follow(&sidecar));
    assert_eq!(events(&mut quick).await, ["0 listed"]);
    for _ in 0..200 {
        let grant = sidecar.acquire(request("nightly")).await;
        sidecar.release(&grant).await;
        settle().await;
        assert!(!events(&mut quick).await.is_empty());
    }
    let told = events(&mut slow).await;
    assert_eq!(told, ["nightly Available", "1 listed"]);
}

#[tokio::test(start_paused = true)]
async fn a_listing_of_several_pages_is_told_whole() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let host = super::rig::settings().host;
    let prefix = format!("leasehold/{}", host.namespace.host_prefix(&host.host_id));
    for number in 0..2_300_u32 {
        let path: LockPath = format!("{prefix}job-{number}/~/FUNCTION").parse().unwrap();
        let lease_id = LeaseId::from_uuid(uuid::Uuid::from_u128(u128::from(number) + 1));
        let acquire = Acquire { lease_id, duration: 60 * SECOND, if_match: None };
        account.store.acquire(&path, acquire).await.unwrap();
    }
    let mut watch = follow(&sidecar);
    let told = events(&mut watch).await;
    assert_eq!(told.len(), 2_301);
    assert_eq!(told.last().unwrap(), "2300 listed");
    assert_eq!(sidecar.counts(), counts([(Operation::List, 3)]));
}

#[tokio::test(start_paused = true)]
async fn s18_a_store_that_cannot_be_listed_ends_the_watch_and_the_next_begins_anew() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut watch = follow(&sidecar);
    assert_eq!(events(&mut watch).await, ["0 listed"]);
    sidecar.faults().set_plan(FaultPlan { deny: 1_000, ..FaultPlan::default() });
    assert!(watch.next().await.is_err());
    sidecar.faults().set_plan(FaultPlan::default());
    assert_eq!(events(&mut follow(&sidecar)).await, ["0 listed"]);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_not_among_the_followed_any_more_is_gone() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let held = |lock: &crate::coordinator::LockRecord| lock.state == LockState::Held;
    let mut watch = sidecar.coordinator.watch_locks(&Under::OwnHostId, Box::new(held)).unwrap();
    assert_eq!(events(&mut watch).await, ["0 listed"]);
    let grant = sidecar.acquire(request("nightly")).await;
    settle().await;
    assert_eq!(events(&mut watch).await, ["nightly Held"]);
    sidecar.release(&grant).await;
    settle().await;
    assert_eq!(events(&mut watch).await, [format!("gone {}", grant.path)]);
}

#[tokio::test(start_paused = true)]
async fn s23_a_follower_is_told_the_version_of_the_newest_checkpoint() {
    let account = Account::new();
    let (sidecar, other) = (account.sidecar(), account.sidecar());
    let grant = sidecar.acquire(request("nightly")).await;
    let (mut here, mut there) = (follow(&sidecar), follow(&other));
    assert_eq!((version(&mut here).await, version(&mut there).await), (None, None));
    let generation = Some(grant.generation);
    let value = CheckpointValue::new(b"page 7").unwrap();
    let saved = sidecar.coordinator.save(grant.lease_id, generation, value).await.unwrap();
    settle().await;
    assert_eq!(version(&mut here).await, Some(saved.version), "at once");
    pass(6 * SECOND).await;
    assert_eq!(version(&mut there).await, Some(saved.version), "with the next listing");
    sidecar.release(&grant).await;
    settle().await;
    assert_eq!(version(&mut here).await, Some(saved.version));
}

/// The version of the checkpoint in the newest record that is told now.
async fn version(watch: &mut LocksWatch) -> Option<u64> {
    let mut newest = None;
    while let Ok(event) = tokio::time::timeout(Duration::from_millis(1), watch.next()).await {
        if let LocksEvent::Changed(lock) = event.unwrap() {
            newest = lock.checkpoint.map(|checkpoint| checkpoint.version);
        }
    }
    newest
}
