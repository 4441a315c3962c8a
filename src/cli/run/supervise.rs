//! The watch over a command: what happens to the hold is done to it in time.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use leasehold_client::{BootInstant, Hold, HoldEvent};
use rustix::process::Signal;
use tokio::signal::unix::SignalKind;
use tokio::sync::mpsc::UnboundedReceiver;

use super::group::Group;
use super::output;
use super::plan::{Cause, Plan};
use crate::cli::sharing::takeover_text;
use crate::cli::signals::Signals;
use crate::cli::times::span;

/// How a command ended. Nothing of its group is left.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) enum Ended {
    /// By itself, or by a signal that was not ours.
    Command(ExitStatus),
    /// The same, when it was told to, because of what happened to the hold.
    Stopped(ExitStatus),
}

/// What a watch has to know of its command.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Terms {
    /// How long the command has between SIGTERM and SIGKILL, if the lock allows.
    pub(in crate::cli) kill_after: Option<Duration>,
    /// The priority of its caller.
    pub(in crate::cli) priority: u32,
    /// When it is told to stop, whatever happens to the lock: a run's deadline, before which its hold does
    /// not end (T12).
    pub(in crate::cli) deadline: Option<BootInstant>,
}

/// No sleep is longer: timers stop while the machine sleeps (S3).
const NAP: Duration = Duration::from_millis(500);
/// How often it is looked whether what was left behind or killed has gone.
const LOOK: Duration = Duration::from_millis(20);

struct Watch<'a> {
    guard: &'a Hold,
    group: &'a mut Group,
    plan: Plan,
    terms: Terms,
    /// How the command itself ended.
    status: Option<ExitStatus>,
    /// Whether the hold stopped the command.
    stopped: bool,
    told_unkillable: bool,
}

/// Signals that ask a command to end.
const ENDING: [i32; 4] =
    [Signal::INT.as_raw(), Signal::TERM.as_raw(), Signal::HUP.as_raw(), Signal::QUIT.as_raw()];

/// What a person is told about a command that has changed its user, as by sudo.
const UNKILLABLE: &str = "the command's remaining processes run as another user and cannot be killed: waiting until \
    they end";

/// Watches until nothing of the command's group is left, which is before the validity ends (S21).
pub(super) async fn supervise(
    guard: &Hold,
    events: &mut UnboundedReceiver<HoldEvent>,
    signals: &mut Signals,
    group: &mut Group,
    terms: Terms,
) -> Ended {
    let mut watch = Watch {
        guard,
        group,
        plan: Plan::new(terms.kill_after),
        terms,
        status: None,
        stopped: false,
        told_unkillable: false,
    };
    let mut children = tokio::signal::unix::signal(SignalKind::child()).ok();
    loop {
        // Also without a signal: it may have been stopped before that was heard, or in a way that is not
        // told.
        watch.group.undo_stop();
        watch.group.reap_adopted();
        if let Some(ended) = watch.look() {
            return ended;
        }
        let nap = watch.nap();
        let has_leader = watch.status.is_none();
        tokio::select! {
            biased;
            status = watch.group.leader_end(), if has_leader => watch.leader_ended(status),
            Some(event) = events.recv() => watch.take_in(event),
            number = signals.next() => watch.pass_on(number),
            () = child_changed(&mut children), if has_leader => {}
            () = tokio::time::sleep(nap) => {}
        }
    }
}

async fn child_changed(children: &mut Option<tokio::signal::unix::Signal>) {
    match children {
        Some(children) => {
            children.recv().await;
        }
        None => std::future::pending().await,
    }
}

