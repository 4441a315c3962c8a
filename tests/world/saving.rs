//! How clients save checkpoints (S23 to S27): while they hold, at a sidecar that the hold has left, and with
//! a release.

use std::time::Duration;

use leasehold::coordinator::{CallError, CheckpointOutcome, Concluding, Released, Saved};
use leasehold::lock::Layout;
use leasehold::record::CheckpointValue;
use leasehold::testing::SeededRandom;

use crate::simulation::ledger::SaveAnswer;
use crate::world::chance::About;
use crate::world::client::{Client, Holding, PATIENCE};
use crate::world::cost::Cause;
use crate::world::notices;
use crate::world::planted::Bug;
use crate::world::saves;
use crate::world::sidecar::Sidecar;

/// A save on its way.
type Save = (u32, CheckpointValue);

impl Client {
    /// Whether it saves now, and how; where locks have no checkpoints, never (S23).
    fn wants_to_save(&self, most: u16) -> Option<SeededRandom> {
        let plan = self.world.plan();
        if plan.saves == 0 || plan.layout == Layout::WebJobs {
            return None;
        }
        let mut random = self.world.draw(About::Save, self.index);
        random.chance(plan.saves.max(most)).then_some(random)
    }

    /// Another save of this hold: what its client knows, and one more.
    fn another(&self, holding: &mut Holding) -> Option<Save> {
        let mut state = self.world.state();
        state.service.saves.ledger(holding.path.as_str()).next(&mut holding.log)
    }

    /// A holder adds to the checkpoint, or does not: once, twice at once, or where its hold is no more.
    pub(crate) async fn save(&self, holding: &mut Holding) {
        let Some(mut random) = self.wants_to_save(0) else { return };
        let log = holding.log.clone();
        let Some(first) = self.another(holding) else { return };
        if let Some(left) = holding.left.clone().filter(|_| random.chance(100)) {
            holding.log = log;
            self.save_at(&left, holding, first).await;
            return;
        }
        let asked = self.world.now();
        let at = holding.sidecar.clone();
        let second = random.chance(200).then(|| self.another(holding)).flatten();
        let saved = match second {
            None => self.save_at(&at, holding, first).await,
            Some(second) => {
                let first = self.save_at(&at, holding, first);
                let (_, saved) = tokio::join!(first, self.save_at(&at, holding, second));
                saved
            }
        };
        if let Some(saved) = saved
            && self.believes(holding).is_some()
            && self.world.now() < self.until(&at, &saved.validity, asked)
        {
            self.believe(holding, &saved.validity, asked);
        }
    }

    async fn save_at(&self, at: &Sidecar, holding: &Holding, (save, value): Save) -> Option<Saved> {
        let (world, lock) = (&self.world, holding.path.as_str());
        let (lease_id, generation) = (holding.lease_id, Some(holding.generation));
        let work = async {
            at.calls_for(&holding.path, Cause::Save);
            world.state().service.saves.ledger(lock).comes(save);
            let answer = at.coordinator.save(lease_id, generation, value).await;
            let mut state = world.state();
            let told = saves::answer_of(&answer);
            let wrong = state.service.saves.ledger(lock).answered(save, &told).err();
            if let Ok(Saved { validity, .. }) = &answer {
                let until = at.clock.true_time(&validity.valid_until);
                if world.now() < until {
                    state.checks.told_by_call(holding.key(), until);
                    notices::promised(&mut state, holding.key(), until);
                }
            }
            drop(state);
            world.fail_if(wrong);
            answer
        };
        let answer = tokio::time::timeout(PATIENCE, at.call(self.index, work)).await;
        self.note(|| format!("saved {save} under {} at {}: {answer:?}", holding.token, at.index));
        answer.ok().flatten()?.ok()
    }

    /// Releases at this sidecar, perhaps with a save (S26).
    pub(crate) async fn release_at(
        &self,
        at: &Sidecar,
        holding: &mut Holding,
        asked: Duration,
    ) -> Result<Released, CallError> {
        let (lease_id, generation) = (holding.lease_id, Some(holding.generation));
        let most = if holding.revoked { 800 } else { 0 };
        let save = self.wants_to_save(most).and_then(|_| self.another(holding));
        let Some((save, value)) = save else {
            return at.coordinator.release(lease_id, generation).await;
        };
        let lock = holding.path.as_str();
        at.calls_for(&holding.path, Cause::Save);
        self.world.state().service.saves.ledger(lock).comes(save);
        let answer = self.release_saving(at, holding, value).await;
        let told = saves::answer_of_release(&answer);
        self.note(|| format!("saved {save} with the release of {}: {told:?}", holding.token));
        let mut state = self.world.state();
        if matches!(told, SaveAnswer::Stored { .. }) {
            let revoked = holding.revoked;
            state.story.count(if revoked {
                "saves: after a notice"
            } else {
                "saves: with a release"
            });
        }
        let wrong = state.service.saves.ledger(lock).answered(save, &told).err();
        let wrong = wrong.or_else(|| {
            let released = &answer.as_ref().ok()?.released;
            saves::released(&state, at.index, (released, &told), asked)
        });
        drop(state);
        self.world.fail_if(wrong);
        answer.map(|concluding| concluding.released)
    }

    async fn release_saving(
        &self,
        at: &Sidecar,
        holding: &Holding,
        value: CheckpointValue,
    ) -> Result<Concluding, CallError> {
        let (lease_id, generation) = (holding.lease_id, Some(holding.generation));
        if !self.world.has(Bug::ReleasedBeforeSaved) {
            return at
                .coordinator
                .release_concluding(lease_id, generation, None, Some(value))
                .await;
        }
        let released = at.coordinator.release(lease_id, generation);
        let saved = at.coordinator.save(lease_id, generation, value);
        let (released, saved) = tokio::join!(biased; released, saved);
        let saved = match saves::answer_of(&saved) {
            SaveAnswer::Stored { version } => CheckpointOutcome::Saved { version },
            SaveAnswer::Unknown => CheckpointOutcome::Unknown { detail: String::new() },
            other => CheckpointOutcome::NotSaved { detail: format!("{other:?}") },
        };
        let concluding = |released| Concluding { released, checkpoint: Some(saved), outcome: None };
        released.map(concluding)
    }
}
