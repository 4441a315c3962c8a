//! A sidecar that is too old for what was asked for (S37).

use std::time::Duration;

use crate::client::{Client, within};
use crate::errors::Error;
use crate::messages::Code;
use crate::proto;

/// An error waits so long at most for the sidecar's version.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(5);

/// What is said of a sidecar that does not have these calls.
pub(crate) fn unknown_calls(what: &str) -> String {
    format!(
        "the sidecar does not know {what}, because it is older than they are: update the sidecar"
    )
}

impl Client {
    /// Says it plainly where an error is that of a sidecar without `what`, which says only that it does not
    /// have the call. One that has the call, and may not use it, says why.
    pub(crate) async fn knowing(&self, what: &str, error: Error) -> Error {
        if error.code() != Some(Code::Unimplemented) || error.reason().is_some() {
            return error;
        }
        let message = unknown_calls(what);
        self.too_old(&message).await
    }

    /// The error of a sidecar that is too old, with the versions; of an address that several sidecars share
    /// another one may tell its own.
    pub(crate) async fn too_old(&self, what: &str) -> Error {
        let request = within(QUESTION_TIMEOUT, proto::GetServerInfoRequest {});
        let sidecar = match self.short().leases.get_server_info(request).await {
            Ok(info) if !info.get_ref().version.is_empty() => {
                format!("the sidecar that answers now is version {}", info.get_ref().version)
            }
            Ok(_) | Err(_) => "the sidecar does not say which version it is".to_owned(),
        };
        let client = env!("CARGO_PKG_VERSION");
        Error::unsupported(format!("{what}; this client is version {client}, and {sidecar}"))
    }
}
