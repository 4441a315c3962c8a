//! Calls that are under way, and answers that their callers have not read: one budget of bytes for all of them (S38). Those
//! that last, such as a hold or a wait, have limits of their own.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::Response;
use hyper::body::{Bytes, Frame};
use tonic::Status;
use tonic::body::Body;

use super::budget::{Budget, Part};
use super::status;

/// What a call costs without its answer.
const CALL: usize = 8 * 1024;

/// Calls that last: `limits.holds`, `resumes`, `waiters` and `watchers` are for them.
const LASTING: [&str; 6] = [
    "/leasehold.v1.LeaseService/AcquireLease",
    "/leasehold.v1.LeaseService/HoldLease",
    "/leasehold.v1.LeaseService/WatchLock",
    "/leasehold.v1.LeaseService/WatchLocks",
    "/leasehold.v1.ScheduleService/SubscribeSchedule",
    "/grpc.health.v1.Health/Watch",
];

/// Calls at once on a connection for which half of the budget is kept: whoever makes few is served when others have taken the
/// rest.
const FEW: usize = 4;

/// The budget, in two halves.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    many: Arc<Budget>,
    few: Arc<Budget>,
}

impl Calls {
    pub(super) fn new(bytes: usize) -> Self {
        Self { many: Budget::new(bytes / 2), few: Budget::new(bytes / 2) }
    }

    /// As one connection sees it.
    pub(super) fn of_connection(&self) -> CallsHere {
        CallsHere { all: self.clone(), few: Budget::new(FEW * CALL) }
    }
}

/// The budget, as one connection sees it.
#[derive(Clone, Debug)]
pub(super) struct CallsHere {
    all: Calls,
    few: Arc<Budget>,
}

/// A call, from its beginning until its answer was read; without a part of the budget, one that lasts.
#[derive(Debug)]
pub(super) struct Call(Option<Parts>);

/// What a call has of the budget, and of its connection's share in the second half.
#[derive(Debug)]
struct Parts {
    of_all: Part,
    _of_connection: Option<Part>,
}

impl Call {
    /// Lets a call begin, if there is memory for it.
    pub(super) fn begin(path: &str, calls: &CallsHere) -> Result<Self, Status> {
        if LASTING.contains(&path) {
            return Ok(Self(None));
        }
        let parts = match calls.all.many.part(CALL) {
            Some(of_all) => Some(Parts { of_all, _of_connection: None }),
            None => calls
                .few
                .part(CALL)
                .zip(calls.all.few.part(CALL))
                .map(|(here, of_all)| Parts { of_all, _of_connection: Some(here) }),
        };
        parts.map(|parts| Self(Some(parts))).ok_or_else(too_much)
    }

    /// The answer, which is counted until it was read.
    pub(super) fn answer(self, answer: Response<Body>) -> Response<Body> {
        match self.0 {
            None => answer,
            Some(parts) => answer.map(|body| Body::new(Answer { body, parts, over: false })),
        }
    }
}

/// The body of an answer.
struct Answer {
    body: Body,
    parts: Parts,
    /// Whether there was no memory for it.
    over: bool,
}

/// Bytes that are counted for as long as somebody has them.
struct Unread {
    bytes: Bytes,
    _part: Part,
}

impl AsRef<[u8]> for Unread {
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
            Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
        };
        let Some(part) = self.parts.of_all.another(bytes.len()) else {
            self.over = true;
            let refused = too_much().into_http::<Body>();
            return Poll::Ready(Some(Ok(Frame::trailers(refused.into_parts().0.headers))));
        };
        let unread = Unread { bytes, _part: part };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(unread)))))
    }

    fn is_end_stream(&self) -> bool {
        self.over || self.body.is_end_stream()
    }
}

fn too_much() -> Status {
    let problem = "calls under way and answers that are not read fill the memory that is set aside for them (limits.memory)";
    status::limit_reached("limits.memory", problem)
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use hyper::body::Body as _;

    use super::*;

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
    fn s38_answers_are_counted_until_they_are_read_and_calls_that_last_are_not() {
        let calls = Calls::new(2 * (CALL + 4));
        let here = calls.of_connection();
        let call = Call::begin(SHORT, &here).unwrap();
        let few = Call::begin(SHORT, &here).unwrap();
        let refused = Call::begin(SHORT, &here).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        for lasting in LASTING {
            Call::begin(lasting, &here).unwrap();
        }
        drop(few);
        let mut body = call.answer(answer(b"1234")).into_body();
        let unread = next(&mut body).unwrap().into_data().unwrap();
        assert_eq!(&*unread, b"1234");
        drop(body);
        assert!(calls.many.part(CALL + 1).is_none(), "it was not read");
        drop(unread);
        assert!(calls.many.part(CALL + 4).is_some());
    }

    #[test]
    fn s38_whoever_makes_few_calls_is_served_when_another_has_made_all_that_it_could() {
        let calls = Calls::new(16 * CALL);
        let busy = calls.of_connection();
        let made: Vec<_> = std::iter::from_fn(|| Call::begin(SHORT, &busy).ok()).collect();
        assert_eq!(made.len(), 8 + FEW);
        let other = calls.of_connection();
        let few: Vec<_> = std::iter::from_fn(|| Call::begin(SHORT, &other).ok()).collect();
        assert_eq!(few.len(), FEW);
    }

    #[test]
    fn s38_an_answer_that_does_not_fit_is_an_error_with_the_name_of_the_limit() {
        let calls = Calls::new(2 * (CALL + 4));
        let call = Call::begin(SHORT, &calls.of_connection()).unwrap();
        let mut body = call.answer(answer(b"12345")).into_body();
        let trailers = next(&mut body).unwrap().into_trailers().unwrap();
        assert_eq!(trailers["grpc-status"], "8");
        assert!(trailers["grpc-message"].to_str().unwrap().contains("limits.memory"));
        assert!(next(&mut body).is_none());
    }
}
