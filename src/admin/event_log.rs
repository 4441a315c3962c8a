//! What has happened at this sidecar lately, for people who look: the newest events of all, and the newest of
//! each lock.

use std::collections::{BTreeMap, VecDeque};
use std::hash::RandomState;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashlink::LinkedHashMap;
use hashlink::linked_hash_map::Entry;
use serde::Serialize;
use tokio::sync::watch;

use crate::coordinator::{
    AcquireResult, GrantedBy, HoldEnd, LockEvent, LockEventKind, Observer, RunOutcome,
    ScheduleEventKind,
};
use crate::lock::{FencingToken, LockPath};
use crate::time::{Clock, UnixMillis};

/// Events of all locks that are kept.
pub(super) const NEWEST: usize = 500;
/// Events of one lock that are kept for as long as the lock is among [`LOCKS`].
const OF_ONE: usize = 16;
/// Locks whose own events are kept: those of which something happened last.
const LOCKS: usize = 512;

/// Locks whose collisions are kept.
const COLLISIONS: usize = 100;

/// Something that happened here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LoggedEvent {
    /// Counts from 1; what happens again gets a new one.
    pub(super) number: u64,
    /// When, by this machine's clock.
    pub(super) at: UnixMillis,
    /// What happened, by its name.
    pub(super) kind: LoggedKind,
    /// Which lock, or permit of a lock; none if it concerns the sidecar.
    pub(super) path: Option<LockPath>,
    /// The token of the grant that it is about.
    pub(super) token: Option<FencingToken>,
    /// Whom it happened to, for people: the holder, or who wanted to be.
    pub(super) holder: String,
    /// More, for people; may be empty.
    pub(super) detail: String,
    /// How often the same has happened in a row.
    pub(super) times: u32,
}

/// What can happen, by its name in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LoggedKind {
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
    #[serde(rename = "release_not_confirmed")]
    NotConfirmed,
    /// A hold was left to the replacement of this sidecar (S15).
    HandedOver,
    /// A hold goes on at another sidecar (S16).
    ResumedElsewhere,
    /// An operator broke the lock through this sidecar (S17).
    Broken,
    /// The lock was broken for a caller that waits here (S33, S35).
    #[serde(rename = "broken_for_caller")]
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

/// The newest events of this sidecar: 500 of all, and the newest 16 of each of the 512 locks of which
/// something happened last.
#[derive(Debug)]
pub struct EventLog {
    state: Mutex<KeptEvents>,
    /// The number of the newest one.
    newest: watch::Sender<u64>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct KeptEvents {
    /// By their numbers.
    newest: BTreeMap<u64, Arc<LoggedEvent>>,
    /// The lock of which something happened last is the last.
    of_locks: LinkedHashMap<LockPath, VecDeque<Arc<LoggedEvent>>, RandomState>,
    /// The first locks that were seen to be shared by two host types.
    collisions: BTreeMap<LockPath, Arc<LoggedEvent>>,
    /// The number of the newest.
    number: u64,
}

impl EventLog {
    /// An empty log; `clock` says when things happen.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { state: Mutex::default(), newest: watch::Sender::new(0), clock }
    }

    /// What has happened here after the event with this number, the oldest first: at most the newest
    /// [`NEWEST`].
    pub(super) fn after(&self, number: u64) -> Vec<Arc<LoggedEvent>> {
        let newest = number.saturating_add(1)..;
        self.state().newest.range(newest).map(|(_, event)| Arc::clone(event)).collect()
    }

    /// What has happened to one lock, or permit of a lock, the oldest first.
    pub(super) fn of(&self, path: &LockPath) -> Vec<Arc<LoggedEvent>> {
        self.state().of_locks.get(path).into_iter().flatten().cloned().collect()
    }

    /// The locks that were seen to be shared by two host types: at most 100, in the order of their paths.
    pub(super) fn collisions(&self) -> Vec<Arc<LoggedEvent>> {
        self.state().collisions.values().cloned().collect()
    }

    /// The number of the newest event, and each new one.
    pub(super) fn newest(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    fn state(&self) -> MutexGuard<'_, KeptEvents> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for EventLog {
    fn observe(&self, event: &LockEvent<'_>) {
        let Some((kind, detail)) = shown(&event.kind) else { return };
        let at = self.clock.wall();
        let logged = LoggedEvent {
            number: 0,
            at,
            kind,
            path: event.path.cloned(),
            token: event.token,
            holder: holder(event).to_owned(),
            detail,
            times: 1,
        };
        let number = self.state().note(logged);
        self.newest.send_replace(number);
    }
}

/// Whom an event happened to, as it is shown.
fn holder<'a>(event: &LockEvent<'a>) -> &'a str {
    if let LockEventKind::Broken { note, .. } = event.kind { &note.by } else { event.holder }
}

