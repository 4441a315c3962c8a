//! Calls that save: one write serves all that wait for it, and each of them is answered (S26). What became of
//! a write is in `checkpoint.rs`.

use std::collections::VecDeque;

use super::action::{Action, Output, SaveOutcome};
use super::event::{SaveAsked, SaveId};
use crate::record::{CheckpointValue, Fields};

/// What is to be saved next: the newest value, for all calls that ask.
#[derive(Clone, Debug, Default)]
pub(super) struct Save {
    pub(super) askers: VecDeque<Asker>,
    /// The newest value.
    pub(super) value: Option<CheckpointValue>,
}

/// A save of which it is decided what it writes, for one call after the other. Where one before has
/// something to write, what a later one finds stands there only once that is stored (T8).
#[derive(Clone, Debug)]
pub(super) struct Deciding {
    /// With those for whom that is open yet; the first is being asked for.
    pub(super) save: Save,
    /// All fields of the record, with what was decided so far.
    pub(super) fields: Fields,
    /// Who waits for the write.
    pub(super) written: Vec<Asker>,
    /// Who has nothing to write.
    pub(super) nothing: Vec<Asker>,
}

/// Somebody who waits for the outcome of a save.
#[derive(Clone, Debug)]
pub(super) struct Asker {
    pub(super) id: SaveId,
    /// It has brought a checkpoint. That a newer one may have taken its place does not matter to it (S26).
    has_value: bool,
    /// More is written for it, as is decided then.
    pub(super) decides: bool,
}

impl Save {
    /// A newer value takes the place of an older one; what else is written is decided for each.
    pub(super) fn add(&mut self, SaveAsked { id, value, decides }: SaveAsked) {
        self.askers.push_back(Asker { id, has_value: value.is_some(), decides });
        self.value = value.or_else(|| self.value.take());
    }

    /// What was written, to be written again over what stands there now: before whatever waits, whose value
    /// is newer.
    pub(super) fn put_back(&mut self, askers: Vec<Asker>, value: Option<CheckpointValue>) {
        let mut askers = VecDeque::from(askers);
        askers.append(&mut self.askers);
        self.askers = askers;
        self.value = self.value.take().or(value);
    }
}

impl Deciding {
    /// What the next call adds to the fields, if it adds anything.
    pub(super) fn decided(&mut self, fields: Option<Fields>) {
        let Some(asker) = self.save.askers.pop_front() else { return };
        let is_written = fields.is_some() || asker.has_value || !self.written.is_empty();
        if is_written {
            self.written.push(asker)
        } else {
            self.nothing.push(asker)
        }
        if let Some(fields) = fields {
            self.fields = fields;
        }
    }
}

/// Answers calls that wait for a save.
pub(super) fn tell_saved<'a>(
    askers: impl IntoIterator<Item = &'a Asker>,
    outcome: &SaveOutcome,
    output: &mut Output,
) {
    for asker in askers {
        output.push(Action::Saved { id: asker.id, outcome: outcome.clone() });
    }
}
