//! What goes with each call.

use std::fmt;
use std::io;
use std::sync::Arc;

use tonic::metadata::{Ascii, MetadataKey, MetadataValue};
use tonic::{GrpcMethod, Request, Status};

/// A call that is about to be sent.
#[derive(Debug)]
pub struct Call {
    method: String,
    metadata: Vec<(String, String)>,
}

impl Call {
    /// The method's name, such as `HoldLease`.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Sends this pair with the call, as gRPC metadata. The name is in lower case.
    pub fn add(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.metadata.push((name.into(), value.into()));
    }
}

/// Sees each call before it is sent: for metadata of one's own, tracing and counting.
pub trait Interceptor: Send + Sync {
    /// Called before each call, also before those that the client makes by itself. Must not block.
    ///
    /// # Errors
    /// The call is not made then, and fails with this.
    fn intercept(&self, call: &mut Call) -> io::Result<()>;
}

/// Where the bearer token comes from, asked for each call.
pub(crate) type TokenSource = Arc<dyn Fn() -> io::Result<String> + Send + Sync>;

/// Adds to each call whose it is: the bearer token, and the kernel of this process, so that a sidecar on the
/// same one knows that a stream's end is this process's doing (S14).
#[derive(Clone)]
pub(crate) struct Headers {
    token: Option<TokenSource>,
    boot_id: Option<MetadataValue<Ascii>>,
    interceptors: Vec<Arc<dyn Interceptor>>,
}

impl fmt::Debug for Headers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Headers").finish_non_exhaustive()
    }
}

impl Headers {
    pub(crate) fn new(
        boot_id: &str,
        token: Option<TokenSource>,
        interceptors: Vec<Arc<dyn Interceptor>>,
    ) -> Self {
        let boot_id = MetadataValue::try_from(boot_id).ok().filter(|value| !value.is_empty());
        Self { token, boot_id, interceptors }
    }

    /// Reads the token once, so that one that cannot be sent is found at the start.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.bearer().map(drop)
    }

    fn bearer(&self) -> Result<Option<MetadataValue<Ascii>>, String> {
        let Some(token) = &self.token else { return Ok(None) };
        let token = token().map_err(|error| format!("the bearer token cannot be read: {error}"))?;
        let mut value = MetadataValue::try_from(format!("Bearer {}", token.trim()))
            .map_err(|_| "the bearer token has characters that cannot be sent")?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

impl tonic::service::Interceptor for Headers {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let method = request.extensions().get::<GrpcMethod<'static>>();
        let method = method.map(|method| method.method().to_owned()).unwrap_or_default();
        #[cfg(feature = "otel")]
        super::trace::add(request.metadata_mut());
        let mut call = Call { method, metadata: Vec::new() };
        for interceptor in &self.interceptors {
            interceptor
                .intercept(&mut call)
                .map_err(|error| Status::aborted(format!("an interceptor refused: {error}")))?;
        }
        for (name, value) in call.metadata {
            let parsed = name.parse::<MetadataKey<Ascii>>().ok().zip(value.try_into().ok());
            let (name, value) = parsed.ok_or_else(|| {
                Status::invalid_argument(format!(
                    "an interceptor's metadata {name:?} cannot be sent"
                ))
            })?;
            request.metadata_mut().insert(name, value);
        }
        let bearer = self.bearer().map_err(Status::unauthenticated)?;
        for (name, value) in
            [("authorization", bearer), ("leasehold-boot-id", self.boot_id.clone())]
        {
            if let Some(value) = value {
                request.metadata_mut().insert(name, value);
            }
        }
        Ok(request)
    }
}
