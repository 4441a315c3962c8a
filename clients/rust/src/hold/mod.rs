//! A hold as its holder has it: a guard, and a task that keeps it true.
//!
//! Rules: S3 (the clock is read after every wake-up), S4 (lost is final), S13 (the belief ends before the release is
//! sent and before the stream ends), S14, S16 (resume), S21 (what may be believed).

mod driver;
mod guard;
#[cfg(test)]
mod resume_tests;
mod state;
#[cfg(test)]
mod tests;
mod waiting;

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use crate::boot_clock::BootInstant;
use crate::client::{Client, Outcome};
use crate::error::Error;
use crate::proto::{BreakNote, LeaseSpec, LossReason, Lost, Waiting};

pub use guard::HoldGuard;

/// A hold being asked for: await it.
///
/// Dropped before it is granted, it leaves the queue, and a grant on its way is given back.
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
}

impl IntoFuture for Holding {
    type Output = Result<Outcome<HoldGuard>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(driver::open(self.client, self.spec, self.events))
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
        /// What fails, as a reason of the API.
        cause: String,
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
    /// The hold is over. Nothing comes after this.
    Lost(Loss),
}

/// Why a hold is over, though its holder did not end it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Loss {
    /// Why. `Unspecified` for a reason that this version of the client does not know.
    pub reason: LossReason,
    /// The same for people.
    pub detail: String,
    /// Who broke the lock and why, where it was broken and that is known.
    pub break_note: Option<BreakNote>,
}

impl Loss {
    pub(crate) fn new(reason: LossReason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into(), break_note: None }
    }
}

impl From<Lost> for Loss {
    fn from(lost: Lost) -> Self {
        Self { reason: lost.reason(), detail: lost.detail, break_note: lost.break_note }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.reason.as_str_name();
        let name = name.strip_prefix("LOSS_REASON_").unwrap_or(name);
        if self.detail.is_empty() {
            formatter.write_str(name)
        } else {
            write!(formatter, "{name}: {}", self.detail)
        }
    }
}
