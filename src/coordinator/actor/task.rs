//! One task a lock that has holders or waiters, with all of its permits: events in, actions out, one timer.
//!
//! A fault inside one path's task, or in a request that it polls, ends the holds of its path and harms no
//! other ([`run_to_end`]).

use std::collections::{BTreeMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use super::arriving::{AllBrought, Brings};
use super::caller::{Caller, Departure, GrantsByRequest};
use super::holder::{SaveCall, Saves};
use super::inbox::{Commands, Inbox, Input, Requests};
use super::shared::{Registry, Shared};
use super::timers::Timer;
use super::view::LocalView;
use crate::coordinator::call::{
    CallError, Extended, HeldEvent, HeldLock, HoldEvent, Released, Validity,
};
use crate::coordinator::observe::{AcquireResult, EndFacts, HoldEnd, LockEvent, LockEventKind};
use crate::coordinator::store_io::calls::{Answered, Ask};
use crate::coordinator::store_io::rate_limit::{Lease, Renewing};
use crate::hold::{
    self, CallerId, Event, Hold, HolderCall, LossReason, Memory, Purpose, StoreFailureKind,
};
use crate::lock::{FencingToken, LeaseId, LockPath, Permit};
use crate::queue::{Action, Queue};
use crate::store::{BreakNote, BreakPeriod};
use crate::time::Instant;
use futures_util::FutureExt as _;
use tokio::sync::oneshot;

/// What a lock's task is told; a permit is the one that it is about (S28).
#[derive(Debug)]
pub(in crate::coordinator) enum Command {
    Arrive(Box<Caller>, Option<Brings>),
    Resume(Box<Caller>, Box<hold::Resume>, Option<Brings>),
    Leave(CallerId),
    Disconnected(CallerId),
    /// A repeatable call has its answer.
    Confirm(CallerId),
    Release(HoldCall, Option<SaveCall>, oneshot::Sender<Released>),
    Save(HoldCall, SaveCall, oneshot::Sender<Result<Validity, CallError>>),
    Extend(HoldCall, Duration, oneshot::Sender<Result<Extended, CallError>>),
    ReportProgress(HoldCall, oneshot::Sender<Result<Validity, CallError>>),
    GetHold(HoldCall, oneshot::Sender<Result<HeldLock, CallError>>),
    /// The timer that was set for this moment has come to it; a look at the clocks in between names another.
    TimePassed(Instant),
    Look(Permit, oneshot::Sender<LocalView>),
    /// An operator begins to break the permit through this sidecar.
    BreakBegun(Permit),
    /// The permit was broken through this sidecar, with this note.
    Broken(Permit, BreakNote),
    /// What the machines are to know as it is.
    Happened(Permit, Box<Event>),
}

/// Whose hold a call is about, and the generation that its caller was answered with (S16).
#[derive(Clone, Copy, Debug)]
pub(in crate::coordinator) struct HoldCall {
    pub(in crate::coordinator) lease_id: LeaseId,
    pub(in crate::coordinator) generation: Option<u64>,
}

/// The state around one lock's machines.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) shared: Arc<Shared>,
    /// The lock's own path, which is that of permit 0.
    pub(super) path: LockPath,
    pub(super) inbox: Inbox,
    timer: Timer,
    /// How many suspected pauses the machines were told of (S3).
    suspected: u64,
    pub(super) queue: Queue,
    pub(super) callers: BTreeMap<CallerId, Box<Caller>>,
    /// Requests to the store whose answers are to come.
    pub(super) requests: Requests,
    /// What the leases that are held here need of the budget of requests.
    renewing: Renewing,
    /// What most holds never have, once there is any of it.
    pub(super) aside: Option<Box<Aside>>,
}

