//! How those who wait are served: tries, hand-offs, and a grant that ends its wait everywhere (S29 to S32).

use std::sync::Arc;
use std::time::Duration;

use super::chooser::Candidate;
use super::{Action, Output, Pool};
use crate::hold::{
    self, Answer, Busy, CallerId, Event, Failure, Hold, Notice, Readiness, StoreFailure,
    StoreFailureKind, Stored, Terms, Waiter,
};
use crate::lock::{Permit, Permits};
use crate::record::Record;
use crate::time::Instant;

/// What is under way for whom, and what was found last.
#[derive(Clone, Debug, Default)]
pub(super) struct Serving {
    trial: Option<(Permit, CallerId)>,
    /// Who was met last, and why the store could not be asked last.
    busy: Option<(Permit, Busy)>,
    store_failure: Option<StoreFailure>,
}

impl Serving {
    pub(super) fn begin(&mut self) {
        *self = Self::default();
    }

    /// The permit that is tried, and for whom.
    pub(super) const fn trial(&self) -> Option<(Permit, CallerId)> {
        self.trial
    }

    pub(super) const fn end_trial(&mut self) {
        self.trial = None;
    }

    pub(super) const fn busy(&self) -> Option<&(Permit, Busy)> {
        self.busy.as_ref()
    }

    pub(super) const fn store_failure(&self) -> Option<&StoreFailure> {
        self.store_failure.as_ref()
    }

    fn found(&mut self, permit: Permit, busy: Busy) {
        self.store_failure = None;
        // Who holds a permit says more than a rest.
        if !busy.resting || self.busy.as_ref().is_none_or(|(_, former)| former.resting) {
            self.busy = Some((permit, busy));
        }
    }
}

/// A wait for who is entered where a permit is about to be released: it is withdrawn at once if it is not
/// handed on.
const OFFER: Duration = Duration::from_secs(1);

impl Pool {
    /// Does what can be done for those who wait: one request under way at a time (S31).
    pub(super) fn serve(&mut self, output: &mut Output) {
        loop {
            self.answer_one_tries(output);
            let Some(permit) = self.choose(output.now) else { break };
            self.try_for_first(permit, output);
        }
        self.tell_waiting(output);
    }

    /// For each permit the first of those who wait that may have it: who named fewer keeps nobody from the
    /// others.
    fn firsts(&self) -> Vec<(Permit, &Waiter)> {
        let mut firsts = Vec::new();
        let Some(shared) = &self.shared else { return firsts };
        for waiter in shared.waiters.each() {
            let more = waiter.terms.permits().each().skip(firsts.len());
            firsts.extend(more.map(|permit| (permit, waiter)));
            if firsts.len() >= usize::from(shared.greatest.get()) {
                break;
            }
        }
        firsts
    }

    /// The permits that can be tried, for whom, and from when on.
    fn candidates(&self) -> impl Iterator<Item = (Permit, &Waiter, Option<Instant>)> {
        self.firsts().into_iter().filter_map(move |(permit, first)| {
            let from = match self.readiness(permit) {
                Readiness::Idle { from } => from.filter(|_| !first.is_one_try()),
                // One try waits for the answer; who waits tries another meanwhile.
                Readiness::Releasing if first.is_one_try() => None,
                Readiness::Acquiring => None,
                Readiness::Releasing | Readiness::InUse => return None,
            };
            Some((permit, first, from))
        })
    }

    fn choose(&mut self, now: Instant) -> Option<Permit> {
        if self.shared.as_ref()?.serving.trial().is_some() {
            return None;
        }
        let mut candidates = Vec::new();
        for (permit, first, from) in self.candidates() {
            let machine = self.machines.get(permit);
            // S31: what is being acquired for somebody who has gone serves the next one.
            if machine
                .is_some_and(|hold| hold.readiness() == Readiness::Acquiring && hold.waiting() == 0)
            {
                return Some(permit);
            }
            if from.is_none_or(|from| from <= now) {
                let lease_duration = first.terms.lease_duration;
                let handed_on = machine.is_some_and(|hold| hold.is_handed_on(lease_duration, now));
                candidates.push(Candidate { permit, handed_on });
            }
        }
        let cap = self.machines.settings().poll_cap;
        let shared = self.shared.as_mut()?;
        let (chooser, permits) = (&mut shared.chooser, shared.greatest);
        if chooser.pauses(now) {
            return None;
        }
        let chosen = match chooser.untried(&candidates, permits) {
            Some(permit) => permit,
            None if !chooser.may_go_round(now) => return None,
            None => chooser.paced(&candidates, permits)?,
        };
        let any_handed_on = candidates.iter().any(|candidate| candidate.handed_on);
        chooser.begins(chosen, any_handed_on, cap, now);
        Some(chosen)
    }

