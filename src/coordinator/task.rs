//! One task a lock path that has holders or waiters: events in, actions out, one timer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_channel::mpsc;
use futures_util::StreamExt as _;
use tokio::sync::oneshot;

use super::caller::Caller;
use super::error::CallError;
use super::repeats::{Departure, Repeatable};
use super::request::{Extended, HeldLock, LocalView, Released, Validity};
use super::saves::{SaveCall, Saves};
use super::{Shared, calls, failing};
use crate::hold::{CallerId, Event, Hold, Memory, StoreFailure, StoreFailureKind};
use crate::lock::{LeaseId, LockPath};
use crate::store::{BreakNote, BreakPeriod};
use crate::time::Instant;

/// A sleep is never longer than this while a lease is held: the machine's timers stop while it sleeps (S3).
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// The way to a path's task. There is one for each lock, so an idle one is small: commands are boxed, and the channel
/// is one without blocks of free places.
#[derive(Clone, Debug)]
pub(super) struct Inbox(Arc<mpsc::UnboundedSender<Box<Command>>>);

/// What came in.
pub(super) type Commands = mpsc::UnboundedReceiver<Box<Command>>;

impl Inbox {
    /// A task that has ended ignores the command.
    pub(super) fn send(&self, command: Command) {
        let _ = self.0.unbounded_send(Box::new(command));
    }
}

/// What a path's task is told.
#[derive(Debug)]
pub(super) enum Command {
    Arrive(Box<Caller>),
    Resume(Box<Caller>, Box<crate::hold::Resume>),
    Leave(CallerId),
    Disconnected(CallerId),
    /// A repeatable call has its answer.
    Confirm(CallerId),
    Release(HoldCall, Option<SaveCall>, oneshot::Sender<Released>),
    Save(HoldCall, SaveCall, oneshot::Sender<Result<Validity, CallError>>),
    Extend(HoldCall, Duration, oneshot::Sender<Result<Extended, CallError>>),
    ReportProgress(HoldCall, oneshot::Sender<Result<Validity, CallError>>),
    GetHold(HoldCall, oneshot::Sender<Result<HeldLock, CallError>>),
    /// A pause is suspected that the clock did not count (S3).
    SuspectPause,
    Look(oneshot::Sender<LocalView>),
    Answered(Box<Event>),
    /// The lock was broken through this sidecar, with this note.
    Broken(BreakNote),
    /// The note of a break that a renewal has met.
    NoteBreak(BreakNote),
    DrainStarted(Instant),
    DrainEnded,
    HandOverStarted(Instant),
}

/// Whose hold a call is about, and the generation that its caller was answered with (S16).
#[derive(Clone, Copy, Debug)]
pub(super) struct HoldCall {
    pub(super) lease_id: LeaseId,
    pub(super) generation: Option<u64>,
}

/// The state around one machine.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) shared: Arc<Shared>,
    pub(super) path: LockPath,
    pub(super) inbox: Inbox,
    pub(super) hold: Hold,
    /// Boxed: a table has room for four, and one is usual.
    pub(super) callers: HashMap<CallerId, Box<Caller>>,
    /// What unary callers were granted: a repeated call gets the same (`request_id`).
    pub(super) grants: Repeatable,
    pub(super) releases: Vec<(CallerId, oneshot::Sender<Released>)>,
    pub(super) saves: Saves,
    /// Requests to the store whose answers are to come.
    pub(super) in_flight: usize,
    /// The note of the latest break, until the loss that it is about is told (S17).
    pub(super) break_note: Option<BreakNote>,
}

/// Starts a task for `path`; the way to it.
pub(super) fn start(shared: &Arc<Shared>, path: &LockPath, memory: impl FnOnce(Inbox) -> Memory) {
    let (sender, commands) = mpsc::unbounded();
    let inbox = Inbox(Arc::new(sender));
    let memory = memory(inbox.clone());
    let seed = shared.entropy.seed();
    let hold = Hold::new(shared.settings.hold, memory, seed, shared.clock.now());
    let task = Task {
        shared: Arc::clone(shared),
        path: path.clone(),
        inbox,
        hold,
        callers: HashMap::new(),
        grants: Repeatable::default(),
        releases: Vec::new(),
        saves: Saves::default(),
        in_flight: 0,
        break_note: None,
    };
    tokio::spawn(failing::run(Box::new(task), commands));
}

