//! What the tasks of all locks share, and the calls come to: what the store is asked through, the clock, the
//! limits; and who is where ([`Registry`]): a lock's own path to its task, lease id to hold, what is
//! remembered of locks that nobody wants now.

use std::collections::HashMap;
use std::hash::RandomState;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use super::caller::Caller;
use super::inbox::Inbox;
use super::lock_cache::{ApproximateSet, LockCache};
use super::shares::Shares;
use super::task::{Command, HoldCall};
use super::timers::Timers;
use super::view::LocalView;
use crate::coordinator::budget::Budget;
use crate::coordinator::call::{CallError, Deadline, Gauges, Validity};
use crate::coordinator::entropy::Entropy;
use crate::coordinator::log_limit::LogLimit;
use crate::coordinator::observe::{HoldEnd, LockEvent, LockEventKind};
use crate::coordinator::page_token::PageTokens;
use crate::coordinator::settings::Settings;
use crate::coordinator::store_io::{PATIENCE, StoreIo};
use crate::coordinator::trace::Observer;
use crate::coordinator::waiting::{AllWaiting, Wait, WaitKind};
use crate::coordinator::watched::Watchers;
use crate::hold::{CallerId, Event, HolderCall, Memory};
use crate::lock::{LeaseId, LockPath, Permit};
use crate::schedule::Occurrence;
use crate::store::{LeaseStore, LeaseStoreExt as _, List, Listing, StoreError};
use crate::time::{Clock, Instant, UnixMillis};
use crate::webjobs::{DotnetTimers, SharedStore};
use hashlink::LinkedHashMap;
use tokio::sync::{Semaphore, oneshot, watch};

/// Locks that a page of the store has, where all of them are listed.
const STORE_PAGE: usize = 1_000;

/// Who has something to write for a little longer.
pub(crate) trait Owing: std::fmt::Debug + Send + Sync {
    /// Whether it has: a drain lasts until it has not, within its time (T20).
    fn owes(&self) -> bool;
}

#[derive(Debug)]
pub(in crate::coordinator) struct Shared {
    pub(in crate::coordinator) io: Arc<StoreIo>,
    pub(in crate::coordinator) clock: Arc<dyn Clock>,
    pub(in crate::coordinator) observer: Arc<dyn Observer>,
    pub(in crate::coordinator) entropy: Arc<dyn Entropy>,
    pub(in crate::coordinator) settings: Settings,
    /// Those of the machines, which all of them share.
    pub(super) machines: Arc<crate::hold::Settings>,
    pub(super) registry: Mutex<Registry>,
    pub(in crate::coordinator) waiting: Arc<AllWaiting>,
    pub(super) timers: Timers<Inbox>,
    pub(in crate::coordinator) dotnet_timers: Arc<DotnetTimers>,
    pub(in crate::coordinator) shares: Shares,
    /// Anybody can have a resume refused (S16).
    pub(super) refused_resumes: LogLimit,
    /// For the copies of locks that are followed.
    pub(in crate::coordinator) followed: Arc<Budget>,
    /// Pages of the store that are being taken into them: one at a time.
    pub(in crate::coordinator) listings: Semaphore,
    pub(in crate::coordinator) pages: PageTokens,
    pub(in crate::coordinator) draining: watch::Sender<bool>,
    pub(in crate::coordinator) owing: OnceLock<Weak<dyn Owing>>,
    pub(super) callers: AtomicU64,
    /// How many suspected pauses were told to the tasks of locks (S3).
    pub(super) suspected: AtomicU64,
}

