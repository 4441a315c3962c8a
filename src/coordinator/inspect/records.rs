//! What is known of locks: one, many, and as they change.

use std::time::Duration;

use tokio::sync::oneshot;

use super::local::LocalView;
use crate::coordinator::actor::task::Command;
use crate::coordinator::{
    CallError, Coordinator, LockRecord, LockSelector, LockState, Shared, TokenStatus,
};
use crate::hold::Holding;
use crate::lock::{FencingToken, HostId, LockPath};
use crate::record::{Checkpoint, Labels, Record, ShareName};
use crate::store::{LeaseState, LeaseStoreExt as _, List, Listing, StoreError};
use crate::time::{Instant, UnixMillis};

/// Where locks are.
#[derive(Clone, Debug)]
pub enum Under {
    /// Those of this sidecar's host id.
    OwnHostId,
    /// Those of this host id.
    HostId(HostId),
    /// Those whose paths begin with this, which must lie in this sidecar's namespace.
    Prefix(String),
}

/// Which locks to list.
#[derive(Clone, Debug)]
pub struct ListRequest {
    /// Under which host id, or prefix of paths.
    pub under: Under,
    /// Only those in one of these states; all if there are none.
    pub states: Vec<LockState>,
    /// Only those whose record has all of these labels.
    pub labels: Labels,
    /// Only those whose holder, or last holder, named this share (S34).
    pub share: Option<ShareName>,
    /// Records a page has at the most, 1 to 1,000.
    pub page_size: usize,
    /// Where the page before ended.
    pub page_token: Option<String>,
}

/// A page of locks.
#[derive(Clone, Debug)]
pub struct RecordPage {
    /// The records, in the order of their paths.
    pub records: Vec<LockRecord>,
    /// Where the next page begins; none at the end.
    pub next_page_token: Option<String>,
}

impl Coordinator {
    /// What is known of one lock. Asks the store only if the lock is not held here.
    ///
    /// # Errors
    /// When the store cannot be asked. A lock that was never taken is `Available`.
    pub async fn get(&self, selector: &LockSelector) -> Result<LockRecord, CallError> {
        let path = self.select(selector)?;
        self.shared.record(&path).await
    }

