//! What is no gRPC is refused in the words of HTTP, as gRPC over HTTP/2 has it: a client that speaks only
//! HTTP would take the status 200 of a gRPC error for a success.

use axum::extract::Request;
use axum::http::header::{ALLOW, CONTENT_TYPE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use tonic::service::Routes;

/// The same routes, for calls only.
pub(in crate::grpc) fn only_grpc(routes: Routes) -> Routes {
    routes.into_axum_router().layer(from_fn(check)).into()
}

/// Whether this is a call.
pub(in crate::grpc) fn is_call<B>(request: &hyper::Request<B>) -> bool {
    request.method() == Method::POST && is_grpc(request.headers())
}

async fn check(request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        let problem = "this port serves gRPC, whose calls are POST requests\n";
        return (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "POST")], problem).into_response();
    }
    if !is_grpc(request.headers()) {
        let problem =
            "this port serves gRPC with Protobuf: the content type must be application/grpc\n";
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, problem).into_response();
    }
    next.run(request).await
}

/// Whether the content is messages in the one encoding that there is.
fn is_grpc(headers: &HeaderMap) -> bool {
    let mut given = headers.get_all(CONTENT_TYPE).iter();
    let (Some(given), None) = (given.next().and_then(|one| one.to_str().ok()), given.next()) else {
        return false;
    };
    let kind = given.split(';').next().unwrap_or_default().trim();
    ["application/grpc", "application/grpc+proto"]
        .iter()
        .any(|known| kind.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s19_only_the_encoding_that_is_served_is_let_in() {
        let is = |kinds: &[&str]| {
            let mut headers = HeaderMap::new();
            for kind in kinds {
                headers.append(CONTENT_TYPE, kind.parse().unwrap());
            }
            is_grpc(&headers)
        };
        for good in ["application/grpc", "application/grpc+proto", "Application/gRPC;charset=utf-8"]
        {
            assert!(is(&[good]), "{good}");
        }
        for bad in ["", "application/grpc-web", "application/grpc+json", "application/json"] {
            assert!(!is(&[bad]), "{bad}");
        }
        assert!(!is(&[]) && !is(&["application/grpc", "application/json"]));
    }
}