impl Shared {
    pub(in crate::coordinator) fn new(
        store: Arc<dyn LeaseStore>,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn Observer>,
        settings: Settings,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        let dotnet_timers = Arc::<DotnetTimers>::default();
        let (timers, layout) = (Arc::clone(&dotnet_timers), settings.function_instance);
        let store = Arc::new(SharedStore::new(store, Arc::clone(&clock), timers, layout));
        let suspected = AtomicU64::new(clock.suspicions().raised());
        let registry = Registry::new(settings.remembered_locks, settings.hold.poll_cap);
        Self {
            io: Arc::new(StoreIo::new(store, Arc::clone(&clock))),
            dotnet_timers,
            machines: Arc::new(settings.hold),
            timers: Timers::new(Arc::clone(&clock)),
            suspected,
            shares: Shares::default(),
            refused_resumes: LogLimit::default(),
            followed: Budget::new(settings.followed_bytes),
            listings: Semaphore::new(1),
            clock,
            observer,
            entropy,
            waiting: AllWaiting::new(&settings),
            settings,
            registry: Mutex::new(registry),
            pages: PageTokens::new(),
            draining: watch::Sender::new(false),
            owing: OnceLock::new(),
            callers: AtomicU64::new(0),
        }
    }

    pub(in crate::coordinator) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn observe_forgotten(&self, locks: usize) {
        for _ in 0..locks {
            self.observe(&LockEvent::of_sidecar(LockEventKind::Forgotten));
        }
    }

    pub(in crate::coordinator) fn validity(&self, valid_until: Instant) -> Validity {
        let Deadline { at, after } = self.deadline(valid_until);
        Validity { valid_until: at, valid_for: after }
    }

    /// The moment that lies so long before this one.
    pub(in crate::coordinator) fn deadline(&self, at: Instant) -> Deadline {
        let after = at.saturating_since(self.clock.now());
        Deadline { at: self.clock.boot_reading(at), after }
    }

    /// A moment that lies ahead, by the wall clock: for people.
    pub(super) fn wall_at(&self, at: Instant) -> UnixMillis {
        self.clock.wall() + at.saturating_since(self.clock.now())
    }

    /// The lock of which `path` is a permit, and which (S28).
    pub(in crate::coordinator) fn permit_of(&self, path: &LockPath) -> (LockPath, Permit) {
        self.settings.host.namespace.permit_of(path)
    }

    pub(in crate::coordinator) async fn look(&self, path: &LockPath) -> Option<LocalView> {
        let (reply, answer) = oneshot::channel();
        let (lock, permit) = self.permit_of(path);
        self.registry().send(&lock, Command::Look(permit, reply)).ok()?;
        answer.await.ok()
    }

    pub(in crate::coordinator) async fn ask<T>(
        &self,
        call: HoldCall,
        command: impl FnOnce(oneshot::Sender<Result<T, CallError>>) -> Command,
    ) -> Result<T, CallError> {
        let (reply, answer) = oneshot::channel();
        {
            let registry = self.registry();
            let Some(entry) = registry.holds.get(&call.lease_id) else {
                return Err(registry.why_over(call));
            };
            if registry.send(&entry.path, command(reply)).is_err() {
                return Err(registry.unknown_lease());
            }
        }
        answer.await.unwrap_or_else(|_| Err(self.registry().why_over(call)))
    }

    /// A page of the locks under a prefix, as the store has them.
    pub(in crate::coordinator) async fn store_page(
        &self,
        prefix: &str,
        continuation: Option<String>,
    ) -> Result<Listing, StoreError> {
        let container = self.settings.host.namespace.container.clone();
        let list = List { container, prefix: prefix.to_owned(), continuation, limit: STORE_PAGE };
        self.io.asked(PATIENCE, self.io.store.list(list)).await
    }

    /// How many pauses have come under suspicion so far, by a look at the clocks beside ours. One that is new
    /// is told to the tasks of all locks at once, so that every hold is renewed (S3).
    pub(super) fn look_for_pauses(&self) -> u64 {
        let suspected = self.clock.suspected_pauses();
        if self.suspected.fetch_max(suspected, Ordering::Relaxed) < suspected {
            self.observe(&LockEvent::of_sidecar(LockEventKind::PauseSuspected));
            self.registry().tell_all(|| Event::TimePassed);
        }
        suspected
    }

    /// Lets an event be observed.
    pub(in crate::coordinator) fn observe(&self, event: &LockEvent<'_>) {
        self.observer.observe(event);
    }

