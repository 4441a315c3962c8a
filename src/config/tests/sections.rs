//! Settings that need each other, or do not go together.

use super::*;
use crate::store::Secret;
use crate::store::azure::{AzureCredential, AzureSettings};

/// The one mistake that `file` has.
fn mistake(file: &str) -> String {
    let found = mistakes(&sources(file, &[], &[]));
    assert_eq!(found.len(), 1, "{file}: {found:?}");
    found.into_iter().next().unwrap()
}

#[test]
fn what_does_not_go_together_is_refused() {
    for (file, part) in [
        ("listen.tcp = ''", "no client can connect"),
        (
            "store.kind = 'memory'\nlisten.tcp = '0.0.0.0:1'",
            "bearer tokens (listen.token_file), or write rules (access), or allow every client",
        ),
        ("store.kind = 'memory'\nlisten.tcp = '[::]:1'", "listen.insecure = true"),
        (
            "listen.tcp = '0.0.0.0:1'\nlisten.insecure = true",
            "store.embedded.remote_callers = true",
        ),
        (
            "store.kind = 'memory'\nstore.embedded.remote_callers = true",
            "is for the store embedded, and store.kind is memory",
        ),
        (
            "store.kind = 'memory'\nlisten.tcp = '10.0.0.1:1'\nlisten.tls.certificate = 'c'\nlisten.tls.key = 'k'",
            "can be reached from other machines",
        ),
        (
            "store.kind = 'memory'\nlisten.tcp = '0.0.0.0:1'\nlisten.token_file = '/tokens'",
            "tokens would be sent in plain text",
        ),
        (
            "store.kind = 'memory'\nlisten.tcp = '[::]:1'\n[[access]]\ntoken_file = '/t'\nrights = ['read']",
            "listen.insecure = true",
        ),
        (
            "listen.tls = { certificate = 'c', key = 'k', crl = 'crl' }",
            "no client has to present one: set listen.tls.client_ca",
        ),
        ("listen.tls.certificate = 'c'", "listen.tls.key is missing: TLS needs"),
        (
            "listen.tls.certificate = 'missing'\nlisten.tls.key = 'k'",
            "the file missing cannot be read",
        ),
        ("listen.token_file = 'empty'", "names a file that is empty"),
        ("listen.unix = 'relative'", "must be an absolute path of at most 107 bytes"),
        ("listen.unix_allowed_uids = [1]", "listen.unix is not: set it"),
        (
            "listen.tcp = ''\nlisten.unix = '/l'\nlisten.tls.certificate = 'c'\nlisten.tls.key = 'k'",
            "listen.tls is for listen.tcp, which is off",
        ),
        ("admin.listen = '127.0.0.1:50951'", "admin.listen is the same address as listen.tcp"),
        (
            "locks.lease_duration = '20s'\nlocks.hand_off = '11s'",
            "more than half of locks.lease_duration",
        ),
        ("locks.lease_duration = '15500ms'", "must be in whole seconds"),
        (
            "locks.max_hold_default = '2h'\nlocks.max_hold_ceiling = '1h'",
            "greater than locks.max_hold_ceiling",
        ),
        ("store.embedded.path = 'locks.db'", "must be an absolute path"),
        ("store.embedded.path = '~/locks.db'", "must not begin with ~"),
        (
            "store.kind = 'memory'\nstore.embedded.path = '/l'",
            "is for the store embedded, and store.kind is memory",
        ),
        ("store.azure.account = 'abc'", "set store.kind = \"azure\", or remove it"),
        ("log.filter = 'leasehold=loud'", "not a log filter"),
        ("paths.container = 'A'", "is not a container name"),
        ("paths.prefix = '/a'", "is not a prefix"),
    ] {
        let text = mistake(file);
        assert!(text.contains(part), "{file}: {text}");
    }
}

