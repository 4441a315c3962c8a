//! The task that keeps a hold true: it reads the stream, watches the clock, and resumes when the sidecar was
//! away.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use tonic::{Code, Status};

use super::held::{already_lost, told_lost};
use super::line::Line;
use super::open::{Events, tell};
use super::state::{HoldState, ToRelease};
use super::{HoldEvent, Loss, Notice};
use crate::boot_clock::BootInstant;
use crate::client::Client;
use crate::constants::{ANSWER_TIMEOUT, FIRST_PAUSE, KNOWN_TIMEOUT, NAP};
use crate::errors::{Error, Reason};
use crate::messages::{LossReason, duration};
use crate::proto::hold_lease_response::Event;
use crate::proto::{self, Resume, Validity};

pub(super) struct Keeper<L> {
    pub(super) client: Client,
    pub(super) state: Arc<HoldState>,
    pub(super) line: L,
    pub(super) lease_id: String,
    pub(super) fencing_token: u64,
    pub(super) events: Events,
}

/// S13: whoever had the hold has let go of what the lock protects, and knows that it is lost. The lock need
/// not be kept for it. Not where a resume may have made a newer generation (S16); and no answer is needed.
async fn say_known(client: &Client, state: &HoldState, lease_id: String) {
    if let Some(generation) = state.settled() {
        let saying = client.release_hold(lease_id, generation, None, None);
        let _answer = tokio::time::timeout(KNOWN_TIMEOUT, saying).await;
    }
}

impl<L: Line> Keeper<L> {
    /// Starts the task; it ends when the other half of `ended` is dropped.
    pub(super) fn start(self, ended: oneshot::Receiver<()>) {
        let state = Arc::clone(&self.state);
        tokio::spawn(EndsHoldFirst { state, task: Box::pin(self.run(ended)) });
    }

    /// Runs until the hold is over, or the hold is dropped.
    async fn run(mut self, mut ended: oneshot::Receiver<()>) {
        self.watch(&mut ended).await;
        let Self { client, state, line, lease_id, .. } = self;
        let says_known = line.says_known();
        line.hand_back(state.loss().is_some()).await;
        if says_known && state.loss().is_some() && !state.is_released() {
            let _gone = ended.await;
            say_known(&client, &state, lease_id).await;
        }
    }

    async fn watch(&mut self, ended: &mut oneshot::Receiver<()>) {
        let (client, state) = (self.client.clone(), Arc::clone(&self.state));
        let (lease_id, events) = (self.lease_id.clone(), self.events.clone());
        let answered = self.line.ended();
        tokio::select! {
            biased;
            () = answered => return,
            _ = &mut *ended => return self.release_dropped().await,
            () = watch_clock(&state) => {}
            () = ask_regularly(&client, &lease_id, &state, &events) => {}
            () = self.keep() => {}
        }
        match self.state.loss() {
            Some(loss) => tell(&self.events, HoldEvent::Lost(loss)),
            // The holder is releasing: the stream lives until that is answered, and the hold is gone then.
            None => {
                tokio::select! {
                    biased;
                    () = self.line.ended() => {}
                    _gone = ended => self.release_dropped().await,
                }
            }
        }
    }

    /// The hold was dropped without a release. Its outcome is an event: nobody else is left to be told.
    async fn release_dropped(&self) {
        if self.state.loss().is_some() || self.state.is_released() {
            return;
        }
        let outcome = match self.state.to_release() {
            ToRelease::Generation(generation) => {
                let ending = self.line.end(&self.client, self.lease_id.clone(), generation);
                let timeout = self.client.settings.release_timeout;
                tokio::time::timeout(timeout, ending).await.unwrap_or_else(|_elapsed| {
                    let detail = "the sidecar has not answered in time".to_owned();
                    HoldEvent::ReleaseUnconfirmed { detail }
                })
            }
            ToRelease::Lost(loss) => HoldEvent::Lost(loss),
            ToRelease::NotYet => {
                HoldEvent::ReleaseUnconfirmed { detail: "the hold was being resumed".to_owned() }
            }
        };
        tell(&self.events, outcome);
    }

