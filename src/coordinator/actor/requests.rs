//! The requests to the store that are under way for one lock. Its task polls them itself: an answer then
//! costs no task of its own, and no way through the inbox. None is ever awaited alone, so a slow one delays
//! no command.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};

use super::inbox::Commands;
use super::task::Command;
use crate::coordinator::store_io::calls::Answered;
use crate::coordinator::trace::TraceHandle;
use crate::lock::Permit;

/// What a lock's task goes on with.
pub(super) enum Input {
    Command(Command),
    /// The answer to a request of this permit.
    Answer(Permit, Answered),
}

type Request = Pin<Box<dyn Future<Output = (Permit, Answered)> + Send>>;

/// Requests under way. They are the lock's and not a caller's: one that goes away cuts none in the middle
/// (S6).
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// None while there are none: a lock that is held for hours keeps no memory for them.
    under_way: Option<FuturesUnordered<Request>>,
    /// Commands that went before their answers since the last of these.
    passed_by: usize,
}

/// Commands that may go before an answer: callers on other threads that never stop must not keep it waiting
/// (S7).
const PASSING: usize = 32;

impl Requests {
    /// Adds a request of this permit, which begins when it is polled. It is for the hold that this trace
    /// follows, if it is for one.
    pub(super) fn add(
        &mut self,
        permit: Permit,
        trace: Option<TraceHandle>,
        request: impl Future<Output = Answered> + Send + 'static,
    ) {
        let request = request.map(move |answered| (permit, answered));
        self.under_way.get_or_insert_default().push(match trace {
            None => Box::pin(request),
            Some(trace) => Box::pin(trace.around(request)),
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_none()
    }

    /// The next command, or else the next answer. Commands go first, as what was told before an answer came
    /// was true before; but not for ever.
    pub(super) async fn next_input(&mut self, commands: &mut Commands) -> Input {
        // The other tasks of this thread get their turn, too.
        tokio::task::consume_budget().await;
        poll_fn(|context| self.poll_input(commands, context)).await
    }

    /// Polled by hand: what waits here does so for as long as a lock is held, and is to take little.
    fn poll_input(&mut self, commands: &mut Commands, context: &mut Context<'_>) -> Poll<Input> {
        if self.passed_by >= PASSING {
            self.passed_by = 0;
            if let Poll::Ready((permit, answer)) = self.poll_answer(context) {
                return Poll::Ready(Input::Answer(permit, answer));
            }
        }
        if let Poll::Ready(command) = commands.poll_next(context) {
            self.passed_by += 1;
            return Poll::Ready(Input::Command(command));
        }
        let (permit, answer) = ready!(self.poll_answer(context));
        self.passed_by = 0;
        Poll::Ready(Input::Answer(permit, answer))
    }

    /// The next answer; where nothing is under way, none ever.
    fn poll_answer(&mut self, context: &mut Context<'_>) -> Poll<(Permit, Answered)> {
        let Some(under_way) = &mut self.under_way else { return Poll::Pending };
        let answer = ready!(under_way.poll_next_unpin(context));
        self.under_way.take_if(|under_way| under_way.is_empty());
        answer.map_or(Poll::Pending, Poll::Ready)
    }

    /// Lets each of them end, without anybody who takes its answer (S6).
    pub(super) fn finish_alone(self) {
        for request in self.under_way.into_iter().flatten() {
            tokio::spawn(request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::actor::inbox::Inbox;
    use crate::hold::{CallerId, Event};

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
        requests.add(Permit::FIRST, None, async { Event::TimePassed.into() });
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
