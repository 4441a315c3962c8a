//! What the store answers to a save, and what comes of it (S24, S26, S27).

use std::cmp::Ordering;
use std::time::Duration;

use super::acquisition::unexpected;
use super::action::{LossReason, SaveOutcome};
use super::event::{Failure, Request, StoreFailure, Stored};
use super::held::{BROKEN, DELETED, Held, Phase};
use super::output::Output;
use super::releasing::TAKEN;
use super::saving::{Step, Writing, end_saves, tell_saved};
use super::{Flight, Hold, Known, State};
use crate::lock::{Checkpoint, ETag, Record, checkpoint_version_of};

impl Hold {
    /// A write was answered while the lock is held: that of a save, or one of long ago.
    pub(super) fn save_answered(
        &mut self,
        mut held: Box<Held>,
        request: Request,
        answer: Result<ETag, Failure>,
        output: &mut Output,
    ) {
        let lease_duration = held.renewal.lease_duration();
        let under_way = held.saving.as_mut().and_then(|saving| saving.under_way.as_mut());
        let expected =
            |writing: &&mut Writing| writing.step == Step::Write && writing.flight.is(request);
        let Some(writing) = under_way.filter(expected) else {
            self.state = State::Held(held);
            return;
        };
        match answer {
            Ok(etag) => {
                self.memory.known = Some(Known::new(etag, &writing.fields));
                return self.saved(held, output);
            }
            // Ours, whose answer was lost, or another's: the record says which (S27).
            Err(Failure::Changed) => {
                writing.step = Step::Settle;
                writing.flight = Flight::Waiting { at: output.now };
            }
            Err(failure @ (Failure::Taken | Failure::Broken | Failure::Deleted)) => {
                // S24: this try was not done.
                writing.flight = Flight::Waiting { at: output.now };
                let (reason, detail) = match failure {
                    Failure::Broken => (LossReason::Broken, BROKEN),
                    Failure::Deleted => (LossReason::LockDeleted, DELETED),
                    Failure::Taken
                    | Failure::Contended
                    | Failure::Changed
                    | Failure::Unknown(_)
                    | Failure::NotDone(_)
                    | Failure::Refused(_) => (LossReason::Taken, TAKEN),
                };
                return self.lose_lease(held, reason, detail.to_owned(), output);
            }
            Err(Failure::Refused(store_failure)) if !writing.uncertain => {
                return self.not_saved(held, &store_failure, output);
            }
            Err(failure) => {
                writing.uncertain |= matches!(failure, Failure::Unknown(_));
                let at = output.now + self.save_backoff(failure, lease_duration);
                let under_way = held.saving.as_mut().and_then(|saving| saving.under_way.as_mut());
                if let Some(writing) = under_way {
                    writing.flight = Flight::Waiting { at };
                }
            }
        }
        self.state = State::Held(held);
    }

    fn save_backoff(&mut self, failure: Failure, lease_duration: Duration) -> Duration {
        let store_failure = match failure {
            Failure::Unknown(store_failure)
            | Failure::NotDone(store_failure)
            | Failure::Refused(store_failure) => store_failure,
            failure @ (Failure::Contended
            | Failure::Changed
            | Failure::Taken
            | Failure::Broken
            | Failure::Deleted) => unexpected("save", &failure),
        };
        self.backoff(&store_failure, lease_duration)
    }

    /// Whether `request` is the read that settles a save.
    pub(super) fn settles_save(held: &Held, request: Request) -> bool {
        held.saving
            .as_ref()
            .and_then(|saving| saving.under_way.as_ref())
            .is_some_and(|writing| writing.step == Step::Settle && writing.flight.is(request))
    }

    /// The record was read because a save met another version than ours (S27).
    pub(super) fn save_settled(
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
            // S16: it went on elsewhere, or another has the lock: what the record has of this save was done before.
            Some(Ordering::Greater) => {
                Self::tell_found(&mut held, done, &stored, output);
                self.moved_on(&held, output);
            }
            Some(Ordering::Equal | Ordering::Less) | None => {
                Self::tell_found(&mut held, done, &stored, output);
                self.lose_lease(held, LossReason::Taken, TAKEN.to_owned(), output);
            }
        }
    }

    fn is_done(held: &Held, record: &Record, stored: &Stored) -> bool {
        let Some(writing) = held.saving.as_ref().and_then(|saving| saving.under_way.as_ref())
        else {
            return false;
        };
        let field = |name: &str| stored.fields.get(name).map(String::as_str);
        record.write == writing.write
            || Checkpoint::from_lookup(field).as_ref() == Some(&writing.checkpoint)
    }

    /// Of a hold that is over, a save that the record shows was done. Another is known not to be, unless somebody has saved
    /// since.
    fn tell_found(held: &mut Held, done: bool, stored: &Stored, output: &mut Output) {
        if done {
            return Self::tell_done(held, output);
        }
        let field = |name: &str| stored.fields.get(name).map(String::as_str);
        let version = checkpoint_version_of(field);
        if let Some(saving) = &mut held.saving
            && let Some(writing) = &mut saving.under_way
            && version.is_none_or(|version| version < writing.checkpoint.version)
        {
            writing.step = Step::Write;
            writing.flight = Flight::Waiting { at: output.now };
            writing.uncertain = false;
        }
    }

    /// The store has the save that was under way.
    fn saved(&mut self, mut held: Box<Held>, output: &mut Output) {
        held.written_at = output.now;
        if let Some(saving) = &mut held.saving {
            saving.newest = Some(Request(self.requests));
        }
        Self::tell_done(&mut held, output);
        self.after_save(held, output);
    }

    fn tell_done(held: &mut Held, output: &mut Output) {
        if let Some(saving) = &mut held.saving
            && let Some(writing) = saving.under_way.take()
        {
            let version = writing.checkpoint.version;
            tell_saved(&writing.ids, &SaveOutcome::Saved { version }, output);
        }
    }

    fn not_saved(&mut self, mut held: Box<Held>, failure: &StoreFailure, output: &mut Output) {
        if let Some(saving) = &mut held.saving
            && let Some(writing) = saving.under_way.take()
        {
            tell_saved(&writing.ids, &SaveOutcome::NotSaved(failure.clone()), output);
        }
        self.after_save(held, output);
    }

    /// A save is settled: a release that waited for it goes on (S26).
    fn after_save(&mut self, mut held: Box<Held>, output: &mut Output) {
        match held.phase {
            Phase::LastSave { released } if !held.is_saving() => {
                held.phase = Phase::Active;
                self.end_hold(held, released, output);
            }
            Phase::Active
            | Phase::LastSave { .. }
            | Phase::Resting { .. }
            | Phase::GracePeriod(_) => self.state = State::Held(held),
        }
    }

    /// The lease runs out before the last save was settled: its outcome stays unknown, and the lease goes back.
    pub(super) fn give_up_last_save(&mut self, held: Box<Held>, output: &mut Output) {
        end_saves(held.saving.as_deref(), output);
        let reply = Some(held.caller);
        self.give_back(*held, reply, output);
    }
}
