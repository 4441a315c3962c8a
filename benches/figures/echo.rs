//! The baseline of calls: a bare tonic service that gives back an empty message, on a Unix socket.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::path::Path;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use leasehold_client::proto::{ReportProgressRequest, ReportProgressResponse};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::sidecar::in_thread;

#[derive(Clone, Copy, Debug)]
struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = "bench.Echo";
}

impl UnaryService<ReportProgressRequest> for Echo {
    type Response = ReportProgressResponse;
    type Future = Ready<Result<Response<ReportProgressResponse>, Status>>;

    fn call(&mut self, _request: Request<ReportProgressRequest>) -> Self::Future {
        ready(Ok(Response::new(ReportProgressResponse { validity: None })))
    }
}

impl tower::Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async {
            let codec = ProstCodec::<ReportProgressResponse, ReportProgressRequest>::default();
            Ok(Grpc::new(codec).unary(Self, request).await)
        })
    }
}

/// Serves it in a thread of its own, as the sidecar is.
pub(crate) fn serve(socket: &Path) {
    let socket = socket.to_owned();
    in_thread(move |ready| async move {
        let listener = UnixListener::bind(&socket).unwrap();
        ready.send(()).unwrap();
        let connections = UnixListenerStream::new(listener);
        Server::builder().add_service(Echo).serve_with_incoming(connections).await.unwrap();
    });
}
