//! Locks that are broken: by the product with its note, through a sidecar or not, and by other tools (S17,
//! S22).

use std::time::Duration;

use leasehold::hold::{Answer, Event};
use leasehold::lock::{FencingToken, LeaseId};
use leasehold::store::BreakPeriod;

use crate::kit::{millis, one_of};
use crate::simulation::chance::About;
use crate::simulation::due::{Break, Breaker, Delivery, Incoming, Seen};
use crate::simulation::planted::Bug;
use crate::simulation::story::Happening;
use crate::simulation::world::World;

/// How long, in milliseconds, the request of a break may be under way.
const LATEST: u64 = 6_000;
/// The period that another tool gives.
const FOREIGN: Duration = Duration::from_secs(5);

impl World {
    /// S17: a lock is broken by an operator who has looked at it, and whose request may be under way for
    /// long.
    pub(crate) fn break_somehow(&mut self, what: Happening, index: usize) {
        let seen = self.storage.seen(self.now);
        let number = self.number();
        let mut random = self.chance.of(About::Break, 1, number);
        let ours = |period| {
            let (by, seen) = (Breaker::Ours(period), seen.clone());
            Break { by, seen, through: None, given_up: false }
        };
        let soft = ours(BreakPeriod::RunOut);
        let slowly = millis(&mut random, 1, 1_500);
        match what {
            Happening::Break if self.plan.crossing.breaks > 0 => {
                self.after(slowly, Delivery::Breaks(soft));
            }
            Happening::Break => self.break_lock(soft),
            Happening::BreakTwice => {
                self.break_lock(soft);
                let later = millis(&mut random, 500, 9_000);
                // It is looked at again first.
                let again = Break { seen: None, ..ours(BreakPeriod::Now) };
                self.after(later, Delivery::Breaks(again));
            }
            Happening::BreakHere => {
                let period = one_of(
                    &mut random,
                    &[BreakPeriod::RunOut, BreakPeriod::RunOut, BreakPeriod::Now],
                );
                let late = random.chance(300).then(|| millis(&mut random, 1, LATEST));
                let mut here = self.begin_break(ours(period), index);
                if let Some(late) = late.filter(|_| random.chance(300)) {
                    let latest = u64::try_from(late.as_millis()).unwrap_or(LATEST);
                    self.give_up(&mut here, millis(&mut random, 1, latest));
                }
                self.after(late.unwrap_or(slowly / 10), Delivery::Breaks(here));
            }
            Happening::ForeignBreak => {
                let by = Breaker::Another(FOREIGN);
                self.break_lock(Break { by, ..soft });
            }
            _ => {
                let now = ours(BreakPeriod::Now);
                let late = random.chance(500).then(|| millis(&mut random, 1, LATEST));
                self.after(late.unwrap_or_default(), Delivery::Breaks(now));
            }
        }
    }

    /// A break through a sidecar, which knows of that from when the lock is looked at; one that is paused
    /// asks nothing.
    pub(crate) fn begin_break(&mut self, broken: Break, index: usize) -> Break {
        let sidecar = &self.sidecars[index];
        if sidecar.paused_until > self.now || self.storage.seen(self.now).is_none() {
            return broken;
        }
        let through = Some((index, sidecar.life));
        if self.bug != Some(Bug::BreakIsNotSaid) {
            self.feed(index, Event::BreakBegun);
        }
        Break { seen: self.standing(through), through, ..broken }
    }

    /// The sidecar through which a break goes gives it up after a while, and is told nothing more of it; it
    /// is on its way yet.
    pub(crate) fn give_up(&mut self, broken: &mut Break, after: Duration) {
        let Some((sidecar, life)) = broken.through else { return };
        broken.given_up = true;
        let may_arrive = self.bug != Some(Bug::LateBreakForgotten);
        let incoming = Incoming::Event(Event::BreakOver { may_arrive });
        self.after(after, Delivery::ToSidecar { sidecar, life, incoming });
    }

    /// The grant that stands, for who asks through that sidecar: it was handed on there, or is in the record
    /// (S10).
    fn standing(&self, through: Option<(usize, u32)>) -> Option<Seen> {
        let seen = self.storage.seen(self.now)?;
        let sidecar = through.map(|(index, life)| (&self.sidecars[index], life));
        let here = sidecar.filter(|(sidecar, life)| sidecar.life == *life);
        let here = here.and_then(|(sidecar, _)| Some(sidecar.machine.hold.holding()?.token));
        let epoch = |token: Option<FencingToken>| token.map(FencingToken::epoch);
        let here = here.filter(|here| epoch(Some(*here)) == epoch(seen.token));
        Some(Seen { token: here.max(seen.token), ..seen })
    }

