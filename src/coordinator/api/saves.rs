//! Calls that save a checkpoint, and what they are answered (S23 to S27).

use std::collections::BTreeMap;

use tokio::sync::oneshot;

use crate::coordinator::actor::registry::Registry;
use crate::coordinator::actor::task::{Command, HoldCall, Task};
use crate::coordinator::{
    CallError, Coordinator, Decider, HeldEvent, HoldEvent, LockEvent, LockEventKind, Released,
    Validity, released_before,
};
use crate::hold::{CallerId, Event, HolderCall, SaveAsked, SaveId, SaveOutcome};
use crate::lock::{LeaseId, Permit};
use crate::record::{CheckpointValue, Found, Verdict};
use crate::store::BreakNote;
use crate::time::Instant;

/// A checkpoint was saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The version that the store has.
    pub version: u64,
    /// Until when the holder may act.
    pub validity: Validity,
}

/// What became of a checkpoint that came with a release (S26).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointOutcome {
    /// The store has it.
    Saved {
        /// The version that the store has.
        version: u64,
    },
    /// The store does not have it.
    NotSaved {
        /// Why, for people.
        detail: String,
    },
    /// The old one stands or the new one (S27).
    Unknown {
        /// Why, for people.
        detail: String,
    },
}

/// What is to be saved, in one write.
#[derive(Debug, Default)]
pub(crate) struct Saving {
    /// A checkpoint (S23).
    pub(crate) value: Option<CheckpointValue>,
    /// Whatever this decides, too (T8).
    pub(crate) decider: Option<Decider>,
}

/// What to save, and where the outcome goes.
#[derive(Debug)]
pub(crate) struct SaveCall {
    saving: Saving,
    reply: oneshot::Sender<SaveOutcome>,
}

/// The calls of one lock that wait for the outcome of a save.
#[derive(Debug, Default)]
pub(crate) struct Saves {
    last: u64,
    waiting: BTreeMap<SaveId, SaveCall>,
}

impl Saves {
    fn add(&mut self, save: SaveCall) -> SaveId {
        self.last += 1;
        let id = SaveId(self.last);
        self.waiting.insert(id, save);
        id
    }

    /// What else is written with a save (T8).
    pub(crate) fn decide(&self, id: SaveId, found: &Found) -> Verdict {
        let decider = self.waiting.get(&id).and_then(|save| save.saving.decider.as_ref());
        decider.map_or(Verdict::Nothing, |decider| decider.decide(found))
    }

    fn answer(&mut self, id: SaveId, outcome: SaveOutcome) {
        if let Some(save) = self.waiting.remove(&id) {
            // A call that was given up: its value is saved all the same.
            let _ = save.reply.send(outcome);
        }
    }
}

impl Coordinator {
    /// Releases a hold; answers when the store has it, or the lease can no longer be valid (S13).
    /// `generation` is the newest that the caller was answered with, if it knows it (S16).
    ///
    /// # Errors
    /// When this sidecar never had a hold with the lease id, or forgot it.
    pub async fn release(
        &self,
        lease_id: LeaseId,
        generation: Option<u64>,
    ) -> Result<Released, CallError> {
        self.release_saving(lease_id, generation, None).await.map(|(released, _)| released)
    }

    /// As [`Coordinator::release`]; a checkpoint is saved before, and the hold is released whatever becomes
    /// of it (S26).
    ///
    /// # Errors
    /// When this sidecar never had a hold with the lease id, or forgot it; when locks have no checkpoints
    /// here.
    pub async fn release_saving(
        &self,
        lease_id: LeaseId,
        generation: Option<u64>,
        checkpoint: Option<CheckpointValue>,
    ) -> Result<(Released, Option<CheckpointOutcome>), CallError> {
        if checkpoint.is_some() {
            self.check_checkpoints("checkpoint")?;
        }
        let saving = Saving { value: checkpoint, decider: None };
        let (released, saved) = self.release_with(lease_id, generation, saving).await?;
        let saved = saved.map(|saved| outcome(saved, &released));
        Ok((released, saved))
    }

    /// As [`Coordinator::release_saving`], with whatever else is to be written. What became of the save, if
    /// there was one: none inside if nobody answered it.
    pub(crate) async fn release_with(
        &self,
        lease_id: LeaseId,
        generation: Option<u64>,
        saving: Saving,
    ) -> Result<(Released, Option<Option<SaveOutcome>>), CallError> {
        let call = HoldCall { lease_id, generation };
        let before = |registry: &Registry| {
            registry.ended(call).map(released_before).ok_or_else(|| registry.unknown_lease())
        };
        let (save, saved) = if saving.value.is_none() && saving.decider.is_none() {
            (None, None)
        } else {
            let (reply, saved) = oneshot::channel();
            (Some(SaveCall { saving, reply }), Some(saved))
        };
        let (reply, answer) = oneshot::channel();
        {
            let registry = self.shared.registry();
            if let Some(entry) = registry.hold(lease_id) {
                let command = Command::Release(call, save, reply);
                if registry.send(&entry.path, command).is_err() {
                    return Err(registry.unknown_lease());
                }
            } else {
                registry.loss_is_known(call);
                drop((save, reply));
            }
        }
        // No hold, or the task failed under it: its holds are lost.
        let released = answer.await.or_else(|_| before(&self.shared.registry()))?;
        let saved = match saved {
            Some(saved) => Some(saved.await.ok()),
            None => None,
        };
        Ok((released, saved))
    }

