//! The account, and how the sidecar signs in to it.

use std::path::PathBuf;

use super::{
    ACCOUNT, ACCOUNT_KEY, ACCOUNT_KEY_FILE, CLIENT_CERTIFICATE, CLIENT_ID, CLIENT_SECRET,
    CLIENT_SECRET_FILE, CONNECTION_STRING, CONNECTION_STRING_ENV, CONNECTION_STRING_FILE, ENDPOINT,
    SAS_URL, SAS_URL_FILE, TENANT_ID, TOKEN_FILE, Way,
};
use crate::config::secret::Secret;
use crate::config::value::Choice as _;
use crate::config::values::{SecretRows, Values};

/// The account, and how the sidecar signs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignIn {
    /// A connection string, which names the account too.
    ConnectionString(Secret),
    /// The URL of the account's blob service, or of the container, with a shared access signature.
    SasUrl(Secret),
    /// The account's name and key.
    AccountKey {
        /// The account.
        account: String,
        /// Its key, in base64.
        key: Secret,
        /// The URL of its blob service, without a slash at the end.
        endpoint: String,
    },
    /// A token of Microsoft Entra ID.
    Identity {
        /// The URL of the account's blob service: https, without a slash at the end.
        endpoint: String,
        /// Who signs in.
        identity: Identity,
    },
}

/// Who signs in to Microsoft Entra ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The pod's service account.
    Workload {
        /// The tenant.
        tenant_id: String,
        /// The application that the service account stands for.
        client_id: String,
        /// The file of the service account's token.
        token_file: PathBuf,
    },
    /// The machine's or the platform's identity.
    Managed {
        /// The user-assigned identity; without, the system-assigned one.
        client_id: Option<String>,
    },
    /// An application with a secret.
    ClientSecret {
        /// The tenant.
        tenant_id: String,
        /// The application.
        client_id: String,
        /// Its secret.
        secret: Secret,
    },
    /// An application with a certificate.
    ClientCertificate {
        /// The tenant.
        tenant_id: String,
        /// The application.
        client_id: String,
        /// Its certificate and private key, in PEM.
        pem: Secret,
    },
    /// Whoever signed in with the Azure CLI: for developers.
    Cli {
        /// The tenant; without, the CLI's own.
        tenant_id: Option<String>,
    },
}

/// What the chosen way needs.
pub(super) fn read(values: &mut Values<'_>, way: Way) -> Option<SignIn> {
    match way {
        Way::ConnectionString => {
            let rows = SecretRows {
                itself: &CONNECTION_STRING,
                file: &CONNECTION_STRING_FILE,
                variable: Some(&CONNECTION_STRING_ENV),
            };
            values
                .secret(&rows, "the sign-in connection_string needs it")
                .map(SignIn::ConnectionString)
        }
        Way::SasUrl => {
            let rows = SecretRows { itself: &SAS_URL, file: &SAS_URL_FILE, variable: None };
            let url = values.secret(&rows, "the sign-in sas_url needs it")?;
            let signed =
                url.expose().split_once('?').is_some_and(|(_, query)| query.contains("sig="));
            if !is_url(url.expose()) || !signed {
                let problem = "must be a URL with a signature: https://ACCOUNT.blob.core.windows.net/?sv=…&sig=…";
                values.bad(SAS_URL.setting.key, None, problem.to_owned());
            }
            Some(SignIn::SasUrl(url))
        }
        Way::AccountKey => {
            let rows = SecretRows { itself: &ACCOUNT_KEY, file: &ACCOUNT_KEY_FILE, variable: None };
            let key = values.secret(&rows, "the sign-in account_key needs it");
            let account = values.require(&ACCOUNT, "the sign-in account_key needs it");
            let endpoint = endpoint(values);
            Some(SignIn::AccountKey { account: account?, key: key?, endpoint: endpoint? })
        }
        Way::WorkloadIdentity
        | Way::ManagedIdentity
        | Way::ClientSecret
        | Way::ClientCertificate
        | Way::Cli => {
            let endpoint = endpoint(values);
            if let Some(http) = endpoint.as_ref().filter(|url| !url.starts_with("https://")) {
                let problem = "must begin with https://, because a token is sent to it".to_owned();
                values.bad(ENDPOINT.setting.key, Some(http.clone()), problem);
            }
            let identity = identity(values, way);
            Some(SignIn::Identity { endpoint: endpoint?, identity: identity? })
        }
    }
}

/// `None` for the ways that are no identity, and when something is missing.
fn identity(values: &mut Values<'_>, way: Way) -> Option<Identity> {
    let reason = format!("the sign-in {} needs it", way.word());
    match way {
        Way::ConnectionString | Way::SasUrl | Way::AccountKey => None,
        Way::ManagedIdentity => Some(Identity::Managed { client_id: values.get(&CLIENT_ID) }),
        Way::Cli => Some(Identity::Cli { tenant_id: values.get(&TENANT_ID) }),
        Way::WorkloadIdentity => {
            let (tenant_id, client_id) = application(values, &reason);
            let token_file = values.require(&TOKEN_FILE, &reason);
            Some(Identity::Workload {
                tenant_id: tenant_id?,
                client_id: client_id?,
                token_file: token_file?,
            })
        }
        Way::ClientSecret => {
            let (tenant_id, client_id) = application(values, &reason);
            let rows =
                SecretRows { itself: &CLIENT_SECRET, file: &CLIENT_SECRET_FILE, variable: None };
            let secret = values.secret(&rows, &reason);
            Some(Identity::ClientSecret {
                tenant_id: tenant_id?,
                client_id: client_id?,
                secret: secret?,
            })
        }
        Way::ClientCertificate => {
            let (tenant_id, client_id) = application(values, &reason);
            let path = values.require(&CLIENT_CERTIFICATE, &reason)?;
            let pem = values.secret_in_file(CLIENT_CERTIFICATE.setting.key, path);
            Some(Identity::ClientCertificate {
                tenant_id: tenant_id?,
                client_id: client_id?,
                pem: pem?,
            })
        }
    }
}

fn application(values: &mut Values<'_>, reason: &str) -> (Option<String>, Option<String>) {
    (values.require(&TENANT_ID, reason), values.require(&CLIENT_ID, reason))
}

fn endpoint(values: &mut Values<'_>) -> Option<String> {
    if let Some(account) = values.get(&ACCOUNT) {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        if !(3..=24).contains(&account.len()) || !account.bytes().all(allowed) {
            let problem = "must be 3 to 24 lower-case letters and digits".to_owned();
            values.bad(ACCOUNT.setting.key, Some(account), problem);
            return None;
        }
    } else if !values.is_given(ENDPOINT.setting.key) {
        return values
            .require(&ACCOUNT, "without it, or an endpoint, no account is named")
            .and(None);
    }
    let url = values.get(&ENDPOINT)?;
    if !is_url(&url) || url.contains(['?', '#']) {
        let problem =
            "must be a URL without a query, such as https://ACCOUNT.blob.core.windows.net";
        // S20: what is wrong with it may be a signature, so it is not shown.
        values.bad(ENDPOINT.setting.key, None, problem.to_owned());
        return None;
    }
    Some(url.trim_end_matches('/').to_owned())
}

fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|rest| {
        rest.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[')
    }) && !text.contains(char::is_whitespace)
}
