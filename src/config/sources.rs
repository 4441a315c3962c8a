//! Where values come from: defaults < file < environment < flags, with the origin of each kept.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Mistake, Origin, closest};
use super::setting::{PREFIX, Setting};
use super::settings;
use super::value::Given;

/// All that a configuration is made from. Plain data, so that a test can make it up.
#[derive(Clone)]
pub struct Sources {
    /// The file, if one was named.
    pub file: Option<FileText>,
    /// The variables of the environment.
    pub variables: Vec<(OsString, OsString)>,
    /// The flags, in the order in which they were given: a later one replaces an earlier one of the same
    /// setting.
    pub flags: Vec<Flag>,
    /// The machine's name.
    pub host_name: Option<String>,
    /// How files are read that settings name.
    pub read_file: fn(&Path) -> io::Result<Vec<u8>>,
}

/// A file of settings.
#[derive(Clone)]
pub struct FileText {
    /// Its path, for messages.
    pub path: PathBuf,
    /// What is in it: TOML.
    pub text: String,
}

/// A setting given on the command line.
#[derive(Clone, PartialEq, Eq)]
pub struct Flag {
    /// The flag as the user typed it, such as `--store`.
    pub name: String,
    /// The setting that it sets.
    pub key: String,
    /// The value, as text.
    pub value: String,
}

impl Flag {
    /// What `--set key=value` means.
    ///
    /// # Errors
    /// When there is no `=`.
    pub fn set(text: &str) -> Result<Self, String> {
        let Some((key, value)) = text.split_once('=') else {
            return Err(format!("{text:?} is not key=value, such as locks.lease_duration=30s"));
        };
        let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
        Ok(Self { name: "--set".to_owned(), key, value })
    }
}

/// The variable that names the file of settings when no flag does.
const FILE_VARIABLE: &str = "LEASEHOLD_CONFIG";

impl Sources {
    /// This process's sources: `file`, or the one that `LEASEHOLD_CONFIG` names; no other place is searched.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn of_process(file: Option<&Path>, flags: Vec<Flag>) -> Result<Self, ConfigError> {
        let named = std::env::var_os(FILE_VARIABLE).filter(|path| !path.is_empty());
        let (named_by, path) = match (file, named) {
            (Some(path), _) => ("--config", Some(path.to_owned())),
            (None, named) => (FILE_VARIABLE, named.map(PathBuf::from)),
        };
        let file = path.map(|path| match std::fs::read_to_string(&path) {
            Ok(text) => Ok(FileText { path, text }),
            Err(error) => Err(Mistake::Unreadable {
                named_by: named_by.to_owned(),
                path,
                problem: error.to_string(),
            }),
        });
        let host_name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        Ok(Self {
            file: file.transpose()?,
            variables: std::env::vars_os().collect(),
            flags,
            host_name: host_name.map(|name| name.trim().to_owned()),
            read_file: |path| std::fs::read(path),
        })
    }
}

/// S20: any of the values may be a secret.
impl fmt::Debug for Sources {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Sources")
            .field("file", &self.file)
            .field("flags", &self.flags)
            .finish_non_exhaustive()
    }
}

/// S20: the text may have secrets in it.
impl fmt::Debug for FileText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FileText").field("path", &self.path).finish_non_exhaustive()
    }
}

/// S20: the value may be a secret that somebody should not have given here.
impl fmt::Debug for Flag {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, key, value: _ } = self;
        formatter.debug_struct("Flag").field("name", name).field("key", key).finish_non_exhaustive()
    }
}

/// What defaults are found by.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) sources: &'a Sources,
    pub(super) layers: &'a Layers,
}

/// Whether it is a URL with a user, and perhaps a password, in it (S20).
fn has_user(given: &Given) -> bool {
    let rest = given.text().ok().and_then(|text| text.split_once("://"));
    rest.is_some_and(|(_, rest)| rest.contains('@'))
}