#[test]
fn what_is_enough_is_accepted() {
    for file in [
        "listen.tcp = ''\nlisten.unix = '/run/leasehold.sock'",
        "store.embedded.remote_callers = true\nlisten.tcp = '0.0.0.0:1'\nlisten.insecure = true",
        "store.kind = 'memory'\nlisten.tcp = '0.0.0.0:1'\nlisten.insecure = true",
        "store.kind = 'memory'\nlisten.tcp = '0.0.0.0:1'\nlisten.token_file = '/tokens'\nlisten.insecure = true",
        "listen.token_file = '/tokens'",
        "store.kind = 'memory'\n[listen]\ntcp = '0.0.0.0:1'\ntoken_file = '/t'\ntls = { certificate = 'c', key = 'k' }",
        "listen.tls = { certificate = 'c', key = 'k', client_ca = 'ca', crl = 'crl' }",
        "store.kind = 'memory'\n[listen]\ntcp = '0.0.0.0:1'\ntls = { certificate = 'c', key = 'k', client_ca = 'ca' }",
        "listen.tcp = '127.3.2.1:1'",
        "listen.tcp = '127.0.0.1:0'\nadmin.listen = '127.0.0.1:0'",
        "admin.listen = ''",
        "locks.lease_duration = '15s'\nlocks.hand_off = '7s 500ms'",
    ] {
        load(file);
    }
}