    /// Lets be observed what happened to a caller, also by whoever follows it.
    pub(super) fn observe_caller(&self, path: &LockPath, caller: &Caller, kind: LockEventKind<'_>) {
        let holder = &caller.terms.record.holder;
        let event = LockEvent { path: Some(path), token: caller.token, holder, kind };
        self.observe(&event);
        if let Some(trace) = &caller.trace {
            trace.observe(&event, self.clock.now());
        }
    }
}

/// Ended holds whose end is remembered, so that a late release is told the outcome of its hold (S13).
const MAX_ENDED: usize = 10_000;

/// A hold that ended.
#[derive(Debug)]
struct EndedHold {
    end: HoldEnd,
    generation: u64,
    /// Whose it was and of which lock, if it was lost: its holder may say that it knows (S13).
    lost: Option<Box<(LockPath, CallerId)>>,
}

#[derive(Clone, Debug)]
pub(in crate::coordinator) struct HoldEntry {
    /// The lock's own path, whichever permit is held.
    pub(in crate::coordinator) path: LockPath,
    pub(in crate::coordinator) permit: Permit,
    pub(super) caller: CallerId,
    pub(super) generation: u64,
    pub(in crate::coordinator) valid_until: Instant,
    pub(in crate::coordinator) at_risk: bool,
    /// The occurrence that its holder has named, if it has. Boxed: every hold has room for it, and few name
    /// one.
    pub(in crate::coordinator) occurrence: Option<Box<Occurrence>>,
}

#[derive(Debug, Default)]
pub(in crate::coordinator) struct Registry {
    tasks: HashMap<LockPath, Inbox>,
    pub(in crate::coordinator) holds: HashMap<LeaseId, HoldEntry>,
    /// The one that ended first is the first.
    ended: LinkedHashMap<LeaseId, EndedHold, RandomState>,
    pub(in crate::coordinator) lock_cache: LockCache,
    pub(in crate::coordinator) watchers: Watchers,
    /// Locks that were found under another host type.
    pub(super) collided: ApproximateSet,
    /// Locks whose callers name different numbers of permits (S29).
    pub(super) differing: ApproximateSet,
    draining: bool,
    /// The holds go on at a replacement (S15).
    hands_over: bool,
}

impl Registry {
    /// A registry that remembers this many locks that nobody uses.
    pub(super) fn new(remembered: usize, poll_cap: Duration) -> Self {
        Self { lock_cache: LockCache::new(remembered, poll_cap), ..Self::default() }
    }

    /// Sends `command` to the path's task; gives it back if there is none.
    pub(in crate::coordinator) fn send(
        &self,
        path: &LockPath,
        command: Command,
    ) -> Result<(), Command> {
        match self.tasks.get(path) {
            Some(inbox) => {
                inbox.send(command);
                Ok(())
            }
            None => Err(command),
        }
    }

    /// Lets the path's task know what happened; one that has ended is not concerned.
    pub(in crate::coordinator) fn tell(&self, path: &LockPath, permit: Permit, event: Event) {
        let _ = self.send(path, Command::Happened(permit, Box::new(event)));
    }

    pub(in crate::coordinator) fn tell_all(&self, event: impl Fn() -> Event) {
        // In the order of their paths, so that a simulated world replays.
        let mut tasks: Vec<_> = self.tasks.iter().collect();
        tasks.sort_by_key(|(path, _)| *path);
        for (_, inbox) in tasks {
            inbox.send(Command::Happened(Permit::FIRST, Box::new(event())));
        }
    }

    pub(super) fn add_task(&mut self, path: LockPath, inbox: Inbox) -> Memory {
        let memory = self.lock_cache.take(&path);
        self.tasks.insert(path, inbox);
        memory
    }

