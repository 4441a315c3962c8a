//! What the value of a setting can be: how each type is read, written and described.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::error::closest;
use super::setting::{Range, Setting};
use crate::lock::{Container, HostId, HostType, Layout, Prefix};
use crate::store::Secret;
use crate::telemetry::{Collector, Filter, Format, Ratio};
use crate::text;

/// A value as it was given, before anything is known of it.
#[derive(Clone, PartialEq)]
pub(super) enum Given {
    /// By a variable or a flag, which have text only.
    Word(String),
    /// By the file.
    Typed(toml::Value),
}

/// What a setting's value can be.
pub(super) trait Value: Sized {
    /// The value, or what would have been one.
    fn parse(setting: &Setting, given: &Given) -> Result<Self, String>;

    /// The value as the file would have it.
    fn to_toml(&self) -> toml::Value;

    /// The type and its range, for the documentation.
    fn describe(setting: &Setting) -> String;
}

impl Given {
    /// The text, if it is one.
    pub(super) fn text(&self) -> Result<&str, String> {
        match self {
            Self::Word(text) | Self::Typed(toml::Value::String(text)) => Ok(text),
            Self::Typed(other) => Err(format!("must be a string, not {}", article(other))),
        }
    }

    /// Whether it is a variable or a flag with nothing in it.
    pub(super) fn is_empty_word(&self) -> bool {
        matches!(self, Self::Word(text) if text.trim().is_empty())
    }

    /// Whether it is a list of tables: too long to be shown beside what is wrong in it.
    pub(super) fn has_tables(&self) -> bool {
        match self {
            Self::Word(text) => text.contains('{'),
            Self::Typed(value) => {
                value.as_array().is_some_and(|items| items.iter().any(toml::Value::is_table))
            }
        }
    }

    /// The items of a list. A word is one in brackets, as in the file or in JSON, or is split at its commas.
    /// An empty word is a mistake: a variable that nobody filled would take away what the file says.
    pub(super) fn items(&self) -> Result<Vec<Self>, String> {
        match self {
            Self::Word(text) if text.trim_start().starts_with('[') => {
                let list = bracketed(text).ok_or_else(|| {
                    "begins with a bracket, and is not a list such as [\"a\", \"b\"]".to_owned()
                })?;
                Self::Typed(list).items()
            }
            word if word.is_empty_word() => {
                Err("must not be empty: write [] for an empty list".to_owned())
            }
            Self::Word(text) => {
                Ok(text.split(',').map(|item| Self::Word(item.trim().to_owned())).collect())
            }
            Self::Typed(toml::Value::Array(items)) => {
                Ok(items.iter().cloned().map(Self::Typed).collect())
            }
            Self::Typed(other) => Err(format!("must be a list, not {}", article(other))),
        }
    }

    fn number(&self) -> Option<u64> {
        match self {
            Self::Word(text) => text.parse().ok(),
            Self::Typed(toml::Value::Integer(number)) => u64::try_from(*number).ok(),
            Self::Typed(_) => None,
        }
    }
}

impl fmt::Display for Given {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(text) => write!(formatter, "{text:?}"),
            Self::Typed(value) => write!(formatter, "{value}"),
        }
    }
}

fn bracketed(text: &str) -> Option<toml::Value> {
    let document: Option<toml::Table> = toml::from_str(&format!("list = {text}")).ok();
    document.and_then(|mut table| table.remove("list")).or_else(|| serde_json::from_str(text).ok())
}

fn article(value: &toml::Value) -> String {
    match value {
        toml::Value::String(_) => "a string".to_owned(),
        toml::Value::Integer(number) => format!("the number {number}"),
        toml::Value::Float(number) => format!("the number {number}"),
        toml::Value::Boolean(switch) => format!("{switch}"),
        toml::Value::Datetime(_) => "a date".to_owned(),
        toml::Value::Array(_) => "a list".to_owned(),
        toml::Value::Table(_) => "a section".to_owned(),
    }
}

fn text_value(text: impl ToString) -> toml::Value {
    toml::Value::String(text.to_string())
}

impl Value for String {
    fn parse(_: &Setting, given: &Given) -> Result<Self, String> {
        let text = given.text()?;
        if text.trim().is_empty() {
            return Err("must not be empty".to_owned());
        }
        if text.len() > 1_024 || text::invisible_in(text).is_some() {
            let problem = "must have at most 1024 bytes and no control or invisible characters";
            return Err(problem.to_owned());
        }
        Ok(text.to_owned())
    }

