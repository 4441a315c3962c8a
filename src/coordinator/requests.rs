//! The requests to the store that are under way for one lock. Its task polls them itself: an answer then costs no task of
//! its own, and no way through the inbox. None is ever awaited alone, so a slow one delays no command.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::inbox::Commands;
use super::task::Command;
use crate::hold::Event;
use crate::lock::Permit;
use crate::store::BreakNote;

/// What the store answered to a request.
#[derive(Debug)]
pub(super) struct Answer {
    /// What it is to the machine.
    pub(super) event: Event,
    /// The note of a break that the request met (S17).
    pub(super) note: Option<BreakNote>,
}

impl From<Event> for Answer {
    fn from(event: Event) -> Self {
        Self { event, note: None }
    }
}

/// What a lock's task goes on with.
#[derive(Debug)]
pub(super) enum Input {
    Command(Command),
    /// The answer to a request of this permit.
    Answer(Permit, Answer),
}

type Request = Pin<Box<dyn Future<Output = (Permit, Answer)> + Send>>;

/// Requests under way, for which a lock that is held for hours keeps no memory. They are the lock's and not a caller's: one that goes away cuts none in the middle (S6).
#[derive(Default)]
pub(super) struct Requests(Option<Box<Queue>>);

type Queue = VecDeque<Request>;

impl Requests {
    /// Adds a request of this permit, which begins when it is polled.
    pub(super) fn add(
        &mut self,
        permit: Permit,
        request: impl Future<Output = Answer> + Send + 'static,
    ) {
        self.0.get_or_insert_default().push_back(Box::pin(async move { (permit, request.await) }));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The next command, or else the next answer. Commands go first, as what was told before an answer came was true before.
    pub(super) async fn next_input(&mut self, commands: &mut Commands) -> Input {
        poll_fn(|context| match commands.poll_next(context) {
            Poll::Ready(command) => Poll::Ready(Input::Command(command)),
            Poll::Pending => {
                let (permit, answer) = ready!(self.poll_next(context));
                Poll::Ready(Input::Answer(permit, answer))
            }
        })
        .await
    }

    /// Polls all of them until one is answered: there are hardly ever more than one a permit.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<(Permit, Answer)> {
        let Some(queue) = &mut self.0 else { return Poll::Pending };
        for _ in 0..queue.len() {
            // One that panics stays out: it must not be polled again.
            let Some(mut request) = queue.pop_front() else { break };
            match request.as_mut().poll(context) {
                Poll::Ready(answered) => {
                    if queue.is_empty() {
                        self.0 = None;
                    }
                    return Poll::Ready(answered);
                }
                Poll::Pending => queue.push_back(request),
            }
        }
        Poll::Pending
    }

    /// Lets each of them end, without anybody who takes its answer (S6).
    pub(super) fn finish_alone(self) {
        for request in self.0.into_iter().flat_map(|queue| *queue) {
            tokio::spawn(request);
        }
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Requests")
            .field(&self.0.as_ref().map_or(0, |queue| queue.len()))
            .finish()
    }
}
