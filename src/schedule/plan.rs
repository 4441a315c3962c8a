//! What anybody may say about a schedule at any time: the definition, pauses, runs by hand (T3, T16, T18).

use serde::{Deserialize, Serialize};

use super::codec::writable;
use super::definition::{Definition, DefinitionError, Stored};
use super::import::{is_taken_over, reset_of};
use super::machine::{Pause, last_missed, missed, starting, waited_for};
use super::{Occasion, ScheduleRecord};
use crate::lock::LockPath;
pub use crate::lock::MAX_PLAN_BYTES;
use crate::timetable::{UtcSecond, zone_data_version};

/// Requests for runs by hand that may wait at once (T3).
pub const MAX_REQUESTS: usize = 8;
/// The longest id of a request for a run by hand, in bytes.
pub const MAX_REQUEST_ID_BYTES: usize = 64;

/// Timetables that were replaced lately, as many as are kept: deployments that take turns.
const MAX_REPLACED: usize = 4;
/// Instants that were missed as a timetable was replaced, as many as are kept: a run of one of them may be
/// started meanwhile.
const MAX_BEFORE_DUE: usize = 8;
/// For how long a timetable that was replaced may come back and go on (T16).
const COMES_BACK_WITHIN: i64 = 86_400;
/// The longest reason of an operator, in bytes.
pub const MAX_REASON_BYTES: usize = 512;

/// Which timetable something was computed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanVersion {
    /// Grows with each change of the timetable.
    pub number: u64,
    /// See [`Definition::timetable_hash`].
    pub hash: String,
}

/// A timetable that another one has replaced (T16).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Replaced {
    hash: String,
    revision: u64,
    at: UtcSecond,
}

/// What an operator has done to the whole schedule (T25).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intervention {
    /// When, by the store's clock.
    pub at: UtcSecond,
    /// Why, as the operator said.
    pub reason: String,
    /// Who has asked for it.
    pub caller: String,
}

/// A request for a run by hand. Done ones are kept while there is room, so that a repeat is told from a new
/// one (T18).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByHandRequest {
    /// Grows with each request: they run in this order.
    pub number: u64,
    /// The id that its sender gave it.
    pub request_id: String,
    /// When it came, by the store's clock.
    pub at: UtcSecond,
}

/// The plan of a schedule: a text of its own beside the lock, written by If-Match without the lock's lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    definition: Definition,
    text: Text,
}

/// The text's form: JSON that a person can read. What a newer version added is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Text {
    definition: Stored,
    #[serde(default)]
    revision: u64,
    hash: String,
    /// Of the timetable: its number, and its hash.
    number: u64,
    timetable_hash: String,
    /// Grows with each change of the definition or of the schedule's state here.
    serial: u64,
    zone_data: String,
    subscribed: UtcSecond,
    since: UtcSecond,
    due: Option<UtcSecond>,
    /// How many of the timetable before were due before that one.
    #[serde(default)]
    missed_before_due: u64,
    /// The newest of those, the newest first: one of them may be started as the plan is written.
    #[serde(default)]
    last_before_due: Vec<UtcSecond>,
    goes_on_from: Option<UtcSecond>,
    #[serde(default)]
    replaced: Vec<Replaced>,
    /// The occurrence that the first subscription asked for (T25).
    first: Option<UtcSecond>,
    #[serde(default)]
    reset: u64,
    removed: Option<Intervention>,
    was_reset: Option<Intervention>,
    next: Option<UtcSecond>,
    #[serde(default)]
    paused: bool,
    paused_at: Option<UtcSecond>,
    resumed: Option<UtcSecond>,
    #[serde(default)]
    last_request: u64,
    #[serde(default)]
    requests: Vec<ByHandRequest>,
    #[serde(flatten)]
    others: serde_json::Map<String, serde_json::Value>,
}

