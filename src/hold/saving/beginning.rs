//! What waits to be saved, and the write that it becomes (S23, S26, S27, T8).

use std::sync::Arc;

use super::{Save, SaveStep, Writing, tell_saved};
use crate::hold::action::SaveOutcome;
use crate::hold::event::SaveId;
use crate::hold::held::Held;
use crate::hold::output::Output;
use crate::hold::validity::cut_off;
use crate::hold::{Flight, Hold, SaveAsked, SavePart};
use crate::lock::{
    Checkpoint, CheckpointValue, FencingToken, Fields, Record, checkpoint_version_of,
};
use crate::time::UnixMillis;

/// Somebody who waits for the outcome of a save.
#[derive(Clone, Debug)]
pub(super) struct Asker {
    pub(super) id: SaveId,
    /// It has brought a checkpoint. That a newer one may have taken its place does not matter to it (S26).
    has_value: bool,
    part: Option<Arc<dyn SavePart>>,
}

impl Save {
    /// A newer value takes the place of an older one; parts are all kept.
    pub(super) fn add(&mut self, SaveAsked { id, value, part }: SaveAsked) {
        self.askers.push(Asker { id, has_value: value.is_some(), part });
        self.value = value.or_else(|| self.value.take());
    }

    /// What was written, to be written again over what stands there now: before whatever waits, whose value
    /// is newer.
    pub(super) fn put_back(&mut self, mut askers: Vec<Asker>, value: Option<CheckpointValue>) {
        askers.append(&mut self.askers);
        self.askers = askers;
        self.value = self.value.take().or(value);
    }

    /// Applies the parts to `fields`, one after the other. Who waits for the write, and who has nothing to
    /// write. Where a part before has something, what a later one finds stands there only once that is stored
    /// (T8).
    fn apply(
        &self,
        fields: &mut Fields,
        token: FencingToken,
        store_time: UnixMillis,
    ) -> (Vec<Asker>, Vec<Asker>) {
        let (mut written, mut nothing) = (Vec::new(), Vec::new());
        for asker in &self.askers {
            let part = asker.part.as_ref().and_then(|part| part.at_save(fields, token, store_time));
            let is_written = part.is_some() || asker.has_value || !written.is_empty();
            if let Some(part) = part {
                *fields = part;
            }
            if is_written { written.push(asker.clone()) } else { nothing.push(asker.clone()) }
        }
        (written, nothing)
    }
}

impl Hold {
    /// Writes what waits, over the record as it is known now; unless there is nothing to write.
    pub(super) fn begin_save(&mut self, held: &mut Held, save: Save, output: &mut Output) {
        let Some(known) = &self.memory.known else {
            return tell_saved(&save.askers, &SaveOutcome::Ended, output);
        };
        let stored = known.fields();
        let mut fields = stored.clone();
        let store_time = held.store_time(output.now);
        let (askers, nothing) = save.apply(&mut fields, held.token, store_time);
        tell_saved(&nothing, &SaveOutcome::Nothing, output);
        let reserved = held.reservation(self.settings.poll_cap, output.now);
        let only_records = askers.is_empty() && reserved.is_none();
        if only_records && held.records_at().is_none_or(|at| output.now < at) {
            return;
        }
        let left = changed(&stored, &fields);
        let checkpoint = save.value.map(|value| new_checkpoint(value, &fields, held, output));
        let write = self.jitter.name();
        let record = Record { reserved, ..record_of(held, known.record(), write.clone()) };
        let if_match = known.etag();
        let fields = match &checkpoint {
            Some(checkpoint) => checkpoint.clone().into_fields(fields),
            None => fields,
        };
        let fields = record.into_fields(fields);
        let request = self.next_request();
        let timeout = cut_off(held.renewal.lease_duration());
        let writing = Writing {
            askers,
            checkpoint,
            left,
            write,
            if_match,
            fields,
            step: SaveStep::Write,
            flight: Flight::Sent { request, until: output.now + timeout },
            uncertain: false,
            only_records,
        };
        output.ask(request, writing.request(held.lease_id), timeout);
        let saving = held.saving.get_or_insert_default();
        saving.begun_at = Some(output.now);
        saving.under_way = Some(writing);
    }
}

fn new_checkpoint(
    value: CheckpointValue,
    fields: &Fields,
    held: &Held,
    output: &Output,
) -> Checkpoint {
    let previous = checkpoint_version_of(|name| fields.get(name).map(String::as_str));
    Checkpoint {
        value,
        version: Checkpoint::next_version(previous, held.token),
        token: held.token,
        saved_at: held.store_time(output.now),
    }
}

/// The record that is written with a save. What is stored may be of the holder from whom the lock was handed
/// on (S10).
fn record_of(held: &Held, stored: Record, write: String) -> Record {
    Record {
        token: Some(held.token),
        acquired_at: Some(held.acquired_at),
        resting_until: stored.resting_until,
        resting_for: stored.resting_for,
        handed_on: stored.handed_on,
        lease: stored.lease,
        generation: stored.generation,
        attempt: stored.attempt,
        write,
        ..held.terms.record.clone()
    }
}

/// The fields that parts leave otherwise than they were, as they leave them; none for one that is taken away.
fn changed(before: &Fields, after: &Fields) -> Vec<(String, Option<String>)> {
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    let differ = names.filter(|name| before.get(*name) != after.get(*name));
    differ.map(|name| (name.clone(), after.get(name).cloned())).collect()
}
