//! A client: acquires locks by stream and by call, acts by its validity (S21), moves between sidecars, and
//! sometimes says nothing.

use std::time::Duration;

use leasehold::coordinator::{
    CallError, Grant, HeldEvent, HoldEvent, HoldRequest, Outcome, Validity,
};
use leasehold::lock::{LeaseId, LockPath};
use leasehold::testing::SeededRandom;
use leasehold::time::BootReading;

use crate::kit::millis;
use crate::simulation::ledger::log_of;
use crate::world::chance::About;
use crate::world::checks::Key;
use crate::world::cost::Cause;
use crate::world::justice;
use crate::world::notices;
use crate::world::plan::{Plan, SHORTEST};
use crate::world::promises::{self, Wants};
use crate::world::resuming::is_to_come_again;
use crate::world::run::waiting;
use crate::world::shared::World;
use crate::world::sidecar::{End, MAX_HOLD, SECOND, Sidecar, Stream};

#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) world: World,
    pub(crate) index: usize,
    /// The machine on which it runs, if a sidecar is there too.
    pub(crate) home: Option<usize>,
}

/// A hold, as its client knows it.
pub(crate) struct Holding {
    pub(crate) sidecar: Sidecar,
    /// The one that it has left.
    pub(crate) left: Option<Sidecar>,
    pub(crate) stream: Option<Stream>,
    pub(crate) path: LockPath,
    pub(crate) lease_id: LeaseId,
    pub(crate) token: u64,
    pub(crate) resume_token: String,
    pub(crate) generation: u64,
    pub(crate) told: Option<BootReading>,
    /// It has not believed yet: its grant came after a wait, and it was not told since when it counts.
    pub(crate) fresh: bool,
    /// Its lease is renewed, so that nothing but `max_hold` bounds it.
    pub(crate) renews: bool,
    /// It was told that its lease runs out (S22).
    pub(crate) revoked: bool,
    /// The saves that its checkpoint came of.
    pub(crate) log: Vec<u32>,
}

impl Holding {
    pub(crate) fn key(&self) -> Key {
        (self.path.clone(), self.token)
    }
}

/// How a wait, or a resume, ends.
pub(crate) enum Begun {
    Granted(Box<Grant>),
    /// With the news that the hold is over.
    Over,
    /// Its sidecar is being replaced (S15).
    ComeAgain,
    /// With nothing that is known of the hold.
    Gone,
}

/// How long a client waits for the answer of a call.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

impl Client {
    /// Comes and goes until the schedule's length is over.
    pub(crate) async fn live(self) {
        while self.world.now() < self.world.plan().length {
            let mut random = self.world.draw(About::Act, self.index);
            tokio::time::sleep(millis(&mut random, 100, 9_000)).await;
            if random.chance(300) {
                self.hold_by_call(&mut random).await;
            } else {
                self.hold_by_stream(&mut random).await;
            }
        }
    }

    pub(crate) fn pick(&self, random: &mut SeededRandom) -> Sidecar {
        let own = self.home.filter(|_| random.chance(800));
        let any = usize::try_from(random.below(self.world.plan().sidecars as u64)).unwrap();
        self.world.sidecar(own.unwrap_or(any))
    }

    pub(crate) fn note(&self, line: impl FnOnce() -> String) {
        self.world.note(|| format!("      {}     {}", self.index, line()));
    }

    fn request(&self, random: &mut SeededRandom) -> HoldRequest {
        let lock = usize::try_from(random.below(self.world.plan().locks as u64)).unwrap();
        let span = |random: &mut SeededRandom, most: u64| millis(random, 1_000, most * 1_000);
        let Plan { own_leases, lease, .. } = *self.world.plan();
        HoldRequest {
            wait: if random.chance(200) { Duration::ZERO } else { span(random, 40) },
            max_hold: random.chance(250).then(|| span(random, 40)),
            min_hold: if random.chance(150) { span(random, 15) } else { Duration::ZERO },
            progress_timeout: random.chance(100).then(|| span(random, 20)),
            auto_renew: random.chance(900),
            lease_duration: own_leases
                .then(|| Duration::from_secs(SHORTEST + random.below(lease - SHORTEST + 1))),
            ..waiting(lock)
        }
    }

