//! Files: their length, their words, their links.

use std::path::Path;

use crate::{Source, assert_none, root, sources};

const MAX_LINES: usize = 700;

fn too_long(source: &Source) -> Option<String> {
    let lines = source.text.lines().count();
    (lines > MAX_LINES).then(|| format!("{} has {lines} lines, over {MAX_LINES}", source.path))
}

#[test]
fn no_file_is_longer_than_people_read() {
    let folders = ["src", "tests", "benches", "clients"];
    let mut findings: Vec<String> = sources(&folders, ".rs").iter().filter_map(too_long).collect();
    for ending in [".go", ".java", ".py", ".ts"] {
        let is_generated = |source: &&Source| source.path.contains("_pb2");
        let clients = sources(&["clients"], ending);
        findings.extend(clients.iter().filter(|one| !is_generated(one)).filter_map(too_long));
    }
    assert_none(&findings);
}

/// What a file has to have at the least to be one, and not a piece of another.
const A_THOUGHT: usize = 60;

/// A short file that defines nothing and only goes on with what another file defines.
fn only_continues(source: &Source) -> Option<String> {
    let lines = source.text.lines().count();
    let goes_on = source.text.lines().any(|line| line.starts_with("impl"));
    // Not indented: what an `impl` has is no definition of the file.
    let defines = |line: &str| {
        let public = line.strip_prefix("pub").map(str::trim_start);
        let restricted = public.and_then(|rest| rest.strip_prefix('(')?.split_once(") "));
        let line = restricted.map(|(_, rest)| rest).or(public).unwrap_or(line);
        ["struct ", "enum ", "trait ", "type ", "fn ", "async fn ", "const fn ", "macro_rules!"]
            .iter()
            .any(|word| line.starts_with(word))
    };
    let is_piece = lines < A_THOUGHT && goes_on && !source.text.lines().any(defines);
    (is_piece && !source.path.ends_with("/mod.rs"))
        .then(|| format!("{} only continues another file's `impl`", source.path))
}

#[test]
fn no_file_is_a_piece_of_another() {
    let all = sources(&["src", "clients/rust/src"], ".rs");
    assert_none(&all.iter().filter_map(only_continues).collect::<Vec<_>>());
}

/// Columns of a comment: a text that is wider is hard to read.
const COLUMNS: usize = 110;

/// The lines of comments that are too wide. A row of a table cannot be broken.
fn wide_comments(source: &Source) -> Vec<String> {
    let is_wide = |line: &str| {
        let text = line.trim_start();
        let is_row = text.trim_start_matches(['/', '!', ' ']).starts_with('|');
        text.starts_with("//") && !is_row && line.chars().count() > COLUMNS
    };
    let lines = (1..).zip(source.text.lines()).filter(|(_, line)| is_wide(line));
    lines.map(|(number, _)| format!("{}:{number} is wider than {COLUMNS}", source.path)).collect()
}

#[test]
fn comments_are_as_wide_as_people_read() {
    let mut all = sources(&["src", "tests", "benches", "clients", "docs"], ".rs");
    all.extend(sources(&[""], "build.rs"));
    let is_generated = |source: &&Source| source.path.contains("/gen/");
    let written = all.iter().filter(|source| !is_generated(source));
    let findings: Vec<String> = written.flat_map(wide_comments).collect();
    assert_none(&findings);
}

/// Documentation of one or two words, which repeats the name beside it. A link says where the rest is.
fn short_docs(source: &Source) -> Vec<String> {
    let lines: Vec<&str> = source.text.lines().collect();
    let doc = |line: &&str| line.trim_start().strip_prefix("///").map(str::to_owned);
    let texts: Vec<Option<String>> = lines.iter().map(doc).collect();
    let is_doc = |place: usize| texts.get(place).is_some_and(Option::is_some);
    let mut findings = Vec::new();
    for (place, text) in texts.iter().enumerate() {
        let Some(text) = text else { continue };
        let stands_alone =
            !is_doc(place + 1) && place.checked_sub(1).is_none_or(|before| !is_doc(before));
        if stands_alone && text.split_whitespace().count() <= 2 && !text.contains('[') {
            findings.push(format!("{}:{} says {text}", source.path, place + 1));
        }
    }
    findings
}

#[test]
fn documentation_says_more_than_the_name() {
    let all = sources(&["src", "clients/rust/src"], ".rs");
    let written = all.iter().filter(|source| !source.path.contains("/gen/"));
    let findings: Vec<String> = written.flat_map(short_docs).collect();
    assert_none(&findings);
}

/// Names that say nothing of what is inside.
const NAMELESS: [&str; 7] = ["util", "utils", "common", "helpers", "types", "manager", "misc"];

fn is_nameless(path: &str) -> bool {
    Path::new(path).components().any(|part| {
        let part = part.as_os_str().to_str().unwrap_or_default();
        NAMELESS.contains(&part.trim_end_matches(".rs"))
    })
}

#[test]
fn every_module_is_named_for_what_is_inside() {
    let named = sources(&["src", "tests", "benches", "clients"], ".rs");
    let findings: Vec<String> =
        named.into_iter().map(|source| source.path).filter(|path| is_nameless(path)).collect();
    assert_none(&findings);
}

