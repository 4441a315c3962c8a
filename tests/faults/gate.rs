//! What stands between a job and the sidecars of other machines: an address that several of them are behind.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// Where the sidecars see the connections come from: an address that is not their own, since a connection
/// from that one would be a local client's, whose end is trusted (S14).
const ELSEWHERE: &str = "127.0.0.2:0";

struct State {
    target: SocketAddr,
    connections: JoinSet<()>,
}

/// One job's way to the sidecars, running until it is dropped.
pub(crate) struct Gate {
    state: Arc<Mutex<State>>,
    address: SocketAddr,
    listening: tokio::task::JoinHandle<()>,
}

impl Gate {
    /// One that leads to `target`.
    pub(crate) async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State { target, connections: JoinSet::new() }));
        let listening = tokio::spawn(listen(listener, Arc::clone(&state)));
        Self { state, address, listening }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where it leads.
    pub(crate) fn target(&self) -> SocketAddr {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).target
    }

    /// Leads to `target` from now on, and cuts what led elsewhere: how many connections that were.
    pub(crate) fn move_to(&self, target: SocketAddr) -> usize {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.target = target;
        let mut connections = std::mem::take(&mut state.connections);
        // Those that have ended by themselves are not cut.
        while connections.try_join_next().is_some() {}
        connections.len()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn listen(listener: TcpListener, state: Arc<Mutex<State>>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.connections.try_join_next().is_some() {}
        let target = state.target;
        state.connections.spawn(pass(stream, target));
    }
}

/// Passes on what comes, until either side ends.
async fn pass(mut stream: TcpStream, target: SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(ELSEWHERE.parse().unwrap()).unwrap();
    // A sidecar that is down refuses, and so does this gate by closing.
    if let Ok(mut sidecar) = socket.connect(target).await {
        let _ = stream.set_nodelay(true);
        let _ = sidecar.set_nodelay(true);
        let _ = tokio::io::copy_bidirectional(&mut stream, &mut sidecar).await;
    }
}
