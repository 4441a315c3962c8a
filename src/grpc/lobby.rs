//! The places of a listener as its connections share them: each learns here that it has to go (S38).

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;

use super::places::{Neighbour, NoPlace, Number, Places, Sizes, Stage};
use crate::coordinator::Seldom;
use crate::time::{BootClock, Clock as _};

/// The places of one listener.
pub(super) struct Lobby {
    /// Which listener, for metrics and logs.
    name: &'static str,
    places: Mutex<Places<Arc<Seat>>>,
    closed: [AtomicU64; Closed::ALL.len()],
    lines: [Seldom; Closed::ALL.len()],
    clock: BootClock,
}

/// Why the sidecar closed a connection, or did not let it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// Another one took its place.
    NoPlace,
    /// It owed the next bytes of its handshake or preface for too long.
    Overdue,
    /// It speaks something else.
    NotHttp2,
    /// As many make calls as may: not the connection is refused, but its call.
    Full,
    /// Its user may not use the socket.
    UserNotAllowed,
    /// The process has no more file descriptors.
    NoDescriptors,
}

impl Closed {
    const ALL: [Self; 6] = [
        Self::NoPlace,
        Self::Overdue,
        Self::NotHttp2,
        Self::Full,
        Self::UserNotAllowed,
        Self::NoDescriptors,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::NoPlace => "no_place",
            Self::Overdue => "overdue",
            Self::NotHttp2 => "not_http2",
            Self::Full => "full",
            Self::UserNotAllowed => "user_not_allowed",
            Self::NoDescriptors => "no_descriptors",
        }
    }

    /// What the log says of it, if it is for whoever runs the sidecar to know.
    const fn line(self) -> Option<&'static str> {
        match self {
            Self::NoPlace => Some(
                "a connection without a call was closed, because newer ones took all its places",
            ),
            Self::Full => Some(
                "a call was refused: as many connections make calls at this listener as may (limits.connections)",
            ),
            Self::UserNotAllowed => {
                Some("a connection was refused: its user is not in listen.unix_allowed_uids")
            }
            Self::NoDescriptors => {
                Some("connections cannot be accepted: no file descriptor is left")
            }
            Self::Overdue | Self::NotHttp2 => None,
        }
    }
}

impl fmt::Debug for Lobby {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Lobby").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Lobby {
    pub(super) fn new(name: &'static str, sizes: Sizes) -> Arc<Self> {
        Arc::new(Self {
            name,
            places: Mutex::new(Places::new(sizes)),
            closed: Default::default(),
            lines: Default::default(),
            clock: BootClock::new(),
        })
    }

    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    /// Lets a connection in that has said nothing yet.
    pub(super) fn arrive(self: &Arc<Self>, who: Who) -> Place {
        let mut seat = None;
        let out = self.places().arrive(who.neighbour, |number| {
            let (left, greeting) = (Leaving::default(), AtomicBool::new(false));
            let new = Seat { lobby: Arc::clone(self), number, who, left, greeting };
            Arc::clone(seat.insert(Arc::new(new)))
        });
        self.put_out(out);
        #[expect(clippy::expect_used, reason = "the places make a handle of each that arrives")]
        Place(seat.expect("a seat was made"))
    }

    /// Gives a file descriptor back, if one can be spared.
    pub(super) fn spare(&self) {
        let out = self.places().spare();
        self.put_out(out);
    }

