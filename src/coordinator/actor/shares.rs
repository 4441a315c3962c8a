//! The shares of which somebody here holds locks or waits for them (S34, S35): what machines are told of
//! them, and their balance.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::shared::Shared;
use super::task::Task;
use crate::hold::Event;
use crate::lock::{LockPath, Permit};
use crate::record::{Record, ShareName};
use crate::sharing::{Share, Wanted};
use crate::time::Instant;

/// How often it is looked whether a share is to be rebalanced.
const BETWEEN_LOOKS: Duration = Duration::from_secs(5);
/// How often the locks of a share are listed for that: most of them are known from waiting for them.
const BETWEEN_LISTINGS: Duration = Duration::from_secs(300);

/// All shares, by their names.
#[derive(Debug, Default)]
pub(in crate::coordinator) struct Shares(Mutex<BTreeMap<ShareName, ShareHere>>);

#[derive(Debug)]
struct ShareHere {
    share: Share<LockPath>,
    /// Whether a task looks after its balance.
    is_balanced: bool,
}

impl Shares {
    fn with<T>(&self, name: &ShareName, of: impl FnOnce(&mut ShareHere) -> T) -> T {
        let new = || ShareHere { share: Share::new(name.clone()), is_balanced: false };
        of(self.lock().entry(name.clone()).or_insert_with(new))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ShareName, ShareHere>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task of a lock has failed: whatever it held or was about to acquire, it does not any more.
    pub(super) fn forget(&self, path: &LockPath) {
        self.lock().retain(|_, known| !known.share.leave(path) || known.is_balanced);
    }

    /// Locks held here that belong to a share.
    pub(in crate::coordinator) fn held(&self) -> usize {
        let shares = self.lock();
        shares.values().map(|known| usize::try_from(known.share.held()).unwrap_or(usize::MAX)).sum()
    }
}

impl Task {
    /// Before an event: tells the machine how its share stands, for the caller that the event brings too.
    pub(super) fn enter_share(&mut self, event: &Event) -> Option<ShareName> {
        let arriving =
            if let Event::CallerArrived { terms, .. } = event { terms.share() } else { None };
        let name = self.queue.first().share().or(arriving)?.clone();
        let cap = self.shared.machines.poll_cap;
        let standing = |known: &mut ShareHere| known.share.standing(&self.path, cap);
        self.queue.stand(self.shared.shares.with(&name, standing));
        Some(name)
    }

    /// After it: takes in what the machine does now, for the share that it was told of and the one that it
    /// names.
    pub(super) fn leave_share(&mut self, entered: Option<ShareName>) {
        let machine = self.queue.first();
        let named = machine.share().cloned();
        if let Some(entered) = entered.filter(|entered| named.as_ref() != Some(entered)) {
            let mut shares = self.shared.shares.lock();
            if let Some(known) = shares.get_mut(&entered)
                && known.share.leave(&self.path)
                && !known.is_balanced
            {
                shares.remove(&entered);
            }
        }
        let Some(name) = named else { return };
        let wanted =
            Wanted { rebalances: machine.rebalances(), priority: machine.front_priority() };
        let (used, now) = (machine.share_use(), self.shared.clock.now());
        let (stirred, begins) = self.shared.shares.with(&name, |known| {
            let stirred = known.share.note(&self.path, used, wanted, now);
            let begins = known.share.rebalances() && !known.is_balanced;
            known.is_balanced |= begins;
            (stirred, begins)
        });
        for path in stirred {
            // A task that has ended since waits for nothing.
            self.shared.registry().tell(&path, Permit::FIRST, Event::ShareStirred);
        }
        if begins {
            tokio::spawn(keep_balance(Arc::clone(&self.shared), name));
        }
    }

    /// The lease of another's hold is broken so that its lock moves here (S35). Told before the answer, which
    /// may be lost.
    pub(super) fn note_move(&self) {
        let Some(name) = self.queue.first().share() else { return };
        if let Some(known) = self.shared.shares.lock().get_mut(name) {
            known.share.moved(self.shared.clock.now());
        }
    }
}

/// Looks after the balance of a share for as long as somebody here waits who wants that (S35).
async fn keep_balance(shared: Arc<Shared>, name: ShareName) {
    let mut listed_at: Option<Instant> = None;
    loop {
        tokio::time::sleep(BETWEEN_LOOKS).await;
        let now = shared.clock.now();
        if ends(&shared, &name) {
            return;
        }
        if listed_at.is_none_or(|at| now.saturating_since(at) >= BETWEEN_LISTINGS) {
            listed_at = Some(now);
            list(&shared, &name).await;
        }
        let random = shared.entropy.seed();
        let now = shared.clock.now();
        let chosen = shared
            .shares
            .lock()
            .get_mut(&name)
            .and_then(|known| known.share.next_move(random, now));
        if let Some(path) = chosen {
            // A task that has ended since waits for nothing.
            shared.registry().tell(&path, Permit::FIRST, Event::MoveAsked);
        }
    }
}

/// Whether nobody here wants the share balanced any more; then nobody looks after it.
fn ends(shared: &Shared, name: &ShareName) -> bool {
    let mut shares = shared.shares.lock();
    let Some(known) = shares.get_mut(name) else { return true };
    let is_over = *shared.draining.borrow() || !known.share.rebalances();
    if is_over {
        known.is_balanced = false;
        if known.share.keys().is_empty() {
            shares.remove(name);
        }
    }
    is_over
}

/// Lists the locks of the share: there may be some that nobody here waits for. What cannot be listed is
/// looked at again next time.
async fn list(shared: &Shared, name: &ShareName) {
    let host = &shared.settings.host;
    let prefix = host.namespace.host_prefix(&host.host_id);
    let (mut found, mut continuation) = (BTreeMap::new(), None);
    loop {
        let page = match shared.store_page(&prefix, continuation).await {
            Ok(page) => page,
            Err(error) => {
                tracing::debug!(share = %name, error = %error.chain(), "a share could not be listed");
                return;
            }
        };
        for (path, stored) in page.locks.into_iter().filter(|(_, stored)| stored.lease.is_held()) {
            let record = Record::from_fields(&stored.fields);
            if record.share() == Some(name) {
                found.insert(path, record);
            }
        }
        continuation = page.continuation;
        if continuation.is_none() {
            break;
        }
    }
    if let Some(known) = shared.shares.lock().get_mut(name) {
        known.share.listed(found.iter().map(|(path, record)| (path.clone(), record)));
    }
}
