//! The requests to the store that are under way for one lock. Its task polls them itself: an answer then
//! costs no task of its own, and no way through the inbox. None is ever awaited alone, so a slow one delays
//! no command.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::task::coop;

use super::inbox::Commands;
use super::task::Command;
use crate::coordinator::trace::TraceHandle;
use crate::hold::Event;
use crate::lock::Permit;
use crate::store::BreakNote;

/// What the store answered to a request.
pub(in crate::coordinator) struct Answered {
    /// What it is to the machine.
    pub(in crate::coordinator) event: Event,
    /// The note of a break that the request met (S17).
    pub(in crate::coordinator) note: Option<BreakNote>,
    /// What is waited for now: the turn of a renewal that is held back (S7).
    pub(in crate::coordinator) next: Option<NextAnswer>,
}

/// An answer that follows another.
pub(in crate::coordinator) type NextAnswer = Pin<Box<dyn Future<Output = Answered> + Send>>;

impl fmt::Debug for Answered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Answered").field(&self.event).finish()
    }
}

impl From<Event> for Answered {
    fn from(event: Event) -> Self {
        Self { event, note: None, next: None }
    }
}

/// What a lock's task goes on with.
#[derive(Debug)]
pub(in crate::coordinator) enum Input {
    Command(Command),
    /// The answer to a request of this permit.
    Answer(Permit, Answered),
}

type Request = Pin<Box<dyn Future<Output = (Permit, Answered)> + Send>>;

/// Requests under way, for which a lock that is held for hours keeps no memory. They are the lock's and not a
/// caller's: one that goes away cuts none in the middle (S6).
#[derive(Default)]
pub(in crate::coordinator) struct Requests(Option<Box<PendingRequests>>);

#[derive(Default)]
struct PendingRequests {
    requests: VecDeque<Request>,
    /// Commands that went before them since they were polled last.
    passed_by: usize,
}

/// Commands that may go before an answer: callers on other threads that never stop must not keep it waiting
/// (S7).
const PASSING: usize = 32;

impl Requests {
    /// Adds a request of this permit, which begins when it is polled. It is for the hold that is followed
    /// now, if one is.
    pub(in crate::coordinator) fn add(
        &mut self,
        permit: Permit,
        request: impl Future<Output = Answered> + Send + 'static,
    ) {
        let requests = &mut self.0.get_or_insert_default().requests;
        requests.push_back(match TraceHandle::current() {
            None => Box::pin(async move { (permit, request.await) }),
            Some(trace) => Box::pin(trace.around(async move { (permit, request.await) })),
        });
    }

    pub(in crate::coordinator) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The next command, or else the next answer. Commands go first, as what was told before an answer came
    /// was true before; but not for ever.
    pub(in crate::coordinator) async fn next_input(&mut self, commands: &mut Commands) -> Input {
        poll_fn(|context| self.poll_input(commands, context)).await
    }

    fn poll_input(&mut self, commands: &mut Commands, context: &mut Context<'_>) -> Poll<Input> {
        if self.0.as_ref().is_some_and(|queue| queue.passed_by >= PASSING)
            && let Poll::Ready((permit, answer)) = self.poll_next(context)
        {
            return Poll::Ready(Input::Answer(permit, answer));
        }
        // The other tasks of this thread get their turn, too.
        let turn = ready!(coop::poll_proceed(context));
        let Poll::Ready(command) = commands.poll_next(context) else {
            drop(turn);
            let (permit, answer) = ready!(self.poll_next(context));
            return Poll::Ready(Input::Answer(permit, answer));
        };
        turn.made_progress();
        if let Some(queue) = &mut self.0 {
            queue.passed_by += 1;
        }
        Poll::Ready(Input::Command(command))
    }

    /// Polls all of them until one is answered: there are hardly ever more than one a permit.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<(Permit, Answered)> {
        let Some(queue) = &mut self.0 else { return Poll::Pending };
        queue.passed_by = 0;
        for _ in 0..queue.requests.len() {
            // One that panics stays out: it must not be polled again.
            let Some(mut request) = queue.requests.pop_front() else { break };
            match request.as_mut().poll(context) {
                Poll::Ready(answered) => {
                    if queue.requests.is_empty() {
                        self.0 = None;
                    }
                    return Poll::Ready(answered);
                }
                Poll::Pending => queue.requests.push_back(request),
            }
        }
        Poll::Pending
    }

    /// Lets each of them end, without anybody who takes its answer (S6).
    pub(in crate::coordinator) fn finish_alone(self) {
        for request in self.0.into_iter().flat_map(|queue| queue.requests) {
            tokio::spawn(request);
        }
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Requests")
            .field(&self.0.as_ref().map_or(0, |queue| queue.requests.len()))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::actor::inbox::Inbox;
    use crate::hold::CallerId;

    /// As a caller on another thread sends that never stops: there is always one command more.
    async fn next_of_many(
        inbox: &Inbox,
        commands: &mut Commands,
        requests: &mut Requests,
    ) -> Input {
        inbox.send(Command::Leave(CallerId(1)));
        requests.next_input(commands).await
    }

    #[tokio::test]
    async fn s7_commands_without_end_keep_no_answer_waiting() {
        let (inbox, mut commands) = Inbox::new();
        let mut requests = Requests::default();
        requests.add(Permit::FIRST, async { Event::TimePassed.into() });
        for _ in 0..1_000 {
            let next = next_of_many(&inbox, &mut commands, &mut requests).await;
            if matches!(next, Input::Answer(..)) {
                return;
            }
        }
        panic!("the answer to a renewal is not taken while commands come");
    }

    #[tokio::test]
    async fn commands_without_end_leave_the_thread_to_others_in_between() {
        let (inbox, mut commands) = Inbox::new();
        let mut requests = Requests::default();
        let other = tokio::spawn(async {});
        for _ in 0..10_000 {
            next_of_many(&inbox, &mut commands, &mut requests).await;
        }
        assert!(other.is_finished(), "nobody else had a turn");
    }
}
