//! A network in the same process: what the Azure adapter sends is answered by a value.

use std::fmt;
use std::io::{Error as IoError, ErrorKind as IoKind};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use azure_core::error::ErrorKind;
use azure_core::http::headers::Headers;
use azure_core::http::{AsyncRawResponse, Body, HttpClient, Request, StatusCode};

/// Answers the requests of an adapter. A request that is dropped was given up by who asked, not by the
/// network.
#[async_trait]
pub trait Wire: Send + Sync + fmt::Debug {
    /// Carries one request, and its answer back.
    async fn carry(&self, asked: Asked) -> Carried;
}

/// A request as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The method of the request.
    pub method: String,
    /// Its path and query.
    pub target: String,
    /// Its headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The content of the request.
    pub body: Vec<u8>,
}

impl Asked {
    /// The value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    /// The server has answered.
    Answer {
        /// The status of the answer.
        status: u16,
        /// Its headers, names in lower case.
        headers: Vec<(String, String)>,
        /// The content of the answer.
        body: String,
    },
    /// There was no connection: the request certainly never left.
    NotSent,
    /// The connection broke: whether the request was done is unknown.
    Broken,
}

/// A client over a [`Wire`].
#[derive(Debug)]
pub(super) struct Wired {
    pub(super) wire: Arc<dyn Wire>,
    pub(super) timeout: Duration,
}

#[async_trait]
impl HttpClient for Wired {
    async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
        let failed = |kind, io: IoKind| Err(azure_core::Error::new(kind, IoError::from(io)));
        let headers = request.headers().iter();
        let asked = Asked {
            method: request.method().to_string(),
            target: request.path_and_query(),
            headers: headers
                .map(|(name, value)| (name.as_str().to_owned(), value.as_str().to_owned()))
                .collect(),
            body: match request.body() {
                Body::Bytes(bytes) => bytes.to_vec(),
                Body::SeekableStream(_) => return failed(ErrorKind::Io, IoKind::Unsupported),
            },
        };
        let carried = tokio::time::timeout(self.timeout, self.wire.carry(asked)).await;
        match carried {
            Ok(Carried::Answer { status, headers, body }) => {
                let mut answered = Headers::new();
                for (name, value) in headers {
                    answered.insert(name, value);
                }
                Ok(AsyncRawResponse::from_bytes(StatusCode::from(status), answered, body))
            }
            Ok(Carried::NotSent) => failed(ErrorKind::Connection, IoKind::ConnectionRefused),
            Ok(Carried::Broken) => failed(ErrorKind::Io, IoKind::ConnectionReset),
            Err(_elapsed) => failed(ErrorKind::Io, IoKind::TimedOut),
        }
    }
}
