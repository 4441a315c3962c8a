//! Where a sidecar is: connections to it, and what goes with each call.
//!
//! Rules: S14 (a local stream's end is the holder's end, so nothing here ends one), S20, S21 (no keep-alive
//! on a local connection).

mod builder;
mod dial;
mod endpoint;
mod headers;
pub(crate) mod platform;
mod pool;
mod tls;
#[cfg(feature = "otel")]
mod trace;

pub use builder::{ClientBuilder, DEFAULT_ENDPOINT, ENDPOINT_VARIABLE};
pub(crate) use dial::Dial;
pub(crate) use endpoint::{Address, KeepAlive};
pub(crate) use headers::Headers;
pub use headers::{Call, Interceptor};
pub(crate) use pool::{Calls, Lane, Pool};
pub use tls::Tls;
pub(crate) use tls::{TlsSource, client_config};

#[cfg(test)]
mod pool_tests;
#[cfg(test)]
mod tests;
