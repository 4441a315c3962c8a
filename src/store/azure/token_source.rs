//! The sign-ins of Entra ID: from settings to a token.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use azure_core::cloud::{CloudConfiguration, CustomConfiguration};
use azure_core::credentials::{AccessToken, Secret as SdkSecret, TokenCredential};
use azure_core::error::ErrorKind;
use azure_core::http::policies::{Policy, PolicyResult};
use azure_core::http::{ClientOptions, Context, HttpClient, Request, RetryOptions, Transport, Url};
use azure_identity::{
    AzureCliCredential, AzureCliCredentialOptions, ClientAssertionCredential,
    ClientAssertionCredentialOptions, ClientSecretCredential, ClientSecretCredentialOptions,
    ManagedIdentityCredential, ManagedIdentityCredentialOptions, UserAssignedId,
    WorkloadIdentityCredential, WorkloadIdentityCredentialOptions,
};

use super::answer;
use super::certificate::{Assertion, Certificate};
use super::credential::{FetchToken, SignInError};
use super::error::{cause, no_descriptor};
use super::services_time::ServicesTime;
use super::settings::{AzureCredential, AzureSettingsError};
use super::transport::Network;
use crate::time::Clock;

/// What a token is asked for: the blob service of any account.
const SCOPE: &str = "https://storage.azure.com/.default";
const PUBLIC_CLOUD: &str = "https://login.microsoftonline.com";
/// The variable by which Azure's platforms name another cloud.
const AUTHORITY_VARIABLE: &str = "AZURE_AUTHORITY_HOST";
/// One request to the identity endpoint; a fetch may make some.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(8);

/// Fetches tokens by one of the sign-ins of Entra ID.
#[derive(Debug)]
pub(super) struct TokenSource {
    method: AzureCredential,
    certificate: Option<Arc<Certificate>>,
    authority: Url,
    http: Arc<dyn HttpClient>,
    retry: RetryOptions,
    /// That of the identity endpoint.
    time: Arc<ServicesTime>,
}

impl TokenSource {
    /// Checks what can be checked without asking anybody.
    pub(super) fn new(
        method: AzureCredential,
        certificate: Option<Certificate>,
        authority: Option<&str>,
        clock: Arc<dyn Clock>,
        network: &Network,
    ) -> Result<Self, AzureSettingsError> {
        let from_platform = std::env::var(AUTHORITY_VARIABLE).ok();
        let authority = authority.or(from_platform.as_deref()).unwrap_or(PUBLIC_CLOUD);
        let authority = Url::parse(authority).ok().filter(|url| url.scheme() == "https");
        let source = Self {
            method,
            certificate: certificate.map(Arc::new),
            authority: authority.ok_or_else(|| AzureSettingsError::Malformed {
                setting: "the authority host",
                problem: format!("it must be an https URL like {PUBLIC_CLOUD}"),
            })?,
            http: network.client(REQUEST_TIMEOUT)?,
            retry: network.retries(2, azure_core::time::Duration::seconds(10)),
            time: Arc::new(ServicesTime::new(clock)),
        };
        // These errors are about names, files and variables; no secret was used yet.
        source.credential().map_err(|error| AzureSettingsError::SignIn {
            method: source.name(),
            problem: error.to_string(),
        })?;
        Ok(source)
    }

