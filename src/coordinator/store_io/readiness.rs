//! Whether the store can be used, by the evidence of real requests (`note`, `makes_unusable`), and by a check
//! where there are none (`Coordinator::check` in `api/drain.rs`; S18).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::coordinator::log_limit::LogLimit;
use crate::store::StoreError;
use crate::time::Instant;

/// Evidence younger than this makes a check unnecessary.
pub(super) const FRESH: Duration = Duration::from_secs(30);

/// What is known of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreStatus {
    /// Nothing was asked of it yet.
    Unknown,
    /// The store answers.
    Ready,
    /// It does not answer, or does not let us in.
    NotReady {
        /// Why, for people.
        cause: String,
        /// When that began, whatever the cause was then.
        since: Instant,
    },
}

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::coordinator) enum Subject {
    /// The store itself: a check.
    Store,
    /// A lock, or what stands beside one.
    Lock,
    /// The lease of somebody: to break it takes a right that nothing else takes.
    Break,
}

impl Subject {
    /// Whether a request about it may fail like this in a store in which all other locks can be acquired.
    const fn may_fail_alone(self, error: &StoreError) -> bool {
        match self {
            Self::Store => false,
            Self::Lock => matches!(error, StoreError::Fatal { .. }),
            Self::Break => matches!(error, StoreError::Fatal { .. } | StoreError::Denied { .. }),
        }
    }
}

#[derive(Debug)]
pub(in crate::coordinator) struct Readiness {
    status: watch::Sender<StoreStatus>,
    evidence: Mutex<Evidence>,
    /// Said also where other requests succeed over connections that they have.
    no_descriptors: LogLimit,
}

#[derive(Debug, Default)]
struct Evidence {
    noted_at: Option<Instant>,
    log: OutageLog,
    /// Something was refused for good, about one lock perhaps: a check is to show whether the store is.
    is_doubted: bool,
}

impl Default for Readiness {
    fn default() -> Self {
        Self {
            status: watch::Sender::new(StoreStatus::Unknown),
            evidence: Mutex::default(),
            no_descriptors: LogLimit::default(),
        }
    }
}

impl Readiness {
    /// A request about `subject` ended like this. One connection that breaks is no outage: a store that has
    /// answered is not ready once no request has succeeded for [`OUTAGE`], or at once when it answers that it
    /// refuses us. What may be refused alone is for a check to look into.
    pub(super) fn note(&self, subject: Subject, error: Option<&StoreError>, now: Instant) {
        let failure = error.filter(|error| makes_unusable(error));
        // To the end: of two threads that note, the later one sets the status that stays.
        let mut evidence = self.evidence();
        if failure.is_some_and(|error| subject.may_fail_alone(error)) {
            evidence.is_doubted = true;
            return;
        }
        evidence.is_doubted &= subject != Subject::Store;
        let is_first = *self.status.borrow() == StoreStatus::Unknown;
        evidence.noted_at = Some(now);
        let line = match failure {
            Some(_) => evidence.log.failed(now, is_first),
            None => evidence.log.answered(now),
        };
        let (lasts, failing_since) =
            (evidence.log.lasts(now), evidence.log.failing_since.unwrap_or(now));
        if let (Some(Line::Unusable), Some(error)) = (line, failure) {
            tracing::warn!(cause = %error.chain(), "the store cannot be used");
        }
        if let Some(Line::UsableAgain { after }) = line {
            tracing::info!(seconds = after.as_secs(), "the store can be used again");
        }
        if let Some(error @ StoreError::NoDescriptors { .. }) = failure
            && let Some(more) = self.no_descriptors.line(now)
        {
            tracing::warn!(cause = %error.chain(), more, "a request to the store was not sent");
        }
        let passing = failure.is_some_and(|error| {
            matches!(error, StoreError::Unavailable { .. } | StoreError::NoDescriptors { .. })
        });
        if passing && !lasts && *self.status.borrow() == StoreStatus::Ready {
            return;
        }
        let since = match *self.status.borrow() {
            StoreStatus::NotReady { since, .. } => since,
            StoreStatus::Unknown | StoreStatus::Ready => failing_since,
        };
        let status = failure.map_or(StoreStatus::Ready, |error| StoreStatus::NotReady {
            cause: error.chain(),
            since,
        });
        self.status.send_if_modified(|current| {
            let modified = *current != status;
            *current = status;
            modified
        });
    }

