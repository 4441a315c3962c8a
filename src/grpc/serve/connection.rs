//! A connection that remembers how it ended: whether its client closed it, or it broke (S14).

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tonic::Request;

use super::accept::PREFACE;
use super::subject::Names;
use super::tls::Expiry;
use super::workers::Load;
use crate::lobby::{Closed, Place, Seat, Stage};

/// A byte stream that remembers how it ended.
#[derive(Debug)]
pub(in crate::grpc) struct Connection<S> {
    stream: S,
    /// When the certificate expires that its client has shown.
    expiry: Option<Expiry>,
    /// Bytes of the preface that its client owes.
    owed: usize,
    end: End,
}

/// What is noted, and which place is freed, when a connection is dropped.
#[derive(Debug)]
struct End {
    peer: Peer,
    /// Its place among the connections of its listener.
    place: Option<Place>,
    /// Counts it among those of its thread.
    load: Option<Load>,
}

/// Who is at the other end. Each request that comes over a connection carries a clone.
#[derive(Clone, Debug)]
pub(in crate::grpc) struct Peer {
    /// Where the other end is.
    pub(in crate::grpc) origin: Origin,
    /// How the connection ends.
    pub(in crate::grpc) close_reason: CloseReason,
    /// The user of the process that connected, on a Unix socket.
    pub(in crate::grpc) user: Option<u32>,
    /// The names in the certificate that it showed, on TLS with certificates of clients.
    pub(in crate::grpc) certificate: Option<Arc<Names>>,
    /// Its address, on TCP.
    pub(in crate::grpc) address: Option<SocketAddr>,
    /// The connection's place; none inside the process.
    pub(in crate::grpc) seat: Option<Arc<Seat>>,
}

/// Where the other end of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::grpc) enum Origin {
    /// In this machine: a Unix socket, or a pipe inside the process.
    Socket,
    /// At a loopback address, which proxies of this machine deliver callers of the network from, too.
    Loopback,
    /// At any other address.
    Network,
}

/// How a connection ended.
#[derive(Clone, Debug)]
pub(in crate::grpc) struct CloseReason(Arc<CloseState>);

#[derive(Debug, Default)]
struct CloseState {
    closed: AtomicBool,
    reset: AtomicBool,
    gone: AtomicBool,
    /// For those who wait for its end.
    ended: Notify,
}

/// How a stream that ended before its last event came to its end, as its connection shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::grpc) enum Ending {
    /// The connection lives: the stream alone was cancelled.
    Cancelled,
    /// The other end closed the connection.
    Closed,
    /// The connection failed as it does when the other end is gone.
    Reset,
    /// We closed the connection: the other end was silent.
    Broken,
}

impl<S> Connection<S> {
    /// Watches `stream`, which comes from `origin`.
    pub(in crate::grpc) fn new(stream: S, origin: Origin) -> Self {
        let close_reason = CloseReason(Arc::new(CloseState::default()));
        let (user, certificate, address, seat) = (None, None, None, None);
        let peer = Peer { origin, close_reason, user, certificate, address, seat };
        Self { stream, expiry: None, owed: 0, end: End { peer, place: None, load: None } }
    }

    /// The address of the other end.
    pub(in crate::grpc) fn at_address(mut self, address: SocketAddr) -> Self {
        self.end.peer.address = Some(address);
        self
    }

    /// The address of the other end, on TCP.
    pub(in crate::grpc) const fn address(&self) -> Option<SocketAddr> {
        self.end.peer.address
    }

    /// The names in the certificate that the other end showed.
    pub(in crate::grpc) fn with_certificate(mut self, names: Option<Arc<Names>>) -> Self {
        self.end.peer.certificate = names;
        self
    }

    /// Serves nothing that comes when the certificate of the other end has expired.
    pub(in crate::grpc) fn until(mut self, expiry: Option<Expiry>) -> Self {
        self.expiry = expiry;
        self
    }

    /// What is watched.
    pub(in crate::grpc) const fn stream(&self) -> &S {
        &self.stream
    }

    /// The user of the process that connected.
    pub(in crate::grpc) fn by_user(mut self, user: Option<u32>) -> Self {
        self.end.peer.user = user;
        self
    }

    /// Keeps the place until the connection ends.
    pub(in crate::grpc) fn in_place(mut self, place: Place) -> Self {
        self.end.peer.seat = Some(Arc::clone(&place.0));
        self.end.place = Some(place);
        self
    }

    /// Its client owes the preface, after whose last byte the connection is one that speaks HTTP/2.
    pub(in crate::grpc) const fn owing_preface(mut self) -> Self {
        self.owed = PREFACE.len();
        self
    }

