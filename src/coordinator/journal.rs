//! What has happened at this sidecar lately, for people who look: the newest happenings of all, and the
//! newest of each lock.

use std::collections::{BTreeMap, VecDeque};
use std::hash::RandomState;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashlink::LinkedHashMap;
use hashlink::linked_hash_map::Entry;
use tokio::sync::watch;

use super::task::Task;
use super::{Coordinator, Shared};
use crate::lock::{FencingToken, LockPath};
use crate::time::UnixMillis;

/// Happenings of all locks that are kept.
pub const NEWEST: usize = 500;
/// Happenings of one lock that are kept for as long as the lock is among [`LOCKS`].
const OF_ONE: usize = 16;
/// Locks whose own happenings are kept: those of which something happened last.
const LOCKS: usize = 512;

/// Locks whose collisions are kept.
const COLLISIONS: usize = 100;

/// Something that happened here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    /// Counts from 1; what happens again gets a new one.
    pub number: u64,
    /// When, by this machine's clock.
    pub at: UnixMillis,
    /// What.
    pub kind: HappeningKind,
    /// Which lock, or permit of a lock; none if it concerns the sidecar.
    pub path: Option<LockPath>,
    /// The token of the grant that it is about.
    pub token: Option<FencingToken>,
    /// Whom it happened to, for people: the holder, or who wanted to be.
    pub holder: String,
    /// More, for people; may be empty.
    pub detail: String,
    /// How often the same has happened in a row.
    pub times: u32,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HappeningKind {
    /// A caller was granted the lock.
    Granted,
    /// The same under the lease of the caller before it (S10).
    HandedOn,
    /// A caller went on with its hold (S16).
    Resumed,
    /// A caller was told that somebody else has the lock.
    Refused,
    /// Renewals fail (S9).
    AtRisk,
    /// Renewals succeed again (S9).
    Recovered,
    /// The lease was broken and runs out (S22).
    Revoked,
    /// A hold was lost (S4).
    Lost,
    /// A hold was released (S13).
    Released,
    /// The store has not confirmed the release of a hold (S13).
    NotConfirmed,
    /// A hold was left to the replacement of this sidecar (S15).
    HandedOver,
    /// A hold goes on at another sidecar (S16).
    ResumedElsewhere,
    /// An operator broke the lock through this sidecar (S17).
    Broken,
    /// The lock was broken for a caller that waits here (S33, S35).
    Overruled,
    /// Two host types share the lock's path.
    Collision,
    /// A grant was refused because the token would not grow (S5).
    TokenNotGrowing,
    /// A run began (T6).
    RunStarted,
    /// A run ended, or an occurrence without one, and nothing failed (T8).
    RunEnded,
    /// A run failed, came to its deadline or was abandoned (T8).
    RunFailed,
    /// Occurrences were missed (T9).
    Missed,
    /// A schedule's record went back to an older one (T21).
    WentBack,
    /// An operator changed a schedule (T18).
    ScheduleChanged,
    /// The sidecar began to shut down (S15).
    Draining,
}

impl HappeningKind {
    /// A stable name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::HandedOn => "handed_on",
            Self::Resumed => "resumed",
            Self::Refused => "refused",
            Self::AtRisk => "at_risk",
            Self::Recovered => "recovered",
            Self::Revoked => "revoked",
            Self::Lost => "lost",
            Self::Released => "released",
            Self::NotConfirmed => "release_not_confirmed",
            Self::HandedOver => "handed_over",
            Self::ResumedElsewhere => "resumed_elsewhere",
            Self::Broken => "broken",
            Self::Overruled => "broken_for_caller",
            Self::Collision => "collision",
            Self::TokenNotGrowing => "token_not_growing",
            Self::RunStarted => "run_started",
            Self::RunEnded => "run_ended",
            Self::RunFailed => "run_failed",
            Self::Missed => "missed",
            Self::WentBack => "went_back",
            Self::ScheduleChanged => "schedule_changed",
            Self::Draining => "draining",
        }
    }
}

/// A happening that has no number yet.
#[derive(Debug)]
pub(super) struct News<'a> {
    pub(super) kind: HappeningKind,
    pub(super) path: Option<&'a LockPath>,
    pub(super) token: Option<FencingToken>,
    pub(super) holder: &'a str,
    pub(super) detail: String,
}

impl<'a> News<'a> {
    /// What happened to a lock.
    pub(super) const fn of(kind: HappeningKind, path: &'a LockPath) -> Self {
        Self { kind, path: Some(path), token: None, holder: "", detail: String::new() }
    }

