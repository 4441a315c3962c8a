//! The standard gRPC health service.

use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::messages::Health;

#[derive(Clone, PartialEq, prost::Message)]
struct Question {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Answer {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// `SERVING` of grpc.health.v1.HealthCheckResponse.
const SERVING: i32 = 1;

pub(crate) async fn check(channel: Channel, service: &str) -> Result<Response<Health>, Status> {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
    let path = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
    let question = Request::new(Question { service: service.to_owned() });
    let answer: Response<Answer> = grpc.unary(question, path, ProstCodec::default()).await?;
    let is_serving = answer.get_ref().status == SERVING;
    Ok(Response::new(if is_serving { Health::Serving } else { Health::NotServing }))
}
