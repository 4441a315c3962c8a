//! Whole deployments of listeners, by a seed: how evenly their locks are spread over sidecars, and who takes
//! over from whom (S33 to S35).
//!
//! What this leaves out: a store that fails, which other worlds have; clocks of sidecars that differ. A seed
//! repeats what the network and the listeners do, and the requests' jitter.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::rig::{Account, MINUTE, SECOND, Sidecar, pass, path, request};
use crate::coordinator::{Entropy, HeldEvent, HoldEvent, HoldRequest, WAIT_WITHOUT_END};
use crate::record::{Priority, ShareName, Sharing};
use crate::store::{LeaseStoreExt as _, Operation};
use crate::testing::{FaultPlan, SeededRandom};
use crate::time::Instant;

/// Which seeds a world runs: `LEASEHOLD_SPREADS=first..last`, else the first few.
fn seeds(few: u64) -> std::ops::Range<u64> {
    let range = std::env::var("LEASEHOLD_SPREADS").ok();
    let range = range.as_deref().and_then(|text| text.split_once(".."));
    range.map_or(0..few, |(first, last)| first.parse().unwrap()..last.parse().unwrap())
}

/// The share of the seeds in which all is as it should be, to be printed; each that was not is named.
fn in_each(name: &str, few: u64, world: impl AsyncFn(World) -> Result<(), String>) {
    let mut failed = Vec::new();
    let seeds = seeds(few);
    for seed in seeds.clone() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        if let Err(problem) = runtime.block_on(async { world(World::new(seed)).await }) {
            failed.push(format!("{seed}: {problem}"));
        }
    }
    let all = seeds.count();
    println!("{name}: {} of {all} seeds", all - failed.len());
    assert!(failed.len() * 100 <= all, "{name}, in more than 1 % of {all} seeds: {failed:#?}");
}

#[derive(Debug)]
struct SeededEntropy(Mutex<SeededRandom>, AtomicU64);

impl Entropy for SeededEntropy {
    fn bits(&self) -> u128 {
        let number = u128::from(self.1.fetch_add(1, Ordering::Relaxed));
        let high = u128::from(self.0.lock().unwrap().below(u64::MAX));
        (high << 64) | number
    }
}

/// A grant that a listener had: when, of which lock, by which sidecar.
type Granted = (Instant, String, String);

struct World {
    account: Account,
    random: SeededRandom,
    sidecars: BTreeMap<String, (Sidecar, Vec<tokio::task::JoinHandle<()>>)>,
    grants: Arc<Mutex<Vec<Granted>>>,
    priority: u32,
    rebalance: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            account: Account::new(),
            random: SeededRandom::new(seed),
            sidecars: BTreeMap::new(),
            grants: Arc::default(),
            priority: 0,
            rebalance: false,
        }
    }

    /// A sidecar with a listener for each of so many locks.
    fn start(&mut self, name: &str, locks: usize) {
        let (seed, entropy) = (self.random.below(u64::MAX), self.random.below(u64::MAX));
        let entropy = SeededEntropy(Mutex::new(SeededRandom::new(entropy)), AtomicU64::new(0));
        let sidecar = self.account.seeded(seed, Arc::new(entropy), name);
        sidecar.faults().set_plan(FaultPlan {
            delay_request: 1_000,
            delay_answer: 1_000,
            longest_delay: Duration::from_millis(60),
            ..FaultPlan::default()
        });
        let listeners = (0..locks)
            .map(|lock| {
                let listener = Listener {
                    sidecar: sidecar.clone(),
                    name: name.to_owned(),
                    lock: lock_name(lock),
                    spec: self.spec(lock),
                    finishes: Duration::from_millis(self.random.below(3_000)),
                    grants: Arc::clone(&self.grants),
                };
                tokio::spawn(listener.listen())
            })
            .collect();
        self.sidecars.insert(name.to_owned(), (sidecar, listeners));
    }

    fn spec(&self, lock: usize) -> HoldRequest {
        let sharing = Sharing {
            priority: Priority::new(self.priority).unwrap(),
            yields: self.rebalance || self.priority > 0,
            share: ShareName::new("listeners").ok(),
        };
        HoldRequest {
            sharing,
            rebalance: self.rebalance,
            wait: WAIT_WITHOUT_END,
            lease_duration: Some(15 * SECOND),
            ..request(&lock_name(lock))
        }
    }

    /// It reaches its store no more, and its listeners are gone.
    fn crash(&mut self, name: &str) {
        let (sidecar, listeners) = self.sidecars.remove(name).unwrap();
        sidecar.faults().go_down(Duration::MAX);
        listeners.iter().for_each(tokio::task::JoinHandle::abort);
    }

    async fn stop(&mut self, name: &str) {
        let (sidecar, listeners) = self.sidecars.remove(name).unwrap();
        sidecar.coordinator.drain(10 * SECOND).await;
        listeners.iter().for_each(tokio::task::JoinHandle::abort);
    }

    async fn wait_up_to(&mut self, span: Duration) {
        pass(Duration::from_millis(self.random.below(span.as_millis() as u64))).await;
    }

    /// How many locks each running sidecar has, in their order; and that every lock is had.
    async fn held(&self, locks: usize) -> Result<Vec<usize>, String> {
        let holders = self.holders(locks).await;
        let free = holders.iter().filter(|holder| holder.is_none()).count();
        let counts: Vec<usize> = self
            .sidecars
            .keys()
            .map(|name| holders.iter().flatten().filter(|holder| *holder == name).count())
            .collect();
        if free > 0 { Err(format!("{free} are free beside {counts:?}")) } else { Ok(counts) }
    }

    async fn holders(&self, locks: usize) -> Vec<Option<String>> {
        let mut holders = Vec::new();
        for lock in 0..locks {
            let stored = self.account.store.read_record(&path(&lock_name(lock))).await.ok();
            let held = stored.filter(|stored| stored.lease.is_held());
            holders.push(held.map(|stored| {
                crate::record::Record::from_fields(&stored.fields).sidecar.to_string()
            }));
        }
        holders
    }

    async fn is_even(&self, locks: usize, when: &str) -> Result<(), String> {
        let counts = self.held(locks).await.map_err(|problem| format!("{when}: {problem}"))?;
        let spread = counts.iter().max().unwrap() - counts.iter().min().unwrap();
        if spread <= 1 { Ok(()) } else { Err(format!("{when}: {counts:?}")) }
    }
}

