//! The clients: one for leases, whose requests are single tries, and one with retries for listing.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use azure_core::credentials::TokenCredential;
use azure_core::error::ErrorKind;
use azure_core::http::policies::{Policy, PolicyResult};
use azure_core::http::{ClientOptions, Context, HttpClient, Request, RetryOptions, Transport, Url};
use azure_storage_blob::{BlobServiceClient, BlobServiceClientOptions};
use rustls_platform_verifier::ConfigVerifierExt as _;

use super::answer;
use super::auth_retry::SecondTryPolicy;
use super::credential::CachedCredential;
use super::error::Foreign;
use super::settings::{AccountAccess, AzureSettingsError, SignIn};
use super::shared_key::SharedKeyPolicy;
use super::token_source::TokenSource;
use super::transport::Network;
use crate::time::Clock;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// S7: a try is cut off after 5 s at the latest.
const LEASE_TIMEOUT: Duration = Duration::from_secs(5);
/// How many connections are kept for later requests, and for how long: each of them may be dead without a
/// word (S7).
const IDLE: usize = 8;
const IDLE_FOR: Duration = Duration::from_secs(20);
/// A page of a thousand locks may take its time.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(20);

/// Both clients, on one account.
pub(super) struct Clients {
    /// For leases, records and whatever a caller waits for: no retries, as S7 owns them, and no redirects.
    pub(super) lease: BlobServiceClient,
    /// For listing: a page that was not answered is asked for again.
    pub(super) admin: BlobServiceClient,
    pub(super) sign_in: SignedIn,
}

/// How the clients sign their requests, as far as errors speak of it.
#[derive(Debug)]
pub(super) enum SignedIn {
    Key { account: String },
    Sas(super::sas::Sas),
    Token,
}

impl fmt::Debug for Clients {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Clients").field("sign_in", &self.sign_in).finish_non_exhaustive()
    }
}

impl Clients {
    pub(super) fn new(
        access: AccountAccess,
        version: &str,
        clock: &Arc<dyn Clock>,
        network: &Network,
    ) -> Result<Self, AzureSettingsError> {
        let mut builder = Builder {
            endpoint: access.endpoint,
            version: version.to_owned(),
            policies: Vec::new(),
            credential: None,
        };
        let sign_in = builder.sign(access.sign_in, clock);
        let retry = network.retries(3, azure_core::time::Duration::seconds(20));
        Ok(Self {
            lease: builder.build(RetryOptions::none(), network.client(LEASE_TIMEOUT)?)?,
            admin: builder.build(retry, network.client(ADMIN_TIMEOUT)?)?,
            sign_in,
        })
    }
}

struct Builder {
    endpoint: Url,
    version: String,
    policies: Vec<Arc<dyn Policy>>,
    credential: Option<Arc<dyn TokenCredential>>,
}

impl Builder {
    fn sign(&mut self, sign_in: SignIn, clock: &Arc<dyn Clock>) -> SignedIn {
        let (tokens, signing, signed_in) = match sign_in {
            SignIn::Key(key) => {
                let account = key.account.clone();
                let policy: Arc<dyn Policy> =
                    Arc::new(SharedKeyPolicy::new(key, Arc::clone(clock)));
                (None, Some(policy), SignedIn::Key { account })
            }
            SignIn::Sas(sas) => (None, None, SignedIn::Sas(sas)),
            SignIn::Token(source) => {
                (Some(self.cache_tokens(source, clock)), None, SignedIn::Token)
            }
        };
        // First, so that both tries are signed.
        self.policies.push(Arc::new(SecondTryPolicy::new(tokens.clone())));
        self.policies.extend(signing);
        // Last, so that the clock is read just before the request is sent (S3).
        self.policies.push(Arc::new(ObservePolicy { clock: Arc::clone(clock), tokens }));
        signed_in
    }

    fn cache_tokens(&mut self, source: TokenSource, clock: &Arc<dyn Clock>) -> CachedCredential {
        let cached = CachedCredential::new(Arc::new(source), Arc::clone(clock));
        self.credential = Some(Arc::new(cached.clone()));
        cached
    }

    fn build(
        &self,
        retry: RetryOptions,
        http: Arc<dyn HttpClient>,
    ) -> Result<BlobServiceClient, AzureSettingsError> {
        let client_options = ClientOptions {
            retry,
            transport: Some(Transport::new(http)),
            per_try_policies: self.policies.clone(),
            ..ClientOptions::default()
        };
        let options = BlobServiceClientOptions { client_options, version: self.version.clone() };
        BlobServiceClient::new(self.endpoint.clone(), self.credential.clone(), Some(options))
            // The SDK's text has the URL in it (S20).
            .map_err(|_| AzureSettingsError::Malformed {
                setting: "the endpoint",
                problem: "the SDK does not take it".to_owned(),
            })
    }
}

/// What the system trusts, read from its files: once, since connections are made anew just when there may be
/// trouble.
pub(super) fn trusted() -> Result<rustls::ClientConfig, AzureSettingsError> {
    // Without a provider rustls panics. That one is there already is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    rustls::ClientConfig::with_platform_verifier().map_err(no_client)
}

/// An HTTP client whose requests take no longer than this: rustls with ring, no redirects and no retries.
pub(super) fn http_client(
    timeout: Duration,
    trusted: rustls::ClientConfig,
) -> Result<reqwest::Client, AzureSettingsError> {
    reqwest::Client::builder()
        .tls_backend_preconfigured(trusted)
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(timeout)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .tcp_nodelay(true)
        .tcp_user_timeout(LEASE_TIMEOUT)
        .pool_max_idle_per_host(IDLE)
        .pool_idle_timeout(IDLE_FOR)
        .build()
        .map_err(no_client)
}

fn no_client(error: impl fmt::Display) -> AzureSettingsError {
    AzureSettingsError::HttpClient { problem: error.to_string() }
}

/// Takes only answers of the service itself, and lets the clock see the service's dates (S3).
#[derive(Debug)]
struct ObservePolicy {
    clock: Arc<dyn Clock>,
    tokens: Option<CachedCredential>,
}

#[expect(
    elided_lifetimes_in_paths,
    reason = "the SDK's trait has it so, and async_trait wants the same"
)]
#[async_trait]
impl Policy for ObservePolicy {
    async fn send(
        &self,
        context: &Context,
        request: &mut Request,
        next: &[Arc<dyn Policy>],
    ) -> PolicyResult {
        if let Some(tokens) = &self.tokens {
            tokens.refresh_if_due();
        }
        let answer = answer::from_next(context, request, next).await?;
        let headers = answer.headers();
        let Some(date) = answer::date(headers).filter(|_| answer::is_the_services(headers)) else {
            let what = "it is not the storage service's own; a proxy may have given it";
            return Err(azure_core::Error::new(ErrorKind::Io, Foreign { what }));
        };
        self.clock.observe_store_date(date);
        Ok(answer)
    }
}
