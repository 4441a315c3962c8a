//! A connection that remembers how it ended: whether its client closed it, or it broke (S14).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tonic::Request;
use tonic::transport::server::Connected;

/// A byte stream that remembers how it ended.
#[derive(Debug)]
pub(super) struct Connection<S> {
    stream: S,
    end: End,
}

/// What is noted, and made room, when a connection is dropped.
#[derive(Debug)]
struct End {
    peer: Peer,
    /// One of the connections that may be open at once.
    place: Option<OwnedSemaphorePermit>,
}

/// Who is at the other end. Each request that comes over a connection carries a clone.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// What becomes of the connection.
    pub(super) fate: Fate,
    /// The user of the process that connected, on a Unix socket.
    pub(super) user: Option<u32>,
}

/// What became of a connection.
#[derive(Clone, Debug)]
pub(super) struct Fate(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// Both ends are on this machine: its kernel closes the socket of a process that dies.
    local: bool,
    closed_by_client: AtomicBool,
    gone: AtomicBool,
}

impl<S> Connection<S> {
    /// Watches `stream`; `local` says that both its ends are on this machine.
    pub(super) fn new(stream: S, local: bool) -> Self {
        let fate = Fate(Arc::new(State { local, ..State::default() }));
        Self { stream, end: End { peer: Peer { fate, user: None }, place: None } }
    }

    /// The user of the process that connected.
    pub(super) fn by_user(mut self, user: Option<u32>) -> Self {
        self.end.peer.user = user;
        self
    }

    /// Keeps the place until the connection ends.
    pub(super) fn in_place(mut self, place: OwnedSemaphorePermit) -> Self {
        self.end.place = Some(place);
        self
    }

    /// The same connection on what `wrap` makes of its stream, such as an encrypted one.
    pub(super) async fn wrapped<T, F>(self, wrap: impl FnOnce(S) -> F) -> io::Result<Connection<T>>
    where
        F: Future<Output = io::Result<T>>,
    {
        let Self { stream, end } = self;
        Ok(Connection { stream: wrap(stream).await?, end })
    }

    fn note<T>(&self, result: &io::Result<T>) {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        // The last is the end of a connection that TLS did not announce: that of a process that was killed.
        if let Err(error) = result
            && [BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof]
                .contains(&error.kind())
        {
            self.end.peer.fate.0.closed_by_client.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.peer.fate.0.gone.store(true, Ordering::Relaxed);
    }
}

impl Fate {
    /// Whether a stream that ended on this connection was ended by its client: cancelled while the connection lives, or
    /// by closing its local end. Otherwise the connection broke, and the client may not know (S14).
    pub(super) fn shows_that_the_client_let_go(&self) -> bool {
        let closed_by_client = self.0.closed_by_client.load(Ordering::Relaxed);
        let gone = self.0.gone.load(Ordering::Relaxed);
        if closed_by_client || gone { closed_by_client && self.0.local } else { true }
    }
}

/// Who sent a request. None if it did not come over a [`Connection`].
pub(super) fn peer_of<T>(request: &Request<T>) -> Option<&Peer> {
    request.extensions().get()
}

impl<S> Connected for Connection<S> {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.end.peer.clone()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let had_room = buffer.remaining() > 0;
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Poll::Ready(result) = &polled {
            self.note(result);
            if result.is_ok() && had_room && buffer.filled().len() == before {
                self.end.peer.fate.0.closed_by_client.store(true, Ordering::Relaxed);
            }
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        if let Poll::Ready(result) = &polled {
            self.note(result);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        if let Poll::Ready(result) = &polled {
            self.note(result);
        }
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn s14_a_live_connection_means_that_the_client_cancelled() {
        let (_client, server) = duplex(64);
        let connection = Connection::new(server, false);
        assert!(connection.connect_info().fate.shows_that_the_client_let_go());
    }

    #[tokio::test]
    async fn s14_a_local_close_means_that_the_client_is_gone_and_a_remote_one_does_not() {
        for local in [true, false] {
            let (client, server) = duplex(64);
            let mut connection = Connection::new(server, local);
            let fate = connection.connect_info().fate;
            drop(client);
            assert_eq!(connection.read(&mut [0; 8]).await.unwrap(), 0);
            drop(connection);
            assert_eq!(fate.shows_that_the_client_let_go(), local);
        }
    }

    #[tokio::test]
    async fn s14_a_connection_that_we_close_tells_the_client_nothing() {
        for local in [true, false] {
            let (_client, server) = duplex(64);
            let connection = Connection::new(server, local);
            let fate = connection.connect_info().fate;
            drop(connection);
            assert!(!fate.shows_that_the_client_let_go());
        }
    }
}
