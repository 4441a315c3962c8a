//! How far two things have come that take several requests. A try to get the lock: polls under one lease id,
//! then the lease that was given, and what is written under it before a caller is granted anything (S2, S5,
//! S6, S11). The saves of one hold: one write serves all calls that wait for it, and each of them is answered
//! (S26), at the end of the hold too (`end_saves`, S27). Values only: [`super::acquire`], [`super::grant`]
//! and [`super::upkeep`] bring them on.

use std::collections::VecDeque;
use std::time::Duration;

use super::exchange::{Exchange, RecordWrite, WriteName, cut_off, valid_until};
use super::words::{Action, CallerId, Output, Request, RequestId, SaveAsked, SaveId, SaveOutcome};
use crate::lock::{FencingToken, LeaseId};
use crate::record::{Checkpoint, CheckpointValue, Fields};
use crate::time::{Instant, UnixMillis};

/// Tries to get the lock from the store under one lease id, over all polls and repetitions, until it is had
/// or given up (S6).
#[derive(Clone, Debug)]
pub(super) struct Retry {
    pub(super) lease_id: LeaseId,
    /// D, the same in every repetition: a late one must not shorten the lease that another was granted.
    pub(super) duration: Duration,
    /// The first try reads the record too, so that a busy answer names the holder.
    pub(super) first: bool,
    /// Polls since the record was read.
    pub(super) unread: u8,
    /// Tries in a row that met a record that had just changed.
    pub(super) changes: u8,
    /// When the latest acquire that may have been done was given up: nothing of it arrives later.
    pub(super) uncertain: Option<Instant>,
}

/// An acquisition with a request under way.
#[derive(Clone, Debug)]
pub(super) enum Attempt {
    /// The lease is asked for.
    Acquire { retry: Retry, sent: Instant, exchange: Exchange },
    /// The lock is another's; its record is read for the busy answer.
    ReadHolder { retry: Retry, exchange: Exchange },
    /// The lease is had, and not granted yet.
    Leased { lease: Leased, work: Work, exchange: Exchange },
}

impl Attempt {
    pub(super) fn poll_timeout(&self) -> Instant {
        match self {
            Self::Acquire { exchange, .. } | Self::ReadHolder { exchange, .. } => exchange.at(),
            Self::Leased { lease, exchange, .. } => exchange.at().min(lease.valid_until()),
        }
    }
}

/// A lease that was given, and is not granted yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leased {
    pub(super) lease_id: LeaseId,
    /// When the acquire that was answered was sent.
    pub(super) sent: Instant,
    /// S2: when the newest request was sent that is known to have acquired or renewed it.
    pub(super) good_sent: Instant,
    pub(super) duration: Duration,
    /// What the store's clock showed, and when that was heard: it had surely passed by then.
    pub(super) time: UnixMillis,
    pub(super) heard: Instant,
    /// When the last request after which it may last for D was answered, or will have been given up: it has
    /// surely run out D later.
    pub(super) given_up: Instant,
    /// Until the token was written under it, a break that was meant for the grant before may have met it:
    /// that one's holder yields, or an operator breaks the lock through this sidecar.
    pub(super) may_be_broken: bool,
    /// Until when the rest lasts that may have been stored under it, for a caller that was granted nothing
    /// yet (S11).
    pub(super) rest_until: Option<Instant>,
}

/// What is to be done under a lease before it can be granted.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// The record must be read. A write may have been done before, with an unknown outcome.
    Read { unsettled: Option<Unsettled> },
    /// It is being decided what is written beside this token (T6).
    Decide { token: FencingToken },
    /// The token must be stored.
    Write { plan: Plan, write: RecordWrite },
    /// The token is stored. The lease is renewed, by a request of `sent`, because it may have been broken
    /// before that (S33), or have run out in a pause (S3).
    Prove { plan: Plan, sent: Instant },
}

