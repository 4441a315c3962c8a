//! The clients of the load, and what they count.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_client::{Client, Error, LeaseSpec, Outcome, ReleaseOutcome};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::time::{BootClock, Clock as _};

/// Long enough that nobody in a queue is sent away, short enough for the end to come.
const WAIT: Duration = Duration::from_secs(30);
/// After a call that failed.
const PAUSE: Duration = Duration::from_millis(200);

/// What the clients do.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) clients: u32,
    pub(super) locks: u32,
    pub(super) unary: u32,
    pub(super) hold: Duration,
    pub(super) connections: Vec<Client>,
}

/// Numbers of all clients together.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) by_stream: AtomicU64,
    pub(super) by_call: AtomicU64,
    pub(super) busy: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) failed: AtomicU64,
    /// Two clients held one lock, or a token did not grow.
    pub(super) violations: AtomicU64,
    pub(super) waits: Mutex<Vec<Duration>>,
    pub(super) first_failure: Mutex<Option<String>>,
    locks: Vec<Lock>,
}

/// What is known of one lock from outside.
#[derive(Debug, Default)]
struct Lock {
    held: AtomicBool,
    newest_token: AtomicU64,
}

impl Tally {
    pub(super) fn new(locks: u32) -> Self {
        let locks = (0..locks).map(|_| Lock::default()).collect();
        Self { locks, ..Self::default() }
    }

    fn granted(&self, lock: usize, token: u64) {
        let Some(lock) = self.locks.get(lock) else { return };
        let was_held = lock.held.swap(true, Ordering::SeqCst);
        let newest = lock.newest_token.fetch_max(token, Ordering::SeqCst);
        if was_held || newest >= token {
            self.violations.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// To be called before the lock is released.
    fn letting_go(&self, lock: usize) {
        if let Some(lock) = self.locks.get(lock) {
            lock.held.store(false, Ordering::SeqCst);
        }
    }

    fn failed(&self, error: &Error) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let mut first = self.first_failure.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| error.to_string());
    }

    fn waited(&self, span: Duration) {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner).push(span);
    }

    fn released(&self, outcome: ReleaseOutcome) {
        if outcome == ReleaseOutcome::AlreadyLost {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Clients at work.
#[derive(Debug)]
pub(super) struct Running {
    stop: CancellationToken,
    clients: JoinSet<()>,
}

impl Running {
    /// Lets every client give back what it has.
    pub(super) async fn finish(self) {
        self.stop.cancel();
        self.clients.join_all().await;
    }
}

impl Load {
    /// Sets the clients to work.
    pub(super) fn start(self, tally: &Arc<Tally>) -> Running {
        let stop = CancellationToken::new();
        let mut clients = JoinSet::new();
        let connections = self.connections.iter().cycle().cloned();
        for (number, client) in (0..self.clients).zip(connections) {
            let worker = Worker {
                client,
                number,
                by_call: number % 100 < self.unary,
                locks: self.locks,
                hold: self.hold,
                tally: Arc::clone(tally),
                stop: stop.clone(),
            };
            clients.spawn(worker.work());
        }
        Running { stop, clients }
    }
}

struct Worker {
    client: Client,
    number: u32,
    by_call: bool,
    locks: u32,
    hold: Duration,
    tally: Arc<Tally>,
    stop: CancellationToken,
}

impl Worker {
    async fn work(self) {
        for turn in 0_u64.. {
            if self.stop.is_cancelled() {
                return;
            }
            // Even, and the same in each run.
            let mut chance = DefaultHasher::new();
            (self.number, turn).hash(&mut chance);
            let chance = chance.finish();
            let lock = usize::try_from(chance % u64::from(self.locks)).unwrap_or_default();
            let part = u32::try_from((chance >> 32) % 1_000).unwrap_or_default();
            let spec = LeaseSpec::new(format!("bench-{lock}")).with_wait(WAIT);
            let done = if self.by_call {
                self.by_call(lock, spec, self.hold * part / 1_000).await
            } else {
                self.by_stream(lock, spec, self.hold * part / 1_000).await
            };
            if let Err(error) = done {
                self.tally.failed(&error);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    async fn by_stream(&self, lock: usize, spec: LeaseSpec, span: Duration) -> Result<(), Error> {
        let clock = BootClock::new();
        let asked = clock.now();
        let asking = async { self.client.hold(spec).await };
        let outcome = tokio::select! {
            // Left like this, it leaves the queue.
            () = self.stop.cancelled() => return Ok(()),
            outcome = asking => outcome?,
        };
        let Outcome::Granted(guard) = outcome else {
            self.tally.busy.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        };
        self.tally.waited(clock.now().saturating_since(asked));
        self.tally.granted(lock, guard.fencing_token());
        self.tally.by_stream.fetch_add(1, Ordering::Relaxed);
        self.hold(span).await;
        self.tally.letting_go(lock);
        let outcome = match guard.release().await {
            Err(Error::Lost(_)) => ReleaseOutcome::AlreadyLost,
            released => released?.outcome,
        };
        self.tally.released(outcome);
        Ok(())
    }

    async fn by_call(&self, lock: usize, spec: LeaseSpec, span: Duration) -> Result<(), Error> {
        let clock = BootClock::new();
        let asked = clock.now();
        // Never given up half-way: nobody would have the grant.
        let Outcome::Granted(grant) = self.client.acquire(spec).await? else {
            self.tally.busy.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        };
        self.tally.waited(clock.now().saturating_since(asked));
        self.tally.granted(lock, grant.fencing_token);
        self.tally.by_call.fetch_add(1, Ordering::Relaxed);
        self.hold(span).await;
        self.tally.letting_go(lock);
        let released = self.client.release(grant.lease_id).await?;
        self.tally.released(released.outcome);
        Ok(())
    }

    async fn hold(&self, span: Duration) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = tokio::time::sleep(span) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s1_two_holders_and_s5_a_token_that_does_not_grow_are_counted() {
        let tally = Tally::new(2);
        tally.granted(0, 5);
        tally.granted(1, 5);
        assert_eq!(tally.violations.load(Ordering::Relaxed), 0);
        tally.granted(0, 6);
        assert_eq!(tally.violations.load(Ordering::Relaxed), 1, "held already");
        tally.letting_go(0);
        tally.granted(0, 6);
        assert_eq!(tally.violations.load(Ordering::Relaxed), 2, "the same token");
    }
}