#[test]
fn providers_need_their_settings_and_no_others() {
    for (file, part) in [
        ("host_id.provider = 'static'", "host_id.host_id is missing: the host-id provider static"),
        ("host_id.provider = 'webjobs'", "host_id.host_name is missing"),
        ("host_id.provider = 'functions'", "LEASEHOLD_HOST_ID_SITE_NAME"),
        ("host_id.provider = 'env'", "host_id.variable is missing"),
        ("host_id.provider = 'exec'", "host_id.command is missing"),
        ("host_id.provider = 'exec'\nhost_id.command = []", "must name a program"),
        (
            "host_id.host_name = 'x'",
            "is for the host-id provider webjobs, and host_id.provider is host-type",
        ),
        (
            "host_id.provider = 'webjobs'\nhost_id.host_name = 'x'\nhost_id.host_type = 'y'",
            "is for the host-id provider host-type or static or exec",
        ),
    ] {
        let text = mistake(file);
        assert!(text.contains(part), "{file}: {text}");
    }
    let found = mistakes(&sources("host_id.provider = 'kubernetes'", &[], &[]));
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn kubernetes_finds_namespace_and_owner_in_the_pod() {
    let variables = [("POD_NAMESPACE", "shop"), ("POD_OWNER", "orders-worker")];
    let sources = sources("host_id.provider = 'kubernetes'", &variables, &[]);
    let identity = Config::load(&sources).unwrap().host_id.provider.as_dyn().provide().unwrap();
    assert_eq!(identity.host_type.as_str(), "shop/orders-worker");
}

fn azure(settings: &str) -> String {
    format!("store.kind = 'azure'\n[store.azure]\n{settings}")
}

#[test]
fn azure_needs_an_account_and_a_way_to_sign_in() {
    for (settings, part) in [
        ("account = 'abc'", "store.azure.sign_in is missing"),
        ("account_key = 'k'", "store.azure.account is missing"),
        ("account = 'Abc'\naccount_key = 'k'", "3 to 24 lower-case letters and digits"),
        ("account = 'abc'\naccount_key = 'k'\nendpoint = 'abc'", "must be a URL without a query"),
        ("sign_in = 'account_key'\naccount = 'abc'", "store.azure.account_key is missing"),
        ("account = 'abc'\naccount_key_file = 'empty'", "names a file that is empty"),
        ("account = 'abc'\naccount_key_file = 'missing'", "the file missing cannot be read"),
        (
            "account = 'abc'\naccount_key = 'k'\naccount_key_file = 'f'",
            "store.azure.account_key and store.azure.account_key_file are both set",
        ),
        ("connection_string_env = 'AzureWebJobsStorage'", "AzureWebJobsStorage, which is not set"),
        ("connection_string = 'x'\naccount = 'abc'", "store.azure.sign_in is connection_string"),
        (
            "connection_string = 'x'\nsign_in = 'cli'\naccount = 'abc'",
            "is for the sign-in connection_string",
        ),
        ("sas_url = 'https://abc.blob.core.windows.net'", "must be a URL with a signature"),
        ("sign_in = 'cli'", "store.azure.account is missing: without it, or an endpoint"),
        ("sign_in = 'cli'\nendpoint = 'http://abc'", "must begin with https://"),
        (
            "sign_in = 'managed_identity'\naccount = 'abc'\ntenant_id = 't'",
            "is for the sign-in workload_identity",
        ),
        (
            "client_secret = 's'\naccount = 'abc'\ntenant_id = 't'",
            "store.azure.client_id is missing",
        ),
        (
            "sign_in = 'workload_identity'\naccount = 'abc'\ntenant_id = 't'\nclient_id = 'c'\n\
             token_file = 'f'\nauthority_host = 'http://login'",
            "because secrets are sent to it",
        ),
    ] {
        let text = mistake(&azure(settings));
        assert!(text.contains(part), "{settings}: {text}");
    }
    let two = mistake(&azure("account = 'abc'\naccount_key = 'k'\nclient_secret = 's'"));
    let both = "store.azure.account_key and store.azure.client_secret are both set";
    assert!(two.contains(both), "{two}");
}

fn sign_in(settings: &str, variables: &[(&str, &str)]) -> AzureSettings {
    match Config::load(&sources(&azure(settings), variables, &[])).unwrap().store {
        Store::Azure(azure) => *azure,
        store @ (Store::Embedded { .. } | Store::Memory) => panic!("{store:?}"),
    }
}

#[test]
fn secrets_come_from_files_and_named_variables() {
    let file = sign_in("connection_string_file = '/secrets/storage'", &[]);
    let connection = |text: &str| AzureCredential::ConnectionString(Secret::new(text));
    assert_eq!(file.credential, connection("/secrets/storage"));
    let variables = [("AzureWebJobsStorage", "UseDevelopmentStorage=true")];
    let named = sign_in("connection_string_env = 'AzureWebJobsStorage'", &variables);
    assert_eq!(named.credential, connection("UseDevelopmentStorage=true"));
}

#[test]
fn endpoints_are_made_from_accounts() {
    let AzureSettings { credential, account, endpoint, .. } =
        sign_in("account = 'abc'\naccount_key = 'k'", &[]);
    assert_eq!(credential, AzureCredential::AccountKey(Secret::new("k")));
    assert_eq!(account.as_deref(), Some("abc"));
    assert_eq!(endpoint.as_deref(), Some("https://abc.blob.core.windows.net"));
    let settings = "account = 'abc'\naccount_key = 'k'\nendpoint = 'http://127.0.0.1:10000/abc/'";
    let endpoint = sign_in(settings, &[]).endpoint;
    assert_eq!(endpoint.as_deref(), Some("http://127.0.0.1:10000/abc"));
}

#[test]
fn a_workload_identity_finds_what_its_webhook_sets() {
    let variables = [
        ("AZURE_TENANT_ID", "tenant"),
        ("AZURE_CLIENT_ID", "client"),
        ("AZURE_FEDERATED_TOKEN_FILE", "/var/run/token"),
    ];
    let workload = sign_in("sign_in = 'workload_identity'\naccount = 'abc'", &variables);
    let token_file = Some(PathBuf::from("/var/run/token"));
    let (tenant_id, client_id) = (Some("tenant".to_owned()), Some("client".to_owned()));
    let expected = AzureCredential::WorkloadIdentity { tenant_id, client_id, token_file };
    assert_eq!(workload.credential, expected);
    let managed = sign_in("sign_in = 'managed_identity'\naccount = 'abc'", &variables);
    let expected = AzureCredential::ManagedIdentity { client_id: None };
    assert_eq!(managed.credential, expected, "foreign variables choose nothing");
}

#[test]
fn what_strangers_can_do_at_an_address_is_known() {
    let exposure = |file: &str| {
        let config = load(&format!("store.kind = 'memory'\nlisten.insecure = true\n{file}"));
        config.listen.exposure(&config.access)
    };
    let tls = "listen.tls = { certificate = 'c', key = 'k' }";
    for (file, expected) in [
        ("listen.tcp = '127.0.0.1:1'".to_owned(), None),
        ("listen.tcp = '127.0.0.1:1'\nlisten.token_file = '/t'".to_owned(), None),
        ("listen.tcp = '0.0.0.0:1'".to_owned(), Some(Exposure::Everybody)),
        (format!("listen.tcp = '0.0.0.0:1'\n{tls}"), Some(Exposure::Everybody)),
        (
            "listen.tcp = '0.0.0.0:1'\nlisten.token_file = '/t'".to_owned(),
            Some(Exposure::PlainText),
        ),
        (format!("listen.tcp = '0.0.0.0:1'\nlisten.token_file = '/t'\n{tls}"), None),
    ] {
        assert_eq!(exposure(&file), expected, "{file}");
    }
}