    /// Takes an idle task out, and remembers what it knows of each of its permits. Commands are sent under
    /// the registry's lock, so none can come in after this. Answers how many other locks were forgotten for
    /// it.
    pub(super) fn retire(
        &mut self,
        path: &LockPath,
        memories: impl Iterator<Item = (LockPath, Memory)>,
        now: Instant,
    ) -> usize {
        self.tasks.remove(path);
        memories.map(|(path, memory)| self.lock_cache.put(path, memory, now)).sum()
    }

    pub(in crate::coordinator) fn has_tasks(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// How a hold ended here; none for a call with a generation that it has got elsewhere since (S16).
    pub(in crate::coordinator) fn ended(&self, call: HoldCall) -> Option<HoldEnd> {
        let hold = self.ended.get(&call.lease_id)?;
        call.generation.is_none_or(|generation| generation <= hold.generation).then_some(hold.end)
    }

    /// The holder of a hold that was lost here says by its generation that it knows (S13): its lock need not
    /// be kept for it.
    pub(in crate::coordinator) fn loss_is_known(&self, call: HoldCall) {
        if let Some(hold) = self.ended.get(&call.lease_id)
            && let Some((path, caller)) = hold.lost.as_deref()
            && call.generation == Some(hold.generation)
        {
            let (caller, generation) = (*caller, call.generation);
            let event = Event::Call { caller, generation, call: HolderCall::Release };
            // No task: the lock is not kept any more.
            self.tell(path, Permit::FIRST, event);
        }
    }

    pub(super) fn begin_hold(&mut self, lease_id: LeaseId, entry: HoldEntry) {
        self.ended.remove(&lease_id);
        self.holds.insert(lease_id, entry);
    }

    /// `caller`'s hold is over. Nothing happens if the hold is another caller's by now, or was none here: a
    /// resume that is refused says nothing of a hold that went on elsewhere or ended before (S16).
    pub(super) fn end_hold(&mut self, lease_id: LeaseId, caller: CallerId, end: HoldEnd) {
        if let Some(entry) = self.holds.get(&lease_id).filter(|entry| entry.caller == caller) {
            let generation = entry.generation;
            let lost =
                matches!(end, HoldEnd::Lost(_)).then(|| Box::new((entry.path.clone(), caller)));
            self.holds.remove(&lease_id);
            if matches!(end, HoldEnd::HandedOver | HoldEnd::ResumedElsewhere) {
                // S16: nothing is known of it here any more.
                return;
            }
            self.ended.insert(lease_id, EndedHold { end, generation, lost });
            if self.ended.len() > MAX_ENDED {
                self.ended.pop_front();
            }
        }
    }

    /// `caller` has no hold here, nor will it have one.
    pub(super) fn forget_hold(&mut self, lease_id: LeaseId, caller: CallerId) {
        if self.holds.get(&lease_id).is_some_and(|entry| entry.caller == caller) {
            self.holds.remove(&lease_id);
        }
    }

    /// A resume has taken the place of `caller` (S16).
    pub(super) fn supersede(&mut self, lease_id: LeaseId, caller: CallerId, to: CallerId) {
        if let Some(entry) = self.holds.get_mut(&lease_id).filter(|entry| entry.caller == caller) {
            entry.caller = to;
        }
    }

    /// Counts a caller in, within the limits. One that goes on with a hold was let in once, so no limit of
    /// holds or waiters refuses it (S16). Its own does: tokens can be forged, and a fleet of holds can come
    /// at once (S38). A lock that rests has no hold, and its lease is renewed all the same: there are as many
    /// as could be held and waited for.
    pub(super) fn admit(
        &self,
        path: &LockPath,
        waiting: &Arc<AllWaiting>,
        kind: WaitKind,
    ) -> Result<Wait, CallError> {
        let limit = waiting.max_holds;
        if kind == WaitKind::Resume {
            waiting.check_resume(self.holds.len())?;
        } else if kind.may_be_granted()
            && (self.holds.len() >= limit || self.has_too_many_locks(path, waiting, kind))
        {
            return Err(CallError::TooManyHolds { limit });
        }
        waiting.begin(kind)
    }

    /// Whether there is no room for another lock that somebody new would hold.
    fn has_too_many_locks(&self, path: &LockPath, waiting: &AllWaiting, kind: WaitKind) -> bool {
        kind == WaitKind::Caller
            && self.tasks.len() >= waiting.most_locks()
            && !self.tasks.contains_key(path)
    }

    pub(in crate::coordinator) const fn is_draining(&self) -> bool {
        self.draining
    }

    /// Lets nobody in any more. Where the holds go on at a replacement, what is not known here may be there
    /// from now on (S15).
    pub(in crate::coordinator) const fn start_draining(&mut self, hands_over: bool) {
        (self.draining, self.hands_over) = (true, self.hands_over || hands_over);
    }

    /// Why a call about a hold that is not here is refused. One that is here has been resumed since.
    pub(in crate::coordinator) fn why_over(&self, call: HoldCall) -> CallError {
        if self.holds.contains_key(&call.lease_id) {
            return CallError::ResumedSince;
        }
        match self.ended(call) {
            Some(HoldEnd::Released | HoldEnd::NotConfirmed(_)) => CallError::HoldReleased,
            Some(HoldEnd::Lost(reason)) => CallError::HoldLost { reason },
            Some(HoldEnd::HandedOver | HoldEnd::ResumedElsewhere) | None => self.unknown_lease(),
        }
    }

    /// Why a call about a hold of which nothing is known here is refused.
    pub(in crate::coordinator) fn unknown_lease(&self) -> CallError {
        if self.hands_over { CallError::handed_over() } else { CallError::UnknownLease }
    }

    pub(in crate::coordinator) fn gauges(&self) -> Gauges {
        Gauges {
            holds: self.holds.len(),
            at_risk: self.holds.values().filter(|hold| hold.at_risk).count(),
            paths: self.tasks.len(),
            remembered: self.lock_cache.len(),
            earliest_valid_until: self.holds.values().map(|hold| hold.valid_until).min(),
            draining: self.draining,
            ..Gauges::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s16_a_resume_that_is_refused_changes_nothing_of_how_a_hold_ended() {
        let mut registry = Registry::new(10, Duration::from_secs(5));
        let lease_id = LeaseId::from_uuid(uuid::Uuid::from_u128(1));
        let lost = HoldEnd::Lost(crate::hold::LossReason::Taken);
        registry.end_hold(lease_id, CallerId(1), lost);
        assert_eq!(
            registry.ended(HoldCall { lease_id, generation: None }),
            None,
            "nothing was known of it here"
        );
        let released = EndedHold { end: HoldEnd::Released, generation: 1, lost: None };
        registry.ended.insert(lease_id, released);
        registry.end_hold(lease_id, CallerId(2), lost);
        assert_eq!(
            registry.ended(HoldCall { lease_id, generation: None }),
            Some(HoldEnd::Released)
        );
    }

    #[test]
    fn the_ends_of_holds_are_remembered_up_to_a_limit() {
        let mut registry = Registry::new(10, Duration::from_secs(5));
        let lease_id =
            |number: usize| LeaseId::from_uuid(uuid::Uuid::from_u128(number as u128 + 1));
        let caller = CallerId(1);
        for number in 0..=MAX_ENDED {
            let entry = HoldEntry {
                path: "leasehold/locks/nightly".parse().unwrap(),
                permit: Permit::default(),
                caller,
                generation: 1,
                valid_until: Instant::default(),
                at_risk: false,
                occurrence: None,
            };
            registry.begin_hold(lease_id(number), entry);
            registry.end_hold(lease_id(number), caller, HoldEnd::Released);
        }
        assert_eq!(
            registry.ended(HoldCall { lease_id: lease_id(0), generation: None }),
            None,
            "it ended first"
        );
        assert_eq!(
            registry.ended(HoldCall { lease_id: lease_id(1), generation: None }),
            Some(HoldEnd::Released)
        );
        assert_eq!(
            registry.ended(HoldCall { lease_id: lease_id(MAX_ENDED), generation: None }),
            Some(HoldEnd::Released)
        );
    }
}
