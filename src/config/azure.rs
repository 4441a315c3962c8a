//! The section `store.azure`: the storage account, and how the sidecar signs in.

use std::path::PathBuf;

use super::secret::Secret;
use super::setting::{Key, settings};
use super::sources::Context;
use super::value::Choice;
use super::values::{SecretRows, Values};

/// Azure Blob Storage, in plain values; the store makes its own types of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Azure {
    /// The account, and how the sidecar signs in.
    pub sign_in: SignIn,
    /// Whether a missing container is made (S18). Default: true.
    pub create_container: bool,
    /// The version of the REST API that is asked for.
    pub api_version: String,
}

/// The account, and how the sidecar signs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignIn {
    /// A connection string, which names the account too.
    ConnectionString(Secret),
    /// The URL of the account with a shared access signature.
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
        /// The PEM file of its certificate and private key.
        path: PathBuf,
    },
    /// Whoever signed in with the Azure CLI: for developers.
    Cli {
        /// The tenant; without, the CLI's own.
        tenant_id: Option<String>,
    },
}

/// The ways to sign in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    ConnectionString,
    SasUrl,
    AccountKey,
    WorkloadIdentity,
    ManagedIdentity,
    ClientSecret,
    ClientCertificate,
    Cli,
}

impl Choice for Way {
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("connection_string", Self::ConnectionString),
        ("sas_url", Self::SasUrl),
        ("account_key", Self::AccountKey),
        ("workload_identity", Self::WorkloadIdentity),
        ("managed_identity", Self::ManagedIdentity),
        ("client_secret", Self::ClientSecret),
        ("client_certificate", Self::ClientCertificate),
        ("cli", Self::Cli),
    ];
}

settings! {
    SIGN_IN: Way = Key::found(
        "store.azure.sign_in",
        "the one of `connection_string`, `sas_url`, `account_key`, `client_secret`, `client_certificate` that is given",
        |context| {
            let mut ways = TELLING.iter().filter(|(key, _)| context.is_given(key));
            let first = ways.next()?.1;
            ways.all(|(_, way)| *way == first).then(|| word(first).to_owned())
        },
        "How the sidecar signs in.",
    );
    ACCOUNT: String = Key::optional(
        "store.azure.account",
        "The storage account's name. Not with a connection string or a SAS URL, which name it.",
    );
    ENDPOINT: String = Key::found(
        "store.azure.endpoint",
        "`https://ACCOUNT.blob.core.windows.net`",
        |context| {
            let account = context.given(ACCOUNT.setting.key)?;
            Some(format!("https://{account}.blob.core.windows.net"))
        },
        "The URL of the account's blob service, where it is not the public cloud's.",
    );
    CONNECTION_STRING: Secret = Key::secret(
        "store.azure.connection_string",
        "The account's connection string; `UseDevelopmentStorage=true` for the emulator.",
    );
    CONNECTION_STRING_FILE: PathBuf = Key::optional(
        "store.azure.connection_string_file",
        "A file that has the connection string.",
    );
    CONNECTION_STRING_ENV: String = Key::optional(
        "store.azure.connection_string_env",
        "The name of a variable that has the connection string, such as `AzureWebJobsStorage`.",
    );
    SAS_URL: Secret = Key::secret(
        "store.azure.sas_url",
        "The URL of the account's blob service with a shared access signature.",
    );
    SAS_URL_FILE: PathBuf = Key::optional(
        "store.azure.sas_url_file",
        "A file that has the SAS URL.",
    );
    ACCOUNT_KEY: Secret = Key::secret(
        "store.azure.account_key",
        "The account's key.",
    );
    ACCOUNT_KEY_FILE: PathBuf = Key::optional(
        "store.azure.account_key_file",
        "A file that has the account's key.",
    );
    TENANT_ID: String = Key::found(
        "store.azure.tenant_id",
        "the variable `AZURE_TENANT_ID`, for `workload_identity`",
        |context| for_workload(context, "AZURE_TENANT_ID"),
        "The tenant, for `workload_identity`, `client_secret` and `client_certificate`; may be given for `cli`.",
    );
    CLIENT_ID: String = Key::found(
        "store.azure.client_id",
        "the variable `AZURE_CLIENT_ID`, for `workload_identity`",
        |context| for_workload(context, "AZURE_CLIENT_ID"),
        "The application, for `workload_identity`, `client_secret` and `client_certificate`; for `managed_identity` the \
         user-assigned identity.",
    );
    TOKEN_FILE: PathBuf = Key::found(
        "store.azure.token_file",
        "the variable `AZURE_FEDERATED_TOKEN_FILE`, for `workload_identity`",
        |context| for_workload(context, "AZURE_FEDERATED_TOKEN_FILE"),
        "The file of the service account's token, for `workload_identity`.",
    );
    CLIENT_SECRET: Secret = Key::secret(
        "store.azure.client_secret",
        "The application's secret.",
    );
    CLIENT_SECRET_FILE: PathBuf = Key::optional(
        "store.azure.client_secret_file",
        "A file that has the application's secret.",
    );
    CLIENT_CERTIFICATE: PathBuf = Key::optional(
        "store.azure.client_certificate",
        "The PEM file of the application's certificate and private key.",
    );
    CREATE_CONTAINER: bool = Key::new(
        "store.azure.create_container",
        "true",
        "Whether a missing container is made on first use.",
    );
    API_VERSION: String = Key::new(
        "store.azure.api_version",
        "2025-11-05",
        "The version of the storage service's REST API that is asked for.",
    );
}