    /// What happened to the sidecar.
    pub(super) const fn of_sidecar(kind: HappeningKind) -> Self {
        Self { kind, path: None, token: None, holder: "", detail: String::new() }
    }

    /// The same, with more for people.
    pub(super) fn saying(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// The same, with whom it happened to.
    pub(super) const fn to(mut self, holder: &'a str, token: Option<FencingToken>) -> Self {
        (self.holder, self.token) = (holder, token);
        self
    }
}

/// The happenings that are kept.
#[derive(Debug)]
pub(super) struct Journal {
    state: Mutex<KeptHappenings>,
    /// The number of the newest one.
    newest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct KeptHappenings {
    /// By their numbers.
    newest: BTreeMap<u64, Arc<Happening>>,
    /// The lock of which something happened last is the last.
    of_locks: LinkedHashMap<LockPath, VecDeque<Arc<Happening>>, RandomState>,
    /// The first locks that were seen to be shared by two host types.
    collisions: BTreeMap<LockPath, Arc<Happening>>,
    /// The number of the newest.
    number: u64,
}

impl Journal {
    fn state(&self) -> MutexGuard<'_, KeptHappenings> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, news: News<'_>, at: UnixMillis) {
        let number = self.state().note(news, at);
        self.newest.send_replace(number);
    }
}

impl KeptHappenings {
    fn note(&mut self, news: News<'_>, at: UnixMillis) -> u64 {
        self.number += 1;
        let mut happening = Happening {
            number: self.number,
            at,
            kind: news.kind,
            path: news.path.cloned(),
            token: news.token,
            holder: news.holder.to_owned(),
            detail: news.detail,
            times: 1,
        };
        if let Some(path) = news.path {
            let own = match self.of_locks.entry(path.clone()) {
                Entry::Occupied(mut own) => {
                    own.to_back();
                    own.into_mut()
                }
                Entry::Vacant(own) => own.insert(VecDeque::new()),
            };
            // One who asks again and again would drive out everything else.
            if let Some(last) = own.back().filter(|last| last.is_repeated_by(&happening)) {
                happening.times += last.times;
                self.newest.remove(&last.number);
                own.pop_back();
            }
            let happening = Arc::new(happening);
            if happening.kind == HappeningKind::Collision && self.collisions.len() < COLLISIONS {
                self.collisions.insert(path.clone(), Arc::clone(&happening));
            }
            self.newest.insert(self.number, Arc::clone(&happening));
            own.push_back(happening);
            if own.len() > OF_ONE {
                own.pop_front();
            }
            if self.of_locks.len() > LOCKS {
                self.of_locks.pop_front();
            }
        } else {
            self.newest.insert(self.number, Arc::new(happening));
        }
        if self.newest.len() > NEWEST {
            self.newest.pop_first();
        }
        self.number
    }
}

impl Happening {
    fn is_repeated_by(&self, next: &Self) -> bool {
        self.kind == HappeningKind::Refused
            && next.kind == self.kind
            && (without_process(&self.holder), &self.detail)
                == (without_process(&next.holder), &next.detail)
    }
}

/// A holder's name without the process id at its end, which clients put there: what is tried each minute is
/// another process each time.
fn without_process(holder: &str) -> &str {
    let is_id = |id: &str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    holder.rsplit_once('/').filter(|(_, id)| is_id(id)).map_or(holder, |(host, _)| host)
}

impl Shared {
    /// Notes what happened, if somebody may look.
    pub(super) fn happened(&self, news: News<'_>) {
        if let Some(journal) = self.journal.get() {
            journal.note(news, self.clock.wall());
        }
    }

    /// Whether happenings are kept: what is only said in them need not be made else.
    pub(super) fn keeps_journal(&self) -> bool {
        self.journal.get().is_some()
    }
}

impl Task {
    pub(super) fn happened(&self, news: News<'_>) {
        self.shared.happened(news);
    }
}

impl Coordinator {
    /// Keeps, from now on, what happens here: the newest [`NEWEST`] happenings, and the newest 16 of each of
    /// the 512 locks of which something happened last.
    pub fn keep_journal(&self) {
        let new = || Journal { state: Mutex::default(), newest: watch::Sender::new(0) };
        self.shared.journal.get_or_init(new);
    }

    /// What has happened here after the happening with this number, the oldest first: at most the newest
    /// [`NEWEST`].
    #[must_use]
    pub fn happenings(&self, after: u64) -> Vec<Arc<Happening>> {
        let Some(journal) = self.shared.journal.get() else { return Vec::new() };
        let state = journal.state();
        state.newest.range(after.saturating_add(1)..).map(|(_, one)| Arc::clone(one)).collect()
    }

