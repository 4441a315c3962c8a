//! How sidecars save the checkpoints to which every holder adds (S26): one at a time, at most one a second,
//! and each is answered. What comes of the saves themselves is in `ledger.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::hold::{
    Action, Answer, CallerId, Event, Granted, HolderCall, Notice, Request, RequestId, SaveId,
    SaveOutcome,
};
use leasehold::lock::LeaseId;
use leasehold::record::{CheckpointValue, Fields};
use leasehold::time::Instant;

use crate::simulation::ledger::{Ledger, SaveAnswer, name_of};
use crate::simulation::occurrences::is_outcome;
use crate::simulation::promises::Look;

/// The field of the record that the checkpoint stands in.
const FIELD: &str = "leasehold_checkpoint";
/// The shortest time between two saves under a lease, except with a release (S26).
const BETWEEN_SAVES: Duration = Duration::from_secs(1);

fn number(id: SaveId) -> u32 {
    u32::try_from(id.0).unwrap()
}

/// A save that is to be answered.
#[derive(Debug)]
struct Asked {
    sidecar: usize,
    lease_id: Option<LeaseId>,
    event: u64,
}

/// A save that is on its way to the store.
#[derive(Debug)]
struct Writing {
    request: RequestId,
    /// When its sidecar stops to wait for the answer.
    until: Instant,
}

/// What became of the saves.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) ledger: Ledger,
    /// The saves that sidecars were asked for and have not answered, and for which hold.
    asked: BTreeMap<SaveId, Asked>,
    /// How many events there were: what an event has ended is not settled by the event.
    events: u64,
    /// The write by which each checkpoint was first sent.
    names: BTreeMap<String, String>,
    writing: BTreeMap<usize, Writing>,
    begun: BTreeMap<(usize, LeaseId), Instant>,
    /// The newest generation of each lease that was told (S16).
    generations: BTreeMap<LeaseId, u64>,
}

impl Counters {
    /// Another save of a client whose value came of `log` so far; none once values are long enough.
    pub(crate) fn next(&mut self, log: &mut Vec<u32>) -> Option<(SaveId, CheckpointValue)> {
        let (save, value) = self.ledger.next(log)?;
        Some((SaveId(u64::from(save)), value))
    }

    pub(crate) fn came_in(
        &mut self,
        sidecar: usize,
        event: &Event,
        lease_of: impl Fn(CallerId) -> Option<LeaseId>,
    ) {
        self.events += 1;
        match event {
            Event::Call { caller, call: HolderCall::Save(save), .. } => {
                let (lease_id, event) = (lease_of(*caller), self.events);
                self.asked.insert(save.id, Asked { sidecar, lease_id, event });
                if !is_outcome(save.id) {
                    self.ledger.comes(number(save.id));
                }
            }
            Event::Answer { request, answer: Answer::Write(_) }
                if self.writing.get(&sidecar).is_some_and(|save| save.request == *request) =>
            {
                self.writing.remove(&sidecar);
            }
            _ => {}
        }
    }

    fn is_pending(&self, sidecar: usize, lease_id: LeaseId) -> bool {
        self.asked.values().any(|asked| {
            (asked.sidecar, asked.lease_id) == (sidecar, Some(lease_id))
                && asked.event < self.events
        })
    }

