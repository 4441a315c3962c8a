//! What a hold lives by: the stream that its events come by, and how it ends.

use std::future::Future;
use std::time::Duration;

use tonic::{Status, Streaming};

use super::HoldEvent;
use super::held::already_lost;
use crate::client::Client;
use crate::connect::{Calls, Lane};
use crate::messages::ReleaseResult;
use crate::proto::hold_lease_request::Start;
use crate::proto::hold_lease_response::Event;
use crate::proto::{HoldLeaseRequest, HoldLeaseResponse, Resume};
use crate::revisions::Needs as _;

/// The life line of a hold (S14).
pub(crate) trait Line: Sized + Send + Sync + 'static {
    /// The next event; an error when the stream broke, or nothing was heard for so long. The caller may stop
    /// waiting at any moment and wait again.
    fn next(&mut self, silence: Duration) -> impl Future<Output = Result<Event, Status>> + Send;

    /// The calls over its connection.
    fn calls(&self) -> Calls;

    /// Asks on a new stream that the hold goes on (S16).
    fn resume(
        &self,
        client: &Client,
        resume: Resume,
    ) -> impl Future<Output = Result<Self, Status>> + Send;

    /// Says that the hold of this lease id and generation has ended, because it was dropped; what is
    /// told of that.
    fn end(
        &self,
        client: &Client,
        lease_id: String,
        generation: u64,
    ) -> impl Future<Output = HoldEvent> + Send;

    /// Whether the sidecar is told by a release that the holder knows of its loss (S13).
    fn says_known(&self) -> bool;

    /// Completes when the holder has ended the hold, and was answered.
    fn ended(&self) -> impl Future<Output = ()> + Send + use<Self>;

    /// The hold is over, by a loss or by its holder.
    fn hand_back(self, is_lost: bool) -> impl Future<Output = ()> + Send;
}

/// A message of a stream of events.
pub(crate) trait Message: Send + 'static {
    type Event;

    /// `None` for an event of a later version.
    fn event(self) -> Option<Self::Event>;
}

impl Message for HoldLeaseResponse {
    type Event = Event;

    fn event(self) -> Option<Event> {
        self.event
    }
}

/// A lasting call that was answered.
#[derive(Debug)]
pub(crate) struct Stream<M> {
    stream: Streaming<M>,
    lane: Lane,
}

impl<M: Message> Stream<M> {
    pub(crate) const fn new(stream: Streaming<M>, lane: Lane) -> Self {
        Self { stream, lane }
    }

    /// The calls over its connection.
    pub(crate) fn calls(&self) -> Calls {
        self.lane.calls.clone()
    }

    /// The next event; an error when there is none for so long.
    pub(crate) async fn next(&mut self, silence: Duration) -> Result<M::Event, Status> {
        let heard = async {
            loop {
                let message = self.stream.message().await?;
                let Some(message) = message else {
                    return Err(Status::unavailable(
                        "the sidecar ended the stream without a reason",
                    ));
                };
                if let Some(event) = message.event() {
                    return Ok(event);
                }
            }
        };
        let heard = tokio::time::timeout(silence, heard).await;
        self.lane.look_at(heard.unwrap_or_else(|_elapsed| Err(silent())))
    }
}

pub(crate) fn silent() -> Status {
    Status::unavailable("the sidecar has sent nothing for a long time")
}

/// A HoldLease call.
pub(super) type HoldStream = Stream<HoldLeaseResponse>;

/// Asks for the lock or for a hold to be resumed.
pub(super) async fn start(client: &Client, start: Start) -> Result<HoldStream, Status> {
    let mut request = HoldLeaseRequest { start: Some(start), needs: 0 };
    request.needs = request.needs();
    let mut lane = client.lane();
    let asked =
        tokio::time::timeout(client.settings.silence, lane.calls.leases.hold_lease(request)).await;
    let answer = asked.unwrap_or_else(|_elapsed| Err(silent()));
    Ok(Stream::new(lane.look_at(answer)?.into_inner(), lane))
}

impl Line for HoldStream {
    async fn next(&mut self, silence: Duration) -> Result<Event, Status> {
        Self::next(self, silence).await
    }

    fn calls(&self) -> Calls {
        Self::calls(self)
    }

    async fn resume(&self, client: &Client, resume: Resume) -> Result<Self, Status> {
        start(client, Start::Resume(resume)).await
    }

    /// Over a network the end of the stream releases nothing (S14), so a call says it first.
    async fn end(&self, client: &Client, lease_id: String, generation: u64) -> HoldEvent {
        match client.release_hold(lease_id, generation, None, None).await {
            Ok(result) => already_lost(&result).map_or_else(
                || HoldEvent::Released(ReleaseResult::from_wire(&result).outcome),
                HoldEvent::Lost,
            ),
            Err(error) => HoldEvent::ReleaseUnconfirmed { detail: error.to_string() },
        }
    }

    fn says_known(&self) -> bool {
        true
    }

    /// A hold lasts as long as its holder keeps it.
    fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        std::future::pending()
    }

    async fn hand_back(self, _is_lost: bool) {}
}