fn lock_name(lock: usize) -> String {
    format!("l{lock}")
}

/// Holds a lock for as long as it may, and comes again.
struct Listener {
    sidecar: Sidecar,
    name: String,
    lock: String,
    spec: HoldRequest,
    /// How long it takes to finish once it is told to.
    finishes: Duration,
    grants: Arc<Mutex<Vec<Granted>>>,
}

impl Listener {
    async fn listen(self) {
        while let Ok(mut stream) = self.sidecar.coordinator.hold(&self.spec) {
            let mut grant = None;
            loop {
                match stream.next().await {
                    Some(HoldEvent::Granted(granted)) => {
                        let now = self.sidecar.coordinator.clock().now();
                        let had = (now, self.lock.clone(), self.name.clone());
                        self.grants.lock().unwrap().push(had);
                        grant = Some(granted);
                    }
                    Some(HoldEvent::Held(
                        HeldEvent::Revoked { .. } | HeldEvent::Draining { .. },
                    )) => {
                        pass(self.finishes).await;
                        if let Some(grant) = &grant {
                            let generation = Some(grant.generation);
                            drop(
                                self.sidecar.coordinator.release(grant.lease_id, generation).await,
                            );
                        }
                    }
                    Some(
                        HoldEvent::Held(HeldEvent::Lost { .. })
                        | HoldEvent::Released(_)
                        | HoldEvent::Failed(_),
                    )
                    | None => break,
                    Some(_) => {}
                }
            }
            pass(Duration::from_millis(100)).await;
        }
    }
}

/// What is at rest by then: every free lock was looked at, and left alone for as long as may be.
const REST: Duration = Duration::from_secs(90);

#[test]
fn s34_locks_are_spread_after_a_cold_start_and_a_crash() {
    for (sidecars, locks, few) in [(3, 12, 4), (4, 25, 1)] {
        in_each(&format!("{sidecars} sidecars and {locks} locks"), few, async |mut world| {
            for sidecar in 0..sidecars {
                world.start(&format!("old-{sidecar}"), locks);
                world.wait_up_to(SECOND / 3).await;
            }
            pass(REST).await;
            world.is_even(locks, "after a cold start").await?;
            world.crash("old-0");
            let from = world.grants.lock().unwrap().len();
            let crashed = world.account.now();
            pass(REST).await;
            let even = world.is_even(locks, "after a crash").await;
            even.map_err(|problem| {
                let grants = world.grants.lock().unwrap();
                let after = grants[from..].iter().map(|(at, lock, name)| {
                    format!("{:.1} {lock} {name}", (*at - crashed).as_secs_f64())
                });
                format!("{problem}, {:?}", after.collect::<Vec<_>>())
            })
        });
    }
}

