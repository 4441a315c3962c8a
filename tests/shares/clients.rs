//! Callers of one lock at one sidecar: what each wants, and what it does when it is told something.

use std::sync::Arc;
use std::time::Duration;

use leasehold::hold::{self, CallerId, Event, HolderCall, SaveAsked, SaveId, Terms};
use leasehold::record::{CheckpointValue, Priority, Record, Sharing};

use crate::shares::planted::Bug;
use crate::shares::sidecar::{Life, share_name};
use crate::shares::world::{What, World};

/// A wait without end.
pub(crate) const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3_600);

/// What a caller wants, each time it comes.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    pub(crate) lock: usize,
    pub(crate) lease_duration: Duration,
    pub(crate) priority: u32,
    pub(crate) yields: bool,
    /// Whether its lock is one of the share, and the share is to be rebalanced.
    pub(crate) shares: bool,
    pub(crate) rebalances: bool,
    /// Zero: one try.
    pub(crate) wait: Duration,
    /// The longest time for which it holds; none: until it is asked to let go.
    pub(crate) holds: Option<Duration>,
    /// The longest time after which it comes again; none: it does not.
    pub(crate) again: Option<Duration>,
    /// The longest time that it takes to let go when it is asked to.
    pub(crate) notice: Duration,
}

impl Profile {
    /// A listener: it waits without end, holds until it is asked to let go, and comes again at once.
    pub(crate) fn listener(lock: usize, lease_duration: Duration) -> Self {
        Self {
            lock,
            lease_duration,
            priority: 0,
            yields: true,
            shares: true,
            rebalances: false,
            wait: FOREVER,
            holds: None,
            again: Some(Duration::ZERO),
            notice: Duration::from_secs(5),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Away,
    Waits { caller: CallerId, since: Duration },
    Holds { caller: CallerId, generation: u64, since: Duration },
    Releases { caller: CallerId },
}

#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) at: usize,
    pub(crate) profile: Profile,
    pub(crate) stage: Stage,
}

impl Client {
    pub(crate) fn caller(&self) -> Option<CallerId> {
        match self.stage {
            Stage::Away => None,
            Stage::Waits { caller, .. }
            | Stage::Holds { caller, .. }
            | Stage::Releases { caller } => Some(caller),
        }
    }

    fn terms(&self, number: usize, sidecar: &Arc<str>) -> Terms {
        let Profile { lease_duration, priority, yields, shares, rebalances, wait, .. } =
            self.profile;
        let sharing = Sharing {
            priority: Priority::new(priority).unwrap(),
            yields,
            share: shares.then(share_name),
        };
        Terms {
            rebalance: rebalances,
            resumable: true,
            record: Record {
                holder: format!("client-{number}"),
                sidecar: Arc::clone(sidecar),
                sharing: sharing.boxed(),
                ..Record::default()
            },
            ..Terms::plain(lease_duration, wait)
        }
    }
}

impl World {
    pub(crate) fn arrive(&mut self, number: usize) {
        let at = self.clients[number].at;
        if self.sidecars[at].life != Life::Running || self.clients[number].stage != Stage::Away {
            return;
        }
        self.callers += 1;
        let caller = CallerId(self.callers);
        let mut terms = self.clients[number].terms(number, &self.sidecars[at].name);
        if self.bug == Some(Bug::OneTryBreaks) && terms.wait.is_zero() {
            terms.wait = terms.lease_duration * 3;
        }
        self.clients[number].stage = Stage::Waits { caller, since: self.now };
        self.by_caller.insert(caller, number);
        let event = Event::CallerArrived { caller, terms: Arc::new(terms) };
        self.feed(at, self.clients[number].profile.lock, event);
    }

    /// It comes again, if it does.
    fn come_again(&mut self, number: usize, least: Duration) {
        self.clients[number].stage = Stage::Away;
        if let Some(again) = self.clients[number].profile.again {
            let at = self.now + least.max(self.random.span(again));
            self.schedule(at, What::Arrive { client: number });
        }
    }

