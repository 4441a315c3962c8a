//! A few sidecars, the clients that call them and one lock in a store, with everything between them lost, late or
//! repeated as a seed says. What clients believe is checked at every step (S1, S4, S5).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

use uuid::Uuid;

use super::chance::{Dice, Skewed};
use super::client::{Client, Message};
use super::table::{Table, failed};
use crate::hold::{Action, CallerId, Event, Failure, Hold, Memory, Settings, Trouble};
use crate::lock::LeaseId;
use crate::time::Instant;

#[derive(Debug)]
pub(super) struct Sidecar {
    hold: Hold,
    pub(super) clock: Skewed,
    /// Grows with each restart: answers to a former one are lost.
    life: u32,
    paused_until: Duration,
    /// Until when no request of it reaches the store.
    cut_off_until: Duration,
    inbox: VecDeque<Event>,
    settings: Settings,
    seed: u64,
}

#[derive(Debug)]
enum Delivery {
    ToSidecar { sidecar: usize, life: u32, event: Event },
    ToStore { sidecar: usize, life: u32, action: Box<Action>, answered: bool },
    ToClient(CallerId, Message),
    ClientActs(usize),
    Restart(usize),
    Trouble,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) now: Duration,
    pub(super) dice: Dice,
    pub(super) faults: bool,
    pub(super) sidecars: Vec<Sidecar>,
    pub(super) table: Table,
    pub(super) clients: Vec<Client>,
    /// Which client a caller is.
    pub(super) callers: HashMap<CallerId, usize>,
    /// When what was sent last on a connection arrives.
    connections: HashMap<CallerId, Duration>,
    deliveries: BTreeMap<u64, Delivery>,
    order: BinaryHeap<Reverse<(Duration, u64)>>,
    numbers: u64,
    pub(super) highest_token: u64,
    lost: HashMap<CallerId, ()>,
    pub(super) grants: u64,
    pub(super) story: Vec<String>,
    pub(super) tell_story: bool,
}

impl World {
    pub(super) fn new(seed: u64, sidecars: usize) -> Self {
        let mut dice = Dice::new(seed);
        let settings = Settings {
            poll_cap: Duration::from_millis(dice.one_of(&[250, 1_000, 5_000])),
            hand_off: Duration::from_secs(dice.one_of(&[1, 5])),
        };
        let sidecars = (0..sidecars)
            .map(|_| {
                let clock = Skewed {
                    offset: dice.millis(0, 1_000_000),
                    millionths: 995_500 + dice.below(9_000),
                };
                let seed = dice.below(1 << 40);
                let now = clock.read(Duration::ZERO);
                let hold = Hold::new(settings, Memory::default(), seed, now);
                Sidecar {
                    hold,
                    clock,
                    life: 0,
                    paused_until: Duration::ZERO,
                    cut_off_until: Duration::ZERO,
                    inbox: VecDeque::new(),
                    settings,
                    seed,
                }
            })
            .collect();
        let mut world = Self {
            now: Duration::ZERO,
            dice,
            faults: true,
            sidecars,
            table: Table::default(),
            clients: Vec::new(),
            callers: HashMap::new(),
            connections: HashMap::new(),
            deliveries: BTreeMap::new(),
            order: BinaryHeap::new(),
            numbers: 0,
            highest_token: 0,
            lost: HashMap::new(),
            grants: 0,
            story: Vec::new(),
            tell_story: false,
        };
        world.after(Duration::from_secs(1), Delivery::Trouble);
        world
    }

    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn after(&mut self, delay: Duration, delivery: Delivery) {
        let number = self.number();
        self.order.push(Reverse((self.now + delay, number)));
        self.deliveries.insert(number, delivery);
    }

    pub(super) fn wake_client(&mut self, client: usize, delay: Duration) {
        self.after(delay, Delivery::ClientActs(client));
    }

    /// Sends an event of a client's connection to a sidecar, as it lives now; a connection keeps the order.
    pub(super) fn call(&mut self, (sidecar, caller): (usize, CallerId), event: Event) {
        let delay = self.delay();
        self.call_after(delay, (sidecar, caller), event);
    }