#[test]
fn s34_locks_are_spread_after_a_rolling_restart() {
    for (sidecars, locks, few) in [(3, 12, 4), (4, 25, 1)] {
        in_each(
            &format!("a rolling restart of {sidecars} with {locks}"),
            few,
            async |mut world| {
                for sidecar in 0..sidecars {
                    world.start(&format!("old-{sidecar}"), locks);
                    world.wait_up_to(SECOND / 3).await;
                }
                pass(REST).await;
                for sidecar in 0..sidecars {
                    // As Kubernetes does: the new one is there first.
                    world.start(&format!("new-{sidecar}"), locks);
                    pass(10 * SECOND).await;
                    world.wait_up_to(20 * SECOND).await;
                    world.stop(&format!("old-{sidecar}")).await;
                    world.wait_up_to(20 * SECOND).await;
                }
                pass(REST).await;
                world.is_even(locks, "after a rolling restart").await
            },
        );
    }
}

/// Follows who has which lock, each ten seconds: no lock moves twice in ten minutes, and not more than one a
/// minute.
async fn settles(world: &World, locks: usize, within: Duration) -> Result<(), String> {
    let mut holders = world.holders(locks).await;
    let mut moved: BTreeMap<usize, u32> = BTreeMap::new();
    let steps = u32::try_from(within.as_secs() / 10).unwrap();
    for step in 0..steps {
        pass(10 * SECOND).await;
        let now = world.holders(locks).await;
        for lock in 0..locks {
            let (before, after) = (&holders[lock], &now[lock]);
            if after.is_some() && before != after {
                if let Some(earlier) = moved.insert(lock, step)
                    && step - earlier < 60
                {
                    return Err(format!("lock {lock} moved at {earlier}0 s and at {step}0 s"));
                }
                holders[lock].clone_from(after);
            }
        }
        let lately = moved.values().filter(|at| step - **at < 6).count();
        if lately > 2 {
            return Err(format!("{lately} moves in the minute before {step}0 s"));
        }
    }
    Ok(())
}

#[test]
fn s35_a_scale_out_is_balanced_in_time_and_stays_so() {
    for (sidecars, locks, minutes, few) in [(3, 75, 30, 0), (3, 10, 10, 1)] {
        in_each(
            &format!("{sidecars} sidecars and one more, {locks} locks"),
            few,
            async |mut world| {
                world.rebalance = true;
                for sidecar in 0..sidecars {
                    world.start(&format!("old-{sidecar}"), locks);
                    world.wait_up_to(SECOND / 3).await;
                }
                pass(11 * MINUTE + REST).await;
                world.start("new", locks);
                settles(&world, locks, minutes * MINUTE).await?;
                world.is_even(locks, "after a scale-out").await?;
                settles(&world, locks, 15 * MINUTE).await?;
                world.is_even(locks, "later").await
            },
        );
    }
}

#[test]
fn s33_who_had_a_lock_broken_gets_it_before_any_of_lower_priority() {
    for low in [10, 50] {
        in_each(&format!("{low} sidecars of low priority"), 2, async |mut world| {
            world.priority = 1;
            for sidecar in 0..low {
                world.start(&format!("old-{sidecar:02}"), 1);
            }
            pass(MINUTE).await;
            world.grants.lock().unwrap().clear();
            world.priority = 2;
            world.start("new", 1);
            pass(2 * MINUTE).await;
            let grants = world.grants.lock().unwrap().clone();
            let order: Vec<&str> = grants.iter().map(|(_, _, name)| name.as_str()).collect();
            if order != ["new"] {
                return Err(format!("{order:?}"));
            }
            let breaks = world.sidecars["new"].0.counts().of(Operation::BreakLease);
            if breaks == 1 { Ok(()) } else { Err(format!("{breaks} breaks")) }
        });
    }
}

#[test]
fn s33_mixed_priorities_starve_nobody_and_never_swing_back() {
    in_each("12 locks, and versions one after the other", 1, async |mut world| {
        for version in 1..=4 {
            world.priority = version;
            world.start(&format!("v{version}-a"), 12);
            world.start(&format!("v{version}-b"), 12);
            pass(5 * MINUTE).await;
            world.wait_up_to(MINUTE).await;
            let counts = world.held(12).await?;
            let newest: usize = counts.iter().rev().take(2).sum();
            if newest != 12 {
                return Err(format!("version {version}: {counts:?}"));
            }
        }
        let grants = world.grants.lock().unwrap().clone();
        let mut versions: BTreeMap<String, String> = BTreeMap::new();
        for (_, lock, name) in grants {
            let before = versions.insert(lock.clone(), name.clone());
            if before.is_some_and(|before| before[..2] > name[..2]) {
                return Err(format!("{lock} swung back to {name}"));
            }
        }
        Ok(())
    });
}
