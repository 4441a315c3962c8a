//! Many callers of several sidecars, by a seed: what they are told is checked, and at the end nothing is
//! left.
//!
//! The seed repeats what callers and the network do. Lease ids and the jitter of requests are the system's
//! own, so a seed that failed may have to be run more than once.

use std::time::Duration;

use futures_util::future::{Either, select};

use super::checker::{Belief, Checker};
use super::rig::{Account, MINUTE, SECOND, Sidecar, pass, waiting};
use crate::coordinator::{
    Grant, HeldEvent, HoldEvent, HoldRequest, HoldStream, NoObserver, Outcome, ResumeRequest,
};
use crate::store::LeaseState;
use crate::testing::{FaultPlan, SeededRandom};

const LOCKS: [&str; 2] = ["nightly", "hourly"];
const CALLERS: u64 = 8;
const ROUNDS: usize = 6;

/// How a run goes.
#[derive(Clone, Copy, Debug)]
enum Weather {
    /// Nothing but what callers do: every lease must have been released.
    Calm,
    /// Requests are lost, late and repeated, and the store is away at times: leases may run out.
    Stormy,
}

/// What goes wrong for a while.
pub(crate) fn storm(random: &mut SeededRandom) -> FaultPlan {
    let mut permille = |most: u64| u16::try_from(random.below(most)).unwrap();
    FaultPlan {
        lose_request: permille(100),
        lose_answer: permille(100),
        repeat: permille(100),
        delay_request: permille(300),
        delay_answer: permille(300),
        throttle: permille(30),
        deny: permille(10),
        longest_delay: Duration::from_secs(1 + random.below(20)),
        longest_silence: Duration::from_secs(random.below(10)),
    }
}

/// A caller with its own chance.
struct Client {
    sidecars: Vec<Sidecar>,
    checker: Checker,
    random: SeededRandom,
    weather: Weather,
}

impl Client {
    fn sidecar(&mut self) -> Sidecar {
        let index = self.random.below(self.sidecars.len() as u64);
        self.sidecars[usize::try_from(index).unwrap()].clone()
    }

    fn request(&mut self) -> HoldRequest {
        let lock = LOCKS[usize::from(self.random.chance(500))];
        let calm = matches!(self.weather, Weather::Calm);
        let random = &mut self.random;
        let wait = if random.chance(200) { Duration::ZERO } else { random.span(40 * SECOND) };
        HoldRequest {
            lease_duration: Some(Duration::from_secs(15 + random.below(16))),
            max_hold: random.chance(200).then(|| SECOND + random.span(40 * SECOND)),
            min_hold: if random.chance(100) { random.span(3 * SECOND) } else { Duration::ZERO },
            progress_timeout: random.chance(100).then(|| SECOND + random.span(20 * SECOND)),
            auto_renew: calm || random.chance(900),
            ..waiting(lock, wait)
        }
    }

    async fn live(mut self) {
        for _ in 0..ROUNDS {
            pass(self.random.span(5 * SECOND)).await;
            if self.random.chance(400) {
                self.hold_by_call().await;
            } else {
                self.hold_by_stream().await;
            }
        }
    }

    async fn hold_by_call(&mut self) {
        let (sidecar, request) = (self.sidecar(), self.request());
        let patience = self.random.span(60 * SECOND);
        let patience = if self.random.chance(300) { patience } else { 10 * MINUTE };
        let Ok(answer) = tokio::time::timeout(patience, sidecar.ask(request)).await else { return };
        let Ok(Outcome::Granted(grant)) = answer else { return };
        let belief = self.checker.granted(&grant);
        for _ in 0..self.random.below(4) {
            pass(self.random.span(8 * SECOND)).await;
            if !self.checker.is_believed(&belief) {
                break;
            }
            let answer =
                sidecar.coordinator.report_progress(grant.lease_id, Some(grant.generation)).await;
            match answer {
                Ok(validity) => self.checker.renewed(&belief, &validity),
                Err(_) => self.checker.lost(&belief),
            }
        }
        self.release(&sidecar, &grant, &belief).await;
    }

    /// The client's own validity ends before it says so.
    async fn release(&mut self, sidecar: &Sidecar, grant: &Grant, belief: &Belief) {
        self.checker.ended(belief);
        sidecar.coordinator.release(grant.lease_id, Some(grant.generation)).await.unwrap();
    }

    async fn hold_by_stream(&mut self) {
        let (sidecar, mut request) = (self.sidecar(), self.request());
        if matches!(self.weather, Weather::Calm) {
            // S16: a hold that was resumed and then lost may go on elsewhere, so its lease is left to run
            // out.
            (request.max_hold, request.progress_timeout) = (None, None);
        }
        let mut stream = sidecar.coordinator.hold(&request).unwrap();
        let patience = self.random.span(60 * SECOND);
        let patience = if self.random.chance(200) { patience } else { 10 * MINUTE };
        let Ok(Some(grant)) = tokio::time::timeout(patience, first_grant(&mut stream)).await else {
            return;
        };
        let belief = self.checker.granted(&grant);
        let span = self.random.span(40 * SECOND);
        if !self.follow(&mut stream, &belief, span).await {
            return;
        }
        if self.random.chance(300) {
            // Nobody on the other end: what was told last is believed until it is over.
            stream.disconnected();
            if self.random.chance(600) {
                pass(self.random.span(20 * SECOND)).await;
                self.resume(&grant, &belief).await;
            }
        } else if self.random.chance(300) {
            self.release(&sidecar, &grant, &belief).await;
        } else {
            self.checker.ended(&belief);
            drop(stream);
        }
    }

