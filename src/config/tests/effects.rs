//! No setting is without effect: two values of each make two configurations.

use super::*;

/// A setting, what it needs around it, and two values.
type Row = (&'static str, &'static str, &'static str, &'static str);

const ACCOUNT: &str = "store.kind = 'azure'\nstore.azure.account = 'abc'\n";
const BY_SECRET: &str = "store.kind = 'azure'\nstore.azure.account = 'abc'\nstore.azure.tenant_id = 't'\n\
                         store.azure.client_id = 'c'\n";
const BY_WORKLOAD: &str = "store.kind = 'azure'\nstore.azure.account = 'abc'\nstore.azure.tenant_id = 't'\n\
                           store.azure.client_id = 'c'\nstore.azure.sign_in = 'workload_identity'\n";
const BY_APPLICATION: &str = "store.kind = 'azure'\nstore.azure.account = 'abc'\nstore.azure.tenant_id = 't'\n\
                              store.azure.client_id = 'c'\nstore.azure.client_secret = 's'\n";
const COLLECTOR: &str = "telemetry.traces.endpoint = 'http://a:1'\n";
const TLS: &str = "listen.tls.certificate = 'c'\nlisten.tls.key = 'k'\n";

const ROWS: &[Row] = &[
    ("store.kind", "", "'memory'", "'embedded'"),
    ("store.embedded.path", "", "'/a'", "'/b'"),
    ("store.embedded.remote_callers", "", "true", "false"),
    ("store.embedded.max_locks", "", "1", "2"),
    ("store.azure.sign_in", ACCOUNT, "'cli'", "'managed_identity'"),
    (
        "store.azure.account",
        "store.kind = 'azure'\nstore.azure.sign_in = 'cli'\n",
        "'abc'",
        "'abd'",
    ),
    (
        "store.azure.endpoint",
        "store.kind = 'azure'\nstore.azure.sign_in = 'cli'\n",
        "'https://a'",
        "'https://b'",
    ),
    ("store.azure.connection_string", "store.kind = 'azure'\n", "'a'", "'b'"),
    ("store.azure.connection_string_file", "store.kind = 'azure'\n", "'a'", "'b'"),
    ("store.azure.connection_string_env", "store.kind = 'azure'\n", "'HOME'", "'OTHER'"),
    ("store.azure.sas_url", "store.kind = 'azure'\n", "'https://a/?sig=a'", "'https://a/?sig=b'"),
    (
        "store.azure.sas_url_file",
        "store.kind = 'azure'\n",
        "'https://a/?sig=a'",
        "'https://a/?sig=b'",
    ),
    ("store.azure.account_key", ACCOUNT, "'a'", "'b'"),
    ("store.azure.account_key_file", ACCOUNT, "'a'", "'b'"),
    (
        "store.azure.tenant_id",
        "store.kind = 'azure'\nstore.azure.account = 'abc'\nstore.azure.sign_in = 'cli'\n",
        "'a'",
        "'b'",
    ),
    (
        "store.azure.client_id",
        "store.kind = 'azure'\nstore.azure.account = 'abc'\nstore.azure.sign_in = 'managed_identity'\n",
        "'a'",
        "'b'",
    ),
    ("store.azure.token_file", BY_WORKLOAD, "'a'", "'b'"),
    ("store.azure.client_secret", BY_SECRET, "'a'", "'b'"),
    ("store.azure.client_secret_file", BY_SECRET, "'a'", "'b'"),
    ("store.azure.client_certificate", BY_SECRET, "'a'", "'b'"),
    ("store.azure.authority_host", BY_APPLICATION, "'https://a'", "'https://b'"),
    (
        "store.azure.create_container",
        "store.kind = 'azure'\nstore.azure.connection_string = 'a'\n",
        "false",
        "true",
    ),
    (
        "store.azure.api_version",
        "store.kind = 'azure'\nstore.azure.connection_string = 'a'\n",
        "'1'",
        "'2'",
    ),
    ("paths.container", "", "'abc'", "'abd'"),
    ("paths.prefix", "", "'a'", "'b'"),
    ("paths.layout", "", "'readable'", "'hashed'"),
    (
        "host_id.provider",
        "host_id.host_type = 'a'\n",
        "'host-type'",
        "'static'\nhost_id.host_id = 'a'",
    ),
    ("host_id.host_type", "", "'a'", "'b'"),
    ("host_id.host_id", "host_id.provider = 'static'\n", "'a'", "'b'"),
    ("host_id.host_name", "host_id.provider = 'webjobs'\n", "'a'", "'b'"),
    ("host_id.site_name", "host_id.provider = 'functions'\n", "'a'", "'b'"),
    ("host_id.namespace", "host_id.provider = 'kubernetes'\nhost_id.owner = 'o'\n", "'a'", "'b'"),
    ("host_id.owner", "host_id.provider = 'kubernetes'\nhost_id.namespace = 'n'\n", "'a'", "'b'"),
    ("host_id.variable", "host_id.provider = 'env'\n", "'A'", "'B'"),
    ("host_id.command", "host_id.provider = 'exec'\n", "['a']", "['a', 'b']"),
    ("host_id.allow_override", "", "true", "false"),
    ("listen.tcp", "", "'127.0.0.1:1'", "'127.0.0.1:2'"),
    ("listen.unix", "", "'/a'", "'/b'"),
    ("listen.unix_allowed_uids", "listen.unix = '/a'\n", "[1]", "[1, 2]"),
    ("listen.probes", "", "'/a'", "'/b'"),
    ("listen.tls.certificate", "listen.tls.key = 'k'\n", "'a'", "'b'"),
    ("listen.tls.key", "listen.tls.certificate = 'c'\n", "'a'", "'b'"),
    ("listen.tls.client_ca", TLS, "'a'", "'b'"),
    (
        "listen.tls.crl",
        "listen.tls.certificate = 'c'\nlisten.tls.key = 'k'\nlisten.tls.client_ca = 'ca'\n",
        "'a'",
        "'b'",
    ),
    ("listen.token_file", "", "'a'", "'b'"),
    ("listen.insecure", "", "true", "false"),
    ("listen.direct", "", "true", "false"),
    ("limits.memory", "", "'64MiB'", "'128MiB'"),
    ("limits.connections", "", "1", "2"),
    ("limits.streams_per_connection", "", "256", "300"),
    ("limits.holds", "", "1", "2"),
    ("limits.resumes", "", "1", "2"),
    ("limits.waiters", "", "1", "2"),
    ("limits.watchers", "", "1", "2"),
    ("limits.remembered_locks", "", "1", "2"),
    ("limits.starts_per_second", "", "1", "2"),
    ("limits.header_list_bytes", "", "4096", "8192"),
    ("limits.worker_threads", "", "1", "2"),
    (
        "access",
        "",
        "[{ token_file = 'a', rights = ['read'] }]",
        "[{ token_file = 'a', rights = ['read', 'check'] }]",
    ),
    ("locks.lease_duration", "", "'30s'", "'31s'"),
    ("locks.poll_cap", "", "'1s'", "'2s'"),
    ("locks.hand_off", "", "'1s'", "'2s'"),
    ("locks.max_hold_default", "", "'1m'", "'2m'"),
    ("locks.max_hold_ceiling", "", "'1h'", "'2h'"),
    ("locks.wait_ceiling", "", "'1h'", "'2h'"),
    ("locks.holder", "", "'a'", "'b'"),
    ("drain.period", "", "'1s'", "'2s'"),
    ("drain.hand_over", "", "false", "true"),
    ("admin.listen", "", "''", "'127.0.0.1:1'"),
    ("admin.page", "", "'everyone'", "'off'"),
    ("admin.page_hosts", "", "['a']", "['a', 'b']"),
    ("admin.allow_break", "", "true", "false"),
    ("admin.allow_schedule_changes", "", "true", "false"),
    ("admin.schedule_labels", "", "true", "false"),
    ("log.format", "", "'json'", "'human'"),
    ("log.filter", "", "'info'", "'debug'"),
    ("telemetry.traces.enabled", COLLECTOR, "true", "false"),
    ("telemetry.traces.endpoint", "", "'http://a:1'", "'http://b:1'"),
    ("telemetry.traces.headers", COLLECTOR, "'a=1'", "'a=2'"),
    ("telemetry.traces.timeout", COLLECTOR, "'1s'", "'2s'"),
    ("telemetry.traces.ca_file", "telemetry.traces.endpoint = 'https://a:1'\n", "'a'", "'b'"),
    ("telemetry.traces.service_name", COLLECTOR, "'a'", "'b'"),
    ("telemetry.traces.resource_attributes", COLLECTOR, "'a=1'", "'a=2'"),
    ("telemetry.traces.sampler", COLLECTOR, "'always_on'", "'always_off'"),
    ("telemetry.traces.ratio", COLLECTOR, "'0.1'", "'0.2'"),
];

#[test]
fn every_setting_changes_the_configuration() {
    let keys: Vec<&str> = settings().map(|setting| setting.key).collect();
    let rows: Vec<&str> = ROWS.iter().map(|row| row.0).collect();
    assert_eq!(keys, rows, "each setting has a row here, in the table's order");
    for (key, around, one, other) in ROWS {
        let load = |value: &str| {
            let file = format!("{around}{key} = {value}");
            let variables = [("OTHER", "other")];
            Config::load(&sources(&file, &variables, &[]))
                .unwrap_or_else(|error| panic!("{file}\n{error}"))
        };
        let (one, other) = (load(one), load(other));
        let secrets = one.store != other.store || one.traces != other.traces;
        let differs = secrets || sections(&one) != sections(&other);
        assert!(differs, "{key} has no effect");
    }
}

/// Everything but what has secrets and so compares by itself, and what is shown.
fn sections(config: &Config) -> String {
    let Config { store: _, shown: _, paths, host_id, listen, access, .. } = config;
    let Config { limits, locks, drain, admin, log, .. } = config;
    format!(
        "{paths:?} {host_id:?} {listen:?} {access:?} {limits:?} {locks:?} {drain:?} {admin:?} {log:?}"
    )
}
