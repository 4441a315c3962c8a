//! How to reach a sidecar.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::boot_clock::{BootClock, Clock};
use crate::client::{Client, Settings};
use crate::connect::platform;
use crate::connect::{
    Address, Dial, Headers, Interceptor, KeepAlive, Pool, Tls, TlsSource, client_config,
};
use crate::errors::Error;

/// Where a sidecar listens unless told otherwise.
pub const DEFAULT_ENDPOINT: &str = "http://127.0.0.1:50951";

/// The environment variable that says where the sidecar is.
pub const ENDPOINT_VARIABLE: &str = "LEASEHOLD_ENDPOINT";

/// How to reach a sidecar; made by [`Client::builder`].
#[must_use]
pub struct ClientBuilder {
    endpoint: String,
    tls: Option<Tls>,
    tls_source: Option<TlsSource>,
    server_name: Option<String>,
    token: Option<Arc<dyn Fn() -> io::Result<String> + Send + Sync>>,
    interceptors: Vec<Arc<dyn Interceptor>>,
    keep_alive: KeepAlive,
    pub(crate) settings: Settings,
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
            tls: None,
            tls_source: None,
            server_name: None,
            token: None,
            interceptors: Vec::new(),
            keep_alive: KeepAlive::default(),
            settings: Settings::default(),
            clock: Arc::new(BootClock::new()),
        }
    }

    /// Trusts the certificate authorities in `pem` and shows a certificate, if one is given with
    /// [`Tls::with_certificate`]. Needed with `https`: the system's authorities are not trusted.
    pub fn tls(self, tls: Tls) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// The same, asked for each new connection, so that renewed certificates are taken up. Must not block for
    /// long.
    pub fn tls_with(self, source: impl Fn() -> io::Result<Tls> + Send + Sync + 'static) -> Self {
        Self { tls_source: Some(Arc::new(source)), ..self }
    }

    /// The name that the sidecar's certificate must have. Default: the host of the endpoint.
    pub fn server_name(self, name: impl Into<String>) -> Self {
        Self { server_name: Some(name.into()), ..self }
    }

    /// Sends `authorization: Bearer …` with each call, to a sidecar that asks for a token.
    pub fn bearer_token(self, token: impl Into<String>) -> Self {
        let token = token.into();
        self.bearer_token_with(move || Ok(token.clone()))
    }

    /// The same, asked for each call, so that a renewed token is taken up. Must not block for long.
    pub fn bearer_token_with(
        self,
        source: impl Fn() -> io::Result<String> + Send + Sync + 'static,
    ) -> Self {
        Self { token: Some(Arc::new(source)), ..self }
    }

    /// Shows each call to `interceptor` before it is sent; several are asked in their order.
    pub fn interceptor(mut self, interceptor: impl Interceptor + 'static) -> Self {
        self.interceptors.push(Arc::new(interceptor));
        self
    }

    /// Tests each connection by a ping so often, at least each 10 s; `None` never. One that is not answered
    /// within 10 s closes the connection. Default: 30 s, and never where the endpoint is on this machine: a
    /// sidecar there takes a closed connection for the end of its holder (S14).
    pub fn keep_alive(self, interval: impl Into<Option<Duration>>) -> Self {
        Self { keep_alive: interval.into().map_or(KeepAlive::Off, KeepAlive::Every), ..self }
    }

    /// How long [`Hold::release`](crate::Hold::release), [`Hold::run`](crate::Hold::run)
    /// and a dropped hold wait for the sidecar's answer; after that the lock is available when its lease
    /// expires. Default: 10 s, because Kubernetes gives a pod 30 s to end.
    pub fn release_timeout(mut self, timeout: Duration) -> Self {
        self.settings.release_timeout = timeout;
        self
    }

    /// A client over connections that a test opens, which goes by its clock.
    #[cfg(test)]
    pub(crate) fn over(self, dial: Dial, clock: Arc<dyn Clock>) -> Client {
        let headers = Headers::new(clock.boot_id(), self.token, self.interceptors);
        let pool = Pool::new(dial, headers, None);
        Client::new(Arc::new(pool), self.endpoint, clock, self.settings)
    }

    /// Connects, and gives up after 5 s.
    ///
    /// # Errors
    /// [`Error::Endpoint`] when the endpoint or what goes with it is invalid; [`Error::Unreachable`] when
    /// nobody answers there; [`Error::Platform`] elsewhere than on Linux and macOS.
    pub async fn connect(self) -> Result<Client, Error> {
        platform::check(std::env::consts::OS)?;
        let pool = self.pool()?;
        let connected = pool.connect().await;
        connected.map_err(|source| match pool.refusal() {
            Some(detail) => self.certificate_refused(detail),
            None => Error::Unreachable { endpoint: self.endpoint.clone(), source: source.into() },
        })?;
        Ok(Client::new(Arc::new(pool), self.endpoint, self.clock, self.settings))
    }

    fn certificate_refused(&self, detail: String) -> Error {
        Error::CertificateRefused { endpoint: self.endpoint.clone(), detail }
    }

    fn pool(&self) -> Result<Pool, Error> {
        let address = Address::parse(&self.endpoint).map_err(|problem| self.invalid(problem))?;
        let keep_alive =
            self.keep_alive.interval(&address).map_err(|problem| self.invalid(problem))?;
        let tls = self.tls_of(&address)?;
        let interceptors = self.interceptors.clone();
        let headers = Headers::new(self.clock.boot_id(), self.token.clone(), interceptors);
        headers.check().map_err(|problem| self.invalid(problem))?;
        let dial = Dial::to(address, tls, self.server_name.clone(), keep_alive);
        Ok(Pool::new(dial, headers, keep_alive))
    }

    /// The certificates for `address`, tried once.
    fn tls_of(&self, address: &Address) -> Result<Option<TlsSource>, Error> {
        let source = self.tls_source.clone().or_else(|| {
            let tls = self.tls.clone()?;
            Some(Arc::new(move || Ok(tls.clone())) as TlsSource)
        });
        if !address.is_secure() {
            return match source {
                None => Ok(None),
                Some(_) => Err(self.invalid("certificates are for https:// only")),
            };
        }
        let source =
            source.ok_or_else(|| self.invalid("https needs the certificate authority to trust"))?;
        let tls = source().map_err(|error| self.invalid(format!("its certificates: {error}")))?;
        client_config(&tls)
            .map_err(|problem| self.invalid(format!("its certificates: {problem}")))?;
        Ok(Some(source))
    }

    /// A channel for stubs of one's own; the bearer token is not sent.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    #[cfg(feature = "unstable-wire")]
    #[doc(hidden)]
    pub async fn channel(&self) -> Result<tonic::transport::Channel, Error> {
        let pool = self.pool()?;
        let source = |source: tonic::transport::Error| Error::Unreachable {
            endpoint: self.endpoint.clone(),
            source: source.into(),
        };
        pool.connect().await.map_err(source)?;
        Ok(pool.short_channel())
    }

    fn invalid(&self, problem: impl Into<String>) -> Error {
        Error::Endpoint { endpoint: self.endpoint.clone(), problem: problem.into() }
    }
}
