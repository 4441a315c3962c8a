//! What the scheduler, one floor up, asks of the locks beside the calls that callers have: their clock, their
//! store and settings, and the holds that its runs have.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Coordinator;
use super::actor::arriving::{Brought, Settling};
use super::actor::shared::Owing;
use super::actor::timers::{Alarm, Timers};
use super::call::{CallError, Deadline, LockRecord};
use super::observe::LockEvent;
use super::page_token::PageTokens;
use super::store_io::PATIENCE;
use super::waiting::{Wait, WaitKind};
use crate::lock::{LeaseId, LockPath};
use crate::record::Record;
use crate::store::{LeaseStore, StoreError};
use crate::webjobs::DotnetTimers;

impl Coordinator {
    /// A drain waits for this one as well; the first that is said so stays.
    pub(crate) fn waits_for(&self, owing: Weak<dyn Owing>) {
        let _ = self.shared.owing.set(owing);
    }

    pub(crate) fn store(&self) -> &dyn LeaseStore {
        self.shared.io.store.as_ref()
    }

    /// The .NET timers beside whose records something is written (T22).
    pub(crate) fn dotnet_timers(&self) -> &Arc<DotnetTimers> {
        &self.shared.dotnet_timers
    }

    /// Asks the store something that no lock waits for, in its turn and not without end (S19).
    pub(crate) async fn asked<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.shared.io.asked(PATIENCE, call).await
    }

    pub(crate) fn observe(&self, event: &LockEvent<'_>) {
        self.shared.observe(event);
    }

    /// Timers on the clock of the locks.
    pub(crate) fn timers<A: Alarm>(&self) -> Timers<A> {
        Timers::new(Arc::clone(&self.shared.clock))
    }

    /// A number by chance.
    pub(crate) fn seed(&self) -> u64 {
        self.shared.entropy.seed()
    }

    /// Takes a place among all that wait here (S38).
    pub(crate) fn begin_waiting(&self, kind: WaitKind) -> Result<Wait, CallError> {
        self.shared.waiting.begin(kind)
    }

    /// Whether the hold with this lease id is here, on this lock.
    pub(crate) fn has_hold(&self, lease_id: LeaseId, path: &LockPath) -> bool {
        self.shared.registry().holds.get(&lease_id).is_some_and(|entry| entry.path == *path)
    }

    /// A deadline so long before another one, by the same clocks (S21).
    pub(crate) fn deadline_before(&self, ends: &Deadline, before: Duration) -> Deadline {
        self.shared.deadline(self.clock().now() + ends.after.saturating_sub(before))
    }

    /// One try to have something written under the lock's lease that is nobody's to hold.
    pub(crate) async fn settle_at(
        &self,
        path: &LockPath,
        record: Record,
        lease_duration: Duration,
        brought: Brought,
    ) -> Result<Settling, CallError> {
        self.shared.settle_at(path, record, lease_duration, brought).await
    }

    /// What is known of a lock, here and in the store.
    pub(crate) async fn record(&self, path: &LockPath) -> Result<LockRecord, CallError> {
        self.shared.record(path).await
    }

    /// The tokens of pages, which are good for as long as the process lives.
    pub(crate) fn pages(&self) -> &PageTokens {
        &self.shared.pages
    }
}