/// Why a plan cannot be read, or not be changed so.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// It is longer than any that this program writes.
    #[error(
        "the schedule's plan has {bytes} bytes; at most {MAX_PLAN_BYTES} are allowed: repair it, or delete it and \
         subscribe again"
    )]
    TooLong {
        /// How many bytes it has.
        bytes: usize,
    },
    /// It is not the JSON that it should be.
    #[error("the schedule's plan cannot be read: repair it, or delete it and subscribe again")]
    Unreadable(#[source] serde_json::Error),
    /// Its definition is none.
    #[error(
        "the schedule's plan has a wrong definition: subscribe again with a higher revision, or delete it and \
         subscribe again"
    )]
    Definition(#[source] DefinitionError),
    /// Its definition was edited by hand, so that nobody would notice the change (T16).
    #[error(
        "the schedule's plan has the hash {stored}, but its definition has {computed}: it was edited; subscribe with \
         the definition instead"
    )]
    Hash {
        /// What it says.
        stored: String,
        /// What is right.
        computed: String,
    },
    /// There are more requests than it can have, or their numbers are not in order.
    #[error(
        "the schedule's plan has wrong requests: at most {MAX_REQUESTS} with growing numbers up to last_request are \
         allowed"
    )]
    Requests,
    /// Too many runs by hand wait.
    #[error(
        "{MAX_REQUESTS} runs by hand wait already, which is the limit; try again when one of them is over"
    )]
    Full,
    /// The request id has a form that is not allowed.
    #[error(
        "request_id {given:?} is not allowed: 1 to {MAX_REQUEST_ID_BYTES} of A-Z a-z 0-9 . _ - are"
    )]
    RequestId {
        /// What was given, cut.
        given: String,
    },
}

/// What somebody subscribes with.
#[derive(Clone, Copy, Debug)]
pub struct Subscription<'a> {
    /// The lock of the schedule.
    pub path: &'a LockPath,
    /// How the schedule is defined.
    pub definition: &'a Definition,
    /// Whether it is neither a reconnect nor a resume (T16).
    pub is_new: bool,
    /// Whether a schedule that nobody has subscribed to before runs at once (T25).
    pub runs_at_once: bool,
}

/// What a subscription comes to (T16).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribed {
    /// The plan to write with If-Match; none if the one that is stored stays.
    pub write: Option<Plan>,
    /// Whether the subscriber's definition is the one in force afterwards.
    pub is_in_force: bool,
    /// Whether there were two definitions of one revision: everybody is told.
    pub conflict: bool,
}

/// What a request for a run by hand comes to (T18).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Triggered {
    /// The plan to write with If-Match; none for a request that was made before.
    pub write: Option<Plan>,
    /// The run's number.
    pub number: u64,
}

impl Plan {
    /// Takes in the definition of a subscriber: the higher revision wins; of two equal ones the later new
    /// subscriber's. One that reconnects or resumes is not new. Revision 0 never replaces a positive one.
    ///
    /// `current` and `record` are what stands in the store. A first subscription begins at the store's time
    /// (T5), and so does the next new one of a schedule that was removed (T25).
    #[must_use]
    pub fn subscribed(
        current: Option<&Self>,
        subscription: &Subscription<'_>,
        record: Option<&ScheduleRecord>,
        store_time: UtcSecond,
    ) -> Subscribed {
        let Subscription { path, definition, is_new, .. } = *subscription;
        let kept = |is_in_force, conflict| Subscribed { write: None, is_in_force, conflict };
        let current = match current {
            Some(current) if current.text.removed.is_some() && !is_new => {
                return kept(false, false);
            }
            Some(current) if current.text.removed.is_none() => current,
            removed => {
                let write = Self::begun(removed, subscription, record, store_time);
                return Subscribed { write: Some(write), is_in_force: true, conflict: false };
            }
        };
        let (given, stored) = (definition.revision, current.definition.revision);
        if definition.hash() == current.text.hash {
            let mut same = current.clone();
            same.text.revision = given;
            same.text.serial = same.text.serial.saturating_add(1);
            same.definition = definition.clone();
            return Subscribed { write: (given > stored).then_some(same), ..kept(true, false) };
        }
        let conflict = given == stored;
        if given < stored || conflict && !is_new {
            return kept(false, conflict);
        }
        let write = current.redefined(path, definition, record, store_time);
        Subscribed { write: Some(write), is_in_force: true, conflict }
    }

