//! Requests that have begun and are not complete: one budget of bytes for all of them, and a time for each
//! (S38).

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::Uri;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::time::Sleep;
use tonic::Status;

use super::unread::Parts;
use crate::coordinator::Part;
use crate::grpc::status;
use crate::lobby::Limit;

/// How long a request may take to come: it is one small message.
const COMPLETE_IN: Duration = Duration::from_secs(10);

/// Bytes of a message that what its call has covers: enough for a release with a checkpoint.
pub(in crate::grpc) const SMALL: usize = 3 * 1024;

/// What the paths of reflection begin with.
const REFLECTION: &str = "/grpc.reflection.";

/// The body of a request, within the budget and the time.
#[derive(Debug)]
pub(in crate::grpc) struct Counted<B = Incoming> {
    body: B,
    part: Part,
    /// Bytes that may come before the part grows.
    free: usize,
    /// What the call has only until its request is complete.
    until_complete: Option<Parts>,
    /// Runs from when something was waited for.
    late: Option<Pin<Box<Sleep>>>,
    /// Whether it is one message. Reflection is a conversation, which takes its time.
    is_one: bool,
}

impl<B> Counted<B> {
    pub(in crate::grpc) fn new(
        request: &Uri,
        body: B,
        part: Part,
        until_complete: Option<Parts>,
    ) -> Self {
        let is_one = !request.path().starts_with(REFLECTION);
        Self { body, part, free: SMALL, until_complete, late: None, is_one }
    }

    /// Nothing more comes.
    fn complete(&mut self) {
        self.part.give_back();
        self.until_complete = None;
    }
}

impl<B> Body for Counted<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        let frame = match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Ready(frame) => frame,
            Poll::Pending if !this.is_one => return Poll::Pending,
            Poll::Pending => {
                let late = || Box::pin(tokio::time::sleep(COMPLETE_IN));
                ready!(this.late.get_or_insert_with(late).as_mut().poll(context));
                return Poll::Ready(Some(Err(incomplete().into())));
            }
        };
        let Some(Ok(frame)) = frame else {
            this.complete();
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        };
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        let free = this.free.min(bytes);
        this.free -= free;
        if !this.part.take(bytes - free) {
            return Poll::Ready(Some(Err(too_much().into())));
        }
        if this.body.is_end_stream() {
            this.complete();
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn too_much() -> Status {
    let problem =
        "requests that are not complete fill the memory that is set aside for them (limits.memory)";
    status::limit_reached(Limit::Memory, problem)
}

fn incomplete() -> Status {
    Status::deadline_exceeded(format!(
        "the request was not complete within {}",
        humantime::format_duration(COMPLETE_IN)
    ))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::task::Waker;

    use super::*;
    use crate::coordinator::Budget;

    /// A body that says what it is told to, and then nothing more.
    struct Script(Vec<Option<&'static [u8]>>);

    impl Body for Script {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if self.0.is_empty() {
                return Poll::Pending;
            }
            Poll::Ready(self.0.remove(0).map(|bytes| Ok(Frame::data(Bytes::from_static(bytes)))))
        }
    }

    fn next(body: &mut Counted<Script>) -> Poll<Option<Result<usize, Status>>> {
        let mut context = Context::from_waker(Waker::noop());
        let frame = Pin::new(body).poll_frame(&mut context);
        frame.map(|frame| {
            frame.map(|frame| match frame {
                Ok(frame) => Ok(frame.data_ref().unwrap().len()),
                Err(error) => Err(*error.downcast::<Status>().unwrap()),
            })
        })
    }

    fn body(frames: Vec<Option<&'static [u8]>>, budget: &Arc<Budget>) -> Counted<Script> {
        let uri = Uri::from_static("/leasehold.v1.LeaseService/GetLock");
        Counted { free: 0, ..Counted::new(&uri, Script(frames), budget.nothing(), None) }
    }

    #[tokio::test(start_paused = true)]
    async fn s38_requests_that_are_not_complete_share_a_budget_and_give_it_back() {
        let budget = Budget::new(10);
        let mut first = body(vec![Some(b"123456"), None], &budget);
        let mut second = body(vec![Some(b"1234"), Some(b"5")], &budget);
        assert!(matches!(next(&mut first), Poll::Ready(Some(Ok(6)))));
        assert!(matches!(next(&mut second), Poll::Ready(Some(Ok(4)))));
        let Poll::Ready(Some(Err(refused))) = next(&mut second) else { panic!("over the budget") };
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        assert!(refused.message().contains("limits.memory"), "{refused}");
        assert!(matches!(next(&mut first), Poll::Ready(None)), "it is complete");
        drop(second);
        let mut third = body(vec![Some(b"1234567890")], &budget);
        assert!(matches!(next(&mut third), Poll::Ready(Some(Ok(10)))));
    }

    #[tokio::test(start_paused = true)]
    async fn s38_what_is_small_is_covered_by_its_call() {
        let budget = Budget::new(0);
        let uri = Uri::from_static("/leasehold.v1.LeaseService/ReleaseLease");
        let frames = vec![Some(&[7; SMALL][..]), Some(b"1")];
        let mut body = Counted::new(&uri, Script(frames), budget.nothing(), None);
        assert!(matches!(next(&mut body), Poll::Ready(Some(Ok(SMALL)))));
        assert!(matches!(next(&mut body), Poll::Ready(Some(Err(_)))), "the rest is not");
    }

    #[tokio::test(start_paused = true)]
    async fn s38_a_request_that_does_not_go_on_is_cut() {
        let mut body = body(vec![Some(b"123")], &Budget::new(10));
        assert!(matches!(next(&mut body), Poll::Ready(Some(Ok(3)))));
        assert!(next(&mut body).is_pending());
        tokio::time::sleep(COMPLETE_IN - Duration::from_millis(10)).await;
        assert!(next(&mut body).is_pending());
        tokio::time::sleep(Duration::from_millis(20)).await;
        let Poll::Ready(Some(Err(cut))) = next(&mut body) else { panic!("it is waited for") };
        assert_eq!(cut.code(), tonic::Code::DeadlineExceeded);
    }
}
