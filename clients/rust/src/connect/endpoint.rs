//! Where a sidecar is, and whether that is this machine.

use crate::constants::{DEFAULT_KEEP_ALIVE, SHORTEST_KEEP_ALIVE};

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use tonic::transport::Endpoint;

/// Where to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A port, with TLS if `secure`.
    Tcp { host: String, port: u16, secure: bool },
}

impl Address {
    /// Reads `unix:///path`, `http://host:port` or `https://host:port`.
    pub(crate) fn parse(endpoint: &str) -> Result<Self, String> {
        let expected = "it must be unix:///path, http://host:port or https://host:port";
        let (scheme, rest) = endpoint.split_once("://").ok_or(expected)?;
        let secure = match scheme {
            "unix" if !rest.is_empty() => return Ok(Self::Unix(PathBuf::from(rest))),
            "http" => false,
            "https" => true,
            _ => return Err(expected.to_owned()),
        };
        let parsed = Endpoint::from_shared(endpoint.to_owned()).map_err(|e| e.to_string())?;
        let host = parsed.uri().host().filter(|host| !host.is_empty()).ok_or(expected)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = parsed.uri().port_u16().unwrap_or(if secure { 443 } else { 80 });
        Ok(Self::Tcp { host, port, secure })
    }

    /// Whether the sidecar is on this machine for certain.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp { host, .. } => {
                host.eq_ignore_ascii_case("localhost")
                    || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
            }
        }
    }

    pub(crate) const fn is_secure(&self) -> bool {
        matches!(self, Self::Tcp { secure: true, .. })
    }
}

/// How often a connection is tested by a ping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum KeepAlive {
    /// Each 30 s, and never where the sidecar is local.
    #[default]
    ByLocality,
    /// No pings are sent.
    Off,
    /// A ping is sent at this interval.
    Every(Duration),
}

impl KeepAlive {
    /// The interval at `address`.
    ///
    /// # Errors
    /// When it is too short.
    pub(crate) fn interval(self, address: &Address) -> Result<Option<Duration>, String> {
        match self {
            Self::Off => Ok(None),
            // S21: an unanswered ping would close the connection, which a local sidecar reads as the holder
            // being gone.
            Self::ByLocality => Ok((!address.is_local()).then_some(DEFAULT_KEEP_ALIVE)),
            Self::Every(interval) if interval < SHORTEST_KEEP_ALIVE => {
                Err(format!("its keep-alive interval is {interval:?}; at least 10 s are allowed"))
            }
            Self::Every(interval) => Ok(Some(interval)),
        }
    }
}
