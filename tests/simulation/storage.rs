//! The store: the contract in memory, asked as the coordinator asks a store.

use std::borrow::Cow;
use std::time::Duration;

use leasehold::hold::{Action, Answer, Event, Request};
use leasehold::lock::{Container, FencingToken, LeaseId, LockPath};
use leasehold::record::{Fields, Record};
use leasehold::store::{BreakNote, LeaseState, MemoryLocks, RecordCopy};
use leasehold::time::{Instant, UnixMillis};

use crate::kit::store;
use crate::simulation::clock::EPOCH;
use crate::simulation::due::{Breaker, Seen};
use crate::simulation::ledger::checkpoint_of;
use crate::simulation::rivals::Rivals;
use crate::simulation::truth::{Ended, Truth};

/// The field of the record that the token stands in.
const TOKEN: &str = "leasehold_token";
/// What cannot be read as a token.
pub(crate) const GARBAGE: &str = "0x1f";

/// A lock that is made again so soon after its latest grant is outside what is promised of tokens (S5).
const SOON: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(crate) struct Storage {
    pub(crate) locks: MemoryLocks,
    pub(crate) path: LockPath,
    copy: Option<RecordCopy>,
    newest_lease: Option<LeaseId>,
    /// How far the clocks of its front ends are ahead, in milliseconds.
    pub(crate) fronts: [u64; 3],
    /// By how many milliseconds they have gone back, and the greatest date that they have shown before.
    behind: u64,
    shown: u64,
    /// Its record says less than was granted: its clocks are all that the next token goes by (S5).
    only_clocks: bool,
    /// What somebody's tool made unreadable: the record's token before.
    garbled: Option<String>,
    /// It takes no notice of the version that a write is for: a planted bug.
    pub(crate) loose: bool,
    /// The same for a write that saves a checkpoint.
    pub(crate) loose_saves: bool,
    /// A rule that a write broke.
    pub(crate) violation: Option<String>,
    pub(crate) rivals: Rivals,
}

impl Storage {
    pub(crate) fn new() -> Self {
        let container = Container::parse("leasehold").unwrap();
        let path = LockPath::from_parts(&container, "locks/simulated");
        Self {
            locks: MemoryLocks::default(),
            path,
            copy: None,
            newest_lease: None,
            fronts: [0; 3],
            behind: 0,
            shown: 0,
            only_clocks: false,
            garbled: None,
            loose: false,
            loose_saves: false,
            violation: None,
            rivals: Rivals::default(),
        }
    }

    /// The store's clocks: that of its leases, and the date of one of its front ends, cut to the second.
    fn times(&self, now: Duration) -> (Instant, UnixMillis) {
        let millis = u64::try_from(now.as_millis()).unwrap();
        let front = usize::try_from(millis.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).unwrap() % 3;
        let date = (EPOCH + millis + self.fronts[front] - self.behind) / 1_000 * 1_000;
        (Instant::from_boot(now), UnixMillis(date))
    }

    /// The date of an answer at `now`.
    pub(crate) fn date(&self, now: Duration) -> UnixMillis {
        self.times(now).1
    }

    /// Does what `action` asks, and answers as the coordinator would. The action must be one for the store.
    pub(crate) fn apply(&mut self, action: &Action, now: Duration, truth: &mut Truth) -> Event {
        let Action::Store { request, what, .. } = action else {
            panic!("not for the store: {action:?}");
        };
        let mut what = Cow::Borrowed(what);
        if self.is_loose(&what, now)
            && let Some(stored) = self.seen(now)
            && let Request::Write { if_match, .. } = what.to_mut()
        {
            *if_match = stored.version;
        }
        let times = self.times(now);
        let answer = store::answer(&mut self.locks, &self.path, &what, times);
        match (&*what, &answer) {
            (Request::Acquire { lease_id, .. }, Answer::Acquire { lease: Ok(_), .. }) => {
                self.rivals.acquired(*lease_id);
                truth.acquired(*lease_id, self.newest_lease.replace(*lease_id));
            }
            (_, Answer::Write(Ok(_))) => {
                if self.garbled.take().is_some() {
                    let text = "S5: a token was written over one that cannot be read".to_owned();
                    self.violation = Some(text);
                }
                self.only_clocks = false;
            }
            (Request::Release { lease_id, .. }, Answer::Release(Ok(()))) => {
                truth.given_back(*lease_id);
            }
            (Request::Break { rival, .. }, Answer::Break(Ok(()))) => self.overruled(rival, truth),
            _ => {}
        }
        Event::Answer { request: *request, answer }
    }

