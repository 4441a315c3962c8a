//! What the tasks of all locks share, and the calls come to: who is where, what the store is asked through,
//! the clock, the limits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tokio::sync::{Semaphore, oneshot, watch};

use super::caller::Caller;
use super::inbox::Inbox;
use super::registry::Registry;
use super::shares::Shares;
use super::task::{Command, HoldCall};
use super::timers::Timers;
use super::view::LocalView;
use crate::coordinator::budget::Budget;
use crate::coordinator::call::{CallError, Deadline, Validity};
use crate::coordinator::entropy::Entropy;
use crate::coordinator::log_limit::LogLimit;
use crate::coordinator::observe::{LockEvent, LockEventKind};
use crate::coordinator::page_token::PageTokens;
use crate::coordinator::settings::Settings;
use crate::coordinator::store_io::{PATIENCE, StoreIo};
use crate::coordinator::trace::Observer;
use crate::coordinator::waiting::AllWaiting;
use crate::hold::Event;
use crate::lock::{LockPath, Permit};
use crate::store::{LeaseStore, LeaseStoreExt as _, List, Listing, StoreError};
use crate::time::{Clock, Instant, UnixMillis};
use crate::webjobs::{DotnetTimers, SharedStore};

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
