//! Connection strings as Azure's tools write them: `AzureWebJobsStorage` and its like.

use azure_core::http::Url;

use super::sas::Sas;
use super::settings::{AccountAccess, AzureSettingsError, SignIn, checked_account, parse_endpoint};
use super::shared_key::SharedKey;

/// The emulator's account and key, which are the same everywhere and no secret.
pub(crate) const EMULATOR_ACCOUNT: &str = "devstoreaccount1";
/// See [`EMULATOR_ACCOUNT`].
pub(crate) const EMULATOR_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const EMULATOR_PORT: u16 = 10_000;

/// The parts that matter here. Each is named in errors; what stands in it is not (S20).
#[derive(Default)]
struct Parts<'a> {
    protocol: Option<&'a str>,
    account: Option<&'a str>,
    key: Option<&'a str>,
    sas: Option<&'a str>,
    suffix: Option<&'a str>,
    blob_endpoint: Option<&'a str>,
    development: Option<&'a str>,
    proxy: Option<&'a str>,
}

/// Parts that name other services, and are passed over.
const OTHERS: [&str; 7] = [
    "queueendpoint",
    "tableendpoint",
    "fileendpoint",
    "blobsecondaryendpoint",
    "queuesecondaryendpoint",
    "tablesecondaryendpoint",
    "filesecondaryendpoint",
];

/// Reads a connection string.
pub(super) fn parse(text: &str) -> Result<AccountAccess, AzureSettingsError> {
    let parts = split(text)?;
    if let Some(value) = parts.development {
        return if value.eq_ignore_ascii_case("true") {
            emulator(&parts)
        } else {
            Err(malformed("UseDevelopmentStorage", "it can only be true"))
        };
    }
    if parts.proxy.is_some() {
        return Err(AzureSettingsError::Missing {
            setting: "UseDevelopmentStorage",
            advice: "DevelopmentStorageProxyUri goes with UseDevelopmentStorage=true only",
        });
    }
    let endpoint = endpoint(&parts)?;
    match (parts.key, parts.sas) {
        (Some(_), Some(_)) => {
            Err(AzureSettingsError::Conflict { one: "AccountKey", other: "SharedAccessSignature" })
        }
        (Some(key), None) => {
            let account = parts.account.ok_or(AzureSettingsError::Missing {
                setting: "AccountName",
                advice: "an AccountKey needs it",
            })?;
            let key = SharedKey::new(checked_account(account)?, key, "AccountKey")?;
            Ok(AccountAccess { endpoint, sign_in: SignIn::Key(key) })
        }
        (None, Some(sas)) => {
            let (endpoint, sas) = Sas::append(endpoint, sas, "SharedAccessSignature")?;
            Ok(AccountAccess { endpoint, sign_in: SignIn::Sas(sas) })
        }
        (None, None) => Err(AzureSettingsError::Missing {
            setting: "AccountKey",
            advice: "the connection string needs it or a SharedAccessSignature",
        }),
    }
}

fn split(text: &str) -> Result<Parts<'_>, AzureSettingsError> {
    let mut parts = Parts::default();
    let pairs = text.split(';').map(str::trim).filter(|part| !part.is_empty());
    for (number, pair) in pairs.enumerate() {
        // What is not understood is not shown either: it may be a key in the wrong place (S20).
        let unknown = |problem: &str| AzureSettingsError::Malformed {
            setting: "the connection string",
            problem: format!("its part number {} {problem}", number + 1),
        };
        let (name, value) =
            pair.split_once('=').ok_or_else(|| unknown("is not of the form Name=value"))?;
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        let slot = match name.as_str() {
            "defaultendpointsprotocol" => &mut parts.protocol,
            "accountname" => &mut parts.account,
            "accountkey" => &mut parts.key,
            "sharedaccesssignature" => &mut parts.sas,
            "endpointsuffix" => &mut parts.suffix,
            "blobendpoint" => &mut parts.blob_endpoint,
            "usedevelopmentstorage" => &mut parts.development,
            "developmentstorageproxyuri" => &mut parts.proxy,
            other if OTHERS.contains(&other) => continue,
            _ => return Err(unknown("has a name that no storage connection string has")),
        };
        if slot.replace(value).is_some() {
            return Err(unknown("is there twice"));
        }
    }
    Ok(parts)
}

fn endpoint(parts: &Parts<'_>) -> Result<Url, AzureSettingsError> {
    if let Some(endpoint) = parts.blob_endpoint {
        return parse_endpoint(endpoint, "BlobEndpoint");
    }
    let account = parts.account.ok_or(AzureSettingsError::Missing {
        setting: "AccountName",
        advice: "the connection string needs it or a BlobEndpoint",
    })?;
    let account = checked_account(account)?;
    let protocol = parts.protocol.unwrap_or("https");
    if !matches!(protocol, "http" | "https") {
        return Err(malformed("DefaultEndpointsProtocol", "it must be http or https"));
    }
    let suffix = parts.suffix.unwrap_or("core.windows.net").trim_matches('.');
    parse_endpoint(&format!("{protocol}://{account}.blob.{suffix}"), "EndpointSuffix")
}

fn emulator(parts: &Parts<'_>) -> Result<AccountAccess, AzureSettingsError> {
    const PROXY: &str = "DevelopmentStorageProxyUri";
    let mut endpoint = parse_endpoint(parts.proxy.unwrap_or("http://127.0.0.1"), PROXY)?;
    if endpoint.port().is_none() {
        endpoint
            .set_port(Some(EMULATOR_PORT))
            .map_err(|()| malformed(PROXY, "it cannot have a port"))?;
    }
    endpoint.set_path(&format!("/{EMULATOR_ACCOUNT}"));
    let key = SharedKey::new(EMULATOR_ACCOUNT, EMULATOR_KEY, "the emulator's key")?;
    Ok(AccountAccess { endpoint, sign_in: SignIn::Key(key) })
}

fn malformed(setting: &'static str, problem: &str) -> AzureSettingsError {
    AzureSettingsError::Malformed { setting, problem: problem.to_owned() }
}
