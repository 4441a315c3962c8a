//! What is known without asking: of a lock between its holds ([`Memory`]), of what an idle machine waits for
//! ([`Idle`], S10 to S13, S33), and of what a caller wants of its hold ([`Terms`]), or of one to go on with
//! ([`Resume`], S16).

use std::sync::Arc;
use std::time::Duration;

use super::words::Stored;
use crate::lock::{FencingToken, LeaseId};
use crate::record::{
    Checkpoint, ETag, Fields, Priority, Record, ShareName, Sharing, generation_of, is_handed_on,
    sharing_of, token_of,
};
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
    /// A rest that the record may promise though nobody was granted the lock that it was written for (S11).
    pub ungranted: Option<Box<Ungranted>>,
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
    /// Until when a store is not asked again that has refused to break its lease (S33).
    pub refused_until: Option<Instant>,
    /// Its record was known here and has been forgotten since: what the next read costs is counted.
    pub is_forgotten: bool,
}

/// A rest that was written here for a caller that was granted nothing: it counts for nobody, and other
/// sidecars cannot know that (S11).
#[derive(Clone, Debug)]
pub struct Ungranted {
    /// The leases under which it may have been written, the newest first, and D.
    pub(super) lease_ids: Vec<LeaseId>,
    pub(super) lease_duration: Duration,
    /// When it is over.
    pub(super) until: Instant,
    /// Whether it is yet to be taken back: a store that refuses that is not asked again.
    pub(super) is_owed: bool,
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
        let Self { known, highest, idle, rest, ungranted, may_break_arrive, .. } = self;
        let is_known = known.is_some() || highest.is_some() || rest.is_some();
        !is_known && ungranted.is_none() && idle.is_none() && !*may_break_arrive
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
        let until = until.max(self.ungranted.as_ref().map(|rest| rest.until));
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

/// A record as it was at some moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    etag: ETag,
    /// Names and values in turn, each with a [`Known::END`]: thousands of records are only kept.
    fields: Box<str>,
}

impl Known {
    /// No text of a record has it: all are fit for a header.
    const END: &str = "\0";

    /// A record of this version with these fields.
    #[must_use]
    pub fn new(etag: &ETag, fields: &Fields) -> Self {
        let texts = fields.iter().flat_map(|(name, value)| [name.as_str(), value]);
        let fields: String = texts.flat_map(|text| [text, Self::END]).collect();
        Self { etag: etag.clone(), fields: fields.into() }
    }

    /// The version of the record in the store.
    #[must_use]
    pub fn etag(&self) -> ETag {
        self.etag.clone()
    }

    /// Whether this is its version.
    pub(super) fn is_version(&self, etag: &ETag) -> bool {
        self.etag == *etag
    }

    /// All its fields, those of others included.
    #[must_use]
    pub fn fields(&self) -> Fields {
        self.pairs().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// The fields that are ours.
    #[must_use]
    pub fn record(&self) -> Record {
        Record::from_lookup(|name| self.field(name))
    }

    /// The lock's checkpoint (S25).
    #[must_use]
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        Checkpoint::from_lookup(|name| self.field(name))
    }

    /// The token alone: it is asked for at every turn while somebody waits.
    pub(super) fn token(&self) -> Option<FencingToken> {
        token_of(&|name: &str| self.field(name))
    }

    /// The generation alone: it is asked for at every grant (S16).
    pub(super) fn generation(&self) -> u64 {
        generation_of(&|name: &str| self.field(name))
    }

    /// The holder's place among others alone (S33, S34).
    pub(super) fn sharing(&self) -> Option<Box<Sharing>> {
        sharing_of(&|name: &str| self.field(name))
    }

    /// Whether its holder's sidecar hands the lock on (S10).
    pub(super) fn is_handed_on(&self) -> bool {
        is_handed_on(&|name: &str| self.field(name))
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.pairs().find(|(field, _)| *field == name).map(|(_, value)| value)
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut texts = self.fields.split_terminator(Self::END);
        std::iter::from_fn(move || Some((texts.next()?, texts.next()?)))
    }
}

/// Since when this sidecar has the lock again and again, with nobody else in between. Outlives the machine.
#[derive(Clone, Debug, Default)]
pub struct Tenure {
    /// None once this sidecar has stood back, until it acquires again.
    since: Option<Instant>,
    /// Acquisitions from the store in it.
    acquisitions: u32,
    /// Since when others could acquire it, and the record's version then.
    left: Option<(Instant, ETag)>,
}