/// What only some of the calls about a lock need.
#[derive(Debug, Default)]
pub(in crate::coordinator) struct Aside {
    /// What unary callers were granted: a repeated call gets the same (`request_id`).
    pub(super) grants: GrantsByRequest,
    pub(super) releases: Vec<(CallerId, oneshot::Sender<Released>)>,
    pub(super) saves: Saves,
    pub(super) brought: AllBrought,
    /// The tokens that callers were to be granted their occurrences with, and were not (T6).
    pub(super) ungranted: Vec<FencingToken>,
    /// The note of each permit's latest break, until the loss that it is about is told (S17).
    pub(super) break_notes: BTreeMap<Permit, BreakNote>,
    /// The token of each permit's grant whose lease was broken through this sidecar last: known before its
    /// holder is told.
    pub(super) broken_here: BTreeMap<Permit, FencingToken>,
}

/// Sends `command` to the path's task, which is started if there is none.
pub(in crate::coordinator) fn deliver(
    shared: &Arc<Shared>,
    registry: &mut Registry,
    path: &LockPath,
    command: Command,
) {
    let Err(command) = registry.send(path, command) else { return };
    let (inbox, commands) = Inbox::new();
    inbox.send(command);
    let memory = registry.add_task(path.clone(), inbox.clone());
    let seed = shared.entropy.seed();
    let queue = Queue::new(Arc::clone(&shared.machines), memory, seed, shared.clock.now());
    let task = Task {
        shared: Arc::clone(shared),
        path: path.clone(),
        inbox,
        timer: shared.timers.timer(),
        suspected: shared.clock.suspicions().raised(),
        queue,
        callers: BTreeMap::new(),
        requests: Requests::default(),
        renewing: Renewing::new(shared.io.limiter.clone()),
        aside: None,
    };
    tokio::spawn(run_to_end(Box::new(task), commands));
}

impl Task {
    /// Lives until nothing is to be done for its path any more.
    pub(super) async fn run(&mut self, commands: &mut Commands) {
        loop {
            match self.requests.next_input(commands).await {
                Input::Command(command) => self.step(command),
                Input::Answer(permit, answer) => self.answered(permit, answer),
            }
            self.set_timer(self.queue.poll_timeout());
            self.note_needs();
            if self.queue.is_idle() && self.retire() {
                return;
            }
        }
    }

    pub(super) fn aside(&mut self) -> &mut Aside {
        self.aside.get_or_insert_default()
    }

    /// The note of a permit's latest break.
    pub(super) fn break_note(&self, permit: Permit) -> Option<&BreakNote> {
        self.aside.as_ref()?.break_notes.get(&permit)
    }

    /// When this task is to be called if nothing comes in before.
    fn set_timer(&mut self, deadline: Option<Instant>) {
        self.shared.timers.set(&mut self.timer, deadline, &self.inbox);
    }

    /// Lets the budget of requests know which leases are renewed here (S7).
    fn note_needs(&mut self) {
        let Self { renewing, queue, .. } = self;
        renewing.set(|| {
            let leases = queue.renewed_leases();
            leases.map(|(valid_until, lease_duration)| Lease { valid_until, lease_duration })
        });
    }

    /// Takes the task out of the registry, unless something is to come yet: an answer to a request that is
    /// under way may be a lease that nobody wants (S6).
    fn retire(&self) -> bool {
        if !self.requests.is_empty() {
            return false;
        }
        let mut registry = self.shared.registry();
        // Commands are sent under this lock: what is not here now will start a new task.
        let retires = self.inbox.is_empty();
        if retires {
            debug_assert!(self.callers.is_empty(), "a caller was forgotten: {:?}", self.callers);
            let aside = self.aside.as_ref();
            let answered = aside.is_none_or(|aside| aside.releases.is_empty());
            debug_assert!(answered, "a release was not answered");
            let memories = self.queue.clone().into_memories().into_iter();
            let memories = memories.map(|(permit, kept)| (self.path_of(permit), kept));
            let forgotten = registry.retire(&self.path, memories, self.shared.clock.now());
            drop(registry);
            self.shared.observe_forgotten(forgotten);
        }
        retires
    }

