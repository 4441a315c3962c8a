//! Lock paths: `{container}/{prefix}/{host_id}/{lock name}`, as `Namespace::lock_path` makes them, and the
//! layouts of the lock name.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::encoding::{cut, encode, hex};
use super::{HostId, HostType, LockKey, LockMode};
use crate::text::Quoted;

/// Names one lock in the store: container, a slash, and the name inside the container. Two callers exclude
/// each other if, and only if, their lock paths are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockPath(
    /// Shared: a sidecar keeps each path in several places.
    Arc<str>,
);

/// The longest name inside the container, in bytes: Azure's limit of a blob name.
const MAX_NAME: usize = 1_024;
/// The greatest number of segments of the name inside the container: Azure's limit.
const MAX_SEGMENTS: usize = 254;

/// Why a text is not a lock path, or not a part of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The container breaks Azure's rule.
    #[error(
        "{} is not a container name: 3 to 63 lower-case letters, digits and single inner dashes are allowed",
        Quoted(text)
    )]
    Container {
        /// What was given.
        text: String,
    },
    /// The prefix has a segment that no path may have.
    #[error(
        "{} is not a prefix: segments of A-Z a-z 0-9 . _ - between single slashes are allowed, \
         none of them \".\" or \"..\" or ending in a dot, 200 bytes in all",
        Quoted(text)
    )]
    Prefix {
        /// What was given.
        text: String,
    },
    /// In the `webjobs` layout, where names are raw, this one is not a valid blob name.
    #[error(
        "the webjobs layout cannot name this lock {}: {problem}; change the name or use another layout",
        Quoted(name)
    )]
    Name {
        /// The lock name that would result.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// In the `webjobs` layout, the name is the platform's own.
    #[error(
        "{} is a lock of the WebJobs platform itself, which other software must not acquire",
        Quoted(name)
    )]
    Reserved {
        /// The lock name that would result.
        name: String,
    },
}

impl LockPath {
    fn new(container: &Container, name: &str) -> Self {
        Self(format!("{container}/{name}").into())
    }

    /// The path of the blob `name` in `container`, as a store that lists its locks found it.
    #[must_use]
    pub fn from_parts(container: &Container, name: &str) -> Self {
        Self::new(container, name)
    }

    /// The whole path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path beside this one with another name inside the container.
    pub(super) fn renamed(&self, name: &str) -> Self {
        Self(format!("{}/{name}", self.container()).into())
    }

    /// The container: the part before the first slash.
    #[must_use]
    pub fn container(&self) -> &str {
        self.parts().0
    }

    /// The name inside the container.
    #[must_use]
    pub fn name(&self) -> &str {
        self.parts().1
    }

    /// No container has a slash.
    fn parts(&self) -> (&str, &str) {
        self.0.split_once('/').unwrap_or_default()
    }
}

impl fmt::Display for LockPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for LockPath {
    type Err = PathError;

    /// Reads a path that was written by `Display`.
    fn from_str(text: &str) -> Result<Self, PathError> {
        let (container, name) = text.split_once('/').unwrap_or((text, ""));
        let container = Container::parse(container)?;
        check_raw_name(name)?;
        Ok(Self::new(&container, name))
    }
}

/// The container that holds the locks, by Azure's rule: 3 to 63 characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Container(String);

impl Container {
    /// Checks `text`.
    ///
    /// # Errors
    /// When it breaks Azure's rule of container names.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let good = (3..=63).contains(&text.len())
            && text.bytes().all(allowed)
            && !text.starts_with('-')
            && !text.ends_with('-')
            && !text.contains("--");
        if good {
            Ok(Self(text.to_owned()))
        } else {
            Err(PathError::Container { text: text.to_owned() })
        }
    }

    /// The container as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Container {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// What stands between the container and the host id: segments between slashes, possibly none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(String);

impl Prefix {
    /// Checks `text`; the empty text is the empty prefix.
    ///
    /// # Errors
    /// When a segment is empty, `.`, `..`, ends in a dot or has other than `A-Z a-z 0-9 . _ -`, or it has
    /// over 200 bytes.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let good_segment = |segment: &str| {
            !segment.is_empty()
                && !segment.ends_with('.')
                && segment
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
        };
        if text.is_empty() || (text.len() <= 200 && text.split('/').all(good_segment)) {
            Ok(Self(text.to_owned()))
        } else {
            Err(PathError::Prefix { text: text.to_owned() })
        }
    }

    /// The prefix as text, without a slash at either end.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// How the lock name is made from a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layout {
    /// `{function}/{scope}/{mode}`, each part encoded: injective, and people can read it.
    #[default]
    Readable,
    /// `{function}[.{scope}][.Listener]`, raw: shared with WebJobs and Azure Functions hosts, and not
    /// injective.
    WebJobs,
    /// The SHA-256 of host type, function, scope and mode: nothing can be read from it.
    Hashed,
}

