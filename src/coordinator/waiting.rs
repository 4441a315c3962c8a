//! How many wait at this sidecar: callers for locks, and subscribers of schedules. One limit is for all of
//! them, since a stream that waits costs as much as another (S38). Who goes on with a hold was let in once,
//! and has a limit of its own (S16).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::call::CallError;
use super::settings::Settings;

/// All that wait at this sidecar, and the limits for them.
#[derive(Debug)]
pub(super) struct AllWaiting {
    limit: usize,
    pub(super) max_holds: usize,
    max_resumes: usize,
    /// How many holds there may be, those that are resumed here included.
    all_holds: usize,
    counts: Mutex<BTreeMap<WaitKind, usize>>,
}

/// What waits, and so which limit is asked and whether it is shown among the callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WaitKind {
    Caller,
    /// A caller that goes on with a hold: it is counted as the hold that it has.
    Resume,
    /// A try for the run of a subscriber, which has a place.
    Try,
    /// A try for what is written and nobody's to hold, as an outcome that is told late: it needs no place,
    /// and may come as the sidecar ends, too (T8, T20).
    Write,
    Subscriber,
    /// A subscriber that goes on with a run: it takes a place, and none that wait refuse it (S16, T20).
    ResumedSubscriber,
}

/// One that waits; it is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Wait {
    among: Arc<AllWaiting>,
    kind: WaitKind,
}

impl AllWaiting {
    pub(super) fn new(settings: &Settings) -> Arc<Self> {
        let Settings { max_holds, max_resumes, max_waiters: limit, .. } = *settings;
        let all_holds = max_holds.saturating_add(max_resumes);
        Arc::new(Self { limit, max_holds, max_resumes, all_holds, counts: Mutex::default() })
    }

    /// How many locks there may be that somebody here holds or waits for.
    pub(super) const fn most_locks(&self) -> usize {
        self.all_holds.saturating_add(self.limit)
    }

    /// Counts one that waits, if there is a place for it.
    pub(super) fn begin(self: &Arc<Self>, kind: WaitKind) -> Result<Wait, CallError> {
        let mut counts = self.counts();
        let taken = sum(&counts, WaitKind::takes_place);
        let is_resumed = kind == WaitKind::ResumedSubscriber;
        // Resume tokens can be forged.
        let beyond = if is_resumed { self.all_holds } else { 0 };
        if kind.takes_place() && taken >= self.limit.saturating_add(beyond) {
            return Err(match is_resumed {
                true => self.too_many_resumes(),
                false => CallError::TooManyWaiters { limit: self.limit },
            });
        }
        *counts.entry(kind).or_default() += 1;
        Ok(Wait { among: Arc::clone(self), kind })
    }

    /// Whether another caller may go on with a hold, where there are so many holds.
    pub(super) fn check_resume(&self, holds: usize) -> Result<(), CallError> {
        let resumes = sum(&self.counts(), |kind| kind == WaitKind::Resume);
        if holds.max(resumes) < self.all_holds { Ok(()) } else { Err(self.too_many_resumes()) }
    }

    const fn too_many_resumes(&self) -> CallError {
        CallError::TooManyResumes { limit: self.max_resumes }
    }

    /// How many callers wait for a lock.
    pub(super) fn callers(&self) -> usize {
        sum(&self.counts(), WaitKind::is_caller)
    }

    /// How many subscribers of schedules there are.
    pub(super) fn subscribers(&self) -> usize {
        sum(&self.counts(), |kind| !kind.is_caller())
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<WaitKind, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn sum(counts: &BTreeMap<WaitKind, usize>, of: impl Fn(WaitKind) -> bool) -> usize {
    counts.iter().filter(|(kind, _)| of(**kind)).map(|(_, count)| count).sum()
}

impl WaitKind {
    const fn takes_place(self) -> bool {
        matches!(self, Self::Caller | Self::Subscriber | Self::ResumedSubscriber)
    }

    /// Whether it asks for a hold, and not only for something to be written.
    pub(super) const fn may_be_granted(self) -> bool {
        !matches!(self, Self::Write)
    }

    const fn is_caller(self) -> bool {
        matches!(self, Self::Caller | Self::Resume | Self::Try | Self::Write)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        *self.among.counts().entry(self.kind).or_default() -= 1;
    }
}
