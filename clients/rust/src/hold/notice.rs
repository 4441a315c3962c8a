//! Word that the lock was broken and the hold ends with its validity (S22).

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use super::held::Hold;
use super::{HoldState, Loss};
use crate::boot_clock::BootInstant;
use crate::messages::{BreakNote, LossReason};
use crate::proto;

/// The lock was broken, and its lease expires: the holder holds the lock until the deadline, and has until
/// then to finish and release, which frees the lock at once. Then the hold is lost ([`LossReason::Broken`]).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Notice {
    /// The end of the validity that the hold has, on this machine's boot clock.
    pub deadline: BootInstant,
    /// Who broke the lock and why, where that is known.
    pub break_note: Option<BreakNote>,
}

impl Notice {
    pub(super) fn new(deadline: BootInstant, note: Option<proto::BreakNote>) -> Self {
        Self { deadline, break_note: note.map(BreakNote::from_wire) }
    }

    /// The loss at the deadline.
    pub(super) fn loss(&self) -> Loss {
        let detail = format!("{self}, and the time that was left is over");
        let break_note = self.break_note.clone().map(Box::new);
        Loss { break_note, ..Loss::new(LossReason::Broken, detail) }
    }
}

impl Notice {
    /// The priority of the waiting caller that takes over. `None` if an operator broke the lock, or if that
    /// is not known.
    #[must_use]
    pub fn for_priority(&self) -> Option<u32> {
        self.break_note.as_ref()?.for_priority
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the lock was broken")?;
        match &self.break_note {
            Some(note) if note.broken_by.is_empty() => write!(formatter, ": {}", note.reason),
            Some(note) => write!(formatter, ": {} (by {})", note.reason, note.broken_by),
            None => Ok(()),
        }
    }
}

impl Hold {
    /// The notice, once the lock was broken.
    #[must_use]
    pub fn notice(&self) -> Option<Notice> {
        self.state().notice()
    }

    /// Completes when the lock was broken and the hold ends with its validity: finish and release. Gentler
    /// than [`lost`](Self::lost), which comes at the deadline. Never, if the lock is not broken.
    pub fn revoked(&self) -> impl Future<Output = Notice> + Send + use<> {
        let state: Arc<HoldState> = Arc::clone(self.state());
        async move {
            let mut watched = state.watch_notice();
            let told = watched.wait_for(Option::is_some).await;
            match told.ok().and_then(|notice| notice.clone()) {
                Some(notice) => notice,
                // Not reached: the sender is in `state`, which lives as long as this future.
                None => std::future::pending().await,
            }
        }
    }
}