    /// When the next try may begin; none if only an event brings one.
    pub(super) fn next_try_at(&self) -> Option<Instant> {
        let shared = self.shared.as_ref()?;
        if shared.serving.trial().is_some() {
            return None;
        }
        let next = |(permit, _, from): (Permit, &Waiter, Option<Instant>)| {
            shared.chooser.next_at(permit).max(from.unwrap_or_default())
        };
        self.candidates().map(next).min()
    }

    /// Enters the first who may have it into the machine of `permit`, as a caller that tries once.
    fn try_for_first(&mut self, permit: Permit, output: &mut Output) {
        let Some(shared) = &mut self.shared else { return };
        let Some(first) = shared.first_for(permit) else { return };
        let (caller, terms) = (first.caller, &first.terms);
        // S10, S31: other sidecars learn from the record that somebody else waits here.
        let record =
            Record { handed_on: shared.waiters.will_be_handed_on(), ..terms.record.clone() };
        let terms = Arc::new(Terms { wait: Duration::ZERO, record, ..Terms::clone(terms) });
        shared.serving.trial = Some((permit, caller));
        self.feed(permit, Event::CallerArrived { caller, terms }, output);
    }

    /// Feeds what ends a hold here: the first caller whose permit this can be is entered before, so that it
    /// is handed the permit without a request (S30), and withdrawn after if it was not.
    pub(super) fn feed_ending(&mut self, permit: Permit, event: Event, output: &mut Output) {
        let Some(waiter) = self.offer(permit, output.now) else {
            return self.feed(permit, event, output);
        };
        let caller = waiter.caller;
        self.machines.enter(permit, waiter, output.now);
        self.feed(permit, event, output);
        if self.is_queued(caller) {
            self.feed(permit, Event::CallerLeft { caller }, output);
        }
    }

    /// Whether the hold of `permit` ends with the save that is under way.
    pub(super) fn saves_last(&self, permit: Permit) -> bool {
        self.machines.get(permit).is_some_and(Hold::is_saving_last)
    }

    fn offer(&self, permit: Permit, now: Instant) -> Option<Waiter> {
        let shared = self.shared.as_ref()?;
        if self.readiness(permit) != Readiness::InUse
            || shared.serving.trial().is_some_and(|(tried, _)| tried == permit)
        {
            return None;
        }
        let first = shared.first_for(permit)?;
        let wait = first.terms.wait.max(OFFER);
        let terms = Arc::new(Terms { wait, ..Terms::clone(&first.terms) });
        // S12: it has its place among those who name one permit, and wait for this one, by when it came.
        Some(Waiter::new(first.caller, terms, now).waiting_since(first.since))
    }