    /// Reads the stream, and resumes when it breaks, until the hold is lost.
    async fn keep(&mut self) {
        while self.state.is_valid() {
            // One that has fallen silent is kept until the resume is answered: its end would end the hold
            // (S14).
            let broke = match self.line.next(self.client.settings.silence).await {
                Ok(event) => {
                    if let Some(loss) = self.take_in(event) {
                        return self.state.lose(loss);
                    }
                    continue;
                }
                Err(status) => status,
            };
            if let Some(loss) = final_refusal(&broke) {
                return self.state.lose(loss);
            }
            // Where the machine has slept past the validity there is nothing to be interrupted (S4).
            if !self.state.is_valid() {
                return;
            }
            let detail = broke.message().to_owned();
            tell(&self.events, HoldEvent::Interrupted { detail });
            // Goes on where the holder ends the hold meanwhile: its release waits for the answer.
            if let Err(loss) = self.resume().await {
                return self.state.refused(loss);
            }
        }
    }

    /// Takes in an event, and tells it if the hold goes on; the loss, if the event is one.
    fn take_in(&self, event: Event) -> Option<Loss> {
        match event {
            Event::Renewed(renewed) => {
                let generation = self.state.generation();
                self.state.replace_resume_token(renewed.resume_token, generation);
                self.state.take_in_max_hold(renewed.max_hold_ends.as_ref(), None);
                let valid_until = self.heard(renewed.validity.as_ref())?;
                tell(&self.events, HoldEvent::Renewed { valid_until });
            }
            Event::AtRisk(at_risk) => {
                let valid_until = self.heard(at_risk.validity.as_ref())?;
                let (cause, detail) = (Reason::from_wire(at_risk.cause), at_risk.detail);
                tell(&self.events, HoldEvent::AtRisk { valid_until, cause, detail });
            }
            Event::Recovered(recovered) => {
                let valid_until = self.heard(recovered.validity.as_ref())?;
                tell(&self.events, HoldEvent::Recovered { valid_until });
            }
            Event::Draining(draining) => {
                let time_left = duration(draining.time_left.as_ref());
                tell(&self.events, HoldEvent::Draining { time_left });
            }
            Event::Lost(lost) => return Some(Loss::from_wire(lost)),
            Event::Released(released) => {
                let result = released.result.unwrap_or_default();
                return Some(already_lost(&result).unwrap_or_else(|| {
                    Loss::new(LossReason::Unspecified, "it was released by its lease id")
                }));
            }
            Event::Revoked(revoked) => {
                self.heard(revoked.validity.as_ref())?;
                revoke(&self.state, &self.events, revoked.break_note);
            }
            // Said before a grant only.
            Event::Waiting(_)
            | Event::Granted(_)
            | Event::Busy(_)
            | Event::AlreadyDone(_)
            | Event::Skipped(_) => {}
        }
        None
    }

    /// Takes in a validity that answers no request of ours; the end of validity if the hold goes on.
    fn heard(&self, validity: Option<&Validity>) -> Option<BootInstant> {
        let goes_on = validity.is_none_or(|validity| self.state.take_in(validity, None));
        goes_on.then(|| self.state.valid_until())
    }

