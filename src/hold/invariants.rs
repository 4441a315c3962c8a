//! What is true of the machine after every event. Checked in builds with debug assertions.

use super::held::{GracePeriod, Phase};
use super::{Hold, State};

impl Hold {
    /// What holds after every event, and what must not.
    pub(super) fn check(&self) {
        debug_assert!(!self.draining || self.waiters.is_empty(), "S15: nobody waits in a drain");
        match &self.state {
            State::Idle { retry, .. } => debug_assert!(
                retry.is_none() || !self.waiters.is_empty(),
                "S6: an attempt that nobody waits for is given up"
            ),
            State::Held(held) => {
                debug_assert!(
                    self.memory.highest >= Some(held.token),
                    "S5: a token was granted and not noted"
                );
                debug_assert!(
                    held.believed_until >= held.valid_until() || held.phase != Phase::Active,
                    "S13: a holder is told all of its validity"
                );
                debug_assert!(
                    self.memory.known.is_some()
                        || held.phase == Phase::GracePeriod(GracePeriod::LeaseGone),
                    "S16: without the record's version a release could end a hold that went on elsewhere"
                );
            }
            State::Acquiring(_) | State::Releasing(_) | State::Resuming(_) => {}
        }
    }
}
