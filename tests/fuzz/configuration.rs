//! Configuration files, flags and variables, connection strings and SAS URLs.

use std::io;
use std::sync::Arc;

use leasehold::config::{self, Config, FileText, Flag, Sources};
use leasehold::store::Secret;
use leasehold::store::azure::{AzureCredential, AzureSettings, AzureStore};
use leasehold::testing::SimClock;
use proptest::prelude::*;

use crate::fuzz::cases;
use crate::fuzz::names::nasty;

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        nasty().prop_map(|text| format!("{text:?}")),
        "[0-9]{1,25}(s|m|h|ms)?".prop_map(|text| format!("{text:?}")),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<bool>().prop_map(|flag| flag.to_string()),
        Just("[]".to_owned()),
        Just("{ a = 1 }".to_owned()),
        "\\PC{0,20}",
    ]
}

fn key() -> impl Strategy<Value = String> {
    let known: Vec<String> = config::settings().map(|setting| setting.key.to_owned()).collect();
    prop_oneof![4 => proptest::sample::select(known), 1 => "[a-z._]{1,30}"]
}

fn sources(text: String, flags: Vec<(String, String)>) -> Sources {
    let flag = |(key, value): (String, String)| Flag { name: "--set".to_owned(), key, value };
    Sources {
        file: Some(FileText { path: "leasehold.toml".into(), text }),
        variables: Vec::new(),
        flags: flags.into_iter().map(flag).collect(),
        host_name: Some("machine".to_owned()),
        read_file: |_| Err(io::Error::from(io::ErrorKind::NotFound)),
    }
}

fn connection_part() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("UseDevelopmentStorage=true".to_owned()),
        "DefaultEndpointsProtocol=(https|http|ftp|)",
        "AccountName=[a-z0-9]{0,30}",
        "AccountKey=c2VjcmV0[A-Za-z0-9+/=]{0,12}",
        "BlobEndpoint=https?://[a-z0-9.:/-]{0,30}",
        "EndpointSuffix=[a-z.]{0,20}",
        "SharedAccessSignature=sv=1&sig=c2VjcmV0[a-z%&=]{0,12}",
        "\\PC{0,20}",
    ]
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn a_configuration_is_valid_or_says_all_that_is_wrong(
        lines in proptest::collection::vec((key(), value()), 0..12),
        flags in proptest::collection::vec((key(), nasty()), 0..4),
    ) {
        let text: String = lines.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        if let Err(error) = Config::load(&sources(text, flags)) {
            prop_assert!(!error.to_string().trim().is_empty());
        }
    }

    #[test]
    fn any_text_may_be_in_the_file(text in any::<String>()) {
        let _ = Config::load(&sources(text, Vec::new()));
    }

    #[test]
    fn s20_a_connection_string_is_taken_or_refused_without_its_secrets(
        parts in proptest::collection::vec(connection_part(), 0..7)
    ) {
        let text = parts.join(";");
        let credentials = [
            AzureCredential::ConnectionString(Secret::new(text.clone())),
            AzureCredential::SasUrl(Secret::new(format!("https://a.blob.core.windows.net/?{text}"))),
            AzureCredential::SasUrl(Secret::new(text)),
        ];
        for credential in credentials {
            let settings = AzureSettings::new(credential);
            let clock = Arc::new(SimClock::new());
            let shown = match AzureStore::new(&settings, clock) {
                Ok(store) => format!("{store:?} {settings:?}"),
                Err(error) => format!("{error} {error:?} {settings:?}"),
            };
            prop_assert!(!shown.contains("c2VjcmV0"), "{shown}");
        }
    }
}