    fn step(&mut self, command: Command) {
        match command {
            Command::TimePassed(deadline) => {
                self.timer.called(deadline);
                self.feed(Event::TimePassed);
            }
            Command::Arrive(caller, brings) => {
                let terms = Arc::clone(&caller.terms);
                self.recall(terms.permits().each());
                let caller = self.enter(caller, brings);
                self.feed(Event::CallerArrived { caller, terms });
            }
            Command::Resume(caller, resume, brings) => {
                let permit = caller.permit;
                self.recall(std::iter::once(permit));
                let caller = self.enter(caller, brings);
                self.feed_at(permit, Event::ResumeAsked { caller, resume });
            }
            Command::Leave(caller) => self.leave(caller),
            Command::Disconnected(caller) => self.disconnected(caller),
            Command::Confirm(caller) => self.aside().grants.confirm(caller),
            Command::Release(call, save, reply) => self.release(call, save, reply),
            Command::Save(call, save, reply) => {
                let _ = reply.send(self.save(call, save));
            }
            Command::Extend(call, max_hold, reply) => {
                let _ = reply.send(self.extend(call, max_hold));
            }
            Command::ReportProgress(call, reply) => {
                let _ = reply.send(self.ask(call, HolderCall::Progress));
            }
            Command::GetHold(call, reply) => {
                let _ = reply.send(self.held(call));
            }
            Command::Look(permit, reply) => {
                self.feed(Event::TimePassed);
                let _ = reply.send(self.view(permit));
            }
            Command::BreakBegun(permit) => {
                self.recall(std::iter::once(permit));
                self.feed_at(permit, Event::BreakBegun);
            }
            Command::Broken(permit, note) => self.broken(permit, note),
            Command::Happened(permit, event) => self.feed_at(permit, *event),
        }
    }

    /// Brings back what is remembered of permits that are new here.
    fn recall(&mut self, permits: impl Iterator<Item = Permit>) {
        for permit in permits.filter(|permit| self.queue.is_new(*permit)).collect::<Vec<_>>() {
            let memory = self.shared.registry().lock_cache.take(&self.path_of(permit));
            self.queue.remember(permit, memory);
        }
    }

    /// The store has answered a request; the note of a break is known before the loss that it explains (S17).
    fn answered(&mut self, permit: Permit, Answered { event, note, next }: Answered) {
        let freed = note.as_ref().and_then(freed_by);
        if let Some(note) = note {
            self.aside().break_notes.insert(permit, note);
        }
        self.feed_at(permit, event);
        self.free(permit, freed);
        if let Some(next) = next {
            self.requests.add(permit, None, next);
        }
    }

    /// S13: nobody waits for the former holder of the grant that an operator has ended at once.
    fn free(&mut self, permit: Permit, grant: Option<FencingToken>) {
        if let Some(token) = grant {
            self.feed_at(permit, Event::LockFreed { token });
        }
    }

    /// Tells the machines what happened that is not about one permit only, and does what they answer.
    pub(super) fn feed(&mut self, event: Event) {
        self.feed_at(Permit::FIRST, event);
    }

    /// Tells the machines what happened at `permit`, and does what they answer. The clocks are looked at
    /// first: after a pause that ours did not count, this may be the very event that would hand the lock on
    /// (S3).
    ///
    /// What a machine asks to have decided is its next event. Thousands of saves may wait for one write, so
    /// one is decided after the other, and not within the other.
    pub(in crate::coordinator) fn feed_at(&mut self, permit: Permit, event: Event) {
        let mut first = Some((permit, event));
        // Nearly no event needs another one to follow it, and then nothing is allocated.
        let mut following = VecDeque::new();
        while let Some((permit, event)) = first.take().or_else(|| following.pop_front()) {
            let suspected = self.shared.look_for_pauses();
            if std::mem::replace(&mut self.suspected, suspected) < suspected {
                following.push_front((permit, event));
                for decided in self.handle(Permit::FIRST, Event::PauseSuspected).into_iter().rev() {
                    following.push_front(decided);
                }
                continue;
            }
            following.extend(self.handle(permit, event));
        }
    }

