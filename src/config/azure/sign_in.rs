//! The account, and how the sidecar signs in to it.

use super::{
    ACCOUNT, ACCOUNT_KEY, ACCOUNT_KEY_FILE, CLIENT_CERTIFICATE, CLIENT_ID, CLIENT_SECRET,
    CLIENT_SECRET_FILE, CONNECTION_STRING, CONNECTION_STRING_ENV, CONNECTION_STRING_FILE, ENDPOINT,
    SAS_URL, SAS_URL_FILE, TENANT_ID, TOKEN_FILE, Way,
};
use crate::config::value::Choice as _;
use crate::config::values::{SecretRows, Values};
use crate::store::azure::AzureCredential;

/// The account, and how the sidecar signs in.
pub(super) struct SignIn {
    pub(super) credential: AzureCredential,
    /// Only where the credential does not name it.
    pub(super) account: Option<String>,
    /// The URL of the account's blob service, without a slash at the end; only where the credential does not
    /// name it.
    pub(super) endpoint: Option<String>,
}

impl SignIn {
    /// By what names the account too.
    const fn by(credential: AzureCredential) -> Self {
        Self { credential, account: None, endpoint: None }
    }
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
            let text = values.secret(&rows, "the sign-in connection_string needs it")?;
            Some(SignIn::by(AzureCredential::ConnectionString(text)))
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
            Some(SignIn::by(AzureCredential::SasUrl(url)))
        }
        Way::AccountKey => {
            let rows = SecretRows { itself: &ACCOUNT_KEY, file: &ACCOUNT_KEY_FILE, variable: None };
            let key = values.secret(&rows, "the sign-in account_key needs it");
            let account = values.require(&ACCOUNT, "the sign-in account_key needs it");
            let endpoint = endpoint(values);
            let credential = AzureCredential::AccountKey(key?);
            Some(SignIn { credential, account: Some(account?), endpoint: Some(endpoint?) })
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
            Some(SignIn { credential: identity?, account: None, endpoint: Some(endpoint?) })
        }
    }
}

/// Where the variables come from that the sign-in of a workload reads.
const WEBHOOK: &str = ", and neither it nor its variable AZURE_… is set: the webhook of Azure Workload Identity sets AZURE_TENANT_ID, \
    AZURE_CLIENT_ID and AZURE_FEDERATED_TOKEN_FILE in a pod that has the label azure.workload.identity/use: \"true\", and a service \
    account with the annotation azure.workload.identity/client-id";

/// `None` for the ways that are no identity, and when something is missing.
fn identity(values: &mut Values<'_>, way: Way) -> Option<AzureCredential> {
    let mut reason = format!("the sign-in {} needs it", way.word());
    if way == Way::WorkloadIdentity {
        reason += WEBHOOK;
    }
    match way {
        Way::ConnectionString | Way::SasUrl | Way::AccountKey => None,
        Way::ManagedIdentity => {
            Some(AzureCredential::ManagedIdentity { client_id: values.get(&CLIENT_ID) })
        }
        Way::Cli => Some(AzureCredential::AzureCli { tenant_id: values.get(&TENANT_ID) }),
        Way::WorkloadIdentity => {
            let (tenant_id, client_id) = application(values, &reason);
            let token_file = values.require(&TOKEN_FILE, &reason);
            Some(AzureCredential::WorkloadIdentity {
                tenant_id: Some(tenant_id?),
                client_id: Some(client_id?),
                token_file: Some(token_file?),
            })
        }
        Way::ClientSecret => {
            let (tenant_id, client_id) = application(values, &reason);
            let rows =
                SecretRows { itself: &CLIENT_SECRET, file: &CLIENT_SECRET_FILE, variable: None };
            let secret = values.secret(&rows, &reason);
            Some(AzureCredential::ClientSecret {
                tenant_id: tenant_id?,
                client_id: client_id?,
                secret: secret?,
            })
        }
        Way::ClientCertificate => {
            let (tenant_id, client_id) = application(values, &reason);
            let path = values.require(&CLIENT_CERTIFICATE, &reason)?;
            let pem = values.secret_in_file(CLIENT_CERTIFICATE.setting.key, path);
            Some(AzureCredential::ClientCertificate {
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
