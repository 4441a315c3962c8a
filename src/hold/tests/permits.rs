//! Callers of several permits, of which another sidecar has the first all the time (S28 to S32).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::rig::{ANN, BOB, CAT, secs, terms};
use super::table::{Table, failed};
use crate::hold::{
    self, CallerId, Event, Failure, HolderCall, Memory, Notice, Settings, StoreFailure,
    StoreFailureKind, Terms,
};
use crate::lock::{LeaseId, Permit, Permits};
use crate::queue::{Action, Queue};
use crate::record::Record;
use crate::time::Instant;

const DAN: CallerId = CallerId(4);

#[derive(Debug)]
struct World {
    queue: Queue,
    now: Duration,
    tables: [Table; 2],
    sent: VecDeque<(Permit, hold::Action)>,
    told: Vec<(Duration, hold::Action)>,
    supplied: u64,
}

impl World {
    fn new(name: u64) -> Self {
        let settings = Settings { poll_cap: secs(5), hand_off: secs(5) };
        let now = secs(1_000);
        let queue = Queue::new(settings, Memory::default(), name, Instant::from_boot(now));
        let tables = [Table::default(), Table::default()];
        Self { queue, now, tables, sent: VecDeque::new(), told: vec![], supplied: 0 }
    }

    fn on(&mut self, permit: Permit, event: Event) {
        while self.queue.needs_lease_id() {
            self.supplied += 1;
            self.queue.supply(LeaseId::from_uuid(Uuid::from_u64_pair(1, self.supplied)));
        }
        for action in self.queue.handle_event(permit, event, Instant::from_boot(self.now)) {
            match action {
                Action::At { permit, action: action @ hold::Action::Store { .. } } => {
                    self.sent.push_back((permit, action));
                }
                Action::At { action, .. } => self.told.push((self.now, action)),
                Action::ReportPermitsDiffer { .. } => {}
            }
        }
    }

    fn arrive(&mut self, caller: CallerId, permits: u32, wait: Duration) {
        let permits = (permits > 1).then(|| Permits::new(permits).unwrap());
        let terms = Terms { wait, record: Record { permits, ..Record::default() }, ..terms() };
        self.on(Permit::FIRST, Event::CallerArrived { caller, terms: Arc::new(terms) });
    }

    /// Permit 0 is another sidecar's, all the time.
    fn serve(&mut self) {
        while let Some((permit, action)) = self.sent.pop_front() {
            let event = match (permit, &action) {
                (
                    Permit::FIRST,
                    hold::Action::Store { what: hold::Request::Acquire { .. }, .. },
                ) => failed(&action, Failure::Contended).unwrap(),
                (Permit::FIRST, _) => self.tables[0].apply(&action, self.now).unwrap(),
                _ => self.tables[1].apply(&action, self.now).unwrap(),
            };
            self.on(permit, event);
        }
    }

    fn pass(&mut self, span: Duration) {
        self.serve();
        let end = self.now + span;
        while let Some(at) = self.queue.poll_timeout().filter(|at| at.since_boot() <= end) {
            self.now = self.now.max(at.since_boot());
            self.on(Permit::FIRST, Event::TimePassed);
            self.serve();
        }
        self.now = end;
        self.on(Permit::FIRST, Event::TimePassed);
        self.serve();
    }

    fn release(&mut self, caller: CallerId) {
        let call = HolderCall::Release;
        self.on(Permit::FIRST, Event::Call { caller, generation: None, call });
        self.serve();
    }

    fn told_at(&self, caller: CallerId, wanted: impl Fn(&Notice) -> bool) -> Option<Duration> {
        self.told.iter().find_map(|(at, action)| match action {
            hold::Action::Tell { caller: whom, notice } if *whom == caller && wanted(notice) => {
                Some(*at)
            }
            _ => None,
        })
    }
}

#[test]
fn s10_s12_s31_one_try_behind_a_waiter_waits_no_longer_for_others_turn() {
    let mut world = World::new(1);
    world.arrive(ANN, 2, secs(600));
    world.serve();
    let granted = |notice: &Notice| matches!(notice, Notice::Granted(_));
    assert!(world.told_at(ANN, granted).is_some());
    world.arrive(BOB, 2, secs(600));
    world.arrive(CAT, 2, secs(600));
    world.pass(secs(90));
    world.release(ANN);
    assert!(world.told_at(BOB, granted).is_some());
    world.pass(secs(90));
    world.release(BOB);
    let asked = world.now;
    world.arrive(DAN, 2, secs(0));
    world.pass(secs(20));
    let answered = world.told_at(DAN, |_| true).unwrap();
    let took = answered - asked;
    assert!(took < secs(1), "one try was answered after {took:?}");
}

#[test]
fn s8_s28_who_waits_for_permits_that_are_there_is_not_refused_for_one_that_is_not() {
    let mut world = World::new(1);
    world.arrive(BOB, 2, secs(60));
    for _ in 0..6 {
        let Some((permit, action)) = world.sent.pop_front() else { break };
        let failure = match permit {
            Permit::FIRST => Failure::Contended,
            _ => Failure::Refused(StoreFailure {
                kind: StoreFailureKind::Full,
                message: "full".to_owned(),
                retry_after: None,
            }),
        };
        let is_read = matches!(&action, hold::Action::Store { what: hold::Request::Read, .. });
        let event = match is_read {
            true => world.tables[0].apply(&action, world.now).unwrap(),
            false => failed(&action, failure).unwrap(),
        };
        world.on(permit, event);
    }
    assert_eq!(world.queue.waiting(), 1, "{:?}", world.told);
}
