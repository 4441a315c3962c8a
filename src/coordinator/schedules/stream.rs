//! A subscription, from its request to its end.

use std::task::{Context, Poll};

use tokio::sync::mpsc;

use super::request::ScheduleEvent;

/// A subscription by stream: the life line of the run that it has (S14, T20).
///
/// Dropping it says that the client has ended it: a run is abandoned at once. [`ScheduleStream::disconnected`] says that the
/// client may not know that its stream ended.
#[derive(Debug)]
pub struct ScheduleStream {
    pub(super) events: mpsc::Receiver<ScheduleEvent>,
}

impl ScheduleStream {
    /// The next event; none after the last one.
    pub async fn next(&mut self) -> Option<ScheduleEvent> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// The next event, as `Stream` implementations ask for it; none after the last one.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<ScheduleEvent>> {
        self.events.poll_recv(context)
    }

    /// The client closed its side: it does not rely on its run any more.
    pub fn closed_by_client(self) {}

    /// The stream ended in a way that does not show that the client knows: it may resume its run, and nobody else is
    /// granted the lock before the validity that it was told last is over (S14).
    pub fn disconnected(self) {}
}
