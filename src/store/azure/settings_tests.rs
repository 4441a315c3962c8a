use super::*;
use crate::testing::SimClock;

const KEY: &str = "c2VjcmV0LWtleS1vZi10aGUtYWNjb3VudA==";

fn access(credential: AzureCredential) -> Result<AccountAccess, AzureSettingsError> {
    let clock: Arc<dyn Clock> = Arc::new(SimClock::new());
    AccountAccess::from_settings(&AzureSettings::new(credential), &clock, &Network::System)
}

fn connection(text: &str) -> Result<AccountAccess, AzureSettingsError> {
    access(AzureCredential::ConnectionString(Secret::new(text)))
}

#[test]
fn connection_strings_of_every_kind_name_their_endpoint() {
    let table = [
        (
            format!(
                "DefaultEndpointsProtocol=https;AccountName=orders;AccountKey={KEY};EndpointSuffix=core.windows.net"
            ),
            "https://orders.blob.core.windows.net/",
        ),
        (
            format!("AccountName=orders;AccountKey={KEY};EndpointSuffix=core.usgovcloudapi.net"),
            "https://orders.blob.core.usgovcloudapi.net/",
        ),
        (
            format!(
                "AccountName=orders;AccountKey={KEY};BlobEndpoint=http://127.0.0.1:10000/orders/"
            ),
            "http://127.0.0.1:10000/orders",
        ),
        (
            "BlobEndpoint=https://orders.blob.core.windows.net/;SharedAccessSignature=?sv=1&sig=s"
                .to_owned(),
            "https://orders.blob.core.windows.net/",
        ),
        ("UseDevelopmentStorage=true".to_owned(), "http://127.0.0.1:10000/devstoreaccount1"),
        (
            "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://azurite".to_owned(),
            "http://azurite:10000/devstoreaccount1",
        ),
    ];
    for (text, endpoint) in table {
        let access = connection(&text).unwrap();
        assert_eq!(shown(&access.endpoint), endpoint, "{text}");
        assert!(!format!("{access:?}").contains(KEY), "S20");
    }
}

#[test]
fn s19_mistakes_in_connection_strings_are_named_and_not_shown() {
    let table = [
        (String::new(), "AccountName"),
        (format!("AccountKey={KEY}"), "AccountName"),
        ("AccountName=orders".to_owned(), "AccountKey"),
        (format!("AccountName=Orders!;AccountKey={KEY}"), "account name"),
        ("AccountName=orders;AccountKey=not base64".to_owned(), "AccountKey"),
        (format!("AccountName=orders;AccountKey={KEY};AccountKey={KEY}"), "part number 3"),
        (format!("AccountName=orders;{KEY}"), "part number 2"),
        (format!("AccountName=orders;Akey={KEY}"), "part number 2"),
        (
            format!("DefaultEndpointsProtocol=ftp;AccountName=orders;AccountKey={KEY}"),
            "http or https",
        ),
        (format!("AccountName=orders;AccountKey={KEY};SharedAccessSignature=sv=1&sig=s"), "both"),
    ];
    for (text, named) in table {
        let error = connection(&text).unwrap_err().to_string();
        assert!(error.contains(named), "{text} gave {error}");
        assert!(!error.contains(KEY), "S20: {error}");
    }
}

#[test]
fn a_sas_url_may_be_of_the_service_or_of_a_container_and_of_nothing_smaller() {
    let sas = |text: &str| access(AzureCredential::SasUrl(Secret::new(text)));
    let service = sas("https://orders.blob.core.windows.net/?sv=1&sig=s").unwrap();
    assert_eq!(shown(&service.endpoint), "https://orders.blob.core.windows.net/");
    let container = sas("https://orders.blob.core.windows.net/leasehold?sr=c&sv=1&sig=s").unwrap();
    assert_eq!(shown(&container.endpoint), "https://orders.blob.core.windows.net/");
    for wrong in [
        "https://orders.blob.core.windows.net/leasehold/x?sr=b&sv=1&sig=s",
        "https://orders.blob.core.windows.net/?sv=1",
        "orders.blob.core.windows.net",
        "https://user:password@orders.blob.core.windows.net/?sv=1&sig=s",
    ] {
        let error = sas(wrong).unwrap_err().to_string();
        assert!(!error.contains("sig=s") && !error.contains("password@"), "S20: {error}");
    }
}

#[test]
fn tokens_are_sent_over_https_only() {
    let clock: Arc<dyn Clock> = Arc::new(SimClock::new());
    let settings = AzureSettings {
        endpoint: Some("http://orders.blob.core.windows.net".to_owned()),
        ..AzureSettings::new(AzureCredential::AzureCli { tenant_id: None })
    };
    let refused = AccountAccess::from_settings(&settings, &clock, &Network::System).unwrap_err();
    assert!(matches!(refused, AzureSettingsError::PlainHttp { .. }), "{refused}");
}

#[test]
fn what_carries_the_account_takes_none_beside_it() {
    let clock: Arc<dyn Clock> = Arc::new(SimClock::new());
    let settings = AzureSettings {
        account: Some("orders".to_owned()),
        ..AzureSettings::new(AzureCredential::ConnectionString(Secret::new(
            "UseDevelopmentStorage=true",
        )))
    };
    let refused = AccountAccess::from_settings(&settings, &clock, &Network::System).unwrap_err();
    assert!(matches!(refused, AzureSettingsError::Conflict { .. }), "{refused}");
}

#[test]
fn every_sign_in_by_entra_id_can_be_made_and_shows_no_secret() {
    let clock: Arc<dyn Clock> = Arc::new(SimClock::new());
    let own = |text: &str| text.to_owned();
    let token_file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token_file.path(), "a-token-of-the-pod").unwrap();
    let credentials = [
        AzureCredential::WorkloadIdentity {
            tenant_id: Some(own("00000000-0000-4000-8000-000000000001")),
            client_id: Some(own("00000000-0000-4000-8000-000000000002")),
            token_file: Some(token_file.path().to_owned()),
        },
        AzureCredential::ManagedIdentity { client_id: None },
        AzureCredential::ClientSecret {
            tenant_id: own("00000000-0000-4000-8000-000000000001"),
            client_id: own("00000000-0000-4000-8000-000000000002"),
            secret: Secret::new("hush-hush"),
        },
        AzureCredential::AzureCli { tenant_id: None },
    ];
    for credential in credentials {
        let settings =
            AzureSettings { account: Some(own("orders")), ..AzureSettings::new(credential) };
        let access = AccountAccess::from_settings(&settings, &clock, &Network::System).unwrap();
        assert!(matches!(access.sign_in, SignIn::Token(_)));
        for text in [format!("{settings:?}"), format!("{access:?}")] {
            assert!(!text.contains("hush-hush"), "S20: {text}");
        }
    }
}
