//! `leasehold gc`: delete locks that nobody has held for long.

mod automatic;
mod schedule;

use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;

use crate::cli::connection::{ConfigArgs, init_quiet_logs};
use crate::cli::engine;
use crate::cli::exit::{Exit, UsageError};
use crate::cli::output::{self, OutputArgs};
use crate::cli::spec::{duration, host_id};
use crate::config::Config;
use crate::lock::{Container, FencingToken, HostId, LockPath};
use crate::record::{Record, has_checkpoint};
use crate::store::{LeaseStore, LeaseStoreExt as _, List, StoreError, StoredLock};

pub(in crate::cli) use automatic::{keep_room, make_room};

/// Deletes locks that nobody holds and whose record has not been written for a long time: for names that are
/// not used again, such as one lock for each order. Works on the store itself. Fencing tokens continue to
/// grow when such a lock is created again (S5). The lock of a schedule is deleted, with the schedule's plan,
/// when the schedule has not run for two of its periods more (T21).
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// How long a lock must have been idle, such as 30d: at least 1h.
    #[arg(long, value_parser = duration, value_name = "DURATION", allow_hyphen_values = true)]
    idle: Duration,
    /// Only list what would be deleted, and what is idle but would be kept.
    #[arg(long)]
    dry_run: bool,
    /// The locks under this host id. Default: that of the configuration.
    #[arg(long, value_name = "ID", conflicts_with = "all_hosts", value_parser = host_id)]
    host_id: Option<HostId>,
    /// The locks under every host id, within the configured container and prefix.
    #[arg(long)]
    all_hosts: bool,
    /// Also locks with a checkpoint, which is deleted with them.
    #[arg(long)]
    with_checkpoints: bool,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// A lock that was used more recently is not collected.
const SHORTEST_IDLE: Duration = Duration::from_secs(3_600);
/// Which locks are deleted.
#[derive(Clone, Copy, Debug)]
struct Which {
    idle: Duration,
    with_checkpoints: bool,
    /// Also those whose schedule has not run for long.
    with_schedules: bool,
}

/// Locks a page.
const PAGE: usize = 1_000;

