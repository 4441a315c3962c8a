//! The requests to the store that are under way for one lock. Its task polls them itself: an answer then costs no task of
//! its own, and no way through the inbox. None is ever awaited alone, so a slow one delays no command.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::StreamExt as _;

use super::task::{Command, Commands};
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
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once, and not kept")]
#[derive(Debug)]
pub(super) enum Input {
    /// A command; none when the time has come that the machines wait for.
    Command(Option<Box<Command>>),
    /// The answer to a request of this permit.
    Answer(Permit, Answer),
}

type Request = Pin<Box<dyn Future<Output = (Permit, Answer)> + Send>>;

/// Requests under way. They are the lock's and not a caller's: one that goes away cuts none in the middle (S6).
#[derive(Default)]
pub(super) struct Requests(VecDeque<Request>);

impl Requests {
    /// Adds a request of this permit, which begins when it is polled.
    pub(super) fn add(
        &mut self,
        permit: Permit,
        request: impl Future<Output = Answer> + Send + 'static,
    ) {
        self.0.push_back(Box::pin(async move { (permit, request.await) }));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next command, or else the next answer. Commands go first, as what was told before an answer came was true before.
    pub(super) async fn next_input(&mut self, commands: &mut Commands) -> Input {
        poll_fn(|context| match commands.poll_next_unpin(context) {
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
        for _ in 0..self.0.len() {
            // One that panics stays out: it must not be polled again.
            let Some(mut request) = self.0.pop_front() else { break };
            match request.as_mut().poll(context) {
                Poll::Ready(answered) => {
                    if self.0.is_empty() {
                        // A lock that is held for hours keeps no memory for requests.
                        self.0 = VecDeque::new();
                    }
                    return Poll::Ready(answered);
                }
                Poll::Pending => self.0.push_back(request),
            }
        }
        Poll::Pending
    }

    /// Lets each of them end, without anybody who takes its answer (S6).
    pub(super) fn finish_alone(self) {
        for request in self.0 {
            tokio::spawn(request);
        }
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Requests").field(&self.0.len()).finish()
    }
}