/// What a stranger should not meet: paths of one machine, and work that is left.
fn strange_words(source: &Source) -> Vec<String> {
    // Written apart, so that this file does not find itself.
    let words = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
    ];
    let lines = (1..).zip(source.text.lines());
    lines
        .flat_map(|(number, line)| {
            let found = words.into_iter().filter(move |word| line.contains(word));
            found.map(move |word| format!("{}:{number}: {word}", source.path))
        })
        .collect()
}

#[test]
fn the_repository_speaks_of_the_project_alone() {
    let folders = ["src", "tests", "benches", "clients", "docs", "proto", ".ci", "packaging"];
    let mut all = sources(&folders, "");
    for name in ["README.md", "Makefile", "Cargo.toml", "CONTRIBUTING.md", "SECURITY.md"] {
        let text = std::fs::read_to_string(root().join(name)).unwrap();
        all.push(Source { path: name.to_owned(), text });
    }
    let findings: Vec<String> = all.iter().flat_map(strange_words).collect();
    assert_none(&findings);
}

fn module_header(source: &Source) -> Option<String> {
    let parts = ["Rules:", "May import:", "To add"];
    let head: Vec<&str> =
        source.text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim).collect();
    let head = head.join(" ");
    let missing = parts.into_iter().find(|part| !head.contains(part))?;
    Some(format!("{}: the module's header lacks {missing:?}", source.path))
}

#[test]
fn every_module_has_a_header() {
    let modules = sources(&["src"], "mod.rs");
    let modules = modules.iter().filter(|source| source.path.split('/').count() == 3);
    let findings: Vec<String> = modules.filter_map(module_header).collect();
    assert_none(&findings);
}

/// The rooms that `src/lib.rs` declares and has no row for in its map.
fn rooms_without_a_row(map: &str) -> Vec<String> {
    let declared = |line: &str| {
        let room = line.strip_prefix("pub mod ").or_else(|| line.strip_prefix("mod "))?;
        Some(room.trim_end_matches(';').to_owned())
    };
    let rows: String = map.lines().filter(|line| line.starts_with("//! |")).collect();
    let rooms = map.lines().filter_map(declared);
    rooms.filter(|room| !rows.contains(&format!("`{room}`"))).collect()
}

#[test]
fn the_map_has_every_room() {
    let map = std::fs::read_to_string(root().join("src/lib.rs")).unwrap();
    assert_none(&rooms_without_a_row(&map));
}

fn dead_links(source: &Source) -> Vec<String> {
    let folder = Path::new(&source.path).parent().unwrap_or_else(|| Path::new(""));
    let targets = source.text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets
        .filter(|target| !target.contains("://") && !target.starts_with('#'))
        // What only looks like a link, such as a pattern in code.
        .filter(|target| target.chars().all(|c| c.is_ascii_alphanumeric() || "_./#-".contains(c)))
        .filter_map(|target| {
            let file = target.split('#').next().unwrap_or_default();
            let is_there = root().join(folder).join(file).exists();
            (!is_there).then(|| format!("{}: {target} is not there", source.path))
        })
        .collect()
}

#[test]
fn links_between_documents_lead_somewhere() {
    let findings: Vec<String> = sources(&[""], ".md").iter().flat_map(dead_links).collect();
    assert_none(&findings);
}

#[test]
fn these_checks_can_fail() {
    let source = |text: String| Source { path: "docs/x.md".to_owned(), text };
    assert!(too_long(&source("\n".repeat(MAX_LINES + 1))).is_some());
    assert!(too_long(&source("\n".repeat(MAX_LINES))).is_none());
    let piece = |text: &str| only_continues(&source(text.to_owned()));
    assert!(piece("impl Hold {\n    fn check(&self) {}\n}\n").is_some());
    assert!(piece("pub(super) struct Idle;\n\nimpl Idle {}\n").is_none());
    assert!(piece("impl Hold {}\n\nfn line() {}\n").is_none());
    let wide = format!("/// {0}\n/// | {0} |\nlet text = \"{0}\";\n", "word ".repeat(30));
    assert_eq!(wide_comments(&source(wide)).len(), 1);
    let doc = |text: &str| short_docs(&source(format!("{text}\n    path: LockPath,\n"))).len();
    assert_eq!((doc("    /// Its path."), doc("    /// See [`Spec::path`].")), (1, 0));
    assert_eq!(
        (doc("    /// The path.\n    /// Units: none."), doc("/// The lock's own path.")),
        (0, 0)
    );
    assert!(is_nameless("src/util/mod.rs") && is_nameless("src/helpers.rs"));
    assert!(!is_nameless("src/utility.rs"));
    assert_eq!(strange_words(&source(concat!("// TO", "DO: later").to_owned())).len(), 1);
    assert!(module_header(&source("//! A module.".to_owned())).is_some());
    let map = "//! | [`time`] | the clock |\npub mod time;\nmod lobby;\n";
    assert_eq!(rooms_without_a_row(map), ["lobby"]);
    assert_eq!(dead_links(&source("[a](nowhere.md) [b](https://x.y) [c](#z)".to_owned())).len(), 1);
}
