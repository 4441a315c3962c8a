//! Who is connected, and the places that connections take.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Streams of the page at once, beside the connections that carry one answer.
pub(super) const MAX_STREAMS: usize = 8;
/// How long a stream's reader may leave what was sent unacknowledged.
const READER_TIMEOUT: Duration = Duration::from_secs(30);

/// The places of connections that carry one answer. When all are taken, a new connection takes that of one which has sent no
/// request yet: of the peer address that has most of these, the oldest (S38). So a peer that opens connections and says
/// nothing keeps nobody else out.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    next: u64,
    /// The connections that have sent no request yet, oldest first.
    silent: BTreeMap<u64, Silent>,
}

#[derive(Debug)]
struct Silent {
    peer: IpAddr,
    cut: CancellationToken,
}

impl State {
    /// The one that goes first.
    fn oldest_of_the_most(&self) -> Option<u64> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for silent in self.silent.values() {
            *counts.entry(silent.peer).or_default() += 1;
        }
        let most = counts.values().max()?;
        let is_of_most = |silent: &Silent| counts.get(&silent.peer) == Some(most);
        self.silent.iter().find(|(_, silent)| is_of_most(silent)).map(|(number, _)| *number)
    }
}

impl Places {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, state: Mutex::default(), freed: Notify::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection that has come from `peer`; waits while every other one has sent a request.
    pub(super) async fn take(self: &Arc<Self>, peer: IpAddr) -> Place {
        loop {
            // Before the look, so that a place that becomes free meanwhile is not missed.
            let freed = self.freed.notified();
            if let Some(place) = self.try_take(peer) {
                return place;
            }
            freed.await;
        }
    }

    fn try_take(self: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        let mut state = self.state();
        if state.taken < self.most {
            state.taken += 1;
        } else {
            let oldest = state.oldest_of_the_most()?;
            // Its place is this one's now, so that it gives back none.
            state.silent.remove(&oldest)?.cut.cancel();
        }
        let number = state.next;
        state.next += 1;
        let cut = CancellationToken::new();
        state.silent.insert(number, Silent { peer, cut: cut.clone() });
        drop(state);
        Some(Place { places: Arc::clone(self), number, cut })
    }
}

/// One place; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    cut: CancellationToken,
}

impl Place {
    /// The request has come: the place is kept until the answer is there.
    fn keep(&self) {
        self.places.state().silent.remove(&self.number);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.cut.is_cancelled() {
            return;
        }
        let mut state = self.places.state();
        state.silent.remove(&self.number);
        state.taken -= 1;
        drop(state);
        self.places.freed.notify_one();
    }
}

/// One connection, as its requests see it.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) peer: IpAddr,
    cut: CancellationToken,
    place: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    taken: Mutex<Taken>,
    streams: Arc<Semaphore>,
}

/// Given back when the connection ends.
#[derive(Debug)]
enum Taken {
    Short(Place),
    Stream(#[expect(dead_code, reason = "held")] OwnedSemaphorePermit),
}

impl Connection {
    pub(super) fn new(peer: IpAddr, place: Place, streams: &Arc<Semaphore>) -> Self {
        let cut = place.cut.clone();
        let held = Held { taken: Mutex::new(Taken::Short(place)), streams: Arc::clone(streams) };
        Self { peer, cut, place: Arc::new(held) }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.place.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its request has come.
    pub(super) fn spoke(&self) {
        if let Taken::Short(place) = &*self.taken() {
            place.keep();
        }
    }

    /// Resolves when another connection has taken the place of this one, which said nothing.
    pub(super) async fn cut(&self) {
        self.cut.cancelled().await;
    }

    /// Whether it may last: it carries a stream.
    pub(super) fn is_stream(&self) -> bool {
        matches!(*self.taken(), Taken::Stream(_))
    }

    /// Makes it one that may last, and gives its place to the next; not if there are as many as may be.
    pub(super) fn become_stream(&self) -> bool {
        let Ok(place) = Arc::clone(&self.place.streams).try_acquire_owned() else { return false };
        *self.taken() = Taken::Stream(place);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[tokio::test]
    async fn s38_a_new_connection_takes_the_place_of_the_oldest_silent_one_of_who_has_most() {
        let places = Places::new(4);
        let of = |last| places.try_take(peer(last)).unwrap();
        let honest = of(1);
        let silent: Vec<Place> = (0..3).map(|_| of(2)).collect();
        let cut = |place: &Place| place.cut.is_cancelled();
        let more = of(2);
        assert_eq!(silent.iter().map(cut).collect::<Vec<_>>(), [true, false, false]);
        let other = of(3);
        assert_eq!(silent.iter().map(cut).collect::<Vec<_>>(), [true, true, false]);
        assert!(!cut(&honest) && !cut(&more) && !cut(&other));
        drop(silent);
        assert_eq!(places.state().taken, 3, "those that were cut give back nothing");
    }

    #[tokio::test]
    async fn s38_whose_request_has_come_keeps_its_place_and_others_wait_for_one() {
        let places = Places::new(2);
        let streams = Arc::new(Semaphore::new(1));
        let connect = || Connection::new(peer(1), places.try_take(peer(1)).unwrap(), &streams);
        let (one, two) = (connect(), connect());
        one.spoke();
        two.spoke();
        assert!(places.try_take(peer(2)).is_none());
        let waiting = tokio::spawn({
            let places = Arc::clone(&places);
            async move { places.take(peer(2)).await }
        });
        tokio::task::yield_now().await;
        assert!(two.become_stream() && two.is_stream(), "it gives its place to the next");
        let third = waiting.await.unwrap();
        assert!(!one.cut.is_cancelled() && !third.cut.is_cancelled());
        drop((one, two, third));
        assert_eq!(places.state().taken, 0);
    }
}
