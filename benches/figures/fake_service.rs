//! A fake of the part of the Blob service that locks use: leases and metadata over HTTP, kept in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use crate::sidecar::in_thread;

#[derive(Debug, Default)]
struct Blob {
    version: u64,
    lease: Option<HeaderValue>,
    metadata: Vec<(HeaderName, HeaderValue)>,
}

type Blobs = Arc<Mutex<HashMap<String, Blob>>>;
type Answer = (StatusCode, HeaderMap);

/// Serves it in a thread of its own; its connection string.
pub(crate) fn start() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let endpoint = format!("http://{}/{ACCOUNT}", listener.local_addr().unwrap());
    in_thread(move |ready| async move {
        let service = Router::new().fallback(answer).with_state(Blobs::default());
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        ready.send(()).unwrap();
        axum::serve(listener, service).await.unwrap();
    });
    // It believes every signature.
    let account = format!("AccountName={ACCOUNT};AccountKey=a2V5");
    format!("DefaultEndpointsProtocol=http;{account};BlobEndpoint={endpoint};")
}

const ACCOUNT: &str = "fake";

async fn answer(State(blobs): State<Blobs>, request: Request) -> Answer {
    let query = request.uri().query().unwrap_or_default();
    let headers = request.headers();
    let mut blobs = blobs.lock().unwrap();
    let name = request.uri().path();
    if query.contains("restype=container") {
        return done(StatusCode::CREATED, 0, None);
    }
    if request.method() == Method::PUT && !query.contains("comp=") {
        blobs.insert(name.to_owned(), Blob { version: 1, ..Blob::default() });
        return done(StatusCode::CREATED, 1, None);
    }
    let Some(blob) = blobs.get_mut(name) else {
        return refused(StatusCode::NOT_FOUND, "BlobNotFound");
    };
    let expected = HeaderValue::from_str(&etag(blob.version)).unwrap();
    if headers.get("if-match").is_some_and(|condition| *condition != expected) {
        return refused(StatusCode::PRECONDITION_FAILED, "ConditionNotMet");
    }
    if query.contains("comp=lease") {
        return lease(blob, headers);
    }
    if query.contains("comp=metadata") {
        if headers.get("x-ms-lease-id") != blob.lease.as_ref() {
            return refused(StatusCode::PRECONDITION_FAILED, "LeaseIdMismatchWithBlobOperation");
        }
        blob.version += 1;
        let metadata = headers.iter().filter(|(name, _)| name.as_str().starts_with("x-ms-meta-"));
        blob.metadata = metadata.map(|(name, value)| (name.clone(), value.clone())).collect();
        return done(StatusCode::OK, blob.version, None);
    }
    let (status, mut headers) = done(StatusCode::OK, blob.version, None);
    let state = if blob.lease.is_some() { "leased" } else { "available" };
    headers.insert("x-ms-lease-state", HeaderValue::from_static(state));
    headers.extend(blob.metadata.iter().map(|(name, value)| (name.clone(), value.clone())));
    (status, headers)
}

fn lease(blob: &mut Blob, headers: &HeaderMap) -> Answer {
    let action = headers.get("x-ms-lease-action").and_then(|action| action.to_str().ok());
    let id =
        headers.get("x-ms-lease-id").or_else(|| headers.get("x-ms-proposed-lease-id")).cloned();
    let ours = blob.lease.is_none() || blob.lease == id;
    match action {
        Some("acquire") if ours => {
            blob.lease.clone_from(&id);
            done(StatusCode::CREATED, blob.version, id)
        }
        Some("acquire") => refused(StatusCode::CONFLICT, "LeaseAlreadyPresent"),
        Some("renew") if blob.lease == id => done(StatusCode::OK, blob.version, id),
        Some("release") if blob.lease == id => {
            blob.lease = None;
            done(StatusCode::OK, blob.version, None)
        }
        Some(_) | None => refused(StatusCode::CONFLICT, "LeaseIdMismatchWithLeaseOperation"),
    }
}

fn etag(version: u64) -> String {
    format!("\"0x{version:X}\"")
}

fn done(status: StatusCode, version: u64, lease_id: Option<HeaderValue>) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert("x-ms-request-id", HeaderValue::from_static("1"));
    headers.insert("x-ms-version", HeaderValue::from_static("2025-11-05"));
    headers.insert("last-modified", HeaderValue::from_static("Fri, 20 Nov 2026 12:00:00 GMT"));
    headers.insert("etag", HeaderValue::from_str(&etag(version)).unwrap());
    if let Some(lease_id) = lease_id {
        headers.insert("x-ms-lease-id", lease_id);
    }
    (status, headers)
}

fn refused(status: StatusCode, code: &'static str) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert("x-ms-request-id", HeaderValue::from_static("1"));
    headers.insert("x-ms-error-code", HeaderValue::from_static(code));
    (status, headers)
}