impl Tenure {
    /// The lock was acquired from the store, with its record at `etag`. It is the same tenure if nobody has
    /// written since we released it, within the time in which others look for it.
    pub(super) fn acquired(&mut self, etag: &ETag, poll_cap: Duration, now: Instant) {
        let goes_on = self
            .left
            .take()
            .is_some_and(|(at, left)| left == *etag && now.saturating_since(at) <= poll_cap);
        if goes_on {
            self.acquisitions = self.acquisitions.saturating_add(1);
            self.since.get_or_insert(now);
        } else {
            *self = Self { since: Some(now), acquisitions: 1, left: None };
        }
    }

    /// The lock goes back to the store.
    pub(super) fn released(&mut self, etag: Option<&ETag>, now: Instant) {
        self.left = etag.map(|etag| (now, etag.clone()));
    }

    /// Until when others may need that this tenure is remembered: while they look for the lock that was
    /// released here, but no longer than it was ours. One that has been free for as long leaves them their
    /// turn by itself.
    fn matters_until(&self, poll_cap: Duration) -> Option<Instant> {
        let (left, _) = self.left.as_ref()?;
        let lasted = self.since.map_or(poll_cap, |since| left.saturating_since(since));
        Some(*left + lasted.min(poll_cap))
    }

    /// Whether the lock was acquired here more than once in a row.
    pub(super) const fn is_repeated(&self) -> bool {
        self.acquisitions > 1
    }

    /// Others get their turn now. If nobody takes it, the lock is still acquired again and again, and marked
    /// so.
    pub(super) fn stand_back(&mut self, until: Instant) {
        self.since = None;
        if let Some((at, _)) = &mut self.left {
            *at = until;
        }
    }

    pub(super) fn has_lasted(&self, now: Instant) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now.saturating_since(since))
    }
}

/// Until when an idle machine leaves the store alone, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    pub(super) until: Instant,
    pub(super) why: Wait,
}

/// What an idle machine waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing: the next caller is tried for at once.
    Ready,
    /// The next poll: another sidecar has the lock, or comes first (S12, S34).
    Poll,
    /// The next try: another lock of the share is being acquired here (S34).
    OutOfTurn,
    /// The next try: the store has failed.
    Backoff,
    /// Others come first: the lock was handed on here, or acquired again and again (S10).
    StandBack,
    /// The end of a rest (S11).
    MinHold,
    /// The end of a reservation for a greater priority (S33).
    Reserved,
    /// The end of a hold that its client may still believe in (S13).
    Believed,
}

impl Wait {
    /// Whether the lock's record tells of it.
    pub(super) const fn is_rest(self) -> bool {
        matches!(self, Self::MinHold | Self::Reserved)
    }
}

impl Idle {
    /// The machine waits for nothing.
    pub(super) const fn ready(now: Instant) -> Self {
        Self { until: now, why: Wait::Ready }
    }

    /// The machine waits for nothing from now on at the latest.
    pub(super) fn end(&mut self, now: Instant) {
        if now < self.until {
            *self = Self::ready(now);
        }
    }
}

/// What a caller wants of its hold.
#[derive(Clone, Debug)]
pub struct Terms {
    /// D: the duration of the storage lease, 15 to 60 s.
    pub lease_duration: Duration,
    /// How long to wait for the lock; zero is one try (S12).
    pub wait: Duration,
    /// The longest hold (S11); unbounded if none.
    pub max_hold: Option<Duration>,
    /// The shortest time until anybody else gets the lock (S11).
    pub min_hold: Duration,
    /// The longest time without a progress report (S11).
    pub progress_timeout: Option<Duration>,
    /// Whether the lease is renewed; otherwise the hold lasts one lease duration and no more.
    pub auto_renew: bool,
    /// A repeated call with the same one gets the same grant; empty for none.
    pub request_id: String,
    /// Whether this sidecar may take a lock of the share from another one that has more (S35).
    pub rebalance: bool,
    /// Whether the hold can be resumed, also elsewhere: then only a release that carries its generation shows
    /// that nobody believes in it any more (S13, S16).
    pub resumable: bool,
    /// What is stored with the lock, but for what the grant adds.
    pub record: Record,
    /// What is written beside the token is decided for the caller, under the lease; then the hold is never
    /// handed on without the store (T6). Not for callers of a pool (S28).
    pub decides: bool,
    /// The lock as the caller read it just before, so that the acquire goes by its version. Boxed: there is
    /// one of these for each hold.
    pub seen: Option<Box<Stored>>,
}

