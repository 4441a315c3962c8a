//! Calls that were refused at a limit: counted by its name, and said in the log at times (S38).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hyper::HeaderMap;
use tonic::{Code, Status};

use super::connection::Peer;
use crate::coordinator::LogLimit;
use crate::grpc::status;
use crate::lobby::Limit;
use crate::time::{BootClock, Clock as _};

/// How many calls each limit has refused.
#[derive(Debug, Default)]
pub(in crate::grpc) struct Refusals {
    counts: [AtomicU64; Limit::ALL.len()],
    lines: [LogLimit; Limit::ALL.len()],
    clock: BootClock,
}

impl Refusals {
    pub(in crate::grpc) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// How many calls were refused, by limit: without the section of its setting, for metrics.
    pub(in crate::grpc) fn counts(&self) -> [(&'static str, u64); Limit::ALL.len()] {
        let mut counts = self.counts.iter();
        Limit::ALL.map(|limit| {
            (limit.as_str(), counts.next().map_or(0, |count| count.load(Ordering::Relaxed)))
        })
    }

    /// Counts the answer of these headers if it refuses a call of `peer` at a limit.
    pub(in crate::grpc) fn look_at(&self, headers: &HeaderMap, peer: &Peer) {
        const EXHAUSTED: i32 = Code::ResourceExhausted as i32;
        let code = headers.get("grpc-status").and_then(|code| code.to_str().ok()?.parse().ok());
        if code == Some(EXHAUSTED)
            && let Some(refused) = Status::from_header_map(headers)
        {
            self.note(&refused, peer);
        }
    }

    /// Counts a call of `peer` that was refused, and says so at times: nobody fills the log.
    pub(in crate::grpc) fn note(&self, refused: &Status, peer: &Peer) {
        let Some(limit) = status::limit_of(refused) else { return };
        let Some(at) = Limit::ALL.iter().position(|one| *one == limit) else { return };
        if let Some(count) = self.counts.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        // Those are logged with their listener.
        let logged = limit != Limit::Connections;
        let Some(line) = self.lines.get(at).filter(|_| logged) else { return };
        let Some(more) = line.line(self.clock.now()) else { return };
        let client = peer.address.map(tracing::field::display);
        let limit = limit.setting();
        tracing::warn!(limit, client, user = peer.user, more, "calls are refused at a limit");
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection::{Connection, Origin};
    use super::*;
    use crate::coordinator::CallError;

    #[test]
    fn s38_what_is_refused_at_a_limit_is_counted_by_its_name() {
        let peer = Connection::new((), Origin::Socket).peer();
        let refusals = Refusals::new();
        let refused = [
            status::limit_reached(Limit::Memory, "too much"),
            status::of_call(&CallError::TooManyHolds { limit: 1 }),
            status::of_call(&CallError::TooManyWaiters { limit: 1 }),
            status::of_call(&CallError::TooManyResumes { limit: 1 }),
            status::limit_reached(Limit::Watchers, "too many"),
            status::of_call(&CallError::UnknownLease),
        ];
        for status in refused {
            refusals.look_at(status.into_http::<()>().headers(), &peer);
        }
        refusals.look_at(&HeaderMap::new(), &peer);
        assert_eq!(refusals.counts().map(|(_, count)| count), [0, 1, 1, 1, 1, 1]);
    }
}
