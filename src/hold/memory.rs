//! What is remembered of a lock while nobody here wants it (S5, S10, S11, S13).

use std::sync::Arc;
use std::time::Duration;

use super::event::Terms;
use super::idle::{Idle, Wait};
use super::{Known, Tenure};
use crate::lock::{ETag, FencingToken, Priority, Record};
use crate::time::{Instant, UnixMillis};

/// How long a lock that is forgotten is remembered for a break that may arrive yet (S17): longer than any
/// network keeps a request.
const BREAK_MAY_ARRIVE: Duration = Duration::from_secs(24 * 3_600);

/// What outlives a machine: kept while nobody wants the lock, so that the next acquisition is cheap and its
/// token is checked (S5).
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The record as last read or written.
    pub known: Option<Known>,
    /// The greatest token seen or granted.
    pub highest: Option<FencingToken>,
    /// Until when the lock is left alone, and why: this sidecar stands back (S10), the lock rests (S11), or a
    /// client may still believe in a hold (S13).
    pub idle: Option<Idle>,
    /// The rest that its record has promised, if it was seen (S11).
    pub rest: Option<Box<Rest>>,
    /// When the record was last seen to be of another grant: how eagerly the lock is polled depends on it
    /// (S10).
    pub change: Option<Box<Change>>,
    /// How long this sidecar has had the lock again and again (S10).
    pub tenure: Tenure,
    /// The newest grant by a hand-off, until the record tells of it or of a later one. A hold that lasts for
    /// less than a second is in no record (S10): its lease is broken by its token nevertheless, and it is
    /// shown as the last.
    pub handed: Option<Box<Handed>>,
    /// A break from here was given up that may arrive yet, and the record was not written since (S17).
    pub may_break_arrive: bool,
    /// Its record was known here and has been forgotten since: what the next read costs is counted.
    pub is_forgotten: bool,
}

/// A grant by a hand-off here, of which the record may not tell (S10).
#[derive(Clone, Debug)]
pub struct Handed {
    pub(super) token: FencingToken,
    pub(super) acquired_at: UnixMillis,
    pub(super) terms: Arc<Terms>,
}

impl Handed {
    /// `record`, or this grant where it is a later one under the same lease.
    pub(crate) fn or_newer(&self, record: Record) -> Record {
        let is_newer = record
            .token
            .is_some_and(|token| token.epoch() == self.token.epoch() && token < self.token);
        if !is_newer {
            return record;
        }
        Record {
            token: Some(self.token),
            acquired_at: Some(self.acquired_at),
            ..self.terms.record.clone()
        }
    }
}

impl Memory {
    /// Who has the lock or had it last, as far as is known here without a hold.
    pub(super) fn record(&self) -> Option<Record> {
        let record = self.known.as_ref()?.record();
        Some(match &self.handed {
            Some(handed) => handed.or_newer(record),
            None => record,
        })
    }

    /// Whether nothing is known of the lock.
    pub(crate) const fn is_empty(&self) -> bool {
        let Self { known, highest, idle, rest, may_break_arrive, .. } = self;
        let is_known = known.is_some() || highest.is_some() || rest.is_some();
        !is_known && idle.is_none() && !*may_break_arrive
    }

    /// What must stay of a memory that is forgotten, and until when; none if nobody relies on it. The record,
    /// with its token (S5) and a rest that it promises (S11), is in the store: the next acquisition reads it
    /// there. Only until when the lock rests is not, as it was first seen here: a store whose clock was set
    /// back would promise it anew at each look.
    pub(crate) fn relied_on(self, poll_cap: Duration, now: Instant) -> Option<(Instant, Self)> {
        let rest = self.rest.as_ref().map(|rest| rest.until);
        let idle = self.idle.filter(|idle| !idle.why.is_rest());
        let until = idle.map(|idle| idle.until).max(rest);
        let until = until.max(self.tenure.matters_until(poll_cap));
        // S17: nothing says when a break that was given up cannot arrive any more.
        let break_may_arrive = self.may_break_arrive.then(|| now + BREAK_MAY_ARRIVE);
        let until = until.max(break_may_arrive).filter(|until| now < *until)?;
        Some((until, Self { known: None, change: None, handed: None, idle, ..self }))
    }

    /// S13: nobody here gets the lock before `until`, when a client cannot believe in its hold any more.
    pub(crate) fn believe(&mut self, until: Instant) {
        if self.idle.is_none_or(|idle| idle.until < until) {
            self.idle = Some(Idle { until, why: Wait::Believed });
        }
    }
}

/// The grant that a record is of, and since when. A save writes the record too, and says nothing of who waits
/// (S10).
#[derive(Clone, Debug)]
pub struct Change {
    pub(super) at: Instant,
    epoch: Option<u64>,
    generation: u64,
}

impl Change {
    pub(super) fn new(record: &Record, at: Instant) -> Self {
        let epoch = record.token.map(FencingToken::epoch);
        Self { at, epoch, generation: record.generation }
    }

    /// Whether a record is of the same grant.
    pub(super) fn is_to(&self, other: &Self) -> bool {
        (self.epoch, self.generation) == (other.epoch, other.generation)
    }
}

/// A rest that a record has promised, or a reservation, on our own clock (S11, S33): a wall clock that goes
/// back makes no more of it.
#[derive(Clone, Debug)]
pub struct Rest {
    pub(super) etag: ETag,
    /// When that version was first seen, and what the store's clock showed then: all that it promises counts
    /// from there.
    pub(super) seen: (Instant, UnixMillis),
    pub(super) until: Instant,
    /// Only callers of a smaller priority are kept from it: it is reserved (S33). None: everybody is (S11).
    pub(super) below: Option<Priority>,
}

impl Rest {
    /// Whether it keeps a caller of this priority from the lock.
    pub(super) fn concerns(&self, priority: Priority) -> bool {
        self.below.is_none_or(|below| priority < below)
    }
}
