//! What a lock's task goes on with: commands, by its inbox, and answers to the requests to the store that are
//! under way for the lock. There is a task for each lock, so both take little while nothing is in them: a
//! channel keeps a block of free places. The task polls its requests itself: an answer then costs no task of
//! its own, and no way through the inbox. None is ever awaited alone, so a slow one delays no command.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use super::task::Command;
use super::timers::Alarm;
use crate::coordinator::store_io::calls::Answered;
use crate::coordinator::trace::TraceHandle;
use crate::lock::Permit;
use crate::time::Instant;
use futures_util::stream::FuturesUnordered;
use futures_util::task::AtomicWaker;
use futures_util::{FutureExt as _, StreamExt as _};

/// Where commands for a lock's task are put. Cheap to clone; the clones are one.
#[derive(Clone, Debug)]
pub(super) struct Inbox(Arc<Mail>);

/// Where the task takes them out, in the order in which they came; dropped, the inbox takes no more.
#[derive(Debug)]
pub(super) struct Commands(Inbox);

#[derive(Debug)]
struct Mail {
    /// None once the task has ended.
    commands: Mutex<Option<VecDeque<Command>>>,
    /// The task, while it waits.
    reader: AtomicWaker,
}

impl Inbox {
    pub(super) fn new() -> (Self, Commands) {
        let commands = Mutex::new(Some(VecDeque::new()));
        let inbox = Self(Arc::new(Mail { commands, reader: AtomicWaker::new() }));
        (inbox.clone(), Commands(inbox))
    }

    /// A task that has ended ignores the command.
    pub(super) fn send(&self, command: Command) {
        if let Some(commands) = &mut *self.commands() {
            commands.push_back(command);
            self.0.reader.wake();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.commands().as_ref().is_none_or(VecDeque::is_empty)
    }

    fn commands(&self) -> MutexGuard<'_, Option<VecDeque<Command>>> {
        self.0.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Alarm for Inbox {
    fn call(&self, deadline: Instant) {
        self.send(Command::TimePassed(deadline));
    }
}

impl Commands {
    pub(super) fn poll_next(&mut self, context: &Context<'_>) -> Poll<Command> {
        if let Some(command) = self.try_next() {
            return Poll::Ready(command);
        }
        self.0.0.reader.register(context.waker());
        // One that came in between has woken nobody.
        self.try_next().map_or(Poll::Pending, Poll::Ready)
    }

    pub(super) fn try_next(&mut self) -> Option<Command> {
        let mut commands = self.0.commands();
        let commands = commands.as_mut()?;
        let command = commands.pop_front();
        if commands.is_empty() {
            // A lock that is held for hours keeps no memory for them.
            *commands = VecDeque::new();
        }
        command
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        let left = self.0.commands().take();
        // Whoever waits for an answer to one of them is told that none comes, which may ask for the inbox.
        drop(left);
    }
}

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
    use std::future::poll_fn;

    use super::*;
    use crate::coordinator::actor::inbox::Inbox;
    use crate::hold::{CallerId, Event};

    fn command(number: u64) -> Command {
        Command::Leave(CallerId(number))
    }

    fn number(command: &Command) -> u64 {
        let Command::Leave(caller) = command else { panic!("{command:?}") };
        caller.0
    }

    #[tokio::test]
    async fn commands_come_in_their_order_and_wake_the_task_that_waits() {
        let (inbox, mut commands) = Inbox::new();
        assert!(inbox.is_empty() && commands.try_next().is_none());
        let reader = tokio::spawn(async move {
            let mut numbers = Vec::new();
            while numbers.len() < 100 {
                let command = poll_fn(|context| commands.poll_next(context)).await;
                numbers.push(number(&command));
            }
            numbers
        });
        for sent in 0..100 {
            inbox.send(command(sent));
            if sent % 7 == 0 {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(reader.await.unwrap(), (0..100).collect::<Vec<_>>());
        assert!(inbox.is_empty());
    }

    #[test]
    fn what_nobody_takes_out_any_more_is_dropped() {
        let (inbox, commands) = Inbox::new();
        let (reply, answer) = tokio::sync::oneshot::channel::<crate::coordinator::Released>();
        let call = crate::coordinator::actor::task::HoldCall {
            lease_id: crate::lock::LeaseId::from_uuid(uuid::Uuid::nil()),
            generation: None,
        };
        inbox.send(Command::Release(call, None, reply));
        drop(commands);
        assert!(answer.blocking_recv().is_err());
        inbox.send(command(1));
        assert!(inbox.is_empty(), "an inbox that is closed keeps nothing");
    }

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
