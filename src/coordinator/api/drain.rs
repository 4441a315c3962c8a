//! Shutdown, which hands holds over to a replacement (S15), and the check of a store that nobody asks
//! anything (S18).

use std::sync::Weak;
use std::time::Duration;

use tokio::sync::watch;

use crate::coordinator::Coordinator;
use crate::coordinator::observe::{LockEvent, LockEventKind};
use crate::coordinator::store_io::readiness::{StoreStatus, Subject};
use crate::hold::Event;
use crate::store::LeaseStoreExt as _;
use crate::time::Instant;

/// How long holders that were told of the end have to close before the process ends (S15).
const CLOSING: Duration = Duration::from_secs(1);
/// A store that does not answer a check for this long is not ready (S18).
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a drain checks whether all holds have been released.
const LOOK: Duration = Duration::from_millis(20);
/// Looks again at a store that is not ready after this long (S18).
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

impl Coordinator {
    /// Refuses new callers, tells every holder, keeps renewing, and returns when all have released their
    /// locks and nothing is owed, or `period` is over and the rest have been told that they lost (S15).
    pub async fn drain(&self, period: Duration) {
        self.shut_down(period, false, |ends| Event::DrainStarted { ends });
        // What is owed of runs that are over is written meanwhile (T20).
        let owing = || self.shared.owing.get().and_then(Weak::upgrade);
        let is_done =
            || !owing().is_some_and(|owing| owing.owes()) && !self.shared.registry().has_tasks();
        if Self::until(is_done, period).await {
            return;
        }
        self.shared.registry().tell_all(|| Event::DrainEnded);
        // Those that answer by closing are released; the leases of the others run out (S13).
        self.idle_within(CLOSING).await;
    }

    /// Refuses new callers, ends waits and watches, renews every hold once more, and ends its stream so that
    /// its client resumes it at the replacement that follows (S15, S16): nobody is told draining or lost, and
    /// nothing is released. Comes back when all that is done, or `period` is over.
    pub async fn hand_over(&self, period: Duration) {
        self.shut_down(period, true, |ends| Event::HandOverStarted { ends });
        // The machines give up in time by themselves; what they have asked then may still be answered.
        self.idle_within(period + CLOSING).await;
    }

    fn shut_down(&self, period: Duration, hands_over: bool, event: impl Fn(Instant) -> Event) {
        let ends = self.shared.clock.now() + period;
        {
            let mut registry = self.shared.registry();
            registry.start_draining(hands_over);
            registry.tell_all(|| event(ends));
        }
        self.shared.draining.send_replace(true);
        self.shared.observe(&LockEvent::of_sidecar(LockEventKind::ShutdownBegun));
    }

    /// Keeps knowing whether the store can be used: by real requests where there are any, else by a check, at
    /// most every 30 s while it is well. Runs until dropped.
    pub async fn keep_checking(&self) {
        loop {
            if self.shared.io.readiness.is_stale(self.shared.clock.now()) {
                self.check().await;
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    /// Asks the store now whether it can be used (S18).
    pub async fn check(&self) -> StoreStatus {
        let container = &self.shared.settings.host.namespace.container;
        // What is found wrong is noted, and that is all that a check is for.
        let checking = self.shared.io.store.check(container);
        let _ = self.shared.io.asked_about(Subject::Store, CHECK_TIMEOUT, checking).await;
        self.store_status().borrow().clone()
    }

    /// Whether the store can be used, and each change of that.
    #[must_use]
    pub fn store_status(&self) -> watch::Receiver<StoreStatus> {
        self.shared.io.readiness.subscribe()
    }

    /// Whether a shutdown has begun, and when it does.
    #[must_use]
    pub fn draining(&self) -> watch::Receiver<bool> {
        self.shared.draining.subscribe()
    }

    async fn idle_within(&self, period: Duration) -> bool {
        Self::until(|| !self.shared.registry().has_tasks(), period).await
    }

    async fn until(is_done: impl Fn() -> bool + Send, period: Duration) -> bool {
        let done = async move {
            while !is_done() {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(period, done).await.is_ok()
    }
}
