//! What is written about settings: the snapshot of `--print-config`, and the documentation.

use std::fmt::Write as _;
use std::path::Path;

use super::*;
use crate::lock::{LockKey, LockMode};

/// Compares with a file of the repository; `LEASEHOLD_TEST_UPDATE=1` writes it anew.
fn assert_file(path: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("LEASEHOLD_TEST_UPDATE").is_some() {
        std::fs::write(&path, expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap();
    assert!(
        found == expected,
        "{} is not up to date: run this test with LEASEHOLD_TEST_UPDATE=1\n{expected}",
        path.display()
    );
}

#[test]
fn print_config_shows_values_and_origins() {
    let file = "[store]\nkind = \"azure\"\n\
                azure = { account = \"keepers\", account_key_file = \"/run/secrets/key\" }\n\n\
                [host_id]\nhost_type = \"Keeper-A\"\n\n[listen]\nunix = \"/run/leasehold.sock\"\n\
                unix_allowed_uids = [1000, 1001]\n";
    let variables = [("LEASEHOLD_LOCKS_LEASE_DURATION", "30s"), ("POD_NAME", "keeper-a-0")];
    let config = Config::load(&sources(file, &variables, &["listen.tcp="])).unwrap();
    assert_file("src/config/tests/print_config.toml", &config.print());
}

const BEGIN: &str = "<!-- settings: this table is checked against the code -->\n";
const END: &str = "<!-- end of settings -->\n";

fn document(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn the_documentation_has_every_setting_and_no_other() {
    let text = document("docs/configuration.md");
    let (before, rest) = text.split_once(BEGIN).expect("the table's beginning");
    let (_, after) = rest.split_once(END).expect("the table's end");
    let mut table =
        String::from("| setting | what it is | value | default |\n| --- | --- | --- | --- |\n");
    for setting in settings() {
        let secret = if setting.secret { " Never as a flag." } else { "" };
        let (value, default) = (setting.type_text(), setting.default_text());
        writeln!(table, "| `{}` | {}{secret} | {value} | {default} |", setting.key, setting.doc)
            .unwrap();
    }
    assert_file("docs/configuration.md", &format!("{before}{BEGIN}{table}{END}{after}"));
}

#[test]
fn s38_the_documentation_has_the_defaults_that_follow_from_the_memory() {
    const BEGIN: &str = "<!-- memory: this table is checked against the code -->\n";
    const END: &str = "<!-- end of memory -->\n";
    let text = document("docs/sizing.md");
    let (before, rest) = text.split_once(BEGIN).expect("the table's beginning");
    let (_, after) = rest.split_once(END).expect("the table's end");
    let mut table = String::from(
        "| `limits.memory` | `connections`, at each listener | `holds`, and as many `resumes` | `waiters` | `watchers` |\n\
         | --- | --- | --- | --- | --- |\n",
    );
    for memory in ["48MiB", "96MiB", "192MiB", "256MiB", "768MiB", "1536MiB"] {
        let flag = format!("limits.memory={memory}");
        let limits = Config::load(&sources("", &[], &[&flag])).unwrap().limits;
        let (connections, holds) = (limits.connections, limits.holds);
        let (waiters, watchers) = (limits.waiters, limits.watchers);
        assert_eq!(limits.excess(), None);
        writeln!(table, "| {memory} | {connections} | {holds} | {waiters} | {watchers} |").unwrap();
    }
    assert_file("docs/sizing.md", &format!("{before}{BEGIN}{table}{END}{after}"));
}

#[test]
fn the_examples_of_the_documentation_load() {
    for path in ["docs/configuration.md", "docs/paths.md"] {
        let text = document(path);
        let blocks: Vec<&str> =
            text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
        assert!(blocks.len() >= 3, "{path} has examples");
        let pod = [
            ("POD_NAMESPACE", "shop"),
            ("POD_OWNER", "orders-worker"),
            ("AZURE_TENANT_ID", "t"),
            ("AZURE_CLIENT_ID", "c"),
            ("AZURE_FEDERATED_TOKEN_FILE", "/f"),
            ("AzureWebJobsStorage", "UseDevelopmentStorage=true"),
        ];
        for block in blocks {
            let loaded = Config::load(&sources(block, &pod, &[]));
            let config = loaded.unwrap_or_else(|error| panic!("{path}:\n{block}\n{error}"));
            assert_host_id(block, &config);
        }
    }
}

/// The host id that an example has in its comment is the one it leads to.
fn assert_host_id(example: &str, config: &Config) {
    let words = example.split_whitespace();
    let shown = words
        .into_iter()
        .find(|word| word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if let Some(host_id) = shown {
        assert_eq!(
            config.host_id.provider.as_dyn().provide().unwrap().host_id.as_str(),
            host_id,
            "{example}"
        );
    }
}

#[test]
fn the_path_in_the_documentation_is_the_path_of_its_lock() {
    let config = load("host_id.host_type = 'Keeper-A'");
    let identity = config.host_id.provider.as_dyn().provide().unwrap();
    let key = LockKey::new("Keeper.Run", "tenant-7", LockMode::Function).unwrap();
    let path = config.paths.lock_path(&identity.host_id, &identity.host_type, &key).unwrap();
    let shown = path.as_str().replacen('/', " / ", 3);
    assert!(document("docs/paths.md").contains(&shown), "{shown}");
}

#[test]
fn the_documentation_names_variables_that_are_read() {
    let text = document("docs/configuration.md") + &document("docs/paths.md");
    let known: Vec<String> = settings().map(Setting::variable).collect();
    let names = text.split(|letter: char| {
        !(letter.is_ascii_uppercase() || letter == '_' || letter.is_ascii_digit())
    });
    for name in
        names.filter(|name| name.len() > "LEASEHOLD_".len() && name.starts_with("LEASEHOLD_"))
    {
        let of_clients =
            ["LEASEHOLD_CONFIG", "LEASEHOLD_ENDPOINT", "LEASEHOLD_TEST_UPDATE"].contains(&name);
        assert!(
            of_clients || known.iter().any(|known| known == name),
            "{name} is documented, and not read"
        );
    }
}
