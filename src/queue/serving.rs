//! Which caller each permit is to be had for (`candidate`; their order is in `waiters.rs`), and what its
//! tries come to: tries, hand-offs, and a grant that ends its wait everywhere (S29 to S32).

use std::sync::Arc;

use super::chooser::Choice;
use super::waiters::Kind;
use super::{Action, Output, Pooled, Queue};
use crate::hold::{
    self, Answer, Busy, CallerId, Candidate, Effect, Event, Failure, Notice, Readiness,
    StoreFailure, StoreFailureKind, Stored, Tried, Waiter,
};
use crate::lock::{Permit, Permits};
use crate::record::Record;
use crate::time::Instant;

impl Queue {
    /// Does what can be done for the callers that wait: one request under way at a time where the queue keeps
    /// the pace (S31).
    pub(super) fn serve(&mut self, output: &mut Output) {
        loop {
            self.offer_changed(output);
            self.answer_one_tries(output);
            // What was offered may have ended waits.
            self.update_trials();
            let Some(permit) = self.choose(output.now) else { break };
            if let Some(pooled) = &mut self.pooled {
                pooled.trials.insert(permit);
            }
            self.advance(permit, output);
        }
        self.tell_waiting(output);
    }

    /// Whether the machine of this permit keeps the pace of its tries itself, as one poller of a lock path
    /// does (S12): callers wait for this path and no other.
    pub(super) fn has_own_pace(&self, permit: Permit) -> bool {
        permit == Permit::FIRST && self.waiters.has(Kind::Plain)
    }

    /// For whom this permit is to be had now, and whether one try waits for it: where it is held here, for
    /// the first that may have it, so that it is handed on without a request (S30); else for whom it is
    /// tried.
    fn wanted(&self, permit: Permit) -> Option<(&Waiter, bool)> {
        let is_tried = self.is_tried_now(permit);
        if self.has_own_pace(permit) {
            return Some((self.waiters.front()?, self.waiters.has_one_try()));
        }
        if !is_tried && self.readiness(permit) != Readiness::InUse {
            return None;
        }
        Some((self.waiters.first_for(permit)?, is_tried))
    }

    /// The same, as its machine is told.
    pub(super) fn candidate(&mut self, permit: Permit) -> Option<Candidate> {
        let (waiter, has_one_try) = self.wanted(permit)?;
        let (waiter, paced) = (waiter.clone(), !self.has_own_pace(permit));
        Some(Candidate {
            has_one_try,
            others_wait: self.waiters.others_wait(permit, &waiter),
            paced,
            rivals: if paced { Arc::default() } else { self.waiters.rivals() },
            waiter,
        })
    }

    /// A permit is tried while the queue keeps the pace of its tries and a caller waits that may have it.
    /// What is being acquired for a caller that has gone is tried for the next (S31).
    fn update_trials(&mut self) {
        if self.pooled.is_none() {
            return;
        }
        let is_tried = |permit: &Permit| {
            (self.is_tried_now(*permit) || self.readiness(*permit) == Readiness::Acquiring)
                && !self.has_own_pace(*permit)
                && self.waiters.first_for(*permit).is_some()
        };
        let trials = self.machines.permits().into_iter().filter(is_tried).collect();
        if let Some(pooled) = &mut self.pooled {
            pooled.trials = trials;
        }
    }

    /// Offers each permit to whom it is to be had for, where that has changed.
    fn offer_changed(&mut self, output: &mut Output) {
        self.update_trials();
        for permit in self.machines.permits() {
            let wanted = self.wanted(permit).map(|(waiter, one_try)| (waiter.caller, one_try));
            let machine = self.machines.get(permit);
            if machine.is_some_and(|machine| !machine.is_to_be_had_for(wanted)) {
                self.advance(permit, output);
            }
        }
    }

    /// Feeds the machine of `permit`, and takes in what comes of it.
    pub(super) fn feed(&mut self, permit: Permit, event: Event, output: &mut Output) {
        if let (Some(pooled), Some(free)) = (&mut self.pooled, seen_free(&event)) {
            pooled.chooser.seen(permit, free);
        }
        // S4: what time has ended is over before what came in is looked at.
        let goes_first = comes_first(&event);
        if !goes_first {
            self.advance(permit, output);
        }
        let effects = self.machines.handle_event(permit, event, output.now);
        self.carry_out(permit, effects, output);
        if goes_first {
            self.answer_overdue(output);
        }
        self.advance(permit, output);
    }

    /// Does what is due at `permit`, for whom it is to be had then.
    pub(super) fn advance(&mut self, permit: Permit, output: &mut Output) {
        loop {
            let candidate = self.candidate(permit);
            let effects = self.machines.advance(permit, candidate, output.now);
            let rests = effects.is_empty();
            self.carry_out(permit, effects, output);
            if !self.refuse_known(permit, output) && rests {
                break;
            }
        }
        let readiness = self.readiness(permit);
        if let Some(pooled) = &mut self.pooled {
            match readiness {
                Readiness::InUse => pooled.chooser.held(permit),
                Readiness::Idle { .. } => pooled.chooser.idle(permit),
                Readiness::Acquiring | Readiness::Releasing => {}
            }
        }
    }

