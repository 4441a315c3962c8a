//! The hold: its owner has the lock, as long as it says so.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Loss;
use super::state::{HoldState, ToRelease};
use crate::boot_clock::BootInstant;
use crate::client::Client;
use crate::constants::ANSWER_POLL;
use crate::errors::{Error, Reason};
use crate::holder_calls::{check_recorded, check_saved};
use crate::messages::{
    Grant, HoldInfo, LossReason, ReleaseOutcome, ReleaseResult, RunOutcome, check_size,
};
use crate::proto::{self, Validity};

/// A lock that is held. [`run`](Self::run) runs code while it is; [`release`](Self::release) releases it.
/// Dropped, it is released in the background, and only an event tells the outcome.
///
/// What it says is right also after the process, or the machine, was stopped and goes on: each question reads
/// the boot clock. Between the question and the deed the process may be stopped again, so let protected
/// resources check [`fencing_token`](Self::fencing_token).
#[derive(Debug)]
#[must_use = "the lock is released when the hold is dropped"]
pub struct Hold {
    client: Client,
    grant: Grant,
    state: Arc<HoldState>,
    /// Its end tells the task to end the stream. Dropped after `Drop` has ended the hold (S13).
    _stream: oneshot::Sender<()>,
}

impl Hold {
    pub(super) const fn new(
        client: Client,
        grant: Grant,
        state: Arc<HoldState>,
        stream: oneshot::Sender<()>,
    ) -> Self {
        Self { client, grant, state, _stream: stream }
    }

    /// Greater than every token granted for this lock before: send it with each write, and let the resource
    /// refuse smaller ones than it has seen (S5).
    #[must_use]
    pub const fn fencing_token(&self) -> u64 {
        self.grant.fencing_token
    }

    /// The path of the lock.
    #[must_use]
    pub fn lock_path(&self) -> &str {
        &self.grant.lock_path
    }

    /// Names this hold in calls of its own. Who knows it can end the hold.
    #[must_use]
    pub fn lease_id(&self) -> &str {
        &self.grant.lease_id
    }

    /// Which permit of the lock is held: 0 unless several were asked for
    /// ([`LeaseSpec::permits`](crate::LeaseSpec)).
    #[must_use]
    pub const fn permit(&self) -> u32 {
        self.grant.permit
    }

    /// When `max_hold` ends on this machine's boot clock, and the hold is lost unless it is extended before.
    /// `None` if there is no limit.
    #[must_use]
    pub fn max_hold_ends(&self) -> Option<BootInstant> {
        self.state.max_hold_ends()
    }

    /// The grant as it came.
    #[must_use]
    pub const fn grant(&self) -> &Grant {
        &self.grant
    }

    /// The end of validity on this machine's boot clock, unless renewed. Past it the hold is lost, whether or
    /// not anything said so.
    #[must_use]
    pub fn valid_until(&self) -> BootInstant {
        self.state.valid_until()
    }

