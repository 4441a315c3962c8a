//! A client: takes locks by stream and by call, believes by S21, moves between sidecars, and sometimes says nothing.

use std::time::Duration;

use leasehold::coordinator::{
    CallError, Grant, HoldEvent, HoldRequest, Outcome, Released, ResumeRequest, Validity,
};
use leasehold::lock::{Labels, LeaseId, LockPath};
use leasehold::testing::SeededRandom;
use leasehold::time::BootReading;

use crate::chance::{About, millis};
use crate::justice;
use crate::planted::Bug;
use crate::sidecar::{End, MAX_HOLD, SECOND, Sidecar, Stream, key};
use crate::trouble;
use crate::world::World;

#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) world: World,
    pub(crate) index: usize,
    /// The machine on which it runs, if a sidecar is there too.
    pub(crate) home: Option<usize>,
}

/// A hold, as its client knows it.
struct Holding {
    sidecar: Sidecar,
    /// The one that it has left.
    left: Option<Sidecar>,
    stream: Option<Stream>,
    path: LockPath,
    lease_id: LeaseId,
    token: u64,
    resume_token: String,
    told: Option<BootReading>,
    /// It has not believed yet: its grant came after a wait, and it was not told since when it counts.
    fresh: bool,
    /// Its lease is renewed, so that nothing but `max_hold` bounds it.
    renews: bool,
}

/// How a wait, or a resume, ends.
enum Begun {
    Granted(Box<Grant>),
    /// With the news that the hold is over.
    Over,
    /// With nothing that is known of the hold.
    Gone,
}

