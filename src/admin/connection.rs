//! Connections of admin HTTP. Each carries one request, and has a place that says how far it has come (S38).

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

use crate::lobby::{Closed, Descriptors, Listening, Lobby, Place, Sizes, Stage, Who};

/// What connections of admin HTTP may be at each stage: those that say nothing; those whose request is on its
/// way; those that are being answered; and streams of the page. Nobody signs in, so that only a stream is
/// sure of its place: with all others, the oldest of the peer that has most goes.
pub(super) const SIZES: Sizes = Sizes { silent: 1_024, greeting: 64, idle: 64, serving: 8 };
/// How long a stream's reader may leave what was sent unacknowledged.
const READER_TIMEOUT: Duration = Duration::from_secs(30);

/// The places, no more than there are file descriptors for.
pub(super) fn lobby(descriptors: Option<usize>) -> Arc<Lobby> {
    let sizes = descriptors.map_or(SIZES, |number| SIZES.fit(Descriptors::of(number).admin));
    Lobby::new(Listening::Admin, sizes)
}

/// The next connection.
pub(super) async fn accept(listener: &TcpListener, lobby: &Arc<Lobby>) -> (TcpStream, Connection) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, Connection::new(peer, lobby)),
            Err(error) => {
                if let Some(pause) = lobby.accept_failed(&error) {
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }
}

/// One connection, as its requests see it.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) peer: IpAddr,
    place: Arc<Place>,
    is_stream: Arc<AtomicBool>,
}

impl Connection {
    fn new(peer: SocketAddr, lobby: &Arc<Lobby>) -> Self {
        let place = Arc::new(lobby.arrive(Who::at(peer)));
        // Of a socket that listens on IPv6, callers of IPv4 have mapped addresses.
        Self { peer: peer.ip().to_canonical(), place, is_stream: Arc::default() }
    }

    /// Its client has begun to say something.
    pub(super) fn speaks(&self) {
        self.advance(Stage::Greeting);
    }

    /// Its request has come.
    pub(super) fn asked(&self) {
        self.advance(Stage::Idle);
    }

    fn advance(&self, to: Stage) -> bool {
        self.place.0.advance(to).is_ok()
    }

    /// Resolves when another connection has taken the place of this one.
    pub(super) async fn cut(&self) {
        poll_fn(|context| self.place.0.poll_over(context)).await;
    }

    /// Counts it among those whose clients are late.
    pub(super) fn is_overdue(&self) {
        self.place.0.note(Closed::Overdue);
    }

    /// Whether it may last: it carries a stream.
    pub(super) fn is_stream(&self) -> bool {
        self.is_stream.load(Ordering::Relaxed)
    }

    /// Makes it one that may last, and gives its place to the next; not if there are as many as may be.
    pub(super) fn become_stream(&self) -> bool {
        let lasts = self.advance(Stage::Serving);
        self.is_stream.store(lasts, Ordering::Relaxed);
        lasts
    }
}

/// A reader that is gone without a word, or does not read, does not keep its place.
pub(super) fn bound_reader(socket: impl AsFd) {
    let timeout = u32::try_from(READER_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
    let bound: Result<(), io::Error> =
        rustix::net::sockopt::set_tcp_user_timeout(socket, timeout).map_err(io::Error::from);
    if let Err(error) = bound {
        tracing::debug!(%error, "no time limit for readers of admin HTTP");
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    fn peer(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 1))
    }

    fn is_cut(connection: &Connection) -> bool {
        connection.place.0.poll_over(&Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn s38_requests_of_whoever_has_most_give_way_and_those_of_others_do_not() {
        let lobby = lobby(None);
        let ask = |last| {
            let connection = Connection::new(peer(last), &lobby);
            connection.speaks();
            connection.asked();
            connection
        };
        let honest = ask(1);
        let others: Vec<_> = (0..1_000).map(|_| ask(2)).collect();
        assert!(!is_cut(&honest));
        assert!(is_cut(&others[0]) && !is_cut(&others[999]));
        // Those that streams leave free are theirs, too.
        assert_eq!(others.iter().filter(|other| !is_cut(other)).count(), 63);
    }

    #[test]
    fn s38_a_stream_keeps_its_place_and_there_are_only_so_many() {
        let lobby = lobby(None);
        let connect = || Connection::new(peer(1), &lobby);
        let streams: Vec<_> = (0..SIZES.serving).map(|_| connect()).collect();
        assert!(streams.iter().all(|stream| stream.become_stream() && stream.is_stream()));
        let another = connect();
        assert!(!another.become_stream() && !another.is_stream());
        let silent: Vec<_> = (0..5_000).map(|_| connect()).collect();
        assert!(is_cut(&another) && is_cut(&silent[0]) && !is_cut(&silent[4_999]));
        assert!(!streams.iter().any(is_cut));
        drop((streams, another, silent));
        assert_eq!(lobby.counts().map(|(_, count)| count), [0; 4]);
    }
}
