//! How to reach a storage account and sign in to it: what the configuration fills in, and what becomes of it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use azure_core::http::Url;

use super::certificate::Certificate;
use super::connection_string;
use super::sas::{self, Sas};
use super::shared_key::SharedKey;
use super::token_source::TokenSource;
use super::transport::Network;
use crate::store::Secret;
use crate::time::{Clock, UnixMillis};

/// The REST version that is asked for by default: one that real storage and the Azurite emulator 3.35 know.
pub const DEFAULT_API_VERSION: &str = "2025-11-05";

/// Which storage account, and how to sign in to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AzureSettings {
    /// How to sign in.
    pub credential: AzureCredential,
    /// The storage account's name. Needed for [`AzureCredential::AccountKey`], and for the sign-ins by Entra
    /// ID unless `endpoint` is set. Not with a connection string or a SAS URL, which carry it.
    pub account: Option<String>,
    /// The URL of the account's blob service, without container; by default
    /// `https://{account}.blob.core.windows.net`. Not with a connection string or a SAS URL, which carry it.
    pub endpoint: Option<String>,
    /// Whether a missing container is created on first use (S18). Default: false.
    pub create_container: bool,
    /// The REST version asked for; default [`DEFAULT_API_VERSION`].
    pub api_version: String,
    /// Where Entra ID is asked for tokens; default `https://login.microsoftonline.com`. Must be https.
    pub authority_host: Option<String>,
}

impl AzureSettings {
    /// Settings with all defaults.
    #[must_use]
    pub fn new(credential: AzureCredential) -> Self {
        Self {
            credential,
            account: None,
            endpoint: None,
            create_container: false,
            api_version: DEFAULT_API_VERSION.to_owned(),
            authority_host: None,
        }
    }
}

impl AzureCredential {
    /// The one container that it is for, if it names one.
    #[must_use]
    pub fn container(&self) -> Option<String> {
        let Self::SasUrl(url) = self else { return None };
        sas::container_of(url.expose())
    }
}

/// How to sign in to a storage account. `Debug` shows no secret (S20).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AzureCredential {
    /// A connection string as in `AzureWebJobsStorage`; `UseDevelopmentStorage=true` is the emulator.
    ConnectionString(Secret),
    /// A key of the account, in base64.
    AccountKey(Secret),
    /// The URL of the blob service or of the container, with a shared access signature in its query.
    SasUrl(Secret),
    /// The identity that Kubernetes gives a pod. What is `None` comes from the variables that the platform
    /// sets: `AZURE_TENANT_ID`, `AZURE_CLIENT_ID`, `AZURE_FEDERATED_TOKEN_FILE`.
    WorkloadIdentity {
        /// The directory (tenant) of the identity.
        tenant_id: Option<String>,
        /// The application (client) of the identity.
        client_id: Option<String>,
        /// The file with the pod's token.
        token_file: Option<PathBuf>,
    },
    /// The identity that Azure gives a machine or an app service.
    ManagedIdentity {
        /// Which identity, when it is one assigned by a user; `None` for the system's own.
        client_id: Option<String>,
    },
    /// An application with a password.
    ClientSecret {
        /// The directory (tenant) of the application.
        tenant_id: String,
        /// The application (client).
        client_id: String,
        /// The application's password.
        secret: Secret,
    },
    /// An application with a certificate.
    ClientCertificate {
        /// The directory (tenant) of the application.
        tenant_id: String,
        /// The application (client).
        client_id: String,
        /// Certificate and unencrypted RSA private key, in PEM.
        pem: Secret,
    },
    /// Whoever is signed in to the `az` command: for developers.
    AzureCli {
        /// The directory; `None` for the command's default.
        tenant_id: Option<String>,
    },
}

/// Why there can be no store with these settings. Shows no secret (S20).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AzureSettingsError {
    /// A setting that is needed is not there.
    #[error("{setting} is missing: {advice}")]
    Missing {
        /// The setting, or the part of it.
        setting: &'static str,
        /// What it should be.
        advice: &'static str,
    },
    /// A setting cannot be read.
    #[error("{setting} is not valid: {problem}")]
    Malformed {
        /// The setting, or the part of it.
        setting: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// Two settings contradict each other.
    #[error("{one} and {other} are both set: keep one of them")]
    Conflict {
        /// One of the two settings.
        one: &'static str,
        /// The other of the two settings.
        other: &'static str,
    },
    /// A sign-in by Entra ID would send its token over plain http.
    #[error(
        "the endpoint {endpoint} is not https, and tokens of Entra ID are sent over https only: \
         use https, or sign in with a connection string, an account key or a SAS URL"
    )]
    PlainHttp {
        /// The endpoint, as it was given.
        endpoint: String,
    },
    /// The sign-in cannot even be tried.
    #[error("cannot sign in by {method}: {problem}")]
    SignIn {
        /// The kind of sign-in.
        method: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// Other credentials are for another account.
    #[error(
        "it is for the account at {other}, and the locks of this sidecar are at {own}: correct it, or restart all sidecars \
         that share the locks"
    )]
    AnotherAccount {
        /// The account's host and path.
        other: String,
        /// Those that this sidecar has had since its start.
        own: String,
    },
    /// No HTTP client can be made, for want of trusted certificates perhaps.
    #[error("cannot create an HTTP client: {problem}")]
    HttpClient {
        /// What is wrong.
        problem: String,
    },
}

/// Where the account is and how requests to it are signed: settings that were checked.
pub(super) struct AccountAccess {
    /// The blob service; a SAS is in its query.
    pub(super) endpoint: Url,
    pub(super) sign_in: SignIn,
}

