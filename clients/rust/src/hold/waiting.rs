//! Waiting without end: the longest wait that the sidecar allows, again and again.

use std::time::Duration;

use super::{HoldGuard, Holding, open};
use crate::client::Outcome;
use crate::error::{Error, Reason};

/// The longest wait of the API.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3_600);
/// Sidecars that do not even allow this allow no wait at all.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// Whether only the wait was too long for the sidecar (`locks.wait_ceiling`).
fn is_too_long_a_wait(error: &Error) -> bool {
    let Error::Refused(refusal) = error else { return false };
    refusal.reason == Some(Reason::InvalidField)
        && !refusal.violations.is_empty()
        && refusal.violations.iter().all(|violation| violation.field.ends_with("wait"))
}

impl Holding {
    /// Waits without end, whatever the spec's `wait` says: the longest wait that the sidecar allows, again and again,
    /// also through restarts of the sidecar. After each the caller goes to the end of the sidecar's queue.
    ///
    /// # Errors
    /// As awaiting it; a busy lock is none. A sidecar that cannot be reached at the start is one.
    pub async fn until_granted(self) -> Result<HoldGuard, Error> {
        let Self { client, mut spec, events } = self;
        spec.wait = LONGEST_WAIT;
        let mut was_answered = false;
        loop {
            match open::open(client.clone(), spec.clone(), events.clone(), was_answered).await {
                Ok(Outcome::Granted(guard)) => return Ok(guard),
                Ok(Outcome::Busy(_)) => was_answered = true,
                Err(error) if is_too_long_a_wait(&error) && spec.wait > SHORTEST_WAIT => {
                    spec.wait /= 2;
                }
                // The sidecar was there, and its absence is waited out.
                Err(error) if was_answered && error.is_transient() => {}
                Err(error) => return Err(error),
            }
        }
    }
}