    /// S17. Only a break that was asked to end the lease early may let two believe.
    pub(crate) fn break_lock(&mut self, asked: Break) {
        let Break { by, seen, through, given_up } = asked;
        let Some(seen) = seen.or_else(|| self.storage.seen(self.now)) else { return };
        let noted = seen.token;
        let by_bug = self.bug == Some(Bug::BreakNowByDefault);
        let period = match by {
            Breaker::Ours(BreakPeriod::RunOut) if by_bug => Breaker::Ours(BreakPeriod::Now),
            by => by,
        };
        let stands = self.standing(through);
        let epoch = |token: FencingToken| token.epoch();
        let broken = self.break_seen(period, seen);
        let ours = matches!(by, Breaker::Ours(_)) && broken.is_some();
        match stands {
            // A grant by a hand-off that is lost by now may be in no record: its lease is that of the record.
            Some(Seen { token, .. })
                if ours && (token > noted || token.map(epoch) != noted.map(epoch)) =>
            {
                let text = format!("S17: a break of {noted:?} has ended the lease of {token:?}");
                self.checks.fail(text);
            }
            _ => {}
        }
        let (soft, notices) = (by == Breaker::Ours(BreakPeriod::RunOut), &mut self.checks.notices);
        match (by, broken) {
            (Breaker::Ours(BreakPeriod::RunOut), Some(lease)) => notices.runs_out(lease, noted),
            (Breaker::Ours(BreakPeriod::Now), Some(lease)) => notices.ends(lease, self.now),
            (Breaker::Another(period), Some(lease)) => notices.ends(lease, self.now + period),
            (_, None) => {}
        }
        if !soft {
            self.checks.broken.extend(broken);
        }
        if let Some((sidecar, life)) = through.filter(|_| !given_up) {
            let to = |incoming| Delivery::ToSidecar { sidecar, life, incoming };
            let number = self.number();
            let delay = millis(&mut self.chance.of(About::Break, 2, number), 1, 40);
            if broken.is_some() {
                self.after(delay, to(Incoming::Broken { noted, ends_now: !soft }));
            }
            if self.bug != Some(Bug::BreakIsNotSaid) {
                let over = Event::BreakOver { may_arrive: false };
                self.after(delay, to(Incoming::Event(over)));
            }
        }
    }

    /// The lease that was broken, if the grant that was looked at stands still.
    fn break_seen(&mut self, by: Breaker, seen: Seen) -> Option<LeaseId> {
        let newest = self.storage.seen(self.now).map(|newest| newest.version);
        let as_it_is = |seen: &Seen| Seen {
            token: seen.token,
            version: newest.clone().unwrap_or_else(|| seen.version.clone()),
        };
        let truth = &mut self.checks.truth;
        match self.bug {
            Some(Bug::BreaksWithoutMatch) => {
                self.storage.break_lease((by, &as_it_is(&seen)), self.now, truth)
            }
            Some(Bug::BreaksWhatChanged) => {
                let broken = self.storage.break_lease((by, &seen), self.now, truth);
                broken.or_else(|| self.storage.break_lease((by, &as_it_is(&seen)), self.now, truth))
            }
            _ => self.storage.break_lease((by, &seen), self.now, truth),
        }
    }

    /// Whose lease it was is known by the token in the note, as the coordinator has it.
    pub(crate) fn broken_here(
        &mut self,
        index: usize,
        noted: Option<FencingToken>,
        ends_now: bool,
    ) {
        let holding = self.sidecars[index].machine.hold.holding();
        let epoch = holding.map(|holding| holding.token.epoch());
        if epoch.is_some() && epoch == noted.map(FencingToken::epoch) {
            self.feed(index, Event::LeaseBroken { ends_now });
            self.free(index, noted.filter(|_| ends_now));
        }
    }

    /// S13: the grant that an operator has ended at once, as a note says.
    pub(crate) fn free(&mut self, index: usize, grant: Option<FencingToken>) {
        if let Some(token) = grant {
            self.feed(index, Event::LockFreed { token });
        }
    }
}

/// The grant that the note in this answer says to have been ended at once.
pub(crate) fn freed_by(event: &Event) -> Option<FencingToken> {
    match event {
        Event::Answer { answer: Answer::Look(Ok(look)), .. } => {
            look.note.filter(|note| !note.runs_out)?.token
        }
        _ => None,
    }
}