    /// A schedule that begins: none was there, or it was removed.
    fn begun(
        removed: Option<&Self>,
        subscription: &Subscription<'_>,
        record: Option<&ScheduleRecord>,
        store_time: UtcSecond,
    ) -> Self {
        let Subscription { definition, runs_at_once, .. } = *subscription;
        let store_time = writable(store_time);
        // A record that counts has a watermark, from which it goes on.
        let reset = removed.map_or_else(|| reset_of(record), |plan| plan.reset_beside(record));
        let counts = record.filter(|record| record.reset == reset);
        let first = (runs_at_once && counts.is_none()).then_some(store_time);
        let begins = first.map_or(store_time, |first| UtcSecond(first.0.saturating_sub(1)));
        let (known, done) = record.map_or((0, 0), |it| (it.plan.number, it.by_hand_done));
        let asked = removed.map_or(0, |removed| removed.text.last_request);
        let number = known.max(removed.map_or(0, |removed| removed.text.number));
        let serial = removed.map_or(0, Self::serial).max(record.map_or(0, |it| it.serial));
        let timetable_hash = definition.timetable_hash();
        // The plan was deleted, the record was not: nothing has changed.
        let is_same = counts.is_some_and(|record| record.plan.hash == timetable_hash);
        let after = counts.map_or(begins, |record| record.watermark.max(begins));
        let text = Text {
            definition: definition.stored(),
            revision: definition.revision,
            hash: definition.hash(),
            number: if is_same { known } else { number.saturating_add(1) },
            timetable_hash,
            serial: serial.saturating_add(1),
            zone_data: zone_data_version().to_owned(),
            subscribed: begins,
            since: begins,
            due: None,
            missed_before_due: 0,
            last_before_due: Vec::new(),
            goes_on_from: None,
            replaced: Vec::new(),
            first,
            reset,
            removed: None,
            was_reset: None,
            next: first.or_else(|| definition.timetable.next(after)),
            paused: false,
            paused_at: None,
            resumed: None,
            last_request: asked.max(done),
            requests: Vec::new(),
            others: serde_json::Map::new(),
        };
        Self { definition: definition.clone(), text }
    }

    /// The same schedule under another definition (T16).
    fn redefined(
        &self,
        path: &LockPath,
        definition: &Definition,
        record: Option<&ScheduleRecord>,
        store_time: UtcSecond,
    ) -> Self {
        let store_time = writable(store_time);
        let timetable_hash = definition.timetable_hash();
        let text = Text {
            definition: definition.stored(),
            revision: definition.revision,
            hash: definition.hash(),
            serial: self.text.serial.saturating_add(1),
            ..self.text.clone()
        };
        let redefined = Self { definition: definition.clone(), text };
        if timetable_hash == self.text.timetable_hash {
            return redefined;
        }
        let (due, missed_before_due, last_before_due) =
            self.due_at_the_end(path, record, store_time);
        let replaced = self.replaced(store_time);
        let came_back = replaced.iter().find(|replaced| {
            replaced.hash == timetable_hash && replaced.revision == definition.revision
        });
        let goes_on_from = came_back.map(|replaced| replaced.at);
        let watermark = record.map_or(self.text.subscribed, |record| record.watermark);
        let after = watermark.max(goes_on_from.unwrap_or(store_time));
        let number = record.map_or(0, |record| record.plan.number).max(self.text.number);
        let text = Text {
            number: number.saturating_add(1),
            timetable_hash,
            zone_data: zone_data_version().to_owned(),
            since: store_time,
            due,
            missed_before_due,
            last_before_due,
            goes_on_from,
            replaced,
            next: definition.timetable.next(after),
            ..redefined.text
        };
        Self { text, ..redefined }
    }

