//! READMEs of the clients: the same headings in the same order, and code that their samples have.

use crate::samples::unindented;
use crate::{Source, assert_none, root, sources};

/// The headings that all have, with what belongs below each.
const SKELETON: &str = "clients/README.skeleton.md";

/// The clients: their folder, their language, the fence of its blocks, and where their samples are. Rust's
/// blocks are none of samples: they are compiled themselves, as examples of the crate's documentation.
const CLIENTS: [(&str, &str, &str, &str); 5] = [
    ("clients/go", "Go", "```go", ".go"),
    ("clients/java", "Java", "```java", ".java"),
    ("clients/python", "Python", "```python", ".py"),
    ("clients/rust", "Rust", "```rust", ".rs"),
    ("clients/typescript", "TypeScript", "```ts", ".ts"),
];

/// How long a first program may be for a newcomer to read it, in lines.
const SHORT: usize = 32;

fn headings<'a>(text: &'a str, language: &str) -> Vec<String> {
    let mut is_code = false;
    let lines = text.lines().filter(|line: &&'a str| {
        is_code ^= line.starts_with("```");
        !is_code && line.starts_with('#')
    });
    lines.map(|line| line.replace("LANGUAGE", language)).collect()
}

/// Where two lists of headings part.
fn differences(page: &str, wanted: &[String], found: &[String]) -> Vec<String> {
    let longest = wanted.len().max(found.len());
    let parts = (0..longest).map(|at| (wanted.get(at), found.get(at)));
    let first = parts.into_iter().find(|(wanted, found)| wanted != found);
    first
        .map(|(wanted, found)| format!("{page}: {found:?} stands where {wanted:?} belongs"))
        .into_iter()
        .collect()
}

/// The blocks with this fence.
fn blocks(page: &str, fence: &str) -> Vec<String> {
    let parts = page.split("\n```").collect::<Vec<_>>();
    let bare = fence.trim_start_matches('`');
    let begun = parts.iter().filter_map(|part| part.split_once('\n'));
    let ours = begun.filter(|(head, _)| head.split(',').next() == Some(bare));
    ours.map(|(_, code)| unindented(code)).collect()
}

/// The blocks that no sample has.
fn foreign(page: &Source, fence: &str, samples: &[Source]) -> Vec<String> {
    let samples: Vec<String> = samples.iter().map(|sample| unindented(&sample.text)).collect();
    let found = blocks(&page.text, fence).into_iter();
    let foreign = found.filter(|block| !samples.iter().any(|sample| sample.contains(block)));
    foreign.map(|block| format!("{}: no sample has\n{block}", page.path)).collect()
}

fn readme(folder: &str) -> Source {
    let path = format!("{folder}/README.md");
    let text = std::fs::read_to_string(root().join(&path)).unwrap();
    Source { path, text }
}

#[test]
fn readmes_of_the_clients_have_the_same_headings() {
    let skeleton = std::fs::read_to_string(root().join(SKELETON)).unwrap();
    let findings = CLIENTS.into_iter().flat_map(|(folder, language, ..)| {
        let page = readme(folder);
        differences(&page.path, &headings(&skeleton, language), &headings(&page.text, language))
    });
    assert_none(&findings.collect::<Vec<_>>());
}

/// What each client's folder has.
const ENTRIES: [&str; 5] = ["README.md", "check", "driver", "samples", "scenarios"];

#[test]
fn clients_have_the_same_entries() {
    let all =
        CLIENTS.into_iter().flat_map(|(folder, ..)| ENTRIES.map(|name| format!("{folder}/{name}")));
    let missing = all.filter(|path| !root().join(path).exists());
    assert_none(&missing.map(|path| format!("{path} is not there")).collect::<Vec<_>>());
}

#[test]
fn code_of_the_readmes_is_that_of_samples() {
    let mut findings = Vec::new();
    for (folder, language, fence, ending) in CLIENTS {
        let page = readme(folder);
        let first = blocks(&page.text, fence).first().map_or(0, |block| block.lines().count());
        if first == 0 || first > SHORT {
            findings.push(format!("{}: the first program has {first} lines", page.path));
        }
        if language != "Rust" {
            let samples = sources(&[&format!("{folder}/samples")], ending);
            findings.extend(foreign(&page, fence, &samples));
        }
    }
    assert_none(&findings);
}

#[test]
fn these_checks_can_fail() {
    let page = |text: &str| Source { path: "README.md".to_owned(), text: text.to_owned() };
    let wanted = headings("# For LANGUAGE\n```sh\n# no heading\n```\n## One\n", "Go");
    assert_eq!(wanted, ["# For Go", "## One"]);
    assert!(differences("x", &wanted, &headings("# For Go\n\n## One\n", "Go")).is_empty());
    assert_eq!(differences("x", &wanted, &headings("# For Go\n", "Go")).len(), 1);
    assert_eq!(differences("x", &wanted, &headings("# For Go\n## Two\n", "Go")).len(), 1);

    let shown = page("\n```go\nf(1)\n```\n\n```sh\ng\n```\n");
    let sample = |code: &str| [page(code)];
    assert!(foreign(&shown, "```go", &sample("  f(1)\n")).is_empty());
    assert_eq!(foreign(&shown, "```go", &sample("f(2)\n")).len(), 1);
    assert_eq!(blocks("\n```rust,no_run\nf()\n```\n", "```rust"), ["f()\n"]);
}
