//! A subscriber's stream: what is told is shown to the judge before it is on its way, and nothing comes from
//! a sidecar that is dead.

use leasehold::coordinator::CallError;
use leasehold::schedule::RunId;
use leasehold::scheduler::{ScheduleEvent, ScheduleStream, SubscribeRequest};
use tokio::sync::{mpsc, oneshot};

use super::telling;
use crate::world::shared::World;
use crate::world::sidecar::{self, End, Sidecar};

/// A stream, as its client has it.
pub(super) type Stream = sidecar::Stream<ScheduleEvent>;

/// Takes part at a sidecar.
pub(super) fn begin(
    world: &World,
    sidecar: &Sidecar,
    request: SubscribeRequest,
) -> Result<Stream, CallError> {
    let resumes = request.resume.as_ref().map(|resume| resume.run_id.clone());
    let path = sidecar.path(&request.key).to_string();
    let stream = sidecar.scheduler.subscribe(request)?;
    let (told, events, ended) = Stream::new();
    let number = world.state().schedules.stream();
    let (world, sidecar) = (world.clone(), sidecar.clone());
    let pump = Pump { world, sidecar, number, path, resumes, run: None, events };
    tokio::spawn(pump.run(stream, ended));
    Ok(told)
}

struct Pump {
    world: World,
    sidecar: Sidecar,
    number: u64,
    path: String,
    /// The run that this stream goes on with.
    resumes: Option<RunId>,
    /// The run that it was told last.
    run: Option<RunId>,
    events: mpsc::UnboundedSender<ScheduleEvent>,
}

impl Pump {
    async fn run(mut self, stream: ScheduleStream, ended: oneshot::Receiver<End>) {
        self.pump(stream, ended).await;
        self.is_there(false);
    }

    /// Whether this sidecar has this subscriber.
    fn is_there(&self, is_there: bool) {
        let mut state = self.world.state();
        let seen = state.schedules.seen(&self.path);
        let there = seen.present.entry((self.sidecar.index, self.sidecar.life)).or_default();
        if is_there {
            there.insert(self.number);
        } else {
            there.remove(&self.number);
        }
    }

    async fn pump(&mut self, mut stream: ScheduleStream, mut ended: oneshot::Receiver<End>) {
        loop {
            let event = tokio::select! {
                biased;
                () = self.sidecar.dead() => return,
                how = &mut ended => {
                    return match how {
                        Ok(End::Silent) => stream.disconnected(),
                        Ok(End::Closed) | Err(_) => stream.closed_by_client(),
                    };
                }
                event = stream.next() => event,
            };
            let Some(event) = event else { return };
            match &event {
                ScheduleEvent::Standby(_) => self.is_there(true),
                ScheduleEvent::Failed(_) => self.is_there(false),
                ScheduleEvent::Run(run) => self.run = Some(run.told.run_id.clone()),
                _ => {}
            }
            let runs = telling::Runs { resumes: self.resumes.as_ref(), last: self.run.as_ref() };
            telling::told(&self.world, &self.sidecar, runs, &event);
            let _ = self.events.send(event);
        }
    }
}
