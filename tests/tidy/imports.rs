//! Modules import only what they may; pure modules are pure.

use crate::{Source, assert_none, sources};

/// A module of `src/`, and the modules that it may import.
type Module = (&'static str, &'static [&'static str]);

const MODULES: [Module; 22] = [
    ("text", &[]),
    ("time", &[]),
    // Moments of tokens and records are values of the clock.
    ("lock", &["text", "time"]),
    ("record", &["lock", "text", "time"]),
    ("host_id", &["lock"]),
    // Moments of the clock become instants.
    ("timetable", &["time"]),
    ("schedule", &["record", "lock", "time", "timetable"]),
    ("hold", &["record", "lock", "time"]),
    ("queue", &["hold", "record", "lock", "time"]),
    ("sharing", &["hold", "record", "lock", "time"]),
    ("store", &["record", "lock", "time"]),
    // What a record says goes into the status beside it.
    ("webjobs", &["store", "schedule", "record", "lock", "time", "timetable"]),
    (
        "coordinator",
        &[
            "text",
            "queue",
            "hold",
            "sharing",
            "webjobs",
            "store",
            "schedule",
            "record",
            "lock",
            "time",
            "timetable",
        ],
    ),
    // Hold: what a save or a loss came to.
    (
        "scheduler",
        &[
            "coordinator",
            "webjobs",
            "hold",
            "store",
            "schedule",
            "record",
            "lock",
            "time",
            "timetable",
        ],
    ),
    ("access", &["lock"]),
    // Lock, schedule, time and timetable: the values that the coordinator speaks in.
    ("lobby", &["coordinator", "time"]),
    (
        "grpc",
        &[
            "coordinator",
            "scheduler",
            "access",
            "lobby",
            "record",
            "lock",
            "schedule",
            "text",
            "time",
            "timetable",
        ],
    ),
    // A document says what a client is told.
    ("view", &["coordinator", "scheduler", "grpc", "lock"]),
    // Formats of logs, bounds of leases, and the providers and rules that settings name.
    ("config", &["access", "lock", "host_id", "store", "telemetry", "text"]),
    ("telemetry", &["coordinator", "scheduler", "lobby", "store", "lock", "time"]),
    // Schedule: values of schedules, as the page shows them.
    (
        "admin",
        &[
            "access",
            "coordinator",
            "scheduler",
            "lobby",
            "telemetry",
            "view",
            "lock",
            "schedule",
            "time",
        ],
    ),
    ("testing", &["store", "record", "lock", "time"]),
];

/// Test code of a module may build what it is tried against.
pub(crate) fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("tests.rs") || path.ends_with("rig.rs")
}

pub(crate) fn module_of(path: &str) -> Option<&str> {
    let inside = path.strip_prefix("src/")?;
    let first = inside.split('/').next()?;
    Some(first.strip_suffix(".rs").unwrap_or(first).trim_end_matches("_tests"))
}

/// A file without the tests inside it, which stand at its end.
pub(crate) fn code_of(source: &Source) -> &str {
    source.text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default()
}

fn forbidden_imports(source: &Source) -> Vec<String> {
    let Some(module) = module_of(&source.path) else { return Vec::new() };
    let Some((_, allowed)) = MODULES.iter().find(|(name, _)| *name == module) else {
        let free = ["cli", "lib", "main"].contains(&module);
        return if free {
            Vec::new()
        } else {
            vec![format!("{}: not a known module", source.path)]
        };
    };
    if is_test(&source.path) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(code_of(source).lines()) {
        let line = line.split("//").next().unwrap_or_default();
        for part in line.split("crate::").skip(1) {
            let imported: String =
                part.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            let is_module = MODULES.iter().any(|(name, _)| *name == imported) || imported == "cli";
            if is_module && imported != module && !allowed.contains(&imported.as_str()) {
                findings
                    .push(format!("{}:{number}: {module} may not import {imported}", source.path));
            }
        }
    }
    findings
}

#[test]
fn rooms_import_along_the_arrows_only() {
    let findings: Vec<String> =
        sources(&["src"], ".rs").iter().flat_map(forbidden_imports).collect();
    assert_none(&findings);
}

/// The rows of the table in `hold`'s head that has its files: from each one imports those above it only.
fn rows(head: &str) -> Vec<Vec<&str>> {
    let cells = head.lines().filter_map(|line| line.strip_prefix("//! | `")?.split_once(" |"));
    cells
        .map(|(cell, _)| cell.split(['`', ',', ' ']).filter(|file| !file.is_empty()).collect())
        .collect()
}

/// Imports of one file of a room from another that do not go up its table. The room's head has what all of
/// them are about: the machine.
fn sideways(file: &str, code: &str, rows: &[Vec<&str>]) -> Vec<String> {
    let row = |file: &str| rows.iter().position(|row| row.contains(&file));
    let Some(own) = row(file) else {
        return vec![format!("{file}: in no row of the head's table")];
    };
    let imports = code.lines().filter_map(|line| line.strip_prefix("use super::"));
    imports
        .filter(|import| match import.split_once("::") {
            Some((from, _)) => row(from).is_none_or(|from| from >= own),
            None => import
                .split(['{', ',', ' ', '}', ';'])
                .any(|name| !["", "Hold", "Settings", "State"].contains(&name)),
        })
        .map(|import| format!("{file} imports {import}"))
        .collect()
}

#[test]
fn files_of_hold_import_along_its_table_only() {
    let all = sources(&["src/hold"], ".rs");
    let head = all.iter().find(|source| source.path == "src/hold/mod.rs").expect("hold has a head");
    let rows = rows(&head.text);
    let findings: Vec<String> = all
        .iter()
        .filter(|source| !is_test(&source.path) && source.path != head.path)
        .flat_map(|source| {
            let file = source.path.trim_start_matches("src/hold/").trim_end_matches(".rs");
            sideways(file, code_of(source), &rows)
        })
        .collect();
    assert_none(&findings);
}

/// Words that a pure module has no use for.
const IMPURE: [&str; 9] = [
    "async ",
    ".await",
    "tokio::",
    "tonic::",
    "rand::",
    "tracing::",
    "std::fs",
    "std::net",
    "Clock>",
];

fn impurities(source: &Source) -> Vec<String> {
    let pure =
        ["src/lock/", "src/timetable/", "src/schedule/", "src/hold/", "src/queue/", "src/sharing/"]
            .iter()
            .any(|module| source.path.starts_with(module));
    if !pure || is_test(&source.path) {
        return Vec::new();
    }
    let lines = (1..).zip(source.text.lines());
    lines
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .flat_map(|(number, line)| {
            let found = IMPURE.into_iter().filter(move |word| line.contains(word));
            found.map(move |word| format!("{}:{number}: {word} in a pure module", source.path))
        })
        .collect()
}

#[test]
fn lock_timetable_schedule_hold_and_queue_are_pure() {
    let findings: Vec<String> = sources(&["src"], ".rs").iter().flat_map(impurities).collect();
    assert_none(&findings);
}

#[test]
fn these_checks_can_fail() {
    let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let wrong = source("src/hold/mod.rs", "use crate::store::LeaseStore;\n");
    assert_eq!(forbidden_imports(&wrong), ["src/hold/mod.rs:1: hold may not import store"]);
    let right = source("src/hold/mod.rs", "use crate::lock::LockPath; // not crate::store::X\n");
    assert!(forbidden_imports(&right).is_empty());
    assert_eq!(forbidden_imports(&source("src/util.rs", "")), ["src/util.rs: not a known module"]);
    let rows = rows("//! | `event`, `idle` | values |\n//! | `held` | a hold |\n");
    for (file, wrong) in [
        ("event", "use super::held::Held;\n"),
        ("idle", "use super::event::Event;\n"),
        ("held", "use super::{Hold, Waiter};\n"),
        ("new", "use super::Hold;\n"),
    ] {
        assert_eq!(sideways(file, wrong, &rows).len(), 1, "{file}: {wrong}");
    }
    let right = "use super::event::{CallerId, Event};\nuse super::{Hold, State};\n";
    assert_eq!(sideways("held", right, &rows), [""; 0]);
    assert_eq!(impurities(&source("src/lock/key.rs", "async fn ask() {}")).len(), 1);
    assert!(impurities(&source("src/grpc/mod.rs", "async fn ask() {}")).is_empty());
}
