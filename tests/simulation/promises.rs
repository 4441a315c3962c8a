//! What a sidecar may tell, renew and end, judged by the rules alone: S2's arithmetic, S14's silence and
//! S16's generations. Nothing here looks into a machine.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold::hold::{Action, Answer, CallerId, Event, HolderCall, Notice, Request, RequestId};
use leasehold::lock::LeaseId;
use leasehold::record::Record;
use leasehold::time::Instant;

/// The sidecar that is looked at, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) sidecar: usize,
    pub(crate) now: Duration,
    /// Its own clock.
    pub(crate) local: Instant,
    /// It asks the store whether it may go on with a client's hold (S16).
    pub(crate) resumes: bool,
    /// What is looked at was sent by its process before the last crash.
    pub(crate) former: bool,
    /// Its answer is on its way; of what the network has repeated nobody hears.
    pub(crate) heard: bool,
}

/// The hold that a sidecar granted last under a lease.
#[derive(Clone, Debug)]
struct Had {
    caller: CallerId,
    generation: u64,
    duration: Duration,
    /// Until then somebody may still believe in a resumed hold elsewhere (S16).
    settles: Option<Duration>,
    /// A call has shown that the hold has left this sidecar (S16).
    left: bool,
    /// It was released with its own generation (S16).
    released: bool,
    /// Its holder is known to be gone (S14).
    gone: bool,
    /// Nobody gets the lock until then, though it was released (S11).
    rests_until: Option<Instant>,
}

#[derive(Debug, Default)]
pub(crate) struct Promises {
    /// What each request was about, and when it was sent, by the sidecar's clock.
    sent: BTreeMap<(usize, RequestId), (LeaseId, Instant)>,
    /// Renewals that ask whether a client's hold may go on: they know no version yet.
    resuming: BTreeSet<(usize, RequestId)>,
    /// When the latest request was sent that was answered well.
    good: BTreeMap<(usize, LeaseId), Instant>,
    holds: BTreeMap<(usize, LeaseId), Had>,
    callers: BTreeMap<CallerId, (usize, LeaseId)>,
    /// The generation of each hold in the store, counted here: one, and one more with each resume that was
    /// written.
    generations: BTreeMap<LeaseId, u64>,
    /// The resume that was written last (S16).
    attempts: BTreeMap<LeaseId, String>,
    /// The writes of resumes, by their names: others write the record of a hold as it goes on.
    resumes: BTreeSet<String>,
    /// Leases whose holders were told the end.
    over: BTreeSet<LeaseId>,
    /// Renewals that were answered after a newer one was sent (S2).
    pub(crate) overlapping: u64,
    /// Calls, and cancels, that came to a sidecar that the hold has left (S16).
    pub(crate) calls_at_left: u64,
    pub(crate) cancels_at_left: u64,
}

/// What S2 takes off a lease.
fn margin(lease: Duration) -> Duration {
    lease / 50 + Duration::from_millis(500)
}

impl Promises {
    fn had(&self, caller: CallerId) -> Option<&Had> {
        let place = self.callers.get(&caller)?;
        self.holds.get(place).filter(|had| had.caller == caller)
    }

    fn had_mut(&mut self, caller: CallerId) -> Option<&mut Had> {
        let place = self.callers.get(&caller)?;
        self.holds.get_mut(place).filter(|had| had.caller == caller)
    }

    /// Something is sent to the store: whether there is somebody for whom (S14).
    pub(crate) fn sent(&mut self, look: Look, action: &Action, state: &str) -> bool {
        if let Action::Store { what: Request::Write { fields, .. }, .. } = action
            && state == "resuming"
        {
            self.resumes.insert(Record::from_fields(fields).write);
        }
        let (request, lease_id) = match action {
            Action::Store {
                request,
                what: Request::Acquire { lease_id, .. } | Request::Renew { lease_id, .. },
                ..
            } => (*request, *lease_id),
            _ => return true,
        };
        let key = (look.sidecar, request);
        self.sent.insert(key, (lease_id, look.local));
        self.resuming.remove(&key);
        if look.resumes {
            self.resuming.insert(key);
            return true;
        }
        let had = self.holds.get(&(look.sidecar, lease_id));
        had.is_none_or(|had| !had.gone || had.rests_until.is_some_and(|until| look.local <= until))
    }