    /// The newest instant that is due under this plan, as it is replaced, and what is missed before it: how
    /// many, and the newest of them (T16).
    fn due_at_the_end(
        &self,
        path: &LockPath,
        record: Option<&ScheduleRecord>,
        store_time: UtcSecond,
    ) -> (Option<UtcSecond>, u64, Vec<UtcSecond>) {
        let watermark = starting(self, record).watermark;
        // T7: one that lies ahead was written under a wrong clock.
        if let Some(due) = self.text.due.filter(|due| *due > watermark && *due <= store_time) {
            // It is of a timetable before this one, which has not been in force yet.
            let Text { missed_before_due, ref last_before_due, .. } = self.text;
            return (Some(due), missed_before_due, last_before_due.clone());
        }
        let Some(due) = waited_for(self, record).filter(|due| *due <= store_time) else {
            return (None, 0, Vec::new());
        };
        let newest = self.definition.timetable.at_or_before(store_time);
        let newest = newest.map_or(due, |newest| newest.max(due));
        let runs = |record: &ScheduleRecord| {
            record.run.as_ref().is_some_and(|run| run.occasion == Occasion::Scheduled(due))
        };
        let is_begun = record.is_some_and(|record| runs(record) || record.attempts.any());
        // What goes on is not missed.
        let after = if is_begun { due } else { UtcSecond(due.0.saturating_sub(1)) };
        let last = UtcSecond(newest.0.saturating_sub(1));
        let pause = Pause::of(self, path, store_time);
        let newest_missed = last_missed(self, after, last, pause).take(MAX_BEFORE_DUE).collect();
        (Some(newest), missed(self, after, last, pause), newest_missed)
    }

    /// The timetables that were replaced within a day, this one among them.
    fn replaced(&self, store_time: UtcSecond) -> Vec<Replaced> {
        let (hash, revision) = (self.text.timetable_hash.clone(), self.text.revision);
        // T7: what was replaced under a clock that was ahead goes on from nowhere.
        let is_recent =
            |old: &Replaced| (0..=COMES_BACK_WITHIN).contains(&store_time.seconds_since(old.at));
        let old = self.text.replaced.iter().filter(|old| old.hash != hash && is_recent(old));
        let mut all: Vec<_> = old.cloned().collect();
        all.push(Replaced { hash, revision, at: store_time });
        let more = all.len().saturating_sub(MAX_REPLACED);
        all.split_off(more)
    }

    fn changed(&self, text: Text) -> Self {
        let serial = self.text.serial.saturating_add(1);
        Self { definition: self.definition.clone(), text: Text { serial, ..text } }
    }

    /// The plan with the schedule paused; none if it is (T18).
    #[must_use]
    pub fn pause(&self, store_time: UtcSecond) -> Option<Self> {
        let paused_at = Some(writable(store_time));
        let text = Text { paused: true, paused_at, ..self.text.clone() };
        (!self.text.paused).then(|| self.changed(text))
    }

    /// The plan with the schedule going on after the store's time; none if it is not paused (T18).
    #[must_use]
    pub fn resume(&self, store_time: UtcSecond) -> Option<Self> {
        let resumed = Some(writable(store_time).max(self.text.resumed.unwrap_or_default()));
        let text = Text { paused: false, resumed, ..self.text.clone() };
        self.text.paused.then(|| self.changed(text))
    }

    /// The plan of a schedule that is no more, until somebody new subscribes (T25); none if it is so.
    #[must_use]
    pub fn remove(&self, intervention: Intervention) -> Option<Self> {
        let reset = self.text.reset.saturating_add(1);
        let removed = Some(intervention);
        let text = Text { reset, removed, requests: Vec::new(), ..self.text.clone() };
        self.text.removed.is_none().then(|| self.changed(text))
    }