    /// How many connections are at each stage.
    pub(super) fn counts(&self) -> [(&'static str, usize); 4] {
        let places = self.places();
        Stage::ALL.map(|stage| (stage.as_str(), places.count(stage)))
    }

    /// How many connections were closed, by reason.
    pub(super) fn closed(&self) -> [(&'static str, u64); Closed::ALL.len()] {
        let mut counts = self.closed.iter();
        Closed::ALL.map(|why| {
            (why.as_str(), counts.next().map_or(0, |count| count.load(Ordering::Relaxed)))
        })
    }

    /// Counts a connection that is closed, and says so at times: nobody fills the log.
    pub(super) fn note(&self, why: Closed, who: Option<Who>) {
        let at = Closed::ALL.iter().position(|one| *one == why).unwrap_or_default();
        if let Some(count) = self.closed.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let (Some(line), Some(seldom)) = (why.line(), self.lines.get(at)) else { return };
        let Some(more) = seldom.line(self.clock.now()) else { return };
        let client = who.and_then(|who| who.address).map(tracing::field::display);
        let user = who.and_then(|who| who.user());
        tracing::warn!(listener = self.name, client, user, more, "{line}");
    }

    fn put_out(&self, seat: Option<Arc<Seat>>) {
        if let Some(seat) = seat {
            self.note(Closed::NoPlace, Some(seat.who));
            seat.left.over.store(true, Ordering::Release);
            seat.left.waker.wake();
        }
    }

    fn places(&self) -> MutexGuard<'_, Places<Arc<Seat>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Who {
    neighbour: Neighbour,
    address: Option<SocketAddr>,
}

impl Who {
    pub(super) const fn at(address: SocketAddr) -> Self {
        Self { neighbour: Neighbour::at(address.ip()), address: Some(address) }
    }

    pub(super) fn of_user(user: Option<u32>) -> Self {
        Self { neighbour: user.map_or(Neighbour::Unknown, Neighbour::User), address: None }
    }

    const fn user(&self) -> Option<u32> {
        match self.neighbour {
            Neighbour::User(user) => Some(user),
            Neighbour::V4(_) | Neighbour::V6(_) | Neighbour::Unknown => None,
        }
    }
}

/// A connection's place, as all that belongs to the connection sees it.
#[derive(Debug)]
pub(super) struct Seat {
    lobby: Arc<Lobby>,
    number: Number,
    who: Who,
    left: Leaving,
    /// Whether its client owes what comes next.
    greeting: AtomicBool,
}

#[derive(Debug, Default)]
struct Leaving {
    over: AtomicBool,
    waker: AtomicWaker,
}

impl Seat {
    /// The connection has come further.
    pub(super) fn advance(&self, to: Stage) -> Result<(), NoPlace> {
        let out = self.lobby.places().advance(self.number, to)?;
        self.lobby.put_out(out);
        self.greeting.store(to == Stage::Greeting, Ordering::Relaxed);
        Ok(())
    }

    /// Whether its handshake or its preface after that is under way.
    pub(super) fn is_greeting(&self) -> bool {
        self.greeting.load(Ordering::Relaxed)
    }

    /// Ready when the connection has to go. One task waits for it at a time.
    pub(super) fn poll_over(&self, context: &Context<'_>) -> Poll<()> {
        self.left.waker.register(context.waker());
        if self.left.over.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Counts it among those that the sidecar closes.
    pub(super) fn note(&self, why: Closed) {
        self.lobby.note(why, Some(self.who));
    }
}

/// A connection's place, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place(pub(super) Arc<Seat>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.lobby.places().leave(self.0.number);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn s38_a_connection_that_has_to_go_is_told_and_counted_and_gives_its_place_back() {
        let sizes = Sizes { silent: 1, greeting: 1, idle: 1, serving: 1 };
        let lobby = Lobby::new("tcp", sizes);
        let who = Who::of_user(Some(7));
        let context = Context::from_waker(Waker::noop());
        let first = lobby.arrive(who);
        assert!(first.0.poll_over(&context).is_pending());
        let second = lobby.arrive(who);
        assert!(first.0.poll_over(&context).is_ready());
        assert!(second.0.poll_over(&context).is_pending());
        second.0.advance(Stage::Idle).unwrap();
        assert_eq!(lobby.counts().map(|(_, count)| count), [0, 0, 1, 0]);
        drop((first, second));
        assert_eq!(lobby.counts().map(|(_, count)| count), [0; 4]);
        assert_eq!(lobby.closed().map(|(_, count)| count), [1, 0, 0, 0, 0, 0]);
    }
}