    pub(super) fn is_queued(&self, caller: CallerId) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.waiters.contains(caller))
    }

    /// Feeds the machine of `permit`, and takes in what it says of the pool's callers.
    pub(super) fn feed(&mut self, permit: Permit, event: Event, output: &mut Output) {
        let refused = is_refused(&event);
        if let (Some(shared), Some(free)) = (&mut self.shared, seen_free(&event)) {
            shared.chooser.seen(permit, free);
        }
        for action in self.machines.handle_event(permit, event, output.now) {
            self.tell(permit, action, refused, output);
        }
        let readiness = self.readiness(permit);
        if let Some(shared) = &mut self.shared {
            match readiness {
                Readiness::InUse => shared.chooser.held(permit),
                Readiness::Idle { .. } => shared.chooser.idle(permit),
                Readiness::Acquiring | Readiness::Releasing => {}
            }
        }
    }

    /// Passes on what a machine tells, but for what concerns the pool's callers only as callers of that
    /// machine.
    fn tell(&mut self, permit: Permit, action: hold::Action, refused: bool, output: &mut Output) {
        if let hold::Action::Tell { caller, notice } = &action
            && self.is_queued(*caller)
        {
            let caller = *caller;
            match notice {
                Notice::Granted(_) => {
                    output.push(permit, action);
                    return self.granted(permit, caller, output);
                }
                Notice::Busy(busy) => {
                    return self.try_failed(permit, caller, Ok(busy.clone()), output);
                }
                Notice::Failed(store_failure) => {
                    let why = Err((store_failure.clone(), refused));
                    return self.try_failed(permit, caller, why, output);
                }
                Notice::Waiting { .. } => return,
                Notice::SameGrant { .. }
                | Notice::Settled { .. }
                | Notice::Superseded { .. }
                | Notice::Moved
                | Notice::Interrupted
                | Notice::Renewed { .. }
                | Notice::Extended { .. }
                | Notice::AtRisk { .. }
                | Notice::Recovered { .. }
                | Notice::Revoked { .. }
                | Notice::Draining { .. }
                | Notice::Lost { .. }
                | Notice::ResumeRefused { .. }
                | Notice::Released { .. }
                | Notice::NotConfirmed { .. } => {}
            }
        }
        output.push(permit, action);
    }

    /// S32: its wait is over, in every machine, before anything else happens.
    fn granted(&mut self, permit: Permit, caller: CallerId, output: &mut Output) {
        let Some(shared) = &mut self.shared else { return };
        shared.waiters.remove(caller);
        shared.serving.store_failure = None;
        match shared.serving.trial {
            Some((tried, tried_for)) if tried_for == caller => {
                shared.serving.trial = None;
                if tried != permit {
                    self.feed(tried, Event::CallerLeft { caller }, output);
                }
            }
            Some(_) | None => {}
        }
    }

    fn try_failed(
        &mut self,
        permit: Permit,
        caller: CallerId,
        why: Result<Busy, (StoreFailure, bool)>,
        output: &mut Output,
    ) {
        let cap = self.machines.settings().poll_cap;
        let Some(shared) = &mut self.shared else { return };
        if shared.serving.trial != Some((permit, caller)) {
            return;
        }
        shared.serving.trial = None;
        match why {
            Ok(busy) => {
                shared.chooser.failed(permit);
                shared.serving.found(permit, busy);
            }
            Err((store_failure, refused)) => {
                shared.chooser.failed(permit);
                shared.serving.store_failure = Some(store_failure.clone());
                // What the store refuses now it refuses for every permit and caller; a token that cannot be
                // read or would not grow is this permit's own.
                match (refused, is_of_one_path(store_failure.kind)) {
                    (true, _) => self.fail_all(&store_failure, output),
                    (false, false) => {
                        let asked = store_failure.retry_after.unwrap_or_default().min(cap);
                        let front = shared.waiters.front();
                        let lease_duration =
                            front.map_or(Duration::ZERO, |front| front.terms.lease_duration);
                        shared.chooser.pause(lease_duration, asked, output.now);
                        self.fail_one_tries(&store_failure, output);
                    }
                    (false, true) => {}
                }
            }
        }
    }

    /// S29: a record of somebody who holds a permit names another number than callers here.
    pub(super) fn compare_stored(&mut self, event: &Event, output: &mut Output) {
        let Some(stored) = stored_elsewhere(event).filter(|stored| !stored.free) else { return };
        let record = Record::from_fields(&stored.fields);
        if record.lease.is_some() {
            let others = record.permits.unwrap_or(Permits::ONE);
            let ours = self.shared.as_ref().map_or(Permits::ONE, |shared| shared.permits);
            self.compare(others, ours, output);
        }
    }

    /// S29: a caller names another number than those who are here.
    pub(super) fn compare_named(&mut self, ours: Permits, output: &mut Output) {
        let former =
            self.shared.as_mut().map(|shared| std::mem::replace(&mut shared.permits, ours));
        let held: Vec<Permits> =
            self.holdings().map(|(_, holding)| holding.terms.permits()).collect();
        for others in former.into_iter().chain(held) {
            self.compare(others, ours, output);
        }
    }

    /// Reports each other number once.
    fn compare(&mut self, others: Permits, ours: Permits, output: &mut Output) {
        let bit = 1 << (others.get() - 1);
        if others != ours && self.reported & bit == 0 {
            self.reported |= bit;
            output.actions.push(Action::ReportPermitsDiffer { others, ours });
        }
    }
}

/// Whether a failure is about the record of one path: the other permits may do (S5).
const fn is_of_one_path(kind: StoreFailureKind) -> bool {
    matches!(kind, StoreFailureKind::TokenNotGrowing | StoreFailureKind::TokenUnreadable)
}

/// Whether the store has refused what is asked, for a reason that trying again will not mend.
const fn is_refused(event: &Event) -> bool {
    matches!(
        event,
        Event::Answer {
            answer: Answer::Acquire { lease: Err(Failure::Refused(_)), .. }
                | Answer::Write(Err(Failure::Refused(_)))
                | Answer::Read(Err(Failure::Refused(_))),
            ..
        }
    )
}

/// The record that was read while another had the permit.
const fn stored_elsewhere(event: &Event) -> Option<&Stored> {
    if let Event::Answer {
        answer:
            Answer::Read(Ok(stored))
            | Answer::Acquire { lease: Err(Failure::Contended), read: Some(Ok(stored)), .. },
        ..
    } = event
    {
        return Some(stored);
    }
    None
}

/// What an answer says of whether somebody has the permit; none if it says nothing.
const fn seen_free(event: &Event) -> Option<bool> {
    if let Event::Answer { answer: Answer::Read(Ok(stored)), .. } = event {
        return Some(stored.free);
    }
    let contended = matches!(
        event,
        Event::Answer { answer: Answer::Acquire { lease: Err(Failure::Contended), .. }, .. }
    );
    if contended { Some(false) } else { None }
}
