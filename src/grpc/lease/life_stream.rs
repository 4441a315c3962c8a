//! What streams that hold locks share: their end is a word of the client's, or it is none (S14).

use std::task::{Context, Poll, ready};
use std::time::Duration;

use tonic::Status;

use crate::coordinator::{HoldEvent, HoldStream};
use crate::grpc::serve::life_line::LifeLine;
use crate::grpc::status;
use crate::scheduler::{ScheduleEvent, ScheduleStream};

/// How often a stream that was dropped lets the task of its connection go first: that task may be about to
/// find that the connection is gone.
const TURNS: usize = 3;

/// A stream of the coordinator's that holds a lock. Dropping it says that the client has ended it.
pub(in crate::grpc) trait Holding: Send + 'static {
    /// What happens on it.
    type Event;

    /// The next event; none after the last one, or if the client was too slow to be told.
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Self::Event>>;

    /// It ended in a way that does not show that the client knows.
    fn disconnected(self);

    /// Its client has closed it after the last event: it knows that its hold is over.
    fn closed_by_client(self);
}

/// No holder believes for longer in a hold that it was told to be lost.
const BELIEVED: Duration = Duration::from_secs(61);

impl Holding for HoldStream {
    type Event = HoldEvent;

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<HoldEvent>> {
        self.poll_next(context)
    }

    fn disconnected(self) {
        Self::disconnected(self);
    }

    fn closed_by_client(self) {
        Self::closed_by_client(self);
    }
}

impl Holding for ScheduleStream {
    type Event = ScheduleEvent;

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<ScheduleEvent>> {
        self.poll_next(context)
    }

    fn disconnected(self) {
        Self::disconnected(self);
    }

    /// A subscription goes on after the loss of a run.
    fn closed_by_client(self) {}
}

/// Such a stream, and its life line: dropped before its last event, it asks its connection why.
#[derive(Debug)]
pub(in crate::grpc) struct LifeStream<S: Holding> {
    /// None after the last event.
    stream: Option<S>,
    /// None where the connection is not known: its end shows nothing.
    life_line: Option<LifeLine>,
}

impl<S: Holding> LifeStream<S> {
    pub(in crate::grpc) const fn new(stream: S, life_line: Option<LifeLine>) -> Self {
        Self { stream: Some(stream), life_line }
    }

    /// The next event; none after the last one.
    pub(in crate::grpc) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<S::Event, Status>>> {
        let Some(stream) = &mut self.stream else { return Poll::Ready(None) };
        let Some(event) = ready!(stream.poll_event(context)) else {
            // Ended without a last event: the client was not told, and may go on believing.
            if let Some(stream) = self.stream.take() {
                stream.disconnected();
            }
            return Poll::Ready(Some(Err(status::stream_behind())));
        };
        Poll::Ready(Some(Ok(event)))
    }

    /// The last event has come: the end of the stream says no more.
    pub(in crate::grpc) fn finish(&mut self) {
        self.stream = None;
    }

    /// The last event says that the hold is lost. Its client may not have read that yet; once its socket on
    /// this machine is closed by its side, nobody is left that may not know (S13, S14).
    pub(in crate::grpc) fn finish_lost(&mut self) {
        let (Some(stream), Some(life_line)) = (self.stream.take(), self.life_line.clone()) else {
            return;
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if tokio::time::timeout(BELIEVED, life_line.client_gone()).await.is_ok() {
                stream.closed_by_client();
            }
        });
    }
}

impl<S: Holding> Drop for LifeStream<S> {
    fn drop(&mut self) {
        let (Some(stream), life_line) = (self.stream.take(), self.life_line.clone()) else {
            return;
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return stream.disconnected();
        };
        let mut unanswered = Unanswered(Some(stream));
        runtime.spawn(async move {
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
            if life_line.is_some_and(|life_line| life_line.shows_that_the_client_released()) {
                drop(unanswered.0.take());
            }
        });
    }
}

/// A stream that has ended, until its connection has said why. It cannot be asked any more where its thread
/// ends first, as at a second signal (S15): what goes on elsewhere must not take that for a release (S13).
struct Unanswered<S: Holding>(Option<S>);

impl<S: Holding> Drop for Unanswered<S> {
    fn drop(&mut self) {
        if let Some(stream) = self.0.take() {
            stream.disconnected();
        }
    }
}
