//! Who is connected, and the places that connections take.

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Streams of the page at once, beside the connections that carry one answer.
pub(super) const MAX_STREAMS: usize = 8;
/// How long a stream's reader may leave what was sent unacknowledged.
const READER_TIMEOUT: Duration = Duration::from_secs(30);

/// One connection, as its requests see it.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) peer: IpAddr,
    place: Arc<Place>,
}

#[derive(Debug)]
struct Place {
    taken: Mutex<Taken>,
    streams: Arc<Semaphore>,
}

/// Given back when the connection ends.
#[derive(Debug)]
enum Taken {
    Short(#[expect(dead_code, reason = "held")] OwnedSemaphorePermit),
    Stream(#[expect(dead_code, reason = "held")] OwnedSemaphorePermit),
}

impl Connection {
    pub(super) fn new(peer: IpAddr, place: OwnedSemaphorePermit, streams: &Arc<Semaphore>) -> Self {
        let place = Place { taken: Mutex::new(Taken::Short(place)), streams: Arc::clone(streams) };
        // Of a socket that listens on IPv6, callers of IPv4 have mapped addresses.
        Self { peer: peer.to_canonical(), place: Arc::new(place) }
    }

    /// Whether it may last: it carries a stream.
    pub(super) fn is_stream(&self) -> bool {
        matches!(*self.place.taken.lock().unwrap_or_else(PoisonError::into_inner), Taken::Stream(_))
    }

    /// Makes it one that may last, and gives its place to the next; not if there are as many as may be.
    pub(super) fn become_stream(&self) -> bool {
        let Ok(place) = Arc::clone(&self.place.streams).try_acquire_owned() else { return false };
        *self.place.taken.lock().unwrap_or_else(PoisonError::into_inner) = Taken::Stream(place);
        true
    }
}

/// A reader that is gone without a word, or does not read, does not keep its place.
pub(super) fn bound_reader(socket: impl AsFd) {
    let timeout = u32::try_from(READER_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
    if let Err(error) = rustix::net::sockopt::set_tcp_user_timeout(socket, timeout) {
        tracing::debug!(%error, "no time limit for readers of admin HTTP");
    }
}