    /// Whether the last check says nothing about now, or it is not yet known whether an outage has begun or
    /// is over.
    pub(in crate::coordinator) fn is_stale(&self, now: Instant) -> bool {
        let (old, settling) = {
            let evidence = self.evidence();
            let old = evidence.noted_at.is_none_or(|at| now.saturating_since(at) >= FRESH);
            let log = &evidence.log;
            let unsettled = log.said_unusable.is_some() || log.failing_since.is_some();
            (old, unsettled || evidence.is_doubted)
        };
        old || settling || *self.status.borrow() != StoreStatus::Ready
    }

    /// Whether it is known not to answer, or not to let us in.
    pub(super) fn is_out(&self) -> bool {
        matches!(*self.status.borrow(), StoreStatus::NotReady { .. })
    }

    pub(in crate::coordinator) fn subscribe(&self) -> watch::Receiver<StoreStatus> {
        self.status.subscribe()
    }

    fn evidence(&self) -> MutexGuard<'_, Evidence> {
        self.evidence.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a request that ended like this shows that the store cannot be used. A store that answers is there,
/// whatever it answers; one that throttles works.
const fn makes_unusable(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Unavailable { .. }
            | StoreError::NoDescriptors { .. }
            | StoreError::Denied { .. }
            | StoreError::Fatal { .. }
            | StoreError::ContainerMissing { .. }
    )
}

/// No request succeeded for this long: an outage, and not a connection that broke.
const OUTAGE: Duration = Duration::from_secs(3);
/// No request failed for this long: the outage is over, and not only interrupted.
const CALM: Duration = Duration::from_secs(10);

/// When the log says that the store cannot be used and that it can be used again: once an outage, however
/// many requests fail in it, and not for each that fails among others that succeed.
#[derive(Debug, Default)]
struct OutageLog {
    failing_since: Option<Instant>,
    answering_since: Option<Instant>,
    /// The beginning of the outage that the log says goes on.
    said_unusable: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Unusable,
    UsableAgain { after: Duration },
}

impl OutageLog {
    /// A request failed. The very first one is said at once: nothing has worked yet.
    fn failed(&mut self, now: Instant, is_first: bool) -> Option<Line> {
        self.answering_since = None;
        let since = *self.failing_since.get_or_insert(now);
        let lasts = is_first || now.saturating_since(since) >= OUTAGE;
        if self.said_unusable.is_some() || !lasts {
            return None;
        }
        self.said_unusable = Some(since);
        Some(Line::Unusable)
    }

    /// Whether no request has succeeded for so long that it is an outage.
    fn lasts(&self, now: Instant) -> bool {
        self.failing_since.is_some_and(|since| now.saturating_since(since) >= OUTAGE)
    }

