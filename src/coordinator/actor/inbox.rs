//! The way to a lock's task. There is one for each lock, so it takes little while nothing is in it: a channel
//! keeps a block of free places.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;

use super::task::Command;
use super::timers::Alarm;
use crate::time::Instant;

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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;
    use crate::hold::CallerId;

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
}
