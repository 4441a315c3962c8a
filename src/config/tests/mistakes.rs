//! All mistakes at once, each with its origin and a way out.

use super::*;

#[test]
fn all_mistakes_are_found_at_once() {
    let file =
        "[locks]\nlease_duration = \"90s\"\npoll_cap = 5\n\n[limits]\nholds = 0\nholdz = 1\n";
    let variables = [("LEASEHOLD_STORE_KIND", "azur"), ("LEASEHOLD_LOG_FORMATT", "json")];
    let flags = ["store.azure.account_key=hunter2", "admin.listen=localhost:80"];
    assert_eq!(
        mistakes(&sources(file, &variables, &flags)),
        [
            "leasehold.toml:2: locks.lease_duration = \"90s\": must be a duration from 15s to 1m, with its unit, such \
             as \"15s\"",
            "leasehold.toml:3: locks.poll_cap = 5: must be a duration from 250ms to 1m, with its unit, such as \
             \"250ms\"",
            "leasehold.toml:6: limits.holds = 0: must be a whole number from 1 to 1000000",
            "leasehold.toml:7: there is no setting limits.holdz; did you mean limits.holds?",
            "LEASEHOLD_STORE_KIND: store.kind = \"azur\": must be one of embedded, azure, memory; did you mean \
             \"azure\"?",
            "LEASEHOLD_LOG_FORMATT: there is no setting LEASEHOLD_LOG_FORMATT; did you mean LEASEHOLD_LOG_FORMAT?",
            "--set: store.azure.account_key is a secret, and the process list shows flags: put it into a file and give \
             store.azure.account_key_file, or set the variable LEASEHOLD_STORE_AZURE_ACCOUNT_KEY",
            "--set: admin.listen = \"localhost:80\": must be an IP address and a port, such as \"127.0.0.1:50951\" or \
             \"[::1]:50951\", or \"\" for none",
        ]
    );
}

#[test]
fn a_number_of_threads_that_cannot_be_meant_is_refused() {
    for threads in ["0", "1000", "-1"] {
        let found = mistakes(&sources(&format!("limits.worker_threads = {threads}"), &[], &[]));
        let expected = "must be a whole number from 1 to 64";
        assert!(found.len() == 1 && found[0].ends_with(expected), "{threads}: {found:?}");
    }
}

#[test]
fn a_mistake_causes_no_second_one() {
    for file in [
        "store.kind = 'azur'\nstore.azure.account = 'x'",
        "host_id.provider = 'statik'\nhost_id.host_id = 'a'",
        "host_id.provider = 'static'\nhost_id.host_id = 'A'",
        "host_id.provider = 'static'\nhost_id.hostid = 'a'",
        "listen.tls.certificate = 7\nlisten.tls.key = 'key.pem'",
        "store.kind = 'azure'\nstore.azure.sign_in = 'keys'\nstore.azure.account_key_file = 'k'",
        "store.kind = 'azure'\nstore.azure.sas_url_file = 'missing'",
        "store.kind = 'azure'\nstore.azure.connection_string_env = ''",
        "locks.lease_duration = '15.5s'\nlocks.hand_off = '7s'",
        "[locks\npoll_cap = '5s'\n",
    ] {
        assert_eq!(mistakes(&sources(file, &[], &[])).len(), 1, "{file}");
    }
}

#[test]
fn a_file_that_is_no_toml_says_where() {
    let found = mistakes(&sources("[store]\nkind = memory\n", &[], &["limits.holds=x"]));
    assert!(found[0].starts_with("leasehold.toml:2: "), "{found:?}");
    assert_eq!(
        found.len(),
        2,
        "what the file would have set is unknown, the rest is checked: {found:?}"
    );
    let found = mistakes(&sources("[store]\nkind = 'memory'\nkind = 'azure'\n", &[], &[]));
    assert!(found[0].starts_with("leasehold.toml:3: "), "{found:?}");
}

#[test]
fn unknown_keys_get_the_closest_as_a_suggestion() {
    for (file, expected) in [
        ("lease_duration = '30s'", Some("locks.lease_duration")),
        ("[lock]\nlease_duration = '30s'", Some("locks.lease_duration")),
        ("[store.azure]\nacount = 'x'", Some("store.azure.account")),
        ("stores = 1", None),
        ("colour = 'blue'", None),
    ] {
        let error = Config::load(&sources(file, &[], &[])).unwrap_err();
        let [Mistake::Unknown { suggestion, .. }] = error.mistakes.as_slice() else {
            panic!("{file}: {error}")
        };
        assert_eq!(suggestion.as_deref(), expected, "{file}");
    }
}

#[test]
fn a_section_has_no_value() {
    let found = mistakes(&sources("listen = '127.0.0.1:1'", &[], &["store.azure=x"]));
    let text = "is a section: it has settings, and no value of its own";
    assert_eq!(
        found,
        [format!("leasehold.toml:1: listen {text}"), format!("--set: store.azure {text}")]
    );
    assert_eq!(
        mistakes(&sources("[stores]", &[], &[])),
        ["leasehold.toml:1: there is no setting stores"]
    );
}