/// What a write of the record is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) token: FencingToken,
    /// The caller that the record names then; none if it only takes back a rest.
    pub(super) caller: Option<CallerId>,
    /// The rest that is written beside it (S11).
    pub(super) min_hold: Duration,
    /// What was decided of it, if the write is for a caller for whom that is decided (T6).
    pub(super) decided: Option<Decided>,
    /// The name of the write, once it is made: an earlier one may have had the same token.
    pub(super) name: Option<WriteName>,
    /// The end of the rest that is written: all that may be promised, however late it is stored (S11).
    pub(super) rest_ends: Option<Instant>,
    /// The end of the rest that may have been stored before it was sent last (S11).
    pub(super) rest_before: Option<Instant>,
}

/// A write of which it is not known whether it was done.
#[derive(Clone, Debug)]
pub(super) struct Unsettled {
    pub(super) plan: Plan,
    /// It may be done yet, and is sent again: none where its newest try was surely not done.
    pub(super) write: Option<RecordWrite>,
}

impl Plan {
    /// To write this token for a caller.
    pub(super) const fn new(token: FencingToken, caller: CallerId, min_hold: Duration) -> Self {
        Self { caller: Some(caller), min_hold, ..Self::without_rest(token) }
    }

    /// To take back a rest that stands beside this token.
    pub(super) const fn without_rest(token: FencingToken) -> Self {
        Self {
            token,
            caller: None,
            min_hold: Duration::ZERO,
            decided: None,
            name: None,
            rest_ends: None,
            rest_before: None,
        }
    }
}

impl Work {
    pub(super) const fn what(&self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::Decide { .. } => "decision",
            Self::Write { .. } => "write",
            Self::Prove { .. } => "renewal",
        }
    }
}

impl Leased {
    pub(super) fn valid_until(&self) -> Instant {
        valid_until(self.good_sent, self.duration)
    }

    /// Whether so much of it has passed that a holder would be at risk before a renewal was answered (S9).
    pub(super) fn is_late(&self, now: Instant) -> bool {
        now + cut_off(self.duration) >= self.good_sent + self.duration * 2 / 3
    }

    /// The store's clock now, as nearly as it is known.
    pub(super) fn store_time(&self, now: Instant) -> UnixMillis {
        self.time + now.saturating_since(self.sent)
    }

    /// What the store's clock has surely reached (T7).
    pub(super) fn store_time_at_least(&self, now: Instant) -> UnixMillis {
        self.time + now.saturating_since(self.heard)
    }
}

/// What was decided of a record that is written: that is not asked twice about one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decided {
    pub(super) settles: bool,
    /// Instead of that of the terms.
    pub(super) max_hold: Option<Duration>,
}

/// The shortest time between two saves of a lock, except with a release (S26).
const BETWEEN_SAVES: Duration = Duration::from_secs(1);

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

/// The saves of one hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Saving {
    pub(super) under_way: Option<Writing>,
    /// What is to be written next, while that is being decided (T8).
    pub(super) deciding: Option<Box<Deciding>>,
    /// What waits for its turn, and everybody who is answered with its outcome (S26).
    pub(super) next: Option<Save>,
    /// When a save was last begun.
    pub(super) begun_at: Option<Instant>,
    /// The newest request when a save was last found to be stored: reads up to it may be from before.
    pub(super) newest: Option<RequestId>,
    /// The reservation that ends soon after the release was begun to be written (S33).
    pub(super) reserved_at_end: bool,
}

/// A write whose outcome is not settled.
#[derive(Clone, Debug)]
pub(super) struct Writing {
    pub(super) askers: Vec<Asker>,
    pub(super) checkpoint: Option<Checkpoint>,
    /// What was decided, as far as it changes the record.
    pub(super) left: Vec<(String, Option<String>)>,
    /// The name of the write, in the record if it was done (S27).
    pub(super) name: String,
    pub(super) write: RecordWrite,
    pub(super) step: SaveStep,
    pub(super) exchange: Exchange,
    /// A try may have been done, or may yet be.
    pub(super) uncertain: bool,
    /// It brings the record up to the hold, and nothing else (S10).
    pub(super) only_records: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SaveStep {
    Write,
    /// The record is read to see whether the write was done.
    Settle,
}

impl Saving {
    /// Whether something is not settled yet: then nothing is handed on (S13, S26).
    pub(super) const fn is_unsettled(&self) -> bool {
        self.under_way.is_some() || self.deciding.is_some() || self.next.is_some()
    }