    /// What has happened to one lock, or permit of a lock, the oldest first.
    #[must_use]
    pub fn happenings_of(&self, path: &LockPath) -> Vec<Arc<Happening>> {
        let Some(journal) = self.shared.journal.get() else { return Vec::new() };
        journal.state().of_locks.get(path).into_iter().flatten().cloned().collect()
    }

    /// The locks that were seen to be shared by two host types: at most 100, in the order of their paths.
    #[must_use]
    pub fn collisions(&self) -> Vec<Arc<Happening>> {
        let Some(journal) = self.shared.journal.get() else { return Vec::new() };
        journal.state().collisions.values().cloned().collect()
    }

    /// The number of the newest happening, and each new one; none if none are kept.
    #[must_use]
    pub fn newest_happening(&self) -> Option<watch::Receiver<u64>> {
        self.shared.journal.get().map(|journal| journal.newest.subscribe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(number: usize) -> LockPath {
        format!("leasehold/locks/job-{number}").parse().unwrap()
    }

    fn refused<'a>(path: &'a LockPath, holder: &'a str) -> News<'a> {
        News::of(HappeningKind::Refused, path).to(holder, None).saying("held by b")
    }

    #[test]
    fn the_newest_stay_and_the_oldest_go() {
        let (mut state, path) = (KeptHappenings::default(), path(0));
        for number in 0..NEWEST + 7 {
            let detail = number.to_string();
            state.note(News::of(HappeningKind::Lost, &path).saying(detail), UnixMillis(1));
        }
        assert_eq!(state.newest.len(), NEWEST);
        let numbers = (state.newest.keys().next().copied(), state.newest.keys().last().copied());
        assert_eq!(numbers, (Some(8), Some(NEWEST as u64 + 7)));
        assert_eq!(state.of_locks[&path].len(), OF_ONE);
    }

    #[test]
    fn what_is_refused_again_and_again_drives_out_nothing() {
        let (mut state, path) = (KeptHappenings::default(), path(0));
        state.note(News::of(HappeningKind::Granted, &path), UnixMillis(1));
        for time in 0..2_000 {
            state.note(refused(&path, "a"), UnixMillis(time));
        }
        state.note(refused(&path, "c"), UnixMillis(3_000));
        let kept: Vec<_> = state.newest.values().map(|one| (one.number, one.times)).collect();
        assert_eq!(kept, [(1, 1), (2_001, 2_000), (2_002, 1)]);
        assert_eq!(state.newest[&2_001].at, UnixMillis(1_999), "the last time");
    }

    #[test]
    fn a_holder_is_the_same_whichever_process_it_is() {
        for (holder, without) in [
            ("pod-7d9c/4711", "pod-7d9c"),
            ("pod-7d9c/4712", "pod-7d9c"),
            ("team/pod-7d9c/1", "team/pod-7d9c"),
            ("team/pod-7d9c", "team/pod-7d9c"),
            ("pod-7d9c/", "pod-7d9c/"),
            ("pod-7d9c/47x", "pod-7d9c/47x"),
            ("pod-7d9c", "pod-7d9c"),
            ("4711", "4711"),
            ("/4711", ""),
            ("", ""),
        ] {
            assert_eq!(without_process(holder), without, "{holder}");
        }
        let (mut state, path) = (KeptHappenings::default(), path(0));
        for holder in ["pod-a/1", "pod-a/2", "pod-b/3"] {
            state.note(refused(&path, holder), UnixMillis(1));
        }
        let kept: Vec<_> =
            state.newest.values().map(|one| (one.holder.as_str(), one.times)).collect();
        assert_eq!(kept.len(), 2, "{kept:?}");
        assert_eq!((kept[0].1, kept[1]), (2, ("pod-b/3", 1)));
    }

    #[test]
    fn a_lock_keeps_its_own_when_others_are_busy_and_few_locks_do() {
        let (mut state, quiet) = (KeptHappenings::default(), path(0));
        state.note(News::of(HappeningKind::Granted, &quiet), UnixMillis(1));
        for number in 1..LOCKS {
            for kind in [HappeningKind::Granted, HappeningKind::Released] {
                state.note(News::of(kind, &path(number)), UnixMillis(2));
            }
        }
        assert!(!state.newest.contains_key(&1), "not among the newest");
        assert_eq!(state.of_locks[&quiet].len(), 1);
        state.note(News::of(HappeningKind::Granted, &path(LOCKS)), UnixMillis(3));
        assert!(!state.of_locks.contains_key(&quiet));
        assert_eq!(state.of_locks.len(), LOCKS);
    }
}
