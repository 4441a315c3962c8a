//! Makes machines run: one task a lock, with all of its permits and one timer, the registry of holds, limits,
//! drain.
//!
//! Rules: S3 (the clock is read after every wait), S6 (a request is never cut by its caller), S12 (one task
//! a lock), S15 (drain), S16 (resume tokens), S18 (readiness), S34 and S35 (what is known of shares). May
//! import: queue, hold, sharing, webjobs, store, schedule, record, lock, text, timetable, time's Clock. To
//! add a call: a method of [`Coordinator`] here or in the file of its subject; new behaviour goes into
//! `hold` first.
//!
//! | folder | what is in it |
//! | --- | --- |
//! | `api` | what callers ask, and are answered |
//! | `actor` | one task a lock: what it is told, what its machines answer, and whom it tells |
//! | `store_io` | what machines ask of the store, and how often that may be |
//! | `inspect` | what is shown of locks: one, many, and as they change |
//! | `observe`, `trace` | what is let be observed, by whoever shows it |
//! | `door` | what the scheduler, one floor up, asks beside the calls |

mod actor;
mod api;
mod budget;
mod door;
mod entropy;
mod inspect;
mod log_limit;
mod observe;
mod store_io;
mod trace;
mod unread;
mod waiting;

#[cfg(test)]
pub(crate) mod tests;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot, watch};

pub use actor::caller::HoldStream;
pub use api::breaking::BreakRequest;
pub use api::error::CallError;
pub use api::hold_event::{HeldEvent, HoldEvent};
pub use api::occurrences::{Concluding, OutcomeResult};
pub use api::request::{
    BreakResult, BusyAnswer, Deadline, Extended, Gauges, Grant, HeldLock, HoldRequest, HoldState,
    KeyRequest, LeaseHere, LockRecord, LockSelector, LockState, Outcome, Released, ResumeRequest,
    Target, TokenStatus, Validity, WAIT_WITHOUT_END,
};
pub use api::resolve::Host;
pub use api::revision::{REVISION, check_needs};
pub use api::saves::{CheckpointOutcome, Saved};
pub use budget::{Budget, Part};
pub use entropy::{Entropy, SystemEntropy};
pub use inspect::local::HoldHere;
pub use inspect::records::{ListRequest, LockWatch, RecordPage, Under};
pub use inspect::watch_many::{Filter, LocksEvent, LocksWatch};
pub use log_limit::LogLimit;
pub use observe::{
    AcquireResult, EndFacts, GrantFacts, GrantedBy, HoldEnd, LockEvent, LockEventKind, NoObserver,
    Observer, RenewalFailure, ScheduleEventKind,
};
pub use store_io::rate_limit::RateStatus;
pub use store_io::readiness::StoreStatus;
pub use store_io::understood;
pub use trace::{Asked, HoldTrace, TraceContext, TraceHandle, TraceId, TraceLink, TracedRequest};

pub(crate) use actor::timers::{Alarm, Timer, Timers};
pub(crate) use api::admission::{Brought, Settling};
pub(crate) use api::decider::{Decider, Decisions};
pub(crate) use api::resume_token::Resumed;
pub(crate) use api::saves::Saving;
pub(crate) use door::Owing;
pub(crate) use unread::{Teller, Telling, Unread, unread};
pub(crate) use waiting::{Wait, WaitKind};

pub use crate::hold::{
    LossReason, NotConfirmed, PriorityStatus, SaveOutcome, StoreFailure, StoreFailureKind,
};
pub use crate::schedule::Outcome as RunOutcome;
pub use crate::store::{BreakNote, BreakPeriod, MAX_LEASE_DURATION, MIN_LEASE_DURATION};

use actor::caller::Sink;
use actor::inbox::Inbox;
use actor::registry::Registry;
use actor::shares::Shares;
use actor::task::{Command, HoldCall};
use inspect::page_token::PageTokens;
use store_io::rate_limit::RateLimiter;
use store_io::readiness::Readiness;
use waiting::AllWaiting;

use crate::lock::LockPath;
use crate::store::LeaseStore;
use crate::time::{Clock, Instant};
use crate::webjobs::{DotnetTimers, SharedStore};

/// The one handle that callers have: acquires, holds and releases locks. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Coordinator {
    shared: Arc<Shared>,
}

