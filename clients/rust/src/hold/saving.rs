//! The checkpoint of a lock, as its holder knows and saves it (S23 to S27).

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::held::{Hold, told_lost};
use crate::errors::Error;
use crate::messages::{Checkpoint, check_size};

impl Hold {
    /// The lock's checkpoint: as the last holder left it, or as this hold has saved it since. `None` if there
    /// is none.
    #[must_use]
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        self.state().checkpoint().newest()
    }

    /// Replaces the lock's checkpoint, and gives its version: at most 2,048 bytes, not for secrets. For JSON
    /// give `serde_json::to_vec(&value)?`. Comes back when the store has the value; a holder whose lease is
    /// gone cannot save (S24). At most one save a second reaches the store: one that waits is replaced by a
    /// newer one, and has its outcome (S26). Saves at the same time have no order.
    ///
    /// While the hold is being resumed, this waits for that.
    ///
    /// # Errors
    /// [`Error::Lost`] if the hold is lost. [`Error::CheckpointUnknown`] if its validity ended before the
    /// store answered, or the connection broke before the sidecar did. [`Error::Refused`], with
    /// [`Reason::InvalidField`](crate::Reason::InvalidField) for too large a value, and with
    /// [`Reason::HoldReleased`](crate::Reason::HoldReleased) if the hold was released. After any other
    /// refusal the store may have the value, and the save can be repeated as long as the hold is valid.
    pub async fn save(&self, value: impl AsRef<[u8]>) -> Result<u64, Error> {
        let value = value.as_ref().to_vec();
        check_size("value", &value)?;
        let generation = self.resumed().await?;
        let order = self.state().checkpoint().begin();
        let asking = self.asking(generation, |generation, sent| {
            let (lease_id, left) = (self.lease_id().to_owned(), self.remaining());
            let saving = self.client().save_hold(lease_id, generation, value.clone(), left);
            async move {
                let answer = saving.await?;
                self.heard(answer.validity.as_ref(), sent);
                Ok(answer.version)
            }
        });
        let version = asking.await.map_err(|error| match told_lost(&error) {
            Some(_) => self.why_over(),
            None => error,
        })?;
        let fencing_token = self.fencing_token();
        let checkpoint = Checkpoint { value, version, fencing_token, saved_at: None };
        self.state().checkpoint().saved(order, checkpoint);
        Ok(version)
    }
}

/// The newest checkpoint that is known. Answers may come in another order than their saves were begun in.
#[derive(Debug)]
pub(super) struct Known(Mutex<Newest>);

#[derive(Debug)]
struct Newest {
    checkpoint: Option<Checkpoint>,
    /// How many saves were begun, and which of them `checkpoint` is of.
    begun: u64,
    saved: u64,
}

impl Known {
    /// What a grant carries.
    pub(super) const fn granted(checkpoint: Option<Checkpoint>) -> Self {
        Self(Mutex::new(Newest { checkpoint, begun: 0, saved: 0 }))
    }

    /// What the grant of a resume carries: a save may have lost its answer.
    pub(super) fn resumed(&self, checkpoint: Option<Checkpoint>) {
        let mut newest = self.newest_known();
        let version = |checkpoint: &Option<Checkpoint>| checkpoint.as_ref().map(|it| it.version);
        if version(&checkpoint) > version(&newest.checkpoint) {
            newest.checkpoint = checkpoint;
        }
    }

    /// Gives a save its place among the others of this hold.
    fn begin(&self) -> u64 {
        let mut newest = self.newest_known();
        newest.begun += 1;
        newest.begun
    }

    /// The store has the value of a save, or that of a newer one that took its place.
    fn saved(&self, order: u64, checkpoint: Checkpoint) {
        let mut newest = self.newest_known();
        if order > newest.saved {
            newest.saved = order;
            newest.checkpoint = Some(checkpoint);
        }
    }

    fn newest(&self) -> Option<Checkpoint> {
        self.newest_known().checkpoint.clone()
    }

    fn newest_known(&self) -> MutexGuard<'_, Newest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str, version: u64) -> Checkpoint {
        let value = value.as_bytes().to_vec();
        Checkpoint { value, version, fencing_token: 7, saved_at: None }
    }

    #[test]
    fn s26_an_older_save_that_is_answered_later_is_not_the_checkpoint() {
        let known = Known::granted(None);
        let (first, second) = (known.begin(), known.begin());
        known.saved(second, of("second", 5));
        known.saved(first, of("first", 5));
        assert_eq!(known.newest(), Some(of("second", 5)));
    }

    #[test]
    fn s27_a_resume_tells_what_a_save_without_an_answer_stored() {
        let known = Known::granted(Some(of("old", 3)));
        known.resumed(Some(of("stored", 4)));
        assert_eq!(known.newest(), Some(of("stored", 4)));
        known.resumed(Some(of("older", 2)));
        known.resumed(None);
        assert_eq!(known.newest(), Some(of("stored", 4)));
    }
}