/// Settings that tell how to sign in when `sign_in` does not.
const TELLING: &[(&str, Way)] = &[
    (CONNECTION_STRING.setting.key, Way::ConnectionString),
    (CONNECTION_STRING_FILE.setting.key, Way::ConnectionString),
    (CONNECTION_STRING_ENV.setting.key, Way::ConnectionString),
    (SAS_URL.setting.key, Way::SasUrl),
    (SAS_URL_FILE.setting.key, Way::SasUrl),
    (ACCOUNT_KEY.setting.key, Way::AccountKey),
    (ACCOUNT_KEY_FILE.setting.key, Way::AccountKey),
    (CLIENT_SECRET.setting.key, Way::ClientSecret),
    (CLIENT_SECRET_FILE.setting.key, Way::ClientSecret),
    (CLIENT_CERTIFICATE.setting.key, Way::ClientCertificate),
];

/// Which ways read the settings that not every way reads.
const READERS: &[(&str, &[Way])] = &[
    (ACCOUNT.setting.key, BY_ACCOUNT),
    (ENDPOINT.setting.key, BY_ACCOUNT),
    (
        TENANT_ID.setting.key,
        &[Way::WorkloadIdentity, Way::ClientSecret, Way::ClientCertificate, Way::Cli],
    ),
    (
        CLIENT_ID.setting.key,
        &[Way::WorkloadIdentity, Way::ManagedIdentity, Way::ClientSecret, Way::ClientCertificate],
    ),
    (TOKEN_FILE.setting.key, &[Way::WorkloadIdentity]),
];

/// The ways whose credentials do not name the account.
const BY_ACCOUNT: &[Way] = &[
    Way::AccountKey,
    Way::WorkloadIdentity,
    Way::ManagedIdentity,
    Way::ClientSecret,
    Way::ClientCertificate,
    Way::Cli,
];

fn word(way: Way) -> &'static str {
    let found = Way::CHOICES.iter().find(|(_, choice)| *choice == way);
    found.map(|(word, _)| *word).unwrap_or_default()
}

/// What the workload identity's webhook sets in a pod. Read for that way only: foreign variables choose nothing.
fn for_workload(context: &Context<'_>, variable: &str) -> Option<String> {
    let chosen = context.given(SIGN_IN.setting.key) == Some(word(Way::WorkloadIdentity));
    chosen.then(|| context.variable(variable)).flatten()
}

pub(super) fn read(values: &mut Values<'_>) -> Option<Azure> {
    if values.is_mistaken(SIGN_IN.setting.key) {
        return None;
    }
    let reason = "the store azure needs it, because none or several of connection_string, sas_url, account_key, \
                  client_secret and client_certificate are given";
    let way = values.require(&SIGN_IN, reason)?;
    let readers = TELLING.iter().map(|(key, way)| (*key, std::slice::from_ref(way)));
    for (key, ways) in
        readers.chain(READERS.iter().copied()).filter(|(_, ways)| !ways.contains(&way))
    {
        let ways: Vec<&str> = ways.iter().map(|way| word(*way)).collect();
        let why = format!(
            "is for the sign-in {}, and store.azure.sign_in is {}: take one of them out",
            ways.join(", "),
            word(way)
        );
        values.refuse_unread(&SIGN_IN.setting, &[key], &why);
    }
    let sign_in = sign_in(values, way);
    Some(Azure {
        sign_in: sign_in?,
        create_container: values.get(&CREATE_CONTAINER)?,
        api_version: values.get(&API_VERSION)?,
    })
}

fn sign_in(values: &mut Values<'_>, way: Way) -> Option<SignIn> {
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
    let reason = format!("the sign-in {} needs it", word(way));
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
            values.read_file(CLIENT_CERTIFICATE.setting.key, &path)?;
            Some(Identity::ClientCertificate { tenant_id: tenant_id?, client_id: client_id?, path })
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
        values.bad(ENDPOINT.setting.key, Some(url), problem.to_owned());
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
