//! The second try of a request whose credentials were refused (S8).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use azure_core::http::headers::{AUTHORIZATION, HeaderName};
use azure_core::http::policies::{Policy, PolicyResult};
use azure_core::http::{Context, Request, StatusCode};
use uuid::Uuid;

use super::answer;
use super::credential::CachedCredential;

/// Sends a request that was refused with 401 or 403 once more: with a fresh token, or, where the credential
/// cannot be renewed, after a moment. A refused request was not done, so that sending it again is safe.
#[derive(Debug)]
pub(super) struct SecondTryPolicy {
    /// Where tokens come from; `None` when requests are signed by a key or a SAS.
    tokens: Option<CachedCredential>,
}

/// How long is waited before the second try with the same credential: rights and keys reach the service's
/// front ends one after the other. Well within the shortest try (S7: 2.5 s), and spread, since all callers
/// may be refused at once.
const MOMENT: Duration = Duration::from_millis(200);

impl SecondTryPolicy {
    pub(super) const fn new(tokens: Option<CachedCredential>) -> Self {
        Self { tokens }
    }

    /// Signs by the token at hand: the SDK goes on with the one it was given first.
    fn sign(&self, request: &mut Request) {
        if let Some(token) = self.tokens.as_ref().and_then(CachedCredential::at_hand) {
            request.insert_header(AUTHORIZATION, format!("Bearer {}", token.token.secret()));
        }
    }

    /// Waits for what may make the second try a better one.
    async fn renew(&self, refused: &Request, status: StatusCode) {
        let renewed = match (&self.tokens, refused.headers().get_optional_str(&AUTHORIZATION)) {
            (Some(tokens), Some(authorization)) => tokens.renew(authorization, status).await,
            _ => false,
        };
        if !renewed {
            // From half of it to one and a half.
            tokio::time::sleep(MOMENT / 2 + MOMENT * u32::from(spread(refused)) / 255).await;
        }
    }
}

const LEASE_ID: HeaderName = HeaderName::from_static("x-ms-lease-id");
const PROPOSED_LEASE_ID: HeaderName = HeaderName::from_static("x-ms-proposed-lease-id");

/// What spreads second tries in time: the random bytes of the request's lease id, so that a simulated world
/// replays.
fn spread(request: &Request) -> u8 {
    let headers = request.headers();
    let id = [&LEASE_ID, &PROPOSED_LEASE_ID]
        .into_iter()
        .find_map(|name| headers.get_optional_str(name))
        .and_then(|id| Uuid::try_parse(id).ok());
    let [byte, ..] = id.map_or([u8::MAX / 2; 16], Uuid::into_bytes);
    byte
}

#[expect(
    elided_lifetimes_in_paths,
    reason = "the SDK's trait has it so, and async_trait wants the same"
)]
#[async_trait]
impl Policy for SecondTryPolicy {
    async fn send(
        &self,
        context: &Context,
        request: &mut Request,
        next: &[Arc<dyn Policy>],
    ) -> PolicyResult {
        self.sign(request);
        let answer = answer::from_next(context, request, next).await?;
        let status = answer.status();
        if !matches!(status, StatusCode::Unauthorized | StatusCode::Forbidden) {
            return Ok(answer);
        }
        drop(answer);
        self.renew(request, status).await;
        self.sign(request);
        answer::from_next(context, request, next).await
    }
}

#[cfg(test)]
#[path = "auth_retry_tests.rs"]
mod tests;
