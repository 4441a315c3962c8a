//! Saves of a checkpoint, during a hold and with its release (S23 to S27). A write that
//! is not answered in time (`advance_saving`), or whose answer says nothing (`save_answered`), is sent again.
//! Where that meets another version of the record, a read settles whether it was done (`save_settled`), and
//! where the hold ends first it is told as unknown (`end_saves`, S27).

use std::time::Duration;

use super::action::{Action, Loss, Output, SaveOutcome};
use super::event::{
    CallerId, Failure, RequestId, SaveAsked, SaveId, StoreFailure, Stored, WriteOf,
};
use super::exchange::{Exchange, RecordOwner, RecordWrite};
use super::held::{GracePeriod, Held, Phase};
use super::saves::{Deciding, Save, SaveStep, Writing, end_saves, tell_saved};
use super::{Hold, State};
use crate::record::{
    Checkpoint, CheckpointValue, ETag, Fields, Found, Record, Verdict, checkpoint_version_of,
};
use crate::time::Instant;

/// How long a hold must last that was handed on, until the record is written of it (S10).
pub(super) const RECORDED_AFTER: Duration = Duration::from_secs(1);

impl Held {
    /// Whether a save is to be settled before the lock may go to anybody (S13, S26).
    pub(super) fn is_saving(&self) -> bool {
        self.saving.as_ref().is_some_and(|saving| saving.is_unsettled())
    }

    /// Whether the hold of `caller` may yet write: also where its stream broke, or its release waits for a
    /// save.
    fn may_save(&self, caller: CallerId) -> bool {
        let open = match self.phase {
            Phase::Active
            | Phase::LastSave { .. }
            | Phase::GracePeriod(GracePeriod::StreamBroken) => true,
            Phase::Resting { .. } | Phase::GracePeriod(_) => false,
        };
        self.caller == caller && open
    }

    pub(super) fn saving_timeout(&self) -> Option<Instant> {
        let last = matches!(self.phase, Phase::LastSave { .. });
        let renewing = self.renewing_until();
        let saves = self.saving.as_ref().and_then(|saving| saving.poll_timeout(last, renewing));
        saves.or_else(|| {
            let due = self.saving.as_ref().and_then(|saving| saving.due(last));
            self.records_at().map(|at| at.max(renewing.or(due).unwrap_or(at)))
        })
    }

    /// When the record is to be written because it is of the grant before (S10). A hold that is over needs
    /// that no more.
    const fn records_at(&self) -> Option<Instant> {
        match self.phase {
            Phase::Active | Phase::GracePeriod(GracePeriod::StreamBroken) => self.record_at,
            Phase::LastSave { .. } | Phase::Resting { .. } | Phase::GracePeriod(_) => None,
        }
    }

    /// The hold ends: its record need not be written any more, if that is not under way.
    pub(super) fn drop_recording(&mut self) {
        if let Some(saving) = &mut self.saving {
            saving.drop_recording();
        }
    }

    /// Until when, at the latest, a save waits for a renewal, or for the read after one.
    fn renewing_until(&self) -> Option<Instant> {
        let settling = self.settling.as_ref().map(|settling| settling.at());
        // S7: what is about to be sent comes first, whenever its turn is.
        let held_back = self.is_renewed() && self.renewal.is_held_back();
        let turn = held_back.then(|| self.renewal.valid_until());
        self.renewal.waits_until().into_iter().chain(settling).chain(turn).max()
    }

    /// Whether the answer to this read may show the record as it was before the last save.
    pub(super) fn is_outdated(&self, request: RequestId) -> bool {
        let newest = self.saving.as_ref().and_then(|saving| saving.newest);
        newest.is_some_and(|newest| request <= newest)
    }
}

impl Hold {
    /// A holder saves its checkpoint. Who carries an older generation does not know that it goes on here, and
    /// may release it where it was: the save could come after the next grant (S16, S27).
    pub(super) fn save(
        &mut self,
        caller: CallerId,
        generation: Option<u64>,
        save: SaveAsked,
        output: &mut Output,
    ) {
        if let State::Held(held) = &mut self.state
            && held.may_save(caller)
            && generation.is_none_or(|generation| generation >= held.generation)
        {
            return held.saving.get_or_insert_default().queue(save, output.now);
        }
        output.push(Action::Saved { id: save.id, outcome: SaveOutcome::Ended });
    }

