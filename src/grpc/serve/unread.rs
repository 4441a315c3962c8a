//! Calls that are under way, and answers that their callers have not read: one budget of bytes for all of
//! them (S38). Requests of calls that last, such as a hold or a wait, are counted there until they are
//! complete; then these have limits of their own, and a place until the last of their answer was read.
//!
//! What anybody may call, let in or not, takes nothing that others need: a connection has it once at a time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::body::{Bytes, Frame};
use hyper::{Request, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use tonic::body::Body;

use super::connection::Peer;
use super::only_grpc::is_call;
use super::refusals::Refusals;
use super::unfinished::SMALL;
use crate::coordinator::{Budget, Part};
use crate::grpc::status;
use crate::lobby::Limit;

/// What a call costs, as measured (docs/sizing.md), with a small message and without its answer.
const CALL: usize = 9 * 1024 + SMALL;

/// Calls that last: `limits.holds`, `resumes`, `waiters` and `watchers` are for them.
const LASTING: [&str; 5] = [
    "/leasehold.v1.LeaseService/AcquireLease",
    "/leasehold.v1.LeaseService/HoldLease",
    "/leasehold.v1.LeaseService/WatchLock",
    "/leasehold.v1.LeaseService/WatchLocks",
    "/leasehold.v1.ScheduleService/SubscribeSchedule",
];
/// Gives memory back, and a lock to the next.
const RELEASE: &str = "/leasehold.v1.LeaseService/ReleaseLease";
/// Whoever reaches a listener may ask this.
const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";
/// Lasts as long as its connection, which needs one at the most.
const HEALTH_WATCH: &str = "/grpc.health.v1.Health/Watch";

/// Calls at once on a connection for which half of the budget is kept: whoever makes few is served when
/// others have taken the rest.
const FEW: usize = 4;

/// The budget, in two halves, and who hears of what it refuses.
#[derive(Clone, Debug)]
pub(in crate::grpc) struct Calls {
    many: Arc<Budget>,
    few: Arc<Budget>,
    /// Places of calls that last.
    lasting: Arc<Semaphore>,
    refusals: Arc<Refusals>,
}

impl Calls {
    pub(in crate::grpc) fn new(bytes: usize, lasting: usize, refusals: Arc<Refusals>) -> Self {
        let lasting = Arc::new(Semaphore::new(lasting.min(Semaphore::MAX_PERMITS)));
        Self { many: Budget::new(bytes / 2), few: Budget::new(bytes / 2), lasting, refusals }
    }

    /// Another budget, of which the same hear.
    pub(in crate::grpc) fn with(&self, bytes: usize) -> Self {
        let (many, few) = (Budget::new(bytes / 2), Budget::new(bytes / 2));
        Self { many, few, ..self.clone() }
    }

    /// As the connection of `peer` sees it.
    pub(in crate::grpc) fn of_connection(self, peer: Peer) -> Arc<CallsHere> {
        let (few, release) = (Budget::new(FEW * CALL), Budget::new(CALL));
        Arc::new(CallsHere { all: self, peer, few, release, health: Budget::new(CALL) })
    }
}

/// The budget, as one connection sees it.
#[derive(Debug)]
pub(in crate::grpc) struct CallsHere {
    all: Calls,
    peer: Peer,
    /// Its share of the second half.
    few: Arc<Budget>,
    /// What it costs anyhow covers one call of each of these kinds: a release is not refused, whatever others
    /// do.
    release: Arc<Budget>,
    health: Arc<Budget>,
}

impl CallsHere {
    /// Whether its client was not let in yet.
    fn is_of_a_stranger(&self) -> bool {
        self.peer.seat.as_ref().is_some_and(|seat| !seat.is_serving())
    }

    /// What a call has of the budget; none if there is no memory for it. What strangers may call has what the
    /// connection costs anyhow.
    fn parts(&self, path: &str, is_open: bool) -> Option<Parts> {
        let alone = |part| Parts { of_all: part, _of_connection: None };
        let many = || self.all.many.part(CALL).map(alone);
        let few = || {
            let parts = self.few.part(CALL).zip(self.all.few.part(CALL));
            parts.map(|(here, of_all)| Parts { of_all, _of_connection: Some(here) })
        };
        match path {
            _ if is_open => self.health.part(CALL).map(alone),
            HEALTH_WATCH => self.health.part(CALL).map(alone).or_else(many),
            RELEASE => many().or_else(few).or_else(|| self.release.part(CALL).map(alone)),
            _ => many().or_else(few),
        }
    }
}

/// A call, from its beginning until its answer was read.
#[derive(Debug)]
pub(in crate::grpc) struct Call {
    here: Arc<CallsHere>,
    parts: Option<Parts>,
    /// The place of a call that lasts.
    place: Option<Arc<OwnedSemaphorePermit>>,
}

/// What a call has of the budget, and of its connection's share in the second half.
#[derive(Debug)]
pub(in crate::grpc) struct Parts {
    of_all: Part,
    _of_connection: Option<Part>,
}

impl Call {
    /// Lets a call begin, if there is memory for it.
    pub(in crate::grpc) fn begin<B>(
        request: &Request<B>,
        here: &Arc<CallsHere>,
    ) -> Result<Self, Status> {
        let path = request.uri().path();
        // Whoever was let in has a share in the budget for that, too.
        let is_open = here.is_of_a_stranger() && (path == HEALTH_CHECK || !is_call(request));
        let refuse = |refused: Status| {
            here.all.refusals.note(&refused, &here.peer);
            refused
        };
        let Some(parts) = here.parts(path, is_open) else { return Err(refuse(too_much())) };
        let place = if LASTING.contains(&path) {
            let place = Arc::clone(&here.all.lasting).try_acquire_owned();
            Some(Arc::new(place.map_err(|_| refuse(too_many()))?))
        } else {
            None
        };
        Ok(Self { here: Arc::clone(here), parts: Some(parts), place })
    }

    /// What a call that lasts has until its request is complete.
    pub(in crate::grpc) fn until_complete(&mut self) -> Option<Parts> {
        self.parts.take_if(|_| self.place.is_some())
    }

    /// The answer, which is counted until it was read.
    pub(in crate::grpc) fn answer(self, answer: Response<Body>) -> Response<Body> {
        self.here.all.refusals.look_at(answer.headers(), &self.here.peer);
        let Self { here, parts, place } = self;
        let call = parts.map(Arc::new);
        answer.map(|body| Body::new(Answer { body, here, call, place, over: false }))
    }
}

/// The body of an answer.
struct Answer {
    body: Body,
    here: Arc<CallsHere>,
    /// What its call has; none for one that lasts.
    call: Option<Arc<Parts>>,
    /// The place of a call that lasts.
    place: Option<Arc<OwnedSemaphorePermit>>,
    /// Whether there was no memory for it.
    over: bool,
}

/// Bytes that are counted for as long as somebody has them.
struct Unread<C> {
    bytes: Bytes,
    _part: Option<Part>,
    _call: Arc<C>,
}

impl<C> AsRef<[u8]> for Unread<C> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.over {
            return Poll::Ready(None);
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let Some(Ok(frame)) = frame else { return Poll::Ready(frame) };
        let bytes = match frame.into_data() {
            Ok(bytes) => bytes,
            Err(frame) => {
                // A stream may end at a limit, too.
                if let Some(trailers) = frame.trailers_ref() {
                    self.here.all.refusals.look_at(trailers, &self.here.peer);
                }
                return Poll::Ready(Some(Ok(frame)));
            }
        };
        let Some(call) = &self.call else {
            let unread = self.place.clone().map(|call| Unread { bytes, _part: None, _call: call });
            return Poll::Ready(unread.map(|unread| Ok(Frame::data(Bytes::from_owner(unread)))));
        };
        // What is small is covered by what the call has: so is the answer to a release.
        let part = call.of_all.another(bytes.len());
        if part.is_none() && bytes.len() > SMALL {
            self.over = true;
            let refused = too_much();
            self.here.all.refusals.note(&refused, &self.here.peer);
            let refused = refused.into_http::<Body>();
            return Poll::Ready(Some(Ok(Frame::trailers(refused.into_parts().0.headers))));
        }
        let unread = Unread { bytes, _part: part, _call: Arc::clone(call) };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(unread)))))
    }

    fn is_end_stream(&self) -> bool {
        self.over || self.body.is_end_stream()
    }
}

