//! Modules import only what they may; pure modules are pure.

use std::collections::{BTreeMap, BTreeSet};

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

/// The rows of the table in a room's head that has its files and folders: from each one imports those above
/// it only.
fn rows(head: &str) -> Vec<Vec<&str>> {
    let cells = head.lines().filter_map(|line| line.strip_prefix("//! | `")?.split_once(" |"));
    cells
        .map(|(cell, _)| cell.split(['`', ',', ' ']).filter(|file| !file.is_empty()).collect())
        .collect()
}

/// The first names of what a path goes on with: several where it ends in braces.
fn first_names(rest: &str) -> Vec<&str> {
    let Some(group) = rest.strip_prefix('{') else {
        return vec![rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("")];
    };
    let (mut names, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.extend(first_names(group[begin..at].trim_start()));
                begin = at + 1;
            }
            _ => {}
        }
        if c == '}' && begin == at + 1 {
            break;
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// The name of a room's file, with its folder in the room.
fn name_of<'a>(room: &str, source: &'a Source) -> &'a str {
    let file = source.path.trim_start_matches("src/").trim_start_matches(room);
    file.trim_start_matches('/').trim_end_matches(".rs").trim_end_matches("/mod")
}

/// What a file of a room names of it, but for what is its own.
fn named(room: &str, source: &Source) -> BTreeSet<String> {
    let file = name_of(room, source);
    let own_name = file.split('/').next().unwrap_or_default();
    let without_comment = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    let code: Vec<String> = code_of(source).lines().map(without_comment).collect();
    let code = code.join("\n");
    let (from_here, from_root) =
        ("super::".repeat(file.split('/').count()), format!("crate::{room}::"));
    let paths = [from_here, from_root];
    let named =
        paths.iter().flat_map(|path| code.split(path.as_str()).skip(1)).flat_map(first_names);
    named.filter(|name| *name != own_name).map(str::to_owned).collect()
}

/// What a file of a room names that does not go up the room's table. `head` has what all of its files are
/// about; what else the head has is to be named by the file that it is from.
fn sideways(room: &str, source: &Source, rows: &[Vec<&str>], head: &[&str]) -> Vec<String> {
    let file = name_of(room, source);
    let row = |name: &str| rows.iter().position(|row| row.contains(&name));
    let Some(own) = row(file.split('/').next().unwrap_or_default()) else {
        return vec![format!("{file}: in no row of the head's table")];
    };
    named(room, source)
        .iter()
        .filter(|name| !head.contains(&name.as_str()))
        .filter(|name| row(name).is_none_or(|from| from >= own))
        .map(|name| format!("{file} imports {name}"))
        .collect()
}

/// The head of a room, and its other files but for its tests.
fn files_of(room: &str) -> (Option<Source>, Vec<Source>) {
    let head = format!("src/{room}/mod.rs");
    let files = sources(&[&format!("src/{room}")], ".rs").into_iter();
    let (mut heads, files): (Vec<_>, Vec<_>) =
        files.filter(|file| !is_test(&file.path)).partition(|file| file.path == head);
    (heads.pop(), files)
}

/// The rooms whose files import along a table, and what of their heads is for all files.
const TABLES: [(&str, &[&str]); 2] =
    [("hold", &["Hold", "Settings", "State"]), ("coordinator", &[])];

#[test]
fn files_of_a_room_import_along_its_table_only() {
    let mut findings = Vec::new();
    for (room, head_names) in TABLES {
        let (head, files) = files_of(room);
        let head = head.expect("a room has a head");
        let rows = rows(&head.text);
        assert!(rows.len() > 5, "{room} has a table");
        findings.extend(files.iter().flat_map(|source| sideways(room, source, &rows, head_names)));
    }
    assert_none(&findings);
}

/// Arrows between the files of `hold`, but for those to and from its head.
const ARROWS: usize = 60;
/// Files of a folder of the coordinator's, but for its head.
const A_DOZEN: usize = 12;

#[test]
fn a_reader_finds_few_files_in_a_room_and_few_arrows_between_them() {
    let (_, files) = files_of("hold");
    let is_file = |name: &String| files.iter().any(|file| name_of("hold", file) == *name);
    let arrows = files.iter().flat_map(|file| named("hold", file)).filter(is_file).count();
    assert!((20..=ARROWS).contains(&arrows), "{arrows} arrows in hold");
    let mut folders: BTreeMap<String, usize> = BTreeMap::new();
    for file in files_of("coordinator").1.iter().filter(|file| !file.path.ends_with("/mod.rs")) {
        let folder = file.path.rsplit_once('/').map(|(folder, _)| folder);
        *folders.entry(folder.unwrap_or_default().to_owned()).or_default() += 1;
    }
    let full = folders.iter().filter(|(_, files)| **files > A_DOZEN);
    assert_none(
        &full.map(|(folder, files)| format!("{folder}: {files} files")).collect::<Vec<_>>(),
    );
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
    let of = |room: &str, file: &str, text: &str, table: &str| {
        let head: &[&str] = if room == "hold" { &["Hold", "State"] } else { &[] };
        let file = source(&format!("src/{room}/{file}.rs"), text);
        sideways(room, &file, &rows(table), head)
    };
    let hold = "//! | `event`, `idle` | values |\n//! | `held` | a hold |\n";
    for (file, wrong) in [
        ("event", "use super::held::Held;\n"),
        ("idle", "use super::event::Event;\n"),
        ("held", "use super::{Hold, Waiter};\n"),
        ("held", "use super::{\n    Hold, Waiter,\n};\n"),
        ("new", "use super::Hold;\n"),
    ] {
        assert_eq!(of("hold", file, wrong, hold).len(), 1, "{file}: {wrong}");
    }
    let right = "use super::event::{CallerId, Event};\nuse super::{Hold, State};\n";
    assert_eq!(of("hold", "held", right, hold), [""; 0]);
    let rooms = "//! | `call` | values |\n//! | `actor` | tasks |\n//! | `Coordinator` | all |\n//! | `api` | calls |\n";
    for (file, wrong) in [
        ("call/error", "use crate::coordinator::actor::task::Task;\n"),
        ("call/mod", "use super::actor::task::Task;\n"),
        ("actor/task", "use super::super::api::saves::Saves;\n"),
        ("actor/timers/queue", "fn ask() { super::super::super::api::ask() }\n"),
        ("actor/task", "use crate::coordinator::Coordinator;\n"),
        ("actor/task", "use crate::coordinator::{call::{error, request}, api::{a, b}};\n"),
        ("api/saves", "use crate::coordinator::CallError;\n"),
        ("api/saves", "use crate::coordinator::{\n    CallError,\n};\n"),
        ("new", "use super::call::error::CallError;\n"),
    ] {
        assert_eq!(of("coordinator", file, wrong, rooms).len(), 1, "{file}: {wrong}");
    }
    let right = "use super::drain::Drain; // not crate::coordinator::CallError\n\
                 use crate::coordinator::{Coordinator, actor::task::{Command, Task}};\n\
                 use super::super::call::error::CallError;\nuse super::super::api::drain;\n\
                 #[cfg(test)]\nmod tests {\n    use crate::coordinator::Released;\n}\n";
    assert_eq!(of("coordinator", "api/saves", right, rooms), [""; 0]);
    assert_eq!(impurities(&source("src/lock/key.rs", "async fn ask() {}")).len(), 1);
    assert!(impurities(&source("src/grpc/mod.rs", "async fn ask() {}")).is_empty());
}
