//! Health on the listeners of callers: whoever reaches one may ask once, so that a probe needs no secret.
//! Watching lasts, and is for callers that are let in (S38). What is answered: `report_health` in
//! `server.rs`.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::{Request, Response};
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::service::interceptor::InterceptedService;
use tower::Service;

use crate::grpc::auth::guard::Guard;

/// The one call of health that lasts.
const WATCH: &str = "/grpc.health.v1.Health/Watch";

/// The service of health, and the same behind the guard of its listener.
#[derive(Clone, Debug)]
pub(super) struct GuardedHealth<H> {
    open: H,
    guarded: InterceptedService<H, Guard>,
}

impl<H: Clone> GuardedHealth<H> {
    pub(super) fn new(health: H, guard: Guard) -> Self {
        Self { open: health.clone(), guarded: InterceptedService::new(health, guard) }
    }
}

impl<H: NamedService> NamedService for GuardedHealth<H> {
    const NAME: &'static str = H::NAME;
}

impl<H> Service<Request<Body>> for GuardedHealth<H>
where
    H: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    H::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // The other one is the same.
        self.open.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.uri().path() == WATCH {
            let answer = self.guarded.call(request);
            return Box::pin(async move { Ok(answer.await?.map(Body::new)) });
        }
        Box::pin(self.open.call(request))
    }
}
