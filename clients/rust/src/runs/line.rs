//! The life line of a run's hold: the subscription's stream, for as long as the run goes on.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tonic::Status;

use super::{ScheduleEvent, Subscribed, Tells};
use crate::client::Client;
use crate::connect::Calls;
use crate::constants::LAST_WORD;
use crate::hold::{HoldEvent, Line, Loss};
use crate::messages::{
    Completion, CompletionResult, DefinitionInForce, LossReason, ReleaseOutcome, Subscription,
};
use crate::proto::hold_lease_response::Event as HoldWire;
use crate::proto::subscribe_schedule_response::Event;
use crate::proto::{Released, Resume, Run, SubscribeScheduleRequest};

/// What its holder has done with a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Open,
    /// It was dropped by a panic.
    Panicked,
    /// Its outcome was told, and that was answered.
    Completed,
}

/// The stream of a subscription while a run goes on.
#[derive(Debug)]
pub(super) struct RunLine {
    here: Subscribed,
    /// The sidecar has said on this stream that the run is over.
    is_over: bool,
    /// By its loss.
    is_lost: bool,
    /// The stream broke.
    is_broken: bool,
    stages: watch::Sender<Stage>,
    run_id: String,
    subscription: Arc<Subscription>,
    back: UnboundedSender<Subscribed>,
    tells: Tells,
}

impl RunLine {
    pub(super) fn new(
        here: Subscribed,
        run: &Run,
        subscription: &Arc<Subscription>,
        back: UnboundedSender<Subscribed>,
        tells: Tells,
    ) -> Self {
        Self {
            here,
            is_over: false,
            is_lost: false,
            is_broken: false,
            stages: watch::Sender::new(Stage::Open),
            run_id: run.run_id.clone(),
            subscription: Arc::clone(subscription),
            back,
            tells,
        }
    }

    /// For the holder to say what it has done.
    pub(super) fn stages(&self) -> watch::Sender<Stage> {
        self.stages.clone()
    }

    /// Whether each run has the events of its hold.
    pub(super) const fn tells_holds(&self) -> bool {
        self.tells.holds
    }

    /// What an event means for the hold; `None` if nothing.
    fn of_hold(&mut self, event: Event) -> Option<HoldWire> {
        match event {
            Event::Run(run) => run.grant.map(HoldWire::Granted),
            Event::Renewed(renewed) => Some(HoldWire::Renewed(renewed)),
            Event::AtRisk(at_risk) => Some(HoldWire::AtRisk(at_risk)),
            Event::Recovered(recovered) => Some(HoldWire::Recovered(recovered)),
            Event::Revoked(revoked) => Some(HoldWire::Revoked(revoked)),
            Event::Draining(draining) => Some(HoldWire::Draining(draining)),
            Event::Lost(lost) => {
                (self.is_over, self.is_lost) = (true, true);
                Some(HoldWire::Lost(lost))
            }
            Event::Recorded(recorded) if recorded.run_id == self.run_id => {
                self.is_over = true;
                Some(HoldWire::Released(Released::default()))
            }
            Event::DefinitionInForce(definition) => {
                let definition = DefinitionInForce::from_wire(definition);
                self.tells.tell(ScheduleEvent::DefinitionInForce(definition));
                None
            }
            // Of an earlier run; or of what is told when this one is over.
            Event::Recorded(_) | Event::Standby(_) => None,
        }
    }
}

impl Line for RunLine {
    async fn next(&mut self, silence: Duration) -> Result<HoldWire, Status> {
        loop {
            if self.is_over {
                // What comes now is for whoever waits for the next run.
                return std::future::pending().await;
            }
            match self.here.stream.next(silence).await {
                Ok(event) => {
                    if let Some(event) = self.of_hold(event) {
                        return Ok(event);
                    }
                }
                Err(status) => {
                    self.is_broken = true;
                    return Err(status);
                }
            }
        }
    }

    fn calls(&self) -> Calls {
        self.here.stream.calls()
    }

    async fn resume(&self, client: &Client, resume: Resume) -> Result<Self, Status> {
        let request = SubscribeScheduleRequest {
            reconnected: true,
            resume: Some(resume),
            run_id: self.run_id.clone(),
            ..self.subscription.to_wire()
        };
        let here = Subscribed::start(client, request).await?;
        Ok(Self {
            here,
            is_over: false,
            is_lost: false,
            is_broken: false,
            stages: self.stages.clone(),
            run_id: self.run_id.clone(),
            subscription: Arc::clone(&self.subscription),
            back: self.back.clone(),
            tells: self.tells.clone(),
        })
    }

    /// Another replica is to run what was dropped here, unless a panic dropped it: that would panic there
    /// too.
    async fn end(&self, client: &Client, lease_id: String, generation: u64) -> HoldEvent {
        let completion = if *self.stages.borrow() == Stage::Panicked {
            Completion::failed("the run panicked")
        } else {
            Completion::returned()
        };
        let completing =
            client.complete(completion.into_wire(lease_id, generation, self.run_id.clone()));
        match completing.await {
            Ok(completed) => {
                self.stages.send_replace(Stage::Completed);
                match completed.result {
                    CompletionResult::Recorded | CompletionResult::RecordedLate => {
                        HoldEvent::Released(ReleaseOutcome::Released)
                    }
                    CompletionResult::Superseded => HoldEvent::Lost(Loss::new(
                        LossReason::Unspecified,
                        "somebody else was granted its occurrence",
                    )),
                }
            }
            Err(error) => HoldEvent::ReleaseUnconfirmed { detail: error.to_string() },
        }
    }

    /// What became of a run is told by its outcome, for a run that was lost too.
    fn says_known(&self) -> bool {
        false
    }

    fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        // A sender is kept here, so that this waits for nothing else.
        let stages = self.stages.clone();
        async move {
            let mut stage = stages.subscribe();
            let _completed = stage.wait_for(|it| *it == Stage::Completed).await;
        }
    }

    /// The stream goes on to the next run only if the sidecar, too, knows that this one is over: else it
    /// would go on renewing a hold that nobody believes in. At a deadline it says so a moment later than the
    /// clock here, and a stream that ended meanwhile would be a run that was abandoned (T12). After a loss it
    /// ends, because the work may go on: the next run comes by another one (T24).
    async fn hand_back(mut self, is_lost: bool) {
        let is_open = !self.is_broken && *self.stages.borrow() == Stage::Open;
        if is_open && !self.is_over {
            let told = async { while self.next(LAST_WORD * 2).await.is_ok() && !self.is_over {} };
            let _silent = tokio::time::timeout(LAST_WORD, told).await;
        }
        let is_known = self.is_over || *self.stages.borrow() == Stage::Completed;
        if is_known && !(self.is_broken || self.is_lost || is_lost) {
            // Nobody waits for another run.
            let _gone = self.back.send(self.here);
        }
    }
}
