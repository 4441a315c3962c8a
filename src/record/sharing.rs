//! Who may take a lock from whom, and which locks are spread over sidecars (S33 to S35).

use std::fmt;

use crate::text::invisible_in;

use crate::time::UnixMillis;

/// How important a caller is among those of one lock: 0 to 2^31 - 1 (S33).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u32);

/// A number that is no priority (S33).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{number} is no priority; 0 to 2147483647 is allowed")]
pub struct PriorityError {
    /// What was given.
    pub number: u32,
}

impl Priority {
    /// That of callers that name none.
    pub const NONE: Self = Self(0);
    /// The greatest there is: signed numbers of 32 bits hold it in every language.
    pub const MAX: Self = Self(i32::MAX.unsigned_abs());

    /// Checks `number`: at most 2^31 - 1.
    ///
    /// # Errors
    /// When it is greater.
    pub const fn new(number: u32) -> Result<Self, PriorityError> {
        if number <= Self::MAX.0 { Ok(Self(number)) } else { Err(PriorityError { number }) }
    }

    /// The priority as a number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The name of a group of like locks (S34): 1 to 256 bytes without control or invisible characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShareName(Box<str>);

/// A text that is no name of a share (S34).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShareNameError {
    /// It is too long.
    #[error("has {length} bytes; at most {} are allowed", ShareName::MAX_BYTES)]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// It is empty.
    #[error("is empty")]
    Empty,
    /// It has a control character, or one that nobody sees.
    #[error("has a control or invisible character")]
    Invisible,
}

impl ShareName {
    /// The greatest length in bytes.
    pub const MAX_BYTES: usize = 256;

    /// Checks `name`.
    ///
    /// # Errors
    /// When it is empty, too long, or has a control or invisible character.
    pub fn new(name: &str) -> Result<Self, ShareNameError> {
        match name {
            "" => Err(ShareNameError::Empty),
            long if long.len() > Self::MAX_BYTES => {
                Err(ShareNameError::TooLong { length: long.len() })
            }
            odd if invisible_in(odd).is_some() => Err(ShareNameError::Invisible),
            name => Ok(Self(name.into())),
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ShareName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// What a caller says of its place among others (S33 to S35).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sharing {
    /// How important it is.
    pub priority: Priority,
    /// Whether it gives its lock up to a greater priority, or to a rebalance.
    pub yields: bool,
    /// The group of locks that this one belongs to.
    pub share: Option<ShareName>,
}

impl Sharing {
    /// None where nothing is said: most callers have nothing to say.
    #[must_use]
    pub fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

/// For whom a lock is kept for a short while after a break (S33).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// Callers of a smaller priority are not granted the lock.
    pub priority: Priority,
    /// Until then, by the store's clock.
    pub until: UnixMillis,
    /// How long that was when it was written, in milliseconds: a clock that was set must not make more of it.
    pub for_millis: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s33_a_priority_fits_a_signed_number_of_every_language() {
        assert_eq!(Priority::new(2_147_483_647), Ok(Priority::MAX));
        assert_eq!((Priority::NONE.get(), Priority::MAX.get()), (0, 2_147_483_647));
        let error = Priority::new(2_147_483_648).unwrap_err();
        assert_eq!(error.to_string(), "2147483648 is no priority; 0 to 2147483647 is allowed");
    }

    #[test]
    fn s34_a_share_has_a_name_of_at_most_256_bytes() {
        assert!(ShareName::new(&"ø".repeat(128)).is_ok());
        assert_eq!(ShareName::new("workers").unwrap().to_string(), "workers");
        let longer = "x".repeat(257);
        for (name, problem) in [
            ("", "is empty"),
            ("a\nb", "has a control or invisible character"),
            ("a\u{2066}b", "has a control or invisible character"),
            (longer.as_str(), "has 257 bytes; at most 256 are allowed"),
        ] {
            assert_eq!(ShareName::new(name).unwrap_err().to_string(), problem);
        }
    }
}