    /// Its belief ends before it sends its release (S13); with a last save.
    pub(crate) fn release(&mut self, number: usize, caller: CallerId) {
        let Stage::Holds { caller: holds, generation, .. } = self.clients[number].stage else {
            return;
        };
        if holds != caller {
            return;
        }
        let (at, lock) = (self.clients[number].at, self.clients[number].profile.lock);
        self.clients[number].stage = Stage::Releases { caller };
        self.checks.ended(lock, caller, self.now);
        if self.random.chance(500) {
            self.save(number, caller, generation);
        }
        let generation = Some(generation);
        self.feed(at, lock, Event::Call { caller, generation, call: HolderCall::Release });
    }

    fn save(&mut self, number: usize, caller: CallerId, generation: u64) {
        self.saves += 1;
        let value = CheckpointValue::new(&self.saves.to_be_bytes()).unwrap();
        let save = SaveAsked { id: SaveId(self.saves), value: Some(value), decides: false };
        let (at, lock) = (self.clients[number].at, self.clients[number].profile.lock);
        let generation = Some(generation);
        self.feed(at, lock, Event::Call { caller, generation, call: HolderCall::Save(save) });
    }

    /// It saves now and then while it holds.
    pub(crate) fn save_now(&mut self, number: usize, caller: CallerId) {
        if let Stage::Holds { caller: holds, generation, .. } = self.clients[number].stage
            && holds == caller
        {
            self.save(number, caller, generation);
        }
    }

    /// A caller at sidecar `at` is told something of `lock`.
    pub(crate) fn tell(&mut self, at: usize, lock: usize, action: hold::Action) {
        match action {
            hold::Action::Tell { caller, notice: hold::Notice::Granted(grant) } => {
                let Some(number) = self.by_caller.get(&caller).copied() else { return };
                self.granted(number, caller, &grant);
            }
            hold::Action::Tell {
                caller,
                notice:
                    hold::Notice::Renewed { valid_until } | hold::Notice::Recovered { valid_until },
            } => {
                let until = self.sidecars[at].clock.when(valid_until);
                self.checks.renewed(lock, caller, until);
            }
            hold::Action::Tell { caller, notice: hold::Notice::Revoked { .. } } => {
                self.count("a notice");
                self.checks.told_revoked(lock);
                self.let_go(caller);
            }
            hold::Action::Tell { caller, notice: hold::Notice::Draining { .. } } => {
                self.let_go(caller)
            }
            hold::Action::Tell { caller, notice: hold::Notice::Lost { .. } } => {
                self.count("a hold lost");
                self.checks.ended(lock, caller, self.now);
                self.over(caller, Duration::ZERO);
            }
            hold::Action::Tell {
                caller,
                notice: hold::Notice::Released { .. } | hold::Notice::NotConfirmed { .. },
            } => self.over(caller, Duration::ZERO),
            hold::Action::Tell {
                caller,
                notice: hold::Notice::Busy(_) | hold::Notice::Failed(_),
            } => {
                self.count("busy");
                self.over(caller, Duration::from_secs(1));
            }
            _ => {}
        }
    }

    fn granted(&mut self, number: usize, caller: CallerId, grant: &hold::Granted) {
        self.count("a grant");
        let Client { at, profile, stage } = self.clients[number].clone();
        let Stage::Waits { since, .. } = stage else {
            return self.checks.violate(format!("S12: {caller:?} was granted and did not wait"));
        };
        self.clients[number].stage =
            Stage::Holds { caller, generation: grant.generation, since: self.now };
        let until = self.sidecars[at].clock.when(grant.valid_until);
        self.note_wait(&profile, self.now - since);
        self.check_grant(number, caller, grant, until);
        if let Some(most) = profile.holds {
            let ends = self.now + self.random.span(most);
            self.schedule(ends, What::Release { client: number, caller });
        }
        if self.random.chance(200) {
            let saves = self.now + self.random.span(Duration::from_secs(60));
            self.schedule(saves, What::Save { client: number, caller });
        }
    }

    /// It is asked to let go, and takes a while.
    fn let_go(&mut self, caller: CallerId) {
        let Some(number) = self.by_caller.get(&caller).copied() else { return };
        let ends = self.now + self.random.span(self.clients[number].profile.notice);
        self.schedule(ends, What::Release { client: number, caller });
    }

    fn over(&mut self, caller: CallerId, least: Duration) {
        let Some(number) = self.by_caller.remove(&caller) else { return };
        if self.clients[number].caller() == Some(caller) {
            self.come_again(number, least);
        }
    }
}
