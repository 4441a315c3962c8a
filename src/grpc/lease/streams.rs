//! Calls that answer with a stream, and what its end says (S14).

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tonic::Status;

use super::held::held;
use super::life_stream::LifeStream;
use super::to_proto;
use crate::coordinator::{
    CallError, Coordinator, HeldEvent, HoldEvent, HoldStream, LockRecord, LockWatch, LocksWatch,
};
use crate::grpc::proto;
use crate::grpc::serve::life_line::LifeLine;
use crate::grpc::service::answered;
use crate::grpc::status;
use crate::lock::Namespace;

/// A watch of a lock that does not change hears its record again after this: one that hears nothing takes its
/// connection for dead, and a proxy may close it. A little under the 30 s that callers are promised.
const REPEAT: Duration = Duration::from_secs(25);

/// The events of a hold.
#[derive(Debug)]
pub(in crate::grpc) struct HoldEvents {
    hold: LifeStream<HoldStream>,
    namespace: Namespace,
}

impl HoldEvents {
    pub(in crate::grpc) fn new(
        hold: HoldStream,
        life_line: Option<LifeLine>,
        coordinator: &Coordinator,
    ) -> Self {
        let namespace = coordinator.host().namespace.clone();
        Self { hold: LifeStream::new(hold, life_line), namespace }
    }

    fn event(&mut self, event: HoldEvent) -> Result<proto::HoldLeaseResponse, Status> {
        use proto::hold_lease_response::Event;
        let event = match event {
            HoldEvent::Waiting { place, record } => Event::Waiting(proto::Waiting {
                position: u32::try_from(place).unwrap_or(u32::MAX),
                record: Some(to_proto::record(*record, &self.namespace)),
            }),
            HoldEvent::Granted(grant) => Event::Granted(to_proto::grant(*grant)),
            HoldEvent::Held(event) => {
                if let HeldEvent::Lost { .. } = event {
                    self.hold.finish_lost();
                }
                held!(event, Event)
            }
            HoldEvent::Busy(busy) => {
                self.hold.finish();
                Event::Busy(to_proto::busy(*busy, &self.namespace))
            }
            HoldEvent::AlreadyDone(ended) => {
                self.hold.finish();
                Event::AlreadyDone(to_proto::already_done(&ended))
            }
            HoldEvent::Skipped { watermark } => {
                self.hold.finish();
                Event::Skipped(to_proto::skipped(watermark))
            }
            HoldEvent::Settled { .. } => {
                self.hold.finish();
                return Err(status::settled());
            }
            HoldEvent::Released(released) => {
                self.hold.finish();
                Event::Released(proto::Released {
                    result: Some(to_proto::released(&released, None)),
                })
            }
            HoldEvent::Failed(error) => {
                self.hold.finish();
                return Err(status::of_call(&error));
            }
        };
        Ok(proto::HoldLeaseResponse { event: Some(event) })
    }
}

impl Stream for HoldEvents {
    type Item = Result<proto::HoldLeaseResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let event = ready!(self.hold.poll(context));
        Poll::Ready(event.map(|event| event.and_then(|event| self.event(event))))
    }
}

/// The records of a lock as they change, and the last one again while it does not, until the sidecar ends.
pub(in crate::grpc) fn watch(
    watch: LockWatch,
    coordinator: &Coordinator,
) -> impl Stream<Item = Result<proto::WatchLockResponse, Status>> + Send + use<> {
    struct StreamState {
        watch: LockWatch,
        draining: watch::Receiver<bool>,
        namespace: Namespace,
        last: Option<LockRecord>,
    }
    let state = StreamState {
        watch,
        draining: coordinator.draining(),
        namespace: coordinator.host().namespace.clone(),
        last: None,
    };
    futures_util::stream::unfold(Some(state), |state| async {
        let mut state = state?;
        let next = tokio::select! {
            biased;
            _ = state.draining.wait_for(|draining| *draining) => Err(status::shutting_down()),
            record = next_or_last(&mut state.watch, state.last.take()) => answered(record),
        };
        Some(match next {
            Ok(record) => {
                state.last = Some(record.clone());
                let record = Some(to_proto::record(record, &state.namespace));
                (Ok(proto::WatchLockResponse { record }), Some(state))
            }
            Err(status) => (Err(status), None),
        })
    })
}

/// What happens to many locks, until the sidecar ends.
pub(in crate::grpc) fn watch_locks(
    watch: LocksWatch,
    coordinator: &Coordinator,
) -> impl Stream<Item = Result<proto::WatchLocksResponse, Status>> + Send + use<> {
    let namespace = coordinator.host().namespace.clone();
    let state = Some((watch, coordinator.draining(), namespace));
    futures_util::stream::unfold(state, |state| async {
        let (mut watch, mut draining, namespace) = state?;
        let next = tokio::select! {
            biased;
            _ = draining.wait_for(|draining| *draining) => Err(status::shutting_down()),
            event = watch.next() => answered(event),
        };
        Some(match next {
            Ok(event) => {
                let event = to_proto::locks_event(event, &namespace);
                (Ok(event), Some((watch, draining, namespace)))
            }
            Err(status) => (Err(status), None),
        })
    })
}

/// The stream, which keeps its place as long as it lasts.
pub(in crate::grpc) fn in_place<T>(
    stream: impl Stream<Item = T> + Send,
    place: OwnedSemaphorePermit,
) -> impl Stream<Item = T> + Send {
    stream.inspect(move |_| {
        let _ = &place;
    })
}

/// The next record, or `last` once more when there is none for long.
async fn next_or_last(
    watch: &mut LockWatch,
    last: Option<LockRecord>,
) -> Result<LockRecord, CallError> {
    let Some(last) = last else { return watch.next().await };
    tokio::time::timeout(REPEAT, watch.next()).await.unwrap_or(Ok(last))
}