    /// What the machines have asked to have decided: their next events.
    fn handle(&mut self, permit: Permit, event: Event) -> Vec<(Permit, Event)> {
        while self.queue.needs_lease_id() {
            self.queue.supply(self.shared.entropy.lease_id());
        }
        let share = self.enter_share(&event);
        let has_turn = matches!(event, Event::RenewTurnCame);
        // The clock is read here, after every wait and before every decision (S3).
        let actions = self.queue.handle_event(permit, event, self.shared.clock.now());
        self.trace_hand_offs(&actions);
        let mut decided = Vec::new();
        for action in actions {
            let (permit, action) = match action {
                Action::At { permit, action } => (permit, action),
                Action::ReportPermitsDiffer { others, ours } => {
                    self.report_permits(others, ours);
                    continue;
                }
            };
            match action {
                hold::Action::Store { request, what, timeout } => {
                    let machine = self.queue.machine(permit);
                    let purpose = machine.map_or(Purpose::Other, |it| it.purpose(request));
                    let (io, path) = (Arc::clone(&self.shared.io), self.path_of(permit));
                    self.send(permit, Ask { io, request, path, purpose, has_turn, timeout }, what);
                }
                hold::Action::Decide { of, found } => {
                    let verdict = self.decide(of, &found);
                    decided.push((permit, Event::Decided { of, verdict }));
                }
                hold::Action::Tell { caller, notice } => self.tell(permit, caller, notice),
                hold::Action::Saved { id, outcome } => self.tell_saved(permit, id, outcome),
                hold::Action::Report(remark) => self.report(permit, &remark),
            }
        }
        self.leave_share(share);
        decided
    }

    fn send(&mut self, permit: Permit, ask: Ask, what: hold::Request) {
        if matches!(&what, hold::Request::Break { rival, .. } if rival.moves) {
            self.note_move();
        }
        let request = ask.send(what);
        self.requests.add(permit, self.served(permit), request);
    }

    fn leave(&mut self, id: CallerId) {
        let departure = self.aside.as_mut().map(|aside| aside.grants.leave(id));
        let id = match departure.unwrap_or(Departure::Alone) {
            Departure::Alone => id,
            Departure::Last(holder) => holder,
            Departure::OneOfMany => return,
        };
        self.feed(Event::CallerLeft { caller: id });
        self.note_left(id);
    }

    /// A lease was broken through this sidecar. Whose it was is known by the token that the record had:
    /// another's may have been broken, and the lock acquired here since.
    fn broken(&mut self, permit: Permit, note: BreakNote) {
        let here = self.holding(permit).map(|holding| holding.token);
        if note.is_about(here) {
            let (ends_now, freed) = (note.period == BreakPeriod::Now, freed_by(&note));
            let aside = self.aside();
            aside.break_notes.insert(permit, note);
            aside.broken_here.extend(here.map(|token| (permit, token)));
            self.feed_at(permit, Event::LeaseBroken { ends_now });
            self.free(permit, freed);
        }
    }

    /// The stream of a caller ended without a word: a holder may come back, a waiting caller is gone (S14).
    fn disconnected(&mut self, id: CallerId) {
        self.feed(Event::HolderDisconnected { caller: id });
        self.note_left(id);
    }

    /// Whose hold this is now: a resume may have taken it over since it was looked up.
    pub(super) fn holder(&self, lease_id: LeaseId) -> Option<CallerId> {
        self.shared.registry().holds.get(&lease_id).map(|entry| entry.caller)
    }

    fn release(
        &mut self,
        call: HoldCall,
        save: Option<SaveCall>,
        reply: oneshot::Sender<Released>,
    ) {
        let generation = call.generation;
        let Some(caller) = self.holder(call.lease_id) else {
            let registry = self.shared.registry();
            registry.loss_is_known(call);
            // S16: one that has gone on elsewhere is as if it was never here: dropping the reply says so.
            if let Some(end) = registry.ended(call) {
                let _ = reply.send(end.released_before());
            }
            return;
        };
        let under_way = self.is_releasing(caller);
        self.aside().releases.push((caller, reply));
        // S26: the save first. Where a release has passed its save, dropping the reply says so.
        if let Some(save) = save
            && (!under_way || self.is_saving_last(caller))
        {
            self.save_of(caller, generation, save);
        }
        if !under_way {
            self.feed(Event::Call { caller, generation, call: HolderCall::Release });
        }
    }