    /// Something reaches a sidecar.
    pub(crate) fn came_in(&mut self, sidecar: usize, event: &Event) {
        match event {
            Event::Answer { request, answer: Answer::Acquire { lease: answer, .. } } => {
                self.answered((sidecar, *request), answer.is_ok());
            }
            Event::Answer { request, answer: Answer::Renew(answer) } => {
                self.answered((sidecar, *request), answer.is_ok());
            }
            Event::Call {
                caller, generation: Some(generation), call: HolderCall::Release, ..
            } => {
                self.called(*caller, *generation, true);
            }
            Event::Call {
                caller,
                generation: Some(generation),
                call: HolderCall::Extend { .. },
                ..
            }
            | Event::Call { caller, generation: Some(generation), call: HolderCall::Progress }
            | Event::Call {
                caller, generation: Some(generation), call: HolderCall::Save(_), ..
            }
            | Event::Call { caller, generation: Some(generation), call: HolderCall::Validity } => {
                self.called(*caller, *generation, false);
            }
            Event::CallerLeft { caller } => {
                let stored = self.had(*caller).map(|had| had.generation);
                let newest = self.callers.get(caller).map(|(_, lease_id)| self.stored(*lease_id));
                self.cancels_at_left += u64::from(stored.is_some() && stored < newest);
            }
            _ => {}
        }
    }

    fn answered(&mut self, key: (usize, RequestId), is_good: bool) {
        let Some((lease_id, sent)) = self.sent.remove(&key) else { return };
        if !is_good {
            return;
        }
        let newest = (key.0, RequestId(u64::MAX));
        let overlaps = self.sent.range(key..=newest).any(|(_, (of, _))| *of == lease_id);
        self.overlapping += u64::from(overlaps);
        let good = self.good.entry((key.0, lease_id)).or_insert(sent);
        *good = (*good).max(sent);
    }

    fn called(&mut self, caller: CallerId, generation: u64, releases: bool) {
        let Some(had) = self.had_mut(caller) else { return };
        had.left |= generation > had.generation;
        had.released |= releases && generation == had.generation;
        self.calls_at_left += u64::from(had.left);
    }

    /// A sidecar has learned that a caller is gone, and has done what comes of that (S14).
    pub(crate) fn is_gone(&mut self, caller: CallerId) {
        if let Some(had) = self.had_mut(caller) {
            had.gone = true;
        }
    }

