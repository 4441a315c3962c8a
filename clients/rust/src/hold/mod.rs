//! A hold as its holder has it, and a task that keeps it true.
//!
//! Rules: S3 (the clock is read after every wake-up), S4 (lost is final), S13 (the hold ends here before the
//! release is sent and before the stream ends), S14, S16 (resume), S21 (until when a client may act), S22
//! (notice), S23 to S27 (checkpoint), S37 (a sidecar that is too old).
//!
//! [`Hold`] is in `held.rs`; `open.rs` asks for the lock, `line.rs` is the stream, `keeper.rs` the
//! task, `state.rs` what both know, `notice.rs` tells of a break, `saving.rs` saves checkpoints.

mod held;
mod keeper;
pub(crate) mod lead;
mod line;
mod notice;
mod open;
mod saving;
#[cfg(test)]
mod saving_tests;
#[cfg(test)]
mod sharing_tests;
mod state;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vector_tests;

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc::UnboundedSender;

use crate::boot_clock::BootInstant;
use crate::client::{Client, Outcome};
use crate::errors::{Error, Reason};
use crate::messages::{BreakNote, LeaseSpec, LossReason, ReleaseOutcome, RunOutcome, Waiting};
use crate::proto;

pub use held::Hold;
pub(crate) use line::{Line, Message, Stream, silent};
pub use notice::Notice;
pub(crate) use open::{believe, hold_of};
pub(crate) use state::HoldState;

/// A hold being asked for: await it.
///
/// Dropped before it is granted, it leaves the queue, and a grant on its way is released. A wait survives a
/// restart of the sidecar and a connection that broke: the lock is asked for again while the spec's `wait`
/// lasts, at the end of the queue.
#[derive(Debug)]
#[must_use = "nothing is asked for until this is awaited"]
pub struct Holding {
    client: Client,
    spec: LeaseSpec,
    events: Option<UnboundedSender<HoldEvent>>,
}

impl Holding {
    pub(crate) const fn new(client: Client, spec: LeaseSpec) -> Self {
        Self { client, spec, events: None }
    }

    /// Sends what happens to `events`: waiting, before the grant, and all that follows it.
    pub fn events(self, events: UnboundedSender<HoldEvent>) -> Self {
        Self { events: Some(events), ..self }
    }

    /// Waits without end, whatever the spec's `wait` says, also through restarts of the sidecar. After each
    /// the caller goes to the end of the sidecar's queue.
    ///
    /// # Errors
    /// As awaiting it; a busy lock is none. A sidecar that cannot be reached at the start is one, and one
    /// that does not know how to wait without end ([`Reason::Unsupported`]).
    /// [`Error::OccurrenceOver`] if the spec names an occurrence that is not granted any more.
    pub async fn until_granted(self) -> Result<Hold, Error> {
        match self.until_answered().await? {
            Outcome::Granted(hold) => Ok(hold),
            Outcome::AlreadyDone(run) => Err(done(run.outcome)),
            Outcome::Skipped { watermark } => Err(skipped(watermark)),
            Outcome::Busy(_) => Err(skipped(None)),
        }
    }

    /// As [`until_granted`](Self::until_granted), also for a spec that names an occurrence: the answer may be
    /// that it is done, or skipped. It is never [`Outcome::Busy`].
    ///
    /// # Errors
    /// As [`until_granted`](Self::until_granted), but for an occurrence that is over.
    pub async fn until_answered(self) -> Result<Outcome<Hold>, Error> {
        let Self { client, mut spec, events } = self;
        spec.wait_without_end = true;
        let mut was_answered = false;
        loop {
            match open::open(client.clone(), spec.clone(), events.clone(), was_answered).await {
                Ok(Outcome::Busy(_)) => was_answered = true,
                answered => return answered,
            }
        }
    }
}

/// An occurrence that has a final outcome.
pub(crate) fn done(outcome: Option<RunOutcome>) -> Error {
    let outcome = outcome.map_or("ended", RunOutcome::as_str);
    Error::OccurrenceOver(format!("done: {outcome}"))
}

/// An occurrence that is older than one that has an outcome.
pub(crate) fn skipped(watermark: Option<SystemTime>) -> Error {
    let newer = watermark.map(|newer| format!(", {}", prost_types::Timestamp::from(newer)));
    let newer = newer.unwrap_or_default();
    Error::OccurrenceOver(format!("skipped: a newer one is done{newer}"))
}

impl IntoFuture for Holding {
    type Output = Result<Outcome<Hold>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(open::open(self.client, self.spec, self.events, false))
    }
}

/// What happens to a hold.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum HoldEvent {
    /// The lock is busy, and the caller waits for it.
    Waiting(Box<Waiting>),
    /// The hold was renewed.
    Renewed {
        /// The end of its validity.
        valid_until: BootInstant,
    },
    /// Renewals fail: stop what cannot be interrupted later.
    AtRisk {
        /// The end of validity, which is the deadline.
        valid_until: BootInstant,
        /// What fails: one of the store's reasons.
        cause: Reason,
        /// The same for people.
        detail: String,
    },
    /// Renewals succeed again.
    Recovered {
        /// The end of its validity.
        valid_until: BootInstant,
    },
    /// The sidecar is shutting down: finish and release.
    Draining {
        /// How long it still waits.
        time_left: Duration,
    },
    /// The lock was broken, and the hold ends with its validity: finish and release.
    Revoked(Notice),
    /// The stream to the sidecar broke; the hold goes on until its validity ends, and is being resumed.
    Interrupted {
        /// What happened, for people.
        detail: String,
    },
    /// The hold was resumed at the sidecar.
    Resumed {
        /// The end of its validity.
        valid_until: BootInstant,
    },
    /// The hold was lost. Nothing comes after this.
    Lost(Loss),
    /// The hold was dropped, and the lock was released in the background. Nothing comes after this.
    Released(ReleaseOutcome),
    /// The hold was dropped, and the release was not confirmed: the lock is available when its lease
    /// expires. Nothing comes after this.
    ReleaseUnconfirmed {
        /// What happened, for people.
        detail: String,
    },
}

/// Why a hold is over, though its holder did not end it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Loss {
    /// Why the hold was lost.
    pub reason: LossReason,
    /// The same for people.
    pub detail: String,
    /// Who broke the lock and why, where it was broken and that is known.
    pub break_note: Option<Box<BreakNote>>,
}

impl Loss {
    pub(crate) fn new(reason: LossReason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into(), break_note: None }
    }
}

impl Loss {
    pub(crate) fn from_wire(lost: proto::Lost) -> Self {
        Self {
            reason: LossReason::from_wire(lost.reason()),
            detail: lost.detail,
            break_note: lost.break_note.map(BreakNote::from_wire).map(Box::new),
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.reason.as_str();
        if self.detail.is_empty() {
            formatter.write_str(name)
        } else {
            write!(formatter, "{name}: {}", self.detail)
        }
    }
}
