//! The merged values, as the sections read them.

use std::io;
use std::path::{Path, PathBuf};

use super::error::{Mistake, Origin};
use super::setting::{Fallback, Key, Setting};
use super::settings;
use super::sources::{Context, Layers, Sources};
use super::value::{Given, Value};
use crate::store::Secret;

/// What was set, what stands in for what was not, and the mistakes so far.
pub(super) struct Values<'a> {
    sources: &'a Sources,
    layers: Layers,
}

/// A setting's value with where it comes from, to be shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// The setting's name.
    pub key: &'static str,
    /// The value as the file would have it; a mask if it is secret, nothing if it is not set.
    pub value: Option<toml::Value>,
    /// Whether the value is a mask.
    pub secret: bool,
    /// Where it comes from.
    pub origin: Origin,
    /// Whether it has no effect, because a stronger source chose what does not read it.
    pub passed_over: bool,
}

/// Bytes that the file of a secret has at the most.
const MAX_SECRET: usize = 65_536;

impl<'a> Values<'a> {
    pub(super) fn new(sources: &'a Sources) -> Self {
        Self { sources, layers: Layers::of(sources) }
    }

    /// The value, be it given or the default; nothing when there is neither.
    pub(super) fn get<T: Value>(&self, key: &Key<T>) -> Option<T> {
        self.found(&key.setting).and_then(|(given, _)| key.parse(&given).ok())
    }

    /// The value of a setting that always has one.
    pub(super) fn value<T: Value>(&self, key: &Key<T>) -> T {
        #[expect(clippy::expect_used, reason = "a test reads every setting's default")]
        self.get(key).expect("a setting that always has a value has a default")
    }

    /// What is wrong with a default that was found and cannot be used.
    pub(super) fn wrong_default<T: Value>(&self, key: &Key<T>) -> Option<String> {
        self.found(&key.setting).and_then(|(given, _)| key.parse(&given).err())
    }

    /// The value; a mistake when there is none, unless one has been noted for it.
    pub(super) fn require<T: Value>(&mut self, key: &Key<T>, reason: &str) -> Option<T> {
        let found = self.get(key);
        if found.is_none() && !self.is_mistaken(key.setting.key) {
            let (key, variable) = (key.setting.key, key.setting.variable());
            self.mistake(Mistake::Missing { key, reason: reason.to_owned(), variable });
        }
        found
    }

    /// A secret that is given itself, by a file, or by the name of a variable that has it; a mistake when it
    /// is not.
    pub(super) fn secret(&mut self, rows: &SecretRows, reason: &str) -> Option<Secret> {
        let direct = self.get(rows.itself);
        let file = self.get(rows.file);
        let variable = rows.variable.and_then(|row| self.get(row));
        let by_variable = rows.variable.map(|row| row.setting.key).filter(|_| variable.is_some());
        let given = [
            direct.is_some().then_some(rows.itself.setting.key),
            file.is_some().then_some(rows.file.setting.key),
            by_variable,
        ];
        let given: Vec<&str> = given.into_iter().flatten().collect();
        if let [one, others @ ..] = given.as_slice()
            && !others.is_empty()
        {
            let problem = format!("{one} and {} are both set: keep one", others.join(" and "));
            self.conflict(rows.file.setting.key, problem);
            return None;
        }
        if let Some(path) = file {
            return self.secret_in_file(rows.file.setting.key, path);
        }
        if let (Some(name), Some(row)) = (variable, rows.variable) {
            let context = Context { sources: self.sources, layers: &self.layers };
            let found = context.variable(&name).map(Secret::new);
            if found.is_none() {
                let problem = format!("names the variable {name}, which is not set, or empty");
                self.bad(row.setting.key, None, problem);
            }
            return found;
        }
        let noted = |key: &'static str| self.is_mistaken(key);
        if noted(rows.file.setting.key) || rows.variable.is_some_and(|row| noted(row.setting.key)) {
            return None;
        }
        self.require(rows.itself, reason)
    }

    /// The secret in a file that a setting names; a mistake when there is none.
    pub(super) fn secret_in_file(&mut self, key: &'static str, path: PathBuf) -> Option<Secret> {
        let bytes = self.read_file(key, &path)?;
        let text = String::from_utf8(bytes).ok().map(|text| text.trim().to_owned());
        let problem = match text {
            Some(text) if text.is_empty() => "names a file that is empty",
            Some(text) if text.len() > MAX_SECRET => "names a file of more than 64 KiB",
            Some(text) => return Some(Secret::new(text)),
            None => "names a file that is not UTF-8",
        };
        self.bad(key, Some(path.display().to_string()), problem.to_owned());
        None
    }