    fn carry_out(&mut self, permit: Permit, effects: Vec<Effect>, output: &mut Output) {
        for effect in effects {
            match effect {
                Effect::Act(action) => {
                    if let hold::Action::Tell { caller, notice } = &action
                        && matches!(notice, Notice::Granted(_) | Notice::Settled { .. })
                    {
                        self.served(permit, *caller);
                    }
                    output.push(permit, action);
                }
                Effect::Tried(tried) => self.tried(permit, tried, output),
            }
        }
    }

    /// S32: its wait is over, in every machine, before anything else happens.
    fn served(&mut self, permit: Permit, caller: CallerId) {
        if self.waiters.remove(caller)
            && let Some(pooled) = &mut self.pooled
        {
            pooled.store_failure = None;
            pooled.trials.remove(&permit);
        }
    }

    /// A try at `permit` is over, or the lock was granted there: what those that wait for it are told.
    fn tried(&mut self, permit: Permit, tried: Tried, output: &mut Output) {
        let is_first = permit == Permit::FIRST;
        let is_trial = self.is_trial(permit);
        match tried {
            Tried::Taken => {
                if is_first {
                    self.tell_taken(output);
                }
                let machine = self.machines.get(permit).filter(|_| is_trial);
                if let Some(busy) = machine.map(|machine| machine.busy(output.now)) {
                    self.found_taken(permit, busy);
                }
            }
            Tried::Failed(store_failure) => {
                if is_first {
                    self.fail_one_tries(Kind::Plain, &store_failure, output);
                }
                // A poll of those that name one permit has failed, or a release: that says nothing of others.
                if self.is_tried_now(permit) {
                    self.trial_failed(permit, store_failure, output);
                } else if is_trial {
                    self.trial_refused(permit, store_failure);
                }
            }
            Tried::Refused(store_failure) => {
                if is_first {
                    self.fail_all(Kind::Plain, &store_failure, output);
                }
                // What the store refuses now it refuses for every permit and caller; a token that cannot be
                // read or would not grow is this permit's own.
                if is_trial && !is_of_one_path(store_failure.kind) {
                    self.fail_all(Kind::Pooled, &store_failure, output);
                } else if is_trial {
                    self.trial_refused(permit, store_failure);
                }
            }
        }
    }

    /// The lock is another caller's: one try is over, and the others wait.
    fn tell_taken(&mut self, output: &mut Output) {
        while let Some(waiter) = self.waiters.pop_one_try(Kind::Plain) {
            let busy = self.machines.first().busy_for(&waiter, output.now);
            output.tell(waiter.caller, Notice::Busy(Box::new(busy)));
        }
        self.tell_untold(Kind::Plain, output);
    }

    /// Whether what becomes of this permit is what callers wait for that name more than one.
    fn is_trial(&self, permit: Permit) -> bool {
        self.is_tried_now(permit) || self.has_own_pace(permit) && self.waiters.has(Kind::Pooled)
    }

    fn is_tried_now(&self, permit: Permit) -> bool {
        self.pooled.as_ref().is_some_and(|pooled| pooled.trials.contains(&permit))
    }

    /// What is known of `permit` is the answer to a try there.
    pub(super) fn end_known_trial(&mut self, permit: Permit, output: &mut Output) -> bool {
        let is_untold = |pooled: &Pooled| {
            let is_found = pooled.chooser.is_tried(permit);
            pooled.trials.contains(&permit)
                || !is_found && self.readiness(permit) != Readiness::InUse
        };
        if !self.is_trial(permit) || !self.pooled.as_deref().is_some_and(is_untold) {
            return false;
        }
        let (Some(machine), Some(first)) =
            (self.machines.get(permit), self.waiters.first_for(permit))
        else {
            return false;
        };
        let busy = machine.busy(output.now);
        if let Notice::Failed(store_failure) = machine.refusal(first, output.now) {
            self.trial_failed(permit, store_failure, output);
        } else {
            self.found_taken(permit, busy);
        }
        true
    }

    fn found_taken(&mut self, permit: Permit, busy: Busy) {
        let Some(pooled) = &mut self.pooled else { return };
        pooled.end_trial(permit);
        pooled.store_failure = None;
        // A holder of a permit says more than a rest.
        if !busy.resting || pooled.busy.as_ref().is_none_or(|(_, former)| former.resting) {
            pooled.busy = Some((permit, busy));
        }
    }

    fn trial_refused(&mut self, permit: Permit, store_failure: StoreFailure) {
        let Some(pooled) = &mut self.pooled else { return };
        pooled.end_trial(permit);
        pooled.store_failure = Some(store_failure);
    }