    /// Whether a write is done whatever version the record has.
    fn is_loose(&self, what: &Request, now: Duration) -> bool {
        let Request::Write { fields, .. } = what else { return false };
        self.loose || self.loose_saves && self.is_save(fields, now)
    }

    pub(crate) fn is_leased(&self, now: Duration) -> bool {
        store::is_leased(&self.locks, &self.path, self.times(now))
    }

    /// The lease that was acquired last.
    pub(crate) const fn newest_lease(&self) -> Option<LeaseId> {
        self.newest_lease
    }

    /// Whether a write of these fields changes the checkpoint.
    fn is_save(&self, fields: &Fields, now: Duration) -> bool {
        let stored = self.fields(now);
        stored.is_some_and(|stored| checkpoint_of(&stored) != checkpoint_of(fields))
    }

    /// What who is about to break the lock looks at.
    pub(crate) fn seen(&self, now: Duration) -> Option<Seen> {
        let (at, time) = self.times(now);
        let stored = self.locks.read_record(&self.path, at, time).ok()?;
        let token = Record::from_fields(&stored.fields).token;
        Some(Seen { token, version: stored.etag })
    }

    /// S17: the lease that was broken, if there was one.
    pub(crate) fn break_lease(
        &mut self,
        (by, seen): (Breaker, &Seen),
        now: Duration,
        truth: &mut Truth,
    ) -> Option<LeaseId> {
        let (at, time) = self.times(now);
        let (reason, by_whom) = ("stuck".to_owned(), "night".to_owned());
        let broken = match by {
            Breaker::Ours(period) => {
                let token = seen.token;
                let note =
                    BreakNote { period, reason, by: by_whom, token, at: time, for_priority: None };
                self.locks.break_lease(&self.path, note, &seen.version, at).is_ok()
            }
            Breaker::Another(period) => {
                self.locks.break_without_note(&self.path, period, at).is_ok()
            }
        };
        // Nobody may have it.
        let lease_id = self.newest_lease.filter(|_| broken)?;
        truth.end(lease_id, Ended::Broken);
        Some(lease_id)
    }

    /// Somebody cleans up, as `leasehold gc` does: not while the lock is leased, nor within 5 s of its latest
    /// grant (S5).
    pub(crate) fn delete(&mut self, now: Duration, newest_grant: Duration, truth: &mut Truth) {
        let (at, time) = self.times(now);
        let Ok(stored) = self.locks.read_record(&self.path, at, time) else { return };
        // Its clock is all that a lock that is made again goes by (S5).
        if self.is_behind(now) {
            return;
        }
        if now < newest_grant + SOON || self.locks.delete(&self.path, &stored.etag, at).is_err() {
            return;
        }
        (self.garbled, self.only_clocks) = (None, true);
        self.newest_ends(Ended::Gone, truth);
    }

