//! What the client of a stream has not read yet. A newer event takes the place of what it makes out of date,
//! so that a client that reads late finds what is true now, and what has filled its stream keeps no grant
//! from it (S31).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// What happens on a stream.
pub(crate) trait Telling {
    /// Whether `unread`, which was told before, says nothing more once this is told.
    fn supersedes(&self, unread: &Self) -> bool;

    /// Whether nothing comes after it.
    fn is_last(&self) -> bool;
}

/// Events that may be unread beside the last one.
const MOST: usize = 31;

/// The end that tells.
#[derive(Debug)]
pub(crate) struct Teller<E>(Arc<Told<E>>);

/// The end that reads.
#[derive(Debug)]
pub(crate) struct Unread<E>(Arc<Mutex<EventQueue<E>>>);

/// Who tells, as long as anybody does.
#[derive(Debug)]
struct Told<E>(Arc<Mutex<EventQueue<E>>>);

#[derive(Debug)]
struct EventQueue<E> {
    events: VecDeque<E>,
    reader: Option<Waker>,
    /// Nobody tells any more.
    ended: bool,
    /// Nobody reads any more.
    left: bool,
}

/// Both ends of a stream.
pub(crate) fn unread<E: Telling>() -> (Teller<E>, Unread<E>) {
    let queue = EventQueue { events: VecDeque::new(), reader: None, ended: false, left: false };
    let queue = Arc::new(Mutex::new(queue));
    (Teller(Arc::new(Told(Arc::clone(&queue)))), Unread(queue))
}

fn locked<E>(queue: &Mutex<EventQueue<E>>) -> MutexGuard<'_, EventQueue<E>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<E> Clone for Teller<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<E: Telling> Teller<E> {
    /// Tells `event`. False if too much is unread; there is always room for the last one. Who has left says
    /// so itself.
    pub(crate) fn tell(&self, event: E) -> bool {
        let mut queue = locked(&self.0.0);
        if queue.left {
            return true;
        }
        queue.events.retain(|unread| !event.supersedes(unread));
        if queue.events.len() >= MOST && !event.is_last() {
            return false;
        }
        queue.events.push_back(event);
        let reader = queue.reader.take();
        drop(queue);
        if let Some(reader) = reader {
            reader.wake();
        }
        true
    }

    /// Whether there is room for what must be told.
    pub(crate) fn can_be_told(&self) -> bool {
        locked(&self.0.0).events.len() < MOST
    }
}

impl<E> Unread<E> {
    /// The oldest event that was not read yet; none after the last one.
    pub(crate) fn poll_next(&self, context: &Context<'_>) -> Poll<Option<E>> {
        let mut queue = locked(&self.0);
        if let Some(event) = queue.events.pop_front() {
            return Poll::Ready(Some(event));
        }
        if queue.ended {
            return Poll::Ready(None);
        }
        queue.reader = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<E> Drop for Told<E> {
    fn drop(&mut self) {
        let mut queue = locked(&self.0);
        queue.ended = true;
        let reader = queue.reader.take();
        drop(queue);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl<E> Drop for Unread<E> {
    fn drop(&mut self) {
        let mut queue = locked(&self.0);
        queue.left = true;
        queue.events = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    enum Event {
        Progress(u32),
        Happening(u32),
        Last,
    }

    impl Telling for Event {
        fn supersedes(&self, unread: &Self) -> bool {
            matches!((self, unread), (Self::Progress(_), Self::Progress(_)))
        }

        fn is_last(&self) -> bool {
            *self == Self::Last
        }
    }

    fn read(stream: &Unread<Event>) -> Vec<Option<Event>> {
        let context = Context::from_waker(Waker::noop());
        let mut events = Vec::new();
        while let Poll::Ready(event) = stream.poll_next(&context) {
            let ended = event.is_none();
            events.push(event);
            if ended {
                break;
            }
        }
        events
    }

    #[test]
    fn a_newer_event_takes_the_place_of_what_it_makes_out_of_date() {
        let (teller, stream) = unread();
        for number in 0..1_000 {
            assert!(teller.tell(Event::Progress(number)));
        }
        assert!(teller.tell(Event::Happening(7)));
        assert!(teller.tell(Event::Progress(1_000)));
        assert_eq!(read(&stream), [Some(Event::Happening(7)), Some(Event::Progress(1_000))]);
    }

    #[test]
    fn what_is_unread_is_bounded_and_the_last_event_is_always_told() {
        let (teller, stream) = unread();
        let room = u32::try_from(MOST).unwrap();
        for number in 0..room {
            assert!(teller.can_be_told());
            assert!(teller.tell(Event::Happening(number)));
        }
        assert!(!teller.can_be_told() && !teller.tell(Event::Happening(room)));
        assert!(teller.tell(Event::Last));
        drop(teller);
        let events = read(&stream);
        assert_eq!(events.len(), MOST + 2);
        assert_eq!(events[MOST..], [Some(Event::Last), None]);
    }

    #[test]
    fn a_stream_ends_with_the_last_of_those_who_tell() {
        let (teller, stream) = unread::<Event>();
        let other = teller.clone();
        drop(teller);
        assert_eq!(read(&stream), []);
        assert!(other.tell(Event::Happening(1)));
        drop(other);
        assert_eq!(read(&stream), [Some(Event::Happening(1)), None]);
    }

    #[test]
    fn nothing_is_kept_for_who_has_left() {
        let (teller, stream) = unread();
        drop(stream);
        for number in 0..1_000 {
            assert!(teller.tell(Event::Happening(number)));
        }
        assert_eq!(locked(&teller.0.0).events.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_an_event_is_woken_by_it_and_by_the_end() {
        let (teller, stream) = unread();
        let reading = tokio::spawn(async move {
            let mut events = Vec::new();
            while let Some(event) = std::future::poll_fn(|context| stream.poll_next(context)).await
            {
                events.push(event);
            }
            events
        });
        tokio::task::yield_now().await;
        teller.tell(Event::Happening(1));
        tokio::task::yield_now().await;
        drop(teller);
        assert_eq!(reading.await.unwrap(), [Event::Happening(1)]);
    }
}