/// How long a client waits for the answer of a call.
const PATIENCE: Duration = Duration::from_secs(30);

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

    fn pick(&self, random: &mut SeededRandom) -> Sidecar {
        let own = self.home.filter(|_| random.chance(800));
        let any = usize::try_from(random.below(self.world.plan().sidecars as u64)).unwrap();
        self.world.sidecar(own.unwrap_or(any))
    }

    fn note(&self, line: impl FnOnce() -> String) {
        self.world.note(|| format!("      {}     {}", self.index, line()));
    }

    fn request(&self, random: &mut SeededRandom) -> HoldRequest {
        let lock = usize::try_from(random.below(self.world.plan().locks as u64)).unwrap();
        let span = |random: &mut SeededRandom, most: u64| millis(random, 1_000, most * 1_000);
        HoldRequest {
            key: key(lock),
            lease_duration: None,
            wait: if random.chance(200) { Duration::ZERO } else { span(random, 40) },
            max_hold: random.chance(250).then(|| span(random, 40)),
            min_hold: if random.chance(100) { span(random, 3) } else { Duration::ZERO },
            progress_timeout: random.chance(100).then(|| span(random, 20)),
            auto_renew: random.chance(900),
            request_id: String::new(),
            holder: None,
            labels: Labels::default(),
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
                let outcome = sidecar.coordinator.acquire(request.clone()).await;
                self.judge(&sidecar, &path, &outcome);
                outcome
            };
            let call = tokio::time::timeout(patience, sidecar.call(self.index, work)).await;
            match call {
                Ok(Some(Ok(Outcome::Granted(grant)))) => {
                    let max_hold = request.max_hold.unwrap_or(MAX_HOLD);
                    self.bound(&grant, (asked, Some(max_hold)), request.auto_renew);
                    let mut holding = self.holding(&sidecar, None, &grant);
                    holding.renews = request.auto_renew;
                    self.believe(&mut holding, &grant.validity, asked);
                    let span = millis(random, 0, 30_000);
                    return self.follow(holding, span, random).await;
                }
                Ok(Some(_)) => return,
                Err(_) | Ok(None) if random.chance(500) => {}
                Err(_) | Ok(None) => return,
            }
        }
    }

    /// What a call is answered with is looked at before the answer is on its way.
    fn judge(&self, sidecar: &Sidecar, path: &LockPath, outcome: &Result<Outcome, CallError>) {
        let now = self.world.now();
        let mut state = self.world.state();
        let wrong = match outcome {
            Ok(Outcome::Granted(grant)) if !state.checks.is_newest(path, grant.token.value()) => {
                let token = grant.token.value();
                justice::granted(&mut state, (sidecar.index, path), (token, None), now)
            }
            Ok(Outcome::Granted(_) | Outcome::Busy(_)) => None,
            Err(error) => justice::failed(&state, sidecar.index, error, now),
        };
        drop(state);
        self.note(|| match outcome {
            Ok(Outcome::Granted(grant)) => format!("is granted {} by call", grant.token),
            Ok(Outcome::Busy(_)) => "is told busy by call".to_owned(),
            Err(error) => format!("is refused by call: {error}"),
        });
        if let Some(what) = wrong {
            self.world.fail(what);
        }
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
        self.bound(&grant, (asked, request.max_hold), request.auto_renew);
        let mut holding = self.holding(&sidecar, Some(stream), &grant);
        holding.renews = request.auto_renew;
        self.believe(&mut holding, &grant.validity, asked);
        let span = millis(random, 0, 40_000);
        self.follow(holding, span, random).await;
    }

    /// How a wait ends.
    async fn begun(&self, stream: &mut Stream) -> Begun {
        loop {
            let Some(event) = stream.next().await else { return Begun::Gone };
            self.is_late().await;
            match event {
                HoldEvent::Granted(grant) => return Begun::Granted(grant),
                HoldEvent::Waiting { .. } | HoldEvent::Draining { .. } => {}
                HoldEvent::Lost { .. } | HoldEvent::Released(_) => return Begun::Over,
                _ => return Begun::Gone,
            }
        }
    }

    /// A message has its way, and a client is not always there to read it.
    async fn is_late(&self) {
        let faults = self.world.plan().client_faults / 4;
        if let Some(mut random) = self.world.fault(About::DelayMessage, self.index, faults) {
            tokio::time::sleep(millis(&mut random, 1, 3_000)).await;
        }
        if let Some(mut random) = self.world.fault(About::ClientPause, self.index, faults / 4) {
            self.note(|| "pauses".to_owned());
            tokio::time::sleep(millis(&mut random, 1_000, 60_000)).await;
        }
    }

    fn holding(&self, sidecar: &Sidecar, stream: Option<Stream>, grant: &Grant) -> Holding {
        Holding {
            sidecar: sidecar.clone(),
            left: None,
            stream,
            path: grant.path.clone(),
            lease_id: grant.lease_id,
            token: grant.token.value(),
            resume_token: grant.resume_token.clone(),
            told: None,
            fresh: true,
            renews: true,
        }
    }

    /// Notes that `max_hold` does not end the hold before.
    fn bound(&self, grant: &Grant, (asked, span): (Duration, Option<Duration>), renews: bool) {
        if let Some(span) = span.filter(|_| renews) {
            self.world.state().checks.bounds.insert(grant.token.value(), asked + span);
        }
    }

    /// Until when it may believe, in true time (S21): by its own clock, and never from when it reads.
    fn until(&self, sidecar: &Sidecar, validity: &Validity, asked: Duration) -> Duration {
        let here = self.home == Some(sidecar.index)
            && validity.valid_until.boot_id == sidecar.clock.boot_id();
        if here {
            return sidecar.clock.true_time(&validity.valid_until);
        }
        let own = self.world.plan().sidecars + self.index;
        asked + self.world.true_time(own, validity.valid_for)
    }

    fn believe(&self, holding: &mut Holding, validity: &Validity, asked: Duration) {
        let until = self.until(&holding.sidecar, validity, asked);
        let now = self.world.now();
        let (path, who) = (&holding.path, (self.index, holding.token));
        if self.home == Some(holding.sidecar.index) {
            holding.told = Some(validity.valid_until.clone());
        }
        holding.fresh &= until <= now;
        let wrong = self.world.state().checks.believes(path, who, (now, until));
        self.note(|| format!("believes in {} until {until:?}", holding.token));
        if let Some(what) = wrong {
            self.world.fail(what);
        }
    }

    fn believes(&self, holding: &Holding) -> Option<Duration> {
        let until = self.world.state().checks.believed_until(&holding.path, self.index);
        until.filter(|until| self.world.now() < *until)
    }

    fn believes_no_more(&self, holding: &Holding) {
        self.world.state().checks.believes_no_more(&holding.path, self.index);
        self.note(|| format!("believes no more in {}", holding.token));
    }

    /// Goes about its business for this long, and ends the hold in one way or another.
    async fn follow(&self, mut holding: Holding, span: Duration, random: &mut SeededRandom) {
        let mut ends = self.world.now() + span;
        let third = Duration::from_secs(self.world.plan().lease) / 3;
        loop {
            let now = self.world.now();
            let Some(until) = self.believes(&holding) else {
                if !holding.fresh || !self.ask(&mut holding, None).await {
                    self.believes_no_more(&holding);
                    return close(holding.stream);
                }
                continue;
            };
            let next = (now + millis(random, 200, 4_000)).min(ends).min(until).saturating_sub(now);
            let told = tokio::select! {
                biased;
                event = next_of(&mut holding.stream) => Some(event),
                () = tokio::time::sleep(next.max(Duration::from_millis(1))) => None,
            };
            match told {
                Some(Some(event)) => {
                    self.is_late().await;
                    match event {
                        HoldEvent::Renewed(validity)
                        | HoldEvent::Recovered(validity)
                        | HoldEvent::AtRisk { validity, .. } => {
                            if self.home == Some(holding.sidecar.index)
                                && self.believes(&holding).is_some()
                            {
                                self.believe(&mut holding, &validity, now);
                            }
                        }
                        HoldEvent::Draining { .. } => {
                            ends = self.world.now() + millis(random, 0, 20_000);
                        }
                        _ => {
                            self.believes_no_more(&holding);
                            return close(holding.stream);
                        }
                    }
                }
                // The connection is gone, and perhaps the sidecar.
                Some(None) => {
                    tokio::time::sleep(millis(random, 0, 8_000)).await;
                    match self.resume(holding, random).await {
                        Some(resumed) => holding = resumed,
                        None => return,
                    }
                }
                None if self.world.now() >= ends => {
                    match self.finish(holding, random).await {
                        Some(resumed) => holding = resumed,
                        None => return,
                    }
                    ends = self.world.now() + millis(random, 0, 40_000);
                }
                None => self.act(&mut holding, (until, third), random).await,
            }
        }
    }

    async fn act(
        &self,
        holding: &mut Holding,
        (until, third): (Duration, Duration),
        random: &mut SeededRandom,
    ) {
        let soon = until.saturating_sub(self.world.now()) < third * 2;
        if (self.home != Some(holding.sidecar.index) || holding.stream.is_none()) && soon {
            self.ask(holding, None).await;
        } else if random.chance(150) && !trouble::is_left_out("Extends") {
            let span = millis(random, 2_000, 90_000);
            self.ask(holding, Some(span)).await;
        } else if let Some(old) = &holding.left
            && random.chance(200)
        {
            // A call that went astray.
            let _ = old
                .call(self.index, old.coordinator.report_progress(holding.lease_id, false))
                .await;
        } else {
            self.world.state().checks.write(&holding.path, holding.token);
        }
    }

    /// Asks for its validity, or for another `max_hold`; false if it got no answer that says that it may go on.
    async fn ask(&self, holding: &mut Holding, extend: Option<Duration>) -> bool {
        let asked = self.world.now();
        let sidecar = holding.sidecar.clone();
        let lease_id = holding.lease_id;
        let work = async {
            let answer = match extend {
                Some(span) => sidecar.coordinator.extend(lease_id, span).await,
                None => sidecar.coordinator.report_progress(lease_id, false).await,
            };
            if let Ok(validity) = &answer {
                let told = sidecar.clock.true_time(&validity.valid_until);
                self.world.state().checks.told_by_call(holding.token, told);
            }
            answer
        };
        let answer = tokio::time::timeout(PATIENCE, sidecar.call(self.index, work)).await;
        let answer = answer.ok().flatten();
        if let Some(span) = extend.filter(|_| holding.renews) {
            let mut state = self.world.state();
            let bound = state.checks.bounds.get(&holding.token).copied();
            let new = asked + span;
            let new = match &answer {
                Some(Ok(_)) => new,
                // It may have been done.
                _ => bound.unwrap_or_default().min(new),
            };
            state.checks.bounds.insert(holding.token, new);
            drop(state);
            self.note(|| format!("extends {} to {new:?}: {}", holding.token, answer.is_some()));
        }
        let Some(Ok(validity)) = answer else { return false };
        if self.until(&sidecar, &validity, asked) <= self.world.now() {
            return false;
        }
        self.believe(holding, &validity, asked);
        true
    }

    /// Ends the hold, or goes on with it elsewhere.
    async fn finish(&self, holding: Holding, random: &mut SeededRandom) -> Option<Holding> {
        let local = self.home == Some(holding.sidecar.index);
        match random.below(10) {
            0..4 => self.release(holding, random).await,
            4..6 if holding.stream.is_some() => {
                self.believes_no_more(&holding);
                let how = if local { End::Closed } else { End::Silent };
                if let Some(stream) = holding.stream {
                    stream.end(how);
                }
            }
            6..9 if holding.stream.is_some() => return self.resume(holding, random).await,
            // It says nothing, and believes to the end of what it was told.
            _ => {
                if let Some(stream) = holding.stream {
                    self.note(|| format!("falls silent with {}", holding.token));
                    stream.breaks(millis(random, 0, 20_000));
                    let left = self.world.state().checks.believed_until(&holding.path, self.index);
                    let left = left.unwrap_or_default().saturating_sub(self.world.now());
                    tokio::time::sleep(left).await;
                } else {
                    self.release(holding, random).await;
                }
            }
        }
        None
    }

    async fn release(&self, holding: Holding, random: &mut SeededRandom) {
        self.believes_no_more(&holding);
        let at = match &holding.left {
            Some(left) if random.chance(300) => left.clone(),
            _ => holding.sidecar.clone(),
        };
        let (world, lease_id) = (&self.world, holding.lease_id);
        let work = async {
            let asked = world.now();
            let answer = at.coordinator.release(lease_id).await;
            let state = world.state();
            let done = matches!(answer, Ok(Released::Released | Released::Resting { .. }));
            let wrong =
                done.then(|| justice::released(&state, &holding.path, holding.token, asked));
            drop(state);
            if let Some(what) = wrong.flatten() {
                world.fail(what);
            }
            answer
        };
        let answer = tokio::time::timeout(PATIENCE * 3, at.call(self.index, work)).await;
        self.note(|| format!("released {} at {}: {answer:?}", holding.token, at.index));
        world.state().story.count(match &answer {
            Ok(Some(Ok(Released::Released))) => "release: released",
            Ok(Some(Ok(Released::Resting { .. }))) => "release: resting",
            Ok(Some(Ok(Released::AlreadyReleased))) => "release: released before",
            Ok(Some(Ok(Released::AlreadyLost { .. }))) => "release: lost before",
            Ok(Some(Err(_))) => "release: refused",
            Ok(None) | Err(_) => "release: no answer",
        });
        if random.chance(self.world.plan().client_faults) {
            // A repeat that comes late.
            let (sidecar, index) = (at.clone(), self.index);
            let later = millis(random, 0, 20_000);
            tokio::spawn(async move {
                tokio::time::sleep(later).await;
                let _ = sidecar.call(index, sidecar.coordinator.release(lease_id)).await;
            });
        }
        close(holding.stream);
    }

    /// Goes on with its hold at the same or another sidecar (S16).
    async fn resume(&self, holding: Holding, random: &mut SeededRandom) -> Option<Holding> {
        let mut to = self.pick(random);
        if trouble::is_left_out("Moves") {
            to = self.world.sidecar(holding.sidecar.index);
        }
        let Holding { sidecar, stream, path, token, resume_token, told, renews, .. } = holding;
        let Some(stream) = stream else { return None };
        stream.breaks(millis(random, 0, 15_000));
        let same_machine = self.home == Some(to.index);
        let told_valid_until = told.clone().filter(|_| same_machine);
        let request = ResumeRequest { resume_token: resume_token.clone(), told_valid_until };
        let moves = to.index != sidecar.index || to.life != sidecar.life;
        if moves && sidecar.is_alive() {
            self.world.state().moved.insert(token);
        }
        let asked = self.world.now();
        self.note(|| format!("resumes {token} at {}", to.index));
        let begun = to.call_surely(self.index, async { to.resume(&request, &path, token) }).await;
        let mut stream = match begun? {
            Ok(stream) => stream,
            Err(error) => {
                if matches!(
                    error,
                    CallError::TooManyHolds { .. } | CallError::TooManyWaiters { .. }
                ) {
                    self.world.fail(format!("S16: a limit refuses to resume {token}: {error}"));
                }
                return None;
            }
        };
        // Without an answer it neither releases nor cancels: the hold may go on there, or runs out.
        let patience = to.loses_reply(self.index).unwrap_or(PATIENCE);
        let begun = tokio::time::timeout(patience, self.begun(&mut stream)).await;
        let grant = match begun {
            Ok(Begun::Granted(grant)) => grant,
            Ok(Begun::Over) => {
                self.world.state().checks.believes_no_more(&path, self.index);
                close(Some(stream));
                return None;
            }
            Ok(Begun::Gone) | Err(_) => {
                stream.breaks(millis(random, 0, 5_000));
                return None;
            }
        };
        let mut resumed = self.holding(&to, Some(stream), &grant);
        resumed.renews = renews;
        resumed.left = Some(sidecar).filter(|_| moves);
        if self.world.has(Bug::ExtendForgotten) {
            resumed.resume_token = resume_token;
        }
        self.believe(&mut resumed, &grant.validity, asked);
        Some(resumed)
    }
}

fn close(stream: Option<Stream>) {
    if let Some(stream) = stream {
        stream.end(End::Closed);
    }
}

/// What is told next; never anything where there is no stream.
async fn next_of(stream: &mut Option<Stream>) -> Option<HoldEvent> {
    match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}