impl Terms {
    /// Those of a caller that asks for nothing in particular, by a lease of this duration.
    #[must_use]
    pub fn plain(lease_duration: Duration, wait: Duration) -> Self {
        Self {
            lease_duration,
            wait,
            max_hold: None,
            min_hold: Duration::ZERO,
            progress_timeout: None,
            auto_renew: true,
            request_id: String::new(),
            rebalance: false,
            resumable: false,
            record: Record::default(),
            decides: false,
            seen: None,
        }
    }

    /// Its priority among those who wait (S33).
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.record.sharing.as_ref().map_or(Priority::NONE, |sharing| sharing.priority)
    }

    /// The share that its lock belongs to (S34).
    #[must_use]
    pub fn share(&self) -> Option<&ShareName> {
        self.record.sharing.as_ref()?.share.as_ref()
    }
}

/// A hold that a client wants to go on with (S16).
#[derive(Clone, Debug)]
pub struct Resume {
    /// The storage lease.
    pub lease_id: LeaseId,
    /// The client's token.
    pub token: FencingToken,
    /// The generation of the hold that the client was answered with last.
    pub generation: u64,
    /// Names this try and its repeats: one whose answer was lost is not another's (S16). Empty for none.
    pub attempt: String,
    /// The terms, their spans counted from now.
    pub terms: Arc<Terms>,
    /// Until when, at most, the client may believe in its hold.
    pub believed_until: Instant,
    /// The end of the one lease of a hold that is not renewed (S11).
    pub lease_ends: Option<Instant>,
    /// When the lock was granted, by the store's clock.
    pub acquired_at: UnixMillis,
    /// The bounds of the hold by the store's clock, where the boot clock that they were counted on is
    /// another's; never more than `terms` says (S3, S11).
    pub bounds: Option<StoreBounds>,
}

/// When a hold must be over, and when it may be, by the store's clock (S11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreBounds {
    /// The end of `max_hold`.
    pub max_hold_ends: Option<UnixMillis>,
    /// The end of the one lease of a hold that is not renewed.
    pub lease_ends: Option<UnixMillis>,
    /// The end of `min_hold`.
    pub min_hold_ends: UnixMillis,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn s10_a_tenure_matters_until_the_lock_was_free_for_as_long() {
        let at = |millis| Instant::default() + Duration::from_millis(millis);
        let etag = ETag("1".into());
        let cap = Duration::from_secs(5);
        let mut tenure = Tenure::default();
        assert_eq!(tenure.matters_until(cap), None);
        tenure.acquired(&etag, cap, at(0));
        assert_eq!(tenure.matters_until(cap), None, "it is ours");
        tenure.released(Some(&etag), at(2_000));
        assert_eq!(tenure.matters_until(cap), Some(at(4_000)));
        // The time in between counts: it was ours again and again.
        tenure.acquired(&etag, cap, at(3_000));
        tenure.released(Some(&etag), at(4_000));
        assert_eq!(tenure.matters_until(cap), Some(at(8_000)));
        assert_eq!(tenure.matters_until(Duration::from_secs(1)), Some(at(5_000)));
        // Once it has stood back: others look for it again.
        tenure.stand_back(at(4_500));
        assert_eq!(tenure.matters_until(cap), Some(at(9_500)));
    }

    proptest! {
        #[test]
        fn fields_are_kept_as_they_are(
            fields in prop::collection::btree_map("[A-Za-z_]{1,9}", "[ -~]{0,20}", 0..9),
        ) {
            let known = Known::new(&ETag("".into()), &fields);
            prop_assert_eq!(known.record(), Record::from_fields(&fields));
            prop_assert_eq!(known.fields(), fields);
        }

        #[test]
        fn the_parts_are_those_of_the_record(
            token: Option<u32>,
            handed_on: bool,
            (lease, generation) in (prop::option::of("[0-9a-f]{8}"), 0..3_u64),
        ) {
            let token = token.and_then(|token| FencingToken::from_u64(u64::from(token)));
            let record = Record { token, handed_on, lease, generation, ..Record::default() };
            let known = Known::new(&ETag("".into()), &record.into_fields(Fields::new()));
            prop_assert_eq!((known.token(), known.is_handed_on()), (token, handed_on));
            prop_assert_eq!(known.generation(), known.record().generation);
        }
    }

    #[test]
    fn a_wait_that_is_cut_short_is_for_nothing_any_more() {
        let at = |seconds| Instant::default() + Duration::from_secs(seconds);
        let mut idle = Idle { until: at(9), why: Wait::Reserved };
        idle.end(at(10));
        assert_eq!(idle, Idle { until: at(9), why: Wait::Reserved }, "it was over");
        idle.end(at(5));
        assert_eq!(idle, Idle::ready(at(5)));
    }
}
