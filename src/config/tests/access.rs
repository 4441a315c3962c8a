//! The rules of access: what they are read as, and mistakes in them.

use super::*;
use crate::access::{CertificateName, HostIds, Right, Who};

const TLS: &str = "admin.allow_break = true\nlisten.tls.certificate = 'c'\nlisten.tls.key = 'k'\n\
                   listen.tls.client_ca = 'ca'\n";

const RULES: &str = "
[[access]]
name = 'orders'
certificate = 'dns:Orders.shop.svc'
functions = ['orders.*', 'nightly']
rights = ['acquire', 'read']

[[access]]
token_sha256 = '9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08'
host_ids = ['*']
rights = ['break']

[[access]]
token_file = '/run/secrets/tokens'
host_ids = ['739df1faf6c08e78a883736d006f2964', 'b']
rights = ['check']
";

#[test]
fn rules_are_read_and_printed_as_a_file_has_them() {
    let config = load(&format!("{TLS}{RULES}"));
    let [orders, breaker, checker] = config.access.as_slice() else {
        panic!("{:?}", config.access)
    };
    let dns = CertificateName::Dns("orders.shop.svc".to_owned());
    assert_eq!((orders.name.as_str(), &orders.who), ("orders", &Who::Certificate(dns)));
    assert_eq!((&orders.host_ids, orders.functions.len()), (&HostIds::Own, 2));
    assert_eq!(orders.rights, [Right::Acquire, Right::Read]);
    let Who::TokenDigest(digest) = breaker.who else { panic!("{breaker:?}") };
    assert_eq!((digest[0], digest[31], &breaker.host_ids), (0x9f, 0x08, &HostIds::Any));
    assert!(matches!(&checker.host_ids, HostIds::Listed(listed) if listed.len() == 2));
    let printed = config.print();
    assert!(printed.contains("access = [{ "), "{printed}");
    assert_eq!(load(&printed).access, config.access);
}

#[test]
fn rules_may_stand_in_a_variable_as_toml_or_as_json() {
    for text in [
        "[{ token_file = 'a', rights = ['read'] }]",
        "[{\"token_file\": \"a\", \"rights\": [\"read\"]}]",
    ] {
        let config = Config::load(&sources("", &[("LEASEHOLD_ACCESS", text)], &[])).unwrap();
        assert_eq!(config.access.len(), 1, "{text}");
    }
}

/// A variable that something else should have filled does not take the rules of the file away.
#[test]
fn an_empty_list_is_written_out_in_variables_and_flags() {
    let file = "listen.unix = '/s'\nlisten.unix_allowed_uids = [1000]\n\
                access = [{ token_file = 'a', rights = ['read'] }]";
    for (key, variable, rules) in [
        ("access", "LEASEHOLD_ACCESS", "write [] to have no rules"),
        (
            "listen.unix_allowed_uids",
            "LEASEHOLD_LISTEN_UNIX_ALLOWED_UIDS",
            "write [] for an empty list",
        ),
    ] {
        for empty in ["", " "] {
            let flag = format!("{key}={empty}");
            for given in [sources(file, &[(variable, empty)], &[]), sources(file, &[], &[&flag])] {
                let found = mistakes(&given);
                assert_eq!(found.len(), 1, "{found:?}");
                assert!(found[0].contains(key) && found[0].contains(rules), "{found:?}");
            }
        }
        let config = Config::load(&sources(file, &[(variable, "[]")], &[])).unwrap();
        let shown = config.shown().iter().find(|shown| shown.key == key).unwrap();
        assert_eq!(shown.value.as_ref().unwrap().to_string(), "[]");
    }
}

/// An empty filter would log errors only: no refusals, no breaks.
#[test]
fn an_empty_log_filter_is_a_mistake() {
    let found = mistakes(&sources("log.filter = 'debug'", &[("LEASEHOLD_LOG_FILTER", "")], &[]));
    assert!(found.len() == 1 && found[0].contains("must not be empty"), "{found:?}");
}

