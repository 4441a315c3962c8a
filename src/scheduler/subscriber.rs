//! Those who take part in a schedule here, and how their going away is noticed (S14, T20).

use std::task::{Context, Poll};

use tokio::sync::{mpsc, watch};

use super::request::{ScheduleEvent, Standby, SubscribeRequest};
use super::task::Message;
use crate::coordinator::{Teller, Unread, Wait, unread};
use crate::schedule::RunId;

/// A subscriber of this sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SubscriberId(pub(super) u64);

/// What is known of a subscriber's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Open,
    /// The client has ended it.
    Closed,
    /// It ended, and the client may not know.
    Disconnected,
}

/// A subscriber, as the schedule's task knows it.
#[derive(Debug)]
pub(super) struct Subscriber {
    pub(super) id: SubscriberId,
    pub(super) events: Teller<ScheduleEvent>,
    pub(super) life: watch::Receiver<Life>,
    /// What it has asked for; a run that it goes on with is taken out.
    pub(super) request: SubscribeRequest,
    /// What it was told last that it waits for.
    pub(super) standby: Option<Standby>,
    /// The hash of the definition in force that it was told of; its own needs no telling.
    pub(super) told_definition: String,
    /// Grows with each run that a subscriber here is given: who had the last one long ago is next.
    pub(super) served: u64,
    /// Its run has ended without a word from it: it is given nothing until it speaks (T24).
    pub(super) silent: Option<RunId>,
    /// Counts it among the waiting, also while it has a run (S38).
    _wait: Wait,
}

/// A subscription by stream: the life line of the run that it has (S14, T20).
///
/// Dropping it says that the client has ended it: a run is abandoned at once.
/// [`ScheduleStream::disconnected`] says that the client may not know that its stream ended.
#[derive(Debug)]
pub struct ScheduleStream {
    events: Unread<ScheduleEvent>,
    presence: SubscriberPresence,
}

#[derive(Debug)]
struct SubscriberPresence {
    id: SubscriberId,
    life: watch::Sender<Life>,
    task: mpsc::UnboundedSender<Message>,
}

impl Drop for SubscriberPresence {
    fn drop(&mut self) {
        // `disconnected` has said so before.
        self.life.send_if_modified(|life| {
            let was_open = *life == Life::Open;
            if was_open {
                *life = Life::Closed;
            }
            was_open
        });
        // A task that has ended has no subscribers.
        let _ = self.task.send(Message::Left(self.id));
    }
}

/// Both ends of a subscription.
pub(super) fn subscription(
    id: SubscriberId,
    request: SubscribeRequest,
    wait: Wait,
    task: mpsc::UnboundedSender<Message>,
) -> (Subscriber, ScheduleStream) {
    let (events, stream) = unread();
    let (life, seen) = watch::channel(Life::Open);
    let subscriber = Subscriber {
        id,
        events,
        life: seen,
        told_definition: request.definition.hash(),
        request,
        standby: None,
        served: 0,
        silent: None,
        _wait: wait,
    };
    (subscriber, ScheduleStream { events: stream, presence: SubscriberPresence { id, life, task } })
}

impl ScheduleStream {
    /// The next event; none after the last one, or if the stream was too far behind to be told.
    pub async fn next(&mut self) -> Option<ScheduleEvent> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// The next event, as `Stream` implementations ask for it; none after the last one.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<ScheduleEvent>> {
        self.events.poll_next(context)
    }

    /// The client closed its side: it does not rely on its run any more.
    pub fn closed_by_client(self) {
        drop(self);
    }

    /// The stream ended in a way that does not show that the client knows: it may resume its run, and nobody
    /// else is granted the lock before the validity that it was told last is over (S14).
    pub fn disconnected(self) {
        self.presence.life.send_replace(Life::Disconnected);
    }
}
