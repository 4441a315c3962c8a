//! A network between a client and its sidecar that can fall silent, or lead to another one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::clients::driver::until;

/// Forwards TCP connections on loopback. Dropped, it closes them all.
pub(crate) struct Proxy {
    address: SocketAddr,
    /// How often the network has fallen silent. A connection made before the newest time is silent.
    silences: watch::Sender<u64>,
    /// Where new connections lead.
    target: watch::Sender<SocketAddr>,
    /// How many there were that a sidecar has accepted.
    made: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let silences = watch::Sender::new(0);
        let heard = silences.subscribe();
        let target = watch::Sender::new(target);
        let (leading, made) = (target.subscribe(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&made);
        let accepting = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let target = *leading.borrow();
                let (heard, counted) = (heard.clone(), Arc::clone(&counted));
                connections.spawn(connect(client, target, heard, counted));
            }
        });
        Self { address, silences, target, made, accepting }
    }

    /// What a client is told to connect to.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// New connections lead there.
    pub(crate) fn lead_to(&self, target: SocketAddr) {
        self.target.send_replace(target);
    }

    /// Waits until the client has come so many times more.
    pub(crate) async fn until_asked_again(&self, times: usize) {
        let made = || self.made.load(Ordering::Relaxed);
        let enough = made() + times;
        let why_not = || format!("{} connections", made());
        until("the client has come again", why_not, || (made() >= enough).then_some(())).await;
    }

    /// From now on every byte on the present connections is swallowed, in both directions. They stay open,
    /// also when one side closes its own end: a lost network tells nobody. New connections are forwarded.
    pub(crate) fn silence(&self) {
        self.silences.send_modify(|silences| *silences += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn connect(
    client: TcpStream,
    target: SocketAddr,
    silences: watch::Receiver<u64>,
    counted: Arc<AtomicUsize>,
) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    counted.fetch_add(1, Ordering::Relaxed);
    let made = *silences.borrow();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::join!(
        forward(from_client, to_server, made, silences.clone()),
        forward(from_server, to_client, made, silences),
    );
}

/// Forwards until the reading side ends; then so does the writing side, unless the connection is silent.
async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    made: u64,
    silences: watch::Receiver<u64>,
) {
    let is_silent = || *silences.borrow() > made;
    let mut buffer = vec![0; 64 * 1_024];
    loop {
        let read = from.read(&mut buffer).await.unwrap_or_default();
        if is_silent() {
            if read == 0 {
                // Nothing is closed and nothing more is read.
                return std::future::pending().await;
            }
        } else if read == 0 {
            let _ = to.shutdown().await;
            return;
        } else if to.write_all(buffer.get(..read).unwrap_or_default()).await.is_err() {
            return;
        }
    }
}