    /// Whether the caller's hold has ended and its last checkpoint is still on its way (S26).
    fn is_saving_last(&self, caller: CallerId) -> bool {
        let permit = self.callers.get(&caller).map(|caller| caller.permit);
        permit.and_then(|permit| self.queue.machine(permit)).is_some_and(Hold::is_saving_last)
    }

    pub(super) fn is_releasing(&self, caller: CallerId) -> bool {
        let mut releases = self.aside.iter().flat_map(|aside| &aside.releases);
        releases.any(|(releasing, _)| *releasing == caller)
    }
}

/// The grant whose lock is free here too by this note of a break, once its lease is gone (S13, S17).
fn freed_by(note: &BreakNote) -> Option<FencingToken> {
    note.token.filter(|_| note.period == BreakPeriod::Now)
}

/// What callers are told; the fault itself is in the log.
const DETAIL: &str = "an internal error of the sidecar ended this hold; its lease expires";

/// Runs `task` to its end. A panic ends its holds as lost and its waits as failed.
async fn run_to_end(mut task: Box<Task>, mut commands: Commands) {
    let running = AssertUnwindSafe(task.run(&mut commands));
    if running.catch_unwind().await.is_err() {
        task.give_up(commands);
    }
}

impl Task {
    /// Leaves nothing behind. The lease is left to expire, since nobody renews it any more (S13). What may
    /// panic again comes last.
    fn give_up(mut self: Box<Self>, mut commands: Commands) {
        self.set_timer(None);
        let shared = Arc::clone(&self.shared);
        // S6: nor does this cut what is under way.
        std::mem::take(&mut self.requests).finish_alone();
        shared.shares.forget(&self.path);
        let mut registry = shared.registry();
        while let Some(command) = commands.try_next() {
            if let Command::Arrive(caller, _) | Command::Resume(caller, ..) = command {
                self.callers.insert(caller.id, caller);
            }
        }
        let mut memories: BTreeMap<Permit, Memory> = BTreeMap::new();
        for (permit, token) in self.queue.highest() {
            let memory = memories.entry(permit).or_default();
            memory.highest = Some(token);
            // S17: which breaks were under way is lost with the task.
            memory.may_break_arrive = true;
        }
        let mut ended = Vec::new();
        let now = shared.clock.now();
        for mut caller in std::mem::take(&mut self.callers).into_values() {
            caller.wait = None;
            let Some(granted) = caller.granted else {
                let kind = StoreFailureKind::Unavailable;
                let result = AcquireResult::Failed(kind);
                let waited = now.saturating_since(caller.arrived);
                caller.sink.end(Err(CallError::failed(kind, DETAIL)));
                ended.push((caller, LockEventKind::NotGranted { result, waited, busy: None }));
                continue;
            };
            let reason = LossReason::Expired;
            let memory = memories.entry(caller.permit).or_default();
            if let Some(entry) = registry.holds.get(&caller.lease_id) {
                memory.believe(entry.valid_until);
            }
            registry.end_hold(caller.lease_id, caller.id, HoldEnd::Lost(reason));
            registry.watchers.changed(&self.path.permit(caller.permit));
            let lost = HoldEvent::Held(HeldEvent::Lost {
                reason,
                detail: DETAIL.to_owned(),
                break_note: None,
            });
            caller.sink.event(lost);
            let facts = EndFacts {
                end: HoldEnd::Lost(reason),
                held: Some(now.saturating_since(granted)),
                waited: now.saturating_since(caller.arrived),
                detail: DETAIL,
                is_run: caller.is_run,
            };
            ended.push((caller, LockEventKind::Ended(facts)));
        }
        let memories = memories.into_iter();
        let memories = memories.map(|(permit, memory)| (self.path_of(permit), memory));
        let forgotten = registry.retire(&self.path, memories, now);
        drop(registry);
        shared.observe_forgotten(forgotten);
        shared.observe(&LockEvent::of(&self.path, LockEventKind::TaskFailed));
        for (caller, kind) in &ended {
            shared.observe_caller(&self.path.permit(caller.permit), caller, *kind);
        }
    }
}
