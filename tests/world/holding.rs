//! What a client does with its hold: uses it, asks for its validity, extends it, goes on with it elsewhere,
//! ends it.

use std::time::Duration;

use leasehold::coordinator::{Extended, HeldEvent, HoldEvent, Released, Validity};
use leasehold::testing::SeededRandom;

use crate::kit::millis;
use crate::world::client::{Client, Holding, PATIENCE};
use crate::world::hand_over::TICK;
use crate::world::losses;
use crate::world::notices;
use crate::world::planted::Bug;
use crate::world::resuming::is_to_come_again;
use crate::world::sidecar::{End, Stream};
use crate::world::trouble;

/// What an event means to a holder.
enum Heard {
    GoesOn,
    EndsSoon,
    /// Its sidecar is being replaced (S15).
    Interrupted,
    Over,
}

impl Client {
    /// Goes about its business for this long, and ends the hold in one way or another.
    pub(crate) async fn follow(
        &self,
        mut holding: Holding,
        span: Duration,
        random: &mut SeededRandom,
    ) {
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
                    match self.hears(&mut holding, event, now) {
                        Heard::GoesOn => {}
                        Heard::EndsSoon => ends = self.world.now() + millis(random, 0, 20_000),
                        // It comes back at once: what is left to it may be half of its validity.
                        Heard::Interrupted => match self.resume(holding, random).await {
                            Some(resumed) => holding = resumed,
                            None => return,
                        },
                        Heard::Over => {
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

    fn hears(&self, holding: &mut Holding, event: HoldEvent, now: Duration) -> Heard {
        match event {
            HoldEvent::Held(
                HeldEvent::Renewed(validity)
                | HeldEvent::Recovered(validity)
                | HeldEvent::AtRisk { validity, .. },
            ) => {
                self.hears_validity(holding, &validity, now);
                Heard::GoesOn
            }
            HoldEvent::Held(HeldEvent::Extended(extended)) => {
                self.keeps(holding, extended.resume_token);
                self.hears_validity(holding, &extended.validity, now);
                Heard::GoesOn
            }
            HoldEvent::Held(HeldEvent::Revoked { .. }) => {
                holding.revoked = true;
                Heard::EndsSoon
            }
            HoldEvent::Held(HeldEvent::Draining { .. }) => Heard::EndsSoon,
            HoldEvent::Failed(error) if is_to_come_again(&error) => Heard::Interrupted,
            _ => Heard::Over,
        }
    }

    /// The newest resume token, as long as there is one.
    fn keeps(&self, holding: &mut Holding, resume_token: String) {
        if !resume_token.is_empty() && !self.world.has(Bug::ExtendForgotten) {
            holding.resume_token = resume_token;
        }
    }

    pub(crate) fn hears_validity(&self, holding: &mut Holding, validity: &Validity, now: Duration) {
        if self.home == Some(holding.sidecar.index) && self.believes(holding).is_some() {
            self.believe(holding, validity, now);
        }
    }

    async fn act(
        &self,
        holding: &mut Holding,
        (until, third): (Duration, Duration),
        random: &mut SeededRandom,
    ) {
        self.save(holding).await;
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
            let (lease_id, generation) = (holding.lease_id, Some(holding.generation));
            let astray = old.coordinator.report_progress(lease_id, generation);
            let _ = old.call(self.index, astray).await;
        } else {
            self.writes(holding);
        }
    }

    /// Writes to the resource, if it still may: what it did before took its time.
    fn writes(&self, holding: &Holding) {
        if self.believes(holding).is_none() {
            return;
        }
        let now = self.world.now();
        let mut state = self.world.state();
        state.checks.write(&holding.path, holding.token);
        let wrong = notices::acts(&state, &holding.key(), now);
        drop(state);
        self.world.fail_if(wrong);
    }

    /// Asks for its validity, or for another `max_hold`; false if it got no answer that says that it may go
    /// on.
    pub(crate) async fn ask(&self, holding: &mut Holding, extend: Option<Duration>) -> bool {
        let asked = self.world.now();
        let sidecar = holding.sidecar.clone();
        let (lease_id, generation) = (holding.lease_id, Some(holding.generation));
        if let Some(span) = extend.filter(|_| holding.renews) {
            // From now on it may have been done, and be felt before the answer comes.
            let mut state = self.world.state();
            let bound = state.checks.bounds.entry(holding.key()).or_default();
            *bound = (*bound).min(asked + span);
        }
        let work = async {
            let answer = match extend {
                Some(span) => sidecar.coordinator.extend(lease_id, generation, span).await,
                None => {
                    let asked = sidecar.coordinator.report_progress(lease_id, generation);
                    let none = String::new();
                    let extended =
                        |validity| Extended { validity, resume_token: none, max_hold_ends: None };
                    asked.await.map(extended)
                }
            };
            if let Ok(extended) = &answer {
                let told = sidecar.clock.true_time(&extended.validity.valid_until);
                let mut state = self.world.state();
                state.checks.told_by_call(holding.key(), told);
                notices::promised(&mut state, holding.key(), told);
                let progress = state.checks.progress.get_mut(&holding.key());
                if let Some((_, reported)) = progress.filter(|_| extend.is_none()) {
                    *reported = asked;
                }
            }
            answer
        };
        let answer = tokio::time::timeout(PATIENCE, sidecar.call(self.index, work)).await;
        let answer = answer.ok().flatten();
        if let Some(span) = extend.filter(|_| holding.renews) {
            let new = asked + span;
            if let Some(Ok(_)) = &answer {
                self.world.state().checks.bounds.insert(holding.key(), new);
            }
            self.note(|| format!("extends {} to {new:?}: {}", holding.token, answer.is_some()));
        }
        let Some(Ok(Extended { validity, resume_token, .. })) = answer else { return false };
        self.keeps(holding, resume_token);
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
            // After a notice that is what frees the lock at once (S22).
            _ if holding.revoked => self.release(holding, random).await,
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

    async fn release(&self, mut holding: Holding, random: &mut SeededRandom) {
        self.believes_no_more(&holding);
        let at = match &holding.left {
            Some(left) if random.chance(300) => left.clone(),
            _ => holding.sidecar.clone(),
        };
        let is_here = (at.index, at.life) == (holding.sidecar.index, holding.sidecar.life);
        let (world, lease_id) = (&self.world, holding.lease_id);
        let generation = Some(holding.generation);
        let work = async {
            let asked = world.now();
            world.state().released.insert(holding.key());
            let answer = self.release_at(&at, &mut holding, asked).await;
            let rests = matches!(answer, Ok(Released::Resting { .. }));
            let done = rests || matches!(answer, Ok(Released::Released));
            let judge = |kept| {
                let (state, path) = (world.state(), &holding.path);
                let kept = kept || state.checks.was_handed_on(path, holding.token);
                losses::released(&state, (at.index, path), (holding.token, kept), asked)
            };
            let mut wrong = done.then(|| judge(rests)).flatten();
            if wrong.is_some() && judge(true).is_none() {
                // S10: who it was handed on to is told just after.
                tokio::time::sleep(TICK).await;
                wrong.take_if(|_| world.state().checks.was_handed_on(&holding.path, holding.token));
            }
            world.fail_if(wrong);
            if let Err(error) = &answer
                && !is_to_come_again(error)
                && is_here
                && at.is_alive()
            {
                world.fail(format!("S13: the release of {} is refused: {error}", holding.token));
            }
            answer
        };
        let answer = tokio::time::timeout(PATIENCE * 3, at.call(self.index, work)).await;
        self.note(|| format!("released {} at {}: {answer:?}", holding.token, at.index));
        world.state().story.count(match &answer {
            Ok(Some(Ok(Released::Released))) => "release: released",
            Ok(Some(Ok(Released::Resting { .. }))) => "release: resting",
            Ok(Some(Ok(Released::NotConfirmed))) => "release: not confirmed",
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
                let _ =
                    sidecar.call(index, sidecar.coordinator.release(lease_id, generation)).await;
            });
        }
        close(holding.stream);
    }
}

pub(crate) fn close(stream: Option<Stream>) {
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
