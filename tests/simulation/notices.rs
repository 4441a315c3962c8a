//! Leases that were broken and run out: what their holders may be told, and what may be done under them
//! (S22).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold::hold::{Action, Answer, CallerId, Event, Hold, Notice, Request, RequestId};
use leasehold::lock::{FencingToken, LeaseId};
use leasehold::time::Instant;

use crate::simulation::promises::Look;
use crate::simulation::world::World;

/// A notice that its holder was told.
#[derive(Clone, Copy, Debug)]
struct Told {
    caller: CallerId,
    deadline: Instant,
    /// The time between two looks.
    interval: Duration,
    /// When the lease was looked at last, by the sidecar's clock.
    looked: Instant,
    /// Looks that were sent after the lease had ended.
    in_vain: u32,
}

/// The breaks that there were, and what came of them.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// The epochs that the notes of soft breaks name, by lease.
    run_out: BTreeMap<LeaseId, BTreeSet<u64>>,
    /// The same of leases that were acquired once more since, and when.
    ran_out: BTreeMap<LeaseId, (Duration, BTreeSet<u64>)>,
    /// When a lease was made to end earlier than it would have.
    ends: BTreeMap<LeaseId, Duration>,
    /// When the looks reached the store that are not answered, and the latest that was.
    looks: BTreeMap<(usize, RequestId), Duration>,
    looked: BTreeMap<usize, Duration>,
    grants: BTreeMap<CallerId, (LeaseId, FencingToken, Duration)>,
    revoked: BTreeMap<(usize, LeaseId), Told>,
    /// Who was told, ever.
    told: BTreeSet<CallerId>,
    /// Until when the holder of a token was promised anything, in true time.
    promised: BTreeMap<u64, Duration>,
    /// Notices after which the lease was made to end at once, and was looked at.
    pub(crate) learned: u64,
    /// Notices that came of the break of another's lease, with a note about this grant.
    pub(crate) by_another: u64,
}

/// What a clock elsewhere may be off by, of the longest validity.
const SLACK: Duration = Duration::from_secs(1);

impl Notices {
    /// A lease was broken by the product, with its note, so that it runs out: but for one that somebody had
    /// broken before, which ends when that says.
    pub(crate) fn runs_out(&mut self, lease_id: LeaseId, noted: Option<FencingToken>) {
        if self.ends.contains_key(&lease_id) {
            return;
        }
        let epochs = self.run_out.entry(lease_id).or_default();
        epochs.extend(noted.map(FencingToken::epoch));
    }

    /// A lease ends then, by somebody's break.
    pub(crate) fn ends(&mut self, lease_id: LeaseId, at: Duration) {
        let ends = self.ends.entry(lease_id).or_insert(at);
        *ends = at.min(*ends);
    }

    /// A look has reached the store.
    pub(crate) fn reached(&mut self, look: Look, (action, event): (&Action, &Event)) {
        // A lease that was acquired once more is another, whatever became of it before.
        if let (
            Action::Store { what: Request::Acquire { lease_id, .. }, .. },
            Event::Answer { answer: Answer::Acquire { lease: Ok(_), .. }, .. },
        ) = (action, event)
        {
            if let Some(epochs) = self.run_out.remove(lease_id) {
                self.ran_out.insert(*lease_id, (look.now, epochs));
            }
            self.ends.remove(lease_id);
        }
        if let Action::Store { request, what: Request::Look { .. }, .. } = action
            && !look.former
            && look.heard
        {
            self.looks.insert((look.sidecar, *request), look.now);
        }
    }

    /// A look has met the break of a lease that another acquired since and has written nothing under, whoever
    /// broke that one: what is seen is that one's end, and nobody is granted anything before the record shows
    /// it.
    pub(crate) fn looked(&mut self, look: Look, event: &Event, newest: Option<LeaseId>) {
        let Event::Answer { answer: Answer::Look(Ok(seen)), .. } = event else { return };
        if !look.heard {
            return;
        }
        let own = self.revoked.iter_mut().find(|((at, _), _)| *at == look.sidecar);
        if let Some(((_, lease_id), told)) = own
            && seen.breaking
            && newest != Some(*lease_id)
        {
            // It was answered: those that were not count from here.
            told.in_vain = 0;
        }
    }

