//! Checkpoints to which every holder adds (S23 to S27): each value is the list of the saves that it came of, its own the
//! last. So what was acknowledged and is not there any more is seen, and what comes too late.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold::hold::{Action, CallerId, Event, Granted, Request, SaveId, SaveOutcome};
use leasehold::lock::{Checkpoint, CheckpointValue, Fields, LeaseId, Record};
use leasehold::time::Instant;

use crate::promises::Look;

/// The field of the record that the checkpoint stands in.
const FIELD: &str = "leasehold_checkpoint";
/// The shortest time between two saves under a lease, except with a release (S26).
const BETWEEN_SAVES: Duration = Duration::from_secs(1);
/// More saves than a value may name.
const MOST_SAVES: usize = 500;

pub(crate) fn checkpoint_of(fields: &Fields) -> Option<Checkpoint> {
    Checkpoint::from_lookup(|name| fields.get(name).map(String::as_str))
}

pub(crate) fn name_of(fields: &Fields) -> String {
    Record::from_fields(fields).write
}

/// The saves that a value came of.
pub(crate) fn log_of(checkpoint: Option<&Checkpoint>) -> Vec<u32> {
    let bytes = checkpoint.map(|checkpoint| checkpoint.value.as_bytes()).unwrap_or_default();
    bytes.chunks(4).map(|save| u32::from_be_bytes(save.try_into().unwrap())).collect()
}

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
    request: Request,
    /// When its sidecar stops to wait for the answer.
    until: Instant,
}

/// What became of the saves.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    last: u32,
    /// The saves that sidecars were asked for and have not answered, and for which hold.
    asked: BTreeMap<SaveId, Asked>,
    /// How many events there were: what an event has ended is not settled by the event.
    events: u64,
    /// Those that the store has had, in a value of their own, and in that of a later one.
    own: BTreeSet<u32>,
    stored: BTreeSet<u32>,
    /// Which save each version is of, and the event by which each save came in.
    saves: BTreeMap<u64, u32>,
    came: BTreeMap<u32, u64>,
    /// Those that were told as stored, and when, as saves go by.
    acknowledged: BTreeMap<u32, u32>,
    /// Those that went with a deletion, or for an older copy: they may be told as stored yet.
    gone: BTreeSet<u32>,
    /// Those that were told as not done.
    refused: BTreeSet<u32>,
    /// The checkpoint in the store, and the greatest version there ever was.
    newest: Option<Checkpoint>,
    version: u64,
    /// The greatest token that was granted.
    granted: u64,
    /// The write by which each checkpoint was first sent.
    names: BTreeMap<String, String>,
    writing: BTreeMap<usize, Writing>,
    begun: BTreeMap<(usize, LeaseId), Instant>,
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

