//! Who watches which locks, and what is known of those that are followed: kept once for all who follow the
//! same ones, and within a budget of bytes, as whoever may read locks can follow many prefixes (S38).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use super::budget::{Budget, Part};
use super::call::{CallError, LockRecord};
use crate::lock::LockPath;
use crate::record::{Labels, Record};
use crate::schedule::{Ended, Occasion, ScheduleRecord};
use crate::time::UnixMillis;

/// Locks that have changed here and are not taken in yet; what is over is in the next listing.
const CHANGED_HERE: usize = 4_096;
/// What a lock costs beside its record: its places in two maps, as measured.
const PLACES: usize = 192;
/// What a text costs beside its bytes.
const TEXT: usize = 16;
/// What a map of labels has a node for, and what a node costs.
const LABELS: (usize, usize) = (6, 560);

/// Who watches locks, one or all whose names begin alike.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    watched: HashMap<LockPath, watch::Sender<u64>>,
    /// By what the names in the container begin with.
    followed: HashMap<String, Arc<WatchedPrefix>>,
}

impl Watchers {
    /// Lets a watcher know of changes to `path` made by this sidecar.
    pub(super) fn watch(&mut self, path: &LockPath) -> watch::Receiver<u64> {
        self.watched.retain(|_, sender| sender.receiver_count() > 0);
        self.watched.entry(path.clone()).or_insert_with(|| watch::channel(0).0).subscribe()
    }

    /// Those who follow the locks under `prefix`, and whether there were none.
    pub(super) fn follow(
        &mut self,
        prefix: &str,
        budget: &Arc<Budget>,
    ) -> (Arc<WatchedPrefix>, bool) {
        if let Some(followed) = self.followed.get(prefix) {
            return (Arc::clone(followed), false);
        }
        let followed = WatchedPrefix::new(budget);
        self.followed.insert(prefix.to_owned(), Arc::clone(&followed));
        (followed, true)
    }

    /// Nobody can follow the locks under `prefix` by what was kept until now.
    pub(super) fn unfollow(&mut self, prefix: &str) {
        self.followed.remove(prefix);
    }

    /// Whether somebody still follows the locks under `prefix`; if not, whoever comes begins anew.
    pub(super) fn keeps_following(&mut self, prefix: &str) -> bool {
        let goes_on = self.followed.get(prefix).is_some_and(|followed| followed.has_followers());
        if !goes_on {
            self.unfollow(prefix);
        }
        goes_on
    }

    pub(super) fn changed(&self, path: &LockPath) {
        self.tell_watchers(path, false);
    }

    /// The same, and nobody holds the lock unless it was handed on here.
    pub(super) fn released(&self, path: &LockPath) {
        self.tell_watchers(path, true);
    }

    fn tell_watchers(&self, path: &LockPath, released: bool) {
        if let Some(sender) = self.watched.get(path) {
            sender.send_modify(|changes| *changes += 1);
        }
        for (prefix, followed) in &self.followed {
            if path.name().starts_with(prefix) {
                followed.note(path, released);
            }
        }
    }
}

/// What all followers of the same locks share.
#[derive(Debug)]
pub(super) struct WatchedPrefix {
    state: Mutex<FollowedLocks>,
    /// Moves with everything that there is to tell; its receivers are the followers.
    ticks: watch::Sender<u64>,
    /// Locks that have changed here, and whether they were released.
    changed_here: Mutex<BTreeMap<LockPath, bool>>,
    wake: Notify,
}

#[derive(Debug)]
pub(super) struct FollowedLocks {
    pub(super) locks: BTreeMap<LockPath, FollowedLock>,
    /// The locks in the order of their newest changes.
    pub(super) order: BTreeMap<u64, LockPath>,
    budget: Arc<Budget>,
    /// The newest change.
    version: u64,
    /// How often locks were taken out.
    pub(super) removals: u64,
    pub(super) listings: u64,
    /// When the newest listing was made.
    pub(super) listed_at: Option<UnixMillis>,
    pub(super) failure: Option<CallError>,
}

#[derive(Debug)]
pub(super) struct FollowedLock {
    pub(super) record: Box<LockRecord>,
    /// What it has of the budget.
    _part: Part,
    version: u64,
    /// The listing in which it was found last.
    listing: u64,
}

impl WatchedPrefix {
    fn new(budget: &Arc<Budget>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(FollowedLocks {
                locks: BTreeMap::new(),
                order: BTreeMap::new(),
                budget: Arc::clone(budget),
                version: 0,
                removals: 0,
                listings: 0,
                listed_at: None,
                failure: None,
            }),
            ticks: watch::Sender::default(),
            changed_here: Mutex::default(),
            wake: Notify::new(),
        })
    }

    /// A lock has changed here.
    fn note(&self, path: &LockPath, released: bool) {
        let mut changed = self.changed_here.lock().unwrap_or_else(PoisonError::into_inner);
        if changed.len() < CHANGED_HERE || changed.contains_key(path) {
            changed.insert(path.clone(), released);
        }
        drop(changed);
        self.wake.notify_one();
    }

    pub(super) fn take_changed(&self) -> BTreeMap<LockPath, bool> {
        let mut changed = self.changed_here.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *changed)
    }

    /// Waits until a lock has changed here.
    pub(super) async fn changed(&self) {
        self.wake.notified().await;
    }

    fn has_followers(&self) -> bool {
        self.ticks.receiver_count() > 0
    }

    pub(super) fn follower(&self) -> watch::Receiver<u64> {
        self.ticks.subscribe()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, FollowedLocks> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is something to tell.
    pub(super) fn tick(&self) {
        self.ticks.send_modify(|ticks| *ticks += 1);
    }

    /// Nothing is known any more: followers are told why, whenever they read.
    pub(super) fn fail(&self, error: CallError) {
        let mut state = self.state();
        (state.locks, state.order) = (BTreeMap::new(), BTreeMap::new());
        state.failure = Some(error);
        drop(state);
        self.tick();
    }
}

