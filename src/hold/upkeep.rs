//! What is asked under the lease of a hold: saves of its checkpoint, also with its release (S23 to S27), and
//! renewals (S2, S3, S7 to S9).
//!
//! A save that is not answered in time (`advance_saving`), or whose answer says nothing (`save_answered`), is
//! sent again. Where that meets another version of the record, a read settles whether it was done
//! (`save_settled`), and where the hold ends first it is told as unknown (`end_saves`, S27). What the answer
//! to a renewal means is in `renewal_answered`, and in `settle_answered` where the record has changed; when
//! one is due, and when the holder is warned, says [`Renewal`](super::exchange::Renewal).

use std::time::Duration;

use super::exchange::{Answered, Exchange, RecordOwner, RecordWrite, cut_off};
use super::held::{GracePeriod, Held, Phase, StoreClock};
use super::memory::Known;
use super::progress::{Deciding, Save, SaveStep, Writing, end_saves, tell_saved};
use super::words::{
    Action, CallerId, Failure, Loss, Notice, Output, Remark, Request, RequestId, SaveAsked, SaveId,
    SaveOutcome, StoreFailure, Stored, WriteOf,
};
use super::{Hold, State};
use crate::record::{
    Checkpoint, CheckpointValue, ETag, Fields, Found, Record, Verdict, checkpoint_version_of,
};
use crate::time::{Instant, UnixMillis};

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

/// A round trip within which the store's clock is read well enough.
const PROMPT: Duration = Duration::from_secs(2);

impl Hold {
    /// What was asked of the store beside the saves and is not answered in its time is given up: a renewal,
    /// and the read after one. Saves wait for both (S26).
    pub(super) fn give_up_overdue(&mut self, held: &mut Held, output: &mut Output) {
        if let Some(missed) = held.renewal.cut_off_overdue(output.now, &mut self.jitter) {
            output.report(Remark::Renewal {
                latency: None,
                lateness: missed.lateness,
                failure: Some(Failure::Unknown(StoreFailure::unanswered("renewal"))),
            });
        }
        held.settling.take_if(|settling| settling.is_over(output.now));
    }

    pub(super) fn renew(&mut self, held: &mut Held, output: &mut Output) {
        let saving = held.saving.as_ref().is_some_and(|saving| saving.is_in_flight());
        if held.renewal.is_due(output.now) && !saving {
            let request = self.next_request();
            held.renewal.sent(request, output.now);
            let timeout = cut_off(held.renewal.lease_duration());
            let if_match = self.memory.known.as_ref().map(Known::etag);
            output.ask(request, Request::Renew { lease_id: held.lease_id, if_match }, timeout);
        }
        if let Some((kind, detail)) = held.renewal.warn(held.terms.auto_renew, output.now)
            && held.phase == Phase::Active
        {
            let (caller, valid_until) = (held.caller, held.tell_validity(output.now));
            output.tell(caller, Notice::AtRisk { valid_until, kind, detail });
        }
    }

    pub(super) fn renew_answered(
        &mut self,
        request: RequestId,
        answer: Result<UnixMillis, Failure>,
        output: &mut Output,
    ) {
        match self.take_state(output.now) {
            State::Held(mut held) => match held.renewal.answered(request, output.now) {
                Some(answered) => self.renewal_answered(held, answered, answer, output),
                None => {
                    self.state = State::Held(held);
                    self.late_answer(request, answer.is_ok(), output);
                }
            },
            State::Resuming(resuming) => {
                self.resume_renew_answered(resuming, request, answer, output);
            }
            State::Acquiring(attempt) => self.proof_answered(*attempt, request, answer, output),
            other @ (State::Idle { .. } | State::Releasing(_)) => {
                self.state = other;
                // S4: a renewal that succeeds after the hold was lost is released, not kept.
                self.late_answer(request, answer.is_ok(), output);
            }
        }
    }

    /// S7: waiting for the turn is no try, so nothing is cut off and nothing counts from it.
    pub(super) fn renew_held_back(&mut self, request: RequestId, output: &mut Output) {
        if let State::Held(held) = &mut self.state
            && held.renewal.held_back(request, output.now)
        {
            return;
        }
        self.late_answer(request, false, output);
    }

    pub(super) fn renew_turn_came(&mut self, now: Instant) {
        if let State::Held(held) = &mut self.state {
            held.renewal.turn_came(now);
        }
    }

