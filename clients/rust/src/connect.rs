//! Where the sidecar is, and how to get there.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status};

use crate::boot_clock::{BootClock, Clock};
use crate::client::Client;
use crate::error::Error;

/// Where a sidecar listens unless told otherwise.
pub const DEFAULT_ENDPOINT: &str = "http://127.0.0.1:50951";

/// The environment variable that says where the sidecar is.
pub const ENDPOINT_VARIABLE: &str = "LEASEHOLD_ENDPOINT";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How to reach a sidecar; made by [`Client::builder`].
#[must_use]
pub struct ClientBuilder {
    endpoint: String,
    ca: Option<Certificate>,
    identity: Option<Identity>,
    server_name: Option<String>,
    token: Option<String>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for ClientBuilder {
    // S20: keys and tokens stay unseen.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ClientBuilder")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl ClientBuilder {
    pub(crate) fn new(endpoint: String) -> Self {
        Self {
            endpoint,
            ca: None,
            identity: None,
            server_name: None,
            token: None,
            clock: Arc::new(BootClock::new()),
        }
    }

    /// Trusts the certificate authorities in `pem`. Needed with `https`: the system's are not trusted.
    pub fn ca_certificate(self, pem: impl AsRef<[u8]>) -> Self {
        Self { ca: Some(Certificate::from_pem(pem)), ..self }
    }

    /// Shows this certificate to a sidecar that asks for one; with `https` only.
    pub fn client_certificate(self, pem: impl AsRef<[u8]>, key_pem: impl AsRef<[u8]>) -> Self {
        Self { identity: Some(Identity::from_pem(pem, key_pem)), ..self }
    }

    /// The name that the sidecar's certificate must have. Default: the host of the endpoint.
    pub fn server_name(self, name: impl Into<String>) -> Self {
        Self { server_name: Some(name.into()), ..self }
    }

    /// Sends `authorization: Bearer …` with each call, to a sidecar that asks for a token.
    pub fn bearer_token(self, token: impl Into<String>) -> Self {
        Self { token: Some(token.into()), ..self }
    }

    #[cfg(test)]
    pub(crate) fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Connects, and gives up after 5 s.
    ///
    /// # Errors
    /// [`Error::Endpoint`] when the endpoint or what goes with it makes no sense; [`Error::Unreachable`] when nobody
    /// answers there.
    pub async fn connect(self) -> Result<Client, Error> {
        let headers = Headers::new(self.token.as_deref(), self.clock.boot_id())
            .map_err(|problem| self.useless(problem))?;
        let lasting = self.channel().await?;
        let short = self.transport()?.connect_lazy();
        Ok(Client::new((lasting, short), headers, self.clock))
    }

    /// Connects for another service at the same address, such as gRPC health; the bearer token is not sent.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn channel(&self) -> Result<Channel, Error> {
        self.transport()?
            .connect()
            .await
            .map_err(|source| Error::Unreachable { endpoint: self.endpoint.clone(), source })
    }

    fn transport(&self) -> Result<Endpoint, Error> {
        let scheme = self.endpoint.split_once("://").map(|(scheme, _)| scheme);
        let secure = match scheme {
            Some("unix") if self.endpoint.len() > "unix://".len() => false,
            Some("http") => false,
            Some("https") => true,
            Some(_) | None => {
                return Err(
                    self.useless("it must be unix:///path, http://host:port or https://host:port")
                );
            }
        };
        // No keep-alive of our own: an unanswered one would close the connection, which the sidecar on the same
        // machine reads as the holder being gone (S13, S14).
        let transport = Endpoint::from_shared(self.endpoint.clone())
            .map_err(|error| self.useless(error.to_string()))?
            .connect_timeout(CONNECT_TIMEOUT);
        if !secure {
            if self.ca.is_some() || self.identity.is_some() {
                return Err(
                    self.useless("certificates were given, and only https:// makes use of them")
                );
            }
            return Ok(transport);
        }
        let Some(ca) = &self.ca else {
            return Err(self.useless("https needs the certificate authority to trust"));
        };
        let mut tls = ClientTlsConfig::new().ca_certificate(ca.clone());
        if let Some(identity) = &self.identity {
            tls = tls.identity(identity.clone());
        }
        if let Some(name) = &self.server_name {
            tls = tls.domain_name(name);
        }
        transport
            .tls_config(tls)
            .map_err(|error| self.useless(format!("its certificates cannot be used: {error}")))
    }

    fn useless(&self, problem: impl Into<String>) -> Error {
        Error::Endpoint { endpoint: self.endpoint.clone(), problem: problem.into() }
    }
}

/// Adds to each call whose it is: the bearer token, and the kernel of this process, so that a sidecar on the same one
/// knows that a stream's end is this process's doing (S14).
#[derive(Clone)]
pub(crate) struct Headers {
    bearer: Option<MetadataValue<Ascii>>,
    boot_id: Option<MetadataValue<Ascii>>,
}

impl Headers {
    /// Without a bearer token.
    pub(crate) fn of_kernel(boot_id: &str) -> Self {
        let boot_id = MetadataValue::try_from(boot_id).ok().filter(|value| !value.is_empty());
        Self { bearer: None, boot_id }
    }

    fn new(token: Option<&str>, boot_id: &str) -> Result<Self, &'static str> {
        let headers = Self::of_kernel(boot_id);
        let Some(token) = token else {
            return Ok(headers);
        };
        let mut value = MetadataValue::try_from(format!("Bearer {}", token.trim()))
            .map_err(|_| "the bearer token has characters that cannot be sent")?;
        value.set_sensitive(true);
        Ok(Self { bearer: Some(value), ..headers })
    }
}

impl Interceptor for Headers {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let headers = [("authorization", &self.bearer), ("leasehold-boot-id", &self.boot_id)];
        for (name, value) in headers {
            if let Some(value) = value {
                request.metadata_mut().insert(name, value.clone());
            }
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn refused(builder: ClientBuilder) -> String {
        builder.connect().await.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn nonsense_endpoints_are_refused_with_what_would_be_right() {
        for endpoint in ["", "127.0.0.1:50951", "ftp://host", "unix://", "http://", "http://a b"] {
            let error = Client::connect(endpoint).await.unwrap_err();
            assert!(matches!(error, Error::Endpoint { .. }), "{endpoint}: {error}");
        }
        let message = refused(Client::builder("127.0.0.1:50951")).await;
        assert!(message.contains("http://host:port"), "{message}");
    }

    #[tokio::test]
    async fn nobody_there_is_said_with_what_to_do() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", free.local_addr().unwrap());
        drop(free);
        for endpoint in [endpoint.as_str(), "unix:///nowhere/leasehold.sock"] {
            let error = Client::connect(endpoint).await.unwrap_err();
            assert!(matches!(error, Error::Unreachable { .. }), "{error}");
            let message = error.to_string();
            assert!(message.contains(endpoint) && message.contains("leasehold serve"), "{message}");
        }
    }

    #[tokio::test]
    async fn tls_options_must_fit_the_endpoint() {
        let plain = Client::builder("http://127.0.0.1:1").ca_certificate("pem");
        assert!(refused(plain).await.contains("only https"));
        let without = Client::builder("https://127.0.0.1:1");
        assert!(refused(without).await.contains("certificate authority"));
    }

    #[tokio::test]
    async fn s20_the_token_is_never_shown() {
        let builder = Client::builder("http://127.0.0.1:1").bearer_token("se\ncret");
        assert!(!format!("{builder:?}").contains("cret"));
        let message = refused(builder).await;
        assert!(message.contains("bearer token") && !message.contains("cret"), "{message}");
    }
}
