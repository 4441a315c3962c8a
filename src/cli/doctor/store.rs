//! What every store must let a sidecar do, tried on a lock of the doctor's own.

use std::time::Duration;

use super::report::{Finding, Report};
use crate::cli::exit::Exit;
use crate::config::Config;
use crate::host_id::HostIdentity;
use crate::lock::{LeaseId, LockKey, LockMode, LockPath};
use crate::record::{ETag, Record};
use crate::store::{
    Acquire, BreakNote, BreakPeriod, LeaseBroken, LeaseStore, LeaseStoreExt as _, List,
    MIN_LEASE_DURATION, StoreError, Write,
};
use crate::time::{Clock, UnixMillis};

/// An answer that takes longer is told with a warning: renewals are cut off after 2.5 s at the shortest lease
/// (S7).
const SLOW: Duration = Duration::from_secs(1);
/// A try that takes longer is given up, as the sidecar does (S7).
const TIMEOUT: Duration = Duration::from_secs(5);
/// Clocks that are further apart are told with a warning.
const APART: Duration = Duration::from_secs(5);
/// Questions from which the latency is told.
const QUESTIONS: usize = 5;

/// Asks the store for everything that a sidecar asks it for.
pub(super) async fn examine(
    store: &dyn LeaseStore,
    clock: &dyn Clock,
    config: &Config,
    identity: &HostIdentity,
    report: &mut Report,
) {
    if !reach(store, clock, config, report).await {
        return;
    }
    let function = "leasehold.doctor";
    let scope = uuid::Uuid::new_v4().to_string();
    let path = LockKey::new(function, &scope, LockMode::Function)
        .map_err(|error| error.to_string())
        .and_then(|key| {
            let path = config.paths.lock_path(&identity.host_id, &identity.host_type, &key);
            path.map(|path| (key, path)).map_err(|error| error.to_string())
        });
    let (key, path) = match path {
        Ok(found) => found,
        Err(problem) => {
            let advice = "choose another paths.layout";
            report.fail(Finding::bad("lock path", problem, advice), Exit::Misconfigured);
            return;
        }
    };
    let mut trial =
        Trial { store, path, lease_id: LeaseId::from_uuid(uuid::Uuid::new_v4()), report };
    let Some(acquired) = trial.acquire().await else { return };
    let written = trial.hold(&key, acquired).await;
    trial.list().await;
    trial.break_lease(&written, clock.wall(), config.admin.allow_break).await;
    trial.end(written).await;
}

/// Whether the store answers, how fast, and what its clock says.
async fn reach(
    store: &dyn LeaseStore,
    clock: &dyn Clock,
    config: &Config,
    report: &mut Report,
) -> bool {
    let mut took = Vec::with_capacity(QUESTIONS);
    let mut apart = i128::MAX;
    for _ in 0..QUESTIONS {
        let sent = clock.now();
        match limited(store.check(&config.paths.container)).await {
            Ok(time) => {
                let span = clock.now().saturating_since(sent);
                took.push(span);
                let difference = difference(time, clock.wall(), span);
                if difference.abs() < apart.abs() {
                    apart = difference;
                }
            }
            Err(error) => {
                report.fail(of_error("reach", &error), exit_of(&error));
                return false;
            }
        }
    }
    took.sort_unstable();
    let median = took.get(QUESTIONS / 2).copied().unwrap_or_default();
    let slowest = took.last().copied().unwrap_or_default();
    report.add(of_latency(median, slowest));
    report.add(of_clocks(apart));
    true
}

/// Milliseconds that the store's clock is ahead of ours, when its answer took `span` and came now.
fn difference(store: UnixMillis, ours: UnixMillis, span: Duration) -> i128 {
    let half = i128::try_from(span.as_millis() / 2).unwrap_or_default();
    i128::from(store.0) - (i128::from(ours.0) - half)
}

fn of_latency(median: Duration, slowest: Duration) -> Finding {
    let shown = |span: Duration| format!("{:.1} ms", span.as_secs_f64() * 1_000.0);
    let detail = format!(
        "answers within {} (median of {QUESTIONS} requests), the slowest within {}",
        shown(median),
        shown(slowest)
    );
    if slowest < SLOW {
        return Finding::good("reach", detail);
    }
    let advice = "holds are lost more easily with a slow store: run the sidecar in the store's region, and keep \
                  locks.lease_duration long";
    Finding::warning("reach", detail, advice)
}

fn of_clocks(ahead: i128) -> Finding {
    let direction = if ahead < 0 { "behind" } else { "ahead of" };
    let apart = u64::try_from(ahead.unsigned_abs()).unwrap_or(u64::MAX);
    let seconds = Duration::from_millis(apart).as_secs_f64();
    let detail = format!("the store's clock is {seconds:.1} s {direction} this machine's");
    if Duration::from_millis(apart) <= APART {
        return Finding::good("clocks", detail);
    }
    let advice = "locks stay exclusive, but times are shown wrong, and signing in fails beyond some minutes: synchronize this \
                  machine's clock (NTP)";
    Finding::warning("clocks", detail, advice)
}

/// A lock of the doctor's own.
struct Trial<'a> {
    store: &'a dyn LeaseStore,
    path: LockPath,
    lease_id: LeaseId,
    report: &'a mut Report,
}

