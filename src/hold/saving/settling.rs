//! What the record says of a save that met another version than ours (S27).

use std::cmp::Ordering;

use super::SaveStep;
use crate::hold::action::LossReason;
use crate::hold::event::{Failure, RequestId, StoreFailure, Stored};
use crate::hold::held::{DELETED, Held};
use crate::hold::output::Output;
use crate::hold::releasing::TAKEN;
use crate::hold::{Flight, Hold, State};
use crate::lock::{Checkpoint, Record, checkpoint_version_of};

impl Hold {
    /// Whether `request` is the read that settles a save.
    pub(in crate::hold) fn settles_save(held: &Held, request: RequestId) -> bool {
        held.saving
            .as_ref()
            .and_then(|saving| saving.under_way.as_ref())
            .is_some_and(|writing| writing.step == SaveStep::Settle && writing.flight.is(request))
    }

    /// The record was read because a save met another version than ours (S27).
    pub(in crate::hold) fn save_settled(
        &mut self,
        mut held: Box<Held>,
        answer: Result<Stored, Failure>,
        output: &mut Output,
    ) {
        let lease_duration = held.renewal.lease_duration();
        let stored = match answer {
            Ok(stored) => stored,
            Err(Failure::Deleted) => {
                return self.lose_lease(held, LossReason::LockDeleted, DELETED.to_owned(), output);
            }
            Err(failure) => {
                let at = output.now + self.save_backoff(failure, lease_duration);
                let under_way = held.saving.as_mut().and_then(|saving| saving.under_way.as_mut());
                if let Some(writing) = under_way {
                    writing.flight = Flight::Waiting { at };
                }
                self.state = State::Held(held);
                return;
            }
        };
        let record = Record::from_fields(&stored.fields);
        let done = Self::is_done(&held, &record, &stored);
        match held.compare(&record) {
            Some(Ordering::Equal) if done => {
                self.learn(stored, output.now);
                self.saved(held, output);
            }
            Some(Ordering::Equal) => {
                self.learn(stored, output.now);
                self.write_again(held, output);
            }
            // S16: it went on elsewhere, or another has the lock: what the record has of this save was done
            // before.
            Some(Ordering::Greater) => {
                Self::tell_found(&mut held, done, &stored, output);
                self.moved_on(&held, output);
            }
            Some(Ordering::Less) | None => {
                Self::tell_found(&mut held, done, &stored, output);
                self.lose_lease(held, LossReason::Taken, TAKEN.to_owned(), output);
            }
        }
    }

    /// S13: an earlier write of ours has come late, though it was refused then. This one can be done no more,
    /// as it names the version before; it is repeated over what stands there.
    fn write_again(&mut self, mut held: Box<Held>, output: &mut Output) {
        let changed = StoreFailure::unanswered("save");
        let pause = self.backoff(&changed, held.renewal.lease_duration());
        if let Some(saving) = &mut held.saving {
            saving.newest = Some(RequestId(self.requests));
            // The last one waits for nothing else: a store that always says so is not asked without a pause.
            saving.begun_at = Some(output.now + pause);
            // One that only brings the record up to the hold begins by itself (S10).
            if let Some(writing) = saving.under_way.take().filter(|writing| !writing.only_records) {
                let value = writing.checkpoint.map(|checkpoint| checkpoint.value);
                saving.next.get_or_insert_default().put_back(writing.askers, value);
            }
        }
        self.after_save(held, output);
    }

    fn is_done(held: &Held, record: &Record, stored: &Stored) -> bool {
        let Some(writing) = held.saving.as_ref().and_then(|saving| saving.under_way.as_ref())
        else {
            return false;
        };
        // What was written together stands if any of it does.
        record.write == writing.write
            || writing.checkpoint.is_some()
                && Checkpoint::from_fields(&stored.fields) == writing.checkpoint
            || !writing.left.is_empty()
                && writing
                    .left
                    .iter()
                    .all(|(name, value)| stored.fields.get(name) == value.as_ref())
    }

    /// Of a hold that is over, a save that the record shows was done. Another is known not to be, unless
    /// somebody has saved since; of one without a checkpoint that cannot be known.
    fn tell_found(held: &mut Held, done: bool, stored: &Stored, output: &mut Output) {
        if done {
            return Self::tell_done(held, output);
        }
        let field = |name: &str| stored.fields.get(name).map(String::as_str);
        let version = checkpoint_version_of(field);
        if let Some(saving) = &mut held.saving
            && let Some(writing) = &mut saving.under_way
            && let Some(checkpoint) = &writing.checkpoint
            && version.is_none_or(|version| version < checkpoint.version)
        {
            writing.step = SaveStep::Write;
            writing.flight = Flight::Waiting { at: output.now };
            writing.uncertain = false;
        }
    }
}