/// The settings of the coordinator.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The host that it serves, and where its locks are.
    pub host: Host,
    /// The settings of every machine.
    pub hold: crate::hold::Settings,
    /// The lease duration for callers that give none.
    pub lease_duration: Duration,
    /// `max_hold` for unary calls that give none (S14).
    pub max_hold_default: Duration,
    /// The holder's name for callers that give none.
    pub holder: String,
    /// This sidecar's name in records: no other process has the same (S34).
    pub sidecar: Arc<str>,
    /// The number of holds at which further callers are refused; callers that already wait may still be
    /// granted a lock.
    pub max_holds: usize,
    /// The greatest number of waiting callers and subscribers of schedules, together (S38).
    pub max_waiters: usize,
    /// How many holds there may be beside those, if they are resumed here (S38).
    pub max_resumes: usize,
    /// The greatest number of locks that are remembered while nobody uses them.
    pub remembered_locks: usize,
    /// Bytes of the records that are kept for watches of many locks, all together (S38).
    pub followed_bytes: usize,
    /// How many runs of schedules are started in a second at the most (T13).
    pub starts_per_second: usize,
    /// Whether locks may be broken through this sidecar (S17).
    pub allow_break: bool,
    /// Whether schedules may be paused, resumed and run by hand through this sidecar (T18).
    pub allow_schedule_changes: bool,
    /// Which requests are served: [`REVISION`], unless a test says otherwise (S37).
    pub revision: u32,
    /// Whether WebJobs hosts are shown who holds a lock: in their layout.
    pub function_instance: bool,
}

#[derive(Debug)]
pub(crate) struct Shared {
    store: Arc<dyn LeaseStore>,
    clock: Arc<dyn Clock>,
    observer: Arc<dyn Observer>,
    entropy: Arc<dyn Entropy>,
    settings: Settings,
    /// Those of the machines, which all of them share.
    machines: Arc<crate::hold::Settings>,
    registry: Mutex<Registry>,
    waiting: Arc<AllWaiting>,
    readiness: Readiness,
    limiter: RateLimiter,
    timers: Timers<Inbox>,
    dotnet_timers: Arc<DotnetTimers>,
    shares: Shares,
    /// Anybody can have a resume refused (S16).
    refused_resumes: LogLimit,
    /// For the copies of locks that are followed.
    followed: Arc<Budget>,
    /// Pages of the store that are being taken into them: one at a time.
    listings: Semaphore,
    pages: PageTokens,
    draining: watch::Sender<bool>,
    owing: OnceLock<Weak<dyn Owing>>,
    callers: AtomicU64,
    /// How many suspected pauses were told to the tasks of locks (S3).
    suspected: AtomicU64,
}

impl Coordinator {
    /// A coordinator over `store`. Its tasks run on the runtime from which it is called.
    #[must_use]
    pub fn new(
        store: Arc<dyn LeaseStore>,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn Observer>,
        settings: Settings,
    ) -> Self {
        Self::with_entropy(store, clock, observer, settings, Arc::new(SystemEntropy))
    }

