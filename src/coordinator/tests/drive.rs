//! Several sidecars and many callers on one bad network, by a seed: nobody ever has the lock beside somebody else.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::super::HoldEvent;
use super::{Account, Sidecar, patient, request};
use crate::store::FaultPlan;
use crate::testing::SeededRandom;
use crate::time::{Clock as _, Instant};

const SEEDS: u64 = 24;
const SIDECARS: usize = 3;
const CALLERS: u64 = 4;
const ROUNDS: u64 = 6;

/// What callers believe, together.
#[derive(Default)]
struct Beliefs {
    /// Who has the lock, and until when it may act.
    holder: Option<(u64, Instant)>,
    newest: u64,
    grants: u64,
    losses: u64,
    seed: u64,
}

impl Beliefs {
    fn begin(&mut self, caller: u64, token: u64, until: Instant, now: Instant) {
        let seed = self.seed;
        if let Some((other, ends)) = self.holder
            && other != caller
        {
            assert!(
                ends <= now,
                "seed {seed}: S1: {caller} beside {other}, which may act until {ends:?}"
            );
        }
        assert!(token > self.newest, "seed {seed}: S5: token {token} after {}", self.newest);
        self.newest = token;
        self.grants += 1;
        self.holder = Some((caller, until));
    }

    fn extend(&mut self, caller: u64, until: Instant) {
        if let Some((holder, ends)) = &mut self.holder
            && *holder == caller
        {
            *ends = until;
        }
    }

    fn end(&mut self, caller: u64) {
        if self.holder.is_some_and(|(holder, _)| holder == caller) {
            self.holder = None;
        }
    }
}

/// A caller that takes the lock again and again, holds it for a while, and goes away in different ways.
async fn call(
    account: &Account,
    sidecar: &Sidecar,
    caller: u64,
    seed: u64,
    beliefs: Arc<Mutex<Beliefs>>,
) {
    let mut random = SeededRandom::new(seed * 1_000 + caller);
    for _ in 0..ROUNDS {
        tokio::time::sleep(random.span(Duration::from_secs(20))).await;
        let wait = random.span(Duration::from_secs(90));
        let Ok(mut stream) = sidecar.coordinator.hold(&patient("job", wait)) else { continue };
        let leaves = account.clock.now() + random.span(Duration::from_secs(120));
        loop {
            let left = leaves.saturating_since(account.clock.now());
            let Ok(event) = tokio::time::timeout(left, stream.next()).await else {
                // S13: the belief ends before the stream does.
                beliefs.lock().unwrap().end(caller);
                break;
            };
            let now = account.clock.now();
            match event {
                Some(HoldEvent::Granted(grant)) => {
                    let until = now + grant.validity.valid_for;
                    let token = grant.token.value();
                    beliefs.lock().unwrap().begin(caller, token, until, now);
                }
                Some(HoldEvent::Renewed(validity) | HoldEvent::Recovered(validity)) => {
                    beliefs.lock().unwrap().extend(caller, now + validity.valid_for);
                }
                Some(HoldEvent::Waiting { .. } | HoldEvent::AtRisk { .. }) => {}
                Some(HoldEvent::Draining { .. }) => panic!("seed {seed}: nobody shuts down"),
                Some(HoldEvent::Lost { .. }) => {
                    let mut beliefs = beliefs.lock().unwrap();
                    beliefs.losses += 1;
                    beliefs.end(caller);
                    break;
                }
                Some(HoldEvent::Busy(_) | HoldEvent::Released(_) | HoldEvent::Failed(_)) | None => {
                    beliefs.lock().unwrap().end(caller);
                    break;
                }
            }
        }
    }
}

fn plan(random: &mut SeededRandom) -> FaultPlan {
    let mut often = |most| u16::try_from(random.below(most)).unwrap();
    FaultPlan {
        lose_request: often(700),
        lose_answer: often(300),
        repeat: often(150),
        delay_request: often(300),
        delay_answer: often(300),
        throttle: often(80),
        deny: often(40),
        longest_delay: Duration::from_secs(20),
        longest_silence: Duration::from_secs(10),
    }
}

#[tokio::test(start_paused = true)]
async fn s1_nobody_has_the_lock_beside_somebody_else_whatever_the_network_does() {
    let (mut grants, mut losses) = (0, 0);
    for seed in 0..SEEDS {
        let account = Account::new();
        let mut random = SeededRandom::new(seed);
        let sidecars: Vec<Sidecar> = (0..SIDECARS)
            .map(|number| account.sidecar_with(seed * 10 + number as u64, plan(&mut random)))
            .collect();
        let beliefs = Arc::new(Mutex::new(Beliefs { seed, ..Beliefs::default() }));
        let calls = (0..CALLERS * SIDECARS as u64).map(|caller| {
            let sidecar = &sidecars[usize::try_from(caller).unwrap() % SIDECARS];
            call(&account, sidecar, caller, seed, Arc::clone(&beliefs))
        });
        futures_util::future::join_all(calls).await;
        grants += beliefs.lock().unwrap().grants;
        losses += beliefs.lock().unwrap().losses;
        // S6: what was given up is given back, or has run out.
        tokio::time::sleep(Duration::from_secs(180)).await;
        assert!(!account.is_leased(&sidecars[0], "job").await, "seed {seed}: S6: an orphan lease");
        for sidecar in &sidecars {
            let gauges = sidecar.coordinator.gauges();
            assert_eq!((gauges.holds, gauges.waiters), (0, 0), "seed {seed}");
        }
        let fresh = account.sidecar();
        fresh.granted(request("job")).await;
    }
    assert!(grants > SEEDS * 2 && losses > 0, "{grants} grants, {losses} losses");
}
