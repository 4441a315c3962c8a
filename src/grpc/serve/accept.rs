//! Accepting: each connection waits in its place until its client has said what every client says first, and
//! nothing is built for it before (S38).

use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream::FuturesUnordered;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::RecvFlags;
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::Sleep;

use super::connection::{Connection, Origin};
use crate::lobby::{Closed, Lobby, Who};

/// A client that owes the next bytes of its handshake or preface for so long is cut (S38).
pub(in crate::grpc) const OWED: Duration = Duration::from_secs(5);
/// What a client of HTTP/2 says first.
pub(in crate::grpc) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Connections that are accepted before those that are there are looked at.
const AT_ONCE: usize = 64;
/// Where connections come from: a stream of those whose clients have spoken.
#[derive(Debug)]
pub(in crate::grpc) struct Listener<L: Accept> {
    listener: L,
    lobby: Arc<Lobby>,
    first: First,
    silent: FuturesUnordered<Silent<L::Stream>>,
    pause: Option<Pin<Box<Sleep>>>,
}

/// What a client has to say before anything is built for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::grpc) enum First {
    /// The preface of HTTP/2, all of it.
    Preface,
    /// The beginning of a TLS handshake.
    Handshake,
}

impl<L: Accept> Listener<L> {
    pub(in crate::grpc) fn new(listener: L, first: First, lobby: Arc<Lobby>) -> Self {
        Self { listener, lobby, first, silent: FuturesUnordered::new(), pause: None }
    }

    /// The places of its connections.
    pub(in crate::grpc) const fn lobby(&self) -> &Arc<Lobby> {
        &self.lobby
    }
}

/// A Unix socket, and the users who may use it; without any, whoever may open it.
#[derive(Debug)]
pub(in crate::grpc) struct UsersOnly {
    pub(in crate::grpc) listener: UnixListener,
    pub(in crate::grpc) allowed: Vec<u32>,
}

/// What a listener of either kind does.
pub(in crate::grpc) trait Accept: Unpin {
    /// What it gives.
    type Stream: Quiet;

    /// The next connection; none if it was refused.
    fn poll_accept(
        &self,
        lobby: &Arc<Lobby>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Option<Connection<Self::Stream>>>>;
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    fn poll_accept(
        &self,
        lobby: &Arc<Lobby>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Option<Connection<TcpStream>>>> {
        let (stream, peer) = ready!(Self::poll_accept(self, context))?;
        stream.set_nodelay(true)?;
        let origin =
            if peer.ip().to_canonical().is_loopback() { Origin::Loopback } else { Origin::Network };
        let connection = Connection::new(stream, origin).at_address(peer);
        Poll::Ready(Ok(Some(connection.in_place(lobby.arrive(Who::at(peer))))))
    }
}

impl Accept for UsersOnly {
    type Stream = UnixStream;

    fn poll_accept(
        &self,
        lobby: &Arc<Lobby>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Option<Connection<UnixStream>>>> {
        let (stream, _) = ready!(self.listener.poll_accept(context))?;
        let user = stream.peer_cred().ok().map(|credentials| credentials.uid());
        let who = Who::of_user(user);
        if !self.allowed.is_empty() && !user.is_some_and(|user| self.allowed.contains(&user)) {
            lobby.note(Closed::UserNotAllowed, Some(who));
            // What does not fit into a socket that nothing was written to yet is for nobody.
            let _ = stream.try_write(&refusal(user));
            return Poll::Ready(Ok(None));
        }
        let connection = Connection::new(stream, Origin::Socket).by_user(user);
        Poll::Ready(Ok(Some(connection.in_place(lobby.arrive(who)))))
    }
}

/// What a client of HTTP/2 understands without a word of its own: empty settings, and a GOAWAY that says why.
fn refusal(user: Option<u32>) -> Vec<u8> {
    const EMPTY_SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const NO_STREAM_WAS_SERVED: [u8; 4] = [0; 4];
    const REFUSED_STREAM: [u8; 4] = [0, 0, 0, 7];
    let user = user.map_or_else(|| "unknown".to_owned(), |user| user.to_string());
    let why =
        format!("processes of user id {user} may not use this socket (listen.unix_allowed_uids)");
    let length = u8::try_from(8 + why.len()).unwrap_or(u8::MAX);
    let go_away = [0, 0, length, 7, 0, 0, 0, 0, 0];
    [&EMPTY_SETTINGS[..], &go_away, &NO_STREAM_WAS_SERVED, &REFUSED_STREAM, why.as_bytes()].concat()
}

/// A socket that is looked at, and not read from.
pub(in crate::grpc) trait Quiet: AsFd + Unpin {
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;
    /// Does `look`, unless there is known to be nothing; an error of the kind `WouldBlock` says so.
    fn try_look<T>(&self, look: impl FnOnce() -> io::Result<T>) -> io::Result<T>;
}

impl Quiet for TcpStream {
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_read_ready(context)
    }

    fn try_look<T>(&self, look: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.try_io(Interest::READABLE, look)
    }
}

impl Quiet for UnixStream {
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_read_ready(context)
    }

    fn try_look<T>(&self, look: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.try_io(Interest::READABLE, look)
    }
}

/// What a client has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// All that it has to.
    Enough,
    /// Something else, or that it is gone.
    Nonsense,
}