    /// Something is sent to the store by a machine that is in `state` then.
    pub(crate) fn sent(&mut self, look: Look, action: &Action, state: &str) -> Result<(), String> {
        let sidecar = look.sidecar;
        match action {
            Action::Store { what: Request::Release { lease_id, .. }, .. }
                if self.is_pending(sidecar, *lease_id) =>
            {
                Err(format!("S26: sidecar {sidecar} releases {lease_id} before its last save"))
            }
            Action::Store {
                request,
                what: Request::Write { lease_id, fields, .. },
                timeout,
                ..
            } => {
                let under_way = self.writing.remove(&sidecar);
                if under_way.is_some_and(|save| look.local < save.until) {
                    return Err(format!("S26: sidecar {sidecar} writes beside a save: {action:?}"));
                }
                let Some(field) = fields.get(FIELD) else { return Ok(()) };
                let is_first = !self.names.contains_key(field);
                let name = name_of(fields);
                if *self.names.entry(field.clone()).or_insert_with(|| name.clone()) != name {
                    return Ok(());
                }
                self.writing
                    .insert(sidecar, Writing { request: *request, until: look.local + *timeout });
                let key = (sidecar, *lease_id);
                let before = if is_first { self.begun.insert(key, look.local) } else { None };
                let too_soon = before.is_some_and(|before| look.local < before + BETWEEN_SAVES);
                match too_soon && state != "saving" {
                    true => Err(format!("S26: sidecar {sidecar} saves twice within a second")),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// A request has reached the store: whether it is a write that changes the checkpoint.
    pub(crate) fn reached(&mut self, action: &Action) -> bool {
        matches!(action, Action::Store { request, what: Request::Write { fields, .. }, .. }
            if self.ledger.reached(fields, request.0))
    }

    /// Somebody has deleted the lock, or the store has gone back to an older copy: what is there counts.
    pub(crate) fn reset(&mut self, fields: Option<&Fields>) {
        self.ledger.reset(fields, false);
    }

    /// Something is told; of a grant it is known whether an operator let two believe (S17).
    pub(crate) fn told(
        &mut self,
        sidecar: usize,
        action: &Action,
        is_excused: impl Fn(LeaseId) -> bool,
    ) -> Result<(), String> {
        match action {
            Action::Tell { notice: Notice::Granted(grant), .. } => {
                self.check_grant(sidecar, grant, is_excused)
            }
            Action::Saved { id, outcome } => self.answered(sidecar, *id, outcome),
            _ => Ok(()),
        }
    }

    fn check_grant(
        &mut self,
        sidecar: usize,
        grant: &Granted,
        is_excused: impl Fn(LeaseId) -> bool,
    ) -> Result<(), String> {
        let is_excused = is_excused(grant.lease_id);
        let newest = self.generations.entry(grant.lease_id).or_default();
        *newest = grant.generation.max(*newest);
        // S16: the answer to a resume that comes after the hold has gone on elsewhere tells its caller
        // nothing any more.
        let is_late = grant.generation < *newest;
        if !is_late {
            self.ledger.granted((grant.token, true), grant.checkpoint.as_ref(), is_excused)?;
        }
        if grant.resumed {
            // It counts its seconds anew.
            self.begun.remove(&(sidecar, grant.lease_id));
        }
        if !grant.resumed && self.is_pending(sidecar, grant.lease_id) {
            return Err(format!("S13: {} is handed on while a save is not settled", grant.token));
        }
        Ok(())
    }

    fn answered(
        &mut self,
        sidecar: usize,
        id: SaveId,
        outcome: &SaveOutcome,
    ) -> Result<(), String> {
        if self.asked.remove(&id).is_none() {
            return Err(format!("S26: {id:?} is answered, and was not asked for"));
        }
        if is_outcome(id) {
            return Ok(());
        }
        let answer = match outcome {
            SaveOutcome::Saved { version: Some(version) } => {
                SaveAnswer::Stored { version: *version }
            }
            SaveOutcome::Saved { version: None } | SaveOutcome::Nothing => {
                return Err(format!("S26: {id:?} had a checkpoint, and is told of none"));
            }
            SaveOutcome::Ended => SaveAnswer::Ended,
            SaveOutcome::NotSaved(store_failure) => {
                SaveAnswer::Refused(store_failure.message.clone())
            }
            SaveOutcome::Unknown => SaveAnswer::Unknown,
        };
        self.ledger.answered(number(id), &answer)?;
        if !matches!(outcome, SaveOutcome::Saved { .. }) {
            self.writing.remove(&sidecar);
        }
        Ok(())
    }

    pub(crate) fn restarted(&mut self, sidecar: usize) {
        self.asked.retain(|_, asked| asked.sidecar != sidecar);
        self.writing.remove(&sidecar);
        self.begun.retain(|(at, _), _| *at != sidecar);
    }

    /// S26: nobody who saved is left without an answer.
    pub(crate) fn ended(&self) -> Result<(), String> {
        match self.asked.first_key_value() {
            Some((id, asked)) => {
                Err(format!("S26: sidecar {} has never answered {id:?}", asked.sidecar))
            }
            None => Ok(()),
        }
    }
}