    /// Whether a request is under way, or about to be sent, that a renewal waits for: both go by the record's
    /// version.
    pub(super) fn is_in_flight(&self) -> bool {
        let sent = |writing: &Writing| writing.exchange.is_sent();
        self.deciding.is_some() || self.under_way.as_ref().is_some_and(sent)
    }

    /// Whether a write is under way that may have been done, or may yet be. One that met another version may
    /// have been done all the same: the network has repeated it.
    pub(super) fn may_be_done(&self) -> bool {
        self.under_way.as_ref().is_some_and(|writing| {
            writing.exchange.is_sent() || writing.uncertain || writing.step == SaveStep::Settle
        })
    }

    /// When something is to be done; a renewal that is under way comes first, until it is given up.
    pub(super) fn poll_timeout(&self, last: bool, renewing: Option<Instant>) -> Option<Instant> {
        match &self.under_way {
            Some(writing) if writing.exchange.is_sent() => Some(writing.exchange.at()),
            Some(writing) => Some(renewing.unwrap_or_else(|| writing.exchange.at())),
            None if self.next.is_none() => None,
            None => renewing.or_else(|| self.due(last)),
        }
    }

    /// When the next save may begin; the last one of a hold waits for nothing.
    pub(super) fn due(&self, last: bool) -> Option<Instant> {
        let begun_at = self.begun_at?;
        Some(if last { begun_at } else { begun_at + BETWEEN_SAVES })
    }

    /// Forgets a write that only brings the record up to the hold, and surely was not done: nobody waits for
    /// it.
    pub(super) fn drop_recording(&mut self) {
        if !self.may_be_done() {
            self.under_way.take_if(|writing| writing.only_records);
        }
    }

    /// The record is to be written though nobody has anything to save: it is reserved (S33).
    pub(super) fn reserve(&mut self, now: Instant) {
        self.next.get_or_insert_default();
        self.begun_at.get_or_insert_with(|| now.saturating_sub(BETWEEN_SAVES));
    }

    /// The same at the end of the hold, once.
    pub(super) fn reserve_at_end(&mut self, now: Instant) {
        self.reserved_at_end = true;
        self.reserve(now);
    }

    pub(super) const fn is_reserved_at_end(&self) -> bool {
        self.reserved_at_end
    }

    pub(super) fn queue(&mut self, save: SaveAsked, now: Instant) {
        self.next.get_or_insert_default().add(save);
        // The first one is due at once.
        self.begun_at.get_or_insert_with(|| now.saturating_sub(BETWEEN_SAVES));
    }
}

/// Answers everybody who waits for a save of a hold that is over here: what may have been done is unknown
/// (S27).
pub(super) fn end_saves(saving: Option<&Saving>, output: &mut Output) {
    let Some(saving) = saving else { return };
    if let Some(writing) = &saving.under_way {
        let unknown = saving.may_be_done();
        let outcome = if unknown { SaveOutcome::Unknown } else { SaveOutcome::Ended };
        tell_saved(&writing.askers, &outcome, output);
    }
    if let Some(deciding) = &saving.deciding {
        let Deciding { save, written, nothing, .. } = &**deciding;
        let askers = nothing.iter().chain(written).chain(&save.askers);
        tell_saved(askers, &SaveOutcome::Ended, output);
    }
    if let Some(next) = &saving.next {
        tell_saved(&next.askers, &SaveOutcome::Ended, output);
    }
}

impl Writing {
    pub(super) fn request(&self, lease_id: LeaseId) -> Request {
        match self.step {
            SaveStep::Write => self.write.request(lease_id),
            SaveStep::Settle => Request::Read,
        }
    }
}
