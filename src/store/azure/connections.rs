//! Connections that a lost path has silently killed must not cost a hold (S7): few are kept idle, and not for
//! long, and a request that was sent and not answered has those that come after it go over new ones.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use azure_core::error::ErrorKind;
use azure_core::http::{AsyncRawResponse, HttpClient, Request};

use super::client::{http_client, trusted};
use super::settings::AzureSettingsError;

/// A request that is given up before says nothing of its connection: its caller may have gone. So connections
/// are renewed no more often than this, whatever callers do.
const PROMPT: Duration = Duration::from_millis(400);

/// Numbers the sets of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Generation(u64);

impl Generation {
    /// A request over a connection of `sent_in` was not answered; whether that asks for new connections.
    /// Those that were sent together ask once, however many there are.
    const fn unanswered(&mut self, sent_in: Self) -> bool {
        let asks = sent_in.0 == self.0;
        if asks {
            self.0 += 1;
        }
        asks
    }
}

/// An HTTP client that takes new connections when a request is not answered. The old ones end with the
/// requests that are still under way over them.
#[derive(Debug)]
pub(super) struct Connections {
    timeout: Duration,
    trusted: rustls::ClientConfig,
    current: Mutex<(Generation, reqwest::Client)>,
}

/// A request that has been under way for a while; dropped before it is answered, it asks for new connections.
struct Overdue<'a> {
    connections: &'a Connections,
    sent_in: Generation,
    answered: bool,
}

impl Connections {
    /// For requests that take no longer than this.
    pub(super) fn new(timeout: Duration) -> Result<Self, AzureSettingsError> {
        let trusted = trusted()?;
        let current = http_client(timeout, trusted.clone())?;
        Ok(Self { timeout, trusted, current: Mutex::new((Generation::default(), current)) })
    }

    fn current(&self) -> MutexGuard<'_, (Generation, reqwest::Client)> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Overdue<'_> {
    fn drop(&mut self) {
        let mut current = self.connections.current();
        if !self.answered && current.0.unanswered(self.sent_in) {
            // One like it was made before: if none can be made now, the old one has to do.
            let Connections { timeout, trusted, .. } = self.connections;
            if let Ok(client) = http_client(*timeout, trusted.clone()) {
                current.1 = client;
            }
        }
    }
}

#[async_trait]
impl HttpClient for Connections {
    async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
        let (sent_in, client) = self.current().clone();
        let mut answer = client.execute_request(request);
        if let Ok(answer) = tokio::time::timeout(PROMPT, &mut answer).await {
            return answer;
        }
        let mut overdue = Overdue { connections: self, sent_in, answered: false };
        let answer = answer.await;
        // What could not connect was not sent.
        let sent = |error: &azure_core::Error| !matches!(error.kind(), ErrorKind::Connection);
        overdue.answered = !answer.as_ref().is_err_and(sent);
        answer
    }
}

#[cfg(test)]
#[path = "connections_tests.rs"]
mod tests;
