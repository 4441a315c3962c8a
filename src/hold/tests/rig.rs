//! One sidecar's machine beside a store, moved by hand: what it sends waits until it is answered or lost, and
//! what it tells is looked at.

use std::cell::{Ref, RefCell, RefMut};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::deciding::{Brings, Outcome};
use super::table::{Table, failed};
pub(super) use super::told::{
    busy, is_busy, is_granted, loss, loss_detail, not_confirmed, released, revoked, saved,
    store_failure, text,
};
use crate::hold::{
    Action, CallerId, Event, Failure, Granted, HolderCall, Memory, NoteSeen, Notice, Request,
    Resume, SaveAsked, SaveId, Settings, StoreBounds, StoreFailure, StoreFailureKind, Terms,
    WriteOf,
};
use crate::lock::LeaseId;
use crate::queue::PlainLock;
use crate::record::{Checkpoint, CheckpointValue, Record};
use crate::time::Instant;

pub(super) const ANN: CallerId = CallerId(1);
pub(super) const BOB: CallerId = CallerId(2);
pub(super) const CAT: CallerId = CallerId(3);

pub(super) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Terms of a caller that waits for a minute, with a lease of 15 s.
pub(super) fn terms() -> Terms {
    let record = Record { holder: "somebody".to_owned(), ..Record::default() };
    Terms { record, ..Terms::plain(secs(15), secs(60)) }
}

pub(super) fn one_try() -> Terms {
    Terms { wait: Duration::ZERO, ..terms() }
}

pub(super) fn outage() -> Failure {
    Failure::Unknown(StoreFailure {
        kind: StoreFailureKind::Unavailable,
        message: "connection reset".to_owned(),
        retry_after: None,
    })
}

/// The store refuses it, so that asking again is of no use.
pub(super) fn refused(kind: StoreFailureKind) -> Failure {
    Failure::Refused(StoreFailure { kind, message: "no".to_owned(), retry_after: None })
}

/// A caller that comes.
pub(super) struct Arrival {
    pub(super) terms: Terms,
    pub(super) brings: Option<Brings>,
}

impl From<Terms> for Arrival {
    fn from(terms: Terms) -> Self {
        Self { terms, brings: None }
    }
}

#[derive(Debug)]
pub(super) struct Rig {
    pub(super) hold: PlainLock,
    pub(super) now: Duration,
    table: Rc<RefCell<Table>>,
    pub(super) sent: VecDeque<Action>,
    told: Vec<Action>,
    brings: BTreeMap<CallerId, Brings>,
    outcomes: BTreeMap<SaveId, Outcome>,
    /// What is decided waits here, if that takes its time.
    pub(super) slow: Option<Vec<Event>>,
    name: u64,
    supplied: u64,
    events: u32,
}

/// More than any test needs: a machine that is woken so often has come to no rest.
const MOST_EVENTS: u32 = 200_000;

/// The default ones.
const SETTINGS: Settings =
    Settings { poll_cap: Duration::from_secs(5), hand_off: Duration::from_secs(5) };

impl Rig {
    pub(super) fn new() -> Self {
        Self::beside(Rc::default(), 1)
    }

    /// Two sidecars of one store.
    pub(super) fn pair() -> (Self, Self) {
        let table = Rc::default();
        (Self::beside(Rc::clone(&table), 1), Self::beside(table, 2))
    }

    fn beside(table: Rc<RefCell<Table>>, name: u64) -> Self {
        let now = secs(1_000);
        let hold = PlainLock::new(SETTINGS, Memory::default(), name, Instant::from_boot(now));
        Self {
            hold,
            now,
            table,
            sent: VecDeque::new(),
            told: Vec::new(),
            brings: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            slow: None,
            name,
            supplied: 0,
            events: 0,
        }
    }

    /// The sidecar forgets the lock, which nobody wants there.
    pub(super) fn forget(&mut self) {
        let memory = Memory { is_forgotten: true, ..Memory::default() };
        self.hold = PlainLock::new(SETTINGS, memory, self.name, Instant::from_boot(self.now));
    }

    /// The sidecar keeps of the idle machine what is to be kept.
    pub(super) fn rest(&mut self) {
        assert!(self.hold.is_idle(), "nobody wants the lock");
        let memory = self.hold.clone().into_memory();
        self.hold = PlainLock::new(SETTINGS, memory, self.name, Instant::from_boot(self.now));
    }

    /// The sidecar starts again, knowing nothing.
    pub(super) fn restart(&mut self) {
        let Self { now, supplied, events, .. } = *self;
        let fresh = Self::beside(Rc::clone(&self.table), self.name);
        *self = Self { now, supplied, events, ..fresh };
    }

