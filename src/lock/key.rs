//! What a caller asks for: function, scope and mode.

use std::fmt;

use crate::text::invisible_in;

/// The longest function or scope, in bytes.
pub const MAX_NAME_BYTES: usize = 1_024;

/// What a lock is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// Held while a function runs.
    #[default]
    Function,
    /// Held while a listener listens.
    Listener,
}

impl LockMode {
    /// `FUNCTION` or `LISTENER`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Function => "FUNCTION",
            Self::Listener => "LISTENER",
        }
    }
}

impl fmt::Display for LockMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The name of a lock within a host id. Every `LockKey` keeps the limits (S19).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockKey {
    function: String,
    scope: String,
    mode: LockMode,
}

/// Why a function and a scope are not a valid key (S19).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Neither was given.
    #[error("function and scope are both empty; give at least one of them")]
    Empty,
    /// One is over the limit.
    #[error("{field} has {length} bytes; at most {MAX_NAME_BYTES} are allowed")]
    TooLong {
        /// `function` or `scope`.
        field: &'static str,
        /// Its length in bytes.
        length: usize,
    },
    /// One has a control character, or one that nobody sees: it would look like another name.
    #[error("{field} has the control or invisible character {}; printable text is allowed", character.escape_unicode())]
    Invisible {
        /// `function` or `scope`.
        field: &'static str,
        /// The first such character.
        character: char,
    },
}

impl KeyError {
    /// The field that is wrong.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Empty => "function",
            Self::TooLong { field, .. } | Self::Invisible { field, .. } => field,
        }
    }
}

impl LockKey {
    /// Checks function and scope: at most 1,024 bytes each, no control or invisible characters, not both
    /// empty.
    ///
    /// # Errors
    /// Names the field and the limit.
    pub fn new(function: &str, scope: &str, mode: LockMode) -> Result<Self, KeyError> {
        if function.is_empty() && scope.is_empty() {
            return Err(KeyError::Empty);
        }
        for (field, text) in [("function", function), ("scope", scope)] {
            if text.len() > MAX_NAME_BYTES {
                return Err(KeyError::TooLong { field, length: text.len() });
            }
            if let Some(character) = invisible_in(text) {
                return Err(KeyError::Invisible { field, character });
            }
        }
        Ok(Self { function: function.to_owned(), scope: scope.to_owned(), mode })
    }

    /// The function; empty for a host-wide lock.
    #[must_use]
    pub fn function(&self) -> &str {
        &self.function
    }

    /// The part that splits a function's lock; may be empty.
    #[must_use]
    pub fn scope(&self) -> &str {
        &self.scope
    }

    /// What the lock is for.
    #[must_use]
    pub const fn mode(&self) -> LockMode {
        self.mode
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s19_keys_have_limits() {
        let key = |function: &str, scope: &str| LockKey::new(function, scope, LockMode::Function);
        assert_eq!(key("", ""), Err(KeyError::Empty));
        assert!(key("f", "").is_ok());
        assert!(key("", "s").is_ok());
        assert!(key(&"f".repeat(1_024), &"s".repeat(1_024)).is_ok());
        assert_eq!(
            key(&"f".repeat(1_025), ""),
            Err(KeyError::TooLong { field: "function", length: 1_025 })
        );
        assert_eq!(
            key("f", "a\u{0}b"),
            Err(KeyError::Invisible { field: "scope", character: '\u{0}' })
        );
        assert_eq!(key("a\u{85}", "").unwrap_err().field(), "function");
        let refused = key("f", "a\u{202e}b").unwrap_err();
        assert_eq!(refused, KeyError::Invisible { field: "scope", character: '\u{202e}' });
        assert!(refused.to_string().contains("\\u{202e}"), "{refused}");
    }
}
