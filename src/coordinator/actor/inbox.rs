//! The way to a lock's task. There is one for each lock, so it takes little while nothing is in it: channels
//! keep a block of free places, or an entry that is none.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::task::Command;
use super::timers::Alarm;
use crate::time::Instant;

/// Where commands for a lock's task are put. Cheap to clone; the clones are one.
#[derive(Clone, Debug)]
pub(in crate::coordinator) struct Inbox(Arc<Mutex<Mail>>);

/// Where the task takes them out, in the order in which they came; dropped, the inbox takes no more.
#[derive(Debug)]
pub(in crate::coordinator) struct Commands(Inbox);

#[derive(Debug, Default)]
struct Mail {
    /// What is there to be taken out, if anything is.
    waiting: Option<Box<PendingCommands>>,
    /// The task, while it waits.
    reader: Option<Waker>,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct PendingCommands(VecDeque<Command>);

impl Inbox {
    pub(in crate::coordinator) fn new() -> (Self, Commands) {
        let inbox = Self(Arc::default());
        (inbox.clone(), Commands(inbox))
    }

    /// A task that has ended ignores the command.
    pub(in crate::coordinator) fn send(&self, command: Command) {
        let mut mail = self.mail();
        if mail.is_closed {
            return;
        }
        mail.waiting.get_or_insert_default().0.push_back(command);
        let reader = mail.reader.take();
        drop(mail);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    pub(in crate::coordinator) fn is_empty(&self) -> bool {
        self.mail().waiting.is_none()
    }

    fn mail(&self) -> MutexGuard<'_, Mail> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Alarm for Inbox {
    fn call(&self, deadline: Instant) {
        self.send(Command::TimePassed(deadline));
    }
}

impl Mail {
    fn take(&mut self) -> Option<Command> {
        let waiting = self.waiting.as_mut()?;
        let command = waiting.0.pop_front();
        if waiting.0.is_empty() {
            self.waiting = None;
        }
        command
    }
}

impl Commands {
    /// The next one, which is waited for.
    pub(in crate::coordinator) fn poll_next(&mut self, context: &Context<'_>) -> Poll<Command> {
        let mut mail = self.0.mail();
        if let Some(command) = mail.take() {
            return Poll::Ready(command);
        }
        mail.reader = Some(context.waker().clone());
        Poll::Pending
    }

    /// The next one, if it is there.
    pub(in crate::coordinator) fn try_next(&mut self) -> Option<Command> {
        self.0.mail().take()
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        let mut mail = self.0.mail();
        mail.is_closed = true;
        mail.reader = None;
        let left = mail.waiting.take();
        drop(mail);
        // Whoever waits for an answer to one of them is told that none comes, which may ask for the inbox.
        drop(left);
    }
}

#[cfg(test)]
mod tests {
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
                let next = std::future::poll_fn(|context| commands.poll_next(context));
                numbers.push(number(&next.await));
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
