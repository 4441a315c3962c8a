//! What the guard and the task both know of a hold.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::Loss;
use crate::boot_clock::{BootInstant, Clock};
use crate::messages::LossReason;
use crate::proto::{BootTime, Grant, Validity};
use crate::validity::Belief;

/// A hold's belief and its end. Both are looked at under one lock, so that lost is final (S4).
#[derive(Debug)]
pub(super) struct HoldState {
    clock: Arc<dyn Clock>,
    belief: Mutex<Tended>,
    line: Mutex<Line>,
    loss: watch::Sender<Option<Loss>>,
}

#[derive(Debug)]
struct Tended {
    belief: Belief,
    /// Ended by the holder or lost: nothing is believed any more.
    over: bool,
}

/// What goes on with the hold (S16).
#[derive(Clone, Debug)]
struct Line {
    /// The newest that was answered.
    generation: u64,
    resume_token: String,
    /// A resume was sent, and whether it has made a newer generation is not known.
    resuming: bool,
    /// Its holder has released it.
    released: bool,
    /// No try to resume will ever work.
    refused: Option<Loss>,
}

/// What a release is to do.
#[derive(Debug)]
pub(super) enum ToRelease {
    /// End this generation.
    Generation(u64),
    /// Wait: a resume is unanswered, and a sidecar that has not noticed the break would hand the lock on while another
    /// takes the hold up (S16).
    NotYet,
    /// Nothing: the hold cannot be resumed.
    Lost(Loss),
}

impl HoldState {
    /// The hold of `grant`, as `validity` says, in answer to a request sent at `sent`.
    pub(super) fn granted(
        clock: Arc<dyn Clock>,
        grant: &Grant,
        validity: &Validity,
        sent: BootInstant,
    ) -> Self {
        let mut belief = Belief::nothing();
        belief.take_in(validity, Some(sent), clock.now(), clock.boot_id());
        Self {
            clock,
            belief: Mutex::new(Tended { belief, over: false }),
            line: Mutex::new(Line {
                generation: grant.generation,
                resume_token: grant.resume_token.clone(),
                resuming: false,
                released: false,
                refused: None,
            }),
            loss: watch::Sender::new(None),
        }
    }

    /// The newest generation that was answered.
    pub(super) fn generation(&self) -> u64 {
        self.line().generation
    }

    /// Whether a release was sent.
    pub(super) fn is_released(&self) -> bool {
        self.line().released
    }

    /// What a release is to do now that the belief has ended.
    pub(super) fn to_release(&self) -> ToRelease {
        let mut line = self.line();
        if let Some(loss) = &line.refused {
            return ToRelease::Lost(loss.clone());
        }
        if line.resuming {
            return ToRelease::NotYet;
        }
        line.released = true;
        ToRelease::Generation(line.generation)
    }

    /// A resume is about to be sent: its token. None once the hold is released: it is not to be taken up again.
    pub(super) fn begin_resume(&self) -> Option<String> {
        let mut line = self.line();
        line.resuming |= !line.released;
        line.resuming.then(|| line.resume_token.clone())
    }

    /// No try to resume will ever work.
    pub(super) fn refused(&self, loss: Loss) {
        self.line().refused = Some(loss.clone());
        self.lose(loss);
    }

    /// A resume was granted.
    pub(super) fn resumed(&self, grant: &Grant) {
        let mut line = self.line();
        line.generation = grant.generation;
        line.resume_token.clone_from(&grant.resume_token);
        line.resuming = false;
    }

    /// The bounds of the hold have changed, and its resume token with them. An empty one replaces none.
    pub(super) fn replace_resume_token(&self, resume_token: String) {
        if !resume_token.is_empty() {
            self.line().resume_token = resume_token;
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Whether nothing is believed any more.
    pub(super) fn is_over(&self) -> bool {
        self.tended().over
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