fn too_much() -> Status {
    let problem = "calls under way and answers that are not read fill the memory that is set aside for them (limits.memory)";
    status::limit_reached(Limit::Memory, problem)
}

fn too_many() -> Status {
    let problem = "calls that hold, wait or watch, and answers of such that are not read, fill what there is for them \
                   (limits.memory)";
    status::limit_reached(Limit::Memory, problem)
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use http_body_util::BodyExt as _;
    use hyper::body::Body as _;

    use super::super::connection::{Connection, Origin};
    use super::*;

    fn calls(bytes: usize) -> Calls {
        Calls::new(bytes, 100, Refusals::new())
    }

    fn connection(calls: &Calls) -> Arc<CallsHere> {
        calls.clone().of_connection(Connection::new((), Origin::Socket).peer())
    }

    fn begin(path: &str, here: &Arc<CallsHere>) -> Result<Call, Status> {
        let request = Request::post(path).header("content-type", "application/grpc");
        Call::begin(&request.body(()).unwrap(), here)
    }

    const SHORT: &str = "/leasehold.v1.LeaseService/GetLock";

    fn next(body: &mut Body) -> Option<Frame<Bytes>> {
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(body).poll_frame(&mut context) {
            Poll::Ready(frame) => frame.map(Result::unwrap),
            Poll::Pending => panic!("it is there"),
        }
    }

    fn answer(bytes: &'static [u8]) -> Response<Body> {
        Response::new(Body::new(http_body_util::Full::new(Bytes::from_static(bytes))))
    }

    #[test]
    fn s38_answers_are_counted_until_they_are_read() {
        let calls = calls(2 * (CALL + 4));
        let here = connection(&calls);
        let call = begin(SHORT, &here).unwrap();
        let few = begin(SHORT, &here).unwrap();
        let refused = begin(SHORT, &here).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        drop(few);
        let mut body = call.answer(answer(b"1234")).into_body();
        let unread = next(&mut body).unwrap().into_data().unwrap();
        assert_eq!(&*unread, b"1234");
        drop(body);
        assert!(calls.many.part(5).is_none(), "it was not read");
        drop(unread);
        assert!(calls.many.part(CALL + 4).is_some());
        assert_eq!(calls.refusals.counts()[2], ("memory", 1));
    }

    #[test]
    fn s38_calls_that_last_are_counted_until_their_request_is_complete() {
        let calls = calls(2 * CALL);
        let here = connection(&calls);
        for lasting in LASTING {
            let mut call = begin(lasting, &here).unwrap();
            let until_complete = call.until_complete();
            assert!(calls.many.part(1).is_none(), "{lasting}");
            drop(until_complete);
            assert!(calls.many.part(CALL).is_some(), "{lasting}");
            drop(call.answer(answer(b"1234")));
        }
        let mut short = begin(SHORT, &here).unwrap();
        assert!(short.until_complete().is_none());
        assert!(calls.many.part(1).is_none());
    }

    #[test]
    fn s38_a_stream_that_ends_at_a_limit_is_counted() {
        let calls = calls(2 * CALL);
        let here = connection(&calls);
        let mut call = begin(LASTING[3], &here).unwrap();
        drop(call.until_complete());
        let ended = status::limit_reached(Limit::Memory, "too many");
        let trailers = ended.into_http::<Body>().into_parts().0.headers;
        let body = http_body_util::Full::new(Bytes::from_static(b"1234"))
            .with_trailers(std::future::ready(Some(Ok(trailers))));
        let mut body = call.answer(Response::new(Body::new(body))).into_body();
        assert_eq!(&*next(&mut body).unwrap().into_data().unwrap(), b"1234");
        assert!(next(&mut body).unwrap().is_trailers());
        assert_eq!(calls.refusals.counts()[2], ("memory", 1));
    }

    #[test]
    fn s38_a_release_gets_through_whatever_others_do_and_a_connection_may_watch_health() {
        let calls = calls(4 * CALL);
        let busy = connection(&calls);
        let made: Vec<_> = std::iter::from_fn(|| begin(SHORT, &busy).ok()).collect();
        assert_eq!(made.len(), 4, "the budget is taken");
        for here in [busy, connection(&calls)] {
            assert!(begin(SHORT, &here).is_err());
            let release = begin(RELEASE, &here).unwrap();
            assert!(begin(RELEASE, &here).is_err(), "it has one at a time for nothing");
            let mut body = release.answer(answer(&[7; SMALL])).into_body();
            assert_eq!(next(&mut body).unwrap().into_data().unwrap().len(), SMALL);
            drop(body);
            drop(begin(RELEASE, &here).unwrap());
            let _watch = begin(HEALTH_WATCH, &here).unwrap();
            assert!(begin(HEALTH_WATCH, &here).is_err());
        }
    }

    #[test]
    fn s38_whoever_makes_few_calls_is_served_when_another_has_made_all_that_it_could() {
        let calls = calls(16 * CALL);
        let busy = connection(&calls);
        let made: Vec<_> = std::iter::from_fn(|| begin(SHORT, &busy).ok()).collect();
        assert_eq!(made.len(), 8 + FEW);
        let other = connection(&calls);
        let few: Vec<_> = std::iter::from_fn(|| begin(SHORT, &other).ok()).collect();
        assert_eq!(few.len(), FEW);
    }

    #[test]
    fn s38_an_answer_that_does_not_fit_is_an_error_with_the_name_of_the_limit() {
        let calls = calls(2 * (CALL + 4));
        let call = begin(SHORT, &connection(&calls)).unwrap();
        let mut body = call.answer(answer(&[7; SMALL + 1])).into_body();
        let trailers = next(&mut body).unwrap().into_trailers().unwrap();
        assert_eq!(trailers["grpc-status"], "8");
        assert!(trailers["grpc-message"].to_str().unwrap().contains("limits.memory"));
        assert!(next(&mut body).is_none());
        assert_eq!(calls.refusals.counts()[2], ("memory", 1));
    }
}