impl First {
    /// What has come on `socket`, which stays there to be read. An error of the kind `WouldBlock` says that
    /// it is not enough.
    fn look(self, socket: impl AsFd) -> io::Result<Said> {
        let mut bytes = [0; PREFACE.len()];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let (_, length) = rustix::net::recv(&socket, &mut bytes, flags)?;
        let came = bytes.get(..length).unwrap_or_default();
        match self {
            _ if came.is_empty() => Ok(Said::Nonsense),
            Self::Handshake => Ok(Said::Enough),
            Self::Preface if came == PREFACE => Ok(Said::Enough),
            // What is missing never comes, and the socket stays readable because of that.
            Self::Preface if sends_no_more(&socket) => Ok(Said::Nonsense),
            Self::Preface if PREFACE.starts_with(came) => Err(io::ErrorKind::WouldBlock.into()),
            Self::Preface => Ok(Said::Nonsense),
        }
    }
}

/// Whether something has come on `socket` that was not read yet.
pub(in crate::grpc) fn has_come(socket: impl AsFd) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    matches!(rustix::net::recv(socket, &mut [0; 1][..], flags), Ok((_, 1..)))
}

/// Whether the client has closed its side.
fn sends_no_more(socket: impl AsFd) -> bool {
    let mut socket = [PollFd::new(&socket, PollFlags::RDHUP)];
    rustix::event::poll(&mut socket, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// A connection whose client has not spoken yet. Done when it has, or when there is nothing to wait for any
/// more.
#[derive(Debug)]
struct Silent<S> {
    /// None once it is done.
    connection: Option<Connection<S>>,
    first: First,
    overdue: Pin<Box<Sleep>>,
}

impl<S: Quiet> Silent<S> {
    fn poll_said(
        connection: &Connection<S>,
        first: First,
        context: &mut Context<'_>,
    ) -> Poll<Said> {
        let socket = connection.stream();
        loop {
            if ready!(socket.poll_readable(context)).is_err() {
                return Poll::Ready(Said::Nonsense);
            }
            match socket.try_look(|| first.look(socket)) {
                Ok(said) => return Poll::Ready(said),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Poll::Ready(Said::Nonsense),
            }
        }
    }
}

impl<S: Quiet> Future for Silent<S> {
    type Output = Option<Connection<S>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Some(connection) = &this.connection else { return Poll::Ready(None) };
        let said = Self::poll_said(connection, this.first, context);
        let over = connection.poll_over(context).is_ready();
        if said == Poll::Ready(Said::Enough) && !over {
            return Poll::Ready(this.connection.take());
        }
        if said.is_pending() && !over {
            ready!(this.overdue.as_mut().poll(context));
            // What has come is what counts, not when it was looked at.
            if this.first.look(connection.stream()).is_ok_and(|said| said == Said::Enough) {
                return Poll::Ready(this.connection.take());
            }
            connection.note(Closed::Overdue);
        } else if !over && has_come(connection.stream()) {
            connection.note(Closed::NotHttp2);
        }
        drop(this.connection.take());
        Poll::Ready(None)
    }
}

impl<L: Accept> Listener<L> {
    /// Takes in those that have come, up to a number: then it asks to be polled again.
    fn accept(&mut self, context: &mut Context<'_>) {
        for _ in 0..AT_ONCE {
            if let Some(pause) = &mut self.pause {
                if pause.as_mut().poll(context).is_pending() {
                    return;
                }
                self.pause = None;
            }
            match self.listener.poll_accept(&self.lobby, context) {
                Poll::Pending => return,
                Poll::Ready(Ok(None)) => {}
                Poll::Ready(Ok(Some(connection))) => self.silent.push(Silent {
                    connection: Some(connection),
                    first: self.first,
                    overdue: Box::pin(tokio::time::sleep(OWED)),
                }),
                Poll::Ready(Err(error)) => {
                    let pause = self.lobby.accept_failed(&error);
                    self.pause = pause.map(|pause| Box::pin(tokio::time::sleep(pause)));
                }
            }
        }
        context.waker().wake_by_ref();
    }
}

impl<L: Accept> Stream for Listener<L> {
    type Item = io::Result<Connection<L::Stream>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.accept(context);
        while let Poll::Ready(Some(spoken)) = Pin::new(&mut self.silent).poll_next(context) {
            if let Some(connection) = spoken {
                return Poll::Ready(Some(Ok(connection)));
            }
        }
        Poll::Pending
    }
}