    async fn hold_by_call(&self, random: &mut SeededRandom) {
        let sidecar = self.pick(random);
        let request_id = format!("{}-{}", self.index, random.below(1 << 40));
        let request = HoldRequest { request_id, ..self.request(random) };
        let path = sidecar.path(&request.key);
        for _ in 0..3 {
            let asked = self.world.now();
            let patience = millis(random, 500, 60_000);
            let work = async {
                sidecar.calls_for(&path, Cause::Caller);
                let outcome = sidecar.coordinator.acquire(request.clone()).await;
                let max_hold = Some(request.max_hold.unwrap_or(MAX_HOLD));
                let wants = Wants::of(&HoldRequest { max_hold, ..request.clone() });
                self.judge(&sidecar, (&path, wants), &outcome);
                outcome
            };
            let call = tokio::time::timeout(patience, sidecar.call(self.index, work)).await;
            match call {
                Ok(Some(Ok(Outcome::Granted(grant)))) => {
                    let mut holding = self.holding(&sidecar, None, &grant);
                    holding.renews = request.auto_renew;
                    self.promised(&holding, &grant.validity);
                    self.believe(&mut holding, &grant.validity, asked);
                    let span = millis(random, 0, 30_000);
                    return self.follow(holding, span, random).await;
                }
                Ok(Some(_)) => return,
                Err(_) | Ok(None) => {
                    if !request.auto_renew {
                        // It may be granted, and nobody renews or releases it.
                        self.world.state().unreturned.path(&path);
                    }
                    if !random.chance(500) {
                        return;
                    }
                }
            }
        }
    }

    /// What a grant by call says of its validity.
    fn promised(&self, holding: &Holding, validity: &Validity) {
        let until = holding.sidecar.clock.true_time(&validity.valid_until);
        notices::promised(&mut self.world.state(), holding.key(), until);
    }

    /// What a call is answered with is looked at before the answer is on its way.
    fn judge(
        &self,
        sidecar: &Sidecar,
        (path, wants): (&LockPath, Wants),
        outcome: &Result<Outcome, CallError>,
    ) {
        let now = self.world.now();
        let mut state = self.world.state();
        let wrong = match outcome {
            Ok(Outcome::Granted(grant)) if !state.checks.was_granted(path, grant.token.value()) => {
                let sidecar = (sidecar.index, sidecar.life);
                let stream = justice::Stream { number: 0, sidecar, path, resumes: None, wants };
                justice::granted(&mut state, stream, grant, now)
            }
            Ok(Outcome::Granted(_)) => None,
            Ok(Outcome::Settled { .. } | Outcome::AlreadyDone(_) | Outcome::Skipped { .. }) => {
                Some("settled, though it brought nothing".to_owned())
            }
            Ok(Outcome::Busy(busy)) => {
                let place = (sidecar.index, sidecar.life);
                promises::busy(&mut state, (place, path), &busy.record)
            }
            Err(error) => justice::failed(&state, (sidecar.index, path), error, now),
        };
        drop(state);
        self.note(|| match outcome {
            Ok(Outcome::Granted(grant)) => format!("is granted {} by call", grant.token),
            Ok(Outcome::Busy(_)) => "is told busy by call".to_owned(),
            Ok(Outcome::Settled { .. } | Outcome::AlreadyDone(_) | Outcome::Skipped { .. }) => {
                "is told settled by call".to_owned()
            }
            Err(error) => format!("is refused by call: {error}"),
        });
        self.world.fail_if(wrong);
    }