impl Watch<'_> {
    /// Does what is due by the clock; says how it ended once nothing is left.
    fn look(&mut self) -> Option<Ended> {
        let (now, valid_until) = (BootInstant::now(), self.guard.valid_until());
        self.plan.see(now, valid_until);
        if self.status.is_some() && self.group.is_gone() {
            let status = self.status.take()?;
            return Some(if self.stopped {
                Ended::Stopped(status)
            } else {
                Ended::Command(status)
            });
        }
        if !self.plan.is_stopping() && self.terms.deadline.is_some_and(|deadline| now >= deadline) {
            let ends = self.guard.max_hold_ends().unwrap_or(valid_until);
            self.stop(Cause::Deadline(ends), "its time is over");
        }
        if !self.plan.is_stopping() && now >= self.stop_at(valid_until) {
            let left = span(valid_until.saturating_since(now));
            let is_deadline = self.guard.max_hold_ends().is_some_and(|ends| ends <= valid_until);
            let why = if is_deadline { "its time is over" } else { "no renewal was reported" };
            self.stop(Cause::AtRisk, &format!("{why}, with {left} left"));
        }
        if self.plan.kill_at(valid_until).is_some_and(|at| now >= at) {
            // S3: also when this comes too late, after a pause of the machine: better late than never.
            if !self.group.kill() && !std::mem::replace(&mut self.told_unkillable, true) {
                output::note(UNKILLABLE);
            }
        }
        None
    }

    /// When the command is told to stop, if nothing is heard before: at its deadline, where the hold lasts
    /// until then.
    fn stop_at(&self, valid_until: BootInstant) -> BootInstant {
        let at = self.plan.stop_at(valid_until);
        let ends = self.guard.max_hold_ends().is_some_and(|ends| ends <= valid_until);
        match self.terms.deadline {
            Some(deadline) if ends => at.max(deadline),
            Some(deadline) => at.min(deadline),
            None => at,
        }
    }

    /// Until something may be due.
    fn nap(&self) -> Duration {
        if self.status.is_some() {
            return LOOK;
        }
        let (now, valid_until) = (BootInstant::now(), self.guard.valid_until());
        let due = match self.plan.kill_at(valid_until) {
            Some(kill_at) if now >= kill_at => return LOOK,
            Some(kill_at) => kill_at,
            None => self.stop_at(valid_until),
        };
        due.saturating_since(now).clamp(Duration::from_millis(1), NAP)
    }

    fn take_in(&mut self, event: HoldEvent) {
        match event {
            HoldEvent::AtRisk { cause, detail, .. } if !self.plan.is_stopping() => {
                let left = self.stop_at(self.guard.valid_until()).saturating_since(BootInstant::now());
                let left = span(left);
                output::note(&format!(
                    "the lock is at risk: {}: {detail}; the command is stopped in {left} unless a renewal succeeds",
                    cause.as_str()
                ));
            }
            HoldEvent::Recovered { .. } if !self.plan.is_stopping() => {
                output::note("the lock is not at risk any more: a renewal has succeeded");
            }
            HoldEvent::Revoked(notice) => {
                let note = notice.break_note.as_ref();
                let who = note.and_then(|note| takeover_text(note, self.terms.priority));
                self.stop(Cause::Revoked, &who.unwrap_or_else(|| notice.to_string()));
            }
            HoldEvent::Draining { time_left } => {
                self.stop(Cause::Draining(time_left), "the sidecar is shutting down");
            }
            HoldEvent::Lost(loss) => {
                self.stop(Cause::Lost(loss.reason), &format!("the lock is lost: {loss}"));
            }
            // Renewals show in the guard; a break of the stream matters only if it lasts, which the clock
            // shows.
            HoldEvent::Waiting(_)
            | HoldEvent::Renewed { .. }
            | HoldEvent::AtRisk { .. }
            | HoldEvent::Recovered { .. }
            | HoldEvent::Interrupted { .. }
            | HoldEvent::Resumed { .. }
            // Said of a guard that was dropped.
            | HoldEvent::Released(_)
            | HoldEvent::ReleaseUnconfirmed { .. }
            // Events may be added that this does not know.
            | _ => {}
        }
    }

    fn stop(&mut self, cause: Cause, why: &str) {
        if self.status.is_none() {
            self.stopped = true;
            if !self.plan.is_stopping() {
                output::note(&format!("stopping the command: {why}"));
            }
        }
        if !self.plan.is_stopping() {
            self.group.signal(Signal::TERM.as_raw());
            // One that is stopped would not hear.
            self.group.signal(Signal::CONT.as_raw());
        }
        self.plan.stop(cause, BootInstant::now(), self.guard.valid_until());
    }

    fn leader_ended(&mut self, status: std::io::Result<ExitStatus>) {
        let status = status.unwrap_or_else(|error| {
            output::note(&format!("cannot wait for the command: {error}"));
            self.group.kill();
            ExitStatus::from_raw(Signal::KILL.as_raw())
        });
        self.status = Some(status);
        if !self.group.is_gone() && !self.plan.is_stopping() {
            self.stop(Cause::LeftBehind, "");
        }
    }

    fn pass_on(&self, number: i32) {
        // Ctrl-Z before the terminal was lent: it would leave the hold without a watch.
        if number == Signal::TSTP.as_raw() {
            output::note(super::group::NOT_SUSPENDED);
        } else {
            self.group.signal(number);
            // One that is stopped would not hear of its end.
            if ENDING.contains(&number) {
                self.group.signal(Signal::CONT.as_raw());
            }
        }
    }
}
