//! The places of a listener's connections, in which each waits and learns that it has to go, and the limits
//! by which calls are refused.
//!
//! Rules: S38. May import: coordinator (how often a line is logged), time. To add a reason for which
//! connections are closed, or a limit: a variant, whose name is a label of metrics and in docs/operations.md.

mod limit;
mod places;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;

use crate::coordinator::LogLimit;
use crate::time::{BootClock, Clock as _};

pub(crate) use limit::Limit;
use places::{Neighbour, Number, Places};
pub(crate) use places::{NoPlace, Sizes, Stage};

/// File descriptors for everything that is no connection of a client: the store, logs.
const OTHER_DESCRIPTORS: usize = 256;
/// After an accept failed for lack of a resource, such as file descriptors, the next is tried this much
/// later.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// What is listened on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listening {
    Tcp,
    Unix,
    Probes,
    Admin,
}

impl Listening {
    pub(crate) const ALL: [Self; 4] = [Self::Tcp, Self::Unix, Self::Probes, Self::Admin];

    /// A stable name, for metrics and logs.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Unix => "unix",
            Self::Probes => "probes",
            Self::Admin => "admin",
        }
    }
}

/// File descriptors for the connections of all clients, of those that the process may have: an eighth for
/// admin HTTP, and the rest for callers.
pub(crate) struct Descriptors {
    pub(crate) admin: usize,
    pub(crate) callers: usize,
}

impl Descriptors {
    pub(crate) fn of(process: usize) -> Self {
        let left = process - OTHER_DESCRIPTORS.min(process / 2);
        Self { admin: left / 8, callers: left - left / 8 }
    }
}

/// The places of one listener.
pub(crate) struct Lobby {
    listening: Listening,
    places: Mutex<Places<Arc<Seat>>>,
    closed: [AtomicU64; Closed::ALL.len()],
    lines: [LogLimit; Closed::ALL.len()],
    clock: BootClock,
}

/// Why the sidecar closed a connection, or did not let it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// Another one took its place.
    NoPlace,
    /// It owed the next bytes of its handshake or preface for too long.
    Overdue,
    /// Its handshake has no end.
    TooLong,
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
    pub(crate) const ALL: [Self; 7] = [
        Self::NoPlace,
        Self::Overdue,
        Self::TooLong,
        Self::NotHttp2,
        Self::Full,
        Self::UserNotAllowed,
        Self::NoDescriptors,
    ];

    /// A stable name, for metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::NoPlace => "no_place",
            Self::Overdue => "overdue",
            Self::TooLong => "too_long",
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
            Self::Overdue | Self::TooLong | Self::NotHttp2 => None,
        }
    }
}

/// What the connections of listeners are doing: a look at it costs little.
#[derive(Clone, Debug)]
pub struct Connections(Vec<Arc<Lobby>>);

impl Connections {
    pub(crate) fn of<'a>(lobbies: impl Iterator<Item = &'a Arc<Lobby>>) -> Self {
        Self(lobbies.map(Arc::clone).collect())
    }

    /// These, and those of other listeners.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// How many there are now, by listener and by stage.
    #[must_use]
    pub fn open(&self) -> Vec<([&'static str; 2], usize)> {
        let of = |lobby: &Arc<Lobby>| {
            let name = lobby.listening.as_str();
            lobby.counts().map(move |(stage, count)| ([name, stage], count))
        };
        self.0.iter().flat_map(of).collect()
    }

    /// How many the sidecar has closed or refused, by listener and by reason.
    #[must_use]
    pub fn closed(&self) -> Vec<([&'static str; 2], u64)> {
        let of = |lobby: &Arc<Lobby>| {
            let name = lobby.listening.as_str();
            lobby.closed().map(move |(reason, count)| ([name, reason], count))
        };
        self.0.iter().flat_map(of).collect()
    }
}

impl fmt::Debug for Lobby {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Lobby").field("listening", &self.listening).finish_non_exhaustive()
    }
}

impl Lobby {
    pub(crate) fn new(listening: Listening, sizes: Sizes) -> Arc<Self> {
        Arc::new(Self {
            listening,
            places: Mutex::new(Places::new(sizes)),
            closed: Default::default(),
            lines: Default::default(),
            clock: BootClock::new(),
        })
    }

