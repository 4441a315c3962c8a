//! Pages: each of docs/ is in the site's list, and each link between documents leads to a heading that is
//! there.

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};

use crate::{Source, assert_none, root, sources};

/// The list of the site's pages.
const LIST: &str = "docs/SUMMARY.md";

/// What is wrong with a list of pages: a page that is missing, named twice, or not there.
fn unlisted(list: &str, pages: &[&str]) -> Vec<String> {
    let mut times: HashMap<&str, usize> = pages.iter().map(|page| (*page, 0)).collect();
    let mut findings = Vec::new();
    for named in targets(list) {
        match times.get_mut(named) {
            Some(count) => *count += 1,
            None => findings.push(format!("{LIST}: {named} is no page")),
        }
    }
    let wrong = times.into_iter().filter(|(_, count)| *count != 1);
    findings.extend(wrong.map(|(page, count)| format!("{LIST} has {page} {count} times")));
    findings
}

/// The targets of a text's links, without those that only look like one, such as a pattern in code.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let found = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    found.filter(|target| target.chars().all(|c| c.is_ascii_alphanumeric() || "_./#-".contains(c)))
}

/// A document's headings, as links name them: GitHub and mdBook agree for what our headings are made of.
fn headings(text: &str) -> HashSet<String> {
    let mut is_code = false;
    let mut found: HashMap<String, usize> = HashMap::new();
    let mut names = HashSet::new();
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        if is_code || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let name: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let name = name.to_lowercase();
        let before = found.entry(name.clone()).or_default();
        names.insert(if *before == 0 { name } else { format!("{name}-{before}") });
        *before += 1;
    }
    names
}

/// A path without its `..`.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
        plain
    })
}

/// Links to headings that their document does not have.
fn dead_fragments(source: &Source, documents: &HashMap<PathBuf, HashSet<String>>) -> Vec<String> {
    let folder = Path::new(&source.path).parent().unwrap_or_else(|| Path::new(""));
    let with_fragment = targets(&source.text).filter_map(|target| target.split_once('#'));
    with_fragment
        .filter_map(|(file, fragment)| {
            let itself = || PathBuf::from(&source.path);
            let path = if file.is_empty() { itself() } else { plain(&folder.join(file)) };
            let is_there = documents.get(&path).is_none_or(|names| names.contains(fragment));
            (!is_there).then(|| format!("{}: {file}#{fragment} has no heading", source.path))
        })
        .collect()
}

#[test]
fn every_page_is_in_the_site() {
    let list = std::fs::read_to_string(root().join(LIST)).unwrap();
    let pages = sources(&["docs"], ".md");
    let names = pages.iter().filter_map(|page| page.path.strip_prefix("docs/"));
    let names: Vec<&str> = names.filter(|name| *name != "SUMMARY.md").collect();
    assert!(names.len() > 20, "{names:?}");
    assert_none(&unlisted(&list, &names));
}

#[test]
fn links_lead_to_headings() {
    let all = sources(&[""], ".md");
    let documents = all.iter().map(|one| (PathBuf::from(&one.path), headings(&one.text))).collect();
    let findings: Vec<String> =
        all.iter().flat_map(|source| dead_fragments(source, &documents)).collect();
    assert_none(&findings);
}

#[test]
fn these_checks_can_fail() {
    let list = "- [A](a.md)\n- [B](b.md)\n- [B again](b.md)\n- [X](x.md)\n";
    assert_eq!(unlisted("- [A](a.md)\n", &["a.md"]), Vec::<String>::new());
    assert_eq!(unlisted(list, &["a.md", "b.md", "c.md"]).len(), 3);
    let text = "# What's `new`, and why\n## Twice\n## Twice\n```\n# no heading\n```\n";
    let names = headings(text);
    assert_eq!(names, ["whats-new-and-why", "twice", "twice-1"].map(str::to_owned).into());
    let documents = HashMap::from([(PathBuf::from("docs/a.md"), names)]);
    let source = |text: &str| Source { path: "docs/b.md".to_owned(), text: text.to_owned() };
    let dead = |text: &str| dead_fragments(&source(text), &documents).len();
    assert_eq!(dead("[a](a.md#twice-1) [b](../docs/a.md#whats-new-and-why)"), 0);
    assert_eq!(dead("[a](a.md#no-heading) [b](../docs/a.md#new)"), 2);
}