    /// The bytes of a file that a setting names; a mistake when it cannot be read.
    pub(super) fn read_file(&mut self, key: &'static str, path: &Path) -> Option<Vec<u8>> {
        match (self.sources.read_file)(path) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                let named_by = format!("{}: {key}", self.origin(key));
                let (path, problem) = (path.to_owned(), error.to_string());
                self.mistake(Mistake::Unreadable { named_by, path, problem });
                None
            }
        }
    }

    /// The bytes of a file that may be missing.
    pub(super) fn bytes_of(&self, path: &Path) -> io::Result<Vec<u8>> {
        (self.sources.read_file)(path)
    }

    /// Where the setting's value comes from.
    pub(super) fn origin(&self, key: &str) -> Origin {
        self.layers.given.get(key).map_or(Origin::Default, |(_, origin)| origin.clone())
    }

    /// Whether somebody set it.
    pub(super) fn is_given(&self, key: &str) -> bool {
        self.layers.given.contains_key(key)
    }

    /// Whether a mistake has been noted that makes the value of this setting, or of one in this section,
    /// unknown.
    pub(super) fn is_mistaken(&self, key_or_section: &str) -> bool {
        self.layers.file_lost
            || self.layers.mistakes.iter().any(|mistake| {
                let mistaken = match mistake {
                    Mistake::Value { key, .. }
                    | Mistake::SecretInFlag { key, .. }
                    | Mistake::Missing { key, .. } => *key,
                    Mistake::Unknown { suggestion: Some(meant), .. } => meant.as_str(),
                    Mistake::Unknown { suggestion: None, .. }
                    | Mistake::Unreadable { .. }
                    | Mistake::Syntax { .. }
                    | Mistake::Section { .. }
                    | Mistake::Conflict { .. } => return false,
                };
                mistaken
                    .strip_prefix(key_or_section)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
    }

    /// Refuses settings that only another choice of `selector` reads. One that is weaker than the choice is
    /// passed over: who overrides the choice need not take everything else back.
    pub(super) fn refuse_unread(&mut self, selector: &Setting, unread: &[&'static str], why: &str) {
        let chosen = self.origin(selector.key).rank();
        for key in unread {
            if !self.is_given(key) {
                continue;
            }
            if self.origin(key).rank() >= chosen {
                self.conflict(key, format!("{key} {why}"));
            } else {
                self.layers.passed_over.insert(key);
            }
        }
    }

    pub(super) fn conflict(&mut self, key: &str, problem: String) {
        let origin = self.origin(key);
        self.mistake(Mistake::Conflict { origin, problem });
    }

    pub(super) fn bad(&mut self, key: &'static str, value: Option<String>, problem: String) {
        let origin = self.origin(key);
        self.mistake(Mistake::Value { origin, key, value, problem });
    }

    fn mistake(&mut self, mistake: Mistake) {
        self.layers.mistakes.push(mistake);
    }

    /// Every setting with its value and where that comes from, in the table's order.
    pub(super) fn shown(&self) -> Vec<Shown> {
        settings()
            .map(|setting| {
                let found = self.found(setting);
                Shown {
                    key: setting.key,
                    value: found.as_ref().and_then(|(given, _)| setting.check(given).ok()),
                    secret: setting.secret,
                    passed_over: self.layers.passed_over.contains(setting.key),
                    origin: found.map_or(Origin::Default, |(_, origin)| origin),
                }
            })
            .collect()
    }

    pub(super) fn into_mistakes(self) -> Vec<Mistake> {
        self.layers.mistakes
    }

    fn found(&self, setting: &Setting) -> Option<(Given, Origin)> {
        if let Some(found) = self.layers.given.get(setting.key) {
            return Some(found.clone());
        }
        let default = match setting.default {
            Fallback::None => None,
            Fallback::Text(text) => Some(text.to_owned()),
            Fallback::Found { find, .. } => {
                find(&Context { sources: self.sources, layers: &self.layers })
            }
        };
        default.map(|text| (Given::Word(text), Origin::Default))
    }
}

/// The rows by which a secret can be given.
#[derive(Clone, Copy)]
pub(super) struct SecretRows {
    pub(super) itself: &'static Key<Secret>,
    pub(super) file: &'static Key<PathBuf>,
    pub(super) variable: Option<&'static Key<String>>,
}