    const fn name(&self) -> &'static str {
        match &self.method {
            AzureCredential::ConnectionString(_) => "connection string",
            AzureCredential::AccountKey(_) => "account key",
            AzureCredential::SasUrl(_) => "SAS URL",
            AzureCredential::WorkloadIdentity { .. } => "workload identity",
            AzureCredential::ManagedIdentity { .. } => "managed identity",
            AzureCredential::ClientSecret { .. } => "client secret",
            AzureCredential::ClientCertificate { .. } => "client certificate",
            AzureCredential::AzureCli { .. } => "Azure CLI",
        }
    }

    /// The SDK's credential, made anew for each fetch: what it caches would only keep us from a fresh token.
    fn credential(&self) -> azure_core::Result<Arc<dyn TokenCredential>> {
        let client_options = self.client_options();
        Ok(match &self.method {
            AzureCredential::WorkloadIdentity { tenant_id, client_id, token_file } => {
                let mut options = WorkloadIdentityCredentialOptions::default();
                options.credential_options.client_options = client_options;
                options.tenant_id.clone_from(tenant_id);
                options.client_id.clone_from(client_id);
                options.token_file_path.clone_from(token_file);
                WorkloadIdentityCredential::new(Some(options))?
            }
            AzureCredential::ManagedIdentity { client_id } => {
                let user_assigned_id = client_id.clone().map(UserAssignedId::ClientId);
                let options = ManagedIdentityCredentialOptions { user_assigned_id, client_options };
                ManagedIdentityCredential::new(Some(options))?
            }
            AzureCredential::ClientSecret { tenant_id, client_id, secret } => {
                ClientSecretCredential::new(
                    tenant_id,
                    client_id.clone(),
                    SdkSecret::new(secret.expose().to_owned()),
                    Some(ClientSecretCredentialOptions { client_options }),
                )?
            }
            AzureCredential::ClientCertificate { tenant_id, client_id, .. } => {
                ClientAssertionCredential::new(
                    tenant_id.clone(),
                    client_id.clone(),
                    self.assertion(tenant_id, client_id)?,
                    Some(ClientAssertionCredentialOptions { client_options }),
                )?
            }
            AzureCredential::AzureCli { tenant_id } => {
                let mut options = AzureCliCredentialOptions::default();
                options.tenant_id.clone_from(tenant_id);
                AzureCliCredential::new(Some(options))?
            }
            AzureCredential::ConnectionString(_)
            | AzureCredential::AccountKey(_)
            | AzureCredential::SasUrl(_) => return Err(failed("it needs no token")),
        })
    }

    fn client_options(&self) -> ClientOptions {
        let mut cloud = CustomConfiguration::default();
        cloud.authority_host = self.authority.as_str().trim_end_matches('/').to_owned();
        ClientOptions {
            cloud: Some(Arc::new(CloudConfiguration::Custom(cloud))),
            retry: self.retry.clone(),
            per_try_policies: vec![Arc::new(LearnTime(Arc::clone(&self.time)))],
            transport: Some(Transport::new(Arc::clone(&self.http))),
            ..ClientOptions::default()
        }
    }

    fn assertion(&self, tenant_id: &str, client_id: &str) -> azure_core::Result<Assertion> {
        let certificate =
            self.certificate.clone().ok_or_else(|| failed("it has no certificate"))?;
        let audience = self.authority.join(&format!("/{tenant_id}/oauth2/v2.0/token"));
        Ok(Assertion {
            certificate,
            client_id: client_id.to_owned(),
            audience: audience.map_err(|_| failed("the tenant id is not valid in a URL"))?.into(),
            time: Arc::clone(&self.time),
        })
    }

    fn explain(&self, error: &azure_core::Error) -> SignInError {
        if let Some(none) = no_descriptor(error) {
            return SignInError::NoDescriptor(none);
        }
        if matches!(self.method, AzureCredential::AzureCli { .. }) {
            // What the command prints is its own business, and may be anything.
            let reason =
                "the az command returned no token; run az login and az account get-access-token";
            return SignInError::Refused { reason: reason.to_owned() };
        }
        let answered =
            std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |error| {
                error.source()
            })
            .filter_map(|error| error.downcast_ref::<azure_core::Error>())
            .find_map(|error| Some((u16::from(error.http_status()?), error.to_string())));
        match answered {
            Some((status @ (408 | 429 | 500..=599), _)) => SignInError::Unreachable {
                reason: format!("the identity endpoint answered {status}"),
            },
            Some((_, description)) => SignInError::Refused { reason: first_sentence(&description) },
            None => SignInError::Unreachable { reason: cause(error) },
        }
    }
}

#[async_trait]
impl FetchToken for TokenSource {
    async fn fetch(&self) -> Result<AccessToken, SignInError> {
        let credential = self.credential().map_err(|error| self.explain(&error))?;
        credential.get_token(&[SCOPE], None).await.map_err(|error| self.explain(&error))
    }
}

/// Takes the time of an identity endpoint that refuses a sign-in: an assertion that is signed by a wrong
/// clock has not begun yet, or has ended.
#[derive(Debug)]
struct LearnTime(Arc<ServicesTime>);

#[expect(
    elided_lifetimes_in_paths,
    reason = "the SDK's trait has it so, and async_trait wants the same"
)]
#[async_trait]
impl Policy for LearnTime {
    async fn send(
        &self,
        context: &Context,
        request: &mut Request,
        next: &[Arc<dyn Policy>],
    ) -> PolicyResult {
        let answer = answer::from_next(context, request, next).await?;
        if !answer.status().is_success()
            && let Some(date) = answer::date(answer.headers())
            && let Some(seconds) = self.0.learn(date)
        {
            tracing::warn!(
                seconds,
                "this machine's clock differs from the identity endpoint's: sign-ins go by that one's time"
            );
        }
        Ok(answer)
    }
}

fn failed(problem: &'static str) -> azure_core::Error {
    azure_core::Error::with_message(ErrorKind::Credential, problem)
}

/// What Entra ID says first; the ids of the request that follow are left out.
fn first_sentence(description: &str) -> String {
    let line = description.lines().next().unwrap_or_default();
    let line = line.split(" Trace ID").next().unwrap_or_default();
    line.chars().filter(|character| !character.is_control()).take(300).collect()
}

#[cfg(test)]
#[path = "token_source_tests.rs"]
mod tests;