    fn trial_failed(&mut self, permit: Permit, store_failure: StoreFailure, output: &mut Output) {
        let cap = self.machines.settings().poll_cap;
        let asked = store_failure.retry_after.unwrap_or_default().min(cap);
        let front = self.waiters.front();
        let lease_duration = front.map(|front| front.terms.lease_duration).unwrap_or_default();
        if let Some(pooled) = &mut self.pooled {
            pooled.chooser.pause(lease_duration, asked, output.now);
        }
        self.fail_one_tries(Kind::Pooled, &store_failure, output);
        self.trial_refused(permit, store_failure);
    }

    /// The permits that can be tried, each for the first that may have it, and from when on: a caller that
    /// names fewer keeps no other from the rest.
    fn candidates(&self) -> impl Iterator<Item = (Permit, &Waiter, Option<Instant>)> {
        let pooled = self.pooled.as_ref().filter(|_| self.waiters.has(Kind::Pooled));
        let permits = pooled.into_iter().flat_map(|pooled| pooled.greatest.each());
        let paced = permits.filter(move |permit| !self.has_own_pace(*permit));
        let firsts =
            paced.filter_map(move |permit| Some((permit, self.waiters.first_for(permit)?)));
        firsts.filter_map(move |(permit, first)| {
            let from = match self.readiness(permit) {
                // One try does not wait for all of the others' turn, whoever is before it (S10, S12).
                Readiness::Idle { from } => from.filter(|_| !self.waiters.has_one_try_for(permit)),
                // One try waits for the answer; a caller that waits tries another meanwhile.
                Readiness::Releasing if first.is_one_try() => None,
                // What is being acquired is tried already.
                Readiness::Acquiring | Readiness::Releasing | Readiness::InUse => return None,
            };
            Some((permit, first, from))
        })
    }

    fn choose(&mut self, now: Instant) -> Option<Permit> {
        if !self.pooled.as_ref()?.trials.is_empty() {
            return None;
        }
        let mut choices = Vec::new();
        for (permit, first, from) in self.candidates() {
            let machine = self.machines.get(permit);
            if from.is_none_or(|from| from <= now) {
                let lease_duration = first.terms.lease_duration;
                let handed_on = machine.is_some_and(|hold| hold.is_handed_on(lease_duration, now));
                choices.push(Choice { permit, handed_on });
            }
        }
        let cap = self.machines.settings().poll_cap;
        let pooled = self.pooled.as_mut()?;
        let (chooser, permits) = (&mut pooled.chooser, pooled.greatest);
        if chooser.pauses(now) {
            return None;
        }
        let chosen = match chooser.untried(&choices, permits) {
            Some(permit) => permit,
            None if !chooser.may_go_round(now) => return None,
            None => chooser.paced(&choices, permits)?,
        };
        let any_handed_on = choices.iter().any(|choice| choice.handed_on);
        chooser.begins(chosen, any_handed_on, cap, now);
        Some(chosen)
    }

    /// When the next try may begin; none if only an event brings one.
    pub(super) fn next_try_at(&self) -> Option<Instant> {
        let pooled = self.pooled.as_ref().filter(|pooled| pooled.trials.is_empty())?;
        let next = |(permit, _, from): (Permit, &Waiter, Option<Instant>)| {
            pooled.chooser.next_at(permit).max(from.unwrap_or_default())
        };
        self.candidates().map(next).min()
    }

    /// S29: a record of a holder of a permit names another number than callers here.
    pub(super) fn compare_stored(&mut self, event: &Event, output: &mut Output) {
        let Some(stored) = stored_elsewhere(event).filter(|stored| !stored.free) else { return };
        let record = Record::from_fields(&stored.fields);
        if record.lease.is_some() {
            let others = record.permits.unwrap_or(Permits::ONE);
            let ours = self.pooled.as_ref().map_or(Permits::ONE, |pooled| pooled.permits);
            self.compare(others, ours, output);
        }
    }

    /// S29: a caller names another number than those that are here.
    pub(super) fn compare_named(&mut self, ours: Permits, output: &mut Output) {
        let former =
            self.pooled.as_mut().map(|pooled| std::mem::replace(&mut pooled.permits, ours));
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

/// Whether a failure is about one path: the other permits may do (S5, S28). One that was never used may not
/// be made where the store is full.
const fn is_of_one_path(kind: StoreFailureKind) -> bool {
    matches!(
        kind,
        StoreFailureKind::TokenNotGrowing
            | StoreFailureKind::TokenUnreadable
            | StoreFailureKind::Full
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

/// Whether nothing that is due is done before it: a release is as it was answered (S13), and a suspicion is
/// known before (S3).
pub(super) const fn comes_first(event: &Event) -> bool {
    matches!(event, Event::Answer { answer: Answer::Release(_), .. } | Event::PauseSuspected)
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