    /// Writes something of the record under a hold that goes on (T20).
    pub(crate) async fn save_decided(
        &self,
        lease_id: LeaseId,
        generation: Option<u64>,
        decider: Decider,
    ) -> Result<SaveOutcome, CallError> {
        let saving = Saving { value: None, decider: Some(decider) };
        self.save_with(HoldCall { lease_id, generation }, saving).await
    }

    async fn save_with(&self, call: HoldCall, saving: Saving) -> Result<SaveOutcome, CallError> {
        let (reply, outcome) = oneshot::channel();
        let save = SaveCall { saving, reply };
        self.ask(call, |answer| Command::Save(call, save, answer)).await?;
        outcome.await.map_err(|_| self.shared.registry().why_over(call))
    }

    /// Replaces the lock's checkpoint; answers when the store has it (S24).
    ///
    /// # Errors
    /// When the hold is over, was resumed since, or never was; when the store refuses, or the outcome stays
    /// unknown (S27).
    pub async fn save(
        &self,
        lease_id: LeaseId,
        generation: Option<u64>,
        value: CheckpointValue,
    ) -> Result<Saved, CallError> {
        self.check_checkpoints("value")?;
        let call = HoldCall { lease_id, generation };
        let saving = Saving { value: Some(value), decider: None };
        match self.save_with(call, saving).await? {
            // A checkpoint that was saved has a version.
            SaveOutcome::Saved { version: Some(version) } => {
                // The hold may have ended with its save: then nothing of its validity is left.
                let validity = self.get_hold(lease_id, generation).await;
                let ended = || self.shared.validity(self.clock().now());
                let validity = validity.map_or_else(|_| ended(), |held| held.validity);
                Ok(Saved { version, validity })
            }
            SaveOutcome::NotSaved(store_failure) => Err(CallError::StoreFailure(store_failure)),
            SaveOutcome::Unknown => Err(CallError::CheckpointUnknown),
            SaveOutcome::Saved { version: None } | SaveOutcome::Nothing | SaveOutcome::Ended => {
                Err(self.shared.registry().why_over(call))
            }
        }
    }

    /// S23: software that shares the layout `webjobs` drops the fields of others.
    pub(crate) fn check_checkpoints(&self, field: &'static str) -> Result<(), CallError> {
        let layout = self.host().namespace.layout;
        if layout.keeps_checkpoints() { Ok(()) } else { Err(CallError::NoCheckpoints { field }) }
    }
}

impl Task {
    /// Asks the machine to save; what the hold is answered tells whether it could ask at all.
    pub(crate) fn save(&mut self, call: HoldCall, save: SaveCall) -> Result<Validity, CallError> {
        let validity = self.ask(call, HolderCall::Validity)?;
        if let Some(caller) = self.holder(call.lease_id) {
            self.save_of(caller, call.generation, save);
        }
        Ok(validity)
    }

    pub(crate) fn save_of(
        &mut self,
        caller: CallerId,
        generation: Option<u64>,
        mut save: SaveCall,
    ) {
        let (value, decides) = (save.saving.value.take(), save.saving.decider.is_some());
        let id = self.aside().saves.add(save);
        let save = SaveAsked { id, value, decides };
        self.feed(Event::Call { caller, generation, call: HolderCall::Save(save) });
    }

    pub(crate) fn tell_saved(&mut self, permit: Permit, id: SaveId, outcome: SaveOutcome) {
        let path = self.path_of(permit);
        let kind = LockEventKind::Saved { outcome: &outcome };
        self.shared.observe(&LockEvent::of(&path, kind));
        self.aside().saves.answer(id, outcome);
        self.shared.registry().changed(&path);
    }

    /// The lease of a hold was broken and runs out (S22).
    pub(crate) fn tell_revoked(&mut self, id: CallerId, valid_until: Instant) {
        let Some(caller) = self.callers.get(&id) else { return };
        let (token, path) = (caller.token, self.path_of(caller.permit));
        let break_note = self.break_note(caller.permit).cloned();
        let break_note = break_note.filter(|note| note.is_about(token));
        let reason = break_note.as_ref().map(BreakNote::text).unwrap_or_default();
        self.shared.observe_caller(&path, caller, LockEventKind::Revoked { reason: &reason });
        self.note_validity(caller.lease_id, valid_until, None);
        let validity = self.shared.validity(valid_until);
        self.send_event(id, HoldEvent::Held(HeldEvent::Revoked { validity, break_note }));
        self.shared.registry().changed(&path);
    }
}

/// What became of a checkpoint that came with a release.
pub(crate) fn outcome(saved: Option<SaveOutcome>, released: &Released) -> CheckpointOutcome {
    let detail = match saved {
        Some(SaveOutcome::Saved { version: Some(version) }) => {
            return CheckpointOutcome::Saved { version };
        }
        Some(SaveOutcome::NotSaved(store_failure)) => store_failure.message,
        Some(SaveOutcome::Unknown) => {
            let detail = "the hold ended before the store answered".to_owned();
            return CheckpointOutcome::Unknown { detail };
        }
        // An earlier release has passed its save, which may have been of the same checkpoint.
        None if !matches!(released, Released::AlreadyLost { .. }) => {
            let detail =
                "the hold had been released before; what that call saved stands".to_owned();
            return CheckpointOutcome::Unknown { detail };
        }
        // A checkpoint that was saved has a version, and one that was brought is something to save.
        Some(SaveOutcome::Saved { version: None } | SaveOutcome::Nothing | SaveOutcome::Ended)
        | None => "the hold ended before it could be saved".to_owned(),
    };
    CheckpointOutcome::NotSaved { detail }
}
