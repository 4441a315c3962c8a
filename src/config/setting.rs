//! A setting: one row of the table from which parsing, `--print-config` and docs/configuration.md come.

use std::marker::PhantomData;
use std::time::Duration;

use super::sources::Context;
use super::value::{Given, Value};
use crate::store::Secret;

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name: section and key, joined by dots, as in the file.
    pub key: &'static str,
    /// What it is, in one sentence or two.
    pub doc: &'static str,
    /// What it is when nobody sets it.
    pub(super) default: Fallback,
    /// Whether its value is masked wherever it is shown, and refused as a flag (S20).
    pub secret: bool,
    pub(super) range: Range,
    describe: fn(&Self) -> String,
    check: fn(&Self, &Given) -> Result<toml::Value, String>,
}

/// What a setting is when nobody sets it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fallback {
    /// It has no value.
    None,
    /// This text, read as a variable's would be.
    Text(&'static str),
    /// What is found out at start; there may be nothing to find.
    Found {
        /// Where it is looked for.
        doc: &'static str,
        /// Looks for it, and answers with its text if it is there.
        find: fn(&Context<'_>) -> Option<String>,
    },
}

/// The numbers or spans that are allowed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Range {
    Any,
    Count(u64, u64),
    Span(Duration, Duration),
}

/// A row with the type of its value.
pub(super) struct Key<T> {
    pub(super) setting: Setting,
    value: PhantomData<fn() -> T>,
}

impl<T: Value> Key<T> {
    /// A row whose default is a text.
    pub(super) const fn new(key: &'static str, default: &'static str, doc: &'static str) -> Self {
        Self::with(key, Fallback::Text(default), doc)
    }

    /// A row without a default.
    pub(super) const fn optional(key: &'static str, doc: &'static str) -> Self {
        Self::with(key, Fallback::None, doc)
    }

    /// A row whose default is found out at start.
    pub(super) const fn found(
        key: &'static str,
        default: &'static str,
        find: fn(&Context<'_>) -> Option<String>,
        doc: &'static str,
    ) -> Self {
        Self::with(key, Fallback::Found { doc: default, find }, doc)
    }

    const fn with(key: &'static str, default: Fallback, doc: &'static str) -> Self {
        let setting = Setting {
            key,
            doc,
            default,
            secret: false,
            range: Range::Any,
            describe: T::describe,
            check: |setting, given| T::parse(setting, given).map(|value| value.to_toml()),
        };
        Self { setting, value: PhantomData }
    }

    /// The value in `given`.
    pub(super) fn parse(&self, given: &Given) -> Result<T, String> {
        T::parse(&self.setting, given)
    }
}

impl Key<usize> {
    /// The row with the least and the greatest number allowed.
    pub(super) const fn within(mut self, least: u64, most: u64) -> Self {
        self.setting.range = Range::Count(least, most);
        self
    }
}

impl Key<Duration> {
    /// The row with the shortest and the longest span allowed.
    pub(super) const fn within(mut self, shortest: Duration, longest: Duration) -> Self {
        self.setting.range = Range::Span(shortest, longest);
        self
    }
}

impl Key<Secret> {
    /// The row of a secret.
    pub(super) const fn secret(key: &'static str, doc: &'static str) -> Self {
        let mut row = Self::optional(key, doc);
        row.setting.secret = true;
        row
    }

    /// The row as that of a secret, which has a default that is found.
    pub(super) const fn masked(mut self) -> Self {
        self.setting.secret = true;
        self
    }
}

impl Setting {
    /// The environment variable that sets it: `LEASEHOLD_`, and the key in upper case with each dot as `_`.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("{PREFIX}{}", self.key.to_uppercase().replace('.', "_"))
    }

    /// The type of its value and what is allowed, for people.
    #[must_use]
    pub fn type_text(&self) -> String {
        (self.describe)(self)
    }

    /// What it is when nobody sets it, for people, in Markdown.
    #[must_use]
    pub fn default_text(&self) -> String {
        match self.default {
            Fallback::None => "none".to_owned(),
            Fallback::Text("" | "[]") => "empty".to_owned(),
            Fallback::Text(text) => format!("`{text}`"),
            Fallback::Found { doc, .. } => doc.to_owned(),
        }
    }

    /// The value in `given` as the file would have it.
    pub(super) fn check(&self, given: &Given) -> Result<toml::Value, String> {
        (self.check)(self, given)
    }
}

/// What the names of all variables of settings begin with.
pub(super) const PREFIX: &str = "LEASEHOLD_";

/// Rows of a section, each as a constant with the type of its value, and all of them as a table.
macro_rules! settings {
    ($($name:ident: $type:ty = $row:expr;)*) => {
        $(const $name: $crate::config::setting::Key<$type> = $row;)*

        /// This section's rows of the table.
        pub(super) const SETTINGS: &[$crate::config::setting::Setting] = &[$($name.setting),*];
    };
}

pub(super) use settings;
