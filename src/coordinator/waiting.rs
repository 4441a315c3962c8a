//! Who waits at this sidecar: callers for locks, and subscribers of schedules. One limit is for all of them,
//! since a stream that waits costs as much as another (S38).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::api::error::CallError;

/// All that wait at this sidecar, and the limit for them.
#[derive(Debug)]
pub(in crate::coordinator) struct AllWaiting {
    limit: usize,
    /// Places that are taken.
    taken: AtomicUsize,
    /// Callers that wait for a lock, each with a place of its own or not.
    callers: AtomicUsize,
    /// Those of them that go on with a hold.
    resumes: AtomicUsize,
}

/// What waits, and so which limit is asked and whether it is shown among the callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::coordinator) enum WaitKind {
    Caller,
    /// A caller that goes on with a hold: it takes a place, and there is always one for it (S16).
    Resume,
    /// The try for a run: the place is its subscriber's.
    Run,
    Subscriber,
}

/// One that waits; it is counted until this is dropped.
#[derive(Debug)]
pub(in crate::coordinator) struct Wait {
    among: Arc<AllWaiting>,
    kind: WaitKind,
}

impl AllWaiting {
    pub(in crate::coordinator) fn new(limit: usize) -> Arc<Self> {
        let [taken, callers, resumes] = std::array::from_fn(|_| AtomicUsize::new(0));
        Arc::new(Self { limit, taken, callers, resumes })
    }

    /// Counts one that waits, if there is a place for it.
    pub(in crate::coordinator) fn begin(
        self: &Arc<Self>,
        kind: WaitKind,
    ) -> Result<Wait, CallError> {
        let limit = self.limit;
        if kind.takes_place() {
            let most = if kind == WaitKind::Resume { usize::MAX } else { limit };
            self.taken
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                    (taken < most).then_some(taken + 1)
                })
                .map_err(|_| CallError::TooManyWaiters { limit })?;
        }
        if kind.is_caller() {
            self.callers.fetch_add(1, Ordering::Relaxed);
        }
        if kind == WaitKind::Resume {
            self.resumes.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Wait { among: Arc::clone(self), kind })
    }

    /// How many callers wait for a lock.
    pub(in crate::coordinator) fn callers(&self) -> usize {
        self.callers.load(Ordering::Relaxed)
    }

    /// How many of them go on with a hold.
    pub(in crate::coordinator) fn resumes(&self) -> usize {
        self.resumes.load(Ordering::Relaxed)
    }
}

impl WaitKind {
    const fn takes_place(self) -> bool {
        !matches!(self, Self::Run)
    }

    const fn is_caller(self) -> bool {
        !matches!(self, Self::Subscriber)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if self.kind.takes_place() {
            self.among.taken.fetch_sub(1, Ordering::Relaxed);
        }
        if self.kind.is_caller() {
            self.among.callers.fetch_sub(1, Ordering::Relaxed);
        }
        if self.kind == WaitKind::Resume {
            self.among.resumes.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
