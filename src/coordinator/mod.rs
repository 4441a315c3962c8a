//! Makes machines run: one task a lock, with all of its permits and one timer, the registry of holds, limits,
//! drain.
//!
//! Rules: S3 (the clock is read after every wait), S6 (a request is never cut by its caller), S12 (one task
//! a lock), S15 (drain), S16 (resume tokens), S18 (readiness), S34 and S35 (what is known of shares). May
//! import: queue, hold, sharing, webjobs, store, schedule, record, lock, text, timetable, time's Clock. To
//! add a call: a method of [`Coordinator`] here or in the file of its subject; new behaviour goes into
//! `hold` first.
//!
//! Each row imports from rows above it only (`tests/tidy`), and nothing by way of this file; first come
//! values, then what is done with them:
//!
//! | file or folder | what is in it |
//! | --- | --- |
//! | `budget`, `entropy`, `log_limit`, `unread` | memory, chance, lines of the log, streams: what knows nothing of locks |
//! | `page_token`, `store_io` | where a listing goes on; what is asked of the store, and how often that may be |
//! | `call` | what callers ask, and are answered |
//! | `observe`, `settings` | what happens and may be observed; what a sidecar is set to, and where its locks are |
//! | `trace`, `waiting`, `watched` | who observes, and follows holds; how many wait; who watches which locks |
//! | `actor` | one task a lock: what it is told, what its machines answer, and whom it tells |
//! | `Coordinator` | the one handle that callers have |
//! | `inspect` | what is shown of locks: one, many, and as they change |
//! | `api` | the calls |
//! | `door` | what the scheduler, one floor up, asks beside the calls |

mod actor;
mod api;
mod budget;
mod call;
mod door;
mod entropy;
mod inspect;
mod log_limit;
mod observe;
mod page_token;
mod settings;
mod store_io;
mod trace;
mod unread;
mod waiting;
mod watched;

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

pub use actor::caller::HoldStream;
pub use api::breaking::BreakRequest;
pub use budget::{Budget, Part};
pub use call::{
    BreakResult, BusyAnswer, CallError, CheckpointOutcome, Concluding, Deadline, Extended, Gauges,
    Grant, HeldEvent, HeldLock, HoldEvent, HoldRequest, HoldState, KeyRequest, LeaseHere,
    LockRecord, LockSelector, LockState, Outcome, OutcomeResult, REVISION, Released, ResumeRequest,
    Saved, Target, TokenStatus, TraceContext, Under, Validity, WAIT_WITHOUT_END, check_needs,
};
pub use entropy::{Entropy, SystemEntropy};
pub use inspect::local::HoldHere;
pub use inspect::records::{ListRequest, LockWatch, RecordPage};
pub use inspect::watch_many::{Filter, LocksEvent, LocksWatch};
pub use log_limit::LogLimit;
pub use observe::{
    AcquireResult, EndFacts, GrantFacts, GrantedBy, HoldEnd, LockEvent, LockEventKind,
    RenewalFailure, ScheduleEventKind,
};
pub use settings::{Host, Settings};
pub use store_io::rate_limit::RateStatus;
pub use store_io::readiness::StoreStatus;
pub use store_io::understood;
pub use trace::{
    Asked, HoldTrace, NoObserver, Observer, TraceHandle, TraceId, TraceLink, TracedRequest,
};

pub(crate) use actor::arriving::{Brought, Settling};
pub(crate) use actor::holder::Saving;
pub(crate) use actor::resume_token::Resumed;
pub(crate) use actor::shared::Owing;
pub(crate) use actor::timers::{Alarm, Timer, Timers};
pub(crate) use call::{Decider, Decisions};
pub(crate) use unread::{Teller, Telling, Unread, unread};
pub(crate) use waiting::{Wait, WaitKind};

pub use crate::hold::{
    LossReason, NotConfirmed, PriorityStatus, SaveOutcome, StoreFailure, StoreFailureKind,
};
pub use crate::schedule::Outcome as RunOutcome;
pub use crate::store::{BreakNote, BreakPeriod, MAX_LEASE_DURATION, MIN_LEASE_DURATION};

use crate::store::LeaseStore;
use crate::time::Clock;
use actor::shared::Shared;

/// The one handle that callers have: acquires, holds and releases locks. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Coordinator {
    shared: Arc<Shared>,
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
        let shared = Shared::new(store, clock, observer, settings, entropy);
        Self { shared: Arc::new(shared) }
    }

    /// The settings of this sidecar.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// The host that this sidecar serves.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.shared.settings.host
    }

    /// The clock that validities are counted on.
    #[must_use]
    pub fn clock(&self) -> &dyn Clock {
        self.shared.clock.as_ref()
    }
}