    fn to_toml(&self) -> toml::Value {
        text_value(self)
    }

    fn describe(_: &Setting) -> String {
        "text".to_owned()
    }
}

impl Value for Secret {
    fn parse(_: &Setting, given: &Given) -> Result<Self, String> {
        match given.text()?.trim() {
            "" => Err("must not be empty".to_owned()),
            text => Ok(Self::new(text)),
        }
    }

    /// S20: whoever asks sees the mask.
    fn to_toml(&self) -> toml::Value {
        text_value(format!("{self:?}"))
    }

    fn describe(_: &Setting) -> String {
        "secret".to_owned()
    }
}

impl Value for PathBuf {
    fn parse(setting: &Setting, given: &Given) -> Result<Self, String> {
        let path = Self::from(<String as Value>::parse(setting, given)?);
        if path.starts_with("~") {
            return Err("must not begin with ~, which only shells understand".to_owned());
        }
        Ok(path)
    }

    fn to_toml(&self) -> toml::Value {
        text_value(self.display())
    }

    fn describe(_: &Setting) -> String {
        "path".to_owned()
    }
}

impl Value for bool {
    fn parse(_: &Setting, given: &Given) -> Result<Self, String> {
        match given {
            Given::Word(text) => text.parse().map_err(|_| "must be true or false".to_owned()),
            Given::Typed(toml::Value::Boolean(switch)) => Ok(*switch),
            Given::Typed(other) => Err(format!("must be true or false, not {}", article(other))),
        }
    }

    fn to_toml(&self) -> toml::Value {
        toml::Value::Boolean(*self)
    }

    fn describe(_: &Setting) -> String {
        "`true` or `false`".to_owned()
    }
}

impl Value for usize {
    fn parse(setting: &Setting, given: &Given) -> Result<Self, String> {
        let (least, most) = match setting.range {
            Range::Count(least, most) => (least, most),
            Range::Any | Range::Span(..) => (0, u64::MAX),
        };
        given
            .number()
            .filter(|number| (least..=most).contains(number))
            .and_then(|number| Self::try_from(number).ok())
            .ok_or_else(|| format!("must be a whole number from {least} to {most}"))
    }

    fn to_toml(&self) -> toml::Value {
        toml::Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
    }

    fn describe(setting: &Setting) -> String {
        match setting.range {
            Range::Count(least, most) => format!("number, {least} to {most}"),
            Range::Any | Range::Span(..) => "number".to_owned(),
        }
    }
}

impl Value for Duration {
    fn parse(setting: &Setting, given: &Given) -> Result<Self, String> {
        let (shortest, longest) = match setting.range {
            Range::Span(shortest, longest) => (shortest, longest),
            Range::Any | Range::Count(..) => (Self::ZERO, Self::MAX),
        };
        let wrong = || {
            let (from, to) = (span_text(shortest), span_text(longest));
            format!("must be a duration from {from} to {to}, with its unit, such as \"{from}\"")
        };
        let text = given.text().map_err(|_| wrong())?;
        humantime::parse_duration(text)
            .ok()
            .filter(|span| (shortest..=longest).contains(span))
            .ok_or_else(wrong)
    }

    fn to_toml(&self) -> toml::Value {
        text_value(span_text(*self))
    }

    fn describe(setting: &Setting) -> String {
        match setting.range {
            Range::Span(shortest, longest) => {
                format!("duration, `{}` to `{}`", span_text(shortest), span_text(longest))
            }
            Range::Any | Range::Count(..) => "duration".to_owned(),
        }
    }
}

/// A span as people write it: `1h 30m`, and a day as `24h`.
fn span_text(span: Duration) -> String {
    if span == Duration::from_secs(86_400) {
        return "24h".to_owned();
    }
    humantime::format_duration(span).to_string()
}

/// An address to listen on; the empty text means none.
impl Value for Option<SocketAddr> {
    fn parse(_: &Setting, given: &Given) -> Result<Self, String> {
        match given.text()? {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                "must be an IP address and a port, such as \"127.0.0.1:50951\" or \"[::1]:50951\", \
                 or \"\" for none"
                    .to_owned()
            }),
        }
    }

    fn to_toml(&self) -> toml::Value {
        text_value(self.map(|address| address.to_string()).unwrap_or_default())
    }

    fn describe(_: &Setting) -> String {
        "IP address and port, or `\"\"` for none".to_owned()
    }
}

