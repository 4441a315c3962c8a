//! Every dependency has its reason, and no reason is left over.

use std::collections::BTreeSet;

use crate::{assert_none, root};

/// The dependencies that a manifest names for a package.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let manifest: toml::Table = manifest.parse().unwrap();
    let sections = ["dependencies", "dev-dependencies", "build-dependencies"];
    let tables = sections.iter().filter_map(|section| manifest.get(*section)?.as_table());
    tables.flat_map(|table| table.keys().cloned()).collect()
}

/// The crates that the page gives a reason for.
fn reasons(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split('`').next()).map(str::to_owned).collect()
}

fn differences(used: &BTreeSet<String>, explained: &BTreeSet<String>) -> Vec<String> {
    let missing = used.difference(explained).map(|name| format!("{name} has no reason"));
    let left = explained.difference(used).map(|name| format!("{name} is no dependency"));
    missing.chain(left).collect()
}

#[test]
fn every_dependency_has_its_reason() {
    let manifests = ["Cargo.toml", "clients/rust/Cargo.toml"];
    let used = manifests
        .iter()
        .flat_map(|path| dependencies(&std::fs::read_to_string(root().join(path)).unwrap()))
        .collect();
    let page = std::fs::read_to_string(root().join("docs/dependencies.md")).unwrap();
    assert_none(&differences(&used, &reasons(&page)));
}

#[test]
fn this_check_can_fail() {
    let used = dependencies("[dependencies]\na = \"1\"\n[dev-dependencies]\nb.workspace = true\n");
    let explained = reasons("| crate | why |\n| `b` | tests |\n| `c` | gone |\n");
    assert_eq!(differences(&used, &explained), ["a has no reason", "c is no dependency"]);
}