    /// Who is at the other end.
    pub(in crate::grpc) fn peer(&self) -> Peer {
        self.end.peer.clone()
    }

    /// The connection has come further. That it makes calls is for its calls to say.
    pub(in crate::grpc) fn advance(&self, to: Stage) {
        if let Some(seat) = &self.end.peer.seat {
            // One that has to go is told so.
            let _ = seat.advance(to);
        }
    }

    /// Ready when the connection has to go.
    pub(in crate::grpc) fn poll_over(&self, context: &Context<'_>) -> Poll<()> {
        self.end.peer.seat.as_ref().map_or(Poll::Pending, |seat| seat.poll_over(context))
    }

    /// Counts it among those that the sidecar closes.
    pub(in crate::grpc) fn note(&self, why: Closed) {
        if let Some(seat) = &self.end.peer.seat {
            seat.note(why);
        }
    }

    /// Counts it among those of its thread until it ends.
    pub(in crate::grpc) fn on(mut self, load: Load) -> Self {
        self.end.load = Some(load);
        self
    }

    /// The same connection on what `change` makes of its stream.
    pub(in crate::grpc) fn map<T>(
        self,
        change: impl FnOnce(S) -> io::Result<T>,
    ) -> io::Result<Connection<T>> {
        let Self { stream, expiry, owed, end } = self;
        Ok(Connection { stream: change(stream)?, expiry, owed, end })
    }

    /// The same connection on what `wrap` makes of its stream, such as an encrypted one.
    pub(in crate::grpc) async fn wrapped<T, F>(
        self,
        wrap: impl FnOnce(S) -> F,
    ) -> io::Result<Connection<T>>
    where
        F: Future<Output = io::Result<T>>,
    {
        let Self { stream, expiry, owed, end } = self;
        Ok(Connection { stream: wrap(stream).await?, expiry, owed, end })
    }

    fn note_end<T>(&self, result: &io::Result<T>) {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        // The last is the end of a connection that TLS did not announce: that of a process that was killed.
        if let Err(error) = result
            && [BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof]
                .contains(&error.kind())
        {
            self.end.peer.close_reason.0.reset.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.peer.close_reason.0.gone.store(true, Ordering::Relaxed);
        self.peer.close_reason.0.ended.notify_waiters();
    }
}

impl CloseReason {
    /// Completes when the connection has ended.
    pub(in crate::grpc) async fn ended(&self) {
        let mut ended = pin!(self.0.ended.notified());
        // From here on the end is not missed.
        ended.as_mut().enable();
        if !self.0.gone.load(Ordering::Relaxed) {
            ended.await;
        }
    }

    /// How a stream on this connection ended that ended now.
    pub(in crate::grpc) fn ending(&self) -> Ending {
        let is_so = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        if is_so(&self.0.closed) {
            Ending::Closed
        } else if is_so(&self.0.reset) {
            Ending::Reset
        } else if is_so(&self.0.gone) {
            Ending::Broken
        } else {
            Ending::Cancelled
        }
    }
}

/// Who sent a request. None if it did not come over a [`Connection`].
pub(in crate::grpc) fn peer_of<T>(request: &Request<T>) -> Option<&Peer> {
    request.extensions().get()
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
        // Not an end that the client made: what it holds is not released (S14). A silent one answers pings.
        if polled.is_ready() && self.expiry.as_mut().is_some_and(Expiry::is_over) {
            return Poll::Ready(Err(io::ErrorKind::PermissionDenied.into()));
        }
        if let Poll::Ready(result) = &polled {
            self.note_end(result);
            let came = buffer.filled().len() - before;
            if result.is_ok() && had_room && came == 0 {
                self.end.peer.close_reason.0.closed.store(true, Ordering::Relaxed);
            }
            if self.owed > 0 {
                self.owed = self.owed.saturating_sub(came);
                if self.owed == 0 {
                    self.advance(Stage::Idle);
                }
            }
        }
        polled
    }
}