    /// The account fails over to an older copy of the record (S5); the first time, the copy is made. Not
    /// while the lock is leased, nor while a lease that was broken runs out: a store that goes back under a
    /// lease does not honour it. Nor soon after a grant, as with a deletion: the store's date is cut to the
    /// second, and front ends differ.
    pub(crate) fn fall_back(&mut self, now: Duration, newest_grant: Duration, truth: &mut Truth) {
        let (at, time) = self.times(now);
        let stored = self.locks.read_record(&self.path, at, time);
        let runs = stored
            .is_ok_and(|stored| matches!(stored.lease, LeaseState::Leased | LeaseState::Breaking));
        match self.copy.take() {
            Some(copy)
                if !runs
                    && now >= newest_grant + SOON
                    && !self.is_behind(now)
                    && self.garbled.is_none() =>
            {
                self.locks.rewind_record(&self.path, copy);
                self.only_clocks = true;
                self.newest_ends(Ended::Gone, truth);
            }
            Some(copy) => self.copy = Some(copy),
            None if self.garbled.is_some() => {}
            None => self.copy = self.locks.copy_record(&self.path),
        }
    }

    /// Somebody's tool makes the token unreadable; not while the lock is leased, which the store refuses.
    pub(crate) fn garble(&mut self, now: Duration, truth: &mut Truth) {
        let Some(mut fields) = self.fields(now).filter(|_| self.garbled.is_none()) else { return };
        let Some(token) = fields.insert(TOKEN.to_owned(), GARBAGE.to_owned()) else { return };
        if self.write_outside(fields, now, truth) {
            self.garbled = Some(token);
        }
    }

    /// An operator mends what [`Self::garble`] has done.
    pub(crate) fn mend(&mut self, now: Duration, truth: &mut Truth) {
        let (Some(token), Some(mut fields)) = (self.garbled.take(), self.fields(now)) else {
            return;
        };
        fields.insert(TOKEN.to_owned(), token.clone());
        if !self.write_outside(fields, now, truth) {
            self.garbled = Some(token);
        }
    }

    pub(crate) const fn is_garbled(&self) -> bool {
        self.garbled.is_some()
    }

    pub(crate) fn fields(&self, now: Duration) -> Option<Fields> {
        let (at, time) = self.times(now);
        self.locks.read_record(&self.path, at, time).ok().map(|stored| stored.fields)
    }

    fn write_outside(&mut self, fields: Fields, now: Duration, truth: &mut Truth) -> bool {
        let (at, time) = self.times(now);
        let written = self.locks.write_without_lease(&self.path, fields, at, time).is_ok();
        if written {
            self.newest_ends(Ended::Taken, truth);
        }
        written
    }

    fn newest_ends(&self, how: Ended, truth: &mut Truth) {
        if let Some(lease_id) = self.newest_lease {
            truth.end(lease_id, how);
        }
    }

    /// What the fastest of its clocks shows.
    fn fastest(&self, now: Duration) -> u64 {
        let fastest = self.fronts.iter().max().copied().unwrap_or_default();
        EPOCH + u64::try_from(now.as_millis()).unwrap() + fastest - self.behind
    }

    /// All its clocks go back, unless the next token hangs on them; that by which leases run does not.
    pub(crate) fn set_back(&mut self, by: u64, now: Duration) {
        if self.only_clocks {
            return;
        }
        self.shown = self.shown.max(self.fastest(now));
        self.behind += by;
    }

    /// Whether its clocks show less than they have shown.
    fn is_behind(&self, now: Duration) -> bool {
        self.fastest(now) < self.shown
    }

    pub(crate) const fn was_set_back(&self) -> bool {
        self.behind > 0
    }

    /// How far a token runs ahead of the greatest time that its clocks have shown.
    pub(crate) fn ahead(&self, token: FencingToken, now: Duration) -> Duration {
        let clock = self.fastest(now).max(self.shown);
        Duration::from_millis(millis_of(token).saturating_sub(clock))
    }
}

/// 2020-01-01 UTC, from which epochs are counted (S5).
const EPOCHS_BEGIN: u64 = 1_577_836_800_000;

/// The time that a token's epoch stands for.
fn millis_of(token: FencingToken) -> u64 {
    EPOCHS_BEGIN + token.epoch()
}