    /// A request was answered.
    fn answered(&mut self, now: Instant) -> Option<Line> {
        self.failing_since = None;
        let since = *self.answering_since.get_or_insert(now);
        if now.saturating_since(since) < CALM {
            return None;
        }
        let began = self.said_unusable.take()?;
        Some(Line::UsableAgain { after: since.saturating_since(began) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unavailable(cause: &str) -> StoreError {
        StoreError::Unavailable { sent: false, source: cause.into() }
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_boot(Duration::from_secs(seconds))
    }

    #[test]
    fn s18_an_outage_keeps_its_beginning_while_its_cause_changes() {
        let readiness = Readiness::default();
        let status = readiness.subscribe();
        for (seconds, cause) in [(10, "refused"), (15, "reset"), (20, "reset")] {
            readiness.note(Subject::Lock, Some(&unavailable(cause)), at(seconds));
            let cause = unavailable(cause).chain();
            assert_eq!(*status.borrow(), StoreStatus::NotReady { cause, since: at(10) });
        }
        readiness.note(Subject::Lock, None, at(30));
        assert_eq!(*status.borrow(), StoreStatus::Ready);
        readiness.note(Subject::Lock, Some(&unavailable("refused")), at(40));
        assert_eq!(*status.borrow(), StoreStatus::Ready, "one failure is no outage");
        readiness.note(Subject::Lock, Some(&unavailable("refused")), at(43));
        let since = match &*status.borrow() {
            StoreStatus::NotReady { since, .. } => Some(*since),
            StoreStatus::Unknown | StoreStatus::Ready => None,
        };
        assert_eq!(since, Some(at(40)));
    }

    #[test]
    fn s18_a_connection_that_breaks_is_no_outage_and_a_refusal_is_one_at_once() {
        let readiness = Readiness::default();
        let status = readiness.subscribe();
        readiness.note(Subject::Lock, None, at(1));
        for seconds in 2..100 {
            let error = unavailable("reset");
            readiness.note(Subject::Lock, (seconds % 2 == 0).then_some(&error), at(seconds));
            assert_eq!(*status.borrow(), StoreStatus::Ready, "at {seconds}");
        }
        let denied = StoreError::Denied {
            operation: "renew the lease",
            advice: "give the role".to_owned(),
            source: "403".into(),
        };
        readiness.note(Subject::Lock, Some(&denied), at(100));
        assert_ne!(*status.borrow(), StoreStatus::Ready);
    }

    #[test]
    fn s18_what_is_wrong_with_one_lock_is_no_outage_and_is_looked_into() {
        let readiness = Readiness::default();
        readiness.note(Subject::Lock, None, at(1));
        let archived =
            StoreError::Fatal { advice: "bring it back".to_owned(), source: "409".into() };
        readiness.note(Subject::Lock, Some(&archived), at(2));
        assert_eq!(*readiness.subscribe().borrow(), StoreStatus::Ready);
        readiness.note(Subject::Lock, None, at(3));
        assert!(readiness.is_stale(at(3)), "other locks are no answer");
        readiness.note(Subject::Store, None, at(4));
        assert!(!readiness.is_stale(at(4)));
        readiness.note(Subject::Store, Some(&archived), at(5));
        assert_ne!(*readiness.subscribe().borrow(), StoreStatus::Ready);
    }

    #[test]
    fn s18_a_failure_is_looked_into_at_once() {
        let readiness = Readiness::default();
        readiness.note(Subject::Lock, None, at(1));
        assert!(!readiness.is_stale(at(2)));
        readiness.note(Subject::Lock, Some(&unavailable("reset")), at(2));
        assert!(readiness.is_stale(at(2)), "though the store counts as ready still");
        readiness.note(Subject::Lock, None, at(3));
        assert!(!readiness.is_stale(at(3)));
    }

    /// Lines that the log gets from answers at these seconds: true for good ones.
    fn lines(answers: impl IntoIterator<Item = (u64, bool)>) -> Vec<(u64, Line)> {
        let mut log = OutageLog::default();
        let mut lines = Vec::new();
        for (seconds, good) in answers {
            let now = at(seconds);
            let line = if good { log.answered(now) } else { log.failed(now, false) };
            lines.extend(line.map(|line| (seconds, line)));
        }
        lines
    }

    #[test]
    fn s18_an_outage_is_two_lines_and_a_broken_connection_is_none() {
        let seldom = (0..3_600).map(|second| (second, second % 10 != 0));
        assert_eq!(lines(seldom), []);
        let outage = (0..600).flat_map(|second| [(second, !(100..200).contains(&second)); 50]);
        let after = Duration::from_secs(100);
        let expected = [(103, Line::Unusable), (210, Line::UsableAgain { after })];
        assert_eq!(lines(outage), expected);
    }

    #[test]
    fn s18_a_store_that_comes_and_goes_does_not_fill_the_log() {
        // Five seconds away and five there, for an hour; then it stays.
        let flapping = (0..4_000).map(|second| (second, second >= 3_600 || second % 10 >= 5));
        let after = Duration::from_secs(3_595);
        assert_eq!(lines(flapping), [(3, Line::Unusable), (3_605, Line::UsableAgain { after })]);
    }
}