    /// The time left now; zero when the hold is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.state.remaining()
    }

    /// Whether the holder may act now. Once false, it stays false.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.state.is_valid()
    }

    /// Completes when the hold is lost: at the end of its validity at the latest, or a second after that
    /// where the machine slept. Never, if the holder ends it first.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        let state = Arc::clone(&self.state);
        async move {
            let mut watched = state.watch_loss();
            let told = watched.wait_for(Option::is_some).await;
            match told.ok().and_then(|loss| loss.clone()) {
                Some(loss) => loss,
                // Not reached: the sender is in `state`, which lives as long as this future.
                None => std::future::pending().await,
            }
        }
    }

    /// Why the hold was lost; `None` if it was not.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        // Past its validity it is lost, whoever finds out first.
        let _is_valid = self.is_valid();
        self.state.loss()
    }

    /// What the sidecar knows of the hold: its state and its bounds.
    ///
    /// # Errors
    /// [`Error::Refused`]; with [`Reason::HoldLost`] the hold is lost, too.
    pub async fn info(&self) -> Result<HoldInfo, Error> {
        let asking = self.asking(self.state.generation(), |generation, sent| async move {
            let held = self.client.ask_hold(self.grant.lease_id.clone(), generation).await?;
            self.heard(held.validity.as_ref(), sent);
            self.state.take_in_max_hold(held.max_hold_ends.as_ref(), Some(sent));
            Ok(HoldInfo::from_wire(held))
        });
        asking.await
    }

    /// Says that the job makes progress, which restarts `progress_timeout`.
    ///
    /// # Errors
    /// [`Error::Refused`]; with [`Reason::HoldLost`] the hold is lost, too.
    pub async fn report_progress(&self) -> Result<(), Error> {
        let asking = self.asking(self.state.generation(), |generation, sent| async move {
            let lease_id = self.grant.lease_id.clone();
            let validity = self.client.report_hold(lease_id, generation).await?;
            self.heard(Some(&validity), sent);
            Ok(())
        });
        asking.await
    }

    /// Sets a new `max_hold`, counted from now.
    ///
    /// # Errors
    /// [`Error::Refused`]; with [`Reason::HoldLost`] the hold is lost, too.
    pub async fn extend(&self, max_hold: Duration) -> Result<(), Error> {
        let asking = self.asking_here(|generation| async move {
            self.client.extend_hold(self.grant.lease_id.clone(), generation, max_hold).await
        });
        let (answer, generation, sent) = asking.await?;
        self.state.replace_resume_token(answer.resume_token, generation);
        self.state.take_in_max_hold(answer.max_hold_ends.as_ref(), Some(sent));
        let without = "an extension was answered without a validity";
        self.heard(Some(&answer.validity.ok_or(Error::Protocol(without))?), sent);
        Ok(())
    }

    /// Makes a call that counts only where the hold is: what a sidecar has done that the hold has left, or is
    /// leaving, is done again where it is then (S16). Gives the generation that was answered, too, and when
    /// it was asked.
    async fn asking_here<T, B>(
        &self,
        call: impl Fn(u64) -> B + Send + Sync,
    ) -> Result<(T, u64, BootInstant), Error>
    where
        T: Send,
        B: Future<Output = Result<T, Error>> + Send,
    {
        let mut generation = self.state.generation();
        loop {
            let answered = self.asking(generation, |generation, sent| {
                let answer = call(generation);
                async move { Ok((answer.await?, generation, sent)) }
            });
            let answered = answered.await?;
            match self.resumed().await {
                Ok(newest) if newest != answered.1 => generation = newest,
                // It is there, or over.
                Ok(_) | Err(_) => return Ok(answered),
            }
        }
    }

    /// Makes a call about the hold, which is given the generation to ask about, from `generation` on, and the
    /// moment at which it is sent. Where a sidecar that the hold has left says that it is over, the call is
    /// repeated with the newest generation, once a resume is answered (S16).
    pub(super) async fn asking<T, B>(
        &self,
        mut generation: u64,
        call: impl Fn(u64, BootInstant) -> B + Send + Sync,
    ) -> Result<T, Error>
    where
        T: Send,
        B: Future<Output = Result<T, Error>> + Send,
    {
        loop {
            let error = match call(generation, self.state.now()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let Some(loss) = told_lost(&error) else { return Err(error) };
            if self.state.lose_as(generation, loss) {
                return Err(error);
            }
            let Ok(newest) = self.resumed().await else { return Err(error) };
            generation = newest;
        }
    }

    /// The generation to send; waits while a resume is unanswered (S16).
    pub(super) async fn resumed(&self) -> Result<u64, Error> {
        loop {
            let settled = self.state.settled();
            if !self.is_valid() {
                return Err(self.why_over());
            }
            match settled {
                Some(generation) => return Ok(generation),
                None => tokio::time::sleep(ANSWER_POLL).await,
            }
        }
    }

    pub(super) fn why_over(&self) -> Error {
        self.state.loss().map_or_else(Error::released, Error::Lost)
    }

    /// The generation to release: where a resume is under way, the one that it is answered with (S16), if
    /// that comes while the lease can still be this hold's.
    async fn releasable(&self) -> Result<u64, Error> {
        let until = self.state.valid_until();
        loop {
            match self.state.to_release() {
                ToRelease::Generation(generation) => return Ok(generation),
                ToRelease::Lost(loss) => {
                    self.state.release_is_told();
                    return Err(Error::Lost(loss));
                }
                ToRelease::NotYet if self.state.now() >= until => {
                    self.state.release_is_told();
                    let detail = "the hold was being resumed, and no sidecar has answered yet";
                    return Err(self.unconfirmed(detail.to_owned()));
                }
                ToRelease::NotYet => tokio::time::sleep(ANSWER_POLL).await,
            }
        }
    }

    fn unconfirmed(&self, detail: String) -> Error {
        Error::ReleaseUnconfirmed { lock_path: self.grant.lock_path.clone(), detail }
    }

    /// Ends the hold here, and waits for the generation to say it with (S13, S16): where no sidecar has
    /// answered a resume while the lease could be this hold's, the newest that was answered.
    pub(crate) async fn end_and_settle(&self) -> u64 {
        self.state.end();
        self.releasable().await.unwrap_or_else(|_over| self.state.generation())
    }

    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) const fn state(&self) -> &Arc<HoldState> {
        &self.state
    }

    /// Takes in the validity in an answer to a call that was sent then.
    pub(super) fn heard(&self, validity: Option<&Validity>, sent: BootInstant) {
        if let Some(validity) = validity {
            self.state.take_in(validity, Some(sent));
        }
    }

    /// Runs `body` while the lock is held, then releases it. `body` is dropped, which ends it at its next
    /// `.await`, when the lock is lost. Dropped itself, this drops `body` and then releases in the
    /// background.
    ///
    /// # Errors
    /// [`Error::Lost`]: the lock was lost while `body` ran, or the release found that it was lost before, so
    /// that another holder may have had it meanwhile. [`Error::ReleaseUnconfirmed`] and [`Error::Refused`] as
    /// [`release`](Self::release). The result of `body` is dropped then.
    pub async fn run<F, B>(self, body: F) -> Result<B::Output, Error>
    where
        F: FnOnce(Arc<Self>) -> B,
        B: Future,
    {
        let hold = Arc::new(self);
        let lost = hold.lost();
        let output = tokio::select! {
            biased;
            loss = lost => return Err(Error::Lost(loss)),
            output = body(Arc::clone(&hold)) => output,
        };
        hold.end_and_release(None, None).await?;
        Ok(output)
    }

    /// Releases the lock and waits until the store has it, for the client's release timeout at most. The
    /// hold is not valid from the first moment of this call on (S13), so stop acting before.
    ///
    /// # Errors
    /// [`Error::Lost`]: the hold was lost before, so somebody else may have had the lock.
    /// [`Error::ReleaseUnconfirmed`] and [`Error::Refused`]: whether the lock was released is not known; it
    /// is available when its lease expires.
    pub async fn release(self) -> Result<ReleaseResult, Error> {
        self.end_and_release(None, None).await
    }

    /// The same, and saves a checkpoint before: at most 2,048 bytes. Where that fails the lock is released
    /// all the same (S26).
    ///
    /// # Errors
    /// As [`release`](Self::release). [`Error::CheckpointNotSaved`] and [`Error::CheckpointUnknown`]: the
    /// lock was released. [`Error::Refused`] with [`Reason::InvalidField`] for too large a value: then the
    /// lock is released in the background, as by a hold that is dropped.
    pub async fn release_with_checkpoint(
        self,
        value: impl AsRef<[u8]>,
    ) -> Result<ReleaseResult, Error> {
        let value = value.as_ref().to_vec();
        check_size("checkpoint", &value)?;
        self.end_and_release(Some(value), None).await
    }

    /// The same, and says how the occurrence has ended that the spec names
    /// ([`LeaseSpec::occurrence_at`](crate::LeaseSpec)): `Succeeded` and `FailedFinal` make it final, after
    /// `Failed` and `Returned` the next caller with it is granted it. A checkpoint is saved in the same
    /// write, if one is given: at most 2,048 bytes.
    ///
    /// # Errors
    /// As [`release_with_checkpoint`](Self::release_with_checkpoint); [`Error::OutcomeNotRecorded`] and
    /// [`Error::OutcomeUnknown`]: the lock was released. [`Error::Lost`]: the outcome was not recorded.
    pub async fn release_with_outcome(
        self,
        outcome: RunOutcome,
        checkpoint: Option<Vec<u8>>,
    ) -> Result<ReleaseResult, Error> {
        if let Some(value) = &checkpoint {
            check_size("checkpoint", value)?;
        }
        self.end_and_release(checkpoint, Some(outcome)).await
    }

    pub(crate) async fn end_and_release(
        &self,
        checkpoint: Option<Vec<u8>>,
        outcome: Option<RunOutcome>,
    ) -> Result<ReleaseResult, Error> {
        if !self.state.end()
            && let Some(loss) = self.state.loss()
        {
            return Err(Error::Lost(loss));
        }
        let (timeout, saves) = (self.client.settings.release_timeout, checkpoint.is_some());
        let releasing = async {
            let generation = self.releasable().await?;
            let lease_id = self.grant.lease_id.clone();
            self.client.release_hold(lease_id, generation, checkpoint, outcome).await
        };
        let result = tokio::time::timeout(timeout, releasing).await.map_err(|_elapsed| {
            self.unconfirmed(format!("the sidecar has not answered within {timeout:?}"))
        })??;
        if let Some(loss) = already_lost(&result) {
            return Err(Error::Lost(loss));
        }
        if outcome.is_some() {
            check_recorded(&result)?;
        }
        if saves {
            check_saved(&result)?;
        }
        Ok(ReleaseResult::from_wire(&result))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.state.end();
    }
}

/// The loss that a release tells of, if it does: the lease was another's, or gone, before (S13).
pub(super) fn already_lost(result: &proto::ReleaseResult) -> Option<Loss> {
    let result = ReleaseResult::from_wire(result);
    let lost = result.outcome == ReleaseOutcome::AlreadyLost;
    let reason = result.loss_reason.unwrap_or_default();
    lost.then(|| Loss::new(reason, "found when it was released"))
}

/// The loss that an answer tells of, if it does.
pub(super) fn told_lost(error: &Error) -> Option<Loss> {
    let Error::Refused(refusal) = error else {
        return None;
    };
    if refusal.reason == Some(Reason::HoldReleased) {
        return Some(Loss::new(LossReason::Unspecified, refusal.message.clone()));
    }
    if refusal.reason != Some(Reason::HoldLost) {
        return None;
    }
    let reason = refusal.loss_reason.unwrap_or_default();
    Some(Loss::new(reason, refusal.message.clone()))
}
