//! Checks the project's own conventions. Each check has a test that shows that it can fail.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod code;
mod dependencies;
mod files;
mod generated;
mod imports;
mod names;
mod pages;
mod proto;
mod readmes;
mod rules;
mod samples;
mod versions;
mod words;

use std::path::{Path, PathBuf};

/// A file of the repository: its path from the root, and its text.
pub(crate) struct Source {
    path: String,
    text: String,
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files under the folders whose names end so, without generated ones and what was installed or built.
pub(crate) fn sources(folders: &[&str], ending: &str) -> Vec<Source> {
    let mut found = Vec::new();
    for folder in folders {
        collect(&root().join(folder), ending, &mut found);
    }
    found.sort();
    // Pictures have no words.
    found.retain(|path| path.extension().is_none_or(|ending| ending != "png"));
    let read = |path: PathBuf| Source {
        text: std::fs::read_to_string(&path).unwrap(),
        path: path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned(),
    };
    let sources: Vec<Source> = found.into_iter().map(read).collect();
    assert!(!sources.is_empty(), "nothing to check in {folders:?}");
    sources
}

fn collect(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    const LEFT_OUT: [&str; 6] = ["target", "gen", "node_modules", "__pycache__", "dist", "build"];
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            // What begins with a dot was installed, or is a cache.
            if !LEFT_OUT.contains(&name) && !name.starts_with('.') {
                collect(&path, ending, found);
            }
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
}

/// Fails with all findings, one a line.
#[track_caller]
pub(crate) fn assert_none(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}
