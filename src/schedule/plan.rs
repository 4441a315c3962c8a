//! What anybody may say about a schedule at any time: the definition, pauses, runs by hand (T3, T16, T18).

use serde::{Deserialize, Serialize};

use super::ScheduleRecord;
use super::codec::{instant, optional_instant, writable};
use super::definition::{Definition, DefinitionError, Stored};
use super::machine::waited_for;
pub use crate::lock::MAX_PLAN_BYTES;
use crate::timetable::{UtcSecond, zone_data_version};

/// Requests for runs by hand that may wait at once (T3).
pub const MAX_REQUESTS: usize = 8;
/// The longest id of a request for a run by hand, in bytes.
pub const MAX_REQUEST_ID_BYTES: usize = 64;

/// Which definition something was computed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanVersion {
    /// Grows with each change of the definition.
    pub number: u64,
    /// See [`Definition::hash`].
    pub hash: String,
}

/// A request for a run by hand. Done ones are kept while there is room, so that a repeat is told from a new one (T18).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByHandRequest {
    /// Grows with each request: they run in this order.
    pub number: u64,
    /// The id that its sender gave it.
    pub request_id: String,
    /// When it came, by the store's clock.
    #[serde(with = "instant")]
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
    number: u64,
    zone_data: String,
    #[serde(with = "instant")]
    subscribed: UtcSecond,
    #[serde(with = "instant")]
    since: UtcSecond,
    #[serde(with = "optional_instant", default)]
    due: Option<UtcSecond>,
    #[serde(with = "optional_instant", default)]
    next: Option<UtcSecond>,
    #[serde(default)]
    paused: bool,
    #[serde(with = "optional_instant", default)]
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
        /// Its size.
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
    /// Takes in the definition of a subscriber: the higher revision wins; of two equal ones the later new subscriber's. One
    /// that reconnects or resumes is not new. Revision 0 never replaces a positive one.
    ///
    /// `current` and `record` are what stands in the store. A first subscription begins at the store's time (T5).
    #[must_use]
    pub fn subscribed(
        current: Option<&Self>,
        definition: &Definition,
        is_new: bool,
        record: Option<&ScheduleRecord>,
        store_time: UtcSecond,
    ) -> Subscribed {
        let kept = |is_in_force, conflict| Subscribed { write: None, is_in_force, conflict };
        let Some(current) = current else {
            let write = Self::first(definition, record, store_time);
            return Subscribed { write: Some(write), is_in_force: true, conflict: false };
        };
        let (given, stored) = (definition.revision(), current.definition.revision());
        if definition.hash() == current.text.hash {
            let mut same = current.clone();
            same.text.revision = given;
            same.definition = definition.clone();
            return Subscribed { write: (given > stored).then_some(same), ..kept(true, false) };
        }
        let conflict = given == stored;
        if given < stored || conflict && !is_new {
            return kept(false, conflict);
        }
        let write = current.redefined(definition, record, store_time);
        Subscribed { write: Some(write), is_in_force: true, conflict }
    }

    fn first(
        definition: &Definition,
        record: Option<&ScheduleRecord>,
        store_time: UtcSecond,
    ) -> Self {
        let text = Text {
            definition: definition.stored(),
            revision: 0,
            hash: String::new(),
            number: 0,
            zone_data: String::new(),
            subscribed: writable(store_time),
            since: store_time,
            due: None,
            next: None,
            paused: false,
            resumed: None,
            last_request: record.map_or(0, |record| record.by_hand_done),
            requests: Vec::new(),
            others: serde_json::Map::new(),
        };
        let mut plan =
            Self { definition: definition.clone(), text }.redefined(definition, record, store_time);
        // The plan was deleted, the record was not: nothing has changed.
        if let Some(record) = record.filter(|record| record.plan.hash == plan.text.hash) {
            plan.text.number = record.plan.number;
        }
        plan
    }

    fn redefined(
        &self,
        definition: &Definition,
        record: Option<&ScheduleRecord>,
        store_time: UtcSecond,
    ) -> Self {
        let store_time = writable(store_time);
        // Nothing is due under a definition that nobody has written yet.
        let due = if self.text.number == 0 { None } else { waited_for(self, record) };
        let after = record.map_or(store_time, |record| record.watermark.max(store_time));
        let number = record.map_or(0, |record| record.plan.number).max(self.text.number);
        let text = Text {
            definition: definition.stored(),
            revision: definition.revision(),
            hash: definition.hash(),
            number: number.saturating_add(1),
            zone_data: zone_data_version().to_owned(),
            since: store_time,
            due: due.filter(|due| *due <= store_time),
            next: definition.timetable().next(after),
            ..self.text.clone()
        };
        Self { definition: definition.clone(), text }
    }

    /// The plan with the schedule paused; none if it is (T18).
    #[must_use]
    pub fn pause(&self) -> Option<Self> {
        let text = Text { paused: true, ..self.text.clone() };
        (!self.text.paused).then(|| Self { definition: self.definition.clone(), text })
    }

    /// The plan with the schedule going on after the store's time; none if it is not paused (T18).
    #[must_use]
    pub fn resume(&self, store_time: UtcSecond) -> Option<Self> {
        let resumed = Some(writable(store_time).max(self.text.resumed.unwrap_or_default()));
        let text = Text { paused: false, resumed, ..self.text.clone() };
        self.text.paused.then(|| Self { definition: self.definition.clone(), text })
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
        Ok(Triggered { write: Some(plan), number })
    }

    /// The definition in force, or that comes in force when what is due or running is final (T16).
    #[must_use]
    pub const fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Which definition it is.
    #[must_use]
    pub fn version(&self) -> PlanVersion {
        PlanVersion { number: self.text.number, hash: self.text.hash.clone() }
    }

    /// When the definition was written, by the store's clock.
    #[must_use]
    pub const fn since(&self) -> UtcSecond {
        self.text.since
    }

    /// When the schedule was first subscribed to: nothing before is run (T5).
    pub(super) const fn first_subscribed(&self) -> UtcSecond {
        self.text.subscribed
    }

    /// What was due under the definition before as this one came: it is final first (T16).
    #[must_use]
    pub const fn due(&self) -> Option<UtcSecond> {
        self.text.due
    }

    /// The first instant under the definition, as its writer computed it (T5).
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
        let numbers: Vec<u64> = text.requests.iter().map(|request| request.number).collect();
        let in_order = numbers.is_sorted_by(|one, next| one < next)
            && numbers.last().is_none_or(|last| *last <= text.last_request)
            && text.requests.iter().all(|request| is_request_id(&request.request_id));
        // A record keeps the hash between slashes.
        let is_hash = text.hash.len() <= 64 && text.hash.bytes().all(|b| b.is_ascii_alphanumeric());
        if !in_order || numbers.len() > MAX_REQUESTS {
            return Err(PlanError::Requests);
        }
        if !is_hash {
            return Err(PlanError::Hash { stored: text.hash, computed });
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
