//! Every dependency has its reason, and no reason is left over.

use std::collections::BTreeSet;

use crate::{Source, assert_none, root, sources};

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

/// Commands that install Python packages which a file names, and not by their hashes.
fn without_hashes(source: &Source) -> Vec<String> {
    let text = source.text.replace("\\\n", " ");
    let installs = text.lines().filter(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut pairs = words.iter().zip(words.iter().skip(1));
        let installs = pairs.any(|(one, next)| one.ends_with("pip") && *next == "install");
        let by_file = words.iter().any(|word| ["-r", "--requirement"].contains(word));
        installs && by_file && !words.contains(&"--require-hashes")
    });
    installs
        .map(|line| format!("{}: without --require-hashes: {}", source.path, line.trim()))
        .collect()
}

/// Packages that a file pins without a hash.
fn unhashed(source: &Source) -> Vec<String> {
    let text = source.text.replace("\\\n", " ");
    let is_pin = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let pins = text.lines().filter(is_pin);
    let bare = pins.filter(|line| !line.contains("==") || !line.contains("--hash=sha256:"));
    bare.map(|line| format!("{}: no version and hash: {line}", source.path)).collect()
}

#[test]
fn python_packages_are_installed_by_their_hashes() {
    let folders = ["tests", "packaging", "clients", "examples"];
    let mut all = sources(&folders, "");
    all.push(Source {
        path: "Makefile".to_owned(),
        text: std::fs::read_to_string(root().join("Makefile")).unwrap(),
    });
    let is_pinned = |path: &str| {
        path.contains("requirements") && (path.ends_with(".txt") || path.ends_with(".lock"))
    };
    let pinned: Vec<&Source> = all.iter().filter(|source| is_pinned(&source.path)).collect();
    assert!(pinned.len() >= 8, "{}", pinned.len());
    let mut findings: Vec<String> = pinned.into_iter().flat_map(unhashed).collect();
    findings
        .extend(all.iter().filter(|source| !source.path.ends_with(".rs")).flat_map(without_hashes));
    assert_none(&findings);
}

#[test]
fn this_check_can_fail() {
    let source = |text: &str| Source { path: "x".to_owned(), text: text.to_owned() };
    let command = "venv/bin/pip install --no-deps \\\n    --requirement f";
    assert_eq!(without_hashes(&source(command)).len(), 1);
    assert_eq!(without_hashes(&source(&format!("{command} --require-hashes"))).len(), 0);
    assert_eq!(unhashed(&source("a==1 \\\n    --hash=sha256:00\n# b\nc==2\n")).len(), 1);
    assert_eq!(unhashed(&source("a>=1 --hash=sha256:00\n")).len(), 1);
    let used = dependencies("[dependencies]\na = \"1\"\n[dev-dependencies]\nb.workspace = true\n");
    let explained = reasons("| crate | why |\n| `b` | tests |\n| `c` | gone |\n");
    assert_eq!(differences(&used, &explained), ["a has no reason", "c is no dependency"]);
}
