//! Server reflection. Its index of all messages and methods is built when somebody first asks for it, once
//! for all listeners: in the memory of an idle sidecar it would be a tenth of what is not program.

use std::convert::Infallible;
use std::sync::OnceLock;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic_reflection::pb::v1::server_reflection_server::SERVICE_NAME;
use tower::Service;

use crate::grpc::proto;

/// The service, in the second version of its protocol (`grpc.reflection.v1`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Reflection;

impl Reflection {
    fn service() -> Routes {
        static SERVICE: OnceLock<Routes> = OnceLock::new();
        SERVICE.get_or_init(build).clone()
    }
}

fn build() -> Routes {
    let service = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(proto::DESCRIPTOR)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        // What errors carry, so that their details can be read too.
        .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
        .build_v1();
    match service {
        Ok(service) => Routes::new(service),
        // The descriptors are compiled in, and a test asks for them.
        Err(error) => {
            tracing::error!(%error, "server reflection is not available");
            Routes::default()
        }
    }
}

impl NamedService for Reflection {
    const NAME: &'static str = SERVICE_NAME;
}

impl Service<Request<Body>> for Reflection {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = <Routes as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Self::service().call(request)
    }
}
