//! What is deleted without being asked for: idle locks, when the limit of a store nears (S18).

use std::time::Duration;

use crate::store::{SqliteStore, StoreError};

use super::{Which, collect, pages};
use crate::cli::times::span;

/// How often it is looked whether the limit nears.
const EACH: Duration = Duration::from_secs(60);
/// How long locks must have been idle; those that have been for longest go first.
const IDLE: [Duration; 2] = [Duration::from_secs(86_400), super::SHORTEST_IDLE];

/// Makes room from time to time, for as long as the sidecar runs. Only the embedded store has a limit.
pub(in crate::cli) async fn keep_room(embedded: Option<&SqliteStore>) {
    let Some(store) = embedded else { return std::future::pending().await };
    loop {
        make_room(store).await;
        tokio::time::sleep(EACH).await;
    }
}

/// Deletes idle locks if the store's limit is near.
pub(in crate::cli) async fn make_room(store: &SqliteStore) {
    if let Err(error) = try_to_make_room(store).await {
        tracing::warn!(error = format!("{error:#}"), "could not make room for more locks");
    }
}

async fn try_to_make_room(store: &SqliteStore) -> anyhow::Result<()> {
    for idle in IDLE {
        let Some((_, limit)) = near_limit(store).await? else { return Ok(()) };
        let which = Which { idle, with_checkpoints: false, with_schedules: false };
        let mut deleted = 0;
        // All that count: paths.container and paths.prefix may have been others.
        for container in store.containers().await? {
            let every_lock = pages(container, String::new());
            deleted += collect(store, every_lock, which, false).await?.deleted.len();
        }
        if deleted > 0 {
            tracing::info!(
                deleted,
                limit,
                idle = %span(idle),
                "deleted locks that were idle for so long: the limit is near (store.embedded.max_locks)"
            );
        }
    }
    if let Some((entries, limit)) = near_limit(store).await? {
        tracing::warn!(
            entries,
            limit,
            "the limit of locks and schedules is near (store.embedded.max_locks), and no more of them are idle"
        );
    }
    Ok(())
}

/// What is there and what may be, if nine tenths are.
async fn near_limit(store: &SqliteStore) -> Result<Option<(u64, u64)>, StoreError> {
    let usage = store.usage().await?.map(|usage| (usage.entries, usage.most));
    Ok(usage.filter(|(entries, most)| entries.saturating_mul(10) >= most.saturating_mul(9)))
}

#[cfg(test)]
#[path = "automatic_tests.rs"]
mod tests;
