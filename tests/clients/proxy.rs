//! A network between a client and its sidecar that can fall silent.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Forwards TCP connections on loopback. Dropped, it closes them all.
pub(crate) struct Proxy {
    address: SocketAddr,
    /// How often the network has fallen silent. A connection made before the newest time is silent.
    silences: watch::Sender<u64>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let silences = watch::Sender::new(0);
        let heard = silences.subscribe();
        let accepting = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(connect(client, target, heard.clone()));
            }
        });
        Self { address, silences, accepting }
    }

    /// What a client is told to connect to.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
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

async fn connect(client: TcpStream, target: SocketAddr, silences: watch::Receiver<u64>) {
    let Ok(server) = TcpStream::connect(target).await else { return };
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
