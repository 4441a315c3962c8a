//! The stream of a subscriber.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use tonic::Status;

use super::run_name::RunKey;
use super::to_proto as schedules;
use crate::coordinator::HeldEvent;
use crate::grpc::lease::held::held;
use crate::grpc::lease::life_stream::LifeStream;
use crate::grpc::lease::{run_state, to_proto};
use crate::grpc::serve::life_line::LifeLine;
use crate::grpc::{proto, status};
use crate::schedule::{Definition, Outcome, RunId};
use crate::scheduler::{ScheduleEvent, ScheduleStream};

/// The events of a subscriber.
#[derive(Debug)]
pub(in crate::grpc) struct ScheduleEvents {
    stream: LifeStream<ScheduleStream>,
    /// Until it was told.
    understood: Option<proto::UnderstoodSchedule>,
    /// Follows each run id.
    key: Option<RunKey>,
}

impl ScheduleEvents {
    /// Of a subscriber that came with this definition.
    pub(super) fn new(
        stream: ScheduleStream,
        life_line: Option<LifeLine>,
        definition: &Definition,
        key: Option<RunKey>,
    ) -> Self {
        let understood = Some(schedules::understood(definition));
        Self { stream: LifeStream::new(stream, life_line), understood, key }
    }

    fn run_id(&self, run_id: &RunId) -> String {
        self.key.as_ref().map_or_else(|| run_id.to_string(), |key| format!("{run_id}{key}"))
    }

    fn event(&mut self, event: ScheduleEvent) -> Result<proto::SubscribeScheduleResponse, Status> {
        use proto::subscribe_schedule_response::Event;
        let event = match event {
            ScheduleEvent::Standby(standby) => {
                Event::Standby(schedules::standby(*standby, self.understood.take()))
            }
            ScheduleEvent::Run(run) => {
                let run_id = self.run_id(&run.told.run_id);
                Event::Run(schedules::run(*run, run_id))
            }
            ScheduleEvent::Held(event) => held!(event, Event),
            ScheduleEvent::Recorded { run_id, report, completion } => {
                let outcome = report.map(|report| run_state::outcome(Outcome::from(report)));
                Event::Recorded(proto::Recorded {
                    run_id: self.run_id(&run_id),
                    outcome: outcome.unwrap_or_default().into(),
                    result: schedules::completion(completion).into(),
                })
            }
            ScheduleEvent::DefinitionInForce { definition, conflict } => {
                Event::DefinitionInForce(schedules::definition_in_force(&definition, conflict))
            }
            ScheduleEvent::Failed(error) => {
                self.stream.finish();
                return Err(status::of_call(&error));
            }
        };
        Ok(proto::SubscribeScheduleResponse { event: Some(event) })
    }
}

impl Stream for ScheduleEvents {
    type Item = Result<proto::SubscribeScheduleResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let event = ready!(self.stream.poll(context));
        Poll::Ready(event.map(|event| event.and_then(|event| self.event(event))))
    }
}
