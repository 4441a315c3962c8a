//! What carries requests: HTTP over the network, or a wire of a test.

use std::sync::Arc;
use std::time::Duration;

use azure_core::http::HttpClient;

use super::connections::Connections;
use super::settings::AzureSettingsError;
#[cfg(feature = "testing")]
use crate::testing::Wire;

/// Where HTTP clients come from.
#[derive(Clone, Debug)]
pub(super) enum Network {
    /// The machine's.
    System,
    /// None: the process itself answers.
    #[cfg(feature = "testing")]
    Wire(Arc<dyn Wire>),
}

impl Network {
    /// A client whose requests take no longer than this.
    pub(super) fn client(
        &self,
        timeout: Duration,
    ) -> Result<Arc<dyn HttpClient>, AzureSettingsError> {
        Ok(match self {
            Self::System => Arc::new(Connections::new(timeout)?),
            #[cfg(feature = "testing")]
            Self::Wire(wire) => Arc::new(wired::Wired { wire: Arc::clone(wire), timeout }),
        })
    }

    /// Whether the SDK may try again by itself: the times of its retries are not a test's to say.
    pub(super) const fn retries(&self) -> bool {
        match self {
            Self::System => true,
            #[cfg(feature = "testing")]
            Self::Wire(_) => false,
        }
    }
}

#[cfg(feature = "testing")]
mod wired {
    use std::io::{Error as IoError, ErrorKind as IoKind};
    use std::sync::Arc;
    use std::time::Duration;

    use async_trait::async_trait;
    use azure_core::error::ErrorKind;
    use azure_core::http::headers::Headers;
    use azure_core::http::{AsyncRawResponse, Body, HttpClient, Request, StatusCode};

    use crate::testing::{Asked, Carried, Wire};

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
}
