//! Waiting without end, also through restarts of the sidecar.

use super::{HoldGuard, Holding, open};
use crate::client::Outcome;
use crate::error::Error;

impl Holding {
    /// Waits without end, whatever the spec's `wait` says, also through restarts of the sidecar. After each the caller
    /// goes to the end of the sidecar's queue.
    ///
    /// # Errors
    /// As awaiting it; a busy lock is none. A sidecar that cannot be reached at the start is one, and one that does not
    /// know how to wait without end ([`Reason::Unsupported`](crate::Reason::Unsupported)).
    pub async fn until_granted(self) -> Result<HoldGuard, Error> {
        let Self { client, mut spec, events } = self;
        spec.wait_without_end = true;
        let mut was_answered = false;
        loop {
            match open::open(client.clone(), spec.clone(), events.clone(), was_answered).await {
                Ok(Outcome::Granted(guard)) => return Ok(guard),
                Ok(Outcome::Busy(_)) => was_answered = true,
                // The sidecar was there, and its absence is waited out.
                Err(error) if was_answered && error.is_transient() => {}
                Err(error) => return Err(error),
            }
        }
    }
}
