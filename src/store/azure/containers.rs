//! Which containers were there, and which of them were gone since (S18).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::error::{Failure, Request};
use super::{AzureStore, access_denied};
use crate::store::{GRACE_AFTER_LOSS, StoreError};
use crate::time::Instant;

/// The containers that were seen. A container takes its leases along when it is deleted, while their holders
/// believe for as long as a lease lasts: so one that was there, and was gone, grants nothing for that long.
#[derive(Debug, Default)]
pub(super) struct Containers {
    seen: Mutex<BTreeMap<String, ContainerSeen>>,
}

/// A request about a container that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch<'a> {
    container: &'a str,
    seen_before: bool,
}

#[derive(Debug, Default)]
struct ContainerSeen {
    /// Nothing is granted before; `None` if it was never gone.
    grants_from: Option<Instant>,
    /// It was not there when it was last asked for.
    is_gone: bool,
}

impl Containers {
    fn seen(&self) -> MutexGuard<'_, BTreeMap<String, ContainerSeen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be called before a request is sent: only an answer to a request that was sent after the container
    /// had been seen tells that it is gone. One that was sent before, and is answered late, tells that it was
    /// not there yet.
    pub(super) fn watch<'a>(&self, container: &'a str) -> Watch<'a> {
        Watch { container, seen_before: self.seen().contains_key(container) }
    }

    /// Takes note of what an answer shows of the container: a success, or the service's name of the error.
    pub(super) fn note(&self, watch: Watch<'_>, code: Option<&str>, now: Instant) {
        match code {
            None | Some("ConditionNotMet") => self.saw(watch.container),
            Some("ContainerNotFound" | "ContainerBeingDeleted") => self.missed(watch, now),
            // What is said of a blob, or of its lease, is said of a container that is there.
            Some(code) if code.starts_with("Blob") || code.starts_with("Lease") => {
                self.saw(watch.container);
            }
            Some(_) => {}
        }
    }

    /// It is there.
    pub(super) fn saw(&self, container: &str) {
        let mut seen = self.seen();
        match seen.get_mut(container) {
            Some(seen) => seen.is_gone = false,
            None => {
                seen.insert(container.to_owned(), ContainerSeen::default());
            }
        }
    }

    /// Whether it was there once, and has to be made again.
    pub(super) fn is_gone(&self, container: &str) -> bool {
        self.seen().get(container).is_some_and(|seen| seen.is_gone)
    }

    /// It was made again, if it had been seen: the wait runs from now, whatever other answers have shown
    /// meanwhile.
    fn made(&self, watch: Watch<'_>, now: Instant) {
        if watch.seen_before
            && let Some(seen) = self.seen().get_mut(watch.container)
        {
            *seen = ContainerSeen { is_gone: false, grants_from: Some(now + GRACE_AFTER_LOSS) };
        }
    }

    /// It is gone, or was until now. One that had not been seen before may never have been there.
    fn missed(&self, watch: Watch<'_>, now: Instant) {
        if watch.seen_before
            && let Some(seen) = self.seen().get_mut(watch.container)
        {
            seen.grants_from = Some(now + GRACE_AFTER_LOSS);
            seen.is_gone = true;
        }
    }

    /// Whether locks may be granted in it.
    pub(super) fn check(&self, container: &str, now: Instant) -> Result<(), StoreError> {
        let grants_from = self.seen().get(container).and_then(|seen| seen.grants_from);
        match grants_from.filter(|from| now < *from) {
            Some(from) => Err(StoreError::Recreated {
                what: format!("container {container:?}"),
                retry_after: from - now,
            }),
            None => Ok(()),
        }
    }
}

/// What is told of a container that is not there and that this sidecar may not make.
pub(super) fn missing(container: &str) -> StoreError {
    StoreError::ContainerMissing {
        container: container.to_owned(),
        advice: format!(
            "create it (az storage container create --name {container}), or set store.azure.create_container = true and sign \
             in with an identity that has the role {:?} on the account, not only on the container",
            access_denied::ROLE
        ),
    }
}