/// What is shown of an event, with more for people; none of most renewals and the like.
fn shown(kind: &LockEventKind<'_>) -> Option<(LoggedKind, String)> {
    Some(match *kind {
        LockEventKind::Granted(facts) => {
            let kind = match facts.how {
                GrantedBy::Store => LoggedKind::Granted,
                GrantedBy::HandOff => LoggedKind::HandedOn,
                GrantedBy::Resume => LoggedKind::Resumed,
            };
            (kind, String::new())
        }
        LockEventKind::NotGranted { result: AcquireResult::Busy, busy, .. } => {
            let detail = match busy.map_or("", |busy| busy.record.holder.as_str()) {
                "" => "somebody has it".to_owned(),
                holder => format!("{holder} has it"),
            };
            (LoggedKind::Refused, detail)
        }
        LockEventKind::AtRisk { detail, .. } => (LoggedKind::AtRisk, detail.to_owned()),
        LockEventKind::Recovered => (LoggedKind::Recovered, String::new()),
        LockEventKind::Revoked { reason } => (LoggedKind::Revoked, reason.to_owned()),
        LockEventKind::Ended(facts) => match facts.end {
            HoldEnd::Released => (LoggedKind::Released, String::new()),
            HoldEnd::NotConfirmed(_) => (LoggedKind::NotConfirmed, facts.detail.to_owned()),
            HoldEnd::Lost(reason) => {
                (LoggedKind::Lost, format!("{}: {}", reason.as_str(), facts.detail))
            }
            HoldEnd::HandedOver => (LoggedKind::HandedOver, String::new()),
            HoldEnd::ResumedElsewhere => (LoggedKind::ResumedElsewhere, String::new()),
        },
        LockEventKind::Broken { note, .. } => (LoggedKind::Broken, note.reason.clone()),
        LockEventKind::Overruled { moves: true, .. } => {
            (LoggedKind::Overruled, "to balance its share".to_owned())
        }
        LockEventKind::Overruled { moves: false, priority } => {
            (LoggedKind::Overruled, format!("for a caller of priority {priority}"))
        }
        LockEventKind::Collision { stored, ours, is_new: true } => {
            (LoggedKind::Collision, format!("{stored} and {ours} share this lock path"))
        }
        LockEventKind::TokenNotGrowing { .. } => (LoggedKind::TokenNotGrowing, String::new()),
        LockEventKind::Schedule(kind) => return shown_of_schedule(&kind),
        LockEventKind::ShutdownBegun => (LoggedKind::Draining, String::new()),
        LockEventKind::Refused
        | LockEventKind::NotGranted { .. }
        | LockEventKind::ResumeRefused { .. }
        | LockEventKind::Settled { .. }
        | LockEventKind::Renewal { .. }
        | LockEventKind::Extended
        | LockEventKind::Draining
        | LockEventKind::Saved { .. }
        | LockEventKind::TaskFailed
        | LockEventKind::Collision { is_new: false, .. }
        | LockEventKind::PermitsDiffer { .. }
        | LockEventKind::CannotBreak { .. }
        | LockEventKind::Forgotten
        | LockEventKind::ForgottenRead
        | LockEventKind::PauseSuspected
        | LockEventKind::ClockNotHeard { .. } => return None,
    })
}

fn shown_of_schedule(kind: &ScheduleEventKind<'_>) -> Option<(LoggedKind, String)> {
    Some(match *kind {
        ScheduleEventKind::RunStarted { run, .. } => {
            (LoggedKind::RunStarted, format!("{}, attempt {}", run.occasion, run.attempt))
        }
        ScheduleEventKind::RunEnded { outcome, detail } => run_ended(outcome, detail),
        ScheduleEventKind::Missed { count } => (LoggedKind::Missed, count.to_string()),
        ScheduleEventKind::WentBack => (LoggedKind::WentBack, String::new()),
        ScheduleEventKind::Changed { change, .. } => {
            (LoggedKind::ScheduleChanged, change.to_owned())
        }
        ScheduleEventKind::Conflict { .. } | ScheduleEventKind::StartQueued => return None,
    })
}

/// What is shown of a run that ended.
fn run_ended(outcome: RunOutcome, detail: &str) -> (LoggedKind, String) {
    let (kind, how) = match outcome {
        RunOutcome::Succeeded => (LoggedKind::RunEnded, "succeeded"),
        RunOutcome::Returned => (LoggedKind::RunEnded, "given to another replica"),
        RunOutcome::Skipped => (LoggedKind::RunEnded, "skipped"),
        RunOutcome::Failed => (LoggedKind::RunFailed, "failed"),
        RunOutcome::FailedFinal => (LoggedKind::RunFailed, "failed, and is not tried again"),
        RunOutcome::TimedOut => (LoggedKind::RunFailed, "timed out: its deadline came"),
        RunOutcome::Abandoned => {
            (LoggedKind::RunFailed, "abandoned: its holder ended or lost the lock")
        }
    };
    (kind, if detail.is_empty() { how.to_owned() } else { format!("{how}: {detail}") })
}