    /// As [`Coordinator::get`], with the checkpoint that the store has: a hold that has gone on elsewhere, or
    /// has ended and does not know it, is no witness of what was saved since (S23).
    ///
    /// # Errors
    /// When the store cannot be asked.
    pub async fn get_with_checkpoint(
        &self,
        selector: &LockSelector,
    ) -> Result<LockRecord, CallError> {
        let path = self.select(selector)?;
        let record = self.shared.record(&path).await?;
        if record.written_at.is_some() {
            return Ok(record);
        }
        let patience = self.shared.patience();
        let stored = self.shared.asked(patience, self.shared.store.read_record(&path)).await;
        let checkpoint = match stored {
            Ok(stored) => Checkpoint::from_fields(&stored.fields),
            Err(StoreError::NotFound | StoreError::ContainerMissing { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(LockRecord { checkpoint, ..record })
    }

    /// A page of those locks in the store that are `visible`. Looks at a bounded number of the store's pages:
    /// where none of their locks is visible, the page is empty and has a token.
    ///
    /// # Errors
    /// When the store cannot be asked, or the page token is not of this listing of this process.
    pub async fn list(
        &self,
        request: ListRequest,
        visible: impl Fn(&LockRecord) -> bool + Send + Sync,
    ) -> Result<RecordPage, CallError> {
        let namespace = &self.shared.settings.host.namespace;
        let prefix = self.prefix(&request.under)?;
        let open = |token| self.shared.pages.open(&prefix, token).ok_or(CallError::PageToken);
        let place = request.page_token.as_deref().map(open).transpose()?;
        let mut list = List {
            container: namespace.container.clone(),
            prefix,
            continuation: place,
            limit: request.page_size,
        };
        let mut records = Vec::new();
        for _ in 0..STORE_PAGES {
            let (page, next) = self.shared.page(list.clone()).await?;
            list.continuation = next;
            records = page;
            records.retain(|record| {
                let in_state = request.states.is_empty() || request.states.contains(&record.state);
                in_state
                    && record.has_labels(&request.labels)
                    && request.share.as_ref().is_none_or(|share| record.is_of_share(share))
                    && visible(record)
            });
            if !records.is_empty() || list.continuation.is_none() {
                break;
            }
        }
        let next = list.continuation.map(|next| self.shared.pages.seal(&list.prefix, &next));
        Ok(RecordPage { records, next_page_token: next })
    }

    /// Follows one lock: a record now, and one at each change that is noticed. Changes made by this sidecar
    /// show at once, those of others when the store is next looked at, every poll cap.
    ///
    /// # Errors
    /// When the path cannot be made.
    pub fn watch(&self, selector: &LockSelector) -> Result<LockWatch, CallError> {
        let path = self.select(selector)?;
        let changes = self.shared.registry().watch(&path);
        Ok(LockWatch { coordinator: self.clone(), path, changes, last: None })
    }

    /// How a presented token compares with the lock's newest (S5). Hand-offs are not in the record (S10):
    /// those of this sidecar are known while it remembers the lock, a token that another handed on since its
    /// last write is newer than what is known here.
    ///
    /// # Errors
    /// When the store cannot be asked.
    pub async fn check_token(
        &self,
        selector: &LockSelector,
        token: FencingToken,
    ) -> Result<(TokenStatus, Option<FencingToken>), CallError> {
        let path = self.select(selector)?;
        let stored = self.shared.record(&path).await?.record.token;
        let newest = stored.max(self.shared.highest(&path).await);
        let status = match newest {
            Some(newest) if token == newest => TokenStatus::Current,
            Some(newest) if token < newest => TokenStatus::Stale,
            Some(_) | None => TokenStatus::Unknown,
        };
        Ok((status, newest))
    }
}

/// A lock that is followed.
#[derive(Debug)]
pub struct LockWatch {
    coordinator: Coordinator,
    path: LockPath,
    changes: tokio::sync::watch::Receiver<u64>,
    last: Option<LockRecord>,
}

impl LockRecord {
    /// Whether its holder, or last holder, named this share (S34).
    #[must_use]
    pub fn is_of_share(&self, share: &ShareName) -> bool {
        self.record.share() == Some(share)
    }

    /// Whether its record has all of these labels, with the same values.
    #[must_use]
    pub fn has_labels(&self, wanted: &Labels) -> bool {
        let labels = self.record.labels.as_map();
        wanted.as_map().iter().all(|(key, value)| labels.get(key) == Some(value))
    }

    /// Whether a watcher need not be told of the other, having seen this one: what it would show is the same,
    /// whether it is known from here or from the store.
    pub(crate) fn shows_the_same(&self, other: &Self) -> bool {
        fn seen(lock: &LockRecord) -> impl PartialEq {
            // Each field is named, so that the compiler asks whether a new one is shown.
            let Record {
                token,
                token_is_unreadable: _,
                holder,
                host_type,
                function,
                scope,
                mode,
                acquired_at,
                resting_until,
                resting_for: _,
                handed_on: _,
                lease: _,
                generation: _,
                attempt: _,
                permits: _,
                sidecar: _,
                sharing: _,
                reserved: _,
                labels,
                write: _,
            } = &lock.record;
            let holder = (holder, host_type, labels.as_map());
            let kept = (resting_until.is_some(), lock.kept_until.is_some());
            let grant = (token, acquired_at, kept);
            let key = (function, scope, mode);
            let checkpoint = lock.checkpoint.as_ref().map(|checkpoint| checkpoint.version);
            (lock.state, lock.held_here, holder, grant, key, checkpoint, &lock.schedule)
        }
        seen(self) == seen(other)
    }
}

impl LockWatch {
    /// The first record, then the next that differs.
    ///
    /// # Errors
    /// When the store cannot be asked; the watch can go on.
    pub async fn next(&mut self) -> Result<LockRecord, CallError> {
        loop {
            self.changes.mark_unchanged();
            let record = self.coordinator.shared.record(&self.path).await?;
            if !self.last.as_ref().is_some_and(|last| last.shows_the_same(&record)) {
                self.last = Some(record.clone());
                return Ok(record);
            }
            let cap = self.coordinator.shared.settings.hold.poll_cap;
            // The sender outlives this receiver; either way the lock is looked at again.
            let _ = tokio::time::timeout(cap, self.changes.changed()).await;
        }
    }
}

impl Shared {
    /// A page of the store, and where the next one begins.
    async fn page(&self, list: List) -> Result<(Vec<LockRecord>, Option<String>), CallError> {
        let listing = self.asked(self.patience(), self.store.list(list)).await?;
        let mut records = Vec::with_capacity(listing.locks.len());
        for (path, stored) in listing.locks {
            let view = self.look(&path).await;
            records.push(self.merged(&path, Some(stored), view.as_ref(), None));
        }
        Ok((records, listing.continuation))
    }

    /// A page of the locks under a prefix, as the store has them.
    pub(crate) async fn store_page(
        &self,
        prefix: &str,
        continuation: Option<String>,
    ) -> Result<Listing, StoreError> {
        let container = self.settings.host.namespace.container.clone();
        let list = List { container, prefix: prefix.to_owned(), continuation, limit: STORE_PAGE };
        self.asked(PATIENCE, self.store.list(list)).await
    }

    /// What is known of the lock: from here if it is held here, else from the store.
    pub(crate) async fn record(&self, path: &LockPath) -> Result<LockRecord, CallError> {
        let view = self.look(path).await;
        if view.as_ref().is_some_and(|view| view.shown().is_some()) {
            return Ok(self.merged(path, None, view.as_ref(), None));
        }
        let stored = self.asked(self.patience(), self.store.read_record(path)).await;
        let stored = match stored {
            Ok(stored) => stored,
            Err(StoreError::NotFound | StoreError::ContainerMissing { .. }) => {
                return Ok(self.merged(path, None, view.as_ref(), None));
            }
            Err(error) => return Err(error.into()),
        };
        let note = match stored.lease {
            LeaseState::Breaking | LeaseState::Broken => {
                self.asked(self.patience(), self.store.read_break_note(path)).await?
            }
            LeaseState::Available | LeaseState::Leased | LeaseState::Expired => None,
        };
        Ok(self.merged(path, Some(stored), view.as_ref(), note))
    }

    /// How long a look at records waits for the store.
    fn patience(&self) -> Duration {
        if self.readiness.is_out() { OUTAGE_PATIENCE } else { PATIENCE }
    }

    pub(crate) async fn look(&self, path: &LockPath) -> Option<LocalView> {
        let (reply, answer) = oneshot::channel();
        let (lock, permit) = self.permit_of(path);
        self.registry().send(&lock, Command::Look(permit, reply)).ok()?;
        answer.await.ok()
    }

    /// The greatest token of the lock that was seen or granted here.
    async fn highest(&self, path: &LockPath) -> Option<FencingToken> {
        let view = self.look(path).await;
        // The lock's task knows of the permits that were wanted since it began.
        view.and_then(|view| view.highest).max(self.registry().lock_cache.highest(path))
    }

    /// What is true now of a lock that is held here.
    pub(crate) fn record_of(&self, holding: &Holding) -> Record {
        Record {
            token: Some(holding.token),
            acquired_at: Some(holding.acquired_at),
            resting_until: holding.resting_until.map(|until| self.wall_at(until)),
            ..holding.terms.record.clone()
        }
    }

    /// A moment that lies ahead, by the wall clock: for people.
    pub(crate) fn wall_at(&self, at: Instant) -> UnixMillis {
        self.clock.wall() + at.saturating_since(self.clock.now())
    }
}

/// Pages of the store that one call for a page of locks looks at, at the most.
const STORE_PAGES: usize = 10;
/// Locks that a page of the store has, where all of them are listed.
const STORE_PAGE: usize = 1_000;

/// How long a call about records waits for the store: less than clients wait for the call, so that they are
/// told why it failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// The same while the store is known not to answer: who looks then wants to know just that.
const OUTAGE_PATIENCE: Duration = Duration::from_secs(2);

/// Looks again at a store that is not ready after this long (S18).
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(5);