impl Counters {
    /// Another save of a client whose value came of `log` so far; none once values are long enough.
    pub(crate) fn next(&mut self, log: &mut Vec<u32>) -> Option<(SaveId, CheckpointValue)> {
        if log.len() >= MOST_SAVES {
            return None;
        }
        self.last += 1;
        log.push(self.last);
        let bytes: Vec<u8> = log.iter().flat_map(|save| save.to_be_bytes()).collect();
        Some((SaveId(u64::from(self.last)), CheckpointValue::new(&bytes).unwrap()))
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub(crate) fn came_in(
        &mut self,
        sidecar: usize,
        event: &Event,
        lease_of: impl Fn(CallerId) -> Option<LeaseId>,
    ) {
        self.events += 1;
        match event {
            Event::SaveAsked { caller, save, .. } => {
                let (lease_id, event) = (lease_of(*caller), self.events);
                self.asked.insert(save.id, Asked { sidecar, lease_id, event });
                self.came.insert(number(save.id), event);
            }
            Event::WriteAnswered { request, .. } => {
                if self.writing.get(&sidecar).is_some_and(|save| save.request == *request) {
                    self.writing.remove(&sidecar);
                }
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
            Action::SendRelease { lease_id, .. } if self.is_pending(sidecar, *lease_id) => {
                Err(format!("S26: sidecar {sidecar} releases {lease_id} before its last save"))
            }
            Action::SendWrite { request, lease_id, fields, timeout, .. } => {
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

    /// Whether a write changes the checkpoint.
    pub(crate) fn is_save(&self, action: &Action) -> bool {
        match action {
            Action::SendWrite { fields, .. } => checkpoint_of(fields) != self.newest,
            _ => false,
        }
    }

    /// The store has written the record.
    pub(crate) fn wrote(&mut self, fields: &Fields) -> Result<(), String> {
        let written = checkpoint_of(fields);
        if written == self.newest {
            return Ok(());
        }
        let Some(new) = written else {
            return Err(format!("S25: a write has dropped {:?}", self.newest));
        };
        let log = log_of(Some(&new));
        let save = log.last().copied().unwrap_or_default();
        if new.version <= self.version {
            let version = self.version;
            return Err(format!("S23: version {} is written after {version}", new.version));
        }
        if self.refused.contains(&save) {
            return Err(format!("S27: save {save} was told as not done, and is written"));
        }
        if new.token.value() < self.granted {
            let granted = self.granted;
            return Err(format!(
                "S27: save {save} of {} comes after the grant of {granted}",
                new.token
            ));
        }
        // Two calls at once have no order: one that was under way when the other was answered may come after it.
        let before = self.acknowledged.len();
        self.acknowledged.retain(|other, since| log.contains(other) || save > *since);
        let overtaken = before - self.acknowledged.len();
        *self.counts.entry("saves: overtaken").or_default() += overtaken as u64;
        self.own.insert(save);
        self.saves.insert(new.version, save);
        self.stored.extend(log);
        self.version = new.version;
        self.newest = Some(new);
        Ok(())
    }

    /// Somebody has deleted the lock, or the store has gone back to an older copy: what is there counts.
    pub(crate) fn reset(&mut self, fields: Option<&Fields>) {
        let checkpoint = fields.and_then(checkpoint_of);
        if checkpoint != self.newest {
            let log = log_of(checkpoint.as_ref());
            self.acknowledged.retain(|save, _| log.contains(save));
            self.gone.extend(self.stored.iter().filter(|save| !log.contains(save)));
            self.newest = checkpoint;
        }
    }

    /// Something is told; of a grant it is known whether an operator let two believe (S17).
    pub(crate) fn told(
        &mut self,
        sidecar: usize,
        action: &Action,
        is_excused: impl Fn(LeaseId) -> bool,
    ) -> Result<(), String> {
        match action {
            Action::TellGranted { grant, .. } => self.check_grant(sidecar, grant, is_excused),
            Action::TellSaved { id, outcome } => self.answered(sidecar, *id, outcome),
            _ => Ok(()),
        }
    }

    fn check_grant(
        &mut self,
        sidecar: usize,
        grant: &Granted,
        is_excused: impl Fn(LeaseId) -> bool,
    ) -> Result<(), String> {
        self.granted = self.granted.max(grant.token.value());
        let log = log_of(grant.checkpoint.as_ref());
        let lost = self.acknowledged.keys().find(|save| !log.contains(save));
        if let Some(save) = lost.filter(|_| !is_excused(grant.lease_id)) {
            return Err(format!("S25: {} is granted without save {save}", grant.token));
        }
        if grant.resumed {
            // It counts its seconds anew.
            self.begun.remove(&(sidecar, grant.lease_id));
        }
        if !grant.resumed && self.is_pending(sidecar, grant.lease_id) {
            return Err(format!("S13: {} is handed on while a save is not settled", grant.token));
        }
        if grant.checkpoint.is_some() {
            self.count("granted: with a checkpoint");
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
        let save = number(id);
        match outcome {
            SaveOutcome::Saved { version } => {
                self.count("saves: stored");
                let stored = self.stored.contains(&save);
                if stored && !self.gone.contains(&save) {
                    self.acknowledged.insert(save, self.last);
                }
                // One that came later, and whose client did not wait for this one, may have taken its place (S26).
                let own = self.saves.get(version);
                let replaced = own.is_some_and(|own| self.came.get(own) > self.came.get(&save));
                if !stored && !replaced {
                    return Err(format!("S24: save {save} is told as stored, and is not"));
                }
            }
            SaveOutcome::Ended | SaveOutcome::NotSaved(_) => {
                let ended = *outcome == SaveOutcome::Ended;
                self.count(if ended { "saves: ended" } else { "saves: refused" });
                self.refused.insert(save);
                if self.own.contains(&save) {
                    return Err(format!("S27: save {save} is told as {outcome:?}, and is stored"));
                }
            }
            SaveOutcome::Unknown => self.count("saves: unknown"),
        }
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