impl KeptEvents {
    /// Keeps an event, and answers its number.
    fn note(&mut self, mut event: LoggedEvent) -> u64 {
        self.number += 1;
        event.number = self.number;
        if let Some(path) = event.path.clone() {
            let own = match self.of_locks.entry(path.clone()) {
                Entry::Occupied(mut own) => {
                    own.to_back();
                    own.into_mut()
                }
                Entry::Vacant(own) => own.insert(VecDeque::new()),
            };
            // A caller that asks again and again would drive out everything else.
            if let Some(last) = own.back().filter(|last| last.is_repeated_by(&event)) {
                event.times += last.times;
                self.newest.remove(&last.number);
                own.pop_back();
            }
            let event = Arc::new(event);
            if event.kind == LoggedKind::Collision && self.collisions.len() < COLLISIONS {
                self.collisions.insert(path, Arc::clone(&event));
            }
            self.newest.insert(self.number, Arc::clone(&event));
            own.push_back(event);
            if own.len() > OF_ONE {
                own.pop_front();
            }
            if self.of_locks.len() > LOCKS {
                self.of_locks.pop_front();
            }
        } else {
            self.newest.insert(self.number, Arc::new(event));
        }
        if self.newest.len() > NEWEST {
            self.newest.pop_first();
        }
        self.number
    }
}

impl LoggedEvent {
    fn is_repeated_by(&self, next: &Self) -> bool {
        self.kind == LoggedKind::Refused
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

#[cfg(test)]
mod tests {
    use super::*;

    fn path(number: usize) -> LockPath {
        format!("leasehold/locks/job-{number}").parse().unwrap()
    }

    fn event(kind: LoggedKind, path: &LockPath, at: u64) -> LoggedEvent {
        LoggedEvent {
            number: 0,
            at: UnixMillis(at),
            kind,
            path: Some(path.clone()),
            token: None,
            holder: String::new(),
            detail: String::new(),
            times: 1,
        }
    }

    fn refused(path: &LockPath, holder: &str, at: u64) -> LoggedEvent {
        let (holder, detail) = (holder.to_owned(), "held by b".to_owned());
        LoggedEvent { holder, detail, ..event(LoggedKind::Refused, path, at) }
    }

    #[test]
    fn the_newest_stay_and_the_oldest_go() {
        let (mut state, path) = (KeptEvents::default(), path(0));
        for number in 0..NEWEST + 7 {
            let detail = number.to_string();
            state.note(LoggedEvent { detail, ..event(LoggedKind::Lost, &path, 1) });
        }
        assert_eq!(state.newest.len(), NEWEST);
        let numbers = (state.newest.keys().next().copied(), state.newest.keys().last().copied());
        assert_eq!(numbers, (Some(8), Some(NEWEST as u64 + 7)));
        assert_eq!(state.of_locks[&path].len(), OF_ONE);
    }

    #[test]
    fn what_is_refused_again_and_again_drives_out_nothing() {
        let (mut state, path) = (KeptEvents::default(), path(0));
        state.note(event(LoggedKind::Granted, &path, 1));
        for time in 0..2_000 {
            state.note(refused(&path, "a", time));
        }
        state.note(refused(&path, "c", 3_000));
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
        let (mut state, path) = (KeptEvents::default(), path(0));
        for holder in ["pod-a/1", "pod-a/2", "pod-b/3"] {
            state.note(refused(&path, holder, 1));
        }
        let kept: Vec<_> =
            state.newest.values().map(|one| (one.holder.as_str(), one.times)).collect();
        assert_eq!(kept.len(), 2, "{kept:?}");
        assert_eq!((kept[0].1, kept[1]), (2, ("pod-b/3", 1)));
    }

    #[test]
    fn a_lock_keeps_its_own_when_others_are_busy_and_few_locks_do() {
        let (mut state, quiet) = (KeptEvents::default(), path(0));
        state.note(event(LoggedKind::Granted, &quiet, 1));
        for number in 1..LOCKS {
            for kind in [LoggedKind::Granted, LoggedKind::Released] {
                state.note(event(kind, &path(number), 2));
            }
        }
        assert!(!state.newest.contains_key(&1), "not among the newest");
        assert_eq!(state.of_locks[&quiet].len(), 1);
        state.note(event(LoggedKind::Granted, &path(LOCKS), 3));
        assert!(!state.of_locks.contains_key(&quiet));
        assert_eq!(state.of_locks.len(), LOCKS);
    }

    #[test]
    fn t23_a_run_that_ended_is_shown_with_how_and_why() {
        let failed = run_ended(RunOutcome::Failed, "exit code 3");
        assert_eq!(failed, (LoggedKind::RunFailed, "failed: exit code 3".to_owned()));
        let succeeded = run_ended(RunOutcome::Succeeded, "");
        assert_eq!(succeeded, (LoggedKind::RunEnded, "succeeded".to_owned()));
    }
}
