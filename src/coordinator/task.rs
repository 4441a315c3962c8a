//! One task a lock path that has holders or waiters: events in, actions out, one timer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::caller::Caller;
use super::request::{CallError, Grant, LocalView, Released, Validity};
use super::{Shared, calls};
use crate::hold::{CallerId, Event, Hold, Memory};
use crate::lock::{FencingToken, LeaseId, LockPath};
use crate::store::BreakNote;
use crate::time::Instant;

/// A sleep is never longer than this while a lease is had: the machine's timers stop while it sleeps (S3).
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// The way to a path's task. Commands are boxed, so that an idle channel is small.
#[derive(Clone, Debug)]
pub(super) struct Inbox(mpsc::UnboundedSender<Box<Command>>);

impl Inbox {
    /// A task that is gone has nothing to do with the command any more.
    pub(super) fn send(&self, command: Command) {
        let _ = self.0.send(Box::new(command));
    }
}

/// What a path's task is told.
#[derive(Debug)]
pub(super) enum Command {
    Arrive(Caller),
    Resume(Caller, Box<crate::hold::Resume>),
    Leave(CallerId),
    FallSilent(CallerId),
    Release(LeaseId, CallerId, oneshot::Sender<Released>),
    Extend(CallerId, Duration, oneshot::Sender<Result<Validity, CallError>>),
    ReportProgress(CallerId, bool, oneshot::Sender<Result<Validity, CallError>>),
    Look(oneshot::Sender<LocalView>),
    Answered(Event),
    /// The lock was broken through this sidecar, with this note.
    Broken(BreakNote),
    /// The note of a break that a renewal has met.
    NoteBreak(BreakNote),
    DrainStarted(Instant),
    DrainEnded,
}

/// The state around one machine.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) shared: Arc<Shared>,
    pub(super) path: LockPath,
    pub(super) inbox: Inbox,
    pub(super) hold: Hold,
    pub(super) callers: HashMap<CallerId, Caller>,
    /// What unary callers were granted: a repeated call gets the same (`request_id`).
    pub(super) grants: HashMap<CallerId, Box<Grant>>,
    pub(super) releases: Vec<(CallerId, oneshot::Sender<Released>)>,
    /// The note of the latest break, until the loss that it is about is told (S17).
    pub(super) break_note: Option<BreakNote>,
}

/// Starts a task for `path`; the way to it.
pub(super) fn start(shared: &Arc<Shared>, path: &LockPath, memory: impl FnOnce(Inbox) -> Memory) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let inbox = Inbox(sender);
    let memory = memory(inbox.clone());
    let seed = Uuid::new_v4().as_u64_pair().0;
    let hold = Hold::new(shared.settings.hold, memory, seed, shared.clock.now());
    let task = Task {
        shared: Arc::clone(shared),
        path: path.clone(),
        inbox,
        hold,
        callers: HashMap::new(),
        grants: HashMap::new(),
        releases: Vec::new(),
        break_note: None,
    };
    tokio::spawn(Box::new(task).run(receiver));
}

impl Task {
    async fn run(mut self: Box<Self>, mut receiver: mpsc::UnboundedReceiver<Box<Command>>) {
        loop {
            let command = match self.sleep() {
                Some(sleep) => tokio::select! {
                    biased;
                    command = receiver.recv() => command,
                    () = tokio::time::sleep(sleep) => None,
                },
                None => receiver.recv().await,
            };
            self.step(command.map(|command| *command));
            if self.hold.is_idle(self.shared.clock.now()) && receiver.is_empty() {
                let mut registry = self.shared.registry();
                // Commands are sent under this lock: what is not here now will start a new task.
                if receiver.is_empty() {
                    let Self { path, hold, .. } = *self;
                    registry.retire(&path, hold.into_memory());
                    drop(registry);
                    return;
                }
            }
        }
    }

    /// How long until the machine wants to be called.
    fn sleep(&self) -> Option<Duration> {
        let wakeup = self.hold.next_wakeup()?;
        Some(wakeup.saturating_since(self.shared.clock.now()).min(LONGEST_SLEEP))
    }