    pub(super) fn at(&self) -> Instant {
        Instant::from_boot(self.now)
    }

    pub(super) fn table(&self) -> Ref<'_, Table> {
        self.table.borrow()
    }

    pub(super) fn table_mut(&self) -> RefMut<'_, Table> {
        self.table.borrow_mut()
    }

    pub(super) fn record(&self) -> Record {
        Record::from_fields(self.table().fields())
    }

    pub(super) fn is_leased(&self) -> bool {
        self.table().leased(self.now).is_some()
    }

    pub(super) fn on(&mut self, event: Event) {
        while self.hold.needs_lease_id() {
            self.supplied += 1;
            let id = Uuid::from_u64_pair(self.name, self.supplied);
            self.hold.supply(LeaseId::from_uuid(id));
        }
        self.events += 1;
        assert!(self.events < MOST_EVENTS, "the machine never rests");
        for action in self.hold.handle_event(event, self.at()) {
            if let Action::Decide { of, found } = action {
                let verdict = match of {
                    WriteOf::Grant(caller) => self.brings[&caller].decide(&found),
                    WriteOf::Save(id) => self.outcomes[&id].decide(&found),
                };
                let decided = Event::Decided { of, verdict };
                match &mut self.slow {
                    Some(waiting) => waiting.push(decided),
                    None => self.on(decided),
                }
            } else if failed(&action, outage()).is_some() {
                self.sent.push_back(action);
            } else {
                self.told.push(action);
            }
        }
    }

    pub(super) fn arrive(&mut self, caller: CallerId, arrival: impl Into<Arrival>) {
        let Arrival { terms, brings } = arrival.into();
        self.brings.extend(brings.map(|brings| (caller, brings)));
        self.on(Event::CallerArrived { caller, terms: Arc::new(terms) });
    }

    pub(super) fn leave(&mut self, caller: CallerId) {
        self.on(Event::CallerLeft { caller });
    }

    pub(super) fn silent(&mut self, caller: CallerId) {
        self.on(Event::HolderDisconnected { caller });
    }

    /// `caller` saves `value`, by the call `id`.
    pub(super) fn save(&mut self, caller: CallerId, id: u64, value: &str) {
        let value = CheckpointValue::new(value.as_bytes()).unwrap();
        let save = SaveAsked { id: SaveId(id), value: Some(value), decides: false };
        self.on(Event::Call { caller, generation: None, call: HolderCall::Save(save) });
    }

    /// The same by a call that carries the generation of `grant` (S16).
    pub(super) fn save_of(&mut self, caller: CallerId, id: u64, grant: &Granted) {
        let value = CheckpointValue::new(b"saved").unwrap();
        let (save, generation) = (
            SaveAsked { id: SaveId(id), value: Some(value), decides: false },
            Some(grant.generation),
        );
        self.on(Event::Call { caller, generation, call: HolderCall::Save(save) });
    }

    /// `caller` records something, with a checkpoint or without one, by the call `id`.
    pub(super) fn record_outcome(
        &mut self,
        caller: CallerId,
        id: u64,
        (value, outcome): (Option<&str>, Outcome),
    ) {
        let value = value.map(|value| CheckpointValue::new(value.as_bytes()).unwrap());
        self.outcomes.insert(SaveId(id), outcome);
        let save = SaveAsked { id: SaveId(id), value, decides: true };
        self.on(Event::Call { caller, generation: None, call: HolderCall::Save(save) });
    }

    /// An operator breaks the lock elsewhere, so that its lease runs out: with the note that says so.
    pub(super) fn break_softly(&self, grant: &Granted) {
        let note = NoteSeen { token: Some(grant.token), runs_out: true, for_priority: None };
        self.table_mut().break_softly(Some(note));
    }

    /// The checkpoint in the store, as text, and its version.
    pub(super) fn checkpoint(&self) -> Option<(String, u64)> {
        let table = self.table();
        let field = |name: &str| table.fields().get(name).map(String::as_str);
        Checkpoint::from_lookup(field).map(|checkpoint| text(&checkpoint))
    }

    pub(super) fn release(&mut self, caller: CallerId) {
        self.on(Event::Call { caller, generation: None, call: HolderCall::Release });
    }

    /// `caller` releases the hold of `grant`, with its generation (S16).
    pub(super) fn release_of(&mut self, caller: CallerId, grant: &Granted) {
        let generation = Some(grant.generation);
        self.on(Event::Call { caller, generation, call: HolderCall::Release });
    }

    /// `caller` goes on with the hold of `grant`, in which it may believe for `believes`.
    pub(super) fn resume(
        &mut self,
        caller: CallerId,
        grant: &Granted,
        terms: Terms,
        believes: Duration,
    ) {
        let believed_until = self.at() + believes;
        let resume = Resume { terms: Arc::new(terms), believed_until, ..self.plain(grant) };
        self.on(Event::ResumeAsked { caller, resume: Box::new(resume) });
    }

    /// The store answers the read for those that want to resume, if it is next.
    pub(super) fn serve_comebacks(&mut self) {
        if matches!(self.sent.front(), Some(Action::Store { what: Request::Read, .. })) {
            let read = self.request();
            self.serve_one(&read);
        }
    }

    /// The same, by a try that can be repeated (S16).
    pub(super) fn resume_as(&mut self, caller: CallerId, grant: &Granted, attempt: &str) {
        let resume = Resume { attempt: attempt.to_owned(), ..self.plain(grant) };
        self.on(Event::ResumeAsked { caller, resume: Box::new(resume) });
    }

    /// The same by a client elsewhere, whose bounds go by the store's clock if they are given (S11).
    pub(super) fn resume_bounded(
        &mut self,
        caller: CallerId,
        grant: &Granted,
        terms: Terms,
        bounds: Option<StoreBounds>,
    ) {
        let resume = Resume { terms: Arc::new(terms), bounds, ..self.plain(grant) };
        self.on(Event::ResumeAsked { caller, resume: Box::new(resume) });
    }

    fn plain(&self, grant: &Granted) -> Resume {
        Resume {
            lease_ends: None,
            lease_id: grant.lease_id,
            token: grant.token,
            generation: grant.generation,
            attempt: String::new(),
            terms: Arc::new(terms()),
            believed_until: self.at() + secs(13),
            acquired_at: grant.acquired_at,
            bounds: None,
        }
    }

    /// The oldest request that was not answered yet.
    pub(super) fn request(&mut self) -> Action {
        self.sent.pop_front().expect("something was sent")
    }

    /// The store does `action`, and its answer arrives.
    pub(super) fn serve_one(&mut self, action: &Action) {
        let event = self.do_in_store(action);
        self.on(event);
    }

    /// The store does `action`; its answer is on its way.
    pub(super) fn do_in_store(&self, action: &Action) -> Event {
        self.table.borrow_mut().apply(action, self.now).expect("a request to the store")
    }

    /// The store does everything that is asked, at once.
    pub(super) fn serve(&mut self) {
        while let Some(action) = self.sent.pop_front() {
            self.serve_one(&action);
        }
    }

    /// The oldest request fails.
    pub(super) fn fail(&mut self, failure: Failure) {
        let action = self.request();
        self.on(failed(&action, failure).expect("a request to the store"));
    }

    /// Lets time pass; what is sent meanwhile stays unanswered.
    pub(super) fn pass(&mut self, span: Duration) {
        self.run(span, |_| {});
    }

    /// Lets time pass; what is sent meanwhile is answered at once.
    pub(super) fn pass_served(&mut self, span: Duration) {
        self.serve();
        self.run(span, Self::serve);
    }

    /// Lets time pass; what is sent meanwhile fails at once.
    pub(super) fn pass_failing(&mut self, span: Duration) {
        self.run(span, |rig| {
            while !rig.sent.is_empty() {
                rig.fail(outage());
            }
        });
    }

    /// The process stands still.
    pub(super) fn pause(&mut self, span: Duration) {
        self.now += span;
    }

    pub(super) fn run(&mut self, span: Duration, mut answer: impl FnMut(&mut Self)) {
        let end = self.now + span;
        while let Some(at) = self.hold.poll_timeout().filter(|at| at.since_boot() <= end) {
            self.now = self.now.max(at.since_boot());
            self.on(Event::TimePassed);
            answer(self);
        }
        self.now = end;
        self.on(Event::TimePassed);
        answer(self);
    }

    /// What was told since this was asked last.
    pub(super) fn told(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.told)
    }

    /// The grant that `caller` was told.
    pub(super) fn granted(&mut self, caller: CallerId) -> Granted {
        let told = self.told();
        let grant = told.iter().find_map(|action| match action {
            Action::Tell { caller: whom, notice: Notice::Granted(grant) } if *whom == caller => {
                Some(grant.clone())
            }
            _ => None,
        });
        grant.unwrap_or_else(|| panic!("{caller:?} was granted nothing: {told:?}"))
    }

    /// A rig where `caller` was just granted the lock on these terms.
    pub(super) fn with_holder(caller: CallerId, arrival: impl Into<Arrival>) -> (Self, Granted) {
        let mut rig = Self::new();
        let grant = rig.grant(caller, arrival);
        (rig, grant)
    }

    pub(super) fn grant(&mut self, caller: CallerId, arrival: impl Into<Arrival>) -> Granted {
        self.arrive(caller, arrival);
        self.serve();
        self.granted(caller)
    }
}
