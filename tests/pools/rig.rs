//! Pools beside one store, moved by hand: what they send waits until it is answered, and what they tell is
//! looked at.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use leasehold::hold::{
    self, CallerId, Event, Failure, Granted, HolderCall, Memory, Settings, Terms,
};
use leasehold::lock::{LeaseId, Permit, Permits};
use leasehold::queue::{Action, Queue};
use leasehold::record::Record;
use leasehold::time::Instant;
use uuid::Uuid;

use crate::kit::store::failed;
use crate::pools::store::Store;

pub(crate) const ANN: CallerId = CallerId(1);
pub(crate) const BOB: CallerId = CallerId(2);
pub(crate) const CAT: CallerId = CallerId(3);
pub(crate) const DAN: CallerId = CallerId(4);

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A caller that waits for one of `permits`; with a lease of 15 s.
pub(crate) fn terms(permits: u32, wait: Duration) -> Terms {
    let record = Record {
        holder: "somebody".to_owned(),
        permits: (permits > 1).then(|| Permits::new(permits).unwrap()),
        ..Record::default()
    };
    Terms { record, ..Terms::plain(secs(15), wait) }
}

pub(crate) fn permit(number: u8) -> Permit {
    Permit::new(number).unwrap()
}

#[derive(Debug)]
pub(crate) struct Rig {
    pub(crate) pool: Queue,
    pub(crate) now: Duration,
    store: Rc<RefCell<Store>>,
    pub(crate) sent: VecDeque<(Permit, hold::Action)>,
    told: Vec<Action>,
    name: u64,
    supplied: u64,
    events: u32,
}

/// More than any test needs: a pool that is woken so often has come to no rest.
const MOST_EVENTS: u32 = 100_000;

impl Rig {
    pub(crate) fn new() -> Self {
        Self::beside(Rc::new(RefCell::new(Store::new())), 1)
    }

    /// Two sidecars of one store.
    pub(crate) fn pair() -> (Self, Self) {
        let store = Rc::new(RefCell::new(Store::new()));
        (Self::beside(Rc::clone(&store), 1), Self::beside(store, 2))
    }

    /// A sidecar of this name, and so with this seed.
    pub(crate) fn named(name: u64) -> Self {
        Self::beside(Rc::new(RefCell::new(Store::new())), name)
    }

    fn beside(store: Rc<RefCell<Store>>, name: u64) -> Self {
        let settings = Settings { poll_cap: secs(5), hand_off: secs(5) };
        let now = secs(1_000);
        let pool = Queue::new(settings, Memory::default(), name, Instant::from_boot(now));
        Self {
            pool,
            now,
            store,
            sent: VecDeque::new(),
            told: Vec::new(),
            name,
            supplied: 0,
            events: 0,
        }
    }

    pub(crate) fn at(&self) -> Instant {
        Instant::from_boot(self.now)
    }

    /// Requests that the store has had.
    pub(crate) fn requests(&self) -> usize {
        self.store.borrow().requests
    }

    pub(crate) fn is_leased(&self, permit: Permit) -> bool {
        self.store.borrow().is_leased(permit, self.now)
    }

    pub(crate) fn on(&mut self, permit: Permit, event: Event) {
        while self.pool.needs_lease_id() {
            self.supplied += 1;
            let id = Uuid::from_u64_pair(self.name, self.supplied);
            self.pool.supply(LeaseId::from_uuid(id));
        }
        self.events += 1;
        assert!(self.events < MOST_EVENTS, "the pool never rests");
        for action in self.pool.handle_event(permit, event, self.at()) {
            match action {
                Action::At { permit, action: action @ hold::Action::Store { .. } } => {
                    self.sent.push_back((permit, action));
                }
                told => self.told.push(told),
            }
        }
    }

    pub(crate) fn arrive(&mut self, caller: CallerId, terms: Terms) {
        self.on(Permit::FIRST, Event::CallerArrived { caller, terms: Arc::new(terms) });
    }

    pub(crate) fn leave(&mut self, caller: CallerId) {
        self.on(Permit::FIRST, Event::CallerLeft { caller });
    }

    pub(crate) fn release(&mut self, caller: CallerId) {
        self.on(Permit::FIRST, Event::Call { caller, generation: None, call: HolderCall::Release });
    }

    /// The store does the oldest request, and its answer arrives.
    pub(crate) fn serve_one(&mut self) {
        let (permit, action) = self.sent.pop_front().unwrap();
        let event = self.in_store(permit, &action);
        self.on(permit, event);
    }

    /// The store does `action`; its answer is on its way.
    pub(crate) fn in_store(&self, permit: Permit, action: &hold::Action) -> Event {
        let mut store = self.store.borrow_mut();
        let path = store.path(permit);
        store.apply(&path, action, self.now)
    }

    pub(crate) fn serve(&mut self) {
        while !self.sent.is_empty() {
            self.serve_one();
        }
    }

    pub(crate) fn fail(&mut self, failure: Failure) {
        let (permit, action) = self.sent.pop_front().unwrap();
        self.on(permit, failed(&action, failure).unwrap());
    }

    /// Lets time pass; what is sent meanwhile is answered at once.
    pub(crate) fn pass(&mut self, span: Duration) {
        self.serve();
        let end = self.now + span;
        while let Some(at) = self.pool.poll_timeout().filter(|at| at.since_boot() <= end) {
            self.now = self.now.max(at.since_boot());
            self.on(Permit::FIRST, Event::TimePassed);
            self.serve();
        }
        self.now = end;
        self.on(Permit::FIRST, Event::TimePassed);
        self.serve();
    }

    pub(crate) fn told(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.told)
    }

    /// The grant that `caller` was told, and its permit.
    pub(crate) fn granted(&mut self, caller: CallerId) -> (u8, Granted) {
        let told = self.told();
        let grant = told.iter().find_map(|action| match action {
            Action::At {
                permit,
                action: hold::Action::Tell { caller: whom, notice: hold::Notice::Granted(grant) },
            } if *whom == caller => Some((permit.number(), grant.clone())),
            _ => None,
        });
        grant.unwrap_or_else(|| panic!("{caller:?} was granted nothing: {told:?}"))
    }

    /// `caller` is granted one of `permits`; which.
    pub(crate) fn grant(&mut self, caller: CallerId, permits: u32) -> u8 {
        self.arrive(caller, terms(permits, secs(60)));
        self.serve();
        self.granted(caller).0
    }

    /// How many permits `caller` was told to be held.
    pub(crate) fn busy(&mut self, caller: CallerId) -> u8 {
        let told = self.told();
        let held = told.iter().find_map(|action| match action {
            Action::At {
                action: hold::Action::Tell { caller: whom, notice: hold::Notice::Busy(busy) },
                ..
            } if *whom == caller => Some(busy.held_permits),
            _ => None,
        });
        held.unwrap_or_else(|| panic!("{caller:?} was not told busy: {told:?}"))
    }
}
