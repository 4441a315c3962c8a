//! The checked values of a host id and a host type; where they come from is the module `host_id`.

use std::fmt;
use std::sync::Arc;

use crate::text::{Quoted, invisible_in};

/// The namespace of a deployment's locks: 1 to 32 lower-case letters, digits and single inner dashes, the
/// rule of the WebJobs SDK, so that both can share a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(
    /// Shared: each hold has its own.
    Arc<str>,
);

/// Why a text is not a host id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is not a host id: it must match ^[a-z0-9](-?[a-z0-9]){{0,31}}$ and have at most 32 characters \
     (lower-case letters and digits, single dashes inside)",
    Quoted(text)
)]
pub struct HostIdError {
    text: String,
}

/// The longest host id, in characters.
const MAX_HOST_ID: usize = 32;
/// The longest host type, in bytes.
const MAX_HOST_TYPE: usize = 256;

impl HostId {
    /// Checks `text`.
    ///
    /// # Errors
    /// When it is not a valid host id.
    pub fn parse(text: &str) -> Result<Self, HostIdError> {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let good = !text.is_empty()
            && text.len() <= MAX_HOST_ID
            && text.bytes().all(allowed)
            && !text.starts_with('-')
            && !text.ends_with('-')
            && !text.contains("--");
        if good { Ok(Self(text.into())) } else { Err(HostIdError { text: text.to_owned() }) }
    }

    /// The host id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The name a deployment gives its kind of host ("Keeper-A"): 1 to 256 bytes, no control or invisible
/// characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostType(String);

/// Why a text is not a host type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostTypeError {
    /// It has no characters.
    #[error("a host type must not be empty")]
    Empty,
    /// It is over the limit.
    #[error("a host type has at most 256 bytes, this one has {length}")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// It has a control character, or one that nobody sees.
    #[error("a host type must not contain control or invisible characters")]
    Invisible,
}

impl HostType {
    /// Checks `text`.
    ///
    /// # Errors
    /// When it is empty, longer than 256 bytes, or has control or invisible characters.
    pub fn parse(text: &str) -> Result<Self, HostTypeError> {
        if text.is_empty() {
            return Err(HostTypeError::Empty);
        }
        if text.len() > MAX_HOST_TYPE {
            return Err(HostTypeError::TooLong { length: text.len() });
        }
        if invisible_in(text).is_some() {
            return Err(HostTypeError::Invisible);
        }
        Ok(Self(text.to_owned()))
    }

    /// The host type as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s19_host_ids_keep_the_rule_of_webjobs() {
        let longest = "a".repeat(32);
        for good in ["a", "0", "a-b", "keeper-a", "4b0611c2b06a92981657b5b4d45d8231", &longest] {
            assert!(HostId::parse(good).is_ok(), "{good}");
        }
        let too_long = "a".repeat(33);
        for bad in ["", "-", "-a", "a-", "a--b", "A", "a_b", "a.b", "ä", "a b", "a/b", &too_long] {
            assert!(HostId::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_was_parsed_is_what_is_written() {
        let host_id = HostId::parse("keeper-a").unwrap();
        assert_eq!((host_id.as_str(), host_id.to_string().as_str()), ("keeper-a", "keeper-a"));
        let host_type = HostType::parse("Keeper-A").unwrap();
        assert_eq!((host_type.as_str(), host_type.to_string().as_str()), ("Keeper-A", "Keeper-A"));
    }

    #[test]
    fn s19_host_types_have_limits() {
        assert!(HostType::parse("Zürich-日本").is_ok());
        assert_eq!(HostType::parse(""), Err(HostTypeError::Empty));
        for odd in ["a\nb", "a\u{200b}b", "\u{202e}ab"] {
            assert_eq!(HostType::parse(odd), Err(HostTypeError::Invisible));
        }
        assert!(HostType::parse(&"x".repeat(256)).is_ok());
        assert_eq!(HostType::parse(&"x".repeat(257)), Err(HostTypeError::TooLong { length: 257 }));
    }
}
