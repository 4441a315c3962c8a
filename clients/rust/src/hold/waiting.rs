//! Waiting without end, also through restarts of the sidecar.

use super::{HoldGuard, Holding, open};
use crate::client::Outcome;
use crate::error::Error;
use crate::messages::RunOutcome;

impl Holding {
    /// Waits without end, whatever the spec's `wait` says, also through restarts of the sidecar. After each
    /// the caller goes to the end of the sidecar's queue.
    ///
    /// # Errors
    /// As awaiting it; a busy lock is none. A sidecar that cannot be reached at the start is one, and one
    /// that does not know how to wait without end ([`Reason::Unsupported`](crate::Reason::Unsupported)).
    /// [`Error::OccurrenceOver`] if the spec names an occurrence that is not granted any more.
    pub async fn until_granted(self) -> Result<HoldGuard, Error> {
        match self.until_answered().await? {
            Outcome::Granted(guard) => Ok(guard),
            Outcome::AlreadyDone(run) => {
                let outcome = run.outcome.map_or("ended", RunOutcome::as_str);
                Err(Error::OccurrenceOver(format!("it is done: {outcome}")))
            }
            Outcome::Busy(_) | Outcome::Skipped { .. } => {
                Err(Error::OccurrenceOver("a newer one is done".to_owned()))
            }
        }
    }

    /// As [`until_granted`](Self::until_granted), also for a spec that names an occurrence: the answer may be
    /// that it is done, or skipped. It is never [`Outcome::Busy`].
    ///
    /// # Errors
    /// As [`until_granted`](Self::until_granted), but for an occurrence that is over.
    pub async fn until_answered(self) -> Result<Outcome<HoldGuard>, Error> {
        let Self { client, mut spec, events } = self;
        spec.wait_without_end = true;
        let mut was_answered = false;
        loop {
            match open::open(client.clone(), spec.clone(), events.clone(), was_answered).await {
                Ok(Outcome::Busy(_)) => was_answered = true,
                Ok(outcome) => return Ok(outcome),
                // The sidecar was there, and its absence is waited out.
                Err(error) if was_answered && error.is_transient() => {}
                Err(error) => return Err(error),
            }
        }
    }
}