    async fn resume(&mut self, grant: &Grant, belief: &Belief) {
        let sidecar = self.sidecar();
        let told_valid_until = self.random.chance(500).then(|| self.checker.told(belief)).flatten();
        let resume_token = grant.resume_token.clone();
        let request = ResumeRequest {
            attempt_id: String::new(),
            resume_token,
            told_valid_until,
            trace_context: None,
        };
        let mut stream = sidecar.coordinator.resume(&request).unwrap();
        let Some(resumed) = first_grant(&mut stream).await else {
            self.checker.ended(belief);
            return;
        };
        self.checker.resumed(belief, &resumed);
        let span = self.random.span(20 * SECOND);
        if !self.follow(&mut stream, belief, span).await {
            return;
        }
        if matches!(self.weather, Weather::Calm) || self.random.chance(500) {
            self.release(&sidecar, &resumed, belief).await;
        } else {
            // S16: within D of a resume that lets the lease run out.
            self.checker.ended(belief);
            drop(stream);
        }
    }

    /// Reads what is told for this long; false if the hold ended meanwhile.
    async fn follow(&mut self, stream: &mut HoldStream, belief: &Belief, span: Duration) -> bool {
        let mut over = Box::pin(pass(span));
        loop {
            let event = match select(&mut over, Box::pin(stream.next())).await {
                Either::Left(_) => return true,
                Either::Right((event, _)) => event,
            };
            match event {
                Some(HoldEvent::Held(
                    HeldEvent::Renewed(validity)
                    | HeldEvent::Recovered(validity)
                    | HeldEvent::AtRisk { validity, .. },
                )) => self.checker.renewed(belief, &validity),
                Some(HoldEvent::Held(HeldEvent::Lost { .. })) => {
                    self.checker.lost(belief);
                    assert!(stream.next().await.is_none(), "S4: something came after the loss");
                    return false;
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

async fn first_grant(stream: &mut HoldStream) -> Option<Grant> {
    loop {
        match stream.next().await? {
            HoldEvent::Granted(grant) => return Some(*grant),
            HoldEvent::Waiting { .. } => {}
            _ => return None,
        }
    }
}

async fn run(seed: u64, weather: Weather) -> [usize; 3] {
    let account = Account::new();
    let mut random = SeededRandom::new(seed);
    let sidecars: Vec<_> = (0..3)
        .map(|number| {
            let observer = std::sync::Arc::new(NoObserver);
            account.sidecar_with(observer, seed * 3 + number, |_| {})
        })
        .collect();
    let checker = Checker::new(&account, seed);
    let clients: Vec<_> = (0..CALLERS)
        .map(|_| {
            let client = Client {
                sidecars: sidecars.clone(),
                checker: checker.clone(),
                random: SeededRandom::new(random.next_u64()),
                weather,
            };
            tokio::spawn(client.live())
        })
        .collect();
    if matches!(weather, Weather::Stormy) {
        for _ in 0..10 {
            for sidecar in &sidecars {
                sidecar.faults().set_plan(storm(&mut random));
                if random.chance(100) {
                    sidecar.faults().go_down(random.span(40 * SECOND));
                }
            }
            pass(random.span(20 * SECOND)).await;
        }
        for sidecar in &sidecars {
            sidecar.faults().set_plan(FaultPlan::default());
        }
    }
    for client in clients {
        client.await.unwrap();
    }
    // The longest lease, the longest delay, and then some.
    pass(2 * MINUTE).await;
    for sidecar in &sidecars {
        sidecar.assert_idle();
    }
    for lock in LOCKS {
        if account.store.locks().copy_record(&super::rig::path(lock)).is_none() {
            continue;
        }
        let lease = account.lease(lock).await;
        match weather {
            Weather::Calm => assert_eq!(lease, LeaseState::Available, "S6, seed {seed}: {lock}"),
            Weather::Stormy => assert_ne!(lease, LeaseState::Leased, "S6, seed {seed}: {lock}"),
        }
    }
    checker.seen()
}

/// Runs these seeds, and says which one failed.
fn drive(seeds: std::ops::Range<u64>, weather: Weather) {
    let mut seen = [0; 3];
    for seed in seeds {
        let one = std::panic::catch_unwind(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .unwrap();
            runtime.block_on(run(seed, weather))
        });
        let one = one.unwrap_or_else(|_| panic!("seed {seed} failed in {weather:?} weather"));
        for (sum, number) in seen.iter_mut().zip(one) {
            *sum += number;
        }
    }
    let [grants, losses, resumes] = seen;
    let lost = losses > 50 || matches!(weather, Weather::Calm);
    assert!(grants > 1_000 && resumes > 50 && lost, "too little has happened: {seen:?}");
}

#[test]
fn s6_whatever_callers_do_every_lease_is_given_back() {
    drive(0..100, Weather::Calm);
}

#[test]
fn s1_s4_s5_hold_whatever_callers_and_the_network_do() {
    drive(1_000..1_200, Weather::Stormy);
}
