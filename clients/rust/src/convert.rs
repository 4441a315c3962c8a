//! Short ways to make the messages, and spans of time to and from the wire.

use std::time::Duration;

use crate::proto::{LeaseSpec, LockKey, LockMode, LockSelector, lock_selector};

/// A span from the wire; zero for an absent or negative one, which only ends holds earlier.
pub(crate) fn span(wire: Option<&prost_types::Duration>) -> Duration {
    wire.and_then(|wire| Duration::try_from(*wire).ok()).unwrap_or_default()
}

/// A span for the wire; the longest there is if it is longer.
pub(crate) fn proto_span(span: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(span).unwrap_or(prost_types::Duration {
        // The longest span that protobuf allows, about 10,000 years.
        seconds: 315_576_000_000,
        nanos: 0,
    })
}

impl LockKey {
    /// The lock of `function`, or of its part `scope` if that is not empty.
    #[must_use]
    pub fn new(function: impl Into<String>, scope: impl Into<String>) -> Self {
        Self { function: function.into(), scope: scope.into(), ..Self::default() }
    }

    /// The same name as a listener's lock.
    #[must_use]
    pub fn listener(self) -> Self {
        Self { mode: LockMode::Listener.into(), ..self }
    }
}

impl LockSelector {
    /// The lock with this path.
    #[must_use]
    pub fn path(lock_path: impl Into<String>) -> Self {
        Self { lock: Some(lock_selector::Lock::LockPath(lock_path.into())) }
    }
}

impl From<LockKey> for LockSelector {
    fn from(key: LockKey) -> Self {
        Self { lock: Some(lock_selector::Lock::Key(key)) }
    }
}

impl From<LockKey> for LeaseSpec {
    fn from(key: LockKey) -> Self {
        Self { key: Some(key), ..Self::default() }
    }
}

impl LeaseSpec {
    /// Asks for the lock of `function`, or of its part `scope` if that is not empty; one try, everything else by default.
    #[must_use]
    pub fn new(function: impl Into<String>, scope: impl Into<String>) -> Self {
        LockKey::new(function, scope).into()
    }

    /// Waits so long while the lock is busy: at most 24 h.
    #[must_use]
    pub fn with_wait(self, wait: Duration) -> Self {
        Self { wait: Some(proto_span(wait)), ..self }
    }

    /// The duration of the lease in the store: whole seconds, 15 s to 60 s.
    #[must_use]
    pub fn with_lease_duration(self, lease_duration: Duration) -> Self {
        Self { lease_duration: Some(proto_span(lease_duration)), ..self }
    }

    /// How long the hold may last in all.
    #[must_use]
    pub fn with_max_hold(self, max_hold: Duration) -> Self {
        Self { max_hold: Some(proto_span(max_hold)), ..self }
    }

    /// How long the lock stays taken at least.
    #[must_use]
    pub fn with_min_hold(self, min_hold: Duration) -> Self {
        Self { min_hold: Some(proto_span(min_hold)), ..self }
    }

    /// Loses the hold when progress was not reported for so long.
    #[must_use]
    pub fn with_progress_timeout(self, progress_timeout: Duration) -> Self {
        Self { progress_timeout: Some(proto_span(progress_timeout)), ..self }
    }

    /// Who is asking, for people to read.
    #[must_use]
    pub fn with_holder(self, holder: impl Into<String>) -> Self {
        Self { holder: holder.into(), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_survive_the_wire() {
        let whole = Duration::new(58, 300_000_000);
        assert_eq!(span(Some(&proto_span(whole))), whole);
        assert_eq!(span(None), Duration::ZERO);
        let longest = proto_span(Duration::MAX);
        assert!(span(Some(&longest)) > Duration::from_secs(300_000_000_000));
    }
}