    /// S16. Tries until it has worked; the caller ends it with the validity. A try is never cut short while
    /// the hold is valid, because the sidecar would read that as its end (S14).
    async fn resume(&mut self) -> Result<(), Loss> {
        let mut pause = FIRST_PAUSE;
        // The same for every try, so that one whose answer was lost can be repeated.
        let attempt_id = uuid::Uuid::new_v4().to_string();
        loop {
            match self.try_resume(&attempt_id).await {
                Ok(result) => return result,
                Err(status) => {
                    if let Some(loss) = final_refusal(&status) {
                        return Err(loss);
                    }
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(NAP);
        }
    }

    async fn try_resume(&mut self, attempt_id: &str) -> Result<Result<(), Loss>, Status> {
        let sent = self.state.now();
        let Some(resume_token) = self.state.begin_resume() else {
            // Released: nobody waits for what comes of it.
            return std::future::pending().await;
        };
        let resume = Resume {
            attempt_id: attempt_id.to_owned(),
            resume_token,
            told_valid_until: self.state.told(),
        };
        let silence = self.client.settings.silence;
        let mut line = self.line.resume(&self.client, resume).await?;
        let grant = loop {
            match line.next(silence).await? {
                Event::Granted(grant) => break grant,
                Event::Lost(lost) => return Ok(Err(Loss::from_wire(lost))),
                Event::Waiting(_)
                | Event::Busy(_)
                | Event::AlreadyDone(_)
                | Event::Skipped(_)
                | Event::Renewed(_)
                | Event::AtRisk(_)
                | Event::Recovered(_)
                | Event::Draining(_)
                | Event::Revoked(_)
                | Event::Released(_) => {}
            }
        };
        // From here on the old stream's end means nothing, and the new one's does.
        self.client.moved(line.calls());
        self.line = line;
        if grant.fencing_token != self.fencing_token {
            let detail = "the sidecar resumed another hold than this one";
            return Ok(Err(Loss::new(LossReason::Taken, detail)));
        }
        self.state.resumed(&grant);
        self.state.take_in_max_hold(grant.max_hold_ends.as_ref(), Some(sent));
        let validity = grant.validity.unwrap_or_default();
        if !self.state.take_in(&validity, Some(sent)) {
            if self.state.loss().is_none() {
                // The holder has ended the hold, and its release waits for this.
                return Ok(Ok(()));
            }
            let detail = "its validity ended before it was resumed";
            return Ok(Err(Loss::new(LossReason::Expired, detail)));
        }
        let valid_until = self.state.valid_until();
        tell(&self.events, HoldEvent::Resumed { valid_until });
        Ok(Ok(()))
    }
}

/// The lock was broken, and the hold ends with its validity (S22); told once.
fn revoke(state: &HoldState, events: &Events, note: Option<proto::BreakNote>) {
    if state.notice().is_none() {
        let notice = Notice::new(state.valid_until(), note);
        state.revoke(notice.clone());
        tell(events, HoldEvent::Revoked(notice));
    }
}

/// Completes when the hold is lost. Reads the clock after every wake-up (S3).
async fn watch_clock(state: &HoldState) {
    let mut watched = state.watch_loss();
    loop {
        let left = state.remaining();
        if state.loss().is_some() {
            return;
        }
        // The holder has ended it: what its release needs goes on.
        let nap = if left.is_zero() { NAP } else { left.min(NAP) };
        let lost = async { watched.wait_for(Option::is_some).await.is_ok() };
        // An answer to the holder may tell of the loss before.
        let _ = tokio::time::timeout(nap, lost).await;
    }
}

/// S21: a client elsewhere asks for its validity when the sidecar has renewed it, and from time to time.
/// Completes when it is told that the hold is over.
async fn ask_regularly(client: &Client, lease_id: &str, state: &HoldState, events: &Events) {
    loop {
        let now = state.now();
        match state.next_question().filter(|_| !state.is_over()) {
            Some(due) if due <= now => {
                let generation = state.generation();
                let question = client.ask_hold(lease_id.to_owned(), generation);
                match tokio::time::timeout(ANSWER_TIMEOUT, question).await {
                    Ok(Ok(held)) => {
                        state.take_in_max_hold(held.max_hold_ends.as_ref(), Some(now));
                        let goes_on =
                            held.validity.as_ref().is_some_and(|it| state.take_in(it, Some(now)));
                        if goes_on && held.state() == proto::HoldState::Revoked {
                            revoke(state, events, held.break_note);
                        }
                    }
                    Ok(Err(error)) => {
                        let loss = told_lost(&error);
                        if loss.is_some_and(|loss| state.lose_as(generation, loss)) {
                            return;
                        }
                    }
                    // Asked again below, until the validity ends.
                    Err(_elapsed) => {}
                }
                tokio::time::sleep(FIRST_PAUSE * 4).await;
            }
            later => {
                let nap = later.map_or(NAP, |due| due.saturating_since(now).min(NAP));
                // Either way it is looked at anew.
                let _ = tokio::time::timeout(nap, state.heard()).await;
            }
        }
    }
}

/// A status that says that no try to resume will ever work; anything else may pass (S16), also that this
/// sidecar is too old (S37).
fn final_refusal(status: &Status) -> Option<Loss> {
    let hopeless = matches!(
        status.code(),
        Code::InvalidArgument
            | Code::NotFound
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::DataLoss
            | Code::Unimplemented
    );
    let error = Error::refused(status);
    if !hopeless || error.reason() == Some(&Reason::StreamBehind) || error.is_below_needs() {
        return None;
    }
    let detail = format!("the sidecar will not resume it: {error}");
    Some(told_lost(&error).unwrap_or_else(|| Loss::new(LossReason::Unspecified, detail)))
}

/// Drops a task's streams and connection only after the hold has ended here (S13), also where the runtime
/// drops the task.
struct EndsHoldFirst<F> {
    state: Arc<HoldState>,
    task: Pin<Box<F>>,
}

impl<F: Future<Output = ()>> Future for EndsHoldFirst<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.task.as_mut().poll(context)
    }
}

impl<F> Drop for EndsHoldFirst<F> {
    fn drop(&mut self) {
        let detail = "the client's runtime has ended";
        self.state.lose(Loss::new(LossReason::Unspecified, detail));
    }
}