#[test]
fn variables_of_clients_and_of_kubernetes_are_left_alone() {
    let variables = [
        ("LEASEHOLD_ENDPOINT", "http://127.0.0.1:1"),
        ("LEASEHOLD_CONFIG", "/etc/leasehold.toml"),
        ("LEASEHOLD_FENCING_TOKEN", "7"),
        ("LEASEHOLD_LOCK_PATH", "x"),
        ("LEASEHOLD_LEASE_ID", "x"),
        ("LEASEHOLD_PERMIT", "0"),
        ("LEASEHOLD_PROGRAM", "/usr/bin/leasehold"),
        ("LEASEHOLD_PRIORITY", "7"),
        ("LEASEHOLD_REBALANCE", "true"),
        ("LEASEHOLD_SHARE", "queues"),
        ("LEASEHOLD_YIELDS", "true"),
        ("LEASEHOLD_REQUEST_ID", "x"),
        ("LEASEHOLD_LOG", "debug"),
        ("LEASEHOLD_AZURITE", "x"),
        ("LEASEHOLD_TEST_ANYTHING", "x"),
        ("LEASEHOLD_SERVICE_HOST", "10.0.0.1"),
        ("LEASEHOLD_SERVICE_PORT", "50951"),
        ("LEASEHOLD_SERVICE_PORT_GRPC", "50951"),
        ("LEASEHOLD_PORT", "tcp://10.0.0.1:50951"),
        ("LEASEHOLD_PORT_50951_TCP_ADDR", "10.0.0.1"),
        ("LEASEHOLD_ADMIN_PORT_80_TCP", "tcp://10.0.0.1:80"),
        ("OTHER", "x"),
    ];
    assert!(Config::load(&sources("", &variables, &[])).is_ok());
    for unknown in ["LEASEHOLD_PORT", "LEASEHOLD_", "LEASEHOLD_TESTS", "LEASEHOLD_STORE_AZURE"] {
        assert_eq!(mistakes(&sources("", &[(unknown, "50951")], &[])).len(), 1, "{unknown}");
    }
}

#[test]
fn s20_no_message_and_no_output_shows_a_secret() {
    let file = "[store]\nkind = 'azure'\n[store.azure]\naccount = 'devstoreaccount1'\naccount_key = 'hunter2'";
    let config = load(file);
    let shown = format!("{config:?}\n{}", config.print());
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(
        shown.contains("# store.azure.account_key is set, and secret  # leasehold.toml:5"),
        "{shown}"
    );
    for (file, variables, flags) in [
        ("store.azure.account_key = ['hunter2']", vec![], vec![]),
        ("store.kind = 'azure'\nstore.azure.sas_url = 'hunter2'", vec![], vec![]),
        ("store.azure.sas_url = 'https://a/?sig=hunter2'", vec![], vec![]),
        ("store.azure.account_key = 'hunter2'\nstore.azure.account_key_file = 'k'", vec![], vec![]),
        ("", vec![("LEASEHOLD_STORE_AZURE_CLIENT_SECRET", "hunter2")], vec![]),
        ("", vec![], vec!["store.azure.client_secret=hunter2"]),
        (
            "store.kind = 'azure'\nstore.azure = { sign_in = 'cli', endpoint = 'https://a?sig=hunter2' }",
            vec![],
            vec![],
        ),
        ("store.azure.acount_key = 'hunter2'", vec![], vec![]),
        ("store.azure.account_key = 'hunter2' x", vec![], vec![]),
    ] {
        let sources = sources(file, &variables, &flags);
        let error = Config::load(&sources).unwrap_err();
        let shown = format!("{error} {error:?} {sources:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn a_variable_that_is_not_utf8_is_a_mistake() {
    use std::os::unix::ffi::OsStringExt as _;
    let mut sources = sources("", &[], &[]);
    sources.variables.push(("LEASEHOLD_LOCKS_HOLDER".into(), OsString::from_vec(vec![0xff])));
    assert_eq!(mistakes(&sources), ["LEASEHOLD_LOCKS_HOLDER: locks.holder must be UTF-8"]);
}

#[test]
fn set_needs_an_equals_sign() {
    assert!(Flag::set("locks.poll_cap").is_err());
    let flag = Flag::set("host_id.command=[\"a\", \"b=c\"]").unwrap();
    assert_eq!((flag.key.as_str(), flag.value.as_str()), ("host_id.command", "[\"a\", \"b=c\"]"));
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let path = std::path::Path::new("/nowhere/leasehold.toml");
    let error = Sources::of_process(Some(path), vec![]).unwrap_err().to_string();
    assert!(error.contains("--config: the file /nowhere/leasehold.toml cannot be read"), "{error}");
}

#[test]
fn the_process_is_a_source() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leasehold.toml");
    std::fs::write(&path, "limits.holds = 7").unwrap();
    let mut sources = Sources::of_process(Some(&path), vec![]).unwrap();
    assert!(sources.variables.iter().any(|(name, _)| name == "PATH"));
    assert!(sources.host_name.as_ref().is_some_and(|name| !name.is_empty()));
    sources.variables.retain(|(name, _)| !name.to_string_lossy().starts_with("LEASEHOLD_"));
    assert_eq!(Config::load(&sources).unwrap().limits.holds, 7);
}