impl Task {
    /// Lives until nothing is to be done for its path any more.
    pub(super) async fn run(&mut self, commands: &mut Commands) {
        loop {
            let command = match self.sleep() {
                Some(sleep) => tokio::select! {
                    biased;
                    command = commands.next() => command,
                    () = tokio::time::sleep(sleep) => None,
                },
                None => commands.next().await,
            };
            self.step(command.map(|command| *command));
            if self.hold.is_idle() && self.retire() {
                return;
            }
        }
    }

    /// Takes the task out of the registry, unless something is to come yet: an answer to a request that is under way
    /// may be a lease that nobody wants (S6).
    fn retire(&self) -> bool {
        if self.in_flight > 0 {
            return false;
        }
        let mut registry = self.shared.registry();
        // Commands are sent under this lock: what is not here now will start a new task.
        let retires = self.inbox.0.is_empty();
        if retires {
            debug_assert!(self.callers.is_empty(), "a caller was forgotten: {:?}", self.callers);
            debug_assert!(self.releases.is_empty(), "a release was not answered");
            registry.retire(&self.path, self.hold.clone().into_memory());
        }
        retires
    }

    /// How long until the machine wants to be called.
    fn sleep(&self) -> Option<Duration> {
        if self.hold.is_idle() {
            // Only a request that is under way keeps this task.
            return Some(LONGEST_SLEEP);
        }
        let wakeup = self.hold.poll_timeout()?;
        Some(wakeup.saturating_since(self.shared.clock.now()).min(LONGEST_SLEEP))
    }

    fn step(&mut self, command: Option<Command>) {
        match command {
            None => self.feed(Event::TimePassed),
            Some(Command::Answered(event)) => {
                self.in_flight = self.in_flight.saturating_sub(1);
                self.feed(*event);
            }
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
            Some(Command::Disconnected(caller)) => self.disconnected(caller),
            Some(Command::Confirm(caller)) => self.grants.confirm(caller),
            Some(Command::Release(call, save, reply)) => self.release(call, save, reply),
            Some(Command::Save(call, save, reply)) => {
                let _ = reply.send(self.save(call, save));
            }
            Some(Command::Extend(call, max_hold, reply)) => {
                let generation = call.generation;
                let asked = |caller| Event::ExtendAsked { caller, generation, max_hold };
                let validity = self.ask(call, asked);
                let _ = reply.send(validity.map(|validity| self.extended(call.lease_id, validity)));
            }
            Some(Command::ReportProgress(call, reply)) => {
                let generation = call.generation;
                let asked = |caller| Event::ProgressReported { caller, generation };
                let _ = reply.send(self.ask(call, asked));
            }
            Some(Command::GetHold(call, reply)) => {
                let _ = reply.send(self.held(call));
            }
            Some(Command::SuspectPause) => self.feed(Event::PauseSuspected),
            Some(Command::Look(reply)) => {
                self.feed(Event::TimePassed);
                let _ = reply.send(self.view());
            }
            Some(Command::Broken(note)) => self.broken(note),
            Some(Command::NoteBreak(note)) => self.break_note = Some(note),
            Some(Command::DrainStarted(ends)) => self.feed(Event::DrainStarted { ends }),
            Some(Command::DrainEnded) => self.feed(Event::DrainEnded),
            Some(Command::HandOverStarted(ends)) => self.feed(Event::HandOverStarted { ends }),
        }
    }

    /// Tells the machine what happened, and does what it answers.
    pub(super) fn feed(&mut self, event: Event) {
        if self.hold.needs_lease_id() {
            self.hold.supply(self.shared.entropy.lease_id());
        }
        // The clock is read here, after every wait and before every decision (S3).
        for action in self.hold.handle_event(event, self.shared.clock.now()) {
            let valid_until = self.hold.holding().map(|holding| holding.valid_until);
            match calls::send(&self.shared, &self.path, &self.inbox, valid_until, action) {
                Some(action) => self.tell(action),
                None => self.in_flight += 1,
            }
        }
        self.shared.look_for_pauses();
    }

