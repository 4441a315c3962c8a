//! Who may look at the page and its data: whoever is on this machine, and no web page from elsewhere.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::connection::Connection;
use super::probes::plain;
use crate::access::is_header_of_a_proxy;

/// Who may look at the page and its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Callers from this machine.
    ThisMachine,
    /// Whoever reaches the address.
    Everyone,
}

/// What a request must be to be answered with what others may not see.
#[derive(Debug)]
pub(super) struct Guard {
    pub(super) readers: Readers,
    /// Names that the Host header may have, beside addresses and `localhost`; in lower case.
    pub(super) hosts: Vec<String>,
}

const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Nothing from elsewhere, nothing in a frame, no form, and no text that becomes code.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// Refuses who may not look, and marks what is answered as nobody else's.
pub(super) async fn guard(
    State(guard): State<Arc<Guard>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match guard.refusal(&request) {
        None => next.run(request).await,
        Some(problem) => (StatusCode::FORBIDDEN, plain(problem)).into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (RESOURCE_POLICY, "same-origin"),
        (CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

impl Guard {
    fn refusal(&self, request: &Request) -> Option<String> {
        let headers = request.headers();
        if self.readers == Readers::ThisMachine {
            let peer = request.extensions().get::<Connection>().map(|connection| connection.peer);
            if !peer.is_some_and(|peer| peer.is_loopback()) {
                return Some(
                    "the page is shown to callers from this machine only; forward a port (ssh -L, kubectl port-forward), \
                     or set admin.page = \"everyone\"\n"
                        .to_owned(),
                );
            }
            if headers.keys().any(|name| is_header_of_a_proxy(name.as_str())) {
                return Some(
                    "the request came through a proxy (X-Forwarded-For, Forwarded, X-Real-IP, Via or the like), and the page \
                     is shown to callers from this machine only; set admin.page = \"everyone\" if the proxy authenticates \
                     its users\n"
                        .to_owned(),
                );
            }
        }
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok()).unwrap_or_default();
        // What the request line names goes before the header.
        let named = request.uri().authority().is_none_or(|named| self.knows(named.as_str()));
        if hosts.next().is_some() || !self.knows(host) || !named {
            // Not repeated: what it says may be anybody's.
            return Some(
                "the Host header has a name that is not this sidecar's; use an IP address or localhost, or add the name \
                 to admin.page_hosts\n"
                    .to_owned(),
            );
        }
        None
    }

    /// Whether a request with this Host header can come from a page of ours. A page from elsewhere whose name
    /// is made to lead here (DNS rebinding) has its own name in it, so no name counts that is not known; an
    /// address has nobody else's pages.
    fn knows(&self, host: &str) -> bool {
        if host.parse::<SocketAddr>().is_ok() || host.parse::<IpAddr>().is_ok() {
            return true;
        }
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if bracketed.is_some_and(|host| host.parse::<IpAddr>().is_ok()) {
            return true;
        }
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.parse::<u16>().is_ok() => name,
            Some(_) => return false,
            None => host,
        };
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        name == "localhost" || self.hosts.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_are_known_lead_here() {
        let guard = Guard { readers: Readers::Everyone, hosts: vec!["locks.shop.svc".to_owned()] };
        for host in [
            "localhost",
            "LocalHost:50952",
            "localhost.:50952",
            "127.0.0.1",
            "127.0.0.1:50952",
            "10.1.2.3:80",
            "[::1]",
            "[::1]:50952",
            "locks.shop.svc",
            "Locks.Shop.Svc:50952",
        ] {
            assert!(guard.knows(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "evil.example:50952",
            "127.0.0.1.evil.example",
            "127.0.0.1@evil.example",
            "localhost:50952:1",
            "localhost:port",
            "locks.shop.svc.evil.example",
            "[::1",
            "[evil.example]",
        ] {
            assert!(!guard.knows(host), "{host}");
        }
    }
}