    /// Something is told to a caller.
    pub(crate) fn told(&mut self, look: Look, action: &Action) -> Result<(), String> {
        match action {
            Action::Tell { caller, notice: Notice::Granted(grant) } => {
                let key = (look.sidecar, grant.lease_id);
                if !grant.resumed && self.holds.contains_key(&key) {
                    self.may_end(key, look.now, "handed on")?;
                }
                let settles = look.now + grant.lease_duration * 99 / 100;
                let had = Had {
                    caller: *caller,
                    generation: grant.generation,
                    duration: grant.lease_duration,
                    settles: grant.resumed.then_some(settles),
                    left: false,
                    released: false,
                    gone: false,
                    rests_until: None,
                };
                self.holds.insert(key, had);
                self.callers.insert(*caller, key);
                self.check_validity(look.sidecar, *caller, grant.valid_until)
            }
            Action::Tell {
                caller,
                notice:
                    Notice::Renewed { valid_until }
                    | Notice::Recovered { valid_until }
                    | Notice::Revoked { valid_until }
                    | Notice::Extended { valid_until, .. }
                    | Notice::AtRisk { valid_until, .. },
            } => self.check_validity(look.sidecar, *caller, *valid_until),
            Action::Tell { caller, notice: Notice::Released { resting_until } } => {
                if let Some(had) = self.had_mut(*caller) {
                    had.rests_until = *resting_until;
                }
                self.over.extend(self.callers.get(caller).map(|(_, lease_id)| *lease_id));
                Ok(())
            }
            Action::Tell { caller, notice: Notice::Lost { .. } | Notice::NotConfirmed { .. } } => {
                self.over.extend(self.callers.get(caller).map(|(_, lease_id)| *lease_id));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// S2: counted from before the very request was sent that was answered.
    fn check_validity(
        &self,
        sidecar: usize,
        caller: CallerId,
        until: Instant,
    ) -> Result<(), String> {
        let Some(had) = self.had(caller) else { return Ok(()) };
        let Some((_, lease_id)) = self.callers.get(&caller) else { return Ok(()) };
        let good = self.good.get(&(sidecar, *lease_id));
        let most = good.map(|sent| *sent + had.duration.saturating_sub(margin(had.duration)));
        match most {
            Some(most) if until <= most => Ok(()),
            Some(_) | None => Err(format!(
                "S2: {caller:?} is told that it is valid until {until:?}, and {most:?} was answered"
            )),
        }
    }

    /// S16: who has left is neither handed on nor ended, and a resumed hold ends early only by a release of
    /// its own.
    fn may_end(&self, key: (usize, LeaseId), now: Duration, how: &str) -> Result<(), String> {
        let Some(had) = self.holds.get(&key) else { return Ok(()) };
        if had.left {
            return Err(format!(
                "S16: a hold that has left sidecar {} is {how} there: {had:?}",
                key.0
            ));
        }
        if !had.released && had.settles.is_some_and(|settles| now < settles) {
            return Err(format!("S16: a hold that was resumed just now is {how} unasked: {had:?}"));
        }
        Ok(())
    }

    /// The store has done what `action` asked of it.
    pub(crate) fn done(&mut self, look: Look, action: &Action) -> Result<(), String> {
        match action {
            Action::Store { what: Request::Renew { .. } | Request::Release { .. }, .. }
                if look.former =>
            {
                Ok(())
            }
            Action::Store { what: Request::Write { lease_id, fields, .. }, .. } => {
                let record = Record::from_fields(fields);
                match self.resumes.contains(&record.write) {
                    true => self.written(*lease_id, &record.attempt),
                    false => Ok(()),
                }
            }
            Action::Store { request, what: Request::Renew { lease_id, .. }, .. } => {
                let key = (look.sidecar, *lease_id);
                let stored = self.stored(*lease_id);
                let asks = self.resuming.contains(&(look.sidecar, *request));
                match self.holds.get(&key).filter(|had| !asks && had.generation < stored) {
                    None => Ok(()),
                    Some(had) => Err(format!(
                        "S16: generation {} of a hold is renewed, and {stored} went on elsewhere",
                        had.generation
                    )),
                }
            }
            Action::Store { what: Request::Release { lease_id, .. }, .. } => {
                self.may_end((look.sidecar, *lease_id), look.now, "ended")
            }
            _ => Ok(()),
        }
    }

    /// S16: a resume of another generation than the record's is refused, unless it repeats the one that wrote
    /// it.
    fn written(&mut self, lease_id: LeaseId, attempt: &str) -> Result<(), String> {
        let Some((_, of)) = attempt.rsplit_once('-') else { return Ok(()) };
        let stored = self.generations.entry(lease_id).or_insert(1);
        let repeated = self.attempts.get(&lease_id).is_some_and(|last| last == attempt);
        if of.parse() != Ok(*stored) && !repeated {
            return Err(format!("S16: generation {of} is resumed, and the newest is {stored}"));
        }
        *stored += 1;
        self.attempts.insert(lease_id, attempt.to_owned());
        Ok(())
    }

    /// The generation that the store's record has.
    fn stored(&self, lease_id: LeaseId) -> u64 {
        self.generations.get(&lease_id).copied().unwrap_or(1)
    }

    /// Whether a hold of this generation goes on, for all that anybody was told.
    pub(crate) fn goes_on(&self, lease_id: LeaseId, generation: u64) -> bool {
        self.stored(lease_id) == generation && !self.over.contains(&lease_id)
    }

    pub(crate) fn restarted(&mut self, sidecar: usize) {
        self.sent.retain(|(at, _), _| *at != sidecar);
        self.resuming.retain(|(at, _)| *at != sidecar);
        self.good.retain(|(at, _), _| *at != sidecar);
        self.holds.retain(|(at, _), _| *at != sidecar);
    }
}
