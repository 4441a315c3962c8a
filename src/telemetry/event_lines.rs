//! The lines of the log that say what happened to locks, holds, schedules and the sidecar.

use crate::coordinator::{
    EndFacts, GrantFacts, GrantedBy, HoldEnd, LockEvent, LockEventKind, Observer, SaveOutcome,
    ScheduleEventKind,
};
use crate::lock::{FencingToken, Permits};

/// Writes a line for each event that an operator may look for.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventLines;

/// A line about a hold; at DEBUG for a run of a schedule, which has one at its start and one at its end
/// (T23).
macro_rules! line_of_hold {
    ($is_run:expr, $($line:tt)+) => {
        if $is_run { tracing::debug!($($line)+) } else { tracing::info!($($line)+) }
    };
}

impl Observer for EventLines {
    fn observe(&self, event: &LockEvent<'_>) {
        let LockEvent { path, token, holder, kind } = *event;
        let lock = path.map(tracing::field::display);
        let token = token.map(FencingToken::value);
        match kind {
            LockEventKind::Granted(facts) => granted(event, facts),
            LockEventKind::Ended(facts) => ended(event, facts),
            LockEventKind::Settled { written } => {
                tracing::debug!(lock, written, "settled: granted to nobody");
            }
            LockEventKind::ResumeRefused { reason, detail, unsaid: Some(more) } => {
                let reason = reason.as_str();
                tracing::info!(lock, reason, %detail, %holder, more, "a resume was refused");
            }
            LockEventKind::Renewal { failure: None, .. } => tracing::debug!(lock, "renewed"),
            LockEventKind::Renewal { failure: Some(cause), .. } => {
                tracing::debug!(lock, cause = cause.as_str(), "renewal failed");
            }
            LockEventKind::AtRisk { detail, .. } => {
                tracing::warn!(lock, %detail, "hold at risk: renewals fail");
            }
            LockEventKind::Recovered => {
                tracing::info!(lock, "hold recovered: renewals succeed again");
            }
            LockEventKind::Revoked { reason } => {
                tracing::warn!(lock, token, %reason, "revoked: the lease was broken and runs out");
            }
            LockEventKind::Saved { outcome } => saved(event, outcome),
            LockEventKind::TaskFailed => {
                tracing::error!(lock, "the task of a lock has failed; its holds are lost");
            }
            LockEventKind::TokenNotGrowing { next } => {
                let next = next.map(FencingToken::value);
                tracing::error!(lock, seen = token, next, "fencing token would not grow: no grant");
            }
            LockEventKind::Overruled { priority, moves } => {
                tracing::info!(lock, %priority, moves, "lock broken for a waiting caller");
            }
            LockEventKind::Broken { note, caller } => {
                let reason = note.text();
                tracing::warn!(lock, token, %reason, %caller, "lock broken by an operator");
            }
            LockEventKind::PauseSuspected => tracing::warn!(
                "another clock shows a pause that the boot clock did not count: every hold is renewed at once"
            ),
            LockEventKind::ClockNotHeard { source } => tracing::warn!(
                clock = source.as_str(),
                "a clock showed three pauses that did not happen: it is ignored for an hour"
            ),
            LockEventKind::Schedule(kind) => of_schedule(event, &kind),
            LockEventKind::Collision { stored, ours, is_new: true } => {
                collision(event, stored, ours);
            }
            LockEventKind::PermitsDiffer { others, ours, is_new: true } => {
                permits_differ(event, others, ours);
            }
            LockEventKind::CannotBreak { cause } => tracing::warn!(
                lock, %cause,
                "the store refuses to break leases: callers of greater priority wait until the lock is released"
            ),
            // Callers are told themselves, or the scheduler says more.
            LockEventKind::Refused
            | LockEventKind::NotGranted { .. }
            | LockEventKind::ResumeRefused { unsaid: None, .. }
            | LockEventKind::Extended
            | LockEventKind::Draining
            | LockEventKind::Collision { is_new: false, .. }
            | LockEventKind::PermitsDiffer { is_new: false, .. }
            | LockEventKind::Forgotten
            | LockEventKind::ForgottenRead
            | LockEventKind::ShutdownBegun => {}
        }
    }
}

