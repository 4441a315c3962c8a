//! As many connections as lasting streams need.

use std::ops::{Deref, DerefMut};
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

pub(crate) type Rpc = LeaseServiceClient<InterceptedService<Channel, Headers>>;
pub(crate) type Schedules = ScheduleServiceClient<InterceptedService<Channel, Headers>>;

/// Connections, made when they are needed: one for each 200 holds, of which the first carries short calls
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
}

impl Connection {
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
        let first = Connection { channel: channel(&endpoint, &dial), streams: Arc::default() };
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
        *locked(&self.holding) = vec![Connection { channel, streams: Arc::default() }];
        Ok(())
    }

    /// For calls that must go through at once, releases above all.
    pub(crate) fn short(&self) -> Rpc {
        LeaseServiceClient::with_interceptor(self.short_channel(), self.headers.clone())
    }

    /// The same, about schedules.
    pub(crate) fn schedules(&self) -> Schedules {
        ScheduleServiceClient::with_interceptor(self.short_channel(), self.headers.clone())
    }

    /// The connection for short calls, without what goes with calls of ours.
    pub(crate) fn short_channel(&self) -> Channel {
        let first = locked(&self.holding).first().map(|first| first.channel.clone());
        first.unwrap_or_else(|| channel(&self.endpoint, &self.dial))
    }

    /// For a call that lasts as long as a wait or a hold, whose events are read at once.
    pub(crate) fn lane(self: &Arc<Self>) -> Lane {
        self.lane_of(&self.holding)
    }

    /// For a watch, which its caller reads when it likes.
    pub(crate) fn watching_lane(self: &Arc<Self>) -> Lane {
        self.lane_of(&self.watching)
    }

    fn lane_of(self: &Arc<Self>, connections: &Mutex<Vec<Connection>>) -> Lane {
        let mut connections = locked(connections);
        let free =
            connections.iter().find(|connection| connection.streams() < STREAMS_PER_CONNECTION);
        let (channel, stream) = match free {
            Some(free) => (free.channel.clone(), Arc::clone(&free.streams)),
            None => {
                let more = Connection {
                    channel: channel(&self.endpoint, &self.dial),
                    streams: Arc::default(),
                };
                let (channel, stream) = (more.channel.clone(), Arc::clone(&more.streams));
                connections.push(more);
                (channel, stream)
            }
        };
        drop(connections);
        let rpc = LeaseServiceClient::with_interceptor(channel.clone(), self.headers.clone());
        let schedules = ScheduleServiceClient::with_interceptor(channel, self.headers.clone());
        Lane { rpc, schedules, stream: Some(stream), pool: Arc::clone(self) }
    }

    /// Why the sidecar ends connections by TLS before it says anything, if it does.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.dial.refusal()
    }

    /// Makes no further call over the connection of this stream.
    fn leave(&self, stream: &Arc<()>) {
        let mut holding = locked(&self.holding);
        holding.retain(|connection| !Arc::ptr_eq(&connection.streams, stream));
        if holding.is_empty() {
            let channel = channel(&self.endpoint, &self.dial);
            holding.push(Connection { channel, streams: Arc::default() });
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

/// A place for one lasting stream. Keep it as long as the stream.
#[derive(Debug)]
pub(crate) struct Lane {
    rpc: Rpc,
    pub(crate) schedules: Schedules,
    stream: Option<Arc<()>>,
    pool: Arc<Pool>,
}

impl Lane {
    /// The calls over this connection.
    pub(crate) fn rpc(&self) -> Rpc {
        self.rpc.clone()
    }

    /// The answer to a call here. A sidecar that is too old for it is left: a new connection may meet another
    /// one (S37).
    pub(crate) fn look_at<T>(&self, answer: Result<T, Status>) -> Result<T, Status> {
        if let (Err(status), Some(stream)) = (&answer, &self.stream)
            && is_below_needs(status)
        {
            self.pool.leave(stream);
        }
        answer
    }
}

impl Deref for Lane {
    type Target = Rpc;

    fn deref(&self) -> &Rpc {
        &self.rpc
    }
}

impl DerefMut for Lane {
    fn deref_mut(&mut self) -> &mut Rpc {
        &mut self.rpc
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        drop(self.stream.take());
        self.pool.trim();
    }
}
