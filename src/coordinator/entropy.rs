//! Where lease ids and the seeds of jitter come from: the system, or a seed, so that a simulated world
//! replays.

use std::fmt;

use uuid::Uuid;

use crate::lock::LeaseId;

/// A source of random bits. Whoever can predict them can take over other callers' locks, so only tests
/// provide one.
pub trait Entropy: Send + Sync + fmt::Debug {
    /// Practically never the same twice (S6).
    fn bits(&self) -> u128;
}

/// The system's randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn bits(&self) -> u128 {
        Uuid::new_v4().as_u128()
    }
}

impl dyn Entropy {
    /// S6: random, one for each acquisition.
    pub(super) fn lease_id(&self) -> LeaseId {
        LeaseId::from_uuid(
            uuid::Builder::from_u128(self.bits()).with_version(uuid::Version::Random).into_uuid(),
        )
    }

    /// A seed of jitter.
    pub(super) fn seed(&self) -> u64 {
        Uuid::from_u128(self.bits()).as_u64_pair().0
    }
}