    pub(crate) fn came_in(&mut self, sidecar: usize, event: &Event) {
        if let Event::Answer { request, answer: Answer::Look(_) } = event
            && let Some(at) = self.looks.remove(&(sidecar, *request))
        {
            self.looked.insert(sidecar, at);
        }
    }

    /// S22: a lease that runs out is looked at, and not renewed.
    pub(crate) fn sent(&mut self, look: Look, action: &Action) -> Result<(), String> {
        match action {
            Action::Store { what: Request::Renew { lease_id, .. }, .. } => {
                match self.revoked.contains_key(&(look.sidecar, *lease_id)) {
                    true => Err(format!("S22: {lease_id} is renewed after the notice")),
                    false => Ok(()),
                }
            }
            // One that asks for the note is for the notice itself, or for a waiting caller (S33).
            Action::Store { what: Request::Look { note: false, .. }, .. } => {
                let own = self.revoked.iter_mut().find(|((at, _), _)| *at == look.sidecar);
                let Some(((_, lease_id), told)) = own else { return Ok(()) };
                told.looked = look.local;
                let token = self.grants.get(&told.caller).map(|(_, token, _)| *token);
                let another = token.is_some_and(|token| noted(&self.run_out, *lease_id, token));
                if !another && self.ends.get(lease_id).is_some_and(|ends| *ends < look.now) {
                    told.in_vain += 1;
                    self.learned += u64::from(told.in_vain == 1);
                }
                match told.in_vain > 2 {
                    true => Err(format!("S22: two looks do not show that {lease_id} has ended")),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn told(&mut self, look: Look, action: &Action) -> Result<(), String> {
        match action {
            Action::Tell { caller, notice: Notice::Granted(grant) } => {
                let kept = (grant.lease_id, grant.token, grant.lease_duration);
                self.grants.insert(*caller, kept);
                match self.revoked.contains_key(&(look.sidecar, grant.lease_id)) {
                    true => Err(format!("S22: {caller:?} is granted a lease that runs out")),
                    false => Ok(()),
                }
            }
            Action::Tell { caller, notice: Notice::Revoked { valid_until } } => {
                self.revoked(look, *caller, *valid_until)
            }
            Action::Tell { caller, notice: Notice::Renewed { .. } | Notice::Recovered { .. } } => {
                match self.of(*caller) {
                    Some(_) => Err(format!("S22: {caller:?} is told {action:?} after its notice")),
                    None => Ok(()),
                }
            }
            Action::Tell {
                caller,
                notice: Notice::Extended { valid_until, .. } | Notice::AtRisk { valid_until, .. },
            } => match self.of(*caller) {
                Some(told) if *valid_until > told.deadline => {
                    Err(format!("S22: {action:?}, and the deadline was {:?}", told.deadline))
                }
                Some(_) | None => Ok(()),
            },
            Action::Tell {
                caller,
                notice:
                    Notice::Lost { .. }
                    | Notice::Released { .. }
                    | Notice::NotConfirmed { .. }
                    | Notice::Moved
                    | Notice::Superseded { .. }
                    | Notice::Interrupted,
            } => {
                self.revoked.retain(|_, told| told.caller != *caller);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn of(&self, caller: CallerId) -> Option<&Told> {
        self.revoked.values().find(|told| told.caller == caller)
    }

    /// S22: only a break of ours that lets the lease run out is told as a notice, once.
    fn revoked(&mut self, look: Look, caller: CallerId, deadline: Instant) -> Result<(), String> {
        let Some((lease_id, token, duration)) = self.grants.get(&caller).copied() else {
            return Err(format!("S22: {caller:?} has nothing that could be revoked"));
        };
        let looked = self.looked.get(&look.sidecar).copied().unwrap_or_default();
        let names = |epochs: &BTreeSet<u64>| epochs.contains(&token.epoch());
        // What a look showed counts, however late its answer comes; and the note still stands when a lease is
        // broken that was acquired once more, by a late request.
        let is_broken = self.ends.contains_key(&lease_id);
        let ran_out = self.ran_out.get(&lease_id).filter(|(until, _)| looked < *until || is_broken);
        let runs_out = self.run_out.get(&lease_id).is_some_and(names)
            || ran_out.is_some_and(|(_, epochs)| names(epochs));
        let ended = self.ends.get(&lease_id).is_some_and(|ends| *ends <= looked);
        if noted(&self.run_out, lease_id, token) {
            self.by_another += 1;
        } else if !runs_out || ended {
            return Err(format!(
                "S22: {caller:?} is told a notice of a lease that does not run out"
            ));
        }
        if !self.told.insert(caller) {
            return Err(format!("S22: {caller:?} is told its notice twice"));
        }
        let interval = (duration / 30).max(Duration::from_secs(1));
        let told = Told { caller, deadline, interval, looked: look.local, in_vain: 0 };
        self.revoked.insert((look.sidecar, lease_id), told);
        Ok(())
    }

    /// S22: as long as the holder goes on, the lease is looked at, and its deadline does not move.
    fn settled(&self, sidecar: usize, hold: &Hold, local: Instant) -> Result<(), String> {
        let told = self.revoked.iter().find(|((at, _), _)| *at == sidecar);
        let Some((_, told)) = told.filter(|_| hold.state() == "revoked") else { return Ok(()) };
        if hold.validity(told.caller).is_some_and(|until| until > told.deadline) {
            return Err(format!("S22: the deadline of {:?} has moved", told.caller));
        }
        match local > told.looked + told.interval * 2 + SLACK {
            true => Err(format!("S22: nobody looks at the lease of {:?}", told.caller)),
            false => Ok(()),
        }
    }

    pub(crate) fn restarted(&mut self, sidecar: usize) {
        self.looks.retain(|(at, _), _| *at != sidecar);
        self.looked.remove(&sidecar);
        self.revoked.retain(|(at, _), _| *at != sidecar);
    }
}

/// Whether the lease of this token had ended, and another's was broken before its own token was written: what
/// is seen then is that one's end, and once its record is written a look shows that.
fn noted(
    run_out: &BTreeMap<LeaseId, BTreeSet<u64>>,
    lease_id: LeaseId,
    token: FencingToken,
) -> bool {
    let noted = |other: &LeaseId, epochs: &BTreeSet<u64>| {
        *other != lease_id && epochs.contains(&token.epoch())
    };
    run_out.iter().any(|(other, epochs)| noted(other, epochs))
}

impl World {
    /// Everything is done that came of an event.
    pub(crate) fn check_notice(&mut self, index: usize, local: Instant) {
        let hold = &self.sidecars[index].machine.hold;
        if let Err(what) = self.checks.notices.settled(index, hold, local) {
            self.checks.fail(what);
        }
    }

    /// What a holder is promised, in true time.
    pub(crate) fn note_promise(&mut self, index: usize, action: &Action) {
        let (caller, until) = match action {
            Action::Tell { caller, notice: Notice::Granted(grant) } => (caller, grant.valid_until),
            Action::Tell {
                caller,
                notice:
                    Notice::Renewed { valid_until }
                    | Notice::Recovered { valid_until }
                    | Notice::Revoked { valid_until }
                    | Notice::Extended { valid_until, .. }
                    | Notice::AtRisk { valid_until, .. },
            } => (caller, *valid_until),
            _ => return,
        };
        self.promise(index, *caller, until);
    }

    pub(crate) fn promise(&mut self, index: usize, caller: CallerId, until: Instant) {
        let until = self.clocks[index].when(until.saturating_sub(self.sidecars[index].gained));
        let notices = &mut self.checks.notices;
        let Some((_, token, _)) = notices.grants.get(&caller) else { return };
        let promised = notices.promised.entry(token.value()).or_default();
        *promised = until.max(*promised);
    }

    /// S1, S22: nobody acts past the end that it was told last.
    pub(crate) fn check_act(&mut self, index: usize, token: u64) {
        let promised = self.checks.notices.promised.get(&token).copied();
        let is_late = promised.is_some_and(|until| self.now > until + SLACK);
        if is_late && !self.is_excused(index) {
            let text = format!("S22: client {index} acts with {token} past {promised:?}");
            self.checks.fail(text);
        }
    }
}
