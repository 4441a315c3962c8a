//! The code of pages that go by task is that of samples which the clients' checks build.

use std::path::Path;

/// Where the code of a language is kept, for each of its blocks that is ours.
const SAMPLES: [(&str, &str); 4] = [
    ("go", "clients/go/samples/moving/main.go"),
    ("java", "clients/java/samples/dev/leasehold/samples/Report.java"),
    ("python", "clients/python/samples/moving.py"),
    ("ts", "clients/typescript/samples/moving.ts"),
];

/// Without indentation, which depends on where the code stands.
pub(crate) fn unindented(code: &str) -> String {
    code.lines().map(|line| format!("{}\n", line.trim())).collect()
}

/// The blocks of a language, without their first line, which says whether they are before or after the move.
fn ours(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let blocks = page.split(&fence).skip(1);
    let blocks = blocks.filter_map(|rest| rest.split_once("```")?.0.split_once('\n'));
    blocks
        .filter(|(title, _)| !title.contains("before"))
        .map(|(_, code)| unindented(code))
        .collect()
}

fn missing(page: &str, read: impl Fn(&Path) -> String) -> Vec<String> {
    let mut missing = Vec::new();
    for (language, path) in SAMPLES {
        let sample = unindented(&read(Path::new(path)));
        let blocks = ours(page, language);
        if blocks.is_empty() {
            missing.push(format!("docs/moving.md has no {language} of ours"));
        }
        for block in blocks.iter().filter(|block| !sample.contains(block.as_str())) {
            missing.push(format!("docs/moving.md: this is not in {path}:\n{block}"));
        }
    }
    missing
}

#[test]
fn code_of_the_page_about_moving_is_compiled() {
    let page = include_str!("../../docs/moving.md");
    let read = |path: &Path| std::fs::read_to_string(super::root().join(path)).unwrap();
    super::assert_none(&missing(page, read));
}

/// Pages whose blocks of a language are all parts of one sample.
const PAGES: [(&str, &str, &str); 11] = [
    ("README.md", "python", "clients/python/samples/blocking.py"),
    ("README.md", "ts", "clients/typescript/samples/first.ts"),
    ("docs/fencing.md", "go", "clients/go/samples/fenced/report.go"),
    ("docs/fencing.md", "java", "clients/java/samples/dev/leasehold/samples/Fenced.java"),
    ("docs/fencing.md", "python", "clients/python/samples/fenced.py"),
    ("docs/fencing.md", "rust", "clients/rust/samples/fenced.rs"),
    ("docs/fencing.md", "ts", "clients/typescript/samples/fenced.ts"),
    ("docs/leader-election.md", "go", "clients/go/samples/leader/main.go"),
    ("docs/leader-election.md", "python", "clients/python/samples/leader.py"),
    ("docs/permits.md", "go", "clients/go/samples/permits/main.go"),
    ("docs/permits.md", "python", "clients/python/samples/permits.py"),
];

/// What is wrong with the blocks of a language on a page, beside the sample.
fn foreign_blocks(page: &str, language: &str, sample: &str) -> Vec<String> {
    let sample = unindented(sample);
    let fence = format!("```{language}\n");
    let blocks: Vec<String> = page
        .split(&fence)
        .skip(1)
        .filter_map(|rest| rest.split_once("```").map(|(block, _)| unindented(block)))
        .collect();
    if blocks.is_empty() {
        return vec![format!("there is no {language}")];
    }
    blocks.into_iter().filter(|block| !sample.contains(block.as_str())).collect()
}

#[test]
fn code_of_pages_by_task_is_that_of_samples() {
    let read = |path: &str| std::fs::read_to_string(super::root().join(path)).unwrap();
    let findings: Vec<String> = PAGES
        .into_iter()
        .flat_map(|(page, language, sample)| {
            let found = foreign_blocks(&read(page), language, &read(sample));
            found.into_iter().map(move |problem| format!("{page}: not in {sample}: {problem}"))
        })
        .collect();
    super::assert_none(&findings);
}

#[test]
fn code_that_is_not_in_its_sample_is_found() {
    let block = "```go\nf(1)\n```\n";
    assert!(foreign_blocks(block, "go", "  f(1)\n").is_empty());
    assert_eq!(foreign_blocks(block, "go", "  f(2)\n"), ["f(1)\n"]);
    assert_eq!(foreign_blocks(block, "python", "f(1)\n").len(), 1);

    let page = "```go\n// before\nold()\n```\n```go\n// after\n\tf(1)\n```\n";
    assert_eq!(ours(page, "go"), ["f(1)\n"]);
    assert_eq!(missing(page, |_| "  f(1)\n".to_owned()).len(), 3, "only Go");
    assert_eq!(missing(page, |_| "  f(2)\n".to_owned()).len(), 4);
}
