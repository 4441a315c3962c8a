//! Many locks as they change: one listing of the store each poll cap for all who follow the same locks, and
//! changes made here at once.
//!
//! What is known is kept once for all followers. Each follower remembers how far it has read, so one that
//! reads slowly holds up nobody, and finds the newest record of each lock when it comes back.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::coordinator::Coordinator;
use crate::coordinator::actor::shared::Shared;
use crate::coordinator::budget::Part;
use crate::coordinator::call::{CallError, LockRecord, LockState, Under};
use crate::coordinator::store_io::PATIENCE;
use crate::coordinator::store_io::rate_limit::RateLimited;
use crate::coordinator::watched::WatchedPrefix;
use crate::lock::LockPath;
use crate::store::{BreakNote, LeaseState, LeaseStoreExt as _};
use crate::time::{Instant, UnixMillis};

/// Locks that a follower looks at before it lets others go on.
const BATCH: usize = 64;
/// What it costs to remember that a follower was told of a lock.
const TOLD: usize = 32;
/// Locks that are read one by one after they were lost here, or because somebody breaks them elsewhere; when
/// there are more, the next listing has the former, and the latter are without the note of their break.
const READS: usize = 16;
/// A follower hears this often that everything was told: one that hears nothing takes its connection for
/// dead, and a proxy may close it. A little under the 30 s that callers are promised.
const REPEAT: Duration = Duration::from_secs(25);

/// What happens to locks that are followed.
#[derive(Clone, Debug)]
pub enum LocksEvent {
    /// A lock's record: the first one, or one that differs from that before.
    Changed(Box<LockRecord>),
    /// A lock was deleted, or is not among those that are followed any more.
    Gone(LockPath),
    /// All that is known has been told.
    Listed {
        /// How many locks are followed.
        locks: usize,
        /// When the store was listed.
        at: UnixMillis,
    },
}

/// What of the locks a follower is told.
pub type Filter = Box<dyn Fn(&LockRecord) -> bool + Send + Sync>;

impl Coordinator {
    /// Follows all locks under `under` for which `filter` holds: their records now, then what changes.
    /// Changes made by this sidecar show at once, those of others when the store is next listed, every poll
    /// cap.
    ///
    /// # Errors
    /// When the prefix is not in this sidecar's namespace.
    pub fn watch_locks(&self, under: &Under, filter: Filter) -> Result<LocksWatch, CallError> {
        let prefix = self.host().prefix(under)?;
        let mut registry = self.shared.registry();
        let (followed, is_new) = registry.watchers.follow(&prefix, &self.shared.followed);
        let ticks = followed.follower();
        drop(registry);
        if is_new {
            let shared = Arc::clone(&self.shared);
            tokio::spawn(keep(shared, prefix, Arc::clone(&followed)));
        }
        Ok(LocksWatch {
            shared: Arc::clone(&self.shared),
            followed,
            ticks,
            filter,
            seen: 0,
            told: BTreeSet::new(),
            part: self.shared.followed.nothing(),
            removals: 0,
            ready: VecDeque::new(),
            listed_at: None,
        })
    }
}

/// Keeps what is known of the locks under `prefix` for as long as somebody follows them.
async fn keep(shared: Arc<Shared>, prefix: String, followed: Arc<WatchedPrefix>) {
    let cap = shared.settings.hold.poll_cap;
    loop {
        let next = shared.clock.now() + cap;
        if let Err(error) = keep_until(next, &shared, &prefix, &followed).await {
            shared.registry().watchers.unfollow(&prefix);
            return followed.fail(error);
        }
        if !shared.registry().watchers.keeps_following(&prefix) {
            return;
        }
    }
}

/// Lists the locks once, and takes in what changes here until the next listing is due.
async fn keep_until(
    next: Instant,
    shared: &Shared,
    prefix: &str,
    followed: &WatchedPrefix,
) -> Result<(), CallError> {
    // Everything from before the listing is in it.
    followed.take_changed();
    list(shared, prefix, followed).await?;
    followed.tick();
    loop {
        take_in_changes(shared, followed).await?;
        let left = next.saturating_since(shared.clock.now());
        if left.is_zero() || tokio::time::timeout(left, followed.changed()).await.is_err() {
            return Ok(());
        }
    }
}

async fn list(shared: &Shared, prefix: &str, followed: &WatchedPrefix) -> Result<(), CallError> {
    let listing = followed.state().listings + 1;
    let at = shared.clock.wall();
    let (mut continuation, mut reads) = (None, 0);
    loop {
        // S38: a page is megabytes where names are long, and there may be many prefixes.
        let turn = tokio::time::timeout(PATIENCE, shared.listings.acquire()).await;
        let _turn = turn.map_err(|_elapsed| RateLimited::error(PATIENCE))?;
        let page = shared.store_page(prefix, continuation).await?;
        for (path, stored) in page.locks {
            let view = shared.look(&path).await;
            let note = match stored.lease {
                LeaseState::Breaking => break_note(shared, followed, &path, &mut reads).await,
                LeaseState::Available
                | LeaseState::Leased
                | LeaseState::Expired
                | LeaseState::Broken => None,
            };
            let record = shared.merged(&path, Some(stored), view.as_ref(), note);
            followed.state().put(record, listing)?;
        }
        continuation = page.continuation;
        if continuation.is_none() {
            break;
        }
    }
    followed.state().finish_listing(listing, at);
    Ok(())
}

