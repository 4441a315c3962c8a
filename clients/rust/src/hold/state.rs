//! What the hold and the task both know of a hold.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::saving::Known;
use super::{Loss, Notice};
use crate::boot_clock::{BootInstant, Clock};
use crate::messages::{Checkpoint, LossReason};
use crate::proto::{BootTime, Deadline, Grant, Validity};
use crate::validity::{LocalDeadline, LocalValidity};

/// A hold's validity and its end. Both are looked at under one lock, so that lost is final (S4).
#[derive(Debug)]
pub(crate) struct HoldState {
    clock: Arc<dyn Clock>,
    kept: Mutex<Kept>,
    /// The sidecar told of a validity without being asked.
    heard: Notify,
    line: Mutex<Line>,
    checkpoint: Known,
    loss: watch::Sender<Option<Loss>>,
    notice: watch::Sender<Option<Notice>>,
}

#[derive(Debug)]
struct Kept {
    validity: LocalValidity,
    /// When `max_hold` ends.
    max_hold: LocalDeadline,
    /// Ended by the holder or lost.
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
    /// Wait: a resume is unanswered, and a sidecar that has not noticed the break would hand the lock on
    /// while another takes the hold up (S16).
    NotYet,
    /// Nothing: the hold cannot be resumed.
    Lost(Loss),
}

impl HoldState {
    /// The hold of `grant`, in answer to a request sent at `sent`, which told until when it is valid and may
    /// last.
    pub(super) fn granted(
        clock: Arc<dyn Clock>,
        grant: &Grant,
        validity: Option<&Validity>,
        max_hold_ends: Option<&Deadline>,
        sent: BootInstant,
    ) -> Self {
        let (mut local, mut max_hold) = (LocalValidity::none(), LocalDeadline::default());
        let none = Validity::default();
        local.take_in(validity.unwrap_or(&none), Some(sent), clock.now(), clock.boot_id());
        max_hold.take_in(max_hold_ends, Some(sent), clock.now(), clock.boot_id());
        Self {
            clock,
            kept: Mutex::new(Kept { validity: local, max_hold, over: false }),
            checkpoint: Known::granted(grant.checkpoint.clone().map(Checkpoint::from_wire)),
            heard: Notify::new(),
            line: Mutex::new(Line {
                generation: grant.generation,
                resume_token: grant.resume_token.clone(),
                resuming: false,
                released: false,
                refused: None,
            }),
            loss: watch::Sender::new(None),
            notice: watch::Sender::new(None),
        }
    }

    /// The newest generation that was answered.
    pub(super) fn generation(&self) -> u64 {
        self.line().generation
    }

    /// The newest generation; `None` while it is not known whether a resume has made a newer one.
    pub(super) fn settled(&self) -> Option<u64> {
        let line = self.line();
        (!line.resuming).then_some(line.generation)
    }

    pub(super) const fn checkpoint(&self) -> &Known {
        &self.checkpoint
    }

    /// Whether a release was sent, or its caller told why none was.
    pub(super) fn is_released(&self) -> bool {
        self.line().released
    }

    /// The caller of a release is told why none was sent.
    pub(super) fn release_is_told(&self) {
        self.line().released = true;
    }

    /// What a release is to do now that the hold has ended here.
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