impl Layout {
    /// The layout's name in configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Readable => "readable",
            Self::WebJobs => "webjobs",
            Self::Hashed => "hashed",
        }
    }

    /// Whether a lock's checkpoint stays: older WebJobs SDKs drop the fields of others (S23).
    #[must_use]
    pub const fn keeps_checkpoints(self) -> bool {
        match self {
            Self::Readable | Self::Hashed => true,
            Self::WebJobs => false,
        }
    }

    /// Whether a lock can have several permits: where names are raw, a permit's could be another lock's
    /// (S28).
    #[must_use]
    pub const fn has_permits(self) -> bool {
        match self {
            Self::Readable | Self::Hashed => true,
            Self::WebJobs => false,
        }
    }
}

/// Where a deployment's locks are: everything of a lock path but the key.
#[derive(Clone, Debug)]
pub struct Namespace {
    /// The container that all paths lie in.
    pub container: Container,
    /// What stands before the host id.
    pub prefix: Prefix,
    /// How names are made.
    pub layout: Layout,
}

impl Namespace {
    /// The path of the lock `key` of the hosts `host_id`.
    ///
    /// # Errors
    /// In the `webjobs` layout, when the raw name is not a valid blob name, or belongs to the platform.
    pub fn lock_path(
        &self,
        host_id: &HostId,
        host_type: &HostType,
        key: &LockKey,
    ) -> Result<LockPath, PathError> {
        let lock_name = match self.layout {
            Layout::Readable => readable_name(key),
            Layout::Hashed => hashed_name(host_type, key),
            Layout::WebJobs => webjobs_name(key)?,
        };
        let name = format!("{}{lock_name}", self.host_prefix(host_id));
        if self.layout == Layout::WebJobs {
            check_raw_name(&name)?;
        }
        Ok(LockPath::new(&self.container, &name))
    }

    /// What the names of all locks of `host_id` begin with inside the container, the slash included.
    #[must_use]
    pub fn host_prefix(&self, host_id: &HostId) -> String {
        if self.prefix.0.is_empty() {
            format!("{host_id}/")
        } else {
            format!("{}/{host_id}/", self.prefix.0)
        }
    }

    /// What the paths of all locks in this namespace begin with, the container and the slash included.
    #[must_use]
    pub fn all_prefix(&self) -> String {
        if self.prefix.0.is_empty() {
            format!("{}/", self.container)
        } else {
            format!("{}/{}/", self.container, self.prefix.0)
        }
    }
}

pub(super) fn readable_name(key: &LockKey) -> String {
    let mode = key.mode();
    format!("{}/{}/{mode}", readable_part(key.function()), readable_part(key.scope()))
}

/// Bytes of an encoded part that stay as they are.
const MAX_PART: usize = 200;
/// Bytes that are kept of a longer part.
const CUT_PART: usize = 150;

fn readable_part(part: &str) -> String {
    if part.is_empty() {
        return "~".to_owned();
    }
    let mut encoded = encode(part);
    if encoded.ends_with('.') {
        encoded.pop();
        encoded.push_str("%2E");
    }
    if encoded.len() > MAX_PART {
        let digest = hex(Sha256::digest(part.as_bytes()).get(..16).unwrap_or_default());
        encoded = format!("{}~{digest}", cut(&encoded, CUT_PART));
    }
    encoded
}

fn hashed_name(host_type: &HostType, key: &LockKey) -> String {
    let mut digest = Sha256::new();
    for part in [host_type.as_str(), key.function(), key.scope(), key.mode().as_str()] {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part.as_bytes());
    }
    hex(&digest.finalize())
}

fn webjobs_name(key: &LockKey) -> Result<String, PathError> {
    let mut name = match (key.function(), key.scope()) {
        ("", scope) => scope.to_owned(),
        (function, "") => function.to_owned(),
        (function, scope) => format!("{function}.{scope}"),
    };
    if key.mode() == LockMode::Listener {
        name.push_str(".Listener");
    }
    if name.starts_with('/') {
        return Err(PathError::Name { name, problem: "it begins with a slash" });
    }
    if name == "host" || name == "WebJobs.Internal.Blobs.Listener" {
        return Err(PathError::Reserved { name });
    }
    Ok(name)
}

fn check_raw_name(name: &str) -> Result<(), PathError> {
    let problem = if name.is_empty() {
        "it is empty"
    } else if name.len() > MAX_NAME {
        "it is longer than 1,024 bytes"
    } else if name.split('/').count() > MAX_SEGMENTS {
        "it has more than 254 segments"
    } else if name.split('/').any(str::is_empty) {
        "it has an empty segment"
    } else if name.split('/').any(|segment| segment.ends_with('.')) {
        "it has a segment that ends in a dot"
    } else if name.contains('\\') {
        "it has a backslash, which storage clients turn into a slash"
    } else if name.chars().any(char::is_control) {
        "it has a control character"
    } else {
        return Ok(());
    };
    Err(PathError::Name { name: name.to_owned(), problem })
}

#[cfg(test)]
#[path = "path_tests.rs"]
mod tests;