    fn leave(&mut self, id: CallerId) {
        let id = match self.grants.leave(id) {
            Departure::Alone => id,
            Departure::Last(holder) => holder,
            Departure::OneOfMany => return,
        };
        self.feed(Event::CallerLeft { caller: id });
        // The outcome for a holder is told when it is known (S13).
        let waited = self.callers.get(&id).is_some_and(|caller| caller.granted.is_none());
        if waited && let Some(caller) = self.callers.remove(&id) {
            self.note_left(*caller);
        }
    }

    /// A lease was broken through this sidecar. Whose it was is known by the token that the record had: another's may
    /// have been broken, and the lock acquired here since.
    fn broken(&mut self, note: BreakNote) {
        let here = self.hold.holding().map(|holding| holding.token);
        if note.is_about(here) {
            let ends_now = note.period == BreakPeriod::Now;
            self.break_note = Some(note);
            self.feed(Event::LeaseBroken { ends_now });
        }
    }

    /// The stream of a caller ended without a word: a holder may come back, a waiting caller is gone (S14).
    fn disconnected(&mut self, id: CallerId) {
        self.feed(Event::HolderDisconnected { caller: id });
        if self.callers.get(&id).is_some_and(|caller| caller.granted.is_none())
            && let Some(caller) = self.callers.remove(&id)
        {
            self.note_left(*caller);
        }
    }

    /// Whose hold this is now: a resume may have taken it over since it was looked up.
    pub(super) fn holder(&self, lease_id: LeaseId) -> Option<CallerId> {
        self.shared.registry().hold(lease_id).map(|entry| entry.caller)
    }

    fn release(
        &mut self,
        call: HoldCall,
        save: Option<SaveCall>,
        reply: oneshot::Sender<Released>,
    ) {
        let HoldCall { lease_id, generation } = call;
        let Some(caller) = self.holder(lease_id) else {
            // S16: one that has gone on elsewhere is as if it was never here: dropping the reply says so.
            if let Some(ended) = self.shared.registry().ended(lease_id, generation) {
                let _ = reply.send(super::released_before(ended));
            }
            return;
        };
        let under_way = self.is_releasing(caller);
        self.releases.push((caller, reply));
        // S26: the save first. Where a release has passed its save, dropping the reply says so.
        if let Some(save) = save
            && (!under_way || self.hold.is_saving_last())
        {
            self.save_of(caller, generation, save);
        }
        if !under_way {
            self.feed(Event::ReleaseAsked { caller, generation });
        }
    }

    fn is_releasing(&self, caller: CallerId) -> bool {
        self.releases.iter().any(|(releasing, _)| *releasing == caller)
    }

    /// Asks something of a hold; its validity then.
    pub(super) fn ask(
        &mut self,
        call: HoldCall,
        asked: impl FnOnce(CallerId) -> Event,
    ) -> Result<Validity, CallError> {
        if let Some(caller) = self.holder(call.lease_id) {
            self.feed(asked(caller));
        }
        self.validity(call)
    }

    /// The answer to an extension: the newest resume token has the new bound (S16).
    fn extended(&self, lease_id: LeaseId, validity: Validity) -> Extended {
        let caller = self.holder(lease_id).and_then(|caller| self.callers.get(&caller));
        let resume_token = caller.map(|caller| self.resume_token(caller)).unwrap_or_default();
        let max_hold_ends = caller.and_then(|caller| self.max_hold_ends(caller));
        Extended { validity, resume_token, max_hold_ends }
    }

    pub(super) fn validity(
        &self,
        HoldCall { lease_id, generation }: HoldCall,
    ) -> Result<Validity, CallError> {
        let Some(caller) = self.holder(lease_id) else {
            return Err(self.shared.registry().why_over(lease_id, generation));
        };
        if let Some(valid_until) = self.hold.validity(caller) {
            self.note_validity(lease_id, valid_until, None);
            return Ok(self.shared.validity(valid_until));
        }
        if self.is_releasing(caller) {
            return Err(CallError::HoldReleased);
        }
        Err(CallError::StoreFailure(StoreFailure {
            kind: StoreFailureKind::Unavailable,
            message: "the hold's stream broke, so it is not renewed: resume it first".to_owned(),
            retry_after: None,
        }))
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
}