    /// A resume is about to be sent: its token. None once the hold is released: it is not to be taken up
    /// again.
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
        self.checkpoint.resumed(grant.checkpoint.clone().map(Checkpoint::from_wire));
        let mut line = self.line();
        line.generation = grant.generation;
        line.resume_token.clone_from(&grant.resume_token);
        line.resuming = false;
    }

    /// The bounds of the hold have changed, and its resume token with them. An empty one replaces none.
    pub(super) fn replace_resume_token(&self, resume_token: String, generation: u64) {
        let mut line = self.line();
        if !resume_token.is_empty() && line.generation == generation {
            line.resume_token = resume_token;
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> BootInstant {
        self.clock.now()
    }

    pub(super) fn valid_until(&self) -> BootInstant {
        self.kept().validity.until()
    }

    /// The time left; zero if the hold is over. Being past validity is being lost, whoever finds out first
    /// (S21).
    pub(super) fn remaining(&self) -> Duration {
        let mut kept = self.kept();
        self.remaining_of(&mut kept)
    }

    fn remaining_of(&self, kept: &mut Kept) -> Duration {
        if kept.over {
            return Duration::ZERO;
        }
        let left = kept.validity.until().saturating_since(self.clock.now());
        if left.is_zero() {
            let expired = || {
                if kept.max_hold.at().is_some_and(|ends| ends <= kept.validity.until()) {
                    let detail = "it lasted as long as max_hold allows";
                    return Loss::new(LossReason::MaxHoldReached, detail);
                }
                Loss::new(LossReason::Expired, "its validity ended without a renewal")
            };
            let loss = self.notice().map_or_else(expired, |notice| notice.loss());
            self.over(kept, Some(loss));
        }
        left
    }

    pub(crate) fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Takes in what the sidecar says, unless the hold is over (S4). Says whether it goes on.
    pub(super) fn take_in(&self, validity: &Validity, sent: Option<BootInstant>) -> bool {
        let mut kept = self.kept();
        if self.remaining_of(&mut kept).is_zero() {
            return false;
        }
        let now = self.clock.now();
        kept.validity.take_in(validity, sent, now, self.clock.boot_id());
        if sent.is_none() {
            self.heard.notify_one();
        }
        !self.remaining_of(&mut kept).is_zero()
    }

    /// Takes in when `max_hold` ends; an absent moment changes nothing.
    pub(super) fn take_in_max_hold(&self, ends: Option<&Deadline>, sent: Option<BootInstant>) {
        let now = self.clock.now();
        self.kept().max_hold.take_in(ends, sent, now, self.clock.boot_id());
    }

    /// When `max_hold` ends.
    pub(super) fn max_hold_ends(&self) -> Option<BootInstant> {
        self.kept().max_hold.at()
    }

    /// The latest grant's or renewal's end, in the sidecar's words, while the holder relies on it (S16).
    pub(super) fn told(&self) -> Option<BootTime> {
        let kept = self.kept();
        kept.validity.told().filter(|_| !kept.over).cloned()
    }

    /// When the sidecar should be asked next for the validity. `None` where its words are enough (S21).
    pub(super) fn next_question(&self) -> Option<BootInstant> {
        self.kept().validity.next_question()
    }

    /// Completes when the sidecar has told of a validity without being asked.
    pub(super) async fn heard(&self) {
        self.heard.notified().await;
    }

    /// A sidecar has said that this generation is over: the hold is lost, if that is how it goes on now.
    /// False if it goes on as a newer one, or may: then the hold has left that sidecar (S16).
    pub(super) fn lose_as(&self, generation: u64, loss: Loss) -> bool {
        let line = self.line();
        let is_newest = !line.resuming && line.generation == generation;
        if is_newest {
            self.lose(loss);
        }
        is_newest
    }

    /// The hold is lost, unless it is over already.
    pub(super) fn lose(&self, loss: Loss) {
        self.over(&mut self.kept(), Some(loss));
    }

    /// The holder ends the hold (S13). False if it was over already.
    pub(super) fn end(&self) -> bool {
        let mut kept = self.kept();
        let was_valid = !self.remaining_of(&mut kept).is_zero();
        self.over(&mut kept, None);
        was_valid
    }

    fn over(&self, kept: &mut Kept, loss: Option<Loss>) {
        if !kept.over {
            kept.over = true;
            if loss.is_some() {
                self.loss.send_replace(loss);
            }
        }
    }

    /// Whether the holder has ended the hold, or it is lost.
    pub(super) fn is_over(&self) -> bool {
        self.kept().over
    }

    pub(super) fn loss(&self) -> Option<Loss> {
        self.loss.borrow().clone()
    }

    /// The lock was broken, and the hold ends with its validity (S22).
    pub(super) fn revoke(&self, notice: Notice) {
        self.notice.send_replace(Some(notice));
    }

    pub(super) fn notice(&self) -> Option<Notice> {
        self.notice.borrow().clone()
    }

    pub(super) fn watch_notice(&self) -> watch::Receiver<Option<Notice>> {
        self.notice.subscribe()
    }

    pub(super) fn watch_loss(&self) -> watch::Receiver<Option<Loss>> {
        self.loss.subscribe()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