/// How requests are signed.
#[derive(Debug)]
pub(super) enum SignIn {
    Key(SharedKey),
    Sas(Sas),
    Token(TokenSource),
}

impl fmt::Debug for AccountAccess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AccountAccess")
            .field("endpoint", &shown(&self.endpoint))
            .field("sign_in", &self.sign_in)
            .finish()
    }
}

impl AccountAccess {
    /// The account, by the host of its blob service and the path below that.
    pub(super) fn account(&self) -> (String, String) {
        let host = self.endpoint.host_str().unwrap_or_default();
        // A port that is not the usual one tells emulators apart.
        let port = self.endpoint.port().map(|port| format!(":{port}")).unwrap_or_default();
        (format!("{host}{port}"), self.endpoint.path().to_owned())
    }

    /// When the signature ends, if there is one that says so.
    pub(super) const fn signature_end(&self) -> Option<UnixMillis> {
        match &self.sign_in {
            SignIn::Sas(sas) => sas.expires,
            SignIn::Key(_) | SignIn::Token(_) => None,
        }
    }

    /// Checks the settings.
    pub(super) fn from_settings(
        settings: &AzureSettings,
        clock: &Arc<dyn Clock>,
        network: &Network,
    ) -> Result<Self, AzureSettingsError> {
        match &settings.credential {
            AzureCredential::ConnectionString(text) => {
                nothing_beside(settings, "the connection string")?;
                connection_string::parse(text.expose())
            }
            AzureCredential::SasUrl(url) => {
                nothing_beside(settings, "the SAS URL")?;
                let (endpoint, sas) = Sas::from_url(url.expose())?;
                Ok(Self { endpoint, sign_in: SignIn::Sas(sas) })
            }
            AzureCredential::AccountKey(key) => {
                let account = settings.account.as_deref().ok_or(AzureSettingsError::Missing {
                    setting: "the account name",
                    advice: "an account key needs it",
                })?;
                let key =
                    SharedKey::new(checked_account(account)?, key.expose(), "the account key")?;
                Ok(Self { endpoint: service_endpoint(settings)?, sign_in: SignIn::Key(key) })
            }
            AzureCredential::WorkloadIdentity { .. }
            | AzureCredential::ManagedIdentity { .. }
            | AzureCredential::ClientSecret { .. }
            | AzureCredential::ClientCertificate { .. }
            | AzureCredential::AzureCli { .. } => {
                let endpoint = service_endpoint(settings)?;
                if endpoint.scheme() != "https" {
                    return Err(AzureSettingsError::PlainHttp { endpoint: shown(&endpoint) });
                }
                Ok(Self {
                    endpoint,
                    sign_in: SignIn::Token(token_source(settings, clock, network)?),
                })
            }
        }
    }
}

fn token_source(
    settings: &AzureSettings,
    clock: &Arc<dyn Clock>,
    network: &Network,
) -> Result<TokenSource, AzureSettingsError> {
    let certificate = if let AzureCredential::ClientCertificate { pem, .. } = &settings.credential {
        Some(Certificate::parse(pem.expose())?)
    } else {
        None
    };
    let authority = settings.authority_host.as_deref();
    TokenSource::new(
        settings.credential.clone(),
        certificate,
        authority,
        Arc::clone(clock),
        network,
    )
}

fn nothing_beside(settings: &AzureSettings, one: &'static str) -> Result<(), AzureSettingsError> {
    if settings.account.is_some() {
        return Err(AzureSettingsError::Conflict { one, other: "the account name" });
    }
    if settings.endpoint.is_some() {
        return Err(AzureSettingsError::Conflict { one, other: "the endpoint" });
    }
    Ok(())
}

fn service_endpoint(settings: &AzureSettings) -> Result<Url, AzureSettingsError> {
    match (&settings.endpoint, &settings.account) {
        (Some(endpoint), _) => parse_endpoint(endpoint, "the endpoint"),
        (None, Some(account)) => {
            let account = checked_account(account)?;
            parse_endpoint(&format!("https://{account}.blob.core.windows.net"), "the account name")
        }
        (None, None) => Err(AzureSettingsError::Missing {
            setting: "the account name",
            advice: "give it, or the URL of its blob service as the endpoint",
        }),
    }
}

/// Checks an account's name, which gets into URLs and signatures.
pub(super) fn checked_account(name: &str) -> Result<&str, AzureSettingsError> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if (3..=24).contains(&name.len()) && name.bytes().all(allowed) {
        Ok(name)
    } else {
        Err(AzureSettingsError::Malformed {
            setting: "the account name",
            problem: "it must have 3 to 24 lower-case letters and digits".to_owned(),
        })
    }
}

/// Reads the URL of a blob service, and brings it into the form to which names are appended. The URL may have
/// a secret in it, so that errors do not show it.
pub(super) fn parse_endpoint(text: &str, setting: &'static str) -> Result<Url, AzureSettingsError> {
    let malformed = |problem: &str| AzureSettingsError::Malformed {
        setting,
        problem: format!("{problem}; it should look like https://myaccount.blob.core.windows.net"),
    };
    let mut url = Url::parse(text.trim()).map_err(|error| malformed(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.cannot_be_a_base() {
        return Err(malformed("it is not an http or https URL"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(malformed("it contains a user name or password"));
    }
    url.set_fragment(None);
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(url)
}

/// An endpoint without its query, where a SAS would be (S20).
pub(super) fn shown(endpoint: &Url) -> String {
    let mut endpoint = endpoint.clone();
    endpoint.set_query(None);
    endpoint.to_string()
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
