//! Whether the end of a call's stream is its client's own word, or may be that of something in between (S14).

use tonic::metadata::{KeyRef, MetadataMap};

use super::connection::{CloseReason, Ending, Origin, Peer};
use crate::access;

/// The kernel's boot id of the process that calls, sent with each call: a connection may carry the calls of
/// many.
const BOOT_ID: &str = "leasehold-boot-id";

/// A call's stream, as its connection and its headers show it.
#[derive(Clone, Debug)]
pub(in crate::grpc) struct LifeLine {
    close_reason: CloseReason,
    trust: Trust,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// Both ends are on this kernel and nothing is in between: it closes the sockets of a process that dies.
    Local,
    /// Over a network, and the operator says that nothing is in between.
    Direct,
    /// Something may be in between, whose own end looks like the client's.
    Relayed,
}

impl LifeLine {
    /// The life line of a call by `peer` with these headers. `boot_id` is this kernel's, and `direct` what
    /// the operator says of callers over TCP (`listen.direct`).
    pub(in crate::grpc) fn new(
        peer: &Peer,
        headers: &MetadataMap,
        boot_id: &str,
        direct: bool,
    ) -> Self {
        Self {
            close_reason: peer.close_reason.clone(),
            trust: trust(peer.origin, headers, boot_id, direct),
        }
    }

    /// Completes when the connection has ended, if its client is on this kernel: then it is gone, or has
    /// closed it. Not where something may be in between.
    pub(in crate::grpc) async fn client_gone(&self) {
        if self.trust != Trust::Local {
            return std::future::pending().await;
        }
        self.close_reason.ended().await;
        if !self.shows_that_the_client_released() {
            std::future::pending().await
        }
    }

    /// Whether a stream that ended was ended by its client: cancelled, or closed with its connection.
    /// Otherwise the client may still rely on its hold.
    pub(in crate::grpc) fn shows_that_the_client_released(&self) -> bool {
        match (self.trust, self.close_reason.ending()) {
            (Trust::Local, Ending::Cancelled | Ending::Closed | Ending::Reset)
            | (Trust::Direct, Ending::Cancelled | Ending::Closed) => true,
            // A network resets what it lost track of.
            (Trust::Direct, Ending::Reset)
            | (Trust::Local | Trust::Direct, Ending::Broken)
            | (Trust::Relayed, _) => false,
        }
    }
}

fn trust(origin: Origin, headers: &MetadataMap, boot_id: &str, direct: bool) -> Trust {
    if headers.keys().any(|key| is_of_a_proxy(&key)) {
        return Trust::Relayed;
    }
    let sent = headers.get(BOOT_ID).and_then(|value| value.to_str().ok());
    let same_kernel = !boot_id.is_empty() && sent == Some(boot_id);
    match origin {
        Origin::Socket => Trust::Local,
        Origin::Loopback if same_kernel => Trust::Local,
        Origin::Loopback | Origin::Network if direct => Trust::Direct,
        Origin::Loopback | Origin::Network => Trust::Relayed,
    }
}

fn is_of_a_proxy(key: &KeyRef<'_>) -> bool {
    let name = match key {
        KeyRef::Ascii(key) => key.as_str(),
        KeyRef::Binary(key) => key.as_str(),
    };
    access::is_header_of_a_proxy(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "6f3f8a52-0000-4000-8000-000000000000";

    fn headers(rows: &[(&'static str, &str)]) -> MetadataMap {
        let mut headers = MetadataMap::new();
        for (name, value) in rows {
            headers.insert(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn s14_loopback_is_local_only_to_a_caller_of_this_kernel() {
        let here = headers(&[(BOOT_ID, HERE), ("x-request-id", "7"), ("traceparent", "00-1-2-3")]);
        assert_eq!(trust(Origin::Loopback, &here, HERE, false), Trust::Local);
        assert_eq!(trust(Origin::Network, &here, HERE, false), Trust::Relayed);
        let elsewhere = headers(&[(BOOT_ID, "another")]);
        for unknown in [elsewhere, headers(&[]), headers(&[(BOOT_ID, "")])] {
            assert_eq!(trust(Origin::Loopback, &unknown, HERE, false), Trust::Relayed);
            assert_eq!(trust(Origin::Loopback, &unknown, "", false), Trust::Relayed);
            assert_eq!(trust(Origin::Socket, &unknown, HERE, false), Trust::Local);
        }
    }

    #[test]
    fn s14_a_call_that_came_through_a_proxy_is_never_taken_for_a_local_one() {
        for name in
            ["forwarded", "via", "x-forwarded-for", "x-envoy-attempt-count", "l5d-client-id"]
        {
            let relayed = headers(&[(BOOT_ID, HERE), (name, "10.0.0.7")]);
            for origin in [Origin::Socket, Origin::Loopback, Origin::Network] {
                assert_eq!(trust(origin, &relayed, HERE, true), Trust::Relayed, "{name}");
            }
        }
    }

    #[test]
    fn s14_the_operator_may_say_that_callers_come_directly() {
        for origin in [Origin::Loopback, Origin::Network] {
            assert_eq!(trust(origin, &headers(&[]), HERE, true), Trust::Direct);
        }
    }
}