impl Trial<'_> {
    async fn acquire(&mut self) -> Option<ETag> {
        let request =
            Acquire { lease_id: self.lease_id, duration: MIN_LEASE_DURATION, if_match: None };
        let acquired = limited(self.store.acquire(&self.path, request)).await;
        self.note("create and lease a lock", acquired).map(|acquired| acquired.etag)
    }

    /// Does to a held lock what holders need; the ETag of its record in the end.
    async fn hold(&mut self, key: &LockKey, etag: ETag) -> ETag {
        let record = Record { holder: "leasehold doctor".to_owned(), ..Record::for_key(key) };
        let write = Write {
            lease_id: self.lease_id,
            if_match: Some(etag.clone()),
            fields: record.into_fields(Default::default()),
        };
        let written = limited(self.store.write_record(&self.path, write)).await;
        let written = self.note("write a record (metadata)", written);
        let read = limited(self.store.read_record(&self.path)).await;
        self.note("read a record", read);
        let renewed = limited(self.store.renew(&self.path, self.lease_id, None)).await;
        self.note("renew a lease", renewed);
        written.map_or(etag, |written| written.etag)
    }

    async fn list(&mut self) {
        let container = crate::lock::Container::parse(self.path.container());
        let Ok(container) = container else { return };
        let prefix = self.path.name().to_owned();
        let list = List { container, prefix, continuation: None, limit: 1 };
        let listed = limited(self.store.list(list)).await;
        if let Some(listing) = self.note("list locks", listed)
            && listing.locks.is_empty()
        {
            let advice = "leasehold ls and gc do not see new locks immediately";
            self.report.add(Finding::warning(
                "list locks",
                "a lock that was just created is missing",
                advice,
            ));
        }
    }

    /// Breaks the doctor's own lease: with a SAS, that takes another permission than the rest.
    async fn break_lease(&mut self, etag: &ETag, at: UnixMillis, allow_break: bool) {
        let note = BreakNote {
            period: BreakPeriod::RunOut,
            reason: "tried on its own lock".to_owned(),
            by: "leasehold doctor".to_owned(),
            token: None,
            at,
            for_priority: None,
        };
        let broken = limited(self.store.break_lease(&self.path, note, etag.clone())).await;
        note_break(self.report, allow_break, broken);
    }

    /// Leaves nothing behind.
    async fn end(mut self, etag: ETag) {
        let released = limited(self.store.release(&self.path, self.lease_id, None)).await;
        self.note("release a lease", released);
        let deleted = limited(self.store.delete(&self.path, etag)).await;
        if let Err(error) = deleted {
            // Only `gc` deletes locks.
            let advice = format!(
                "the sidecar does not need this permission; leasehold gc needs it (SAS permission d); the doctor's own lock \
                 {} remains",
                self.path
            );
            self.report.add(Finding::warning("delete a lock", error.chain(), advice));
        } else {
            self.report.add(Finding::good("delete a lock", "allowed"));
        }
    }

    fn note<T>(&mut self, check: &'static str, answer: Result<T, StoreError>) -> Option<T> {
        match answer {
            Ok(value) => {
                self.report.add(Finding::good(check, "allowed"));
                Some(value)
            }
            Err(error) => {
                self.report.fail(of_error(check, &error), exit_of(&error));
                None
            }
        }
    }
}

/// That leases may not be broken stands in the way only where operators may break locks (S17).
fn note_break(report: &mut Report, allow_break: bool, answer: Result<LeaseBroken, StoreError>) {
    const CHECK: &str = "break a lease";
    match answer {
        Ok(_) => report.add(Finding::good(CHECK, "allowed")),
        Err(error @ StoreError::Denied { .. }) if !allow_break => {
            let advice = "leasehold break needs this permission (SAS permission d); the sidecar works without it while \
                          admin.allow_break is false";
            report.add(Finding::warning(CHECK, error.chain(), advice));
        }
        Err(error) => report.fail(of_error(CHECK, &error), exit_of(&error)),
    }
}

pub(super) fn of_error(check: &'static str, error: &StoreError) -> Finding {
    let advice = match error {
        StoreError::Unavailable { .. } => {
            "check the endpoint's name, DNS, the network and the account's firewall from this machine; a sidecar \
             starts without its store, and becomes ready when the store is reachable"
        }
        StoreError::NoDescriptors { .. } => "do what the message says, and run the doctor again",
        StoreError::Recreated { .. } => {
            "wait for that long; if it was not deleted on purpose, find out who deleted it"
        }
        StoreError::Throttled { .. } => {
            "run the doctor again later; if the store is still throttling, reduce the load on the account"
        }
        StoreError::Denied { .. } => {
            "grant the role or permission that the message names (a new role takes some minutes to work), or correct the \
             credentials"
        }
        StoreError::ContainerMissing { .. } => {
            "check the container's name (paths.container); if it is right, create the container as the message says"
        }
        StoreError::Full { .. } => {
            "delete locks that are not used any more (leasehold gc), or raise the limit"
        }
        StoreError::Fatal { .. } => "correct what the message names",
        StoreError::Contended
        | StoreError::LeaseLost { .. }
        | StoreError::Changed
        | StoreError::NotFound
        | StoreError::NotHeld => "another program changes the locks of this store: find out which",
    };
    Finding::bad(check, error.chain(), advice)
}

pub(super) const fn exit_of(error: &StoreError) -> Exit {
    let passes = matches!(
        error,
        StoreError::Unavailable { .. }
            | StoreError::NoDescriptors { .. }
            | StoreError::Throttled { .. }
            | StoreError::Recreated { .. }
    );
    if passes { Exit::Unavailable } else { Exit::Misconfigured }
}

pub(super) async fn limited<T>(
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    tokio::time::timeout(TIMEOUT, call).await.unwrap_or_else(|_elapsed| {
        let source = format!("no answer within {} s", TIMEOUT.as_secs()).into();
        Err(StoreError::Unavailable { sent: true, source })
    })
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
