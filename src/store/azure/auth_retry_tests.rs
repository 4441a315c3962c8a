use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use azure_core::credentials::AccessToken;
use azure_core::http::headers::Headers;
use azure_core::http::{AsyncRawResponse, Method, Url};
use azure_core::time::OffsetDateTime;

use super::*;
use crate::store::azure::credential::{FetchToken, SignInError};
use crate::testing::SimClock;

/// Gives tokens by number, each of a day.
#[derive(Debug, Default)]
struct Source {
    fetched: AtomicU64,
}

#[async_trait]
impl FetchToken for Source {
    async fn fetch(&self) -> Result<AccessToken, SignInError> {
        let number = self.fetched.fetch_add(1, Ordering::Relaxed) + 1;
        let ends = OffsetDateTime::from_unix_timestamp(1_800_000_000 + 86_400).unwrap();
        Ok(AccessToken::new(format!("token-{number}"), ends))
    }
}

/// A service that takes these tokens, and says so to all others with this status.
#[derive(Debug)]
struct Service {
    status: StatusCode,
    takes: &'static str,
    asked: Mutex<Vec<String>>,
}

#[expect(elided_lifetimes_in_paths, reason = "as the SDK's trait has it")]
#[async_trait]
impl Policy for Service {
    async fn send(
        &self,
        _context: &Context,
        request: &mut Request,
        _next: &[Arc<dyn Policy>],
    ) -> PolicyResult {
        let token = request.headers().get_optional_str(&AUTHORIZATION).unwrap().to_owned();
        let status = if token == self.takes { StatusCode::Ok } else { self.status };
        self.asked.lock().unwrap().push(token);
        Ok(AsyncRawResponse::from_bytes(status, Headers::new(), Vec::new()))
    }
}

struct Rig {
    policy: SecondTryPolicy,
    service: Arc<Service>,
    tokens: CachedCredential,
}

impl Rig {
    fn new(status: StatusCode, takes: &'static str) -> Self {
        let clock = Arc::new(SimClock::following_tokio());
        let tokens = CachedCredential::new(Arc::new(Source::default()), clock);
        let service = Arc::new(Service { status, takes, asked: Mutex::default() });
        Self { policy: SecondTryPolicy::new(Some(tokens.clone())), service, tokens }
    }

    /// Sends a request that the SDK signed by `token`; what the service was shown, and its last word.
    async fn send(&self, token: &str) -> (Vec<String>, StatusCode) {
        let mut request = Request::new(Url::parse("https://a.example/").unwrap(), Method::Put);
        request.insert_header(AUTHORIZATION, format!("Bearer {token}"));
        let next: [Arc<dyn Policy>; 1] = [Arc::clone(&self.service) as _];
        let answer = self.policy.send(&Context::new(), &mut request, &next).await.unwrap();
        (std::mem::take(&mut self.service.asked.lock().unwrap()), answer.status())
    }

    async fn first_token(&self) {
        use azure_core::credentials::TokenCredential as _;
        let token = self.tokens.get_token(&["scope"], None).await.unwrap();
        assert_eq!(token.token.secret(), "token-1");
    }
}

#[tokio::test(start_paused = true)]
async fn s8_a_token_that_is_refused_is_replaced_and_the_request_is_sent_again() {
    let rig = Rig::new(StatusCode::Unauthorized, "Bearer token-2");
    rig.first_token().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (asked, status) = rig.send("token-1").await;
    assert_eq!((asked.len(), status), (2, StatusCode::Ok), "{asked:?}");
    // The SDK goes on with the token it was given first.
    let (asked, status) = rig.send("token-1").await;
    assert_eq!((asked.as_slice(), status), (&["Bearer token-2".to_owned()][..], StatusCode::Ok));
}

#[tokio::test(start_paused = true)]
async fn s8_a_token_that_lacks_a_right_is_replaced_once_it_is_a_minute_old() {
    let rig = Rig::new(StatusCode::Forbidden, "Bearer token-2");
    rig.first_token().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (asked, status) = rig.send("token-1").await;
    assert_eq!((asked.len(), status), (2, StatusCode::Forbidden), "another would lack it, too");
    assert_eq!(asked[1], "Bearer token-1");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (asked, status) = rig.send("token-1").await;
    assert_eq!((asked.len(), status), (2, StatusCode::Ok), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn s8_a_request_that_is_refused_twice_is_not_sent_a_third_time() {
    for status in [StatusCode::Unauthorized, StatusCode::Forbidden] {
        let rig = Rig::new(status, "Bearer none");
        rig.first_token().await;
        tokio::time::sleep(Duration::from_secs(100)).await;
        let (asked, told) = rig.send("token-1").await;
        assert_eq!((asked.len(), told), (2, status), "{asked:?}");
    }
}
