//! Waiting without end: the longest wait that the sidecar allows, again and again.

use std::time::Duration;

use super::{HoldGuard, Holding};
use crate::client::Outcome;
use crate::convert::proto_span;
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
    /// Waits without end, whatever the spec's `wait` says: the longest wait that the sidecar allows, again and again.
    /// After each the caller goes to the end of the sidecar's queue.
    ///
    /// # Errors
    /// As awaiting it; a busy lock is none.
    pub async fn until_granted(self) -> Result<HoldGuard, Error> {
        let Self { client, mut spec, events } = self;
        let mut wait = LONGEST_WAIT;
        loop {
            spec.wait = Some(proto_span(wait));
            let asking =
                Self { client: client.clone(), spec: spec.clone(), events: events.clone() };
            match asking.await {
                Ok(Outcome::Granted(guard)) => return Ok(guard),
                Ok(Outcome::Busy(_)) => {}
                Err(error) if is_too_long_a_wait(&error) && wait > SHORTEST_WAIT => wait /= 2,
                Err(error) => return Err(error),
            }
        }
    }
}
