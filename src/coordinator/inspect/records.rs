//! What is known of locks: one, many, and as they change.

use std::time::Duration;

use crate::coordinator::Coordinator;
use crate::coordinator::actor::shared::Shared;
use crate::coordinator::actor::view::{LocalView, newest, scheduled};
use crate::coordinator::call::{
    CallError, LockRecord, LockSelector, LockState, TokenStatus, Under,
};
use crate::hold::Handed;
use crate::lock::{FencingToken, LockPath};
use crate::record::{Checkpoint, Labels, Record, ShareName};
use crate::store::{BreakNote, LeaseState, LeaseStoreExt as _, List, StoreError, StoredLock};

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
        let path = self.host().select(selector)?;
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
        let path = self.host().select(selector)?;
        let record = self.shared.record(&path).await?;
        if record.written_at.is_some() {
            return Ok(record);
        }
        let patience = self.shared.io.patience();
        let stored = self.shared.io.asked(patience, self.shared.io.store.read_record(&path)).await;
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
        let prefix = self.host().prefix(&request.under)?;
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
        let path = self.host().select(selector)?;
        let changes = self.shared.registry().watchers.watch(&path);
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
        let path = self.host().select(selector)?;
        let (LockRecord { record, .. }, view) = self.shared.record_now(&path).await?;
        // The lock's task knows of the permits that were wanted since it began.
        let here = view.and_then(|view| view.highest);
        let newest = record.token.max(here).max(self.shared.registry().lock_cache.highest(&path));
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
        let listing = self.io.asked(self.io.patience(), self.io.store.list(list)).await?;
        let mut records = Vec::with_capacity(listing.locks.len());
        for (path, stored) in listing.locks {
            let view = self.look(&path).await;
            records.push(self.merged(&path, Some(stored), view.as_ref(), None));
        }
        Ok((records, listing.continuation))
    }

    /// What is known of the lock: from here if it is held here, else from the store. A caller may have been
    /// granted here what the store shows: of a try that is under way, the answer is waited for.
    pub(in crate::coordinator) async fn record(
        &self,
        path: &LockPath,
    ) -> Result<LockRecord, CallError> {
        let (began, mut changes) = (self.clock.now(), None);
        loop {
            let (record, view) = self.record_now(path).await?;
            let is_being_acquired = view.is_some_and(|view| view.acquiring);
            let left = TRY.saturating_sub(self.clock.now().saturating_since(began));
            if record.state != LockState::Held || !is_being_acquired || left.is_zero() {
                return Ok(record);
            }
            match &mut changes {
                None => changes = Some(self.registry().watchers.watch(path)),
                // The sender outlives this receiver; either way the lock is looked at again.
                Some(changes) => drop(tokio::time::timeout(left, changes.changed()).await),
            }
        }
    }

    /// The same as it is now, and the view of the lock's task that it was made with.
    async fn record_now(
        &self,
        path: &LockPath,
    ) -> Result<(LockRecord, Option<LocalView>), CallError> {
        let view = self.look(path).await;
        if view.as_ref().is_some_and(|view| view.shown().is_some()) {
            return Ok((self.merged(path, None, view.as_ref(), None), view));
        }
        let stored = self.io.asked(self.io.patience(), self.io.store.read_record(path)).await;
        let stored = match stored {
            Ok(stored) => Some(stored),
            Err(StoreError::NotFound | StoreError::ContainerMissing { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let note = match stored.as_ref().map(|stored| stored.lease) {
            Some(LeaseState::Breaking | LeaseState::Broken) => {
                self.io.asked(self.io.patience(), self.io.store.read_break_note(path)).await?
            }
            Some(LeaseState::Available | LeaseState::Leased | LeaseState::Expired) | None => None,
        };
        // The store may have been asked for long.
        let view = self.look(path).await;
        Ok((self.merged(path, stored, view.as_ref(), note), view))
    }

    /// One record from what the store has and what is known here.
    pub(super) fn merged(
        &self,
        path: &LockPath,
        stored: Option<StoredLock>,
        view: Option<&LocalView>,
        note: Option<BreakNote>,
    ) -> LockRecord {
        let written_at = stored.as_ref().map(|stored| stored.written_at);
        let kept_until = view.and_then(|view| view.here.as_ref()?.kept_until);
        let record = match view.and_then(LocalView::shown) {
            Some(here) => LockRecord { written_at, kept_until: None, ..here.clone() },
            None => LockRecord { kept_until, ..as_stored(path, stored, note) },
        };
        let held = matches!(record.state, LockState::Held | LockState::Breaking);
        LockRecord {
            waiters_here: view.map_or(0, |view| view.waiters),
            waiting_here: view.map(|view| view.waiting.clone()).unwrap_or_default(),
            holder_is_last_recorded: held && self.settings.function_instance && !record.held_here,
            record: newest(record.record, self.handed(path, view).as_ref()),
            ..record
        }
    }

    /// The newest grant by a hand-off here (S10).
    pub(in crate::coordinator) fn handed(
        &self,
        path: &LockPath,
        view: Option<&LocalView>,
    ) -> Option<Handed> {
        let handed = view.and_then(|view| view.handed.clone());
        handed.or_else(|| self.registry().lock_cache.handed(path))
    }
}

/// A lock of which nothing is known here.
fn as_stored(path: &LockPath, stored: Option<StoredLock>, note: Option<BreakNote>) -> LockRecord {
    let fields = stored.as_ref().map(|stored| &stored.fields);
    let record = fields.map(Record::from_fields).unwrap_or_default();
    let state = stored.as_ref().map_or(LockState::Available, |stored| match stored.lease {
        LeaseState::Leased => LockState::Held,
        LeaseState::Breaking => LockState::Breaking,
        LeaseState::Available | LeaseState::Broken | LeaseState::Expired => {
            let rests = record.resting_until.is_some_and(|until| until > stored.time);
            if rests { LockState::Resting } else { LockState::Available }
        }
    });
    // A note about an earlier grant says nothing about this one.
    let break_note = note.filter(|note| {
        note.token.map(FencingToken::epoch) == record.token.map(FencingToken::epoch)
    });
    LockRecord {
        path: path.clone(),
        state,
        record,
        written_at: stored.as_ref().map(|stored| stored.written_at),
        waiters_here: 0,
        waiting_here: Vec::new(),
        held_here: false,
        break_note,
        kept_until: None,
        holder_is_last_recorded: false,
        lease: None,
        checkpoint: fields.and_then(Checkpoint::from_fields),
        // What cannot be read is said where schedules are asked for.
        schedule: fields.and_then(scheduled),
    }
}

/// How long a look at one lock waits for the answer to a try for it that is under way here.
const TRY: Duration = Duration::from_secs(1);
/// Pages of the store that one call for a page of locks looks at, at the most.
const STORE_PAGES: usize = 10;