    /// Does what is due of the saves of a hold.
    pub(super) fn advance_saving(&mut self, held: &mut Held, output: &mut Output) {
        let last = matches!(held.phase, Phase::LastSave { .. });
        let renewing = held.renewing_until().is_some();
        let renewal_due = held.is_renewed() && held.renewal.is_due(output.now);
        let records = held.records_at().is_some_and(|at| output.now >= at);
        if records {
            held.saving.get_or_insert_default();
        }
        let Some(saving) = &mut held.saving else { return };
        if saving.deciding.is_some() {
            return;
        }
        if let Some(writing) = &mut saving.under_way {
            if !writing.exchange.is_over(output.now) {
                return;
            }
            if writing.exchange.is_sent() {
                writing.uncertain |= writing.step == SaveStep::Write;
                let unanswered = StoreFailure::unanswered("save");
                let at = output.now + self.backoff(&unanswered, held.renewal.lease_duration());
                writing.exchange = Exchange::Waiting { at };
            } else if !renewing {
                let what = writing.request(held.lease_id);
                writing.exchange = self.send(what, held.renewal.lease_duration(), output);
            }
            return;
        }
        let due = saving.due(last).is_none_or(|due| output.now >= due);
        let may_begin = due && !renewing && !renewal_due;
        let save = saving
            .next
            .take_if(|_| may_begin)
            .or_else(|| (may_begin && records).then(Save::default));
        if let Some(save) = save {
            self.begin_save(held, save, output);
        }
    }

    /// A write was answered while the lock is held: that of a save, or one of long ago.
    pub(super) fn save_answered(
        &mut self,
        mut held: Box<Held>,
        request: RequestId,
        answer: Result<ETag, Failure>,
        output: &mut Output,
    ) {
        let under_way = held.saving.as_mut().and_then(|saving| saving.under_way.as_mut());
        let expected = |writing: &&mut Writing| writing.exchange.is(request);
        let Some(writing) = under_way.filter(expected) else {
            self.state = State::Held(held);
            return;
        };
        let failure = match answer {
            Ok(etag) => {
                self.record_stored(&writing.write, &etag, request, output.now);
                return self.saved(held, output);
            }
            Err(failure) => failure,
        };
        if let Some(loss) = failure.loss() {
            // S24: this try was not done.
            writing.exchange = Exchange::Waiting { at: output.now };
            return self.lose_lease(held, loss, output);
        }
        if failure == Failure::Changed {
            // Ours, whose answer was lost, or another's: the record says which (S27).
            writing.step = SaveStep::Settle;
            writing.exchange = Exchange::Waiting { at: output.now };
            self.state = State::Held(held);
            return;
        }
        if let Failure::Refused(store_failure) = &failure
            && !writing.uncertain
        {
            return self.not_saved(held, store_failure, output);
        }
        writing.uncertain |= matches!(failure, Failure::Unknown(_));
        self.save_later(held, failure, output);
    }

    /// Asks again after a while, for the save or for what became of it.
    fn save_later(&mut self, mut held: Box<Held>, failure: Failure, output: &Output) {
        let at =
            output.now + self.backoff(&failure.into_cause("save"), held.renewal.lease_duration());
        let under_way = held.saving.as_mut().and_then(|saving| saving.under_way.as_mut());
        if let Some(writing) = under_way {
            writing.exchange = Exchange::Waiting { at };
        }
        self.state = State::Held(held);
    }

    /// The store has the save that was under way.
    fn saved(&mut self, mut held: Box<Held>, output: &mut Output) {
        if let Some(saving) = &mut held.saving {
            saving.newest = Some(RequestId(self.requests));
        }
        held.record_at = None;
        self.memory.handed = None;
        Self::tell_done(&mut held, output);
        self.after_save(held, output);
    }

    fn tell_done(held: &mut Held, output: &mut Output) {
        if let Some(saving) = &mut held.saving
            && let Some(writing) = saving.under_way.take()
        {
            let version = writing.checkpoint.map(|checkpoint| checkpoint.version);
            tell_saved(&writing.askers, &SaveOutcome::Saved { version }, output);
        }
    }

    fn not_saved(&mut self, mut held: Box<Held>, failure: &StoreFailure, output: &mut Output) {
        if let Some(saving) = &mut held.saving
            && let Some(writing) = saving.under_way.take()
        {
            tell_saved(&writing.askers, &SaveOutcome::NotSaved(failure.clone()), output);
        }
        if let Some(at) = &mut held.record_at {
            let delay = self.backoff(failure, held.renewal.lease_duration());
            *at = (*at).max(output.now + delay);
        }
        self.after_save(held, output);
    }

    /// The saves are settled: a release that waited for them goes on (S26).
    pub(super) fn after_save(&mut self, mut held: Box<Held>, output: &mut Output) {
        match held.phase {
            Phase::LastSave { released } => {
                held.phase = Phase::Active;
                self.end_hold(held, released, output);
            }
            Phase::Active | Phase::Resting { .. } | Phase::GracePeriod(_) => {
                self.state = State::Held(held)
            }
        }
    }

    /// The lease runs out before the last save was settled: its outcome stays unknown, and the lease goes
    /// back.
    pub(super) fn give_up_last_save(&mut self, held: Box<Held>, output: &mut Output) {
        end_saves(held.saving.as_deref(), output);
        let reply = Some(held.caller);
        self.give_back(*held, reply, output);
    }
}