    /// Lets a connection in that has said nothing yet.
    pub(crate) fn arrive(self: &Arc<Self>, who: Who) -> Place {
        let mut seat = None;
        let out = self.places().arrive(who.neighbour, |number| {
            let [greeting, serving] = [false; 2].map(AtomicBool::new);
            let (lobby, left) = (Arc::clone(self), Leaving::default());
            let new = Seat { lobby, number, who, left, greeting, serving };
            Arc::clone(seat.insert(Arc::new(new)))
        });
        self.put_out(out);
        #[expect(clippy::expect_used, reason = "the places make a handle of each that arrives")]
        Place(seat.expect("a seat was made"))
    }

    /// An accept has failed; for how long to wait before the next. A client that went away before it was
    /// accepted is its own matter. Anything else lasts, and for lack of file descriptors one is given back,
    /// if it can be spared.
    pub(crate) fn accept_failed(&self, error: &io::Error) -> Option<Duration> {
        use rustix::io::Errno;
        let errno = Errno::from_io_error(error);
        if matches!(errno, Some(Errno::CONNABORTED | Errno::CONNRESET | Errno::INVAL)) {
            return None;
        }
        if matches!(errno, Some(Errno::MFILE | Errno::NFILE)) {
            self.note(Closed::NoDescriptors, None);
            let out = self.places().spare();
            self.put_out(out);
        }
        tracing::debug!(%error, "a connection could not be accepted");
        Some(ACCEPT_AGAIN)
    }

    /// How many connections are at each stage.
    pub(crate) fn counts(&self) -> [(&'static str, usize); 4] {
        let places = self.places();
        Stage::ALL.map(|stage| (stage.as_str(), places.count(stage)))
    }

    /// How many connections were closed, by reason.
    pub(crate) fn closed(&self) -> [(&'static str, u64); Closed::ALL.len()] {
        let mut counts = self.closed.iter();
        Closed::ALL.map(|why| {
            (why.as_str(), counts.next().map_or(0, |count| count.load(Ordering::Relaxed)))
        })
    }

    /// Counts a connection that is closed, and says so at times: nobody fills the log.
    pub(crate) fn note(&self, why: Closed, who: Option<Who>) {
        let at = Closed::ALL.iter().position(|one| *one == why).unwrap_or_default();
        if let Some(count) = self.closed.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let (Some(line), Some(seldom)) = (why.line(), self.lines.get(at)) else { return };
        let Some(more) = seldom.line(self.clock.now()) else { return };
        let client = who.and_then(|who| who.address).map(tracing::field::display);
        let user = who.and_then(|who| who.user());
        tracing::warn!(listener = self.listening.as_str(), client, user, more, "{line}");
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
pub(crate) struct Who {
    neighbour: Neighbour,
    address: Option<SocketAddr>,
}

impl Who {
    pub(crate) const fn at(address: SocketAddr) -> Self {
        Self { neighbour: Neighbour::at(address.ip()), address: Some(address) }
    }

    pub(crate) fn of_user(user: Option<u32>) -> Self {
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
pub(crate) struct Seat {
    lobby: Arc<Lobby>,
    number: Number,
    who: Who,
    left: Leaving,
    /// Whether its client owes what comes next.
    greeting: AtomicBool,
    /// Whether a call of its client was let in.
    serving: AtomicBool,
}

#[derive(Debug, Default)]
struct Leaving {
    over: AtomicBool,
    waker: AtomicWaker,
}

impl Seat {
    /// The connection has come further.
    pub(crate) fn advance(&self, to: Stage) -> Result<(), NoPlace> {
        let out = self.lobby.places().advance(self.number, to)?;
        self.lobby.put_out(out);
        self.greeting.store(to == Stage::Greeting, Ordering::Relaxed);
        self.serving.store(to == Stage::Serving, Ordering::Relaxed);
        Ok(())
    }

    /// Whether its handshake or its preface after that is under way.
    pub(crate) fn is_greeting(&self) -> bool {
        self.greeting.load(Ordering::Relaxed)
    }

    /// Whether a call of its client was let in.
    pub(crate) fn is_serving(&self) -> bool {
        self.serving.load(Ordering::Relaxed)
    }

    /// Ready when the connection has to go. One task waits for it at a time.
    pub(crate) fn poll_over(&self, context: &Context<'_>) -> Poll<()> {
        self.left.waker.register(context.waker());
        if self.left.over.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Counts it among those that the sidecar closes.
    pub(crate) fn note(&self, why: Closed) {
        self.lobby.note(why, Some(self.who));
    }
}

/// A connection's place, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place(pub(crate) Arc<Seat>);

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
        let lobby = Lobby::new(Listening::Tcp, sizes);
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
        assert_eq!(lobby.closed().map(|(_, count)| count), [1, 0, 0, 0, 0, 0, 0]);
    }
}