    fn step(&mut self, command: Option<Command>) {
        match command {
            None => self.feed(Event::Wakeup),
            Some(Command::Answered(event)) => self.feed(event),
            Some(Command::Arrive(caller)) => {
                let (id, terms) = (caller.id, Arc::clone(&caller.terms));
                self.callers.insert(id, caller);
                self.feed(Event::CallerArrived { caller: id, terms });
            }
            Some(Command::Resume(caller, resume)) => {
                let id = caller.id;
                self.callers.insert(id, caller);
                self.feed(Event::ResumeAsked { caller: id, resume });
            }
            Some(Command::Leave(caller)) => self.leave(caller),
            Some(Command::FallSilent(caller)) => self.feed(Event::HolderSilent { caller }),
            Some(Command::Release(lease_id, caller, reply)) => {
                self.release(lease_id, caller, reply)
            }
            Some(Command::Extend(caller, max_hold, reply)) => {
                self.feed(Event::ExtendAsked { caller, max_hold });
                self.answer_validity(caller, reply);
            }
            Some(Command::ReportProgress(caller, validity_only, reply)) => {
                if !validity_only {
                    self.feed(Event::ProgressReported { caller });
                }
                self.answer_validity(caller, reply);
            }
            Some(Command::Look(reply)) => {
                let _ = reply.send(self.view());
            }
            Some(Command::Broken(note)) => self.broken(note),
            Some(Command::NoteBreak(note)) => self.break_note = Some(note),
            Some(Command::DrainStarted(ends)) => self.feed(Event::DrainStarted { ends }),
            Some(Command::DrainEnded) => self.feed(Event::DrainEnded),
        }
    }

    /// Tells the machine what happened, and does what it answers.
    fn feed(&mut self, event: Event) {
        if self.hold.needs_lease_id() {
            // S6: random, from the system, one for each acquisition.
            self.hold.supply(LeaseId::from_uuid(Uuid::new_v4()));
        }
        // The clock is read here, after every wait and before every decision (S3).
        for action in self.hold.on(event, self.shared.clock.now()) {
            if let Some(action) = calls::send(&self.shared, &self.path, &self.inbox, action) {
                self.tell(action);
            }
        }
    }

    fn leave(&mut self, id: CallerId) {
        self.feed(Event::CallerLeft { caller: id });
        if let Some(caller) = self.callers.remove(&id) {
            self.note_left(caller);
        }
    }

    fn release(&mut self, lease_id: LeaseId, id: CallerId, reply: oneshot::Sender<Released>) {
        let under_way = self.releases.iter().any(|(caller, _)| *caller == id);
        let holds = self.callers.get(&id).is_some_and(|caller| caller.lease_id == lease_id);
        if holds || under_way {
            self.releases.push((id, reply));
            if !under_way {
                self.feed(Event::ReleaseAsked { caller: id });
            }
            return;
        }
        let ended = self.shared.registry().ended(lease_id);
        let _ = reply.send(super::released_before(ended));
    }

    /// A lease was broken through this sidecar. Whose it was is known by the token that the record had: another's may
    /// have been broken, and the lock acquired here since.
    fn broken(&mut self, note: BreakNote) {
        let here = self.hold.holding().map(|holding| holding.token.epoch());
        if here.is_some() && here == note.token.map(FencingToken::epoch) {
            self.break_note = Some(note);
            self.feed(Event::LeaseBroken);
        }
    }

    fn answer_validity(
        &mut self,
        caller: CallerId,
        reply: oneshot::Sender<Result<Validity, CallError>>,
    ) {
        let lease_id = self.callers.get(&caller).map(|caller| caller.lease_id);
        let answer = match (self.hold.validity(caller), lease_id) {
            (Some(valid_until), Some(lease_id)) => {
                self.note_validity(lease_id, valid_until, None);
                Ok(self.shared.validity(valid_until))
            }
            (Some(_) | None, _) => Err(CallError::UnknownLease),
        };
        let _ = reply.send(answer);
    }

    pub(super) fn note_validity(
        &self,
        lease_id: LeaseId,
        valid_until: Instant,
        at_risk: Option<bool>,
    ) {
        if let Some(entry) = self.shared.registry().hold_mut(lease_id) {
            entry.valid_until = valid_until;
            entry.at_risk = at_risk.unwrap_or(entry.at_risk);
        }
    }

    fn view(&self) -> LocalView {
        let holding = self.hold.holding();
        LocalView {
            active: holding.as_ref().is_some_and(|holding| holding.active),
            resting: holding.as_ref().is_some_and(|holding| holding.resting_until.is_some()),
            waiters: self.hold.waiting(),
            record: holding.map(|holding| self.shared.record_of(&holding)),
        }
    }
}