impl AzureStore {
    /// Makes the container of which `missed` told that it is not there.
    pub(super) async fn make_missed(&self, missed: Watch<'_>) -> Result<(), StoreError> {
        // One that was there when we began to make it, and could be made, had gone since.
        let making = self.containers.watch(missed.container);
        let was_made = self.make_container(missed.container).await?;
        self.containers.made(if was_made { making } else { missed }, self.clock.now());
        Ok(())
    }

    /// Looks for a container that was gone, and makes it where that is allowed: others may have.
    pub(super) async fn find_or_make(
        &self,
        container: &str,
        changed: bool,
    ) -> Result<(), StoreError> {
        if self.create_container {
            return self.make_missed(self.containers.watch(container)).await;
        }
        match self.look_for_container(container).await {
            Err(StoreError::ContainerMissing { .. }) if changed => Err(StoreError::Changed),
            looked => looked.map(drop),
        }
    }

    /// Makes the container, unless it is there. Whether it was made.
    async fn make_container(&self, container: &str) -> Result<bool, StoreError> {
        if !self.create_container {
            return Err(missing(container));
        }
        let client = self.clients().lease.blob_container_client(container);
        let Err(failure) = client.create(None).await else { return Ok(true) };
        let failure = Failure::from(failure);
        if failure.code() == "ContainerAlreadyExists" {
            return Ok(false);
        }
        let error = self.error(Request::CreateContainer, failure);
        let denied = matches!(error, StoreError::Denied { .. });
        Err(if denied { missing(container) } else { error })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn s18_a_container_that_is_gone_is_made_again_and_the_wait_runs_from_then() {
        let (containers, now) = (Containers::default(), Instant::from_boot(Duration::from_secs(9)));
        containers.note(containers.watch("locks"), None, now);
        containers.note(containers.watch("locks"), Some("ContainerNotFound"), now);
        assert!(containers.is_gone("locks"));
        let made = now + Duration::from_secs(300);
        containers.made(containers.watch("locks"), made);
        assert!(!containers.is_gone("locks"));
        assert!(containers.check("locks", made + Duration::from_secs(59)).is_err());
        assert!(containers.check("locks", made + Duration::from_secs(60)).is_ok());
    }

    #[test]
    fn s18_a_container_was_seen_by_whatever_is_said_of_a_lock_in_it() {
        let now = Instant::from_boot(Duration::from_secs(9));
        for (code, is_seen) in [
            ("BlobNotFound", true),
            ("LeaseAlreadyPresent", true),
            ("LeaseIsBrokenAndCannotBeRenewed", true),
            ("BlobImmutableDueToPolicy", true),
            ("ConditionNotMet", true),
            ("ServerBusy", false),
            ("AuthorizationFailure", false),
        ] {
            let containers = Containers::default();
            containers.note(containers.watch("locks"), Some(code), now);
            containers.note(containers.watch("locks"), Some("ContainerNotFound"), now);
            assert_eq!(containers.check("locks", now).is_err(), is_seen, "{code}");
        }
    }

    /// A read that was sent beside is answered first.
    #[test]
    fn s18_the_wait_runs_from_the_making_though_the_container_was_seen_again_before_its_answer() {
        let (containers, now) = (Containers::default(), Instant::from_boot(Duration::from_secs(9)));
        containers.note(containers.watch("locks"), None, now);
        containers.note(containers.watch("locks"), Some("ContainerNotFound"), now);
        containers.note(containers.watch("locks"), Some("BlobNotFound"), now);
        let made = now + Duration::from_secs(300);
        containers.made(containers.watch("locks"), made);
        assert!(containers.check("locks", made + Duration::from_secs(59)).is_err());
        assert!(containers.check("locks", made + Duration::from_secs(60)).is_ok());
    }

    /// Sixteen first acquires at once: the container is made, and the last of them hears that it was not
    /// there.
    #[test]
    fn s18_a_late_answer_to_a_request_of_before_the_container_was_there_starts_no_wait() {
        let (containers, now) = (Containers::default(), Instant::from_boot(Duration::from_secs(9)));
        let late = containers.watch("locks");
        containers.note(containers.watch("locks"), None, now);
        containers.note(late, Some("ContainerNotFound"), now);
        assert!(containers.check("locks", now).is_ok());
        containers.note(containers.watch("locks"), Some("ContainerNotFound"), now);
        assert!(containers.check("locks", now).is_err());
    }
}