    /// The same with randomness of the caller's, for tests that replay.
    #[must_use]
    pub fn with_entropy(
        store: Arc<dyn LeaseStore>,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn Observer>,
        settings: Settings,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        let registry = Registry::new(settings.remembered_locks, settings.hold.poll_cap);
        let suspected = clock.suspicions().raised();
        let timers = Arc::<DotnetTimers>::default();
        let store = SharedStore::new(
            store,
            Arc::clone(&clock),
            Arc::clone(&timers),
            settings.function_instance,
        );
        let shared = Shared {
            store: Arc::new(store),
            dotnet_timers: timers,
            machines: Arc::new(settings.hold),
            limiter: RateLimiter::new(Arc::clone(&clock)),
            timers: Timers::new(Arc::clone(&clock)),
            suspected: AtomicU64::new(suspected),
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
            readiness: Readiness::default(),
            pages: PageTokens::new(),
            draining: watch::Sender::new(false),
            owing: OnceLock::new(),
            callers: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Acquires the lock, or waits for it, for a caller that releases by its lease id. Without `max_hold`,
    /// the default applies (S14). Dropping the future leaves the queue, or releases the lock.
    ///
    /// # Errors
    /// When it was neither granted nor busy.
    pub async fn acquire(&self, request: HoldRequest) -> Result<Outcome, CallError> {
        let (reply, answer) = oneshot::channel();
        let mut request = request;
        request.max_hold.get_or_insert(self.shared.settings.max_hold_default);
        let mut presence = self.arrive(&request, Sink::Unary(Some(reply)), None)?;
        let answer = answer.await;
        if !request.request_id.is_empty() {
            presence.confirm();
        }
        presence.done();
        answer.unwrap_or(Err(CallError::UnknownLease))
    }

    /// Acquires the lock, or waits for it, and holds it while the stream lives (S14).
    ///
    /// # Errors
    /// When the request cannot be queued.
    pub fn hold(&self, request: &HoldRequest) -> Result<HoldStream, CallError> {
        self.hold_with(request, None)
    }

    /// The lock that a resume token names, by the key that it carries: a caller may do with that what it may
    /// do with the key.
    ///
    /// # Errors
    /// When the token is not one of ours.
    pub fn resumed(&self, request: &ResumeRequest) -> Result<Target, CallError> {
        Ok(self.read_resume(request)?.target)
    }

    /// Numbers for gauges.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        let share_locks = self.shared.shares.held();
        let registry = self.shared.registry();
        let waiting = &self.shared.waiting;
        let (waiters, subscribers) = (waiting.callers(), waiting.subscribers());
        Gauges { share_locks, waiters, subscribers, ..registry.gauges() }
    }

    /// The settings of this sidecar.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// The clock that validities are counted on.
    #[must_use]
    pub fn clock(&self) -> &dyn Clock {
        self.shared.clock.as_ref()
    }

    /// Sends a new caller to its path's task, which is started if there is none.
    fn admit(
        &self,
        path: &LockPath,
        kind: WaitKind,
        command: impl FnOnce(Wait) -> Command,
    ) -> Result<(), CallError> {
        let shared = &self.shared;
        let mut registry = shared.registry();
        if registry.is_draining() && kind != WaitKind::Write {
            shared.observe_refusal(path, AcquireResult::Failed(StoreFailureKind::ShuttingDown));
            return Err(CallError::shutting_down());
        }
        let wait = registry
            .admit(path, shared.settings.max_holds, &shared.waiting, kind)
            .inspect_err(|_| shared.observe_refusal(path, AcquireResult::OverLimit))?;
        if let Err(command) = registry.send(path, command(wait)) {
            actor::task::start(shared, path, |inbox| registry.add_task(path.clone(), inbox));
            let _ = registry.send(path, command);
        }
        Ok(())
    }

    async fn ask<T>(
        &self,
        call: HoldCall,
        command: impl FnOnce(oneshot::Sender<Result<T, CallError>>) -> Command,
    ) -> Result<T, CallError> {
        let (reply, answer) = oneshot::channel();
        {
            let registry = self.shared.registry();
            let Some(entry) = registry.hold(call.lease_id) else {
                return Err(registry.why_over(call));
            };
            if registry.send(&entry.path, command(reply)).is_err() {
                return Err(registry.unknown_lease());
            }
        }
        answer.await.unwrap_or_else(|_| Err(self.shared.registry().why_over(call)))
    }
}

impl Shared {
    fn owes(&self) -> bool {
        self.owing.get().and_then(Weak::upgrade).is_some_and(|owing| owing.owes())
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn observe_refusal(&self, path: &LockPath, result: AcquireResult) {
        let kind = LockEventKind::NotGranted { result, waited: Duration::ZERO, busy: None };
        self.observe(&LockEvent::of(path, kind));
    }

    fn observe_forgotten(&self, locks: usize) {
        for _ in 0..locks {
            self.observe(&LockEvent::of_sidecar(LockEventKind::Forgotten));
        }
    }

    fn validity(&self, valid_until: Instant) -> Validity {
        let Deadline { at, after } = self.deadline(valid_until);
        Validity { valid_until: at, valid_for: after }
    }

    /// The moment that lies so long before this one.
    fn deadline(&self, at: Instant) -> Deadline {
        let after = at.saturating_since(self.clock.now());
        Deadline { at: self.clock.boot_reading(at), after }
    }
}

const fn released_before(end: HoldEnd) -> Released {
    match end {
        HoldEnd::Lost(reason) => Released::AlreadyLost { reason },
        HoldEnd::NotConfirmed(_) => Released::NotConfirmed,
        HoldEnd::Released | HoldEnd::HandedOver | HoldEnd::ResumedElsewhere => {
            Released::AlreadyReleased
        }
    }
}