    async fn hold_by_stream(&self, random: &mut SeededRandom) {
        let (sidecar, request) = (self.pick(random), self.request(random));
        let asked = self.world.now();
        let begun = sidecar.call(self.index, async { sidecar.hold(&request) }).await;
        let Some(Ok(mut stream)) = begun else { return };
        let patience = if random.chance(100) { millis(random, 0, 30_000) } else { 200 * SECOND };
        let begun = tokio::time::timeout(patience, self.begun(&mut stream)).await;
        let Ok(Begun::Granted(grant)) = begun else {
            // Over a network that may have been a proxy's doing (S14).
            let local = self.home == Some(sidecar.index);
            return stream.end(if local { End::Closed } else { End::Silent });
        };
        let mut holding = self.holding(&sidecar, Some(stream), &grant);
        holding.renews = request.auto_renew;
        self.believe(&mut holding, &grant.validity, asked);
        let span = millis(random, 0, 40_000);
        self.follow(holding, span, random).await;
    }

    /// How a wait ends.
    pub(crate) async fn begun(&self, stream: &mut Stream) -> Begun {
        loop {
            let Some(event) = stream.next().await else { return Begun::Gone };
            self.is_late().await;
            match event {
                HoldEvent::Granted(grant) => return Begun::Granted(grant),
                HoldEvent::Waiting { .. } | HoldEvent::Held(HeldEvent::Draining { .. }) => {}
                HoldEvent::Held(HeldEvent::Lost { .. }) | HoldEvent::Released(_) => {
                    return Begun::Over;
                }
                HoldEvent::Failed(error) if is_to_come_again(&error) => return Begun::ComeAgain,
                _ => return Begun::Gone,
            }
        }
    }

    /// A message has its way, and a client is not always there to read it.
    pub(crate) async fn is_late(&self) {
        let faults = self.world.plan().client_faults / 4;
        if let Some(mut random) = self.world.fault(About::DelayMessage, self.index, faults) {
            tokio::time::sleep(millis(&mut random, 1, 3_000)).await;
        }
        if let Some(mut random) = self.world.fault(About::ClientPause, self.index, faults / 4) {
            self.note(|| "pauses".to_owned());
            tokio::time::sleep(millis(&mut random, 1_000, 60_000)).await;
        }
    }

    pub(crate) fn holding(
        &self,
        sidecar: &Sidecar,
        stream: Option<Stream>,
        grant: &Grant,
    ) -> Holding {
        Holding {
            sidecar: sidecar.clone(),
            left: None,
            stream,
            path: grant.path.clone(),
            lease_id: grant.lease_id,
            token: grant.token.value(),
            resume_token: grant.resume_token.clone(),
            generation: grant.generation,
            told: None,
            fresh: true,
            renews: true,
            revoked: false,
            log: log_of(grant.checkpoint.as_ref()),
        }
    }

    /// Until when it may believe, in true time (S21): by its own clock, and never from when it reads.
    pub(crate) fn until(
        &self,
        sidecar: &Sidecar,
        validity: &Validity,
        asked: Duration,
    ) -> Duration {
        let here = self.home == Some(sidecar.index)
            && validity.valid_until.boot_id == sidecar.clock.boot_id();
        if here {
            return sidecar.clock.true_time(&validity.valid_until);
        }
        let own = self.world.plan().sidecars + self.index;
        asked + self.world.true_time(own, validity.valid_for)
    }

    pub(crate) fn believe(&self, holding: &mut Holding, validity: &Validity, asked: Duration) {
        let until = self.until(&holding.sidecar, validity, asked);
        let now = self.world.now();
        let (path, who) = (&holding.path, (self.index, holding.token));
        if self.home == Some(holding.sidecar.index) {
            holding.told = Some(validity.valid_until.clone());
        }
        holding.fresh &= until <= now;
        let wrong = self.world.state().checks.believes(path, who, (now, until));
        self.note(|| format!("believes in {} until {until:?}", holding.token));
        self.world.fail_if(wrong);
    }

    pub(crate) fn believes(&self, holding: &Holding) -> Option<Duration> {
        let until = self.world.state().checks.believed_until(&holding.path, self.index);
        until.filter(|until| self.world.now() < *until)
    }

    pub(crate) fn believes_no_more(&self, holding: &Holding) {
        self.world.state().checks.believes_no_more(&holding.path, self.index);
        self.note(|| format!("believes no more in {}", holding.token));
    }
}