    fn renewal_answered(
        &mut self,
        mut held: Box<Held>,
        answered: Answered,
        answer: Result<UnixMillis, Failure>,
        output: &mut Output,
    ) {
        // A try that was cut off has been reported and repeated: of its answer only the definite counts.
        if !answered.cut_off || answer.is_ok() {
            output.report(Remark::Renewal {
                latency: Some(output.now.saturating_since(answered.sent)),
                lateness: answered.lateness,
                failure: answer.as_ref().err().cloned(),
            });
        }
        let failure = match answer {
            Ok(time) => {
                // An answer that was long under way tells the time of long ago.
                if output.now.saturating_since(answered.sent) <= PROMPT {
                    held.store_clock = StoreClock { heard: output.now, time };
                }
                let recovered = held.renewal.succeeded(answered.sent, &mut self.jitter);
                tell_renewed(&mut held, recovered, output);
                if self.shutdown.hands_over() {
                    return self.renewed_once_more(held, answered.cut_off, output);
                }
                self.state = State::Held(held);
                return;
            }
            // S22: it may still run out. Who is gone or has been told the end is not told that.
            Err(Failure::Broken) if held.phase.is_open() => {
                return self.break_met(held, output);
            }
            Err(failure) => failure,
        };
        if let Some(loss) = failure.loss() {
            return self.lose_lease(held, loss, output);
        }
        let has_changed = failure == Failure::Changed;
        if !answered.cut_off {
            held.renewal.failed(failure, output.now, &mut self.jitter);
        }
        if has_changed && held.notice.is_none() {
            // It went on elsewhere, or it was a late write of ours (S16).
            let lease_duration = held.renewal.lease_duration();
            held.settling = Some(Box::new(self.send(Request::Read, lease_duration, output)));
        }
        self.state = State::Held(held);
    }

    /// The record was read because a renewal met another version than ours. An unknown outcome needs no
    /// repeat: the next renewal meets the change again.
    pub(super) fn settle_answered(
        &mut self,
        mut held: Box<Held>,
        request: RequestId,
        answer: Result<Stored, Failure>,
        output: &mut Output,
    ) {
        if Self::settles_save(&held, request) {
            return self.save_settled(held, answer, output);
        }
        if !held.settling.as_ref().is_some_and(|settling| settling.is(request)) {
            self.state = State::Held(held);
            return;
        }
        held.settling = None;
        let stored = match answer {
            Ok(stored) => stored,
            Err(Failure::Deleted) => {
                return self.lose_lease(held, Loss::DELETED, output);
            }
            // It says nothing of the lock.
            Err(_) => {
                self.state = State::Held(held);
                return;
            }
        };
        let record = Record::from_fields(&stored.fields);
        // S5: without its token the record is this hold's no more, whatever else of it is still there.
        let owner = held.owner(&record);
        if !held.is_outdated(request) {
            self.learn(stored, output.now);
        }
        match owner {
            RecordOwner::ThisHold => {
                held.renewal.renew_now(output.now);
                self.state = State::Held(held);
            }
            // S16: it went on elsewhere, so it is not lost.
            RecordOwner::MovedOn => self.moved_on(&held, output),
            RecordOwner::Another => self.lose_lease(held, Loss::TAKEN, output),
        }
    }

    /// Another clock shows a pause that ours may not have counted: the store's answer decides about what was
    /// sent for before (S3).
    pub(super) fn suspect_pause(&mut self, now: Instant) {
        self.rare.get_or_insert_default().suspected_at = Some(now);
        if let State::Held(held) = &mut self.state {
            let was_renewed = held.is_renewed();
            held.renewal.suspect(was_renewed, now, &mut self.jitter);
            if let Some(notice) = &mut held.notice {
                notice.look_now(now);
            }
        }
    }

    /// Whether a pause was suspected since `sent`, when a lease was acquired or renewed: then nobody is
    /// granted anything under it before it was renewed again (S3).
    pub(super) fn is_unproven(&self, sent: Instant) -> bool {
        self.rare.as_ref().and_then(|rare| rare.suspected_at).is_some_and(|at| sent < at)
    }

    /// Whether the lease of a hold is ours beyond doubt, and for long enough to serve another caller under
    /// it.
    pub(super) fn is_sound(&self, held: &Held, now: Instant) -> bool {
        let sent = held.renewal.good_sent();
        !self.is_unproven(sent) && !self.may_be_broken_since(sent) && held.is_settled(now)
    }
}

/// Who is silent is told nothing, so the validity that it was told stays what it is (S14).
fn tell_renewed(held: &mut Held, recovered: bool, output: &mut Output) {
    // S22: what the store has renewed before the break counts until the holder is told its deadline.
    if held.phase != Phase::Active || held.deadline().is_some() {
        return;
    }
    let (caller, valid_until) = (held.caller, held.tell_validity(output.now));
    let notice = match recovered {
        true => Notice::Recovered { valid_until },
        false => Notice::Renewed { valid_until },
    };
    output.tell(caller, notice);
}
