//! Several threads that serve callers. Each has a runtime of its own, and a connection stays on one of them
//! with all of its calls: what one task of a connection notes before it wakes another is there when that one
//! runs (S14).

use std::io;
use std::sync::Arc;
use std::thread;

use futures_util::{Stream, StreamExt as _};
use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::connection::Connection;

/// Threads that serve callers. They end when this is dropped.
#[derive(Debug)]
pub struct Workers {
    runtimes: Vec<Handle>,
    _running: DropGuard,
}

impl Workers {
    /// Starts so many threads.
    ///
    /// # Errors
    /// When the system gives no more threads or files.
    pub fn start(threads: usize) -> io::Result<Self> {
        let stop = CancellationToken::new();
        let running = stop.clone().drop_guard();
        let runtimes = (0..threads).map(|number| {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let handle = runtime.handle().clone();
            let stop = stop.clone();
            let work = move || {
                runtime.block_on(stop.cancelled());
                // A thread that is blocked, as by a name that nobody resolves, must not keep this one.
                runtime.shutdown_background();
            };
            thread::Builder::new().name(format!("worker-{number}")).spawn(work)?;
            Ok(handle)
        });
        Ok(Self { runtimes: runtimes.collect::<io::Result<_>>()?, _running: running })
    }

    /// What runs on each thread.
    #[must_use]
    pub fn runtimes(&self) -> &[Handle] {
        &self.runtimes
    }
}

/// How many connections a thread has: one clone each, and one here.
pub(in crate::grpc) type Load = Arc<()>;

/// A thread that connections are dealt to.
#[derive(Debug)]
struct Lane<S> {
    load: Load,
    connections: mpsc::UnboundedSender<Connection<S>>,
}

/// The connections that come to one thread, registered with its runtime.
type Dealt<S> = UnboundedReceiverStream<Connection<S>>;

/// Deals the connections of a listener to threads: each to the one that has the fewest.
#[derive(Debug)]
pub(in crate::grpc) struct Dealer<S>(Vec<Lane<S>>);

impl<S> Dealer<S> {
    /// A dealer to the threads with these loads, and what comes to each of them.
    pub(in crate::grpc) fn new(loads: &[Load]) -> (Self, Vec<Dealt<S>>) {
        let lanes = loads.iter().map(|load| {
            let (connections, dealt) = mpsc::unbounded_channel();
            (Lane { load: Arc::clone(load), connections }, UnboundedReceiverStream::new(dealt))
        });
        let (lanes, dealt) = lanes.unzip();
        (Self(lanes), dealt)
    }

    /// Deals until there are no more connections, or no threads.
    pub(in crate::grpc) async fn deal<L>(
        self,
        listener: impl Stream<Item = io::Result<Connection<L>>>,
    ) where
        L: Movable<Moved = S>,
    {
        let mut listener = std::pin::pin!(listener);
        while let Some(connection) = listener.next().await {
            let fewest = self.0.iter().min_by_key(|lane| Arc::strong_count(&lane.load));
            let Some(lane) = fewest else { return };
            let connection = connection.and_then(|connection| connection.map(L::leave));
            match connection.map(|connection| connection.on(Arc::clone(&lane.load))) {
                Ok(connection) => {
                    if lane.connections.send(connection).is_err() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "a connection could not be moved to its thread")
                }
            }
        }
    }
}

/// A socket that can be moved from one runtime to another.
pub(in crate::grpc) trait Movable: Sized {
    /// The socket in between.
    type Moved;

    fn leave(self) -> io::Result<Self::Moved>;
    fn arrive(moved: Self::Moved) -> io::Result<Self>;
}

impl Movable for tokio::net::TcpStream {
    type Moved = std::net::TcpStream;

    fn leave(self) -> io::Result<Self::Moved> {
        self.into_std()
    }

    fn arrive(moved: Self::Moved) -> io::Result<Self> {
        Self::from_std(moved)
    }
}

impl Movable for tokio::net::UnixStream {
    type Moved = std::os::unix::net::UnixStream;

    fn leave(self) -> io::Result<Self::Moved> {
        self.into_std()
    }

    fn arrive(moved: Self::Moved) -> io::Result<Self> {
        Self::from_std(moved)
    }
}

/// What was dealt to this thread, on its runtime.
pub(in crate::grpc) fn arriving<S: Movable>(
    dealt: Dealt<S::Moved>,
) -> impl Stream<Item = io::Result<Connection<S>>> {
    dealt.map(|connection| connection.map(S::arrive))
}