impl Context<'_> {
    /// The variable's value, unless it is empty.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let found = self.sources.variables.iter().find(|(variable, _)| variable == name);
        found
            .and_then(|(_, value)| value.to_str())
            .filter(|value| !value.is_empty())
            .map(str::to_owned)
    }

    /// Whether somebody set the setting.
    pub(super) fn is_given(&self, key: &str) -> bool {
        self.layers.given.contains_key(key)
    }

    /// The number that somebody set the setting to, as text.
    pub(super) fn number(&self, key: &str) -> Option<String> {
        self.layers.given.get(key).map(|(given, _)| match given {
            Given::Word(text) => text.clone(),
            Given::Typed(value) => value.to_string(),
        })
    }

    /// The text that somebody set the setting to.
    pub(super) fn given(&self, key: &str) -> Option<&str> {
        self.layers.given.get(key).and_then(|(given, _)| given.text().ok())
    }
}

/// The sources laid over each other.
#[derive(Default)]
pub(super) struct Layers {
    /// What was set, with where: of several, the strongest.
    pub(super) given: BTreeMap<&'static str, (Given, Origin)>,
    pub(super) mistakes: Vec<Mistake>,
    /// Settings that were set and have no effect, because a stronger source chose what does not read them.
    pub(super) passed_over: BTreeSet<&'static str>,
    /// The file is no TOML: what it would have set is unknown.
    pub(super) file_lost: bool,
}

impl Layers {
    /// Lays flags over environment over file. Each value is checked, also one that another replaces.
    pub(super) fn of(sources: &Sources) -> Self {
        let mut layers = Self::default();
        if let Some(file) = &sources.file {
            layers.add_file(file);
        }
        layers.add_variables(sources);
        for flag in &sources.flags {
            let origin = Origin::Flag { name: flag.name.clone() };
            match find(&flag.key) {
                Some(setting) if setting.secret => {
                    let (key, variable) = (setting.key, setting.variable());
                    layers.mistakes.push(Mistake::SecretInFlag { origin, key, variable });
                }
                Some(setting) => layers.add(setting, Given::Word(flag.value.clone()), origin),
                None => layers.unknown(origin, &flag.key),
            }
        }
        layers
    }

    fn add(&mut self, setting: &'static Setting, given: Given, origin: Origin) {
        match setting.check(&given) {
            Ok(_) => {
                self.given.insert(setting.key, (given, origin));
            }
            Err(problem) => {
                let shown = !setting.secret && !given.has_tables() && !has_user(&given);
                let value = shown.then(|| given.to_string());
                self.mistakes.push(Mistake::Value { origin, key: setting.key, value, problem });
            }
        }
    }

    fn unknown(&mut self, origin: Origin, key: &str) {
        let name = key.to_owned();
        self.mistakes.push(if is_section(key) {
            Mistake::Section { origin, name }
        } else {
            Mistake::Unknown { origin, name, suggestion: suggest_key(key) }
        });
    }

    fn add_file(&mut self, file: &FileText) {
        let (spans, errors) = DeTable::parse_recoverable(&file.text);
        let lines = Lines { file };
        for error in &errors {
            let origin = lines.origin(error.span().map_or(0, |span| span.start));
            let problem = error.message().to_owned();
            self.mistakes.push(Mistake::Syntax { origin, problem });
        }
        match toml::from_str::<toml::Table>(&file.text) {
            Ok(table) if errors.is_empty() => self.add_table("", spans.get_ref(), &table, &lines),
            Ok(_) => self.file_lost = true,
            Err(error) => {
                self.file_lost = true;
                if errors.is_empty() {
                    let origin = lines.origin(error.span().map_or(0, |span| span.start));
                    let problem = error.message().to_owned();
                    self.mistakes.push(Mistake::Syntax { origin, problem });
                }
            }
        }
    }

    /// Walks the table of spans and the table of values side by side: one knows the lines, the other is easy
    /// to read.
    fn add_table(
        &mut self,
        section: &str,
        spans: &DeTable<'_>,
        table: &toml::Table,
        lines: &Lines<'_>,
    ) {
        let mut entries: Vec<_> = spans.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        for (name, span) in entries {
            let Some(value) = table.get(name.get_ref().as_ref()) else { continue };
            let dot = if section.is_empty() { "" } else { "." };
            let key = format!("{section}{dot}{}", name.get_ref());
            let origin = lines.origin(name.span().start);
            match (find(&key), span.get_ref(), value) {
                (Some(setting), _, value) => self.add(setting, Given::Typed(value.clone()), origin),
                (None, DeValue::Table(spans), toml::Value::Table(table))
                    if is_section(&key) || !table.is_empty() =>
                {
                    self.add_table(&key, spans, table, lines);
                }
                (None, ..) => self.unknown(origin, &key),
            }
        }
    }

