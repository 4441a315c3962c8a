//! A subscriber's stream: what is told is shown to the judge before it is on its way, and nothing comes from a sidecar that
//! is dead.

use leasehold::coordinator::{CallError, ScheduleEvent, ScheduleStream, SubscribeRequest};
use leasehold::schedule::RunId;
use tokio::sync::{mpsc, oneshot};

use super::telling;
use crate::world::shared::World;
use crate::world::sidecar::{End, Sidecar};

/// A stream, as its client has it. Dropped without a word it is closed.
#[derive(Debug)]
pub(super) struct Stream {
    told: mpsc::UnboundedReceiver<ScheduleEvent>,
    end: Option<oneshot::Sender<End>>,
}

impl Stream {
    /// Takes part at a sidecar.
    pub(super) fn begin(
        world: &World,
        sidecar: &Sidecar,
        request: SubscribeRequest,
    ) -> Result<Self, CallError> {
        let resumes = request.resume.as_ref().map(|resume| resume.run_id.clone());
        let stream = sidecar.coordinator.subscribe(request)?;
        let (events, told) = mpsc::unbounded_channel();
        let (end, ended) = oneshot::channel();
        let pump = Pump { world: world.clone(), sidecar: sidecar.clone(), resumes, events };
        tokio::spawn(pump.run(stream, ended));
        Ok(Self { told, end: Some(end) })
    }

    /// The next that is told; none when the connection is over.
    pub(super) async fn next(&mut self) -> Option<ScheduleEvent> {
        self.told.recv().await
    }

    pub(super) fn end(mut self, how: End) {
        if let Some(end) = self.end.take() {
            let _ = end.send(how);
        }
    }
}

struct Pump {
    world: World,
    sidecar: Sidecar,
    /// The run that this stream goes on with.
    resumes: Option<RunId>,
    events: mpsc::UnboundedSender<ScheduleEvent>,
}

impl Pump {
    async fn run(self, mut stream: ScheduleStream, mut ended: oneshot::Receiver<End>) {
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
            telling::told(&self.world, &self.sidecar, self.resumes.as_ref(), &event);
            let _ = self.events.send(event);
        }
    }
}
