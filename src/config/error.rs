//! All that is wrong with a configuration, at once: where each mistake was made, and what to do about it.

use std::fmt;
use std::path::PathBuf;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// The file, at a line that counts from 1.
    File {
        /// The file that was read.
        path: PathBuf,
        /// The line that it is in, from 1.
        line: usize,
    },
    /// An environment variable.
    Variable {
        /// The name of the variable.
        name: String,
    },
    /// A flag of the command line.
    Flag {
        /// The flag, with its dashes.
        name: String,
    },
}

impl Origin {
    /// How strong it is: of two origins of a setting, the greater one counts.
    #[must_use]
    pub const fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::File { .. } => 1,
            Self::Variable { .. } => 2,
            Self::Flag { .. } => 3,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::File { path, line } => write!(formatter, "{}:{line}", path.display()),
            Self::Variable { name } | Self::Flag { name } => formatter.write_str(name),
        }
    }
}

/// A configuration that cannot be used. Not retried: somebody has to correct it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// All mistakes that were found, at least one.
    pub mistakes: Vec<Mistake>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mistakes.as_slice() {
            [only] => write!(formatter, "the configuration has an error: {only}"),
            mistakes => {
                write!(formatter, "the configuration has {} errors:", mistakes.len())?;
                mistakes.iter().try_for_each(|mistake| write!(formatter, "\n  - {mistake}"))
            }
        }
    }
}

impl std::error::Error for ConfigError {}

impl From<Mistake> for ConfigError {
    fn from(mistake: Mistake) -> Self {
        Self { mistakes: vec![mistake] }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// A file that was named cannot be read.
    #[error("{named_by}: the file {} cannot be read: {problem}", path.display())]
    Unreadable {
        /// What names it.
        named_by: String,
        /// The file that was read.
        path: PathBuf,
        /// Why, in the system's words.
        problem: String,
    },
    /// The file is not TOML.
    #[error("{origin}: {problem}")]
    Syntax {
        /// Where in the sources it stands.
        origin: Origin,
        /// What the parser says.
        problem: String,
    },
    /// There is no such setting.
    #[error("{origin}: there is no setting {name}{}", did_you_mean(suggestion.as_deref()))]
    Unknown {
        /// Where it was set.
        origin: Origin,
        /// The name as it was written.
        name: String,
        /// The name that may have been meant.
        suggestion: Option<String>,
    },
    /// A section was given a value.
    #[error("{origin}: {name} is a section: it has settings, and no value of its own")]
    Section {
        /// Where in the sources it stands.
        origin: Origin,
        /// The name of the section.
        name: String,
    },
    /// A value is not what the setting can be.
    #[error("{origin}: {key}{} {problem}", shown(value.as_deref()))]
    Value {
        /// Where it was set.
        origin: Origin,
        /// The setting that the value is for.
        key: &'static str,
        /// The value, unless it is secret.
        value: Option<String>,
        /// What it must be.
        problem: String,
    },
    /// A secret was given where every process of the machine can read it (S20).
    #[error(
        "{origin}: {key} is a secret, and the process list shows flags: put it into a file and give {key}_file, or set \
         the variable {variable}"
    )]
    SecretInFlag {
        /// The flag, as it was given.
        origin: Origin,
        /// The setting that it sets.
        key: &'static str,
        /// The variable that sets it.
        variable: String,
    },
    /// A setting is missing that another makes necessary.
    #[error("{key} is missing: {reason}; set it in the file, or as {variable}")]
    Missing {
        /// The setting that is missing.
        key: &'static str,
        /// What needs it.
        reason: String,
        /// The variable that sets it.
        variable: String,
    },
    /// Settings that do not go together.
    #[error("{origin}: {problem}")]
    Conflict {
        /// Where one of them was set.
        origin: Origin,
        /// Which, why, and what to do.
        problem: String,
    },
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

fn shown(value: Option<&str>) -> String {
    value.map(|value| format!(" = {value}:")).unwrap_or_default()
}

/// The candidate that `word` is most likely a misspelling of: at most a third of its characters are wrong.
pub(super) fn closest<'a>(
    word: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| distance * 3 <= candidate.chars().count())
        .min()
        .map(|(_, candidate)| candidate)
}
