//! What the guard and the task both know of a hold.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::Loss;
use crate::belief::Belief;
use crate::boot_clock::{BootInstant, Clock};
use crate::proto::{BootTime, LossReason, Validity};

/// A hold's belief and its end. Both are looked at under one lock, so that lost is final (S4).
#[derive(Debug)]
pub(super) struct HoldState {
    clock: Arc<dyn Clock>,
    belief: Mutex<Tended>,
    loss: watch::Sender<Option<Loss>>,
}

#[derive(Debug)]
struct Tended {
    belief: Belief,
    /// Ended by the holder or lost: nothing is believed any more.
    over: bool,
}

impl HoldState {
    /// A hold that was granted by `validity`, in answer to a request sent at `sent`.
    pub(super) fn granted(clock: Arc<dyn Clock>, validity: &Validity, sent: BootInstant) -> Self {
        let mut belief = Belief::nothing();
        belief.take_in(validity, Some(sent), clock.now(), clock.boot_id());
        Self {
            clock,
            belief: Mutex::new(Tended { belief, over: false }),
            loss: watch::Sender::new(None),
        }
    }

    pub(super) fn now(&self) -> BootInstant {
        self.clock.now()
    }

    pub(super) fn valid_until(&self) -> BootInstant {
        self.tended().belief.until()
    }

    /// The time left; zero if the hold is over. Being past validity is being lost, whoever finds out first (S21).
    pub(super) fn remaining(&self) -> Duration {
        let mut tended = self.tended();
        self.remaining_of(&mut tended)
    }

    fn remaining_of(&self, tended: &mut Tended) -> Duration {
        if tended.over {
            return Duration::ZERO;
        }
        let left = tended.belief.until().saturating_since(self.clock.now());
        if left.is_zero() {
            let detail = "its validity ended without word of a renewal";
            self.over(tended, Some(Loss::new(LossReason::Expired, detail)));
        }
        left
    }

    pub(super) fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Takes in what the sidecar says, unless the hold is over (S4). Says whether it goes on.
    pub(super) fn take_in(&self, validity: &Validity, sent: Option<BootInstant>) -> bool {
        let mut tended = self.tended();
        if self.remaining_of(&mut tended).is_zero() {
            return false;
        }
        let now = self.clock.now();
        tended.belief.take_in(validity, sent, now, self.clock.boot_id());
        !self.remaining_of(&mut tended).is_zero()
    }

    /// The latest grant's or renewal's end, in the sidecar's words (S16).
    pub(super) fn told(&self) -> Option<BootTime> {
        self.tended().belief.told().cloned()
    }

    /// When the sidecar should be asked next for the validity: when a third of it is over. `None` where its words are
    /// enough (S21).
    pub(super) fn next_question(&self) -> Option<BootInstant> {
        let tended = self.tended();
        let belief = &tended.belief;
        let span = belief.until().saturating_since(belief.as_of());
        belief.must_ask().then(|| belief.as_of() + span / 3)
    }

    /// The hold is lost, unless it is over already.
    pub(super) fn lose(&self, loss: Loss) {
        self.over(&mut self.tended(), Some(loss));
    }

    /// The holder ends its belief (S13). False if it was over already.
    pub(super) fn end(&self) -> bool {
        let mut tended = self.tended();
        let believed = !self.remaining_of(&mut tended).is_zero();
        self.over(&mut tended, None);
        believed
    }

    fn over(&self, tended: &mut Tended, loss: Option<Loss>) {
        if !tended.over {
            tended.over = true;
            if loss.is_some() {
                self.loss.send_replace(loss);
            }
        }
    }

    pub(super) fn loss(&self) -> Option<Loss> {
        self.loss.borrow().clone()
    }

    pub(super) fn watch_loss(&self) -> watch::Receiver<Option<Loss>> {
        self.loss.subscribe()
    }

    fn tended(&self) -> MutexGuard<'_, Tended> {
        self.belief.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