    /// The plan of a schedule that begins anew after `watermark`, the store's time if none (T25). `revision`:
    /// the definition has this one from then on.
    #[must_use]
    pub fn reset_to(
        &self,
        watermark: Option<UtcSecond>,
        revision: Option<u64>,
        intervention: Intervention,
    ) -> Self {
        let begins = writable(watermark.unwrap_or(intervention.at));
        let revision = revision.unwrap_or(self.text.revision);
        // A pause that is over skips nothing of what begins anew, whatever the clock said then; one that goes
        // on has not begun later than now (T18).
        let paused_at = self.text.paused_at.filter(|_| self.text.paused);
        let text = Text {
            paused_at: paused_at.map(|at| at.min(writable(intervention.at))),
            resumed: None,
            revision,
            reset: self.text.reset.saturating_add(1),
            subscribed: begins,
            since: begins,
            due: None,
            missed_before_due: 0,
            last_before_due: Vec::new(),
            goes_on_from: None,
            replaced: Vec::new(),
            first: None,
            zone_data: zone_data_version().to_owned(),
            next: self.definition.timetable.next(begins),
            was_reset: Some(intervention),
            ..self.text.clone()
        };
        let definition = self.definition.clone().at_revision(revision);
        let serial = self.text.serial.saturating_add(1);
        Self { definition, text: Text { serial, ..text } }
    }

    /// The plan with one more request for a run by hand. A request whose id is known is the same run.
    ///
    /// `record` tells which requests are done: they make room.
    ///
    /// # Errors
    /// When [`MAX_REQUESTS`] wait already, or the id is not allowed.
    pub fn trigger(
        &self,
        request_id: &str,
        record: Option<&ScheduleRecord>,
        store_time: UtcSecond,
    ) -> Result<Triggered, PlanError> {
        if !is_request_id(request_id) {
            let given = request_id.chars().take(MAX_REQUEST_ID_BYTES).collect();
            return Err(PlanError::RequestId { given });
        }
        let requests = &self.text.requests;
        if let Some(known) = requests.iter().find(|request| request.request_id == request_id) {
            return Ok(Triggered { write: None, number: known.number });
        }
        let done = record.map_or(0, |record| record.by_hand_done);
        let mut plan = self.clone();
        let requests = &mut plan.text.requests;
        if requests.len() >= MAX_REQUESTS {
            match requests.first() {
                Some(first) if first.number <= done => drop(requests.remove(0)),
                Some(_) | None => return Err(PlanError::Full),
            }
        }
        let number = self.text.last_request.max(done).saturating_add(1);
        let request_id = request_id.to_owned();
        requests.push(ByHandRequest { number, request_id, at: writable(store_time) });
        plan.text.last_request = number;
        plan.text.serial = plan.text.serial.saturating_add(1);
        Ok(Triggered { write: Some(plan), number })
    }

    /// The definition in force, or that comes in force when what is due or running is final (T16).
    #[must_use]
    pub const fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Which timetable it has.
    #[must_use]
    pub fn version(&self) -> PlanVersion {
        PlanVersion { number: self.text.number, hash: self.text.timetable_hash.clone() }
    }

