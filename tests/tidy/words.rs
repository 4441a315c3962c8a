//! Words: what readers meet is plain, and the same everywhere.

use crate::{Source, assert_none, root, sources};

/// Where each client's unit tests compare what it says with the list of all clients' words.
const WORDS: [&str; 5] = [
    "clients/go/words_test.go",
    "clients/java/src/test/java/dev/leasehold/client/WordsTest.java",
    "clients/python/tests/words_test.py",
    "clients/rust/src/errors/words_tests.rs",
    "clients/typescript/test/words.test.ts",
];

#[test]
fn every_client_compares_its_words_with_the_list() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let without =
        WORDS.into_iter().filter(|path| !read(path).contains("proto/vectors/words.jsonl"));
    assert_none(&without.map(|path| format!("{path} does not read the list")).collect::<Vec<_>>());
}

/// Words that only those know who have read the code, and what to say instead.
const INSIDE: [(&str, &str); 6] = [
    ("occasion", "occurrence"),
    ("overruled", "broken for a waiting caller"),
    ("obstacle", "reason"),
    ("poll cap", "the longest pause between two tries"),
    ("second world", "the simulated service"),
    ("odd night", "the two nights when clocks change"),
];

fn inside_words(page: &Source) -> Vec<String> {
    let lines = (1..).zip(page.text.lines().map(str::to_lowercase));
    lines
        .flat_map(|(number, line)| {
            let found = INSIDE.into_iter().filter(move |(word, _)| line.contains(word));
            found.map(move |(word, instead)| {
                format!("{}:{number}: say {instead:?}, not {word:?}", page.path)
            })
        })
        .collect()
}

#[test]
fn pages_are_in_words_that_readers_know() {
    let pages = sources(&[""], ".md").into_iter().chain(sources(&["proto"], ".proto"));
    let findings: Vec<String> = pages.flat_map(|page| inside_words(&page)).collect();
    assert_none(&findings);
}

/// How far from the first mention the explanation may be, in bytes: in the same paragraphs, or behind a block
/// of code.
const NEAR: usize = 1_000;

/// Where a page first speaks of host ids or host types, it explains them, or leads to where they are
/// explained.
fn unexplained(page: &Source) -> Option<String> {
    let text = page.text.to_lowercase().replace(['_', '-'], " ");
    let named = ["host id", "host type", "hosttype", "hostid"];
    let first = named.into_iter().filter_map(|word| text.find(word)).min()?;
    let from = (0..=first.saturating_sub(NEAR)).rev().find(|at| text.is_char_boundary(*at))?;
    let to = (first + NEAR..).find(|at| *at >= text.len() || text.is_char_boundary(*at))?;
    let to = to.min(text.len());
    let around = text.get(from..to)?;
    let is_explained = around.contains("paths.md");
    (!is_explained).then(|| format!("{}: explain the host id where it is first named", page.path))
}

#[test]
fn host_ids_and_host_types_are_explained_where_they_are_first_named() {
    let folders = ["docs", "clients", "examples"];
    let findings: Vec<String> = sources(&folders, ".md")
        .iter()
        .filter(|page| page.path != "docs/paths.md")
        .filter_map(unexplained)
        .collect();
    assert_none(&findings);
}

#[test]
fn these_checks_can_fail() {
    let page = |text: &str| Source { path: "docs/x.md".to_owned(), text: text.to_owned() };
    assert_eq!(inside_words(&page("a\nAn obstacle, on an Occasion")).len(), 2);
    assert!(inside_words(&page("the setting `locks.poll_cap`")).is_empty());
    assert!(unexplained(&page("none")).is_none());
    let far = format!("its host id{}see paths.md", ".".repeat(NEAR));
    assert!(unexplained(&page(&far)).is_some());
    assert!(unexplained(&page("a\n\nits [host id](paths.md)\n\nb")).is_none());
}