/// Writing to a type with a `stream` is writing to that, after which `$wrote` sees what came of it.
/// `$vectored` says whether its user is to write from several places at once, given that the stream can.
macro_rules! write_through {
    ($Type:ident, $vectored:expr, $wrote:expr) => {
        impl<S: AsyncWrite + Unpin> AsyncWrite for $Type<S> {
            fn poll_write(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
                let wrote: fn(&Self, &Poll<io::Result<usize>>) = $wrote;
                wrote(&self, &polled);
                polled
            }

            fn poll_flush(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                Pin::new(&mut self.stream).poll_flush(context)
            }

            fn poll_shutdown(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                Pin::new(&mut self.stream).poll_shutdown(context)
            }

            fn poll_write_vectored(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffers: &[io::IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                let polled = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
                let wrote: fn(&Self, &Poll<io::Result<usize>>) = $wrote;
                wrote(&self, &polled);
                polled
            }

            fn is_write_vectored(&self) -> bool {
                $vectored && self.stream.is_write_vectored()
            }
        }
    };
}
pub(in crate::grpc) use write_through;

// Not vectored, so that HTTP/2 copies messages of up to 1 KiB, which most are, and writes each together with
// its headers and trailers: else one of 256 bytes or more, such as a grant, takes two system calls, and wakes
// its client twice.
write_through!(Connection, false, |connection, polled| {
    if let Poll::Ready(result) = polled {
        connection.note_end(result);
    }
});

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::AtomicUsize;

    use bytes::Bytes;
    use http::{HeaderMap, Response};
    use http_body_util::{BodyExt as _, Empty, StreamBody};
    use hyper::body::Frame;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;

    /// A stream that counts what would be system calls, and takes all at once, as a socket does.
    struct CountsWrites(DuplexStream, Arc<AtomicUsize>);

    impl AsyncRead for CountsWrites {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_read(context, buffer)
        }
    }

    impl AsyncWrite for CountsWrites {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.1.fetch_add(1, Ordering::Relaxed);
            Pin::new(&mut self.0).poll_write(context, bytes)
        }

        fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_flush(context)
        }

        fn poll_shutdown(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_shutdown(context)
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffers: &[io::IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            self.1.fetch_add(1, Ordering::Relaxed);
            Pin::new(&mut self.0).poll_write_vectored(context, buffers)
        }

        fn is_write_vectored(&self) -> bool {
            true
        }
    }

    #[tokio::test]
    async fn a_message_of_a_grants_size_is_written_together_with_its_trailers() {
        let (client, server) = duplex(64 * 1_024);
        let writes = Arc::new(AtomicUsize::new(0));
        let connection = Connection::new(CountsWrites(server, Arc::clone(&writes)), Origin::Socket);
        let service = hyper::service::service_fn(|_| async {
            let frames =
                [Frame::data(Bytes::from(vec![7; 400])), Frame::trailers(HeaderMap::new())];
            let frames = frames.into_iter().map(Ok::<_, Infallible>);
            Ok::<_, Infallible>(Response::new(StreamBody::new(tokio_stream::iter(frames))))
        });
        let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(connection), service);
        tokio::spawn(serving);
        let (mut calls, connected) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(client))
                .await
                .unwrap();
        tokio::spawn(connected);
        for call in 0..3 {
            let before = writes.load(Ordering::Relaxed);
            let request =
                http::Request::builder().uri("http://here/").body(Empty::<Bytes>::new()).unwrap();
            let answer = calls.send_request(request).await.unwrap();
            assert_eq!(answer.into_body().collect().await.unwrap().to_bytes().len(), 400);
            let written = writes.load(Ordering::Relaxed) - before;
            // The first comes with what opens the connection.
            assert!(call == 0 || written == 1, "written in {written} pieces");
        }
    }

    #[tokio::test]
    async fn s14_a_live_connection_means_that_the_stream_was_cancelled() {
        let (_client, server) = duplex(64);
        let connection = Connection::new(server, Origin::Network);
        assert_eq!(connection.peer().close_reason.ending(), Ending::Cancelled);
    }

    #[tokio::test]
    async fn s14_a_close_by_the_other_end_is_seen() {
        let (client, server) = duplex(64);
        let mut connection = Connection::new(server, Origin::Socket);
        let close_reason = connection.peer().close_reason;
        drop(client);
        assert_eq!(connection.read(&mut [0; 8]).await.unwrap(), 0);
        let waits = tokio::spawn({
            let close_reason = close_reason.clone();
            async move { close_reason.ended().await }
        });
        tokio::task::yield_now().await;
        drop(connection);
        assert_eq!(close_reason.ending(), Ending::Closed);
        waits.await.unwrap();
        close_reason.ended().await;
    }

    #[tokio::test]
    async fn s14_a_connection_that_fails_with_its_other_end_is_reset() {
        let (client, server) = duplex(64);
        let mut connection = Connection::new(server, Origin::Loopback);
        let close_reason = connection.peer().close_reason;
        drop(client);
        assert!(connection.write(&[0; 8]).await.is_err());
        drop(connection);
        assert_eq!(close_reason.ending(), Ending::Reset);
    }

    #[tokio::test]
    async fn s14_a_connection_that_we_close_tells_the_client_nothing() {
        let (_client, server) = duplex(64);
        let connection = Connection::new(server, Origin::Socket);
        let close_reason = connection.peer().close_reason;
        drop(connection);
        assert_eq!(close_reason.ending(), Ending::Broken);
    }
}