#[test]
fn rules_guard_an_address_that_others_reach() {
    load(
        "store.kind = 'memory'\nlisten.tcp = '0.0.0.0:1'\nlisten.tls = { certificate = 'c', key = 'k' }\n\
         access = [{ token_file = 'a', rights = ['read'] }]",
    );
}

#[test]
fn mistakes_in_rules_are_found_at_start_with_what_may_have_been_meant() {
    let digest = "token_sha256 = '9f86'";
    for (rule, part) in [
        ("rights = ['read']", "rule 1: names no caller: give one of certificate, token_file"),
        ("certificate = 'cn:a'\ntoken_file = 'a'\nrights = ['read']", "write a rule for each"),
        ("certificate = 'orders'\nrights = ['read']", "certificate must be \"cn:NAME\""),
        ("certificate = 'cn:a'", "rights must name at least one of acquire, read, check, break"),
        ("certificate = 'cn:a'\nrights = ['aquire']", "did you mean \"acquire\"?"),
        ("certificate = 'cn:a'\nrights = 'read'", "rights must be a list of strings"),
        (
            "certificate = 'cn:a'\nrights = ['read']\nfunction = ['a']",
            "rule 1: there is no field function; did you mean functions?",
        ),
        ("certificate = 'cn:a'\nrights = ['read']\nfunctions = []", "is for every function"),
        (
            "certificate = 'cn:a'\nrights = ['read']\nfunctions = ['a*b']",
            "prefix followed by one *",
        ),
        ("certificate = 'cn:a'\nrights = ['read']\nhost_ids = ['A']", "is not a host id"),
        ("certificate = 'cn:a'\nrights = ['read']\nhost_ids = []", "the sidecar's own host id"),
        (&format!("{digest}\nrights = ['read']"), "64 hexadecimal digits"),
        ("token_file = 'missing'\nrights = ['read']", "the file missing cannot be read"),
        ("token_file = 'empty'\nrights = ['read']", "names a file that is empty"),
        ("token_file = '~/a'\nrights = ['read']", "must not begin with ~"),
    ] {
        let found = mistakes(&sources(&format!("{TLS}[[access]]\n{rule}"), &[], &[]));
        assert_eq!(found.len(), 1, "{rule}: {found:?}");
        assert!(found[0].contains(part), "{rule}: {found:?}");
        assert!(found[0].contains("access"), "{rule}: {found:?}");
    }
    let two = "[[access]]\nrights = ['read']\n[[access]]\ncertificate = 'cn:a'\nrights = ['x']";
    let found = mistakes(&sources(&format!("{TLS}{two}"), &[], &[])).remove(0);
    assert!(
        found.contains("rule 1: names no caller") && found.contains("rule 2: rights"),
        "{found}"
    );
    for file in ["access = 'cn:a'", "access = ['cn:a']", "access.rights = ['read']"] {
        let found = mistakes(&sources(file, &[], &[])).remove(0);
        assert!(found.contains("access"), "{found}");
    }
}

#[test]
fn rules_that_have_no_effect_are_mistakes() {
    let certificate = "access = [{ certificate = 'cn:a', rights = ['read'] }]";
    let breaker = "access = [{ token_file = 'a', rights = ['break'] }]";
    let operator = "access = [{ token_file = 'a', rights = ['schedule'] }]";
    let off = format!("listen.tcp = ''\nlisten.unix = '/s'\n{breaker}\nadmin.allow_break = true");
    for (file, part) in [
        (certificate, "listen.tls.client_ca"),
        (breaker, "gives the right break, and admin.allow_break is false"),
        (operator, "gives the right schedule, and admin.allow_schedule_changes is false"),
        (&off, "listen.tcp is off"),
    ] {
        let found = mistakes(&sources(file, &[], &[]));
        assert_eq!(found.len(), 1, "{file}: {found:?}");
        assert!(found[0].starts_with("leasehold.toml:") && found[0].contains(part), "{found:?}");
    }
}
