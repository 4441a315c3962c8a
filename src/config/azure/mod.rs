//! The section `store.azure`: the storage account, and how the sidecar signs in.

mod sign_in;

use std::path::PathBuf;

use sign_in::SignIn;

use super::setting::{Key, settings};
use super::sources::Context;
use super::value::Choice;
use super::values::Values;
use crate::store::Secret;
use crate::store::azure::AzureSettings;

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
        "the one of `connection_string`, `sas_url`, `account_key`, `client_secret`, `client_certificate` that is set",
        |context| {
            let mut ways = TELLING.iter().filter(|(key, _)| context.is_given(key));
            let first = ways.next()?.1;
            ways.all(|(_, way)| *way == first).then(|| first.word().to_owned())
        },
        "How the sidecar signs in.",
    );
    ACCOUNT: String = Key::optional(
        "store.azure.account",
        "The storage account's name. Not allowed with a connection string or a SAS URL, which contain it.",
    );
    ENDPOINT: String = Key::found(
        "store.azure.endpoint",
        "`https://ACCOUNT.blob.core.windows.net`",
        |context| {
            let account = context.given(ACCOUNT.setting.key)?;
            Some(format!("https://{account}.blob.core.windows.net"))
        },
        "The URL of the account's blob service, if it is not in the public cloud.",
    );
    CONNECTION_STRING: Secret = Key::secret(
        "store.azure.connection_string",
        "The account's connection string; `UseDevelopmentStorage=true` for the emulator.",
    );
    CONNECTION_STRING_FILE: PathBuf = Key::optional(
        "store.azure.connection_string_file",
        "The file that contains the connection string.",
    );
    CONNECTION_STRING_ENV: String = Key::optional(
        "store.azure.connection_string_env",
        "The name of the variable that contains the connection string, such as `AzureWebJobsStorage`.",
    );
    SAS_URL: Secret = Key::secret(
        "store.azure.sas_url",
        "The URL of the account's blob service, or of the container, with a shared access signature.",
    );
    SAS_URL_FILE: PathBuf = Key::optional(
        "store.azure.sas_url_file",
        "The file that contains the SAS URL.",
    );
    ACCOUNT_KEY: Secret = Key::secret(
        "store.azure.account_key",
        "The account's key.",
    );
    ACCOUNT_KEY_FILE: PathBuf = Key::optional(
        "store.azure.account_key_file",
        "The file that contains the account's key.",
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
        "The application, for `workload_identity`, `client_secret` and `client_certificate`; for `managed_identity` \
         the user-assigned identity.",
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
        "The file that contains the application's secret.",
    );
    CLIENT_CERTIFICATE: PathBuf = Key::optional(
        "store.azure.client_certificate",
        "The PEM file of the application's certificate and private key.",
    );
    AUTHORITY_HOST: String = Key::found(
        "store.azure.authority_host",
        "the variable `AZURE_AUTHORITY_HOST`, for `workload_identity`; else the public cloud's",
        |context| for_workload(context, "AZURE_AUTHORITY_HOST"),
        "The URL of Microsoft Entra ID, which issues tokens, for `workload_identity`, `client_secret` and \
         `client_certificate`.",
    );
    CREATE_CONTAINER: bool = Key::new(
        "store.azure.create_container",
        "false",
        "Whether the sidecar creates the container if it does not exist. That needs a permission on the account, and a \
         mistyped name becomes a second container, in which nothing is excluded.",
    );
    API_VERSION: String = Key::new(
        "store.azure.api_version",
        "2025-11-05",
        "The version of the storage service's REST API.",
    );
}

/// The section's name.
const SECTION: &str = "store.azure";

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
    (
        AUTHORITY_HOST.setting.key,
        &[Way::WorkloadIdentity, Way::ClientSecret, Way::ClientCertificate],
    ),
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

/// What the workload identity's webhook sets in a pod. Read for that way only: foreign variables choose
/// nothing.
fn for_workload(context: &Context<'_>, variable: &str) -> Option<String> {
    let chosen = context.given(SIGN_IN.setting.key) == Some(Way::WorkloadIdentity.word());
    chosen.then(|| context.variable(variable)).flatten()
}

pub(super) fn read(values: &mut Values<'_>) -> Option<AzureSettings> {
    // What was mistaken may be what tells how to sign in.
    let untold = values.get(&SIGN_IN).is_none() && values.is_mistaken(SECTION);
    if untold || values.is_mistaken(SIGN_IN.setting.key) {
        return None;
    }
    let told: Vec<(&str, Way)> =
        TELLING.iter().copied().filter(|(key, _)| values.is_given(key)).collect();
    if let [(one, way), others @ ..] = told.as_slice()
        && let Some((other, _)) = others.iter().find(|(_, other)| other != way)
        && !values.is_given(SIGN_IN.setting.key)
    {
        let problem = format!(
            "{one} and {other} are both set, and are for different sign-ins: keep one of them"
        );
        values.conflict(other, problem);
        return None;
    }
    let reason = "the store azure needs it if none of connection_string, sas_url, account_key, client_secret and \
                  client_certificate is set";
    let way = values.require(&SIGN_IN, reason)?;
    let readers = TELLING.iter().map(|(key, way)| (*key, std::slice::from_ref(way)));
    for (key, ways) in
        readers.chain(READERS.iter().copied()).filter(|(_, ways)| !ways.contains(&way))
    {
        let ways: Vec<&str> = ways.iter().map(|way| way.word()).collect();
        let why = format!(
            "is for the sign-in {}, and store.azure.sign_in is {}: remove one of them",
            ways.join(", "),
            way.word()
        );
        values.refuse_unread(&SIGN_IN.setting, &[key], &why);
    }
    let sign_in = sign_in::read(values, way);
    let authority_host = values.get(&AUTHORITY_HOST);
    if authority_host.as_ref().is_some_and(|url| !url.starts_with("https://")) {
        let problem = "must begin with https://, because secrets are sent to it".to_owned();
        values.bad(AUTHORITY_HOST.setting.key, authority_host.clone(), problem);
    }
    let SignIn { credential, account, endpoint } = sign_in?;
    Some(AzureSettings {
        credential,
        account,
        endpoint,
        authority_host,
        create_container: values.get(&CREATE_CONTAINER)?,
        api_version: values.get(&API_VERSION)?,
    })
}