impl FollowedLocks {
    /// Takes a record in, if there is memory for it.
    pub(super) fn put(&mut self, record: LockRecord, listing: u64) -> Result<(), CallError> {
        let known = self.locks.get_mut(&record.path);
        let mut before = None;
        if let Some(known) = known {
            known.listing = listing;
            let shown = &known.record;
            let same_wait = shown.waiters_here == record.waiters_here
                && shown.waiting_here == record.waiting_here;
            if same_wait && shown.shows_the_same(&record) {
                return Ok(());
            }
            before = Some(known.version);
        }
        let bytes = PLACES + record.bytes();
        let mut part = self.budget.nothing();
        // What is new leaves something for the growth of what others follow already.
        let is_new = self.listings == 0;
        if !(if is_new { part.take_modestly(bytes) } else { part.take(bytes) }) {
            return Err(CallError::TooManyFollowed);
        }
        if let Some(version) = before {
            self.order.remove(&version);
        }
        self.version += 1;
        let (path, version) = (record.path.clone(), self.version);
        self.order.insert(version, path.clone());
        let record = Box::new(record);
        self.locks.insert(path, FollowedLock { record, _part: part, version, listing });
        Ok(())
    }

    /// Takes out what the newest listing has not found.
    pub(super) fn finish_listing(&mut self, listing: u64, at: UnixMillis) {
        let before = self.locks.len();
        let order = &mut self.order;
        self.locks.retain(|_, known| {
            let stays = known.listing == listing;
            if !stays {
                order.remove(&known.version);
            }
            stays
        });
        self.removals += u64::from(self.locks.len() < before);
        (self.listings, self.listed_at) = (listing, Some(at));
    }
}

impl LockRecord {
    /// Whether a watcher need not be told of the other, having seen this one: what it would show is the same,
    /// whether it is known from here or from the store.
    pub(super) fn shows_the_same(&self, other: &Self) -> bool {
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

    /// Bytes of memory that it takes.
    fn bytes(&self) -> usize {
        let Self { path, record, break_note, checkpoint, schedule, .. } = self;
        let note = break_note.as_ref().map_or(0, |note| text(&note.reason) + text(&note.by));
        let value = checkpoint.as_ref().map_or(0, |it| TEXT + it.value.as_bytes().len());
        let schedule = schedule.as_deref().map_or(0, of_schedule);
        let waiting: usize =
            self.waiting_here.iter().map(|name| size_of::<String>() + text(name)).sum();
        let parts = of_record(record) + note + value + schedule + waiting;
        size_of::<Self>() + TEXT + path.as_str().len() + parts
    }
}

fn of_record(record: &Record) -> usize {
    // Each field is named, so that the compiler asks what a new one takes.
    let Record {
        token: _,
        token_is_unreadable: _,
        holder,
        host_type,
        function,
        scope,
        mode,
        acquired_at: _,
        resting_until: _,
        resting_for: _,
        handed_on: _,
        lease,
        generation: _,
        attempt,
        permits: _,
        sidecar,
        sharing,
        reserved,
        labels,
        write,
    } = record;
    let texts = [holder, host_type, function, scope, mode, attempt, write];
    let texts: usize = texts.into_iter().chain(lease).map(text).sum();
    let sharing = sharing.as_deref().map_or(0, |sharing| {
        let share = sharing.share.as_ref().map_or(0, |share| TEXT + share.as_str().len());
        TEXT + size_of_val(sharing) + share
    });
    let reserved = reserved.as_deref().map_or(0, |reserved| TEXT + size_of_val(reserved));
    texts + TEXT + sidecar.len() + sharing + reserved + of_labels(labels)
}

fn of_labels(labels: &Labels) -> usize {
    let labels = labels.as_map();
    let (a_node, node) = LABELS;
    let texts: usize = labels.iter().map(|(key, value)| text(key) + text(value)).sum();
    texts + labels.len().div_ceil(a_node) * node
}

fn of_schedule(schedule: &ScheduleRecord) -> usize {
    let of_run = |occasion: &Occasion| match occasion {
        Occasion::Scheduled(_) => 0,
        Occasion::ByHand { request_id, .. } => text(request_id),
    };
    let run = schedule.run.as_ref().map_or(0, |run| of_run(&run.occasion));
    let ended: usize = schedule.ended.iter().map(|ended| of_run(&ended.occasion)).sum();
    TEXT + size_of_val(schedule) + run + ended + schedule.ended.capacity() * size_of::<Ended>()
}

const fn text(text: &String) -> usize {
    if text.capacity() == 0 { 0 } else { TEXT + text.capacity() }
}