    pub(super) fn call_after(
        &mut self,
        delay: Duration,
        (sidecar, caller): (usize, CallerId),
        event: Event,
    ) {
        let last = self.connections.entry(caller).or_default();
        *last = (*last).max(self.now + delay);
        let delay = *last - self.now;
        self.tell_sidecar(sidecar, delay, event);
    }

    fn tell_sidecar(&mut self, sidecar: usize, delay: Duration, event: Event) {
        let life = self.sidecars[sidecar].life;
        self.after(delay, Delivery::ToSidecar { sidecar, life, event });
    }

    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        if self.tell_story {
            let line = format!("{:9.3} {}", self.now.as_secs_f64(), line());
            self.story.push(line);
        }
    }

    /// Lets everything happen until `end`.
    pub(super) fn run_until(&mut self, end: Duration) {
        loop {
            let delivery = self.order.peek().map(|Reverse((at, _))| *at);
            let wakeup = self.next_wakeup();
            let next = [delivery, wakeup.map(|(at, _)| at)].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            if delivery.is_some_and(|at| at <= self.now) {
                let Reverse((_, number)) = self.order.pop().unwrap();
                let delivery = self.deliveries.remove(&number).unwrap();
                self.deliver(delivery);
            } else if let Some((_, sidecar)) = wakeup {
                self.catch_up(sidecar);
                self.feed(sidecar, Event::Wakeup);
            }
        }
    }

    fn next_wakeup(&self) -> Option<(Duration, usize)> {
        let wakeups = self.sidecars.iter().enumerate().filter_map(|(index, sidecar)| {
            let at = sidecar.hold.next_wakeup().map(|at| sidecar.clock.when(at));
            let at = if sidecar.inbox.is_empty() { at } else { Some(self.now) };
            Some((at?.max(sidecar.paused_until), index))
        });
        wakeups.min()
    }

    fn deliver(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::ToSidecar { sidecar, life, event } => {
                let to = &mut self.sidecars[sidecar];
                if to.life == life && to.paused_until > self.now {
                    to.inbox.push_back(event);
                } else if to.life == life {
                    self.catch_up(sidecar);
                    self.feed(sidecar, event);
                }
            }
            Delivery::ToStore { sidecar, life, action, answered } => {
                let event = self.table.apply(&action, self.now).unwrap();
                self.note(|| format!("store: {action:?} from {sidecar} -> {event:?}"));
                let lost = answered || self.faults && self.dice.percent(5);
                if !lost {
                    let delay = self.delay();
                    self.after(delay, Delivery::ToSidecar { sidecar, life, event });
                }
            }
            Delivery::ToClient(caller, message) => self.hear(caller, message),
            Delivery::ClientActs(client) => self.act(client),
            Delivery::Restart(sidecar) => self.restart(sidecar),
            Delivery::Trouble => self.trouble(),
        }
    }

    /// How long a message takes.
    pub(super) fn delay(&mut self) -> Duration {
        if self.faults && self.dice.percent(3) {
            self.dice.millis(1_000, 45_000)
        } else if self.faults && self.dice.percent(15) {
            self.dice.millis(500, 2_500)
        } else {
            self.dice.millis(1, 50)
        }
    }

    /// What came in while it was paused.
    fn catch_up(&mut self, index: usize) {
        while let Some(event) = self.sidecars[index].inbox.pop_front() {
            self.feed(index, event);
        }
    }

    fn feed(&mut self, index: usize, event: Event) {
        let dice = self.numbers;
        let now = self.now;
        self.note(|| format!("sidecar {index}: {event:?}"));
        let sidecar = &mut self.sidecars[index];
        if sidecar.hold.needs_lease_id() {
            let id = Uuid::from_u64_pair(sidecar.seed, dice);
            sidecar.hold.supply(LeaseId::from_uuid(id));
            self.numbers += 1;
        }
        let local = sidecar.clock.read(now);
        for action in self.sidecars[index].hold.on(event, local) {
            self.carry_out(index, action);
        }
    }

    fn carry_out(&mut self, sidecar: usize, action: Action) {
        self.note(|| format!("sidecar {sidecar}: -> {action:?}"));
        let life = self.sidecars[sidecar].life;
        let unknown = Failure::Unknown(Trouble::unanswered("request"));
        if let Some(unanswered) = failed(&action, unknown) {
            self.send(sidecar, action, unanswered);
            return;
        }
        if let Some((caller, message)) = Message::of(action, &self.sidecars[sidecar], self.now) {
            self.check_told(caller, &message);
            debug_assert_eq!(life, self.sidecars[sidecar].life);
            let delay = self.delay();
            self.after(delay, Delivery::ToClient(caller, message));
        }
    }

    /// A request may be lost, come late, twice, or seem to fail.
    fn send(&mut self, sidecar: usize, action: Action, unanswered: Event) {
        let life = self.sidecars[sidecar].life;
        let cut_off = self.sidecars[sidecar].cut_off_until > self.now;
        let faults = self.faults;
        let lost = faults && (cut_off || self.dice.percent(6));
        let reset = faults && self.dice.percent(4);
        if reset {
            let delay = self.dice.millis(1, 3_000);
            self.after(delay, Delivery::ToSidecar { sidecar, life, event: unanswered });
        }
        if faults && self.dice.percent(5) {
            let delay = self.dice.millis(1, 45_000);
            let action = Box::new(action.clone());
            self.after(delay, Delivery::ToStore { sidecar, life, action, answered: true });
        }
        if !lost {
            let delay = self.delay();
            let action = Box::new(action);
            self.after(delay, Delivery::ToStore { sidecar, life, action, answered: reset });
        }
    }

    /// S4: after LOST nothing. S5: tokens grow in the order of their grants.
    fn check_told(&mut self, caller: CallerId, message: &Message) {
        assert!(!self.lost.contains_key(&caller), "{caller:?} is told {message:?} after LOST");
        match message {
            Message::Lost => {
                self.lost.insert(caller, ());
            }
            Message::Granted { grant, .. } if !grant.resumed => {
                let token = grant.token.value();
                assert!(token > self.highest_token, "token {token} after {}", self.highest_token);
                self.highest_token = token;
                self.grants += 1;
            }
            Message::Granted { .. } | Message::Validity(_) | Message::Refused => {}
        }
    }

    /// Something happens to a sidecar.
    fn trouble(&mut self) {
        if !self.faults {
            return;
        }
        let delay = self.dice.millis(500, 20_000);
        self.after(delay, Delivery::Trouble);
        let index = usize::try_from(self.dice.below(self.sidecars.len() as u64)).unwrap();
        match self.dice.below(10) {
            0..=2 => {
                let span = self.dice.millis(5_000, 60_000);
                self.note(|| format!("sidecar {index} is cut off from the store for {span:?}"));
                self.sidecars[index].cut_off_until = self.now + span;
            }
            3..=5 => {
                let pause = self.dice.millis(100, 90_000);
                self.note(|| format!("sidecar {index} pauses for {pause:?}"));
                let until = &mut self.sidecars[index].paused_until;
                *until = (*until).max(self.now + pause);
            }
            6 => self.restart(index),
            7 => {
                let drain = Duration::from_secs(20);
                let ends = self.sidecars[index].clock.read(self.now + drain);
                self.tell_sidecar(index, Duration::ZERO, Event::DrainStarted { ends });
                self.tell_sidecar(index, drain, Event::DrainEnded);
                self.after(drain + Duration::from_secs(1), Delivery::Restart(index));
            }
            _ => {}
        }
    }

    /// The sidecar crashes and starts again, knowing nothing.
    pub(super) fn restart(&mut self, index: usize) {
        self.note(|| format!("sidecar {index} restarts"));
        let now = self.now;
        let sidecar = &mut self.sidecars[index];
        sidecar.life += 1;
        sidecar.seed += 1;
        sidecar.paused_until = now;
        sidecar.inbox.clear();
        let local = sidecar.clock.read(now);
        sidecar.hold = Hold::new(sidecar.settings, Memory::default(), sidecar.seed, local);
        self.streams_closed(index);
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.sidecars.iter().all(|sidecar| {
            let _ = sidecar.clock.read(self.now);
            sidecar.hold.is_idle() && sidecar.hold.next_wakeup().is_none()
        })
    }

    pub(super) fn read_clock(&self, sidecar: usize) -> Instant {
        self.sidecars[sidecar].clock.read(self.now)
    }
}