    fn add_variables(&mut self, sources: &Sources) {
        for (name, value) in &sources.variables {
            let name = name.to_string_lossy();
            let origin = || Origin::Variable { name: name.to_string() };
            if !name.starts_with(PREFIX) || is_of_others(&name) {
                continue;
            }
            let value = value.to_str();
            let Some(setting) = settings().find(|setting| setting.variable() == name) else {
                if !is_service_link(&name, value.unwrap_or_default()) {
                    let suggestion = suggest_variable(&name);
                    let name = name.to_string();
                    self.mistakes.push(Mistake::Unknown { origin: origin(), name, suggestion });
                }
                continue;
            };
            match value {
                Some(value) => self.add(setting, Given::Word(value.to_owned()), origin()),
                None => self.mistakes.push(Mistake::Value {
                    origin: origin(),
                    key: setting.key,
                    value: None,
                    problem: "must be UTF-8".to_owned(),
                }),
            }
        }
    }
}

fn find(key: &str) -> Option<&'static Setting> {
    settings().find(|setting| setting.key == key)
}

fn is_section(key: &str) -> bool {
    settings()
        .any(|setting| setting.key.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')))
}

/// Variables that begin like ours and are read by clients and commands. A command that `run` or `every` has
/// started may start another one of ours.
fn is_of_others(name: &str) -> bool {
    const OTHERS: &[&str] = &[
        FILE_VARIABLE,
        "LEASEHOLD_ATTEMPT",
        "LEASEHOLD_AZURITE",
        "LEASEHOLD_CHECKPOINT_FILE",
        "LEASEHOLD_DEADLINE",
        "LEASEHOLD_ENDPOINT",
        "LEASEHOLD_FENCING_TOKEN",
        "LEASEHOLD_HOLD_ENDS",
        "LEASEHOLD_LATENESS",
        "LEASEHOLD_LEASE_ID",
        "LEASEHOLD_LOCK_PATH",
        "LEASEHOLD_LOG",
        "LEASEHOLD_MISSED",
        "LEASEHOLD_PERMIT",
        "LEASEHOLD_PROGRAM",
        "LEASEHOLD_PRIORITY",
        "LEASEHOLD_REBALANCE",
        "LEASEHOLD_REQUEST_ID",
        "LEASEHOLD_RUN_ID",
        "LEASEHOLD_SCHEDULED_AT",
        "LEASEHOLD_SHARE",
        "LEASEHOLD_YIELDS",
    ];
    OTHERS.contains(&name) || name.starts_with("LEASEHOLD_TEST_")
}

/// Variables that Kubernetes sets in every pod beside a service whose name begins with "leasehold".
fn is_service_link(name: &str, value: &str) -> bool {
    let numbered_port = name
        .split("_PORT_")
        .nth(1)
        .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()));
    name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || name.contains("_SERVICE_PORT_")
        || numbered_port
        || (name.ends_with("_PORT") && value.contains("://"))
}

/// The key that may have been meant: the only one that ends alike, or the closest spelling.
fn suggest_key(key: &str) -> Option<String> {
    let ends_alike = |setting: &&Setting| setting.key.rsplit('.').next() == key.rsplit('.').next();
    let mut alike = settings().filter(ends_alike);
    let found = match (alike.next(), alike.next()) {
        (Some(only), None) => Some(only.key),
        (None | Some(_), _) => closest(key, settings().map(|setting| setting.key)),
    };
    found.map(str::to_owned)
}

fn suggest_variable(name: &str) -> Option<String> {
    let variables: Vec<String> = settings().map(Setting::variable).collect();
    closest(name, variables.iter().map(String::as_str)).map(str::to_owned)
}

/// From the parser's offsets to lines.
struct Lines<'a> {
    file: &'a FileText,
}

impl Lines<'_> {
    fn origin(&self, offset: usize) -> Origin {
        let before = self.file.text.as_bytes().iter().take(offset);
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        Origin::File { path: self.file.path.clone(), line }
    }
}
