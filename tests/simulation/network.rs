//! Between a sidecar and the store, and what happens to either.

use std::time::Duration;

use leasehold::hold::{Action, Answer, Event, Request, StoreFailureKind};

use crate::kit::millis;
use crate::kit::store::{failed, unanswered, unknown};
use crate::simulation::chance::About;
use crate::simulation::due::{Delivery, Incoming};
use crate::simulation::plan::Mode;
use crate::simulation::promises::Look;
use crate::simulation::world::World;

/// The latest that a message comes.
pub(crate) const LATEST: Duration = Duration::from_secs(45);

impl World {
    /// Sends a request to the store; gives the action back if it is none.
    pub(crate) fn send(&mut self, index: usize, action: Action) -> Option<Action> {
        let Some(unanswered) = unanswered(&action) else {
            return Some(action);
        };
        let (now, calm, plan) = (self.now, self.calm, self.plan);
        let sidecar = &mut self.sidecars[index];
        sidecar.requests += 1;
        let (life, number) = (sidecar.life, sidecar.requests);
        if self.waits_for_its_turn(index, number, &action) {
            return None;
        }
        let sidecar = &self.sidecars[index];
        let refused = match () {
            () if sidecar.denied_until > now => Some(StoreFailureKind::Denied),
            () if sidecar.throttled_until > now => Some(StoreFailureKind::Throttled),
            () => None,
        };
        let cut_off = sidecar.cut_off_until > now;
        let delay = self.delay(About::DelayRequest, index, number);
        let sound = calm || plan.mode != Mode::Everything;
        let rate = |rate| if sound { 0 } else { rate };
        let whose = (index, number);
        if let Some(kind) = refused
            && let Some(event) = failed(&action, unknown(kind))
        {
            // S8: a 503 does not tell whether the request was done.
            let done = kind == StoreFailureKind::Throttled
                && self.chance.fault(About::DoneThrottled, whose, rate(200)).is_some();
            if done {
                let (action, heard) = (Box::new(action), false);
                let delivery =
                    Delivery::ToStore { sidecar: index, life, action, number, heard, sent: now };
                self.after(delay, delivery);
            }
            let incoming = Incoming::Event(event);
            self.after(delay, Delivery::ToSidecar { sidecar: index, life, incoming });
            return None;
        }
        let reset = self.chance.fault(About::Reset, whose, rate(40));
        if let Some(mut random) = reset.clone() {
            let delay = millis(&mut random, 1, 3_000);
            let incoming = Incoming::Event(unanswered);
            self.after(delay, Delivery::ToSidecar { sidecar: index, life, incoming });
        }
        let heard = reset.is_none();
        if let Some(mut random) = self.chance.fault(About::RepeatRequest, whose, rate(plan.repeat))
        {
            let delay = millis(&mut random, 1, 45_000);
            let action = Box::new(action.clone());
            let heard = false;
            let delivery =
                Delivery::ToStore { sidecar: index, life, action, number, heard, sent: now };
            self.after(delay, delivery);
        }
        let lost = self.chance.fault(About::LoseRequest, whose, rate(plan.lose_request));
        if lost.is_none() && !cut_off {
            let delay = self.held_up(&action, whose).unwrap_or(delay);
            let action = Box::new(action);
            let delivery =
                Delivery::ToStore { sidecar: index, life, action, number, heard, sent: now };
            self.after(delay, delivery);
        }
        None
    }

    /// How long a record write is held up, if it is: it has been repeated by then, or given up (S13).
    fn held_up(&mut self, action: &Action, whose: (usize, u64)) -> Option<Duration> {
        let is_write = matches!(action, Action::Store { what: Request::Write { .. }, .. });
        let rate = if self.calm || !is_write { 0 } else { self.plan.crossing.late_writes };
        let mut random = self.chance.fault(About::LateWrite, whose, rate)?;
        Some(millis(&mut random, 3_000, 45_000))
    }

    pub(crate) fn reach_store(
        &mut self,
        (sidecar, life): (usize, u32),
        action: &Action,
        (number, heard): (u64, bool),
        sent: Duration,
    ) {
        let before = self.storage.seen(self.now).and_then(|seen| seen.token);
        let event = self.storage.apply(action, self.now, &mut self.checks.truth);
        self.check_written(before, (action, &event));
        self.note_overruled();
        if let Some(violation) = self.storage.violation.take() {
            self.checks.fail(violation);
        }
        let former = self.sidecars[sidecar].life != life;
        let look = Look { former, heard, ..self.look(sidecar) };
        self.checks.reached(look, (action, &event), sent);
        self.checks.notices.looked(look, &event, self.storage.newest_lease());
        self.story.count_answer(&event);
        self.story.note(self.now, || format!("store       {action:?} of {sidecar}: {event:?}"));
        let rate = if self.calm { 0 } else { self.plan.lose_answer };
        let lost = self.chance.fault(About::LoseAnswer, (sidecar, number), rate);
        if heard && lost.is_none() {
            let delay = self.delay(About::DelayAnswer, sidecar, number);
            let delay = self.slowly(&event, (sidecar, number)).unwrap_or(delay);
            let incoming = Incoming::Answer(event, self.storage.date(self.now));
            self.after(delay, Delivery::ToSidecar { sidecar, life, incoming });
        }
    }

    /// How long the answer to a renewal takes that comes after its time-out, and after the next one was sent
    /// (S2).
    fn slowly(&mut self, event: &Event, whose: (usize, u64)) -> Option<Duration> {
        let is_renewal = matches!(event, Event::Answer { answer: Answer::Renew(_), .. });
        let rate = if self.calm || !is_renewal { 0 } else { self.plan.crossing.slow_answers };
        let mut random = self.chance.fault(About::SlowAnswer, whose, rate)?;
        Some(millis(&mut random, 2_500, 12_000))
    }

    /// How long a message takes.
    fn delay(&mut self, about: About, whose: usize, number: u64) -> Duration {
        let rate = if self.calm { 0 } else { self.plan.delay };
        match self.chance.fault(about, (whose, number), rate) {
            Some(mut random) => {
                let most = if random.chance(500) { 3_000 } else { 45_000 };
                millis(&mut random, 300, most)
            }
            None => {
                let slowest = if self.plan.mode == Mode::Nothing { 6 } else { 40 };
                millis(&mut self.chance.of(About::Delay, whose + 1, number * 2), 1, slowest)
            }
        }
    }
}