impl Value for Vec<String> {
    fn parse(setting: &Setting, given: &Given) -> Result<Self, String> {
        given.items()?.iter().map(|item| <String as Value>::parse(setting, item)).collect()
    }

    fn to_toml(&self) -> toml::Value {
        toml::Value::Array(self.iter().map(text_value).collect())
    }

    fn describe(_: &Setting) -> String {
        "list of strings".to_owned()
    }
}

impl Value for Vec<u32> {
    fn parse(_: &Setting, given: &Given) -> Result<Self, String> {
        let number = |item: &Given| item.number().and_then(|number| u32::try_from(number).ok());
        let items = given.items()?;
        let numbers: Option<Self> = items.iter().map(number).collect();
        numbers.ok_or_else(|| "must be a list of whole numbers, such as [1000, 1001]".to_owned())
    }

    fn to_toml(&self) -> toml::Value {
        toml::Value::Array(self.iter().map(|number| i64::from(*number).into()).collect())
    }

    fn describe(_: &Setting) -> String {
        "list of numbers".to_owned()
    }
}

/// A closed set of words.
pub(super) trait Choice: Copy + PartialEq + 'static {
    /// Each word with what it means.
    const CHOICES: &'static [(&'static str, Self)];

    /// The word for it.
    fn word(self) -> &'static str {
        let found = Self::CHOICES.iter().find(|(_, choice)| *choice == self);
        found.map(|(word, _)| *word).unwrap_or_default()
    }
}

impl<C: Choice> Value for C {
    fn parse(_: &Setting, given: &Given) -> Result<Self, String> {
        let text = given.text()?;
        let found = C::CHOICES.iter().find(|(word, _)| *word == text);
        found.map(|(_, choice)| *choice).ok_or_else(|| {
            let words: Vec<&str> = C::CHOICES.iter().map(|(word, _)| *word).collect();
            let meant = closest(text, words.iter().copied());
            let meant = meant.map(|word| format!("; did you mean {word:?}?")).unwrap_or_default();
            format!("must be one of {}{meant}", words.join(", "))
        })
    }

    fn to_toml(&self) -> toml::Value {
        text_value(self.word())
    }

    fn describe(_: &Setting) -> String {
        let words: Vec<String> = C::CHOICES.iter().map(|(word, _)| format!("`{word}`")).collect();
        words.join(", ")
    }
}

impl Choice for Layout {
    const CHOICES: &'static [(&'static str, Self)] = &[
        (Self::Readable.as_str(), Self::Readable),
        (Self::WebJobs.as_str(), Self::WebJobs),
        (Self::Hashed.as_str(), Self::Hashed),
    ];
}

impl Choice for Format {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("human", Self::Human), ("json", Self::Json)];
}

/// An empty filter would log errors only.
fn filter(text: &str) -> Result<Filter, String> {
    if text.trim().is_empty() {
        return Err("must not be empty: write off to log nothing".to_owned());
    }
    Filter::from_str(text).map_err(|error| error.to_string())
}

/// Texts that another module checks.
macro_rules! checked_texts {
    ($($type:ty: $name:literal, $check:expr;)*) => {$(
        impl Value for $type {
            fn parse(_: &Setting, given: &Given) -> Result<Self, String> {
                $check(given.text()?).map_err(|error| error.to_string())
            }

            fn to_toml(&self) -> toml::Value {
                text_value(self.as_str())
            }

            fn describe(_: &Setting) -> String {
                $name.to_owned()
            }
        }
    )*};
}

checked_texts! {
    Container: "container name, 3 to 63 characters", Container::parse;
    Prefix: "segments of `A-Z a-z 0-9 . _ -` between slashes, may be empty", Prefix::parse;
    HostId: "host id: lower-case letters, digits, single inner dashes, 1 to 32", HostId::parse;
    HostType: "text, 1 to 256 bytes", HostType::parse;
    Collector: "URL", Collector::parse;
    Ratio: "number, 0 to 1", Ratio::parse;
    Filter: "list of `target=level`", filter;
}