#[derive(Serialize)]
struct Collected {
    dry_run: bool,
    deleted: Vec<String>,
    /// All other locks: those in use, those whose record was too new, and those that were spared.
    kept: usize,
    /// Locks that are idle, and stay nevertheless.
    spared: Vec<Spared>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Spared {
    lock_path: String,
    reason: String,
}

/// What becomes of a lock.
#[derive(Debug, PartialEq, Eq)]
enum LockVerdict {
    /// It is deleted.
    Delete,
    /// It is not idle.
    InUse,
    /// It is idle, but for this reason it stays.
    Spare(String),
}

/// Runs the command.
pub(in crate::cli) async fn run(args: Args) -> anyhow::Result<Exit> {
    if args.idle < SHORTEST_IDLE {
        let problem = "--idle must be at least 1h: a lock that was used recently may be used again";
        return Err(UsageError(problem.to_owned()).into());
    }
    let config = args.config.load()?;
    init_quiet_logs(&config)?;
    let prefix = prefix(&config, args.host_id, args.all_hosts)?;
    let store = engine::open_store(&config, &engine::clock())?;
    let list = pages(config.paths.container.clone(), prefix);
    let with_checkpoints = args.with_checkpoints;
    let which = Which { idle: args.idle, with_checkpoints, with_schedules: true };
    let collected = collect(store.as_ref(), list, which, args.dry_run).await?;
    let text = || {
        let (verb, kept) =
            if collected.dry_run { ("would delete", "keep") } else { ("deleted", "kept") };
        let noun = if collected.deleted.len() == 1 { "lock" } else { "locks" };
        let total = format!("{verb} {} {noun}, {kept} {}", collected.deleted.len(), collected.kept);
        let spared = collected.spared.iter();
        let spared =
            spared.map(|Spared { lock_path, reason }| format!("{kept} {lock_path}: {reason}"));
        let lines = collected.deleted.iter().cloned().chain(spared).chain([total]);
        lines.collect::<Vec<_>>().join("\n")
    };
    output::result(args.output.output, text, &collected)?;
    Ok(Exit::Success)
}

fn prefix(config: &Config, host_id: Option<HostId>, all_hosts: bool) -> anyhow::Result<String> {
    if all_hosts {
        let prefix = config.paths.prefix.as_str();
        return Ok(if prefix.is_empty() { String::new() } else { format!("{prefix}/") });
    }
    let host_id = match host_id {
        Some(host_id) => host_id,
        None => engine::identify(config)?.host_id,
    };
    Ok(config.paths.host_prefix(&host_id))
}

fn pages(container: Container, prefix: String) -> List {
    List { container, prefix, continuation: None, limit: PAGE }
}

/// Deletes what is idle, page by page. A lock that is taken meanwhile stays (its lease, or its new ETag, says
/// so).
async fn collect(
    store: &dyn LeaseStore,
    mut list: List,
    which: Which,
    dry_run: bool,
) -> anyhow::Result<Collected> {
    let mut collected = Collected { dry_run, deleted: Vec::new(), kept: 0, spared: Vec::new() };
    loop {
        let page = store.list(list.clone()).await.context("cannot list the locks")?;
        for (path, lock) in page.locks {
            let is_deleted = match which.judge(store, &path, &lock).await? {
                LockVerdict::Delete => dry_run || delete(store, &path, lock).await?,
                LockVerdict::InUse => false,
                LockVerdict::Spare(reason) => {
                    collected.spared.push(Spared { lock_path: path.to_string(), reason });
                    false
                }
            };
            if is_deleted {
                collected.deleted.push(path.to_string());
            } else {
                collected.kept += 1;
            }
        }
        match page.continuation {
            Some(continuation) => list.continuation = Some(continuation),
            None => return Ok(collected),
        }
    }
}

/// Whether a lock is ours, nobody has it, and its record is old, by the store's clock. S5: a lock that is
/// made again takes its first epoch from that clock, which must have overtaken the last one: a lock that was
/// acquired more often than a thousand times a second is ahead of it. A lock without fields was made and
/// never granted: by a caller that left before its token was written, say. Where hosts of .NET share the
/// store, it may be theirs.
fn is_idle(store: &dyn LeaseStore, lock: &StoredLock, idle: Duration) -> bool {
    let record = Record::from_fields(&lock.fields);
    let was_never_granted = lock.fields.is_empty() && !store.features().has_timers;
    let is_past = |token: FencingToken| token.epoch() < FencingToken::epoch_at(lock.time);
    (was_never_granted || record.token.is_some_and(is_past))
        && !lock.lease.is_held()
        && record.resting_until.is_none_or(|until| until <= lock.time)
        && lock.time.saturating_since(lock.written_at) >= idle
}

impl Which {
    /// Where somebody goes on from is not deleted unless that is asked for (S23), nor what a schedule still
    /// needs (T21).
    async fn judge(
        self,
        store: &dyn LeaseStore,
        path: &LockPath,
        lock: &StoredLock,
    ) -> anyhow::Result<LockVerdict> {
        if !is_idle(store, lock, self.idle) {
            return Ok(LockVerdict::InUse);
        }
        if !self.with_checkpoints
            && has_checkpoint(|name| lock.fields.get(name).map(String::as_str))
        {
            let reason = "it has a checkpoint; --with-checkpoints deletes it too";
            return Ok(LockVerdict::Spare(reason.to_owned()));
        }
        if !self.with_schedules && schedule::is_there(store, path, lock).await? {
            return Ok(LockVerdict::Spare("it has a schedule".to_owned()));
        }
        let needed = schedule::needs(store, path, lock, self.idle).await?;
        Ok(needed.map_or(LockVerdict::Delete, LockVerdict::Spare))
    }
}

async fn delete(store: &dyn LeaseStore, path: &LockPath, lock: StoredLock) -> anyhow::Result<bool> {
    match store.delete(path, lock.etag).await {
        Ok(()) => Ok(true),
        Err(StoreError::Contended | StoreError::Changed | StoreError::NotFound) => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot delete the lock {path}")),
    }
}

#[cfg(test)]
mod tests;
