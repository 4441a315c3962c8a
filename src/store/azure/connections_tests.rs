use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use azure_core::http::Method;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::super::tests::{lease_id, path, store_at};
use super::*;
use crate::store::LeaseStoreExt as _;
use crate::testing::SimClock;

/// Silently lost: the connections that were there then take requests in, and answer none. New ones work at
/// once.
#[derive(Debug, Default)]
struct Path {
    lost: AtomicBool,
    /// Connections that were made, and requests that were swallowed.
    made: AtomicUsize,
    swallowed: AtomicUsize,
}

impl Path {
    async fn start(self: &Arc<Self>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let path = Arc::clone(self);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                path.made.fetch_add(1, Ordering::Relaxed);
                let is_old = !path.lost.load(Ordering::Relaxed);
                tokio::spawn(Arc::clone(&path).serve(stream, is_old));
            }
        });
        endpoint
    }

    async fn serve(self: Arc<Self>, stream: TcpStream, is_old: bool) {
        let mut stream = BufReader::new(stream);
        loop {
            let mut line = String::new();
            while line != "\r\n" {
                line.clear();
                if stream.read_line(&mut line).await.unwrap_or_default() == 0 {
                    return;
                }
            }
            if is_old && self.lost.load(Ordering::Relaxed) {
                self.swallowed.fetch_add(1, Ordering::Relaxed);
                return std::future::pending().await;
            }
            let answer = format!(
                "HTTP/1.1 200 OK\r\nx-ms-request-id: r-1\r\ndate: Fri, 15 Jan 2027 08:00:00 GMT\r\n\
                 etag: \"0x1\"\r\nx-ms-lease-id: {}\r\ncontent-length: 0\r\n\r\n",
                lease_id()
            );
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

#[tokio::test]
async fn s7_a_try_after_one_that_was_not_answered_goes_over_a_new_connection() {
    let network = Arc::<Path>::default();
    let store = Arc::new(store_at(&network.start().await, &Arc::new(SimClock::new())));
    let burst = (0..60).map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.renew(&path(), lease_id(), None).await })
    });
    for renewal in burst.collect::<Vec<_>>() {
        renewal.await.unwrap().unwrap();
    }
    let idle = network.made.load(Ordering::Relaxed);
    assert!(idle >= 5, "only {idle} connections were made");
    network.lost.store(true, Ordering::Relaxed);
    // As the coordinator cuts a try off.
    let cut_off = 2 * PROMPT;
    let first = tokio::time::timeout(cut_off, store.renew(&path(), lease_id(), None)).await;
    assert!(first.is_err(), "the path was not lost: {first:?}");
    assert_eq!(network.swallowed.load(Ordering::Relaxed), 1);
    store.renew(&path(), lease_id(), None).await.unwrap();
    assert_eq!(network.swallowed.load(Ordering::Relaxed), 1, "an old connection was used again");
}

#[tokio::test]
async fn s7_a_request_whose_caller_is_gone_at_once_asks_for_no_new_connections() {
    let network = Arc::<Path>::default();
    let endpoint = network.start().await;
    let connections = Connections::new(Duration::from_secs(5)).unwrap();
    let request = Request::new(endpoint.parse().unwrap(), Method::Get);
    for _ in 0..20 {
        let mut asking = connections.execute_request(&request);
        assert!(futures_util::poll!(&mut asking).is_pending());
    }
    assert_eq!(connections.current().0, Generation(0));
    connections.execute_request(&request).await.unwrap();
    assert_eq!(connections.current().0, Generation(0));
}

#[test]
fn s7_requests_that_were_lost_together_ask_for_new_connections_once() {
    let mut now = Generation::default();
    let sent_in = now;
    assert!(now.unanswered(sent_in));
    assert!((0..1_000).all(|_| !now.unanswered(sent_in)), "they were sent before");
    assert!(now.unanswered(now), "the new ones are lost, too");
    assert_eq!(now, Generation(2));
}