fn of_schedule(event: &LockEvent<'_>, kind: &ScheduleEventKind<'_>) {
    let lock = event.path.map(tracing::field::display);
    match *kind {
        ScheduleEventKind::RunStarted { run, lateness, missed, .. } => tracing::info!(
            lock, occurrence = %run.occasion, attempt = run.attempt,
            token = event.token.map(FencingToken::value), lateness = lateness.as_secs(), missed,
            "run started"
        ),
        ScheduleEventKind::WentBack => tracing::error!(
            lock,
            "the schedule's record has gone back to an older one: what was final before stays final, and is written \
             again; look for a store that was restored from a copy (T21)"
        ),
        ScheduleEventKind::Conflict { revision } => tracing::warn!(
            lock,
            revision,
            "two definitions of the schedule have the same revision: the later one is in force; give the newer \
             deployment a higher revision (T16)"
        ),
        ScheduleEventKind::Changed { change, caller, reason } => {
            tracing::warn!(lock, change, caller, reason, "schedule changed by an operator");
        }
        // The scheduler says more.
        ScheduleEventKind::RunEnded { .. }
        | ScheduleEventKind::Missed { .. }
        | ScheduleEventKind::StartQueued => {}
    }
}

fn collision(event: &LockEvent<'_>, stored: &str, ours: &str) {
    let lock = event.path.map(tracing::field::display);
    tracing::warn!(
        lock,
        stored_host_type = stored,
        our_host_type = ours,
        "two host types share this lock path: give them different host ids, if they are not to exclude each other"
    );
}

fn permits_differ(event: &LockEvent<'_>, others: Permits, ours: Permits) {
    let lock = event.path.map(tracing::field::display);
    tracing::warn!(
        lock,
        others = others.get(),
        ours = ours.get(),
        "callers of this lock name different numbers of permits: the greatest limits it until all name the same"
    );
}

fn granted(event: &LockEvent<'_>, facts: GrantFacts) {
    let lock = event.path.map(tracing::field::display);
    let (token, holder) = (event.token.map(FencingToken::value), event.holder);
    let resumed = facts.how == GrantedBy::Resume;
    line_of_hold!(facts.is_run, lock, token, %holder, resumed, "lock granted");
}

fn ended(event: &LockEvent<'_>, facts: EndFacts<'_>) {
    let lock = event.path.map(tracing::field::display);
    let (token, holder) = (event.token.map(FencingToken::value), event.holder);
    let detail = facts.detail;
    match facts.end {
        HoldEnd::Released => line_of_hold!(facts.is_run, lock, token, %holder, "lock released"),
        HoldEnd::NotConfirmed(why) => {
            let why = why.as_str();
            tracing::warn!(lock, token, %holder, why, %detail, "release not confirmed");
        }
        HoldEnd::Lost(reason) => {
            let reason = reason.as_str();
            tracing::warn!(lock, token, reason, %detail, %holder, "lock lost");
        }
        HoldEnd::HandedOver => tracing::info!(lock, token, "left to the replacement"),
        HoldEnd::ResumedElsewhere => {
            tracing::info!(lock, "a hold continues at another sidecar");
        }
    }
}

fn saved(event: &LockEvent<'_>, outcome: &SaveOutcome) {
    let lock = event.path.map(tracing::field::display);
    match outcome {
        SaveOutcome::Saved { version } => tracing::debug!(lock, version, "checkpoint saved"),
        SaveOutcome::Nothing => tracing::debug!(lock, "there was nothing to save"),
        SaveOutcome::NotSaved(store_failure) => {
            tracing::warn!(lock, detail = %store_failure.message, "checkpoint not saved");
        }
        SaveOutcome::Unknown => {
            tracing::warn!(lock, "it is not known whether a checkpoint was saved");
        }
        SaveOutcome::Ended => tracing::warn!(lock, "checkpoint not saved: the hold is over"),
    }
}