/// Who breaks a lock and why, which a listing does not say: it is read once a break.
async fn break_note(
    shared: &Shared,
    followed: &WatchedPrefix,
    path: &LockPath,
    reads: &mut usize,
) -> Option<BreakNote> {
    if let Some(known) = followed.state().locks.get(path)
        && known.record.state == LockState::Breaking
    {
        return known.record.break_note.clone();
    }
    if *reads >= READS {
        return None;
    }
    *reads += 1;
    // What cannot be read now is shown without it.
    shared.io.asked(PATIENCE, shared.io.store.read_break_note(path)).await.ok().flatten()
}

/// Takes in what has changed here. The store is asked only of locks that were lost or broken here, and of few
/// of them.
async fn take_in_changes(shared: &Shared, followed: &WatchedPrefix) -> Result<(), CallError> {
    let mut reads = 0;
    for (path, released) in followed.take_changed() {
        let view = shared.look(&path).await;
        let here = view.as_ref().is_some_and(|view| view.shown().is_some());
        let record = if here {
            Some(shared.merged(&path, None, view.as_ref(), None))
        } else if released {
            let state = followed.state();
            state.locks.get(&path).map(|known| LockRecord {
                state: LockState::Available,
                held_here: false,
                lease: None,
                waiters_here: view.as_ref().map_or(0, |view| view.waiters),
                waiting_here: view.map(|view| view.waiting).unwrap_or_default(),
                ..LockRecord::clone(&known.record)
            })
        } else if reads < READS {
            reads += 1;
            // What cannot be read now is in the next listing.
            shared.record(&path).await.ok()
        } else {
            None
        };
        if let Some(record) = record {
            let mut state = followed.state();
            let listing = state.listings;
            state.put(record, listing)?;
        }
    }
    followed.tick();
    Ok(())
}

/// Locks that are followed.
pub struct LocksWatch {
    shared: Arc<Shared>,
    followed: Arc<WatchedPrefix>,
    ticks: watch::Receiver<u64>,
    filter: Filter,
    /// The newest change that was taken along.
    seen: u64,
    /// The locks that were told of.
    told: BTreeSet<LockPath>,
    /// What these have of the budget.
    part: Part,
    /// The removals that were looked for among them.
    removals: u64,
    ready: VecDeque<LocksEvent>,
    /// When all was told last.
    listed_at: Option<Instant>,
}

impl fmt::Debug for LocksWatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LocksWatch").field("told", &self.told.len()).finish_non_exhaustive()
    }
}

impl LocksWatch {
    /// The next event.
    ///
    /// # Errors
    /// When the store cannot be listed, or there is no memory for so many locks (S38). The watch is over
    /// then; watch again.
    pub async fn next(&mut self) -> Result<LocksEvent, CallError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            self.ticks.mark_unchanged();
            if self.take_along()? {
                // Many locks are hidden from it.
                tokio::task::yield_now().await;
                continue;
            }
            if !self.ready.is_empty() {
                continue;
            }
            let now = self.shared.clock.now();
            let left = self.listed_at.map_or(REPEAT, |at| (at + REPEAT).saturating_since(now));
            // The sender lives as long as this; either way it is looked at again.
            let _ = tokio::time::timeout(left, self.ticks.changed()).await;
        }
    }

    /// When the store was listed last; none before all was told for the first time.
    #[must_use]
    pub fn listed_at(&self) -> Option<UnixMillis> {
        self.listed_at.and_then(|_| self.followed.state().listed_at)
    }

    /// Takes along the next of what has changed since the last time, so that nothing is kept for whoever does
    /// not read; at the end of it, that it is all. Answers whether it has found nothing, and must look at
    /// more.
    fn take_along(&mut self) -> Result<bool, CallError> {
        let state = self.followed.state();
        if let Some(failure) = state.failure.clone() {
            return Err(failure);
        }
        for (looked_at, (version, path)) in state.order.range(self.seen + 1..).enumerate() {
            if looked_at == BATCH {
                return Ok(true);
            }
            self.seen = *version;
            let Some(known) = state.locks.get(path) else { continue };
            if (self.filter)(&known.record) {
                if !self.told.contains(path) {
                    if !self.part.take(TOLD) {
                        return Err(CallError::TooManyFollowed);
                    }
                    self.told.insert(path.clone());
                }
                self.ready.push_back(LocksEvent::Changed(known.record.clone()));
                return Ok(false);
            }
            if self.told.remove(path) {
                self.part.give(TOLD);
                self.ready.push_back(LocksEvent::Gone(path.clone()));
                return Ok(false);
            }
        }
        if self.removals != state.removals {
            self.removals = state.removals;
            let (ready, part) = (&mut self.ready, &mut self.part);
            self.told.retain(|path| {
                let stays = state.locks.contains_key(path);
                if !stays {
                    part.give(TOLD);
                    ready.push_back(LocksEvent::Gone(path.clone()));
                }
                stays
            });
        }
        let now = self.shared.clock.now();
        let due = self.listed_at.is_none_or(|at| now >= at + REPEAT);
        if let Some(at) = state.listed_at.filter(|_| due) {
            self.listed_at = Some(now);
            self.ready.push_back(LocksEvent::Listed { locks: self.told.len(), at });
        }
        Ok(false)
    }
}