impl Hold {
    /// Writes what waits, over the record as it is known now; unless there is nothing to write.
    fn begin_save(&mut self, held: &mut Held, save: Save, output: &mut Output) {
        let Some(known) = &self.memory.known else {
            return tell_saved(&save.askers, &SaveOutcome::Ended, output);
        };
        let fields = known.fields();
        let deciding = Deciding { save, fields, written: Vec::new(), nothing: Vec::new() };
        self.decide_save(held, deciding, output);
    }

    /// Has it decided what is written for the calls that are left, and writes it then.
    fn decide_save(&mut self, held: &mut Held, mut deciding: Deciding, output: &mut Output) {
        while let Some(asker) = deciding.save.askers.front() {
            if asker.decides {
                let (fields, store_time) = (deciding.fields.clone(), held.store_time(output.now));
                let found = Found { fields, token: held.token, store_time };
                output.push(Action::Decide { of: WriteOf::Save(asker.id), found });
                held.saving.get_or_insert_default().deciding = Some(Box::new(deciding));
                return;
            }
            deciding.decided(None);
        }
        self.write_save(held, deciding, output);
    }

    /// What the call `id` writes is decided.
    pub(super) fn save_decided(&mut self, id: SaveId, verdict: Verdict, output: &mut Output) {
        let Some(mut held) = self.take_held(output.now, |_| true) else { return };
        let is_asked = |deciding: &mut Box<Deciding>| {
            deciding.save.askers.front().is_some_and(|asker| asker.id == id)
        };
        let deciding = held.saving.as_mut().and_then(|saving| saving.deciding.take_if(is_asked));
        if let Some(mut deciding) = deciding {
            deciding.decided(verdict.into_fields());
            self.decide_save(&mut held, *deciding, output);
        }
        self.state = State::Held(held);
    }

    /// Writes what was decided, with the checkpoint and the record of the hold.
    fn write_save(&mut self, held: &mut Held, deciding: Deciding, output: &mut Output) {
        let Deciding { save: Save { value, .. }, fields, written: askers, nothing } = deciding;
        tell_saved(&nothing, &SaveOutcome::Nothing, output);
        let Some(known) = &self.memory.known else {
            return tell_saved(&askers, &SaveOutcome::Ended, output);
        };
        let reserved = held.reservation(self.settings.poll_cap, output.now);
        let only_records = askers.is_empty() && reserved.is_none();
        if only_records && held.records_at().is_none_or(|at| output.now < at) {
            return;
        }
        let left = changed(&known.fields(), &fields);
        let checkpoint = value.map(|value| new_checkpoint(value, &fields, held, output));
        let name = self.jitter.name();
        let record = Record { reserved, ..record_of(held, known.record(), name.clone()) };
        let if_match = known.etag();
        let fields = match &checkpoint {
            Some(checkpoint) => checkpoint.clone().into_fields(fields),
            None => fields,
        };
        let write = RecordWrite { if_match, fields: record.into_fields(fields) };
        let exchange =
            self.send(write.request(held.lease_id), held.renewal.lease_duration(), output);
        let writing = Writing {
            askers,
            checkpoint,
            left,
            name,
            write,
            step: SaveStep::Write,
            exchange,
            uncertain: false,
            only_records,
        };
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

/// The fields that were decided to be otherwise than they were; none for one that is taken away.
fn changed(before: &Fields, after: &Fields) -> Vec<(String, Option<String>)> {
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    let differ = names.filter(|name| before.get(*name) != after.get(*name));
    differ.map(|name| (name.clone(), after.get(name).cloned())).collect()
}

impl Hold {
    /// Whether `request` is the read that settles a save.
    pub(in crate::hold) fn settles_save(held: &Held, request: RequestId) -> bool {
        held.saving
            .as_ref()
            .and_then(|saving| saving.under_way.as_ref())
            .is_some_and(|writing| writing.exchange.is(request))
    }

    /// The record was read because a save met another version than ours (S27).
    pub(in crate::hold) fn save_settled(
        &mut self,
        mut held: Box<Held>,
        answer: Result<Stored, Failure>,
        output: &mut Output,
    ) {
        let stored = match answer {
            Ok(stored) => stored,
            Err(Failure::Deleted) => return self.lose_lease(held, Loss::DELETED, output),
            Err(failure) => return self.save_later(held, failure, output),
        };
        let record = Record::from_fields(&stored.fields);
        let done = Self::is_done(&held, &record, &stored);
        match held.owner(&record) {
            RecordOwner::ThisHold if done => {
                self.learn(stored, output.now);
                self.saved(held, output);
            }
            RecordOwner::ThisHold => {
                self.learn(stored, output.now);
                self.write_again(held, output);
            }
            // S16: it went on elsewhere, or another has the lock: what the record has of this save was done
            // before.
            RecordOwner::MovedOn => {
                Self::tell_found(&mut held, done, &stored, output);
                self.moved_on(&held, output);
            }
            RecordOwner::Another => {
                Self::tell_found(&mut held, done, &stored, output);
                self.lose_lease(held, Loss::TAKEN, output);
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
        record.write == writing.name
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
            writing.exchange = Exchange::Waiting { at: output.now };
            writing.uncertain = false;
        }
    }
}
