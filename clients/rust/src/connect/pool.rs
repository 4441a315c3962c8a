//! As many connections as lasting streams need.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tonic::Status;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};

use super::{Dial, Headers};
use crate::constants::{PING_TIMEOUT, STREAMS_PER_CONNECTION};
use crate::errors::is_below_needs;
use crate::proto::lease_service_client::LeaseServiceClient;
use crate::proto::schedule_service_client::ScheduleServiceClient;

type Rpc = LeaseServiceClient<InterceptedService<Channel, Headers>>;
type Schedules = ScheduleServiceClient<InterceptedService<Channel, Headers>>;

/// Waits and holds of one connection: each has room for a call beside its stream, so that a release waits for
/// no place (S38).
const MOST_HOLDS: usize = STREAMS_PER_CONNECTION / 2;

/// Connections, made when they are needed: one for each 100 holds, of which the first carries short calls
/// too, and others for watches, which nobody may be reading. So a release goes where its hold is: it needs no
/// place of its own at a sidecar that has none left (S38).
#[derive(Debug)]
pub(crate) struct Pool {
    dial: Dial,
    endpoint: Endpoint,
    headers: Headers,
    /// There is always a first one.
    holding: Mutex<Vec<Connection>>,
    watching: Mutex<Vec<Connection>>,
}

#[derive(Debug)]
struct Connection {
    channel: Channel,
    /// One more than its streams.
    streams: Arc<()>,
    /// No new stream is opened over it: its sidecar was too old for one (S37).
    is_left: bool,
}

impl Connection {
    fn new(channel: Channel) -> Self {
        Self { channel, streams: Arc::default(), is_left: false }
    }

    fn streams(&self) -> usize {
        Arc::strong_count(&self.streams).saturating_sub(1)
    }
}

impl Pool {
    /// Opens no connection yet.
    pub(crate) fn new(dial: Dial, headers: Headers, keep_alive: Option<Duration>) -> Self {
        let mut endpoint = Endpoint::from_static("http://leasehold");
        if let Some(interval) = keep_alive {
            endpoint = endpoint
                .http2_keep_alive_interval(interval)
                .keep_alive_timeout(PING_TIMEOUT)
                .keep_alive_while_idle(true);
        }
        let first = Connection::new(channel(&endpoint, &dial));
        let (holding, watching) = (Mutex::new(vec![first]), Mutex::default());
        Self { dial, endpoint, headers, holding, watching }
    }

    /// Opens the first connection now.
    ///
    /// # Errors
    /// When nobody answers there.
    pub(crate) async fn connect(&self) -> Result<(), tonic::transport::Error> {
        let dial = self.dial.clone();
        let connector = tower::service_fn(move |_| {
            let opening = dial.open();
            async move { opening.await.map(TokioIo::new) }
        });
        let channel = self.endpoint.connect_with_connector(connector).await?;
        *locked(&self.holding) = vec![Connection::new(channel)];
        Ok(())
    }

    /// For calls that are about no stream of ours and must go through at once. They meet the same sidecar for
    /// as long as the connection lasts.
    pub(crate) fn short(&self) -> Calls {
        self.calls(self.short_channel())
    }

    fn calls(&self, channel: Channel) -> Calls {
        let leases = LeaseServiceClient::with_interceptor(channel.clone(), self.headers.clone());
        let schedules = ScheduleServiceClient::with_interceptor(channel, self.headers.clone());
        Calls { leases, schedules }
    }

    /// The connection for short calls, without what goes with calls of ours.
    pub(crate) fn short_channel(&self) -> Channel {
        let first = locked(&self.holding).first().map(|first| first.channel.clone());
        first.unwrap_or_else(|| channel(&self.endpoint, &self.dial))
    }

    /// For a call that lasts as long as a wait or a hold, whose events are read at once.
    pub(crate) fn lane(self: &Arc<Self>) -> Lane {
        self.lane_of(&self.holding, MOST_HOLDS, |connection| !connection.is_left)
    }

    /// For a unary call that may wait. What it is granted is known by its lease id to the sidecar of short
    /// calls alone, so it goes where they go while there is room.
    pub(crate) fn short_lane(self: &Arc<Self>) -> Lane {
        self.lane_of(&self.holding, MOST_HOLDS, |_| true)
    }

    /// For a watch, which its caller reads when it likes.
    pub(crate) fn watching_lane(self: &Arc<Self>) -> Lane {
        self.lane_of(&self.watching, STREAMS_PER_CONNECTION, |_| true)
    }

    fn lane_of(
        self: &Arc<Self>,
        connections: &Mutex<Vec<Connection>>,
        most: usize,
        may_be: impl Fn(&Connection) -> bool,
    ) -> Lane {
        let mut connections = locked(connections);
        let free =
            connections.iter().find(|connection| may_be(connection) && connection.streams() < most);
        let (channel, stream) = match free {
            Some(free) => (free.channel.clone(), Arc::clone(&free.streams)),
            None => {
                let more = Connection::new(channel(&self.endpoint, &self.dial));
                let (channel, stream) = (more.channel.clone(), Arc::clone(&more.streams));
                connections.push(more);
                (channel, stream)
            }
        };
        drop(connections);
        Lane { calls: self.calls(channel), stream: Some(stream), pool: Arc::clone(self) }
    }

    /// Why the sidecar ends connections by TLS before it says anything, if it does.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.dial.refusal()
    }

    /// Opens no further stream over the connection of this one. What lives there stays there.
    fn leave(&self, stream: &Arc<()>) {
        for connection in locked(&self.holding).iter_mut() {
            connection.is_left |= Arc::ptr_eq(&connection.streams, stream);
        }
    }

    /// Closes connections that carry nothing, but for the first.
    fn trim(&self) {
        let mut first = true;
        locked(&self.holding)
            .retain(|connection| std::mem::replace(&mut first, false) || connection.streams() > 0);
        locked(&self.watching).retain(|connection| connection.streams() > 0);
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        locked(&self.holding).len() + locked(&self.watching).len()
    }
}

fn locked(connections: &Mutex<Vec<Connection>>) -> MutexGuard<'_, Vec<Connection>> {
    connections.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Connects when it is first used, and again when it breaks.
fn channel(endpoint: &Endpoint, dial: &Dial) -> Channel {
    let dial = dial.clone();
    endpoint.connect_with_connector_lazy(tower::service_fn(move |_| {
        let opening = dial.open();
        async move { opening.await.map(TokioIo::new) }
    }))
}

/// The calls over one connection.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    pub(crate) leases: Rpc,
    pub(crate) schedules: Schedules,
}

/// A place for one lasting stream. Keep it as long as the stream.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) calls: Calls,
    stream: Option<Arc<()>>,
    pool: Arc<Pool>,
}

impl Lane {
    /// Whether it is over the connection for short calls.
    pub(crate) fn is_of_short_calls(&self) -> bool {
        let holding = locked(&self.pool.holding);
        let (first, ours) = (holding.first(), self.stream.as_ref());
        first.zip(ours).is_some_and(|(first, ours)| Arc::ptr_eq(&first.streams, ours))
    }

    /// The answer to a stream here. A sidecar that is too old for it is left: a new connection may meet
    /// another one (S37).
    pub(crate) fn look_at<T>(&self, answer: Result<T, Status>) -> Result<T, Status> {
        if let (Err(status), Some(stream)) = (&answer, &self.stream)
            && is_below_needs(status)
        {
            self.pool.leave(stream);
        }
        answer
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        drop(self.stream.take());
        self.pool.trim();
    }
}