    /// The hash of its whole definition.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.text.hash
    }

    /// Grows with each change.
    #[must_use]
    pub const fn serial(&self) -> u64 {
        self.text.serial
    }

    /// How often the schedule was removed or reset (T25).
    #[must_use]
    pub const fn reset(&self) -> u64 {
        self.text.reset
    }

    /// Under which reset number a record counts beside this plan. Of a schedule that was removed, what a run
    /// has written since is of the one before, too, but not what was imported since (T22, T25).
    pub(super) fn reset_beside(&self, record: Option<&ScheduleRecord>) -> u64 {
        let written = reset_of(record);
        let is_before = self.removed().is_some() && !record.is_none_or(is_taken_over);
        self.reset().max(if is_before { written.saturating_add(1) } else { written })
    }

    /// Who has removed the schedule, and why, if somebody has (T25).
    #[must_use]
    pub const fn removed(&self) -> Option<&Intervention> {
        self.text.removed.as_ref()
    }

    /// Who has reset it last, and why (T25).
    #[must_use]
    pub const fn was_reset(&self) -> Option<&Intervention> {
        self.text.was_reset.as_ref()
    }

    /// The occurrence that the first subscription asked for: due at once (T25).
    #[must_use]
    pub const fn first(&self) -> Option<UtcSecond> {
        self.text.first
    }

    /// When a timetable that has come back was replaced: it goes on from there (T16).
    pub(super) const fn goes_on_from(&self) -> Option<UtcSecond> {
        self.text.goes_on_from
    }

    /// When it was paused last (T18).
    #[must_use]
    pub const fn paused_at(&self) -> Option<UtcSecond> {
        self.text.paused_at
    }

    /// When the timetable was written, by the store's clock.
    #[must_use]
    pub const fn since(&self) -> UtcSecond {
        self.text.since
    }

    /// When the schedule was first subscribed to: nothing before is run (T5).
    pub(super) const fn first_subscribed(&self) -> UtcSecond {
        self.text.subscribed
    }

    /// How many are missed before [`due`](Self::due), by a record whose newest final instant is this one. A
    /// run may have been started as the plan was written: by its writer it is missed (T9, T16).
    pub(super) fn missed_before_due(&self, watermark: UtcSecond) -> u64 {
        let last = &self.text.last_before_due;
        match last.last() {
            Some(oldest) if *oldest <= watermark => {
                last.iter().filter(|at| **at > watermark).count() as u64
            }
            Some(_) | None => self.text.missed_before_due,
        }
    }

    /// The newest that was due under the timetable before as this one came, which is final first; and how
    /// many before it are missed (T16).
    #[must_use]
    pub fn due(&self) -> Option<(UtcSecond, u64)> {
        self.text.due.map(|due| (due, self.text.missed_before_due))
    }

    /// The first instant under the timetable, as its writer computed it (T5).
    #[must_use]
    pub const fn next(&self) -> Option<UtcSecond> {
        self.text.next
    }

    /// The zone data that [`next`](Self::next) was computed with.
    #[must_use]
    pub fn zone_data(&self) -> &str {
        &self.text.zone_data
    }

    /// Whether the schedule is paused.
    #[must_use]
    pub const fn is_paused(&self) -> bool {
        self.text.paused
    }

    /// When it was resumed last: what fell due before is skipped, if it was not started (T18).
    #[must_use]
    pub const fn resumed(&self) -> Option<UtcSecond> {
        self.text.resumed
    }

    /// The requests for runs by hand, also such as are done, in order.
    #[must_use]
    pub fn requests(&self) -> &[ByHandRequest] {
        &self.text.requests
    }

    /// The first request that is not done.
    pub(super) fn pending(&self, done: u64) -> Option<&ByHandRequest> {
        self.text.requests.iter().find(|request| request.number > done)
    }

    /// The text to store: JSON on several lines.
    #[must_use]
    pub fn to_text(&self) -> String {
        // What is written are strings, numbers, and JSON that was read: this cannot fail.
        serde_json::to_string_pretty(&self.text).unwrap_or_default()
    }

    /// Reads what [`to_text`](Self::to_text) wrote, also by a newer version.
    ///
    /// # Errors
    /// When it is too long, not such a text, or edited so that it is not right.
    pub fn from_text(text: &str) -> Result<Self, PlanError> {
        if text.len() > MAX_PLAN_BYTES {
            return Err(PlanError::TooLong { bytes: text.len() });
        }
        let text: Text = serde_json::from_str(text).map_err(PlanError::Unreadable)?;
        let definition = Definition::from_stored(&text.definition, text.revision)
            .map_err(PlanError::Definition)?;
        let computed = definition.hash();
        // A newer version's definition has more than we can compute.
        if text.definition.others.is_empty() && text.hash != computed {
            return Err(PlanError::Hash { stored: text.hash, computed });
        }
        let computed = definition.timetable_hash();
        if text.timetable_hash != computed {
            return Err(PlanError::Hash { stored: text.timetable_hash, computed });
        }
        let numbers: Vec<u64> = text.requests.iter().map(|request| request.number).collect();
        let in_order = numbers.is_sorted_by(|one, next| one < next)
            && numbers.last().is_none_or(|last| *last <= text.last_request)
            && text.requests.iter().all(|request| is_request_id(&request.request_id));
        if !in_order || numbers.len() > MAX_REQUESTS {
            return Err(PlanError::Requests);
        }
        Ok(Self { definition, text })
    }
}

/// Whether it is the id of a request for a run by hand: it can stand in records and run ids as it is.
#[must_use]
pub fn is_request_id(text: &str) -> bool {
    (1..=MAX_REQUEST_ID_BYTES).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}
