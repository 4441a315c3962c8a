//! The service: what every rpc of both services has at hand.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Request, Response, Status};

use crate::coordinator::{CallError, Coordinator, check_needs};
use crate::grpc::serve::connection::peer_of;
use crate::grpc::serve::life_line::LifeLine;
use crate::grpc::status;
use crate::lobby::Limit;
use crate::lock::Namespace;
use crate::scheduler::Scheduler;

/// What of the settings the service needs itself: the limits of requests, and what it says of the sidecar.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest `max_hold` of a unary hold, and of ExtendLease (S14).
    pub max_hold_ceiling: Duration,
    /// `max_hold` for a unary hold that gives none (S14).
    pub max_hold_default: Duration,
    /// The longest `wait`.
    pub wait_ceiling: Duration,
    /// The kind of the store, as the configuration names it.
    pub store: &'static str,
    /// Whether holds go on at a replacement when this sidecar ends (S15).
    pub hand_over: bool,
}

/// The service, over a coordinator and its scheduler.
#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) coordinator: Coordinator,
    pub(super) scheduler: Scheduler,
    pub(super) limits: Limits,
    /// What the operator says of callers over TCP: that nothing is in between (S14).
    pub(super) direct: bool,
    /// Calls and streams at once on one connection; 0 where nothing limits them.
    pub(super) streams_per_connection: u32,
    /// Places for watches.
    pub(super) watchers: Arc<Semaphore>,
}

/// What an rpc of one answer returns, or one of a stream.
pub(super) type Reply<T> = Result<Response<T>, Status>;

impl Service {
    /// A place for a watch, kept as long as it lasts (S38).
    pub(super) fn watching(&self) -> Result<OwnedSemaphorePermit, Status> {
        Arc::clone(&self.watchers).try_acquire_owned().map_err(|_| {
            let problem = "this sidecar has as many watches as it may (limits.watchers)";
            status::limit_reached(Limit::Watchers, problem)
        })
    }

    /// Before anything is done for the request, and before its fields are looked at (S37).
    pub(super) fn check_needs(&self, needs: u32) -> Result<(), Status> {
        answered(check_needs(needs, self.coordinator.settings().revision))
    }

    pub(super) fn namespace(&self) -> &Namespace {
        &self.coordinator.host().namespace
    }

    /// What the end of this request's stream will show. None if it did not come over a connection of ours.
    pub(super) fn life_line<T>(&self, request: &Request<T>) -> Option<LifeLine> {
        let clock = self.coordinator.clock();
        let here = clock.boot_reading(clock.now());
        let line = |peer| LifeLine::new(peer, request.metadata(), &here.boot_id, self.direct);
        peer_of(request).map(line)
    }
}

pub(super) fn answered<T>(result: Result<T, CallError>) -> Result<T, Status> {
    result.map_err(|error| status::of_call(&error))
}
