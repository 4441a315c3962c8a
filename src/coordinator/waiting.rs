//! How many wait at this sidecar: callers for locks, and subscribers of schedules. One limit is for all of
//! them, since a stream that waits costs as much as another (S38). Who goes on with a hold was let in once,
//! and has a limit of its own (S16).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Settings;
use super::api::error::CallError;

/// All that wait at this sidecar, and the limits for them.
#[derive(Debug)]
pub(in crate::coordinator) struct AllWaiting {
    limit: usize,
    max_resumes: usize,
    /// How many holds there may be, those that are resumed here included.
    all_holds: usize,
    /// Places that are taken.
    taken: AtomicUsize,
    /// Callers that wait for a lock, each with a place of its own or not.
    callers: AtomicUsize,
    /// Those of them that go on with a hold.
    resumes: AtomicUsize,
    subscribers: AtomicUsize,
}

/// What waits, and so which limit is asked and whether it is shown among the callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitKind {
    Caller,
    /// A caller that goes on with a hold: it is counted as the hold that it has.
    Resume,
    /// A try that needs no place: for the run of a subscriber, which has one, or for an outcome that is told
    /// late, which waits for nobody (T8).
    Try,
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
    pub(in crate::coordinator) fn new(settings: &Settings) -> Arc<Self> {
        let [taken, callers, resumes, subscribers] = std::array::from_fn(|_| AtomicUsize::new(0));
        let (limit, max_resumes) = (settings.max_waiters, settings.max_resumes);
        let all_holds = settings.max_holds.saturating_add(max_resumes);
        Arc::new(Self { limit, max_resumes, all_holds, taken, callers, resumes, subscribers })
    }

    /// How many locks there may be that somebody here holds or waits for.
    pub(in crate::coordinator) const fn most_locks(&self) -> usize {
        self.all_holds.saturating_add(self.limit)
    }

    /// Counts one that waits, if there is a place for it.
    pub(in crate::coordinator) fn begin(
        self: &Arc<Self>,
        kind: WaitKind,
    ) -> Result<Wait, CallError> {
        if kind.takes_place() {
            self.take_place(kind)?;
        }
        for count in self.counts(kind) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Wait { among: Arc::clone(self), kind })
    }

    fn take_place(&self, kind: WaitKind) -> Result<(), CallError> {
        let is_resumed = kind == WaitKind::ResumedSubscriber;
        // Resume tokens can be forged.
        let beyond = if is_resumed { self.all_holds } else { 0 };
        let most = self.limit.saturating_add(beyond);
        let next = |taken: usize| (taken < most).then_some(taken + 1);
        match self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(_) => Ok(()),
            Err(_) if is_resumed => Err(self.too_many_resumes()),
            Err(_) => Err(CallError::TooManyWaiters { limit: self.limit }),
        }
    }

    /// Whether another caller may go on with a hold, where there are so many holds.
    pub(in crate::coordinator) fn check_resume(&self, holds: usize) -> Result<(), CallError> {
        let resumes = self.resumes.load(Ordering::Relaxed);
        if holds.max(resumes) < self.all_holds { Ok(()) } else { Err(self.too_many_resumes()) }
    }

    const fn too_many_resumes(&self) -> CallError {
        CallError::TooManyResumes { limit: self.max_resumes }
    }

    /// What counts it beside its place.
    fn counts(&self, kind: WaitKind) -> impl Iterator<Item = &AtomicUsize> {
        let callers = kind.is_caller().then_some(&self.callers);
        let resumes = (kind == WaitKind::Resume).then_some(&self.resumes);
        let subscribers = (!kind.is_caller()).then_some(&self.subscribers);
        [callers, resumes, subscribers].into_iter().flatten()
    }

    /// How many callers wait for a lock.
    pub(in crate::coordinator) fn callers(&self) -> usize {
        self.callers.load(Ordering::Relaxed)
    }

    /// How many subscribers of schedules there are.
    pub(in crate::coordinator) fn subscribers(&self) -> usize {
        self.subscribers.load(Ordering::Relaxed)
    }
}

impl WaitKind {
    const fn takes_place(self) -> bool {
        matches!(self, Self::Caller | Self::Subscriber | Self::ResumedSubscriber)
    }

    const fn is_caller(self) -> bool {
        matches!(self, Self::Caller | Self::Resume | Self::Try)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if self.kind.takes_place() {
            self.among.taken.fetch_sub(1, Ordering::Relaxed);
        }
        for count in self.among.counts(self.kind) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
